// SPDX-License-Identifier: Apache-2.0
/* Generations that reuse kept prefixes give the same tokens from the same bytes of logits as without reuse, whatever
 * the common part, whoever computed it and whatever was evicted in between. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/generation_state.h"
#include "test/unit/fixtures/golden_hash.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/fixtures/tiny_engine.h"

enum {
    CHUNK = 48,
    PAGE = 64,
    PROMPT_MAX = 300,
    OUTPUT = 20,
    USER = 1000,
};

static TinyEngine tiny;
static PrefixCache *cache;
static uint64_t page_bytes;

static void open_on(EngineDevice device) {
    Sequence *sequence;
    ErrText err = { 0 };

    assert_int_equal(prefix_cache_new(&cache, UINT64_MAX), 0);
    tiny.prefix_cache = cache;
    tiny_engine_open(&tiny, device, CHUNK);
    assert_int_equal(sequence_new(&sequence, tiny.engine, 1, &err), 0);
    page_bytes = tiny.accounts.used_bytes[ACCOUNT_KV];
    sequence_free(sequence);
}

static int setup_cpu(void **state) {
    open_on(ENGINE_DEVICE_CPU);
    return 0;
}

static int setup_reference(void **state) {
    open_on(ENGINE_DEVICE_REFERENCE);
    return 0;
}

static int teardown(void **state) {
    tiny_engine_close(&tiny);
    assert_int_equal(prefix_cache_kept_bytes(cache), 0); /* the engine has dropped its own texts */
    cache = prefix_cache_free(cache);
    return 0;
}

static int forget(void **state) {
    prefix_cache_drop_all(cache);
    assert_int_equal(tiny.accounts.used_bytes[ACCOUNT_CACHE], 0);
    assert_int_equal(tiny.accounts.used_bytes[ACCOUNT_KV], 0);
    return 0;
}

static uint32_t token_of(uint32_t text, size_t i) {
    uint64_t seed = 1000003 * (uint64_t)text + i;

    return (uint32_t)(test_random(&seed) % TINY_VOCAB);
}

/* Makes n tokens: the first `same` of one text, then another. */
static void make_prompt(uint32_t *prompt, uint32_t text, size_t same, uint32_t rest, size_t n) {
    for (size_t i = 0; i < n; i++)
        prompt[i] = token_of(i < same ? text : rest, i);
}

typedef struct Given {
    const Generation *generation;
    uint64_t hash; /* hash of all logits and tokens */
    uint32_t tokens[OUTPUT];
    size_t n;
} Given;

static void take(void *arg, const GenerationDelta *delta) {
    Given *given = arg;

    given->hash = hash_of(given->hash, given->generation->logits, TINY_VOCAB * sizeof(float));
    for (size_t i = 0; i < delta->n_tokens; i++)
        given->tokens[given->n++] = delta->tokens[i];
}

static GenerationOptions options_of(uint64_t user) {
    GenerationOptions options = {
        .max_tokens = OUTPUT, .ignore_end = true, .user = user, .sampler = SAMPLER_OPTIONS_GREEDY
    };

    options.sampler.temperature = 0.8f;
    options.sampler.seed = 3;
    return options;
}

static Generation *begin(const uint32_t *prompt, size_t n, const GenerationOptions *options) {
    Generation *generation;
    ErrText err = { 0 };

    if (generation_new(&generation, tiny.engine, prompt, n, options, &err))
        fail_msg("%s", err.text);
    return generation;
}

static Given finish(Generation *generation, GenerationUsage *usage) {
    Given given = { .generation = generation, .hash = HASH_START };

    while (generation_end(generation) == GENERATION_RUNNING)
        assert_int_equal(generation_step(generation, take, &given, NULL), 0);
    if (usage)
        *usage = *generation_usage(generation);
    generation_free(generation);
    return given;
}

static Given run(const uint32_t *prompt, size_t n, uint64_t user, GenerationUsage *usage) {
    const GenerationOptions options = options_of(user);

    return finish(begin(prompt, n, &options), usage);
}

/* Runs a prompt without reuse, and without keeping it. */
static Given run_alone(const uint32_t *prompt, size_t n) {
    GenerationOptions options = options_of(USER);
    const uint64_t kept_bytes = prefix_cache_kept_bytes(cache);
    GenerationUsage usage;
    Given given;

    options.no_reuse = true;
    given = finish(begin(prompt, n, &options), &usage);
    assert_int_equal(usage.outcome, PREFIX_DECLINED);
    assert_int_equal(usage.n_prefilled_tokens, n);
    assert_int_equal(prefix_cache_kept_bytes(cache), kept_bytes);
    return given;
}

