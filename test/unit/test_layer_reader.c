// SPDX-License-Identifier: Apache-2.0
/* Layers that are read ahead of use, on real files, both ways: every byte of every layer that is held, in any order of
 * holds and with any number of slots; turns to other layers; reads that come short or fail; files that are cut, changed
 * or removed; ends at any moment; the page cache; the limit. Linked with --wrap: where the extent reader takes in what
 * came of a read, reads fail, stop, and are noted. */
#define _GNU_SOURCE
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/extent_reader_private.h"
#include "base/page_cache.h"
#include "test/unit/model_maker.h"
#include "weights/layer_reader.h"

#define NOT_SOON UINT64_C(3600000000000) /* longer than any test */

enum {
    PIECE_BYTES = 2 << 20, /* layer_reader.c */
    DEPTH = 8,
    N_LAYERS = 12,
    SLOT_BYTES = (5 << 20) + 8192,
    N_READS = 10000,
};

typedef struct Fixture {
    char folder[256];
    char path[300];
    uint8_t *bytes;
    size_t len_bytes;
    int fd;
    LayerExtent layers[N_LAYERS]; /* 64 to 5 Mi bytes, apart from each other and not aligned but to 64 */
    uint8_t *slots;               /* [LAYER_SLOTS_MAX][SLOT_BYTES] */
} Fixture;

static Fixture fixture;

/* --- what comes of a read ----------------------------------------------------------------------------------------- */

