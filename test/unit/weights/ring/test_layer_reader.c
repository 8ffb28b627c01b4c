// SPDX-License-Identifier: Apache-2.0
/* Layers that are read ahead of use, on real files, both ways: every byte of every held layer, in any order of holds
 * and with any number of slots; waiting; turns to other layers; the page cache; the limit. */
#undef NDEBUG
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/files/extent_reader.h"
#include "base/files/page_cache.h"
#include "test/unit/fixtures/model_maker.h"
#include "test/unit/weights/ring/layer_fixture.h"

enum {
    DEPTH = 8 /* pieces under way, layer_reader.c */
};

/* --- without faults ----------------------------------------------------------------------------------------------- */

static void test_layer_reader_circle(void **state) {
    for (size_t w = 0; w < ARRAY_LEN(layer_ways); w++)
        for (size_t n_slots = 2; n_slots <= LAYER_SLOTS_MAX; n_slots++) {
            const LayerReaderOptions options = layer_fixture_options(layer_ways[w], N_LAYERS, n_slots);
            LayerReader *reader = layer_fixture_open(&options);
            uint64_t sweep_bytes = 0, sweep_pieces = 0;
            LayerReaderCounts counts;

            if (!reader)
                continue;
            assert_ptr_equal(strstr(layer_reader_way(reader), w ? "threads" : "io_uring"), layer_reader_way(reader));
            for (size_t i = 0; i < 3 * N_LAYERS; i++) {
                layer_fixture_hold_whole(reader, i % N_LAYERS);
                layer_reader_release(reader, i % N_LAYERS);
            }
            for (size_t i = 0; i < N_LAYERS; i++) {
                sweep_bytes += layer_fixture.layers[i].len_bytes;
                sweep_pieces += layer_fixture_pieces(i);
            }
            counts = layer_reader_counts(reader);
            assert_int_equal(counts.n_in_vain, 0);
            assert_true(counts.reading_ns > 0);
            if (n_slots >= N_LAYERS) {
                assert_int_equal(counts.read_bytes, sweep_bytes);
                assert_int_equal(counts.n_reads, sweep_pieces);
            } else {
                assert_true(counts.read_bytes >= sweep_bytes);
                assert_true(counts.n_reads <= 4 * sweep_pieces);
            }
            assert_null(layer_reader_free(reader));
        }
    assert_null(layer_reader_free(NULL));
}

/* Layers in any order, several held at a time (one twice): all are still whole when they are released. */
static void test_layer_reader_random_orders(void **state) {
    for (size_t w = 0; w < ARRAY_LEN(layer_ways); w++)
        for (size_t n_slots = 2; n_slots <= N_LAYERS; n_slots += 1 + n_slots / 3) {
            const LayerReaderOptions options = layer_fixture_options(layer_ways[w], N_LAYERS, n_slots);
            LayerReader *reader = layer_fixture_open(&options);
            const uint8_t *held[N_LAYERS] = { NULL };
            size_t n_holds[N_LAYERS] = { 0 }, n_held = 0, at = 0;
            uint64_t seed = n_slots;

            for (int turn = 0; reader && turn < 150; turn++) {
                const size_t any = (size_t)(test_random(&seed) % N_LAYERS);

                if (n_holds[any]) {
                    layer_fixture_check(any, held[any]);
                    layer_reader_release(reader, any);
                    n_held -= !--n_holds[any];
                }
                at = test_random(&seed) % 4 ? (at + 1) % N_LAYERS : (size_t)(test_random(&seed) % N_LAYERS);
                if (n_held == n_slots && !n_holds[at]) {
                    assert_int_equal(layer_reader_hold(reader, at, test_random(&seed) % 100000, &held[at], NULL),
                                     LAYER_READER_E_WAITING);
                } else {
                    held[at] = layer_fixture_hold_whole(reader, at);
                    n_held += !n_holds[at]++;
                }
            }
            layer_reader_free(reader);
        }
}

/* A single layer, which stays in memory. */
static void test_layer_reader_one_layer(void **state) {
    const LayerReaderOptions options = layer_fixture_options(EXTENT_WAY_ANY, 1, 2);
    LayerReader *reader = layer_fixture_open(&options);

    for (int i = 0; i < 10; i++) {
        layer_fixture_hold_whole(reader, 0);
        layer_reader_release(reader, 0);
    }
    assert_int_equal(layer_reader_counts(reader).n_reads, 1);
    layer_reader_free(reader);
}