static void same(const Given *a, const Given *b) {
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->tokens, b->tokens, a->n * sizeof(*a->tokens));
    assert_true(a->hash == b->hash);
}

/* Returns how many of n common tokens are reused. */
static size_t taken_over(size_t n) {
    return n % PAGE < PREFIX_TOKENS_MIN ? n / PAGE * PAGE : n;
}

/* Under a sanitizer every third. */
static size_t step_of_ends(void) {
    return patience_is_short() ? 3 : 1;
}

static const size_t ends[] = { 1, 2, 8, 9, 47, 63, 64, 65, 66, 100, 127, 128, 129, 192, 193, 250 };

/* A prompt again, of every kind of length: all but its last token is reused. */
static void test_prefix_reuse_again(void **state) {
    uint32_t prompt[PROMPT_MAX];

    make_prompt(prompt, 1, PROMPT_MAX, 0, PROMPT_MAX);
    for (size_t i = 0; i < ARRAY_LEN(ends); i += step_of_ends()) {
        const size_t n = ends[i];
        const Given alone = run_alone(prompt, n);
        GenerationUsage usage;
        Given given;

        forget(NULL);
        given = run(prompt, n, USER, &usage);
        same(&given, &alone);
        assert_int_equal(usage.n_cached_tokens, 0);
        assert_int_equal(usage.outcome, n == 1 ? PREFIX_TOO_SHORT : PREFIX_FIRST_USE);
        given = run(prompt, n, USER, &usage);
        same(&given, &alone);
        assert_int_equal(usage.n_cached_tokens, taken_over(n - 1));
        assert_int_equal(usage.n_cached_tokens + usage.n_prefilled_tokens, n);
        assert_int_equal(usage.outcome, n == 1 ? PREFIX_TOO_SHORT : PREFIX_WHOLE);
    }
}

/* A common prefix, of every kind of length. */
static void test_prefix_reuse_branches(void **state) {
    uint32_t prompt[PROMPT_MAX];

    for (size_t i = 0; i < ARRAY_LEN(ends); i += step_of_ends()) {
        GenerationUsage usage;
        Given alone, given;

        forget(NULL);
        make_prompt(prompt, 1, 250, 0, 250);
        (void)run(prompt, 250, USER, NULL);
        make_prompt(prompt, 1, ends[i], 2, 270);
        alone = run_alone(prompt, 270);
        given = run(prompt, 270, USER, &usage);
        same(&given, &alone);
        /* The other text may happen to have the next tokens too. */
        assert_in_range(usage.n_cached_tokens, taken_over(ends[i]), ends[i] + PREFIX_TOKENS_MIN);
        given = run(prompt, 270, USER, &usage);
        same(&given, &alone);
        assert_int_equal(usage.outcome, PREFIX_WHOLE);
    }
}

/* A conversation: each prompt is the one before, its answer, and new text. */
static void test_prefix_reuse_turns(void **state) {
    uint32_t prompt[PROMPT_MAX];
    size_t n = 50;

    make_prompt(prompt, 1, n, 0, n);
    for (size_t turn = 0; turn < 6; turn++) {
        const Given alone = run_alone(prompt, n);
        GenerationUsage usage;
        const Given given = run(prompt, n, USER, &usage);

        same(&given, &alone);
        assert_int_equal(usage.n_cached_tokens,
                         turn ? taken_over(n - 15 - 1) : 0); /* the last output token was not computed */
        assert_int_equal(usage.outcome, turn ? PREFIX_NEW_TEXT : PREFIX_FIRST_USE);
        memcpy(prompt + n, given.tokens, OUTPUT * sizeof(*prompt));
        n += OUTPUT;
        for (size_t i = 0; i < 15; i++)
            prompt[n++] = token_of(100 + (uint32_t)turn, i);
    }
}

