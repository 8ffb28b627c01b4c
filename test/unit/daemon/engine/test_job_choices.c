// SPDX-License-Identifier: Apache-2.0
/* The answers of one job: seeds, sums, which of them may run, and the echo of a prompt in messages. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/strings/utf8.h"
#include "daemon/engine/job_choices.h"

static void init(Job *job, uint32_t n) {
    *job = (Job){ .kind = JOB_GENERATE, .generate = { .n = n } };
    job->generate.options.sampler.seed = UINT64_MAX;
    job->input.splits = true;
    job->run.choices = job_choices_new(job);
    assert_non_null(job->run.choices);
}

static void test_job_choices_are_as_the_job(void **state) {
    Job job;

    init(&job, JOB_CHOICES_MAX);
    for (uint32_t i = 0; i < JOB_CHOICES_MAX; i++) {
        Job *answer = job_of_choice(&job, i);

        assert_ptr_equal(job_asked(answer), &job);
        assert_int_equal(answer->run.choice, i);
        assert_int_equal(answer->generate.options.sampler.seed, UINT64_MAX + i);
        assert_true(answer->input.splits);
    }
    job_choices_free(job.run.choices);
}

/* Output is summed; the prompt counts once, and time as long as the longest answer takes. */
static void test_job_choices_usage(void **state) {
    GenerationUsage usage;
    Job job;

    init(&job, 3);
    for (uint32_t i = 0; i < 3; i++)
        job.run.choices->ends[i].usage = (GenerationUsage){ .n_prompt_tokens = 10,
                                                            .n_cached_tokens = i ? 9 : 2,
                                                            .n_prefilled_tokens = i ? 1 : 8,
                                                            .n_output_tokens = 1 + i,
                                                            .n_steps = 5,
                                                            .n_drafted_tokens = 20,
                                                            .n_accepted_tokens = 2,
                                                            .decode_ns = 100 * (i == 1) + 50 };
    usage = job_usage(&job);
    assert_int_equal(usage.n_prompt_tokens, 10);
    assert_int_equal(usage.n_cached_tokens, 2);
    assert_int_equal(usage.n_prefilled_tokens, 8);
    assert_int_equal(usage.n_output_tokens, 6);
    assert_int_equal(usage.n_steps, 15);
    assert_int_equal(usage.n_drafted_tokens, 60);
    assert_int_equal(usage.n_accepted_tokens, 6);
    assert_int_equal(usage.decode_ns, 150);
    job.run.report.n_rows = 4;
    job.run.report.lengths[2] = 1;
    job_of_choice(&job, 2)->run.report.n_rows = 3;
    job_of_choice(&job, 2)->run.report.lengths[2] = 6;
    assert_int_equal(job_report(&job)->n_rows, 7);
    assert_int_equal(job_report(&job)->lengths[2], 7);
    assert_int_equal(job_report(&job)->n_rows, 7); /* made anew each time */
    job_choices_free(job.run.choices);
}

/* The first answers that have not ended run, as many as the width says; 0: all. */
static void test_job_choices_places(void **state) {
    Generation *const some = (Generation *)&some; /* never read */
    Job job;

    init(&job, 4);
    for (uint32_t i = 0; i < 4; i++)
        job_of_choice(&job, i)->run.generation = some;
    for (uint32_t i = 0; i < 4; i++)
        assert_true(job_answer_has_place(job_of_choice(&job, i)));
    atomic_store(&job.width, 2);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(job_answer_has_place(job_of_choice(&job, i)), i < 2);
    job.run.generation = NULL; /* the first answer has ended */
    for (uint32_t i = 1; i < 4; i++)
        assert_int_equal(job_answer_has_place(job_of_choice(&job, i)), i < 3);
    for (uint32_t i = 0; i < 4; i++)
        job_of_choice(&job, i)->run.generation = NULL;
    job_choices_free(job.run.choices);
}

/* A long prompt becomes several messages, each of whole characters. */
static void test_job_choices_echo(void **state) {
    _cleanup_(job_news_deinit) JobNews news = { 0 };
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    size_t from = 0;

    str_buf_add(&text, "x");
    for (size_t i = 0; i < 50000; i++)
        str_buf_add(&text, "\xf0\x9f\x8c\x8a");
    assert_int_equal(job_news_echo(&news, &text, 3), 0);
    assert_int_equal(news.n_marks, 4);
    for (size_t i = 0; i < news.n_marks; i++) {
        assert_int_equal(news.marks[i].choice, 3);
        assert_true(utf8_is_valid(news.text.data + from, news.marks[i].text_end - from));
        assert_true(news.marks[i].text_end - from <= 64 << 10);
        from = news.marks[i].text_end;
    }
    assert_int_equal(from, text.len_bytes);
    assert_memory_equal(news.text.data, text.data, from);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job_choices_are_as_the_job),
        cmocka_unit_test(test_job_choices_usage),
        cmocka_unit_test(test_job_choices_places),
        cmocka_unit_test(test_job_choices_echo),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
