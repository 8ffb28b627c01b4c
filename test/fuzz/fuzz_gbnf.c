// SPDX-License-Identifier: Apache-2.0
/* Grammars in GBNF, a line of "====", and a text. */
#undef NDEBUG
#include "test/unit/text/grammar/front_check.h"
#include "text/grammar/gbnf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes) {
    _cleanup_(grammar_builder_freep) GrammarBuilder *builder = NULL;
    size_t n_front, n_text;
    const char *text = front_cut(data, len_bytes, &n_front, &n_text);
    GrammarPart root;
    ErrText err;
    int r = grammar_builder_new(&builder, &FRONT_LIMITS);

    assert(!r);
    r = gbnf_parse(builder, (const char *)data, n_front, &root, &err);
    assert(r >= 0);
    if (!r)
        front_check(builder, root, text, n_text);
    return 0;
}