static void test_prefix_reuse_users(void **state) {
    uint32_t prompt[PROMPT_MAX];
    GenerationUsage usage;

    make_prompt(prompt, 1, 200, 0, 200);
    (void)run(prompt, 200, USER, NULL);
    (void)run(prompt, 200, USER + 1, &usage);
    assert_int_equal(usage.n_cached_tokens, 0);
    assert_int_equal(usage.outcome, PREFIX_FIRST_USE);
    (void)run(prompt, 200, USER + 1, &usage);
    assert_int_equal(usage.n_cached_tokens, taken_over(199));
}

/* Positions that a cancelled prompt had computed are reused. */
static void test_prefix_reuse_after_cancel(void **state) {
    const GenerationOptions options = options_of(USER);
    uint32_t prompt[PROMPT_MAX];
    Generation *generation;
    GenerationUsage usage;
    Given alone, given;

    make_prompt(prompt, 1, 200, 0, 200);
    alone = run_alone(prompt, 200);
    generation = begin(prompt, 200, &options);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(generation_step(generation, NULL, NULL, NULL), 0);
    generation_cancel(generation);
    assert_int_equal(generation_step(generation, NULL, NULL, NULL), 0);
    assert_int_equal(generation_end(generation), GENERATION_END_CANCELLED);
    generation_free(generation);
    given = run(prompt, 200, USER, &usage);
    same(&given, &alone);
    assert_int_equal(usage.n_cached_tokens, 3 * CHUNK);
}

/* Once a prompt is computed, others may begin with it; both go on undisturbed. */
static void test_prefix_reuse_while_running(void **state) {
    const GenerationOptions options = options_of(USER);
    uint32_t prompt[PROMPT_MAX], branch[PROMPT_MAX];
    Generation *first;
    GenerationUsage usage;
    Given alone, branch_alone, given = { .hash = HASH_START };

    make_prompt(prompt, 1, 200, 0, 200);
    make_prompt(branch, 1, 150, 2, 210);
    alone = run_alone(prompt, 200);
    branch_alone = run_alone(branch, 210);
    given.generation = first = begin(prompt, 200, &options);
    while (!generation_usage(first)->n_output_tokens)
        assert_int_equal(generation_step(first, take, &given, NULL), 0);
    for (size_t i = 0; i < 2; i++) {
        const Given other = run(branch, 210, USER, &usage);

        same(&other, &branch_alone);
        assert_int_equal(usage.n_cached_tokens, taken_over(i ? 209 : 150));
    }
    while (generation_end(first) == GENERATION_RUNNING)
        assert_int_equal(generation_step(first, take, &given, NULL), 0);
    same(&given, &alone);
    generation_free(first);
}

/* Eviction between and during requests changes no bit; memory that is only kept never refuses a request. */
static void test_prefix_reuse_evicted(void **state) {
    GenerationOptions options = options_of(USER);
    uint32_t prompt[PROMPT_MAX], other[PROMPT_MAX];
    Generation *generation, *refused;
    GenerationUsage usage;
    Given alone, given;
    ErrText err = { 0 };
    uint64_t kept_bytes;

    make_prompt(prompt, 1, 200, 0, 200);
    make_prompt(other, 3, 280, 0, 280);
    alone = run_alone(prompt, 200);
    (void)run(prompt, 200, USER, NULL);
    kept_bytes = prefix_cache_kept_bytes(cache);
    assert_int_equal(kept_bytes, 4 * page_bytes);
    assert_int_equal(tiny.accounts.used_bytes[ACCOUNT_KV], 0);
    /* There is no room for five pages beside the four, only for the state of a request and some nodes. */
    tiny.accounts.total_limit_bytes = tiny.accounts.total_bytes + 4 * page_bytes - 1;
    (void)run(other, 280, USER, &usage);
    assert_true(prefix_cache_kept_bytes(cache) < 4 * page_bytes + kept_bytes);
    given = run(prompt, 200, USER, &usage);
    same(&given, &alone);
    assert_true(usage.n_cached_tokens < 199);
    assert_int_equal(usage.outcome, PREFIX_EVICTED);
    /* A request that can never fit evicts nothing. */
    kept_bytes = prefix_cache_kept_bytes(cache);
    tiny.accounts.total_limit_bytes = tiny.accounts.total_bytes + 8192;
    make_prompt(other, 4, 280, 0, 280);
    options.max_tokens = 200;
    assert_int_equal(generation_new(&refused, tiny.engine, other, 280, &options, &err), GENERATION_E_MEMORY);
    assert_int_equal(prefix_cache_kept_bytes(cache), kept_bytes);
    tiny.accounts.total_limit_bytes = UINT64_MAX;
    options.max_tokens = OUTPUT;
    /* If a part of the memory is the clients', kept texts make room within the rest. */
    tiny.accounts.others_limit_bytes = tiny.accounts.others_bytes + 4 * page_bytes;
    (void)run(other, 280, USER, NULL);
    assert_true(prefix_cache_kept_bytes(cache) < kept_bytes + 4 * page_bytes);
    tiny.accounts.others_limit_bytes = UINT64_MAX;
    /* All is dropped while a request that began with it runs. */
    generation = begin(prompt, 200, &options);
    assert_int_equal(generation_usage(generation)->n_cached_tokens, taken_over(199));
    assert_int_equal(generation_step(generation, NULL, NULL, NULL), 0);
    generation_free(generation);
    generation = begin(prompt, 200, &options);
    prefix_cache_drop_all(cache);
    given = finish(generation, NULL);
    same(&given, &alone);
}

