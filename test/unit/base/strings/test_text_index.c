// SPDX-License-Identifier: Apache-2.0
/* The index of texts: its results, and the length of its searches when texts were chosen to harm. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/strings/text_index.h"

#define N_SLOTS 16384u
#define N_TEXTS (N_SLOTS / 4 * 3) /* the index lets its table get no fuller */
#define TEXT_BYTES 7
#define N_ABSENT 4000

static char texts[N_TEXTS * TEXT_BYTES];

static const HashKey known_key = { .seed = 0x243f6a8885a308d3u, .factor = 0x9fb21c651e98df25u };

typedef uint64_t TextHash(const char *text);

static uint64_t known_hash(const char *text) {
    return hash_key_text(&known_key, text, TEXT_BYTES);
}

/* The hash of an index without a secret. */
static uint64_t public_hash(const char *text) {
    __extension__ typedef unsigned __int128 Wide;
    uint64_t value = 0;
    Wide product;

    memcpy(&value, text, TEXT_BYTES);
    product = (Wide)(0x9e3779b97f4a7c15u ^ TEXT_BYTES ^ value) * 0x9fb21c651e98df25u;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Makes texts in the order of number. first: 'A', or 'a' for texts that no other number gives. */
static void make_text(uint64_t number, char first, char *text) {
    for (size_t i = 0; i < TEXT_BYTES; i++, number /= 26)
        text[i] = (char)(first + number % 26);
}

/* Chooses one text for each of the first three quarters of the slots: none is displaced, and all are one run. */
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

static TextSpan text_of(const void *owner, uint32_t id) {
    assert_ptr_equal(owner, texts);
    return (TextSpan){ texts + id * TEXT_BYTES, TEXT_BYTES };
}

static void new_index(TextIndex *index) {
    assert_int_equal(text_index_init(index, N_TEXTS, text_of, texts), 0);
    assert_int_equal(index->table.mask, N_SLOTS - 1);
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

/* An index without room for its texts grows, ahead of a duplicate too. */
static void test_text_index_grows(void **state) {
    TextIndex index;

    choose_any();
    assert_int_equal(text_index_init(&index, 0, text_of, texts), 0);
    for (uint32_t id = 0; id < N_TEXTS; id++) {
        assert_int_equal(text_index_add(&index, id), 0);
        assert_int_equal(text_index_add(&index, id / 2), 0);
        assert_true(4 * (uint64_t)index.n <= 3 * ((uint64_t)index.table.mask + 1));
    }
    assert_int_equal(index.n, N_TEXTS);
    assert_int_equal(index.n_duplicates, N_TEXTS);
    assert_int_equal(index.table.mask, 2 * N_SLOTS - 1);
    check_finds(&index);
    text_index_deinit(&index);
}

/* Without a secret no chosen text is displaced, and the search for an absent one walks through all. With a secret the
 * texts lie anywhere. */
static void test_text_index_slots_cannot_be_chosen(void **state) {
    TextIndex index;

    choose_run(public_hash);
    new_index(&index);
    add_all(&index);
    assert_in_range(index.table.n_probes_max, 1, 1000);
    check_finds(&index);
    text_index_deinit(&index);
}

/* A search walks through no run even if the key is known: it ends at the longest distance of any text. The run here has
 * no end. */
static void test_text_index_absent_ends_where_no_text_went(void **state) {
    TextIndex index;

    choose_run(known_hash);
    new_index(&index);
    index.table.key = known_key;
    add_all(&index);
    assert_int_equal(index.table.n_probes_max, 0);
    for (uint32_t i = 0; i < N_SLOTS; i++)
        if (index.slots[i].id == UINT32_MAX)
            index.slots[i] = (TextSlot){ .id = 0 };
    alarm(60);
    check_finds(&index);
    alarm(0);
    text_index_deinit(&index);
}

/* A table in which thousands of texts collide is refused. */
static void test_text_index_refuses_a_cluster(void **state) {
    TextIndex index;
    uint32_t id = 0;
    int r = 0;

    new_index(&index);
    index.table.key = known_key;
    for (uint64_t number = 0; !r && id < 6000; number++) {
        make_text(number, 'A', texts + id * TEXT_BYTES);
        if (((uint32_t)known_hash(texts + id * TEXT_BYTES) & (N_SLOTS - 1)) >= 64)
            continue;
        r = text_index_add(&index, id);
        id++;
    }
    assert_int_equal(r, TEXT_INDEX_E_CLUSTER);
    assert_in_range(id, 4097, 4097 + 64);
    assert_in_range(index.table.n_probes_max, 4000, 4096);
    for (uint32_t i = 0; i + 1 < id; i++) /* the texts before this one are found */
        assert_int_equal(text_index_find(&index, texts + i * TEXT_BYTES, TEXT_BYTES), i);
    text_index_deinit(&index);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_index_finds_whatever_the_key),
        cmocka_unit_test(test_text_index_grows),
        cmocka_unit_test(test_text_index_slots_cannot_be_chosen),
        cmocka_unit_test(test_text_index_absent_ends_where_no_text_went),
        cmocka_unit_test(test_text_index_refuses_a_cluster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
