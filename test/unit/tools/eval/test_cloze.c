// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files/file_io.h"
#include "test/unit/fixtures/real_model.h"
#include "test/unit/tools/eval/direct_score.h"
#include "tools/eval/quality/cloze.h"
#include "importer/check/scorer.h"

#define OWN "test/golden/choices/own.cloze.jsonl"
#define N_ROWS 5

static RealModel model;

static int setup(void **state) {
    real_model_open(&model, ENGINE_DEVICE_CPU, ISA_BEST, 2, 0);
    return 0;
}

static int teardown(void **state) {
    real_model_close(&model);
    return 0;
}

static void test_cloze_equals_direct(void **state) {
    ClozeOptions options = { .file = OWN, .with_rows = true };
    _cleanup_(freep) char *text = NULL;
    size_t len_bytes, n_right = 0, n_long = 0;
    double sum = 0;
    ErrText err = { 0 };
    Cloze cloze;
    char *rest;

    assert_int_equal(cloze_measure(&cloze, model.engine, &options, &err), 0);
    assert_int_equal(file_slurp(OWN, 1 << 20, &text, &len_bytes, &err), 0);
    rest = text;
    for (size_t i = 0; i < N_ROWS; i++) {
        const json_t *report = json_array_get(cloze.rows, i);
        json_t *row = json_loads(strsep(&rest, "\n"), 0, NULL);
        const char *prompt = json_string_value(json_object_get(row, "prompt"));
        const char *reference = json_string_value(json_object_get(row, "reference"));
        ScorePair pair;
        double value;
        bool greedy;

        assert_true(prompt && reference);
        assert_int_equal(
            score_pair_init(&pair, model.engine, prompt, strlen(prompt), reference, strlen(reference), &err), 0);
        value = direct_score(&model, pair.ids, pair.n, pair.n_context, &greedy);
        assert_true(json_real_value(json_object_get(report, "log_likelihood")) == value);
        assert_int_equal(json_is_true(json_object_get(report, "right")), greedy);
        assert_string_equal(json_string_value(json_object_get(report, "id")),
                            json_string_value(json_object_get(row, "id")));
        sum += value;
        n_right += greedy;
        n_long += pair.n - pair.n_context > 1;
        score_pair_deinit(&pair);
        json_decref(row);
    }
    assert_true(n_right > 0 && n_right < N_ROWS && n_long > 0);
    assert_int_equal(cloze.n_rows, N_ROWS);
    assert_int_equal(cloze.n_right, n_right);
    assert_int_equal(cloze.n_merged, 0);
    assert_true(cloze.perplexity == exp(-sum / N_ROWS));
    assert_true(cloze.standard_error == standard_error_of_share(n_right, N_ROWS));
    cloze_deinit(&cloze);
}

/* Writes the model's greedy continuation of a prompt by n tokens, and one with another last word. */
static void continue_greedily(const char *prompt, size_t n, StrBuf *text) {
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    size_t n_vocab = engine_info(model.engine)->n_vocab, from = 0;
    _cleanup_(freep) float *logits = malloc(n_vocab * sizeof(float));
    ErrText err = { 0 };

    assert_non_null(logits);
    assert_int_equal(tokenizer_encode(engine_tokenizer(model.engine), prompt, strlen(prompt), 0, &list, &err), 0);
    assert_int_equal(sequence_new(&sequence, model.engine, list.n + n, &err), 0);
    while (n--) {
        size_t best = 0;

        assert_int_equal(engine_forward(model.engine, sequence, list.ids + from, list.n - from, 1, logits, NULL), 0);
        from = list.n;
        for (size_t i = 0; i < n_vocab; i++)
            best = logits[i] > logits[best] ? i : best;
        assert_int_equal(token_list_add(&list, (uint32_t)best), 0);
        assert_int_equal(tokenizer_piece(engine_tokenizer(model.engine), (uint32_t)best, false, text), 0);
    }
}

static void put_row(FILE *file, const char *prompt, const char *reference) {
    json_t *row = json_pack("{s:s, s:s}", "prompt", prompt, "reference", reference);

    assert_non_null(row);
    assert_int_equal(json_dumpf(row, file, JSON_COMPACT), 0);
    fputc('\n', file);
    json_decref(row);
}

static void test_cloze_greedy(void **state) {
    static const char prompt[] = "One, two, three, four, five, six, seven,";
    _cleanup_(str_buf_deinit) StrBuf right = { 0 }, wrong = { 0 };
    char path[] = "/tmp/coordgen-cloze-XXXXXX";
    FILE *file = fdopen(mkstemp(path), "w");
    ClozeOptions options = { .file = path, .with_rows = true };
    ErrText err = { 0 };
    Cloze cloze;

    continue_greedily(prompt, 5, &right);
    continue_greedily(prompt, 4, &wrong);
    str_buf_append(&wrong, " zebra", 6);
    assert_non_null(file);
    put_row(file, prompt, right.data);
    put_row(file, prompt, wrong.data);
    fprintf(file, "{\"prompt\": \"%s\"}\n", prompt);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(cloze_measure(&cloze, model.engine, &options, &err), -EINVAL);
    assert_non_null(strstr(err.text, ":3: 'reference' is missing"));
    assert_non_null(strstr(err.text, path));
    options.limit = 2;
    assert_int_equal(cloze_measure(&cloze, model.engine, &options, &err), 0);
    assert_int_equal(cloze.n_rows, 2);
    assert_true(json_is_true(json_object_get(json_array_get(cloze.rows, 0), "right")));
    assert_int_equal(json_integer_value(json_object_get(json_array_get(cloze.rows, 0), "tokens")), 5);
    assert_true(json_is_false(json_object_get(json_array_get(cloze.rows, 1), "right")));
    assert_int_equal(cloze.n_right, 1);
    cloze_deinit(&cloze);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cloze_equals_direct),
        cmocka_unit_test(test_cloze_greedy),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