/* The limit on the KV account counts pages of running requests, shared or not; pages that are only kept are on another
 * account. */
static void test_prefix_reuse_accounts(void **state) {
    const GenerationOptions options = options_of(USER);
    uint32_t prompt[PROMPT_MAX];
    Generation *generation, *refused;
    ErrText err = { 0 };

    make_prompt(prompt, 1, 200, 0, 200);
    (void)run(prompt, 200, USER, NULL);
    assert_int_equal(tiny.accounts.used_bytes[ACCOUNT_KV], 0);
    assert_in_range(tiny.accounts.used_bytes[ACCOUNT_CACHE], 4 * page_bytes, 4 * page_bytes + 4096);
    tiny.accounts.limit_bytes[ACCOUNT_KV] = 3 * page_bytes;
    assert_int_equal(generation_new(&refused, tiny.engine, prompt, 200, &options, &err), GENERATION_E_MEMORY);
    assert_int_equal(tiny.accounts.used_bytes[ACCOUNT_KV], 0);
    tiny.accounts.limit_bytes[ACCOUNT_KV] = 4 * page_bytes;
    generation = begin(prompt, 200, &options);
    assert_int_equal(tiny.accounts.used_bytes[ACCOUNT_KV], 4 * page_bytes);
    assert_in_range(tiny.accounts.used_bytes[ACCOUNT_CACHE], page_bytes,
                    page_bytes + 4096); /* the page that it copied */
    generation_free(generation);
    tiny.accounts.limit_bytes[ACCOUNT_KV] = UINT64_MAX;
    assert_int_equal(tiny.accounts.used_bytes[ACCOUNT_KV], 0);
}

/* A session's pin follows its text, and frees the text when nobody else uses it. */
static void test_prefix_reuse_session(void **state) {
    GenerationOptions options = options_of(USER);
    uint32_t prompt[PROMPT_MAX];
    PrefixPin pin = { 0 };
    GenerationUsage usage;

    make_prompt(prompt, 1, 200, 0, 200);
    options.pin = &pin;
    (void)finish(begin(prompt, 150, &options), &usage);
    (void)finish(begin(prompt, 200, &options), &usage);
    assert_int_equal(usage.n_cached_tokens, 150);
    assert_non_null(pin.node);
    assert_true(prefix_cache_kept_bytes(cache) > 0);
    prefix_pin_release(cache, &pin);
    assert_int_equal(prefix_cache_kept_bytes(cache), 0); /* with the branch of the first answer */
}

#define EACH_FRESH(test) cmocka_unit_test_teardown(test, forget)
#define TESTS                                                                                                          \
    EACH_FRESH(test_prefix_reuse_again), EACH_FRESH(test_prefix_reuse_branches), EACH_FRESH(test_prefix_reuse_turns),  \
        EACH_FRESH(test_prefix_reuse_users), EACH_FRESH(test_prefix_reuse_after_cancel),                               \
        EACH_FRESH(test_prefix_reuse_while_running), EACH_FRESH(test_prefix_reuse_evicted),                            \
        EACH_FRESH(test_prefix_reuse_accounts), EACH_FRESH(test_prefix_reuse_session)

int main(void) {
    const struct CMUnitTest cpu[] = { TESTS }, reference[] = { TESTS };

    return cmocka_run_group_tests_name("cpu", cpu, setup_cpu, teardown) +
           cmocka_run_group_tests_name("reference", reference, setup_reference, teardown);
}
