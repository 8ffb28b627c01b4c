// SPDX-License-Identifier: Apache-2.0
/* Sequences that share pages: a fork at any position gives the bits that it would have alone, its source does not
 * change, and memory is counted once. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "test/unit/fixtures/fork.h"
#include "test/unit/fixtures/tiny_engine.h"

enum {
    N_MAX = 200,
    CHUNK = 48,
    PAGE = 64,
};

static TinyEngine tiny;

static int setup_cpu(void **state) {
    tiny_engine_open(&tiny, ENGINE_DEVICE_CPU, CHUNK);
    return 0;
}

static int setup_reference(void **state) {
    tiny_engine_open(&tiny, ENGINE_DEVICE_REFERENCE, CHUNK);
    return 0;
}

static int teardown(void **state) {
    tiny_engine_close(&tiny);
    return 0;
}

/* Returns token i of one of many texts. */
static uint32_t token_of(uint32_t text, size_t i) {
    uint64_t seed = 1000003 * (uint64_t)text + i;

    return (uint32_t)(test_random(&seed) % TINY_VOCAB);
}

static void make(Sequence **sequencep, size_t capacity_tokens) {
    ErrText err = { 0 };

    if (sequence_new(sequencep, tiny.engine, capacity_tokens, &err))
        fail_msg("%s", err.text);
}

/* Appends tokens of a text up to position `to`; logits f32[to - from][vocabulary]. */
static void append(Sequence *sequence, uint32_t text, size_t to, float *logits) {
    ErrText err = { 0 };

    for (size_t at = sequence_n_tokens(sequence), n; at < to; at += n) {
        uint32_t tokens[CHUNK];

        n = MIN(to - at, CHUNK);
        for (size_t i = 0; i < n; i++)
            tokens[i] = token_of(text, at + i);
        if (engine_forward(tiny.engine, sequence, tokens, n, n, logits, &err))
            fail_msg("%s", err.text);
        logits += n * TINY_VOCAB;
    }
}

static void same(const float *a, const float *b, size_t rows) {
    assert_memory_equal(a, b, rows * TINY_VOCAB * sizeof(*a));
}

static uint64_t kv_bytes(void) {
    return tiny.accounts.used_bytes[ACCOUNT_KV];
}

static void test_sequence_fork(void **state) {
    static const size_t at[] = { 0, 1, 2, 47, 63, 64, 65, 127, 128, 129, 150 };
    static float whole[N_MAX * TINY_VOCAB], alone[N_MAX * TINY_VOCAB], branch[N_MAX * TINY_VOCAB];
    Sequence *sequence, *fork, *fresh;

    make(&sequence, N_MAX);
    append(sequence, 1, N_MAX, whole);
    sequence_rewind(sequence, 150);
    for (size_t i = 0; i < ARRAY_LEN(at); i++) {
        ErrText err = { 0 };

        /* The branch goes on with another text. */
        assert_int_equal(fork_sequence(&fork, sequence, at[i], N_MAX, &err), 0);
        assert_int_equal(sequence_n_tokens(fork), at[i]);
        append(fork, 2, 180, branch);
        make(&fresh, N_MAX);
        append(fresh, 1, at[i], alone);
        append(fresh, 2, 180, alone);
        same(branch, alone, 180 - at[i]);
        sequence_free(fresh);
        /* Its source goes on as if it had never been forked. */
        append(sequence, 1, N_MAX, alone);
        same(alone, whole + (size_t)150 * TINY_VOCAB, N_MAX - 150);
        sequence_rewind(sequence, 150);
        sequence_free(fork);
    }
    sequence_free(sequence);
}

/* A fork lives on without its source, and forks of forks too. */
static void test_sequence_fork_outlives(void **state) {
    static float whole[N_MAX * TINY_VOCAB], end[N_MAX * TINY_VOCAB];
    Sequence *first, *second, *third;
    ErrText err = { 0 };

    make(&first, N_MAX);
    append(first, 1, N_MAX, whole);
    assert_int_equal(fork_sequence(&second, first, 100, 120, &err), 0);
    sequence_free(first);
    append(second, 1, 110, end);
    same(end, whole + (size_t)100 * TINY_VOCAB, 10);
    assert_int_equal(fork_sequence(&third, second, 70, N_MAX, &err), 0);
    sequence_free(second);
    append(third, 1, N_MAX, end);
    same(end, whole + (size_t)70 * TINY_VOCAB, N_MAX - 70);
    sequence_free(third);
}

static void test_sequence_memory(void **state) {
    static float logits[N_MAX * TINY_VOCAB];
    Sequence *sequence, *fork, *other;
    ErrText err = { 0 };
    uint64_t page_bytes;

    make(&sequence, 1);
    page_bytes = kv_bytes();
    assert_true(page_bytes >= PAGE * engine_info(tiny.engine)->kv_bytes_per_token);
    sequence_free(sequence);
    assert_int_equal(kv_bytes(), 0);
    make(&sequence, 3 * PAGE);
    assert_int_equal(kv_bytes(), 3 * page_bytes);
    append(sequence, 1, 150, logits);
    assert_int_equal(fork_sequence(&fork, sequence, 150, 4 * PAGE, &err), 0);
    assert_int_equal(kv_bytes(), 5 * page_bytes); /* two pages are shared, the third is a copy */
    tiny.accounts.limit_bytes[ACCOUNT_KV] = 6 * page_bytes;
    assert_int_equal(fork_sequence(&other, sequence, 128, 4 * PAGE, &err), ENGINE_E_MEMORY);
    assert_non_null(strstr(err.text, "KV cache of 256 tokens"));
    assert_int_equal(kv_bytes(), 5 * page_bytes);
    assert_int_equal(fork_sequence(&other, sequence, 128, 3 * PAGE, &err), 0);
    assert_int_equal(kv_bytes(), 6 * page_bytes);
    sequence_free(sequence);
    assert_int_equal(kv_bytes(), 5 * page_bytes); /* shared pages stay */
    sequence_free(fork);
    assert_int_equal(kv_bytes(), 3 * page_bytes);
    sequence_free(other);
    assert_int_equal(kv_bytes(), 0);
    tiny.accounts.limit_bytes[ACCOUNT_KV] = UINT64_MAX;
}

