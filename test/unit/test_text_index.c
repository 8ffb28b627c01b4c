/* The index of texts: what it finds, and how long it looks when somebody has chosen the texts to harm. */
#undef NDEBUG
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "engine/text_index.h"

#define N_SLOTS 16384u
#define N_TEXTS (N_SLOTS / 4 * 3) /* as full as the index lets its table be */
#define TEXT_BYTES 7
#define N_ABSENT 4000

static char texts[N_TEXTS * TEXT_BYTES];
static uint32_t offsets[N_TEXTS + 1];

static const HashKey known_key = { .seed = 0x243f6a8885a308d3u, .factor = 0x9fb21c651e98df25u };

typedef uint64_t TextHash(const char *text);

static uint64_t known_hash(const char *text) {
    return hash_key_text(&known_key, text, TEXT_BYTES);
}

/* That of an index without a secret, which it was once. */
static uint64_t public_hash(const char *text) {
    __extension__ typedef unsigned __int128 Wide;
    uint64_t value = 0;
    Wide product;

    memcpy(&value, text, TEXT_BYTES);
    product = (Wide)(0x9e3779b97f4a7c15u ^ TEXT_BYTES ^ value) * 0x9fb21c651e98df25u;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Texts in the order of number; first: 'A' or, for texts that no other number gives, 'a'. */
static void make_text(uint64_t number, char first, char *text) {
    for (size_t i = 0; i < TEXT_BYTES; i++, number /= 26)
        text[i] = (char)(first + number % 26);
}

/* One text for each of the first three quarters of the slots: nothing is displaced, and all of it is one run. */
static void choose_run(TextHash *hash) {
    static bool taken[N_TEXTS];
    char text[TEXT_BYTES];
    uint32_t n = 0;

    memset(taken, 0, sizeof(taken));
    for (uint64_t number = 0; n < N_TEXTS; number++) {
        uint32_t slot;

        make_text(number, 'A', text);
        slot = (uint32_t)hash(text) & (N_SLOTS - 1);
        if (slot >= N_TEXTS || taken[slot])
            continue;
        taken[slot] = true;
        memcpy(texts + n++ * TEXT_BYTES, text, TEXT_BYTES);
    }
}

static void choose_any(void) {
    for (uint32_t i = 0; i < N_TEXTS; i++)
        make_text(i, 'A', texts + i * TEXT_BYTES);
}

static void new_index(TextIndex *index) {
    for (uint32_t i = 0; i <= N_TEXTS; i++)
        offsets[i] = i * TEXT_BYTES;
    assert_int_equal(text_index_init(index, N_TEXTS, texts, offsets), 0);
    assert_int_equal(index->mask, N_SLOTS - 1);
}

static void add_all(TextIndex *index) {
    for (uint32_t id = 0; id < N_TEXTS; id++)
        assert_int_equal(text_index_add(index, id), 0);
}

static void check_finds(const TextIndex *index) {
    char text[TEXT_BYTES];

    for (uint32_t id = 0; id < N_TEXTS; id++)
        assert_int_equal(text_index_find(index, texts + id * TEXT_BYTES, TEXT_BYTES), id);
    for (uint64_t number = 0; number < N_ABSENT; number++) {
        make_text(number, 'a', text);
        assert_int_equal(text_index_find(index, text, TEXT_BYTES), UINT32_MAX);
    }
    assert_int_equal(text_index_find(index, texts, TEXT_BYTES - 1), UINT32_MAX);
    assert_int_equal(text_index_find(index, texts, 0), UINT32_MAX);
}

static uint64_t thread_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* CPU time of looking for absent texts, the shortest of some rounds. */
static uint64_t absent_ns(const TextIndex *index) {
    uint64_t shortest = UINT64_MAX;
    char text[TEXT_BYTES];

    for (int round = 0; round < 5; round++) {
        uint64_t start = thread_ns(), taken;
        uint32_t n_found = 0;

        for (uint64_t number = 0; number < N_ABSENT; number++) {
            make_text(number, 'a', text);
            n_found += text_index_find(index, text, TEXT_BYTES) != UINT32_MAX;
        }
        taken = thread_ns() - start;
        assert_int_equal(n_found, 0);
        if (taken < shortest)
            shortest = taken;
    }
    return shortest;
}

static uint64_t absent_ns_of_any_texts(void) {
    TextIndex index;
    uint64_t ns;

    choose_any();
    new_index(&index);
    add_all(&index);
    ns = absent_ns(&index);
    text_index_deinit(&index);
    return ns;
}

static void test_text_index_finds_whatever_the_key(void **state) {
    choose_any();
    for (int round = 0; round < 4; round++) {
        TextIndex index;

        new_index(&index);
        add_all(&index);
        check_finds(&index);
        assert_int_equal(text_index_add(&index, 5), 0);
        assert_int_equal(index.n_duplicates, 1);
        assert_true(text_index_memory_bytes(&index) >= N_SLOTS * sizeof(TextSlot));
        text_index_deinit(&index);
    }
}

/* Chosen for the hash of before, they lie anywhere now: a walk through the run took hundreds of times as long. */
static void test_text_index_slots_cannot_be_chosen(void **state) {
    uint64_t any_ns = absent_ns_of_any_texts(), chosen_ns;
    TextIndex index;

    choose_run(public_hash);
    new_index(&index);
    add_all(&index);
    check_finds(&index);
    chosen_ns = absent_ns(&index);
    print_message("any texts %" PRIu64 " ns, chosen ones %" PRIu64 " ns\n", any_ns, chosen_ns);
    assert_true(chosen_ns < 10 * any_ns);
    text_index_deinit(&index);
}

/* Even who knows the key makes nobody walk through a run: an absent text is given up where no text has gone. */
static void test_text_index_absent_ends_where_no_text_went(void **state) {
    uint64_t any_ns = absent_ns_of_any_texts(), chosen_ns;
    TextIndex index;

    choose_run(known_hash);
    new_index(&index);
    index.key = known_key;
    add_all(&index);
    assert_int_equal(index.n_probes_max, 0);
    check_finds(&index);
    chosen_ns = absent_ns(&index);
    print_message("any texts %" PRIu64 " ns, chosen ones %" PRIu64 " ns\n", any_ns, chosen_ns);
    assert_true(chosen_ns < 10 * any_ns);
    text_index_deinit(&index);
}

/* And who makes thousands collide is refused. */
static void test_text_index_refuses_a_cluster(void **state) {
    TextIndex index;
    uint32_t id = 0;
    int r = 0;

    new_index(&index);
    index.key = known_key;
    for (uint64_t number = 0; !r && id < 6000; number++) {
        make_text(number, 'A', texts + id * TEXT_BYTES);
        if (((uint32_t)known_hash(texts + id * TEXT_BYTES) & (N_SLOTS - 1)) >= 64)
            continue;
        r = text_index_add(&index, id);
        id++;
    }
    assert_int_equal(r, TEXT_INDEX_E_CLUSTER);
    assert_in_range(id, 4097, 4097 + 64);
    assert_in_range(index.n_probes_max, 4000, 4096);
    for (uint32_t i = 0; i + 1 < id; i++) /* those before it are there */
        assert_int_equal(text_index_find(&index, texts + i * TEXT_BYTES, TEXT_BYTES), i);
    text_index_deinit(&index);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_index_finds_whatever_the_key),
        cmocka_unit_test(test_text_index_slots_cannot_be_chosen),
        cmocka_unit_test(test_text_index_absent_ends_where_no_text_went),
        cmocka_unit_test(test_text_index_refuses_a_cluster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
