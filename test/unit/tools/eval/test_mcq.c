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
#include "base/min_max.h"
#include "test/unit/fixtures/real_model.h"
#include "test/unit/tools/eval/direct_score.h"
#include "tools/eval/quality/mcq.h"
#include "importer/check/scorer.h"

#define OWN "test/golden/choices/own.mcq.jsonl"
#define N_ROWS 8

static RealModel model;
static char folder[] = "/tmp/coordgen-mcq-XXXXXX", path[64];

static int setup(void **state) {
    real_model_open(&model, ENGINE_DEVICE_CPU, ISA_BEST, 2, 0);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/rows.jsonl", folder);
    return 0;
}

static int teardown(void **state) {
    real_model_close(&model);
    unlink(path);
    return rmdir(folder);
}

static void write_rows(const char *text) {
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fputs(text, file) < 0, 0);
    assert_int_equal(fclose(file), 0);
}

static Mcq measure(const char *file, McqNormalise normalise, size_t limit) {
    McqOptions options = { .file = file, .normalise = normalise, .limit = limit, .with_rows = true };
    ErrText err = { 0 };
    Mcq mcq;

    if (mcq_measure(&mcq, model.engine, &options, &err))
        fail_msg("%s", err.text);
    return mcq;
}

static void check_refused(int code, const char *rows, const char *text) {
    McqOptions options = { .file = path };
    char where[80];
    ErrText err = { 0 }, before = { 0 };
    Mcq mcq;

    write_rows(rows);
    assert_int_equal(mcq_measure(&mcq, model.engine, &options, &err), code);
    snprintf(where, sizeof(where), "%s:", path);
    if (!strstr(err.text, where) || !strstr(err.text, text))
        fail_msg("'%s' is not in: %s", text, err.text);
    assert_int_equal(mcq_check(engine_tokenizer(model.engine), engine_info(model.engine)->n_context, &options, &before),
                     code);
    assert_string_equal(before.text, err.text);
}

/* Every score, choice and sum equals one computed from the file's own text, one token a step. */
static void test_mcq_equals_direct(void **state) {
    Mcq mcq = measure(OWN, MCQ_NORMALISE_AUTO, 0);
    _cleanup_(freep) char *text = NULL;
    size_t len_bytes, n_right = 0, n_merged = 0;
    ErrText err = { 0 };
    char *rest, *line;

    assert_int_equal(file_slurp(OWN, 1 << 20, &text, &len_bytes, &err), 0);
    assert_int_equal(json_array_size(mcq.rows), N_ROWS);
    rest = text;
    for (size_t i = 0; i < N_ROWS; i++) {
        const json_t *report = json_array_get(mcq.rows, i), *scores = json_object_get(report, "log_likelihood");
        json_t *row;
        bool by_bytes;
        size_t best = 0, n;
        double best_value = -INFINITY;

        line = strsep(&rest, "\n");
        row = json_loads(line, 0, NULL);
        assert_non_null(row);
        n = json_array_size(json_object_get(row, "conts"));
        by_bytes = strcmp(json_string_value(json_object_get(row, "set")), "winogrande/own") != 0;
        assert_int_equal(json_array_size(scores), n);
        for (size_t j = 0; j < n; j++) {
            const char *context = json_string_value(json_array_get(json_object_get(row, "ctxs"), j));
            const char *continuation = json_string_value(json_array_get(json_object_get(row, "conts"), j));
            ScorePair pair;
            double value;
            bool greedy;

            assert_int_equal(score_pair_init(&pair, model.engine, context, strlen(context), continuation,
                                             strlen(continuation), &err),
                             0);
            value = direct_score(&model, pair.ids, pair.n, pair.n_context, &greedy);
            assert_true(json_real_value(json_array_get(scores, j)) == value);
            n_merged += !pair.clean;
            score_pair_deinit(&pair);
            value /= by_bytes ? (double)strlen(continuation) : 1;
            best = value > best_value ? j : best;
            best_value = MAX(value, best_value);
        }
        assert_int_equal(json_integer_value(json_object_get(report, "chosen")), best);
        assert_int_equal(json_integer_value(json_object_get(report, "line")), i + 1);
        assert_string_equal(json_string_value(json_object_get(report, "id")),
                            json_string_value(json_object_get(row, "id")));
        assert_string_equal(json_string_value(json_object_get(report, "normalised")), by_bytes ? "bytes" : "none");
        n_right += (json_int_t)best == json_integer_value(json_object_get(row, "answer"));
        json_decref(row);
    }
    assert_int_equal(mcq.n_rows, N_ROWS);
    assert_int_equal(mcq.n_right, n_right);
    assert_int_equal(mcq.n_merged, n_merged);
    assert_true(n_merged > 0);
    assert_true(mcq.accuracy == (double)n_right / N_ROWS);
    assert_true(mcq.standard_error == standard_error_of_share(n_right, N_ROWS));
    mcq_deinit(&mcq);
}

