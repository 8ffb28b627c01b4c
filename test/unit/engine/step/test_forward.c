// SPDX-License-Identifier: Apache-2.0
/* Costs that a step must not have: the output head if nobody asks for logits, and allocations once its shape has been
 * seen. The program is linked so that every allocation in our code goes through here (mk/test.mk). */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "engine/generation.h"
#include "engine/step/step_state.h"
#include "test/unit/fixtures/loaded_engine.h"
#include "test/unit/fixtures/tiny_engine.h"

enum {
    CHUNK = 48,
    GROUPED_CHUNK = 128, /* two groups */
    OUTPUT = 6,
};

/* --- allocations -------------------------------------------------------------------------------------------------- */

/* Allocations of all threads. */
static _Atomic size_t n_allocations;

void *__real_malloc(size_t len_bytes);
void *__real_calloc(size_t n, size_t len_bytes);
void *__real_realloc(void *data, size_t len_bytes);
void *__real_aligned_alloc(size_t alignment, size_t len_bytes);
char *__real_strdup(const char *text);
void *__real_mmap(void *data, size_t len_bytes, int protection, int flags, int fd, off_t offset_bytes);
void *__wrap_malloc(size_t len_bytes);
void *__wrap_calloc(size_t n, size_t len_bytes);
void *__wrap_realloc(void *data, size_t len_bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t len_bytes);
char *__wrap_strdup(const char *text);
void *__wrap_mmap(void *data, size_t len_bytes, int protection, int flags, int fd, off_t offset_bytes);

void *__wrap_malloc(size_t len_bytes) {
    n_allocations++;
    return __real_malloc(len_bytes);
}

void *__wrap_calloc(size_t n, size_t len_bytes) {
    n_allocations++;
    return __real_calloc(n, len_bytes);
}

