// SPDX-License-Identifier: Apache-2.0
#include "tools/eval/mask_trace.h"

#include <inttypes.h>

void mask_trace_deinit(MaskTrace *trace) {
    str_buf_deinit(&trace->text);
}

/* Appends a comma, unless a list begins here. */
static void separate(MaskTrace *trace) {
    const StrBuf *text = &trace->text;

    if (text->data && text->len_bytes && text->data[text->len_bytes - 1] != '[')
        str_buf_add(&trace->text, ",");
}

static const char *name_of(bool value) {
    return value ? "true" : "false";
}

void mask_trace_vocabulary(MaskTrace *trace, const TokenBytes *tokens, uint32_t n_tokens, const uint32_t *ends,
                           uint32_t n_ends) {
    str_buf_add(&trace->text, "{\"tokens\":[");
    for (uint32_t id = 0; id < n_tokens; id++) {
        separate(trace);
        str_buf_add(&trace->text, "\"");
        for (uint32_t i = 0; i < tokens[id].n_bytes; i++)
            str_buf_addf(&trace->text, "%02x", tokens[id].bytes[i]);
        str_buf_add(&trace->text, "\"");
    }
    str_buf_add(&trace->text, "],\"ends\":[");
    for (uint32_t i = 0; i < n_ends; i++) {
        separate(trace);
        str_buf_addf(&trace->text, "%" PRIu32, ends[i]);
    }
    str_buf_add(&trace->text, "]}\n");
}

void mask_trace_begin_schema(MaskTrace *trace, size_t line, uint64_t compile_ns, bool is_refused) {
    str_buf_addf(&trace->text, "{\"line\":%zu,\"compile_ns\":%" PRIu64 ",\"is_refused\":%s,\"tests\":[", line,
                 compile_ns, name_of(is_refused));
}

void mask_trace_begin_test(MaskTrace *trace, bool is_valid, const uint32_t *tokens, size_t n_tokens) {
    separate(trace);
    str_buf_addf(&trace->text, "{\"valid\":%s,\"tokens\":[", name_of(is_valid));
    for (size_t i = 0; i < n_tokens; i++) {
        separate(trace);
        str_buf_addf(&trace->text, "%" PRIu32, tokens[i]);
    }
    str_buf_add(&trace->text, "],\"mask_ns\":[");
}

void mask_trace_mask(MaskTrace *trace, uint64_t ns) {
    separate(trace);
    str_buf_addf(&trace->text, "%" PRIu64, ns);
}

void mask_trace_end_test(MaskTrace *trace, bool is_accepted) {
    str_buf_addf(&trace->text, "],\"is_accepted\":%s}", name_of(is_accepted));
}

void mask_trace_end_schema(MaskTrace *trace) {
    str_buf_add(&trace->text, "]}\n");
}
