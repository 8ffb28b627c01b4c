// SPDX-License-Identifier: Apache-2.0
/* A letter for the format and whether calls are held until they are whole, then an answer. Each way to cut the answer
 * gives the same parts, and what is given out as a whole is JSON. */
#undef NDEBUG
#include <jansson.h>

#include "test/unit/text/chat/parts_check.h"
#include "text/chat/call_formats.h"
#include "text/chat/call_tools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

static CallTools *tools_of(bool is_unconstrained) {
    static const char json[] = "[{\"name\": \"f\"}, {\"name\": \"g\"}]";
    const CallChoice choice = { .mode = CALL_MODE_AUTO };
    CallTools *tools = NULL;
    int r = call_tools_new(&tools, json, sizeof(json) - 1, &choice, NULL);

    assert(!r);
    tools->is_unconstrained = is_unconstrained;
    return tools;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes) {
    static PartsVocab vocab;
    static CallTools *tools[2];
    AnswerFormat format = { 0 };
    const CallShape *shapes;
    unsigned int bits;
    PartsLine line;
    size_t n;

    if (!len_bytes)
        return 0;
    if (!vocab.tokenizer) {
        parts_vocab_init(&vocab, 0, NULL);
        tools[0] = tools_of(false);
        tools[1] = tools_of(true);
    }
    shapes = call_formats_all(&n);
    bits = data[0];
    format.calls = &shapes[bits / 2 % n].format;
    format.tools = tools[bits & 1];
    parts_check(vocab.tokenizer, &format, (const char *)data + 1, len_bytes - 1, &line);
    if (bits & 1)
        for (const char *at = line.text.data; at && (at = strstr(at, "[c]")); at += 3) {
            const char *arguments = strchr(at, '(');
            json_t *json = arguments ? json_loads(arguments + 1, JSON_DISABLE_EOF_CHECK, NULL) : NULL;

            assert(memchr(line.text.data, 0, line.text.len_bytes) || strstr(line.text.data, "[t]") ||
                   json_is_object(json));
            json_decref(json);
        }
    str_buf_deinit(&line.text);
    return 0;
}