/* The first row's shortest continuation has the largest sum and not the largest mean. */
static void test_mcq_normalise(void **state) {
    static const struct {
        McqNormalise normalise;
        const char *name;
        json_int_t chosen;
    } rows[] = { { MCQ_NORMALISE_AUTO, "auto", 0 },
                 { MCQ_NORMALISE_BYTES, "bytes", 0 },
                 { MCQ_NORMALISE_NONE, "none", 3 } };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        Mcq mcq = measure(OWN, rows[i].normalise, 1);
        McqNormalise parsed;

        assert_int_equal(mcq.n_rows, 1);
        assert_int_equal(json_integer_value(json_object_get(json_array_get(mcq.rows, 0), "chosen")), rows[i].chosen);
        assert_true(isnan(mcq.standard_error));
        mcq_deinit(&mcq);
        assert_int_equal(mcq_normalise_parse(rows[i].name, &parsed), 0);
        assert_int_equal(parsed, rows[i].normalise);
        assert_string_equal(mcq_normalise_name(parsed), rows[i].name);
    }
    assert_int_equal(mcq_normalise_parse("tokens", &(McqNormalise){ 0 }), -EINVAL);
}

/* `auto` goes by the name of the set, not by a part of it. */
static void test_mcq_normalise_by_set(void **state) {
    static const char *const sets[] = { "\"winogrande/dev\"", "\"winogrande\"", "\"winogrande2\"", "\"x\"", "7" };
    static const char *const normalised[] = { "none", "none", "bytes", "bytes", "bytes" };
    char text[256];

    for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
        Mcq mcq;

        snprintf(text, sizeof(text),
                 "{\"set\": %s, \"answer\": 1, \"ctxs\": [\"a\", \"b\"], \"conts\": [\" c\", \" d\"]}\n\n", sets[i]);
        write_rows(text);
        mcq = measure(path, MCQ_NORMALISE_AUTO, 0);
        assert_string_equal(json_string_value(json_object_get(json_array_get(mcq.rows, 0), "normalised")),
                            normalised[i]);
        mcq_deinit(&mcq);
    }
}

static void test_mcq_refuses(void **state) {
    size_t n_context = engine_info(model.engine)->n_context, n = 3 * n_context + 256;
    _cleanup_(freep) char *text = malloc(n);
    int at;

    check_refused(-EINVAL, "\n", "no row");
    check_refused(-EINVAL, "{\"answer\": 0}\n", ":1: 'ctxs' is missing");
    check_refused(-EINVAL, "{\"ctxs\": [\"a\", \"b\"], \"conts\": \"c\"}\n", ":1: 'conts' is missing");
    check_refused(-EINVAL, "\n{\"answer\": 0, \"ctxs\": [\"a\", \"b\"], \"conts\": [\" c\"]}\n",
                  ":2: 2 'ctxs' and 1 'conts'");
    check_refused(-EINVAL, "{\"answer\": 0, \"ctxs\": [\"a\"], \"conts\": [\" c\"]}\n", ":1: 1 'ctxs' and 1 'conts'");
    check_refused(-EINVAL, "{\"answer\": 2, \"ctxs\": [\"a\", \"b\"], \"conts\": [\" c\", \" d\"]}\n", ":1: 'answer'");
    check_refused(-EINVAL, "{\"answer\": -1, \"ctxs\": [\"a\", \"b\"], \"conts\": [\" c\", \" d\"]}\n", ":1: 'answer'");
    check_refused(-EINVAL, "{\"ctxs\": [\"a\", \"b\"], \"conts\": [\" c\", \" d\"]}\n", ":1: 'answer'");
    check_refused(-EINVAL, "{\"answer\": 0, \"ctxs\": [\"a\", 7], \"conts\": [\" c\", \" d\"]}\n", ":1: choice 1:");
    check_refused(-EINVAL, "{\"answer\": 0, \"ctxs\": [\"a\", \"b\"], \"conts\": [\" c\", \"\"]}\n",
                  ":1: choice 1: the continuation is empty");
    check_refused(-EINVAL, "{\"answer\": 0, \"ctxs\": [\"a\", \"b \"], \"conts\": [\" c\", \"\"]}\n",
                  ":1: choice 1: the continuation is empty");
    check_refused(-EINVAL, "[1]\n", ":1: not a JSON object");
    check_refused(-EINVAL, "{\"answer\": 0", ":1: not a JSON object");
    assert_non_null(text);
    at = snprintf(text, n, "{\"answer\": 0, \"ctxs\": [\"a\", \"");
    for (size_t i = 0; i < n_context; i++, at += 3)
        memcpy(text + at, " no", 3);
    snprintf(text + at, n - (size_t)at, "\"], \"conts\": [\" c\", \" d e\"]}\n");
    check_refused(ENGINE_E_CONTEXT, text, ":1: choice 1: context and continuation have");
}

static void count(void *arg, size_t n_done, size_t n_rows, size_t n_right) {
    size_t *callsp = arg;

    assert_int_equal(n_done, ++*callsp);
    assert_int_equal(n_rows, 3);
    assert_true(n_right <= n_done);
}

static void test_mcq_limit(void **state) {
    size_t n_calls = 0;
    McqOptions options = { .file = OWN, .limit = 3, .on_row = count, .arg = &n_calls };
    ErrText err = { 0 };
    Mcq mcq;

    assert_int_equal(mcq_check(engine_tokenizer(model.engine), engine_info(model.engine)->n_context, &options, &err),
                     0);
    assert_int_equal(n_calls, 0);
    assert_int_equal(mcq_measure(&mcq, model.engine, &options, &err), 0);
    assert_int_equal(n_calls, 3);
    assert_int_equal(mcq.n_rows, 3);
    assert_null(mcq.rows);
    mcq_deinit(&mcq);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mcq_equals_direct),
        cmocka_unit_test(test_mcq_normalise),
        cmocka_unit_test(test_mcq_normalise_by_set),
        cmocka_unit_test(test_mcq_refuses),
        cmocka_unit_test(test_mcq_limit),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
