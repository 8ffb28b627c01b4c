// SPDX-License-Identifier: Apache-2.0
/* Flags as a letter from 'a' on, a regular expression, a line of "====", and a text. */
#undef NDEBUG
#include "test/unit/text/grammar/front_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes) {
    _cleanup_(grammar_builder_freep) GrammarBuilder *builder = NULL;
    size_t n_front, n_text;
    const char *text;
    GrammarPart root;
    ErrText err;
    int r;

    if (!len_bytes)
        return 0;
    text = front_cut(data + 1, len_bytes - 1, &n_front, &n_text);
    r = grammar_builder_new(&builder, &FRONT_LIMITS);
    assert(!r);
    r = grammar_part_regex(builder, (const char *)data + 1, n_front, (data[0] - 'a') & 15, &root, &err);
    assert(r >= 0);
    if (!r)
        front_check(builder, root, text, n_text);
    return 0;
}