void *__wrap_realloc(void *data, size_t len_bytes) {
    n_allocations++;
    return __real_realloc(data, len_bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t len_bytes) {
    n_allocations++;
    return __real_aligned_alloc(alignment, len_bytes);
}

char *__wrap_strdup(const char *text) {
    n_allocations++;
    return __real_strdup(text);
}

void *__wrap_mmap(void *data, size_t len_bytes, int protection, int flags, int fd, off_t offset_bytes) {
    n_allocations++;
    return __real_mmap(data, len_bytes, protection, flags, fd, offset_bytes);
}

/* Counts the allocations of a step of n tokens of the sequence, with logits of the last row or of none. */
static size_t allocations_of(Loaded *loaded, size_t n, bool with_logits) {
    static const uint32_t tokens[LOADED_CHUNK] = { 7, 1, 12, 39, 0, 3, 22, 5 };
    float logits[LOADED_N_VOCAB];
    const size_t before = n_allocations;

    assert_int_equal(engine_forward(loaded->engine, loaded->sequence, tokens, n, with_logits, logits, NULL), 0);
    return n_allocations - before;
}

/* Chunks of a prompt and tokens of an answer, on each layout of the weights; outliers read columns from the package. */
static void test_forward_allocates_nothing(void **state) {
    for (int kind = 0; kind < 3; kind++) {
        char package[PATH_MAX];
        Loaded loaded = { .image_path = NULL };
        const size_t before = n_allocations;

        loaded_make_package(*state, kind == 1 ? 4.5 : 8, kind == 2, false, package);
        loaded_init(&loaded, package, 0);
        assert_true(n_allocations > before + 100); /* allocations are counted */
        allocations_of(&loaded, LOADED_CHUNK, false);
        assert_int_equal(allocations_of(&loaded, LOADED_CHUNK, false), 0);
        allocations_of(&loaded, 1, true);
        assert_int_equal(allocations_of(&loaded, 1, true), 0);
        loaded_deinit(&loaded);
    }
}

/* Steps whose rows go through the layers in groups. */
static void test_forward_groups_allocate_nothing(void **state) {
    static uint32_t tokens[GROUPED_CHUNK];
    Loaded loaded = { .image_path = NULL };
    EngineSpan span = { .tokens = tokens, .n = GROUPED_CHUNK };
    char package[PATH_MAX];
    EngineOptions options;

    loaded_make_package(*state, 8, false, false, package);
    account_table_init(&loaded.accounts);
    assert_int_equal(worker_pool_new(&loaded.pool, 2), 0);
    options = loaded_options(&loaded, package, 0);
    options.load.chunk_tokens = GROUPED_CHUNK;
    options.load.group_rows = GROUPED_CHUNK / 2;
    assert_int_equal(engine_new(&loaded.engine, &options, NULL), 0);
    assert_int_equal(sequence_new(&loaded.sequence, loaded.engine, 2 * GROUPED_CHUNK, NULL), 0);
    span.sequence = loaded.sequence;
    for (int i = 0; i < 2; i++) {
        const size_t before = n_allocations;

        assert_int_equal(engine_forward_spans(loaded.engine, &span, 1, NULL), 0);
        assert_int_equal(loaded.engine->steps->step[0].groups.n, 2);
        assert_true(!i || n_allocations == before);
    }
    loaded_deinit(&loaded);
}

/* The default chunk: the device's choice, less if memory is short; and the chunk of steps that others wait for. */
static void test_forward_chosen_chunk(void **state) {
    static const uint32_t asked[] = { ENGINE_CHUNK_DEFAULT, 0, 0 },
                          expected[] = { ENGINE_CHUNK_DEFAULT, 1024, ENGINE_CHUNK_DEFAULT };
    uint64_t used_bytes = 0;
    char package[PATH_MAX];

    loaded_make_package(*state, 8, false, false, package);
    for (size_t i = 0; i < 3; i++) {
        const bool is_short = i == 2;
        Loaded loaded = { .image_path = NULL };
        EngineOptions options;

        account_table_init(&loaded.accounts);
        if (is_short)
            loaded.accounts.limit_bytes[ACCOUNT_ACTIVATIONS] = used_bytes;
        assert_int_equal(worker_pool_new(&loaded.pool, 8), 0); /* two groups of 64 rows or more for each thread */
        options = loaded_options(&loaded, package, 0);
        options.load.chunk_tokens = asked[i];
        assert_int_equal(engine_new(&loaded.engine, &options, NULL), 0);
        assert_int_equal(engine_chunk_tokens(loaded.engine), expected[i]);
        assert_int_equal(engine_shared_chunk_tokens(loaded.engine), ENGINE_CHUNK_DEFAULT);
        if (!i)
            used_bytes = atomic_load(&loaded.accounts.used_bytes[ACCOUNT_ACTIVATIONS]);
        assert_int_equal(engine_set_chunk_tokens(loaded.engine, 512, NULL), is_short ? ENGINE_E_MEMORY : 0);
        if (!is_short)
            assert_int_equal(engine_shared_chunk_tokens(loaded.engine), 512); /* the chunk was asked for */
        loaded_deinit(&loaded);
    }
}

/* --- generations -------------------------------------------------------------------------------------------------- */

static TinyEngine tiny;
static BackendOps counting_ops;
static int (*real_linear)(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                          size_t rows, const LinearOutput *out, ErrText *err);
static size_t n_head_calls, n_head_rows;

static int count_linear(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                        size_t rows, const LinearOutput *out, ErrText *err) {
    if (linears[0] == weights_head(tiny.engine->weights)) {
        n_head_calls++;
        n_head_rows += rows;
    }
    return real_linear(backend, linears, n, in, rows, out, err);
}

static int setup(void **state) {
    tiny_engine_open(&tiny, ENGINE_DEVICE_CPU, CHUNK);
    counting_ops = *tiny.engine->backend->ops;
    real_linear = counting_ops.linear;
    counting_ops.linear = count_linear;
    tiny.engine->backend->ops = &counting_ops;
    n_head_calls = n_head_rows = 0;
    return 0;
}

static int teardown(void **state) {
    tiny_engine_close(&tiny);
    return 0;
}

static Generation *generation_of(size_t n_prompt) {
    const GenerationOptions options = { .max_tokens = OUTPUT, .ignore_end = true, .sampler = SAMPLER_OPTIONS_GREEDY };
    uint32_t prompt[3 * CHUNK];
    Generation *generation;
    ErrText err = { 0 };

    for (uint32_t i = 0; i < n_prompt; i++)
        prompt[i] = i * 7 % TINY_VOCAB;
    if (generation_new(&generation, tiny.engine, prompt, n_prompt, &options, &err))
        fail_msg("%s", err.text);
    return generation;
}

/* The head runs at one row of a prompt's last chunk, and at one row for each token of the answer. */
static void test_forward_head_of_last_chunk_only(void **state) {
    static const size_t n_prompts[] = { 3 * CHUNK, 2 * CHUNK + 1, CHUNK, 1 };

    for (size_t i = 0; i < ARRAY_LEN(n_prompts); i++) {
        const size_t n_chunks = (n_prompts[i] + CHUNK - 1) / CHUNK;
        Generation *generation = generation_of(n_prompts[i]);

        n_head_calls = n_head_rows = 0;
        for (size_t chunk = 0; chunk < n_chunks; chunk++) {
            assert_int_equal(n_head_calls, 0);
            assert_int_equal(generation_step(generation, NULL, NULL, NULL), 0);
        }
        assert_int_equal(generation_usage(generation)->n_prefilled_tokens, n_prompts[i]);
        assert_int_equal(n_head_calls, 1);
        assert_int_equal(n_head_rows, 1);
        while (generation_end(generation) == GENERATION_RUNNING)
            assert_int_equal(generation_step(generation, NULL, NULL, NULL), 0);
        assert_int_equal(n_head_rows, OUTPUT);
        generation_free(generation);
    }
}

/* A chunk of a prompt adds no row of the head beside the row of another's answer. */
static void test_forward_head_of_shared_steps(void **state) {
    Generation *answers = generation_of(1), *reads = generation_of(2 * CHUNK);
    GenerationTurn turns[] = { { .generation = answers }, { .generation = reads } };

    assert_int_equal(generation_step(answers, NULL, NULL, NULL), 0);
    n_head_calls = n_head_rows = 0;
    for (size_t step = 0; step < 3; step++) { /* 47, 47 and 2 rows of the prompt */
        assert_int_equal(n_head_rows, step);
        assert_int_equal(generation_step_together(turns, 2, NULL), 0);
        assert_true(turns[0].ran && turns[1].ran);
    }
    assert_int_equal(generation_usage(reads)->n_output_tokens, 1);
    assert_int_equal(n_head_calls, 3);
    assert_int_equal(n_head_rows, 4);
    generation_free(answers);
    generation_free(reads);
}

static void take(void *arg, const GenerationDelta *delta) {
    *(size_t *)arg += delta->n_tokens;
}

static size_t allocations_of_step(GenerationTurn *turns, size_t n) {
    const size_t before = n_allocations;

    assert_int_equal(generation_step_together(turns, n, NULL), 0);
    return n_allocations - before;
}

/* The second chunk and the second token of one sequence; then two that share steps, of which the first has the head's
 * rows. */
static void test_forward_generations_allocate_nothing(void **state) {
    Generation *a = generation_of(3 * CHUNK), *b = generation_of(1);
    size_t n_tokens[2] = { 0 };
    GenerationTurn turns[] = { { .generation = a, .fn = take, .arg = &n_tokens[0] },
                               { .generation = b, .fn = take, .arg = &n_tokens[1] } };

    allocations_of_step(turns, 1);
    assert_int_equal(allocations_of_step(turns, 1), 0);
    allocations_of_step(turns, 1);
    assert_int_equal(n_tokens[0], 1);
    allocations_of_step(turns, 1);
    assert_int_equal(allocations_of_step(turns, 1), 0);
    assert_int_equal(n_tokens[0], 3);
    allocations_of_step(&turns[1], 1);
    assert_int_equal(allocations_of_step(turns, 2), 1); /* shared_head_rows() */
    assert_int_equal(allocations_of_step(turns, 2), 0);
    assert_true(n_tokens[0] == 5 && n_tokens[1] == 3);
    generation_free(a);
    generation_free(b);
}

#define WITH_ENGINE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_forward_allocates_nothing),    WITH_FOLDER(test_forward_groups_allocate_nothing),
        WITH_FOLDER(test_forward_chosen_chunk),         WITH_ENGINE(test_forward_head_of_last_chunk_only),
        WITH_ENGINE(test_forward_head_of_shared_steps), WITH_ENGINE(test_forward_generations_allocate_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
