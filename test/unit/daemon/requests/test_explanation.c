// SPDX-License-Identifier: Apache-2.0
/* Explanations of ended generations: which are kept, for which users, and what their messages contain. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/requests/explanation.h"

static void keep(ExplanationTable *table, uid_t uid, uint64_t number) {
    explanation_keep(table, &(Explanation){ .number = number, .uid = uid });
}

/* The table keeps the last explanations of each user, in whatever order their numbers came. */
static void test_explanation_the_last_of_each_user(void **state) {
    const uid_t mine = 1000, other = 1001, nobody = 1002;
    ExplanationTable table = { 0 };

    assert_null(explanation_find(&table, 1, NULL));
    keep(&table, mine, 500);
    keep(&table, other, 7);
    for (uint64_t number = 1; number <= EXPLANATIONS_A_USER; number++)
        keep(&table, mine, 1000 - number);
    assert_null(explanation_find(&table, 500, NULL)); /* replaced by later explanations */
    for (uint64_t number = 1; number <= EXPLANATIONS_A_USER; number++)
        assert_int_equal(explanation_find(&table, 1000 - number, &mine)->number, 1000 - number);
    assert_int_equal(explanation_find(&table, 7, &other)->uid, other);
    assert_int_equal(explanation_find(&table, 7, NULL)->uid, other);
    assert_null(explanation_find(&table, 7, &mine));
    assert_null(explanation_find(&table, 7, &nobody));
    assert_null(explanation_find(&table, 0, NULL)); /* an empty entry is not found */
    explanation_table_deinit(&table);
    assert_null(explanation_find(&table, 7, NULL));
}

/* A user beyond the limit replaces the user without a new explanation for longest, of whom nothing is left. */
static void test_explanation_users_are_bounded(void **state) {
    const uid_t first = 0, second = 1, last = EXPLANATION_USERS_MAX;
    ExplanationTable table = { 0 };

    for (uint64_t i = 0; i < EXPLANATION_USERS_MAX; i++)
        keep(&table, (uid_t)i, 100 + i);
    keep(&table, first, 900);
    keep(&table, last, 901);
    assert_null(explanation_find(&table, 101, NULL));
    assert_null(explanation_find(&table, 101, &second));
    assert_int_equal(explanation_find(&table, 901, &last)->uid, last);
    assert_int_equal(explanation_find(&table, 100, &first)->uid, first);
    assert_int_equal(explanation_find(&table, 900, &first)->uid, first);
    assert_int_equal(explanation_find(&table, 102, NULL)->uid, 2);
    keep(&table, second, 902);
    assert_null(explanation_find(&table, 102, NULL)); /* user 2 had no new explanation for longest */
    explanation_table_deinit(&table);
}

static DraftReport report;

static Explanation begun(void) {
    report = (DraftReport){
        .sources = 1u << SPECULATION_TABLE,
        .drafted = { [SPECULATION_TABLE] = 20 },
        .accepted = { [SPECULATION_TABLE] = 6 },
        .lengths = { 4, 0, 3 },
        .n_steps = 10,
        .n_verifications = 7,
        .n_rows = 30,
        .n_rows_idle = 11,
        .draft_ns = 1999,
        .n_model_passes = 5,
        .n_model_rows = 9,
        .model_ns = 7999,
        .step_ns = 5000000,
    };
    return (Explanation){
        .number = 5,
        .sources = 1u << SPECULATION_SAM | 1u << SPECULATION_TABLE,
        .usage = { .n_steps = 10,
                   .n_accepted_tokens = 6,
                   .n_cached_tokens = 3,
                   .n_prefilled_tokens = 4,
                   .read_bytes = 12345,
                   .read_wait_ns = 8999 },
        .report = &report,
    };
}

static void test_explanation_message_of_one_with_drafts(void **state) {
    const Explanation explanation = begun();
    ExplanationMessage message;
    const Coordgen__V1__Explanation *made = &message.explanation;

    explanation_message(&message, &explanation, true);
    assert_int_equal(message.info.number, 5);
    assert_int_equal(message.info.read_tokens, 7);
    assert_ptr_equal(message.info.explanation, made);
    assert_int_equal(made->off, COORDGEN__V1__SPECULATION_OFF__SPECULATION_OFF_UNSPECIFIED);
    assert_int_equal(made->n_sources, 2);
    assert_string_equal(made->sources[0]->name, "sam");
    assert_false(made->sources[0]->is_on);
    assert_string_equal(made->sources[1]->name, "table");
    assert_true(made->sources[1]->is_on);
    assert_int_equal(made->sources[1]->drafted_tokens, 20);
    assert_int_equal(made->sources[1]->accepted_tokens, 6);
    assert_int_equal(made->n_accept_lengths, 3); /* up to the last length with a count other than 0 */
    assert_int_equal(made->accept_lengths[2], 3);
    assert_int_equal(made->valid_rows, 16);
    assert_int_equal(made->wasted_rows, 14);
    assert_int_equal(made->idle_rows, 11);
    assert_int_equal(made->draft_us, 1);
    assert_int_equal(made->steps_us, 5000);
    assert_int_equal(made->model_passes, 5);
    assert_int_equal(made->model_rows, 9);
    assert_int_equal(made->model_us, 7);
    assert_int_equal(made->read_bytes, 12345);
    assert_int_equal(made->read_wait_us, 8);
    explanation_message(&message, &explanation, false);
    assert_int_equal(made->n_accept_lengths, 0);
    assert_int_equal(made->verifications, 7);
}