/* A rewind into pages that a fork reads: the fork keeps them, and the writer gets copies. */
static void test_sequence_rewind_shared(void **state) {
    static float whole[N_MAX * TINY_VOCAB], alone[N_MAX * TINY_VOCAB], rewound[N_MAX * TINY_VOCAB];
    Sequence *sequence, *fork, *fresh;
    ErrText err = { 0 };
    uint64_t before;
    uint32_t token = token_of(2, 30);

    make(&sequence, N_MAX);
    append(sequence, 1, N_MAX, whole);
    assert_int_equal(fork_sequence(&fork, sequence, 130, N_MAX, &err), 0);
    before = kv_bytes();
    sequence_rewind(sequence, 30);
    tiny.accounts.limit_bytes[ACCOUNT_KV] = before;
    assert_int_equal(engine_forward(tiny.engine, sequence, &token, 1, 0, NULL, &err), ENGINE_E_MEMORY);
    assert_int_equal(sequence_n_tokens(sequence), 30);
    tiny.accounts.limit_bytes[ACCOUNT_KV] = UINT64_MAX;
    append(sequence, 2, 140, rewound);
    assert_true(kv_bytes() > before); /* two pages were copied */
    append(fork, 1, N_MAX, alone);
    same(alone, whole + (size_t)130 * TINY_VOCAB, N_MAX - 130);
    make(&fresh, N_MAX);
    append(fresh, 1, 30, alone);
    append(fresh, 2, 140, alone);
    same(rewound, alone, 110);
    sequence_free(fresh);
    sequence_free(fork);
    sequence_free(sequence);
}

static Sequence *make_behind(Sequence *first, size_t n_shared) {
    Sequence *sequence;
    ErrText err = { 0 };

    assert_int_equal(sequence_new_behind(&sequence, first, n_shared, N_MAX, &err), 0);
    assert_true(sequence_is_waiting(sequence));
    assert_int_equal(sequence_n_tokens(sequence), 0);
    return sequence;
}

/* Sequences that wait for another one: their memory is reserved at once, without the pages that they will share. They
 * go on with the bits that they would have alone, in whatever order all of them end. */
static void test_sequence_behind(void **state) {
    static const size_t shared[] = { 0, 1, 63, 64, 65, 128, 150 };
    static float alone[N_MAX * TINY_VOCAB], first_logits[N_MAX * TINY_VOCAB], branch[N_MAX * TINY_VOCAB];

    for (size_t i = 0; i < ARRAY_LEN(shared); i++) {
        const size_t n = shared[i];
        const uint64_t own = engine_kv_bytes(tiny.engine, N_MAX) - engine_kv_full_bytes(tiny.engine, n);
        Sequence *first, *behind[2], *fresh;

        make(&first, N_MAX);
        behind[0] = make_behind(first, n);
        behind[1] = make_behind(first, n);
        assert_int_equal(kv_bytes(), engine_kv_bytes(tiny.engine, N_MAX) + 2 * own);
        append(first, 1, n + 1, first_logits);
        sequence_feed(first);
        append(first, 1, 180, first_logits);
        for (size_t j = 0; j < 2; j++) {
            assert_false(sequence_is_waiting(behind[j]));
            assert_int_equal(sequence_n_tokens(behind[j]), n);
        }
        append(behind[0], 2, 180, branch);
        first = sequence_free(first);
        append(behind[1], 2, 180, alone);
        same(branch, alone, 180 - n);
        sequence_free(behind[0]);
        make(&fresh, N_MAX);
        append(fresh, 1, n, alone);
        append(fresh, 2, 180, alone);
        same(branch, alone, 180 - n);
        sequence_free(fresh);
        sequence_free(behind[1]);
        assert_int_equal(kv_bytes(), 0);
    }
}

/* Sequences that wait may be freed, and so may the one that they wait for. */
static void test_sequence_behind_freed(void **state) {
    static float logits[N_MAX * TINY_VOCAB];
    Sequence *first, *behind[2];

    make(&first, N_MAX);
    behind[0] = make_behind(first, 100);
    behind[1] = make_behind(first, 100);
    sequence_free(behind[0]);
    append(first, 1, 101, logits);
    sequence_feed(first);
    assert_int_equal(sequence_n_tokens(behind[1]), 100);
    behind[0] = make_behind(first, 100);
    first = sequence_free(first);
    assert_true(sequence_is_waiting(behind[0]));
    sequence_free(behind[0]);
    sequence_free(behind[1]);
    assert_int_equal(kv_bytes(), 0);
}

#define TESTS                                                                                                          \
    cmocka_unit_test(test_sequence_behind), cmocka_unit_test(test_sequence_behind_freed),                              \
        cmocka_unit_test(test_sequence_fork), cmocka_unit_test(test_sequence_fork_outlives),                           \
        cmocka_unit_test(test_sequence_memory), cmocka_unit_test(test_sequence_rewind_shared)

int main(void) {
    const struct CMUnitTest cpu[] = { TESTS }, reference[] = { TESTS };

    return cmocka_run_group_tests_name("cpu", cpu, setup_cpu, teardown) +
           cmocka_run_group_tests_name("reference", reference, setup_reference, teardown);
}