typedef enum Fault {
    FAULT_NONE,
    FAULT_SHORT_READ, /* the read brings less than it should; the rest can be read */
    FAULT_SHORT_FILE,
    FAULT_EIO,
    N_FAULTS
} Fault;

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t seed;
    unsigned int one_in;         /* reads that have a fault; 0: none */
    uint64_t fail_from, fail_to; /* reads that begin there fail with EIO */
    size_t n_faults[N_FAULTS];
    uint64_t stop_from; /* the gate: reads that begin there in the file do not come to their end */
    size_t n_waiting;   /* at the gate */
} hook = { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

int __real_extent_finish_piece(ExtentReader *reader, const ExtentPiece *piece, ssize_t n_read);
int __wrap_extent_finish_piece(ExtentReader *reader, const ExtentPiece *piece, ssize_t n_read);

int __wrap_extent_finish_piece(ExtentReader *reader, const ExtentPiece *piece, ssize_t n_read) {
    Fault fault = FAULT_NONE;
    uint64_t random;

    pthread_mutex_lock(&hook.mutex);
    hook.n_waiting++;
    pthread_cond_broadcast(&hook.changed);
    while (piece->offset_bytes >= hook.stop_from)
        pthread_cond_wait(&hook.changed, &hook.mutex);
    hook.n_waiting--;
    random = test_random(&hook.seed);
    if (hook.one_in && random % hook.one_in == 0)
        fault = (Fault)(1 + (random >> 32) % (N_FAULTS - 1));
    if (piece->offset_bytes >= hook.fail_from && piece->offset_bytes < hook.fail_to)
        fault = FAULT_EIO;
    hook.n_faults[fault]++;
    pthread_mutex_unlock(&hook.mutex);
    switch (fault) {
    case FAULT_SHORT_READ:
        n_read = n_read > 0 ? (ssize_t)((random >> 40) % (uint64_t)n_read) : 0;
        memset(piece->buffer + n_read, 0xee, piece->len_bytes - (size_t)n_read);
        break;
    case FAULT_SHORT_FILE:
        return EXTENT_E_SHORT;
    case FAULT_EIO:
        return -EIO;
    default:
        break;
    }
    return __real_extent_finish_piece(reader, piece, n_read);
}

static void hook_reset(void) {
    pthread_mutex_lock(&hook.mutex);
    hook.seed = 99;
    hook.one_in = 0;
    hook.fail_from = hook.fail_to = 0;
    memset(hook.n_faults, 0, sizeof(hook.n_faults));
    hook.stop_from = UINT64_MAX;
    pthread_cond_broadcast(&hook.changed);
    pthread_mutex_unlock(&hook.mutex);
}

/* UINT64_MAX: all may pass. */
static void gate_stop_from(uint64_t offset_bytes) {
    pthread_mutex_lock(&hook.mutex);
    hook.stop_from = offset_bytes;
    pthread_cond_broadcast(&hook.changed);
    pthread_mutex_unlock(&hook.mutex);
}

static void gate_wait(void) {
    pthread_mutex_lock(&hook.mutex);
    while (!hook.n_waiting)
        pthread_cond_wait(&hook.changed, &hook.mutex);
    pthread_mutex_unlock(&hook.mutex);
}

static void fail_between(uint64_t from, uint64_t to) {
    pthread_mutex_lock(&hook.mutex);
    hook.fail_from = from;
    hook.fail_to = to;
    pthread_mutex_unlock(&hook.mutex);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static int set_up(void **state) {
    static const size_t sizes[N_LAYERS] = { 64,      4096,           100000 / 64 * 64, (2 << 20) - 64,
                                            2 << 20, (5 << 20),      (3 << 20) + 64,   (4 << 20) + 4096,
                                            700032,  (2 << 20) + 64, 12345 * 64,       (4 << 20) - 192 };
    uint64_t seed = 28, at = 4096 + 64;

    test_folder_make(fixture.folder);
    snprintf(fixture.path, sizeof(fixture.path), "%s/layers", fixture.folder);
    for (size_t i = 0; i < N_LAYERS; i++) {
        fixture.layers[i] = (LayerExtent){ at, sizes[i], (uint32_t)(100 + i) };
        at += sizes[i] + test_random(&seed) % 3 * 64;
    }
    fixture.len_bytes = (size_t)at;
    fixture.bytes = malloc(fixture.len_bytes + 8);
    assert_non_null(fixture.bytes);
    for (size_t i = 0; i < fixture.len_bytes; i += 8) {
        const uint64_t word = test_random(&seed);

        memcpy(fixture.bytes + i, &word, 8);
    }
    test_write_file(fixture.folder, "layers", fixture.bytes, fixture.len_bytes);
    fixture.fd = open(fixture.path, O_RDONLY | O_CLOEXEC);
    assert_true(fixture.fd >= 0);
    fixture.slots = aligned_alloc(EXTENT_ALIGNMENT, (size_t)LAYER_SLOTS_MAX * SLOT_BYTES);
    assert_non_null(fixture.slots);
    hook_reset();
    return 0;
}

static int tear_down(void **state) {
    close(fixture.fd);
    free(fixture.slots);
    free(fixture.bytes);
    test_folder_remove(fixture.folder);
    return 0;
}

static int reset(void **state) {
    hook_reset();
    return 0;
}

static LayerReaderOptions options_of(ExtentWay way, size_t n_layers, size_t n_slots) {
    return (LayerReaderOptions){ .fd = fixture.fd,
                                 .path = fixture.path,
                                 .layers = fixture.layers,
                                 .n_layers = n_layers,
                                 .slots = fixture.slots,
                                 .slot_bytes = SLOT_BYTES,
                                 .n_slots = n_slots,
                                 .way = way };
}

/* NULL, and a word about it, when this way cannot be had here. */
static LayerReader *open_reader(const LayerReaderOptions *options) {
    static bool told;
    LayerReader *reader = NULL;
    ErrText err = { "" };
    int r = layer_reader_new(&reader, options, &err);

    if (r == -EOPNOTSUPP && options->way == EXTENT_WAY_URING) {
        if (!told)
            print_message("left out: %s\n", err.text);
        told = true;
        return NULL;
    }
    if (r)
        fail_msg("%s", err.text);
    return reader;
}

static const ExtentWay ways[] = { EXTENT_WAY_URING, EXTENT_WAY_THREADS };

static void assert_holds(size_t index, const uint8_t *data) {
    const LayerExtent *layer = &fixture.layers[index];

    assert_int_equal((uintptr_t)data % EXTENT_ALIGNMENT, layer->offset_bytes % EXTENT_ALIGNMENT);
    assert_memory_equal(data, fixture.bytes + layer->offset_bytes, layer->len_bytes);
}

/* Until it is there: 0, or what went wrong. */
static int hold(LayerReader *reader, size_t index, const uint8_t **datap, ErrText *err) {
    int r;

    do
        r = layer_reader_hold(reader, index, NOT_SOON, datap, err);
    while (r == LAYER_READER_E_WAITING);
    return r;
}

static const uint8_t *hold_whole(LayerReader *reader, size_t index) {
    const uint8_t *data = NULL;
    ErrText err = { "" };

    if (hold(reader, index, &data, &err))
        fail_msg("%s", err.text);
    assert_holds(index, data);
    return data;
}

static size_t pieces_of(size_t index) {
    const LayerExtent *layer = &fixture.layers[index];

    return (extent_room_bytes(layer->offset_bytes, layer->len_bytes) + PIECE_BYTES - 1) / PIECE_BYTES;
}

/* --- without faults ----------------------------------------------------------------------------------------------- */

static void test_layer_reader_circle(void **state) {
    for (size_t w = 0; w < ARRAY_LEN(ways); w++)
        for (size_t n_slots = 2; n_slots <= LAYER_SLOTS_MAX; n_slots++) {
            const LayerReaderOptions options = options_of(ways[w], N_LAYERS, n_slots);
            LayerReader *reader = open_reader(&options);
            uint64_t sweep_bytes = 0, sweep_pieces = 0;
            LayerReaderCounts counts;

            if (!reader)
                continue;
            assert_ptr_equal(strstr(layer_reader_way(reader), w ? "threads" : "io_uring"), layer_reader_way(reader));
            for (size_t i = 0; i < 3 * N_LAYERS; i++) {
                hold_whole(reader, i % N_LAYERS);
                layer_reader_release(reader, i % N_LAYERS);
            }
            for (size_t i = 0; i < N_LAYERS; i++) {
                sweep_bytes += fixture.layers[i].len_bytes;
                sweep_pieces += pieces_of(i);
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

/* Any order, several held at a time (one twice), all still whole when they are released. */
static void test_layer_reader_random_orders(void **state) {
    for (size_t w = 0; w < ARRAY_LEN(ways); w++)
        for (size_t n_slots = 2; n_slots <= N_LAYERS; n_slots += 1 + n_slots / 3) {
            const LayerReaderOptions options = options_of(ways[w], N_LAYERS, n_slots);
            LayerReader *reader = open_reader(&options);
            const uint8_t *held[N_LAYERS] = { NULL };
            size_t n_holds[N_LAYERS] = { 0 }, n_held = 0, at = 0;
            uint64_t seed = n_slots;

            for (int turn = 0; reader && turn < 150; turn++) {
                const size_t any = (size_t)(test_random(&seed) % N_LAYERS);

                if (n_holds[any]) {
                    assert_holds(any, held[any]);
                    layer_reader_release(reader, any);
                    n_held -= !--n_holds[any];
                }
                at = test_random(&seed) % 4 ? (at + 1) % N_LAYERS : (size_t)(test_random(&seed) % N_LAYERS);
                if (n_held == n_slots && !n_holds[at]) {
                    assert_int_equal(layer_reader_hold(reader, at, test_random(&seed) % 100000, &held[at], NULL),
                                     LAYER_READER_E_WAITING);
                } else {
                    held[at] = hold_whole(reader, at);
                    n_held += !n_holds[at]++;
                }
            }
            layer_reader_free(reader);
        }
}

/* One layer alone, which is in memory for good. */
static void test_layer_reader_one_layer(void **state) {
    const LayerReaderOptions options = options_of(EXTENT_WAY_ANY, 1, 2);
    LayerReader *reader = open_reader(&options);

    for (int i = 0; i < 10; i++) {
        hold_whole(reader, 0);
        layer_reader_release(reader, 0);
    }
    assert_int_equal(layer_reader_counts(reader).n_reads, 1);
    layer_reader_free(reader);
}

/* The layers' array and path may go when the reader is made. */
static void test_layer_reader_copies(void **state) {
    LayerReaderOptions options = options_of(EXTENT_WAY_ANY, N_LAYERS, 3);
    LayerExtent *layers = malloc(sizeof(fixture.layers));
    char *path = strdup("/some/name");
    const uint8_t *data;
    LayerReader *reader;
    ErrText err = { "" };

    assert_true(layers && path);
    memcpy(layers, fixture.layers, sizeof(fixture.layers));
    options.layers = layers;
    options.path = path;
    fail_between(fixture.layers[7].offset_bytes, fixture.layers[8].offset_bytes);
    reader = open_reader(&options);
    memset(layers, 0xff, sizeof(fixture.layers));
    memset(path, 'x', strlen(path));
    free(layers);
    free(path);
    for (size_t i = 0; i < 7; i++) {
        hold_whole(reader, i);
        layer_reader_release(reader, i);
    }
    assert_int_equal(hold(reader, 7, &data, &err), -EIO);
    assert_non_null(strstr(err.text, "/some/name: layer 107: "));
    layer_reader_free(reader);
}

static void test_layer_reader_bad_options(void **state) {
    const LayerReaderOptions good = options_of(EXTENT_WAY_ANY, N_LAYERS, 2);
    LayerExtent layer = fixture.layers[0];
    LayerReaderOptions bad[8];
    LayerReader *reader = NULL;
    ErrText err;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        bad[i] = good;
    bad[0].n_slots = 1;
    bad[1].n_slots = LAYER_SLOTS_MAX + 1;
    bad[2].n_layers = 0;
    bad[3].slots = fixture.slots + 64;
    bad[4].slot_bytes = SLOT_BYTES - 64;
    bad[5].slot_bytes = 5 << 20; /* the layer is as large, but does not begin at a unit */
    bad[6].layers = bad[7].layers = &layer;
    bad[6].n_layers = bad[7].n_layers = 1;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        layer.len_bytes = i == 6 ? 0 : 64;
        layer.offset_bytes = i == 7 ? INT64_MAX - 4096 : 4096;
        err.text[0] = '\0';
        assert_int_equal(layer_reader_new(&reader, &bad[i], &err), -EINVAL);
        assert_non_null(strstr(err.text, fixture.path));
    }
    bad[0] = good;
    bad[0].fd = -1;
    assert_int_equal(layer_reader_new(&reader, &bad[0], &err), -EBADF);
    assert_null(reader);
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

/* With nothing coming it returns when its time is over, and what it asked for is read all the same. */
static void test_layer_reader_waits(void **state) {
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        const LayerReaderOptions options = options_of(ways[w], N_LAYERS, 2);
        const uint8_t *data = NULL;
        LayerReader *reader;

        gate_stop_from(0);
        reader = open_reader(&options);
        if (!reader)
            continue;
        assert_int_equal(layer_reader_hold(reader, 5, 0, &data, NULL), LAYER_READER_E_WAITING);
        assert_int_equal(layer_reader_hold(reader, 5, 1000000, &data, NULL), LAYER_READER_E_WAITING);
        assert_int_equal(layer_reader_counts(reader).n_reads, 0);
        assert_null(data);
        gate_stop_from(UINT64_MAX);
        hold_whole(reader, 5);
        layer_reader_free(reader);
        hook_reset();
    }
}

/* It returns with pieces of a layer that come while it waits, however long it might wait: whoever cancels is heard then. A
 * piece that comes between two calls is not seen, so that is tried until it is. */
static void test_layer_reader_returns_with_a_piece(void **state) {
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        LayerReaderOptions options = options_of(ways[w], N_LAYERS, 2);
        LayerReader *reader;
        size_t n_waits = 0;

        options.limit.bytes_per_s = 500000000; /* the pieces of a layer do not come at once */
        reader = open_reader(&options);
        for (int round = 0; reader && n_waits < 3; round++) {
            const uint8_t *data;
            int r;

            assert_true(round < 1000);
            while ((r = layer_reader_hold(reader, 5, NOT_SOON, &data, NULL)) == LAYER_READER_E_WAITING)
                n_waits++;
            assert_int_equal(r, 0);
            assert_holds(5, data);
            layer_reader_release(reader, 5);
            hold_whole(reader, 7);
            layer_reader_release(reader, 7);
        }
        layer_reader_free(reader);
    }
}

/* While every slot is held no other layer comes; what is held stays. */
static void test_layer_reader_all_held(void **state) {
    const LayerReaderOptions options = options_of(EXTENT_WAY_ANY, N_LAYERS, 2);
    LayerReader *reader = open_reader(&options);
    const uint8_t *first = hold_whole(reader, 4), *second = hold_whole(reader, 8), *third;

    for (int i = 0; i < 100; i++)
        assert_int_equal(layer_reader_hold(reader, 6, 100000, &third, NULL), LAYER_READER_E_WAITING);
    assert_holds(4, first);
    assert_holds(8, second);
    layer_reader_release(reader, 4);
    third = hold_whole(reader, 6);
    assert_ptr_equal(third - fixture.layers[6].offset_bytes % EXTENT_ALIGNMENT,
                     first - fixture.layers[4].offset_bytes % EXTENT_ALIGNMENT);
    assert_holds(8, second);
    layer_reader_free(reader);
}

/* Layers of 3, 2, 3 and 1 pieces have slots, 8 pieces are under way, and another layer is asked for: the last one, of which
 * nothing was begun, gives way; the others come soon behind it, and are not read twice. */
static void test_layer_reader_turns(void **state) {
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        LayerReaderOptions options = options_of(ways[w], 7, 4);
        const LayerExtent *layers = &fixture.layers[5];
        const uint8_t *data;
        LayerReader *reader;

        assert_int_equal(pieces_of(5) + pieces_of(6) + pieces_of(7), DEPTH);
        options.layers = layers;
        options.limit.bytes_per_s = UINT64_C(1) << 50; /* with a limit no more pieces are asked for than DEPTH */
        gate_stop_from(0);
        reader = open_reader(&options);
        if (!reader)
            continue;
        gate_wait();
        assert_int_equal(layer_reader_hold(reader, 6, 0, &data, NULL), LAYER_READER_E_WAITING);
        gate_stop_from(UINT64_MAX);
        for (size_t i = 0; i < 4; i++) {
            const size_t index = (6 + i) % 7;
            ErrText err = { "" };

            if (hold(reader, index, &data, &err))
                fail_msg("%s", err.text);
            assert_holds(5 + index, data);
        }
        assert_int_equal(layer_reader_counts(reader).n_reads,
                         pieces_of(11) + pieces_of(5) + pieces_of(6) + pieces_of(7));
        assert_int_equal(layer_reader_counts(reader).n_in_vain, 0);
        layer_reader_free(reader);
        hook_reset();
    }
}

/* Users that go round from different places, one call at a time, in turns; one goes away in the middle with a call that is
 * never repeated. Layers come in pieces, so that most are half read when another's turn comes. */
static void test_layer_reader_users_in_turns(void **state) {
    for (size_t w = 0; w < ARRAY_LEN(ways); w++)
        for (size_t n_slots = 2; n_slots <= 4; n_slots++)
            for (size_t n_users = 2; n_users <= 4; n_users++) {
                const LayerReaderOptions options = options_of(ways[w], N_LAYERS, n_slots);
                LayerReader *reader = open_reader(&options);
                size_t at[4], n_left[4], n_done = 0;
                bool holds[4] = { false };

                for (size_t i = 0; i < n_users; i++) {
                    at[i] = i * N_LAYERS / n_users + 1;
                    n_left[i] = i == 1 ? N_LAYERS / 2 : N_LAYERS + 3;
                }
                for (int asks = 0; reader && n_done < n_users; asks++) {
                    const size_t i = (size_t)asks % n_users;
                    const uint8_t *data;
                    ErrText err = { "" };
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
                        assert_holds(at[i], data);
                    if (holds[i] && !n_left[i])
                        layer_reader_release(reader, at[i]);
                }
                layer_reader_free(reader);
            }
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

/* A copy of the file that may be changed. */
static int open_copy(char path[320]) {
    int fd;

    snprintf(path, 320, "%s/copy", fixture.folder);
    test_write_file(fixture.folder, "copy", fixture.bytes, fixture.len_bytes);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void assert_told(const ErrText *err, const char *path, const char *layer, const char *what, const char *remedy) {
    if (!strstr(err->text, path) || !strstr(err->text, layer) || !strstr(err->text, what) || !strstr(err->text, remedy))
        fail_msg("'%s' does not say of %s and %s that '%s', '%s'", err->text, path, layer, what, remedy);
}

/* Cut short: the layers before the cut come, in slots or from the disk; the others never do, and say why each time. */
static void test_layer_reader_cut_file(void **state) {
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        LayerReaderOptions options = options_of(ways[w], N_LAYERS, 4);
        _cleanup_(closep) int fd = -1;
        const uint8_t *data;
        LayerReader *reader;
        char path[320];

        fd = open_copy(path);
        options.fd = fd;
        options.path = path;
        assert_int_equal(ftruncate(fd, (off_t)(fixture.layers[7].offset_bytes + 5000)), 0);
        reader = open_reader(&options);
        if (!reader)
            continue;
        for (int turn = 0; turn < 3; turn++)
            for (size_t i = 0; i < N_LAYERS; i++) {
                ErrText err = { "" };

                if (i < 7) {
                    hold_whole(reader, i);
                    layer_reader_release(reader, i);
                    continue;
                }
                assert_int_equal(hold(reader, i, &data, &err), LAYER_READER_E_FILE);
                if (i == 7)
                    assert_told(&err, path, "layer 107", "cut short", "import the model again");
            }
        layer_reader_free(reader);
    }
}

/* Changed in place: what is in slots stays, all else is refused from then on, whatever its bytes are. */
static void test_layer_reader_changed_file(void **state) {
    static const char *const kinds[] = { "length", "bytes", "ctime" };

    for (size_t kind = 0; kind < ARRAY_LEN(kinds); kind++) {
        LayerReaderOptions options = options_of(EXTENT_WAY_ANY, N_LAYERS, 2);
        _cleanup_(closep) int fd = -1;
        struct timespec times[2];
        const uint8_t *data;
        LayerReader *reader;
        struct stat before, now;
        char path[320];
        ErrText err = { "" };

        fd = open_copy(path);
        options.fd = fd;
        options.path = path;
        assert_int_equal(fstat(fd, &before), 0);
        reader = open_reader(&options);
        data = hold_whole(reader, 4);
        hold_whole(reader, 5);
        layer_reader_release(reader, 5); /* read no more: 6 has its slot, or will have */
        times[0] = before.st_atim;
        times[1] = before.st_mtim;
        do /* until the file's clock has gone on */
            if (kind == 0)
                assert_int_equal(ftruncate(fd, (off_t)fixture.len_bytes + 1), 0);
            else if (kind == 1)
                assert_int_equal(pwrite(fd, "x", 1, 0), 1);
            else
                assert_int_equal(futimens(fd, times), 0);
        while (!fstat(fd, &now) && now.st_ctim.tv_sec == before.st_ctim.tv_sec &&
               now.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
        for (int turn = 0; turn < 3; turn++) {
            const uint8_t *other;

            assert_int_equal(hold(reader, 10, &other, &err), LAYER_READER_E_FILE);
            assert_told(&err, path, "layer 110", "was changed", "load the model again");
            assert_holds(4, data);
        }
        assert_ptr_equal(hold_whole(reader, 4), data);
        layer_reader_free(reader);
    }
}

/* Without a name, or with one more, it is the same file. */
static void test_layer_reader_removed_file(void **state) {
    LayerReaderOptions options = options_of(EXTENT_WAY_ANY, N_LAYERS, 2);
    _cleanup_(closep) int fd = -1;
    LayerReader *reader;
    char path[320], other[340];

    fd = open_copy(path);
    options.fd = fd;
    options.path = path;
    snprintf(other, sizeof(other), "%s-link", path);
    reader = open_reader(&options);
    for (size_t i = 0; i < 3 * N_LAYERS; i++) {
        if (i == N_LAYERS / 2)
            assert_int_equal(link(path, other), 0);
        if (i == N_LAYERS)
            assert_int_equal(unlink(path), 0);
        if (i == 2 * N_LAYERS)
            assert_int_equal(unlink(other), 0);
        hold_whole(reader, i % N_LAYERS);
        layer_reader_release(reader, i % N_LAYERS);
    }
    layer_reader_free(reader);
}

/* A layer whose second piece fails, though nobody has asked for it yet: told once and read again then; while the disk
 * fails, each time; the layers around it come. */
static void test_layer_reader_failing_disk(void **state) {
    const LayerExtent *layer = &fixture.layers[5];
    const uint64_t second = layer->offset_bytes / EXTENT_ALIGNMENT * EXTENT_ALIGNMENT + PIECE_BYTES;

    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        const LayerReaderOptions options = options_of(ways[w], N_LAYERS, 3);
        const uint8_t *data, *held;
        LayerReader *reader;
        ErrText err = { "" };
        char place[64];

        fail_between(second, second + 1);
        reader = open_reader(&options);
        if (!reader)
            continue;
        held = hold_whole(reader, 4);
        snprintf(place, sizeof(place), "at byte %llu: %s", (unsigned long long)second, strerror(EIO));
        for (int turn = 0; turn < 3; turn++) {
            assert_int_equal(hold(reader, 5, &data, &err), -EIO);
            assert_told(&err, fixture.path, "layer 105", place, "look at the disk");
            hold_whole(reader, 6);
            layer_reader_release(reader, 6);
            assert_holds(4, held);
        }
        fail_between(0, 0);
        hold_whole(reader, 5);
        assert_holds(4, held);
        layer_reader_free(reader);
    }
}

/* Thousands of reads of which every eighth has a fault: what is held is whole, what failed is told as what it was, and the
 * next calls bring it. */
static void test_layer_reader_many_faults(void **state) {
    /* Small layers that several fit into a unit, and some of several pieces. */
    enum {
        N = 64
    };
    LayerExtent layers[N];
    size_t n_reads = getenv("COORDGEN_SMALL") ? N_READS / 10 : N_READS;
    uint64_t seed = 10, at = 0;

    for (size_t i = 0; i < N; i++) {
        const size_t len_bytes = 64 * (1 + (size_t)(test_random(&seed) % (i % 16 ? 2000 : 70000)));

        layers[i] = (LayerExtent){ at, len_bytes, (uint32_t)i };
        at += len_bytes;
        if (at + 5000000 > fixture.len_bytes)
            at = 64;
    }
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        LayerReaderOptions options = options_of(ways[w], N, 2);
        size_t index = 0, n_told[2] = { 0 }, n_all = 0;

        pthread_mutex_lock(&hook.mutex);
        hook.one_in = 8;
        pthread_mutex_unlock(&hook.mutex);
        options.layers = layers;
        for (size_t round = 0; n_all < n_reads; round++) {
            LayerReader *reader;

            options.n_slots = 2 + round % (LAYER_SLOTS_MAX - 1);
            reader = open_reader(&options);
            if (!reader)
                break;
            for (size_t i = 0; i < 500; i++) {
                const uint8_t *data;
                ErrText err = { "" };
                int r = hold(reader, index, &data, &err);

                if (r) {
                    assert_true(r == -EIO || r == LAYER_READER_E_FILE);
                    assert_non_null(strstr(err.text, r == -EIO ? strerror(EIO) : "cut short"));
                    n_told[r == -EIO]++;
                    continue; /* the same again */
                }
                assert_memory_equal(data, fixture.bytes + layers[index].offset_bytes, layers[index].len_bytes);
                layer_reader_release(reader, index);
                index = test_random(&seed) % 16 ? (index + 1) % N : (size_t)(test_random(&seed) % N);
            }
            layer_reader_free(reader);
            n_all = 0;
            for (size_t i = 0; i < N_FAULTS; i++)
                n_all += hook.n_faults[i]; /* nothing reads now */
        }
        if (!n_all)
            continue;
        assert_true(n_told[0] && n_told[1] && hook.n_faults[FAULT_SHORT_READ]);
        assert_true(n_told[0] <= hook.n_faults[FAULT_SHORT_FILE] && n_told[1] <= hook.n_faults[FAULT_EIO]);
        hook_reset();
    }
}

/* --- ends --------------------------------------------------------------------------------------------------------- */

/* At any moment, with reads under way, held layers and some that failed; nothing touches the slots afterwards. */
static void test_layer_reader_freed(void **state) {
    uint64_t seed = 3;

    for (int round = 0; round < 300; round++) {
        LayerReaderOptions options = options_of(ways[round % 2], N_LAYERS, 2 + (size_t)round % 5);
        const size_t first = (size_t)(test_random(&seed) % N_LAYERS), n = (size_t)(test_random(&seed) % 4);
        const uint64_t wait_ns = test_random(&seed) % 300000;
        LayerReader *reader;
        const uint8_t *data;

        if (round % 3 == 0)
            options.limit = (ReadLimit){ 1, 3000000000 }; /* nothing comes in this life */
        pthread_mutex_lock(&hook.mutex);
        hook.one_in = round % 4 ? 0 : 4;
        pthread_mutex_unlock(&hook.mutex);
        reader = open_reader(&options);
        if (!reader)
            continue;
        for (size_t i = 0; i < n; i++)
            (void)layer_reader_hold(reader, (first + i * i) % N_LAYERS, wait_ns, &data, NULL);
        layer_reader_free(reader);
        memset(fixture.slots, 0xee, 4096);
        for (size_t i = 0; i < 4096; i++)
            assert_int_equal(fixture.slots[i], 0xee);
    }
}

/* The process is killed in the middle, at a moment that its layers have come to; whoever opens the file then has it all. */
static void test_layer_reader_killed(void **state) {
    uint64_t seed = 4;

    for (int round = 0; round < 10; round++) {
        const LayerReaderOptions options = options_of(ways[round % 2], N_LAYERS, 3);
        const size_t n = (size_t)(test_random(&seed) % 40);
        LayerReader *reader;
        int status, pipes[2];
        pid_t child;
        char word;

        assert_int_equal(pipe(pipes), 0);
        child = fork();
        assert_true(child >= 0);
        if (!child) {
            const uint8_t *data;

            if (layer_reader_new(&reader, &options, NULL))
                _exit(77);
            for (size_t i = 0;; i++) {
                if (i == n && write(pipes[1], "x", 1) != 1)
                    _exit(1);
                if (hold(reader, i % N_LAYERS, &data, NULL))
                    _exit(1);
                layer_reader_release(reader, i % N_LAYERS);
            }
        }
        close(pipes[1]);
        (void)!read(pipes[0], &word, 1);
        close(pipes[0]);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 77);
        reader = open_reader(&options);
        for (size_t i = 0; reader && i < N_LAYERS; i++) {
            hold_whole(reader, i);
            layer_reader_release(reader, i);
        }
        layer_reader_free(reader);
    }
}

/* --- the machine -------------------------------------------------------------------------------------------------- */

static void test_layer_reader_leaves_the_page_cache(void **state) {
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        const LayerReaderOptions options = options_of(ways[w], N_LAYERS, 3);
        uint64_t resident, pages;
        LayerReader *reader;
        ErrText err = { "" };

        if (page_cache_drop(fixture.fd, fixture.path, &err)) {
            print_message("left out: %s\n", err.text);
            skip();
        }
        reader = open_reader(&options);
        if (!reader)
            continue;
        for (size_t i = 0; i < 5 * N_LAYERS; i++) {
            hold_whole(reader, i % N_LAYERS);
            layer_reader_release(reader, i % N_LAYERS);
        }
        if (!strstr(layer_reader_way(reader), ", direct")) {
            print_message("left out: no direct reads in %s\n", fixture.folder);
        } else {
            assert_int_equal(page_cache_count(fixture.fd, fixture.path, &resident, &pages, &err), 0);
            assert_true(pages > 0);
            assert_int_equal(resident, 0);
        }
        layer_reader_free(reader);
    }
}

