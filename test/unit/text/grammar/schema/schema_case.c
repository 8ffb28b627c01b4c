// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/text/grammar/schema/schema_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

void schema_case_init(SchemaCase *one, const char *schema, size_t len_bytes, const SchemaOptions *options) {
    const GrammarLimits limits = GRAMMAR_LIMITS_DEFAULT;
    const GrammarMatcherLimits matcher_limits = GRAMMAR_MATCHER_LIMITS_DEFAULT;
    const TokenBytes token = { (const uint8_t *)"{", 1 };
    _cleanup_(grammar_builder_freep) GrammarBuilder *builder = NULL;
    GrammarPart part;

    *one = (SchemaCase){ 0 };
    assert_int_equal(grammar_builder_new(&builder, &limits), 0);
    one->r = grammar_part_json_schema(builder, schema, len_bytes, options, &part, &one->err);
    if (!one->r)
        one->r = grammar_builder_finish(builder, part, &one->grammar, &one->err);
    if (one->r)
        return;
    assert_int_equal(token_trie_new(&one->trie, &token, 1), 0);
    assert_int_equal(grammar_matcher_new(&one->matcher, one->grammar, one->trie, &matcher_limits), 0);
}

void schema_case_deinit(SchemaCase *one) {
    grammar_matcher_free(one->matcher);
    token_trie_unref(one->trie);
    grammar_unref(one->grammar);
}

bool schema_case_fits(SchemaCase *one, const char *text, size_t len_bytes) {
    GrammarState state = grammar_matcher_start(one->matcher);
    int r = grammar_matcher_advance_bytes(one->matcher, state, text, len_bytes, &state);

    if (r && r != GRAMMAR_E_REFUSED)
        fail_msg("%d instead of an answer for %s", r, text);
    return !r && grammar_matcher_is_end_allowed(one->matcher, state);
}

void schema_case_write(StrBuf *text, const json_t *value) {
    size_t i, n = 0;
    const char *key;
    json_t *item;

    if (json_is_object(value)) {
        str_buf_add(text, "{");
        json_object_foreach((json_t *)value, key, item) {
            json_t *name = json_string(key);

            str_buf_add(text, n++ ? "," : "");
            schema_case_write(text, name);
            str_buf_add(text, ":");
            schema_case_write(text, item);
            json_decref(name);
        }
        str_buf_add(text, "}");
    } else if (json_is_array(value)) {
        str_buf_add(text, "[");
        json_array_foreach((json_t *)value, i, item) {
            str_buf_add(text, i ? "," : "");
            schema_case_write(text, item);
        }
        str_buf_add(text, "]");
    } else {
        char *plain = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));

        assert_non_null(plain);
        str_buf_add(text, plain);
        free(plain);
    }
}