/* The array of layers and the path may be freed when the reader is made. */
static void test_layer_reader_copies(void **state) {
    LayerReaderOptions options = layer_fixture_options(EXTENT_WAY_ANY, N_LAYERS, 3);
    LayerExtent *layers = malloc(sizeof(layer_fixture.layers));
    char *path = strdup("/some/name");
    const uint8_t *data;
    LayerReader *reader;
    ErrText err = { 0 };

    assert_true(layers && path);
    memcpy(layers, layer_fixture.layers, sizeof(layer_fixture.layers));
    options.layers = layers;
    options.path = path;
    layer_faults_between(layer_fixture.layers[7].offset_bytes, layer_fixture.layers[8].offset_bytes);
    reader = layer_fixture_open(&options);
    memset(layers, 0xff, sizeof(layer_fixture.layers));
    memset(path, 'x', strlen(path));
    free(layers);
    free(path);
    for (size_t i = 0; i < 7; i++) {
        layer_fixture_hold_whole(reader, i);
        layer_reader_release(reader, i);
    }
    assert_int_equal(layer_fixture_hold(reader, 7, &data, &err), -EIO);
    assert_non_null(strstr(err.text, "/some/name: layer 107: "));
    layer_reader_free(reader);
}

static void test_layer_reader_bad_options(void **state) {
    const LayerReaderOptions good = layer_fixture_options(EXTENT_WAY_ANY, N_LAYERS, 2);
    LayerExtent layer = layer_fixture.layers[0];
    LayerReaderOptions bad[8];
    LayerReader *reader = NULL;
    ErrText err;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        bad[i] = good;
    bad[0].n_slots = 1;
    bad[1].n_slots = LAYER_SLOTS_MAX + 1;
    bad[2].n_layers = 0;
    bad[3].slots = layer_fixture.slots + 64;
    bad[4].slot_bytes = SLOT_BYTES - 64;
    bad[5].slot_bytes = 5 << 20; /* the layer has this size, but does not begin at a unit */
    bad[6].layers = bad[7].layers = &layer;
    bad[6].n_layers = bad[7].n_layers = 1;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        layer.len_bytes = i == 6 ? 0 : 64;
        layer.offset_bytes = i == 7 ? INT64_MAX - 4096 : 4096;
        err.text[0] = '\0';
        assert_int_equal(layer_reader_new(&reader, &bad[i], &err), -EINVAL);
        assert_non_null(strstr(err.text, layer_fixture.path));
    }
    bad[0] = good;
    bad[0].fd = -1;
    assert_int_equal(layer_reader_new(&reader, &bad[0], &err), -EBADF);
    assert_null(reader);
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

/* A hold returns after its time if nothing comes, and the layer is read all the same. */
static void test_layer_reader_waits(void **state) {
    for (size_t w = 0; w < ARRAY_LEN(layer_ways); w++) {
        const LayerReaderOptions options = layer_fixture_options(layer_ways[w], N_LAYERS, 2);
        const uint8_t *data = NULL;
        LayerReader *reader;

        layer_gate_stop_from(0);
        reader = layer_fixture_open(&options);
        if (!reader)
            continue;
        assert_int_equal(layer_reader_hold(reader, 5, 0, &data, NULL), LAYER_READER_E_WAITING);
        assert_int_equal(layer_reader_hold(reader, 5, 1000000, &data, NULL), LAYER_READER_E_WAITING);
        assert_int_equal(layer_reader_counts(reader).n_reads, 0);
        assert_null(data);
        layer_gate_stop_from(UINT64_MAX);
        layer_fixture_hold_whole(reader, 5);
        layer_reader_free(reader);
        layer_faults_reset();
    }
}

/* A hold returns with every piece of the layer that comes while it waits, however long it might wait, so that a cancel
 * is noticed. A piece that comes between two calls is not seen, so the test repeats until one is. */
static void test_layer_reader_returns_with_a_piece(void **state) {
    for (size_t w = 0; w < ARRAY_LEN(layer_ways); w++) {
        LayerReaderOptions options = layer_fixture_options(layer_ways[w], N_LAYERS, 2);
        LayerReader *reader;
        size_t n_waits = 0;

        options.limit.bytes_per_s = 500000000; /* the pieces of a layer do not come at once */
        reader = layer_fixture_open(&options);
        for (int round = 0; reader && n_waits < 3; round++) {
            const uint8_t *data;
            int r;

            assert_true(round < 1000);
            while ((r = layer_reader_hold(reader, 5, NOT_SOON, &data, NULL)) == LAYER_READER_E_WAITING)
                n_waits++;
            assert_int_equal(r, 0);
            layer_fixture_check(5, data);
            layer_reader_release(reader, 5);
            layer_fixture_hold_whole(reader, 7);
            layer_reader_release(reader, 7);
        }
        layer_reader_free(reader);
    }
}

