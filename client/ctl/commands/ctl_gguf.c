// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"
#include "importer/source_review.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_text.h"

static int error_code(int r) {
    switch (r) {
    case GGUF_E_CORRUPT:
        return COORDGEN_E_MODEL_CORRUPT;
    case -ENOENT:
        return COORDGEN_E_MODEL_NOT_FOUND;
    case -EACCES:
    case -EPERM:
        return COORDGEN_E_DENIED;
    default:
        return COORDGEN_E_INTERNAL;
    }
}

/* --- review ------------------------------------------------------------------------------------------------------- */

typedef struct Shown {
    StrBuf *text;  /* gets the ignored and refused entries; used entries are counted */
    json_t *array; /* gets all entries; NULL: text is wanted */
    size_t n_keys, n_tensors;
} Shown;

static void show_fate(void *arg, SourceFate fate, const char *kind, const char *name, const char *why) {
    const bool is_key = !strcmp(kind, "key"), is_tensor = !strcmp(kind, "tensor");
    Shown *shown = arg;

    if (shown->array) {
        json_t *entry = json_object();

        ctl_json_set(entry, "kind", json_string(kind));
        ctl_json_set(entry, "name", ctl_json_text(name, strlen(name)));
        ctl_json_set(entry, "fate", json_string(source_fate_name(fate)));
        if (*why)
            ctl_json_set(entry, "why", ctl_json_text(why, strlen(why)));
        (void)json_array_append_new(shown->array, entry);
    } else if (fate == SOURCE_USED && (is_key || is_tensor)) {
        *(is_key ? &shown->n_keys : &shown->n_tensors) += 1;
    } else {
        str_buf_addf(shown->text, "  %-8s %s%s%s%s%s\n", source_fate_name(fate), kind, *name ? " " : "", name,
                     *why ? ": " : "", why);
    }
}

/* Shows what an import would use, ignore and refuse, after the file's content. */
static void show_review(const GgufFile *file, StrBuf *text) {
    _cleanup_(str_buf_deinit) StrBuf entries = STR_BUF_NULL;
    Shown shown = { .text = &entries };
    const bool is_good = source_review(file, show_fate, &shown);

    if (!entries.len_bytes) /* a package has no review */
        return;
    str_buf_addf(text, "\nHere: %s\n", is_good ? "the model can be used" : "the model is refused");
    str_buf_addf(text, "  used     %zu keys, %zu tensors\n", shown.n_keys, shown.n_tensors);
    str_buf_append(text, entries.data, entries.len_bytes);
}

static void print_review(const GgufFile *file) {
    Shown shown = { .array = json_array() };
    char *text = NULL;

    if (shown.array) {
        (void)source_review(file, show_fate, &shown);
        text = json_array_size(shown.array) ? json_dumps(shown.array, JSON_COMPACT) : NULL;
    }
    if (text)
        printf("\"use\":%s,", text);
    free(text);
    json_decref(shown.array);
}

/* Prints the content of a model file, without the service. Returns an exit status. */
int ctl_show_file(Ctl *ctl, const char *path) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    ErrText err = { 0 };
    int r;

    r = gguf_open(&file, path, &err);
    if (r) {
        return ctl_failed(ctl, error_code(r), err.text, "", 0);
    }
    if (ctl->json)
        r = gguf_text_json(file, ctl->json == CTL_JSON_PRETTY, &text);
    else
        gguf_text_write(file, &text);
    if (!r && !ctl->json)
        show_review(file, &text);
    if (r || str_buf_failed(&text) || !text.len_bytes) {
        fputs("coordgenctl: out of memory\n", stderr);
        return CTL_EXIT_FAILED;
    }
    if (!ctl->json) {
        ctl_put(stdout, text.data, text.len_bytes, ctl->out_tty);
        return CTL_EXIT_OK;
    }
    /* The object is never empty, so "format" can be its first member. */
    printf("{\"format\":%d,", CTL_JSON_FORMAT);
    print_review(file);
    fwrite(text.data + 1, 1, text.len_bytes - 1, stdout);
    if (text.data[text.len_bytes - 1] != '\n')
        putchar('\n');
    return CTL_EXIT_OK;
}
