// SPDX-License-Identifier: Apache-2.0
/* Writes what `mask` did as JSON lines, so that other matchers can be measured on the same tokens. The first line has
 * the vocabulary, each further one a schema with its instances. */
#ifndef COORDGEN_EVAL_MASK_TRACE_H
#define COORDGEN_EVAL_MASK_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/strings/str_buf.h"
#include "text/grammar/token_trie.h"

typedef struct MaskTrace {
    StrBuf text;
} MaskTrace;

void mask_trace_deinit(MaskTrace *trace);
/* Adds the line {"tokens": [hexadecimal bytes, ...], "ends": [id, ...]}; a control token has no bytes. */
void mask_trace_vocabulary(MaskTrace *trace, const TokenBytes *tokens, uint32_t n_tokens, const uint32_t *ends,
                           uint32_t n_ends);
/* Begins the line {"line": L, "compile_ns": N, "is_refused": B, "tests": [...]} of the schema in line L of the
 * input. */
void mask_trace_begin_schema(MaskTrace *trace, size_t line, uint64_t compile_ns, bool is_refused);
/* Begins an instance {"valid": B, "tokens": [...], "mask_ns": [...], "is_accepted": B}. */
void mask_trace_begin_test(MaskTrace *trace, bool is_valid, const uint32_t *tokens, size_t n_tokens);
void mask_trace_mask(MaskTrace *trace, uint64_t ns);
void mask_trace_end_test(MaskTrace *trace, bool is_accepted);
void mask_trace_end_schema(MaskTrace *trace);

#endif
