// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/strings/str_buf.h"
#include "gateway/plain/infill_request.h"

/* A file beside the one with the gap. */
typedef struct ExtraFile {
    const char *filename, *text;
} ExtraFile;

enum {
    EXTRA_FILES_MAX = 256,
};

/* Appends a file before the prefix, with an empty line behind it. A line between files that looks like a mark would be
 * written into the gap by small models. */
static int add_file(StrBuf *text, const json_t *value, size_t i, ApiError *error) {
    static const Field fields[] = {
        { "filename", field_set_text, offsetof(ExtraFile, filename), 0, 0 },
        { "text", field_set_text, offsetof(ExtraFile, text), 0, 0 },
        { "time", NULL, 0, 0, 0 }, /* editors send when the file was seen */
    };
    static const FieldTable table = { fields, ARRAY_LEN(fields) };
    ExtraFile file = { NULL, NULL };
    FieldPath path;
    int r;

    field_path(&path, "input_extra[%zu]", i);
    if (!json_is_object(value))
        return api_error_field(error, path.text, "%s must be an object with filename and text", path.text);
    r = fields_read(value, &table, 1, &file, path.text, error);
    if (!r && !file.text)
        return api_error_field(error, path.text, "%s has no text: give filename and text", path.text);
    if (r)
        return r;
    str_buf_add(text, file.text);
    str_buf_add(text, "\n\n");
    return 0;
}

static int check(const InfillRequest *infill, ApiError *error) {
    const CoordgenGenerateOptions *options = &infill->plain.request.options;

    if (!infill->prefix)
        return api_error_field(error, "input_prefix", "input_prefix is missing: the text before the gap");
    if (!infill->suffix)
        return api_error_field(error, "input_suffix", "input_suffix is missing: the text behind the gap");
    if (infill->plain.prompt && !json_is_string(infill->plain.prompt))
        return api_error_field(error, "prompt", "prompt must be a string: the beginning of the text in the gap");
    if (json_array_size(infill->extra) > EXTRA_FILES_MAX)
        return api_error_field(error, "input_extra", "input_extra has %zu files: at most %d",
                               json_array_size(infill->extra), EXTRA_FILES_MAX);
    if (options->constraint_kind != COORDGEN_CONSTRAINT_NONE && json_string_length(infill->plain.prompt))
        return api_error_field(error, "prompt",
                               "prompt: a grammar holds for the whole text in the gap: leave one of them out");
    return 0;
}

int infill_settle(PlainRequest *plain, ApiError *error) {
    InfillRequest *infill = (InfillRequest *)plain;
    GenerationRequest *request = &plain->request;
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    const char *begun = json_string_value(plain->prompt);
    int r = check(infill, error);

    for (size_t i = 0; !r && i < json_array_size(infill->extra); i++)
        r = add_file(&text, json_array_get(infill->extra, i), i, error);
    if (r)
        return r;
    str_buf_add(&text, infill->prefix);
    str_buf_add(&text, begun ? begun : "");
    plain->prompts = (PromptList){ .list = owned_array(&request->owned, 1, sizeof(Prompt)), .n = 1 };
    if (!plain->prompts.list || str_buf_failed(&text))
        return api_error_no_memory(error);
    plain->prompts.list[0].text = owned_take(&request->owned, str_buf_steal(&text));
    request->options.suffix = infill->suffix;
    request->names.prompt = "input_prefix";
    request->names.suffix = "input_suffix";
    return plain->prompts.list[0].text ? 0 : api_error_no_memory(error);
}

#define AT(field) offsetof(InfillRequest, field)
static const Field gap_fields[] = {
    { "input_prefix", field_set_text, AT(prefix), 0, 0 },
    { "input_suffix", field_set_text, AT(suffix), 0, 0 },
    { "input_extra", field_set_array, AT(extra), 0, 0 },
};
#undef AT

const FieldTable infill_fields = { gap_fields, ARRAY_LEN(gap_fields) };