/* While every slot is held no other layer comes; held layers stay. */
static void test_layer_reader_all_held(void **state) {
    const LayerReaderOptions options = layer_fixture_options(EXTENT_WAY_ANY, N_LAYERS, 2);
    LayerReader *reader = layer_fixture_open(&options);
    const uint8_t *first = layer_fixture_hold_whole(reader, 4), *second = layer_fixture_hold_whole(reader, 8), *third;

    for (int i = 0; i < 100; i++)
        assert_int_equal(layer_reader_hold(reader, 6, 100000, &third, NULL), LAYER_READER_E_WAITING);
    layer_fixture_check(4, first);
    layer_fixture_check(8, second);
    layer_reader_release(reader, 4);
    third = layer_fixture_hold_whole(reader, 6);
    assert_ptr_equal(third - layer_fixture.layers[6].offset_bytes % EXTENT_ALIGNMENT,
                     first - layer_fixture.layers[4].offset_bytes % EXTENT_ALIGNMENT);
    layer_fixture_check(8, second);
    layer_reader_free(reader);
}

/* Layers of 3, 2, 3 and 1 pieces have slots, 8 pieces are under way, and another layer is asked for. The last layer, of
 * which nothing was begun, gives way; the others come soon after, and are not read twice. */
static void test_layer_reader_turns(void **state) {
    for (size_t w = 0; w < ARRAY_LEN(layer_ways); w++) {
        LayerReaderOptions options = layer_fixture_options(layer_ways[w], 7, 4);
        const LayerExtent *layers = &layer_fixture.layers[5];
        const uint8_t *data;
        LayerReader *reader;

        assert_int_equal(layer_fixture_pieces(5) + layer_fixture_pieces(6) + layer_fixture_pieces(7), DEPTH);
        options.layers = layers;
        options.limit.bytes_per_s = UINT64_C(1) << 50; /* with a limit at most DEPTH pieces are asked for */
        layer_gate_stop_from(0);
        reader = layer_fixture_open(&options);
        if (!reader)
            continue;
        layer_gate_wait();
        assert_int_equal(layer_reader_hold(reader, 6, 0, &data, NULL), LAYER_READER_E_WAITING);
        layer_gate_stop_from(UINT64_MAX);
        for (size_t i = 0; i < 4; i++) {
            const size_t index = (6 + i) % 7;
            ErrText err = { 0 };

            if (layer_fixture_hold(reader, index, &data, &err))
                fail_msg("%s", err.text);
            layer_fixture_check(5 + index, data);
        }
        assert_int_equal(layer_reader_counts(reader).n_reads, layer_fixture_pieces(11) + layer_fixture_pieces(5) +
                                                                  layer_fixture_pieces(6) + layer_fixture_pieces(7));
        assert_int_equal(layer_reader_counts(reader).n_in_vain, 0);
        layer_reader_free(reader);
        layer_faults_reset();
    }
}

/* Users go round from different places, one call at a time, in turns; one user stops in the middle and never repeats
 * its call. Layers come in pieces, so that most are half read at the next user's turn. */
static void test_layer_reader_users_in_turns(void **state) {
    for (size_t w = 0; w < ARRAY_LEN(layer_ways); w++)
        for (size_t n_slots = 2; n_slots <= 4; n_slots++)
            for (size_t n_users = 2; n_users <= 4; n_users++) {
                const LayerReaderOptions options = layer_fixture_options(layer_ways[w], N_LAYERS, n_slots);
                LayerReader *reader = layer_fixture_open(&options);
                size_t at[4], n_left[4], n_done = 0;
                bool holds[4] = { false };

                for (size_t i = 0; i < n_users; i++) {
                    at[i] = i * N_LAYERS / n_users + 1;
                    n_left[i] = i == 1 ? N_LAYERS / 2 : N_LAYERS + 3;
                }
                for (int asks = 0; reader && n_done < n_users; asks++) {
                    const size_t i = (size_t)asks % n_users;
                    const uint8_t *data;
                    ErrText err = { 0 };
                    int r;

                    assert_true(asks < 100000);
                    if (!n_left[i])
                        continue;
                    if (holds[i]) {
                        layer_reader_release(reader, at[i]);
                        at[i] = (at[i] + 1) % N_LAYERS;
                        n_done += !--n_left[i];
                    }
                    r = layer_reader_hold(reader, at[i], n_left[i] ? 1000000 : 0, &data, &err);
                    holds[i] = !r;
                    assert_true(!r || r == LAYER_READER_E_WAITING);
                    if (holds[i])
                        layer_fixture_check(at[i], data);
                    if (holds[i] && !n_left[i])
                        layer_reader_release(reader, at[i]);
                }
                layer_reader_free(reader);
            }
}

/* --- the machine -------------------------------------------------------------------------------------------------- */