/* No faster than the limit says, whatever the machine; what is slower is the machine's business. A limit that is set later
 * holds for the reads from then on. */
static void test_layer_reader_limit(void **state) {
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        LayerReaderOptions options = options_of(ways[w], N_LAYERS, 2);
        const uint64_t start_ns = clock_now_ns();
        LayerReaderCounts counts;
        LayerReader *reader;
        uint64_t took_ns;

        options.limit = (ReadLimit){ .bytes_per_s = 200000000, .latency_us = 20000 };
        reader = open_reader(&options);
        if (!reader)
            continue;
        for (size_t i = 0; i < N_LAYERS; i++) {
            hold_whole(reader, i);
            layer_reader_release(reader, i);
        }
        counts = layer_reader_counts(reader);
        took_ns = clock_now_ns() - start_ns;
        assert_true(took_ns >= 20000000);
        assert_true((double)(took_ns - 20000000) * 0.2 >= (double)counts.read_bytes);
        assert_true(counts.reading_ns <= took_ns);
        layer_reader_set_limit(reader, (ReadLimit){ 0 });
        for (size_t i = 0; i < 2 * N_LAYERS; i++) {
            hold_whole(reader, i % N_LAYERS);
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
    const LayerReaderOptions options = options_of(EXTENT_WAY_ANY, N_LAYERS, 3);
    LayerReader *reader = open_reader(&options);
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, watch, reader), 0);
    for (size_t i = 0; i < 4 * N_LAYERS; i++) {
        hold_whole(reader, i % N_LAYERS);
        layer_reader_release(reader, i % N_LAYERS);
    }
    pthread_join(thread, NULL);
    layer_reader_free(reader);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_layer_reader_circle, reset),
        cmocka_unit_test_teardown(test_layer_reader_random_orders, reset),
        cmocka_unit_test_teardown(test_layer_reader_one_layer, reset),
        cmocka_unit_test_teardown(test_layer_reader_copies, reset),
        cmocka_unit_test_teardown(test_layer_reader_bad_options, reset),
        cmocka_unit_test_teardown(test_layer_reader_waits, reset),
        cmocka_unit_test_teardown(test_layer_reader_returns_with_a_piece, reset),
        cmocka_unit_test_teardown(test_layer_reader_all_held, reset),
        cmocka_unit_test_teardown(test_layer_reader_turns, reset),
        cmocka_unit_test_teardown(test_layer_reader_users_in_turns, reset),
        cmocka_unit_test_teardown(test_layer_reader_cut_file, reset),
        cmocka_unit_test_teardown(test_layer_reader_changed_file, reset),
        cmocka_unit_test_teardown(test_layer_reader_removed_file, reset),
        cmocka_unit_test_teardown(test_layer_reader_failing_disk, reset),
        cmocka_unit_test_teardown(test_layer_reader_many_faults, reset),
        cmocka_unit_test_teardown(test_layer_reader_freed, reset),
        cmocka_unit_test_teardown(test_layer_reader_killed, reset),
        cmocka_unit_test_teardown(test_layer_reader_leaves_the_page_cache, reset),
        cmocka_unit_test_teardown(test_layer_reader_limit, reset),
        cmocka_unit_test_teardown(test_layer_reader_watched, reset),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
