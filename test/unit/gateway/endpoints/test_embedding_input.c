// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/strings/str_buf.h"
#include "gateway/endpoints/embedding_input.h"

typedef struct Read {
    json_t *body;
    EmbeddingInputs inputs;
    ApiError error;
    int r;
} Read;

static Read read_input(const char *text) {
    Read read = { .body = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) };

    assert_non_null(read.body);
    read.r = embedding_inputs_read(&read.inputs, read.body, "input", &read.error);
    return read;
}

static void read_deinit(Read *read) {
    embedding_inputs_deinit(&read->inputs);
    json_decref(read->body);
}

/* A string and a list of ids are one input each; lists of them are many. */
static void test_embedding_input_forms(void **state) {
    static const struct {
        const char *text;
        size_t n;
        const char *kinds; /* "t": text, "i": ids */
    } rows[] = {
        { "\"a\"", 1, "t" },
        { "[1, 2, 3]", 1, "i" },
        { "[\"a\", \"b\"]", 2, "tt" },
        { "[[1, 2], [3]]", 2, "ii" },
        { "[\"a\", [7], \"b\"]", 3, "tit" },
        { "[[4294967295]]", 1, "i" },
        { "{\"prompt_string\": \"a\"}", 1, "t" },
        { "[[1], {\"content\": [{\"type\": \"text\", \"text\": \"a\"}]}]", 2, "it" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_(read_deinit) Read read = read_input(rows[i].text);

        assert_int_equal(read.r, 0);
        assert_int_equal(read.inputs.n, rows[i].n);
        for (size_t j = 0; j < rows[i].n; j++) {
            assert_int_equal(read.inputs.texts[j] != NULL, rows[i].kinds[j] == 't');
            assert_int_equal(read.inputs.tokens[j] != NULL, rows[i].kinds[j] == 'i');
        }
    }
}

static void test_embedding_input_values(void **state) {
    _cleanup_(read_deinit) Read read = read_input("[\"one\", [5, 6, 4294967295]]");

    assert_string_equal(read.inputs.texts[0], "one");
    assert_int_equal(read.inputs.n_tokens[1], 3);
    assert_int_equal(read.inputs.tokens[1][0], 5);
    assert_int_equal(read.inputs.tokens[1][2], UINT32_MAX);
    _cleanup_(read_deinit) Read parts = read_input("{\"content\": [{\"type\": \"text\", \"text\": \"a \"},"
                                                   "{\"type\": \"text\", \"text\": \"b\"}]}");
    assert_string_equal(parts.inputs.texts[0], "a b");
}

static void test_embedding_input_refused(void **state) {
    static const struct {
        const char *text, *param, *message;
    } rows[] = {
        { "[]", "input", "input is empty" },
        { "\"\"", "input", "input is empty" },
        { "[\"a\", \"\"]", "input[1]", "input[1] is empty" },
        { "7", "input", "must be a string" },
        { "{}", "input", "needs a prompt_string" },
        { "{\"prompt_string\": 1}", "input", "must be a string" },
        { "{\"prompt_string\": \"\"}", "input", "is empty" },
        { "{\"prompt_string\": \"a\", \"multimodal_data\": []}", "input.multimodal_data", "unknown field" },
        { "{\"content\": \"a\"}", "input.content", "must be an array" },
        { "{\"content\": []}", "input", "is empty" },
        { "[{\"content\": [{\"type\": \"image_url\"}]}]", "input[0]", "input[0].content[0] must be" },
        { "[{\"content\": [{\"type\": \"text\", \"text\": \"a\\u0000\"}]}]", "input[0]", "content[0] must be" },
        { "[\"a\", 7]", "input[1]", "must be a string" },
        { "[[]]", "input[0]", "must be a string" },
        { "[1, \"a\"]", "input", "input[1] must be a token id" },
        { "[[1], [2, -1]]", "input[1]", "input[1][1] must be a token id" },
        { "[4294967296]", "input", "input[0] must be a token id" },
        { "[1, 1.5]", "input", "input[1] must be a token id" },
        { "[[1, [2]]]", "input[0]", "input[0][1] must be a token id" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_(read_deinit) Read read = read_input(rows[i].text);

        assert_int_equal(read.r, API_E_REFUSED);
        assert_int_equal(read.error.status, 400);
        assert_string_equal(read.error.param, rows[i].param);
        assert_non_null(strstr(read.error.message, rows[i].message));
    }
}

static void test_embedding_input_limit(void **state) {
    for (size_t n = EMBEDDING_INPUTS_MAX; n <= EMBEDDING_INPUTS_MAX + 1; n++) {
        _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;

        for (size_t i = 0; i < n; i++)
            str_buf_add(&text, i ? ",\"a\"" : "[\"a\"");
        str_buf_add(&text, "]");
        _cleanup_(read_deinit) Read read = read_input(text.data);
        assert_int_equal(read.r, n > EMBEDDING_INPUTS_MAX ? API_E_REFUSED : 0);
    }
}

/* A request to the service has inputs of one kind, and not too many. */
static void test_embedding_input_batches(void **state) {
    _cleanup_(read_deinit) Read read = read_input("[\"a\", \"b\", [1], [2], [3], \"c\"]");
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;

    assert_int_equal(embedding_inputs_batch(&read.inputs, 0), 2);
    assert_int_equal(embedding_inputs_batch(&read.inputs, 1), 1);
    assert_int_equal(embedding_inputs_batch(&read.inputs, 2), 3);
    assert_int_equal(embedding_inputs_batch(&read.inputs, 5), 1);
    for (size_t i = 0; i < EMBEDDING_BATCH_MAX + 5; i++)
        str_buf_add(&text, i ? ",\"a\"" : "[\"a\"");
    str_buf_add(&text, "]");
    _cleanup_(read_deinit) Read many = read_input(text.data);
    assert_int_equal(embedding_inputs_batch(&many.inputs, 0), EMBEDDING_BATCH_MAX);
    assert_int_equal(embedding_inputs_batch(&many.inputs, EMBEDDING_BATCH_MAX), 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding_input_forms),   cmocka_unit_test(test_embedding_input_values),
        cmocka_unit_test(test_embedding_input_refused), cmocka_unit_test(test_embedding_input_limit),
        cmocka_unit_test(test_embedding_input_batches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