static void test_layer_reader_leaves_the_page_cache(void **state) {
    for (size_t w = 0; w < ARRAY_LEN(layer_ways); w++) {
        const LayerReaderOptions options = layer_fixture_options(layer_ways[w], N_LAYERS, 3);
        uint64_t resident, pages;
        LayerReader *reader;
        ErrText err = { 0 };

        if (page_cache_drop(layer_fixture.fd, layer_fixture.path, &err)) {
            print_message("left out: %s\n", err.text);
            skip();
        }
        reader = layer_fixture_open(&options);
        if (!reader)
            continue;
        for (size_t i = 0; i < 5 * N_LAYERS; i++) {
            layer_fixture_hold_whole(reader, i % N_LAYERS);
            layer_reader_release(reader, i % N_LAYERS);
        }
        if (!strstr(layer_reader_way(reader), ", direct")) {
            print_message("left out: no direct reads in %s\n", layer_fixture.folder);
        } else {
            assert_int_equal(page_cache_count(layer_fixture.fd, layer_fixture.path, &resident, &pages, &err), 0);
            assert_true(pages > 0);
            assert_int_equal(resident, 0);
        }
        layer_reader_free(reader);
    }
}

/* Reads are not faster than the limit, whatever the machine; slower reads are the machine's. A limit that is set later
 * holds for later reads. */
static void test_layer_reader_limit(void **state) {
    for (size_t w = 0; w < ARRAY_LEN(layer_ways); w++) {
        LayerReaderOptions options = layer_fixture_options(layer_ways[w], N_LAYERS, 2);
        const uint64_t start_ns = clock_now_ns();
        LayerReaderCounts counts;
        LayerReader *reader;
        uint64_t took_ns;

        options.limit = (ReadLimit){ .bytes_per_s = 200000000, .latency_us = 20000 };
        reader = layer_fixture_open(&options);
        if (!reader)
            continue;
        for (size_t i = 0; i < N_LAYERS; i++) {
            layer_fixture_hold_whole(reader, i);
            layer_reader_release(reader, i);
        }
        counts = layer_reader_counts(reader);
        took_ns = clock_now_ns() - start_ns;
        assert_true(took_ns >= 20000000);
        assert_true((double)(took_ns - 20000000) * 0.2 >= (double)counts.read_bytes);
        assert_true(counts.reading_ns <= took_ns);
        layer_reader_set_limit(reader, (ReadLimit){ 0 });
        for (size_t i = 0; i < 2 * N_LAYERS; i++) {
            layer_fixture_hold_whole(reader, i % N_LAYERS);
            layer_reader_release(reader, i % N_LAYERS);
        }
        layer_reader_free(reader);
    }
}

/* Counts and limits from another thread than the one that holds. */
static void *watch(void *arg) {
    LayerReader *reader = arg;
    uint64_t before = 0;

    for (int i = 0; i < 200; i++) {
        const LayerReaderCounts counts = layer_reader_counts(reader);

        assert_true(counts.read_bytes >= before && *layer_reader_way(reader));
        before = counts.read_bytes;
        layer_reader_set_limit(reader, (ReadLimit){ i % 2 ? UINT64_C(3000000000) : 0, i % 2 });
    }
    return NULL;
}

static void test_layer_reader_watched(void **state) {
    const LayerReaderOptions options = layer_fixture_options(EXTENT_WAY_ANY, N_LAYERS, 3);
    LayerReader *reader = layer_fixture_open(&options);
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, watch, reader), 0);
    for (size_t i = 0; i < 4 * N_LAYERS; i++) {
        layer_fixture_hold_whole(reader, i % N_LAYERS);
        layer_reader_release(reader, i % N_LAYERS);
    }
    pthread_join(thread, NULL);
    layer_reader_free(reader);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_layer_reader_circle, layer_fixture_reset),
        cmocka_unit_test_teardown(test_layer_reader_random_orders, layer_fixture_reset),
        cmocka_unit_test_teardown(test_layer_reader_one_layer, layer_fixture_reset),
        cmocka_unit_test_teardown(test_layer_reader_copies, layer_fixture_reset),
        cmocka_unit_test_teardown(test_layer_reader_bad_options, layer_fixture_reset),
        cmocka_unit_test_teardown(test_layer_reader_waits, layer_fixture_reset),
        cmocka_unit_test_teardown(test_layer_reader_returns_with_a_piece, layer_fixture_reset),
        cmocka_unit_test_teardown(test_layer_reader_all_held, layer_fixture_reset),
        cmocka_unit_test_teardown(test_layer_reader_turns, layer_fixture_reset),
        cmocka_unit_test_teardown(test_layer_reader_users_in_turns, layer_fixture_reset),
        cmocka_unit_test_teardown(test_layer_reader_leaves_the_page_cache, layer_fixture_reset),
        cmocka_unit_test_teardown(test_layer_reader_limit, layer_fixture_reset),
        cmocka_unit_test_teardown(test_layer_reader_watched, layer_fixture_reset),
    };

    return cmocka_run_group_tests(tests, layer_fixture_setup, layer_fixture_teardown);
}