static const Coordgen__V1__DraftSource *source_of(const Coordgen__V1__Explanation *made, const char *name) {
    for (size_t i = 0; i < made->n_sources; i++)
        if (!strcmp(made->sources[i]->name, name))
            return made->sources[i];
    return NULL;
}

/* The message names a missing draft model or grammar if the request asked for one, but not if auto found none. */
static void test_explanation_message_of_one_without_model(void **state) {
    static const uint32_t asked[] = { SPECULATION_AUTO, SPECULATION_AUTO | 1u << SPECULATION_LOOKUP };

    for (size_t i = 0; i < 2; i++)
        for (uint32_t on = 0; on < 4; on++) {
            const bool has_model = on & 1, has_grammar = on & 2;
            Explanation explanation = begun();
            const Coordgen__V1__DraftSource *model, *grammar;
            ExplanationMessage message;

            explanation.sources = asked[i];
            report.sources |= (uint32_t)has_model << SPECULATION_MODEL | (uint32_t)has_grammar << SPECULATION_GRAMMAR;
            explanation_message(&message, &explanation, true);
            model = source_of(&message.explanation, "model");
            grammar = source_of(&message.explanation, "grammar");
            assert_int_equal(model != NULL, i || has_model);
            assert_int_equal(grammar != NULL, i || has_grammar);
            assert_true(!model || model->is_on == has_model);
            assert_true(!grammar || grammar->is_on == has_grammar);
        }
}

/* Inconsistent counts never make a subtraction wrap. */
static void test_explanation_message_rows_never_wrap(void **state) {
    Explanation explanation = begun();
    ExplanationMessage message;

    report.n_rows = 9;
    explanation_message(&message, &explanation, true);
    assert_int_equal(message.explanation.valid_rows, 9);
    assert_int_equal(message.explanation.wasted_rows, 0);
}

static int off_of(uint32_t sources, bool by_request, bool has_begun, uint32_t sources_on, bool *is_onp) {
    Explanation explanation = begun();
    ExplanationMessage message;

    explanation.sources = sources;
    explanation.by_request = by_request;
    explanation.report = has_begun ? &report : NULL;
    report.sources = sources_on;
    explanation_message(&message, &explanation, true);
    *is_onp = message.explanation.n_sources && message.explanation.sources[0]->is_on;
    return (int)message.explanation.off;
}

static void test_explanation_message_says_why_there_are_no_drafts(void **state) {
    bool is_on;

    assert_int_equal(off_of(0, false, true, 0, &is_on), COORDGEN__V1__SPECULATION_OFF__SPECULATION_OFF_SETTING);
    assert_int_equal(off_of(0, true, true, 0, &is_on), COORDGEN__V1__SPECULATION_OFF__SPECULATION_OFF_REQUEST);
    assert_int_equal(off_of(1, true, true, 0, &is_on), COORDGEN__V1__SPECULATION_OFF__SPECULATION_OFF_NO_SOURCE);
    assert_false(is_on);
    assert_int_equal(off_of(1, false, false, 0, &is_on), COORDGEN__V1__SPECULATION_OFF__SPECULATION_OFF_UNSPECIFIED);
    assert_true(is_on);
    assert_int_equal(off_of(1, false, true, 1, &is_on), COORDGEN__V1__SPECULATION_OFF__SPECULATION_OFF_UNSPECIFIED);
    assert_true(is_on);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_explanation_the_last_of_each_user),
        cmocka_unit_test(test_explanation_users_are_bounded),
        cmocka_unit_test(test_explanation_message_of_one_with_drafts),
        cmocka_unit_test(test_explanation_message_of_one_without_model),
        cmocka_unit_test(test_explanation_message_rows_never_wrap),
        cmocka_unit_test(test_explanation_message_says_why_there_are_no_drafts),
    };

    return cmocka_run_group_tests_name("explanation", tests, NULL, NULL);
}
