// SPDX-License-Identifier: Apache-2.0
/* The stream of weights. With every way of reading, each block of each matrix comes once with the file's bytes, also if
 * there are more than the ring holds, from a file that is in memory, on the disk, or both. A file that was cut short is
 * named. An engine gives the same bits however its package was read. */
#define _GNU_SOURCE
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files/file_io.h"
#include "base/files/page_cache.h"
#include "base/min_max.h"
#include "engine/engine.h"
#include "engine/generation.h"
#include "importer/importer.h"
#include "quant/format/pack.h"
#include "test/unit/fixtures/model_maker.h"
#include "test/unit/importer/import_fixture.h"
#include "weights/residency/weight_stream.h"

enum {
    N_MATRICES = 6,
    THREADS = 3,
    BLOCKS_MAX = 4000,
};

static const struct {
    size_t n, k;
    int widths; /* 0: int8; 1..8: all equal; 9: mixed */
} shapes[N_MATRICES] = { { 60001, 512, 0 }, { 7, 96, 0 }, { 16, 130000, 9 },
                         { 5000, 640, 9 },  { 1, 1, 3 },  { 2001, 2048, 4 } };

typedef struct Fixture {
    char folder[256], path[300];
    StreamMatrix matrices[N_MATRICES];
    PackPlan plans[N_MATRICES];
    uint8_t *bytes;
    size_t len_bytes;
    int fd;
    AccountTable accounts;
    WorkerPool *pool;
} Fixture;

static Fixture fixture;

static uint64_t offset_of(size_t index, size_t block) {
    const StreamMatrix *matrix = &fixture.matrices[index];

    if (matrix->bits)
        return fixture.plans[index].offsets[block];
    return MIN(block * 16, matrix->n) * matrix->k;
}

static size_t n_blocks_of(size_t index) {
    return (fixture.matrices[index].n + 15) / 16;
}

static int set_up(void **state) {
    uint64_t seed = 11;

    test_folder_make(fixture.folder);
    snprintf(fixture.path, sizeof(fixture.path), "%s/weights", fixture.folder);
    fixture.len_bytes = 4096;
    for (size_t i = 0; i < N_MATRICES; i++) {
        StreamMatrix *matrix = &fixture.matrices[i];

        *matrix = (StreamMatrix){ .offset_bytes = fixture.len_bytes, .n = shapes[i].n, .k = shapes[i].k };
        if (shapes[i].widths) {
            int8_t *bits = malloc(matrix->n);

            assert_non_null(bits);
            for (size_t c = 0; c < matrix->n; c++)
                bits[c] = (int8_t)(shapes[i].widths < 9 ? shapes[i].widths : 1 + (int)(test_random(&seed) % 8));
            matrix->bits = bits;
            assert_int_equal(pack_plan_init(&fixture.plans[i], GRID_UNIFORM, bits, matrix->n, matrix->k), 0);
        }
        fixture.len_bytes += (offset_of(i, n_blocks_of(i)) + 5000) / 64 * 64;
    }
    fixture.bytes = malloc(fixture.len_bytes + 8);
    assert_non_null(fixture.bytes);
    for (size_t i = 0; i < fixture.len_bytes; i += 8) {
        uint64_t word = test_random(&seed);

        memcpy(fixture.bytes + i, &word, 8);
    }
    test_write_file(fixture.folder, "weights", fixture.bytes, fixture.len_bytes);
    fixture.fd = open(fixture.path, O_RDWR | O_CLOEXEC);
    assert_true(fixture.fd >= 0);
    account_table_init(&fixture.accounts);
    return worker_pool_new(&fixture.pool, THREADS);
}

static int tear_down(void **state) {
    worker_pool_free(fixture.pool);
    for (size_t i = 0; i < N_MATRICES; i++) {
        pack_plan_deinit(&fixture.plans[i]);
        free((int8_t *)fixture.matrices[i].bits);
    }
    close(fixture.fd);
    free(fixture.bytes);
    test_folder_remove(fixture.folder);
    for (int id = 0; id < _ACCOUNT_N; id++)
        assert_int_equal(atomic_load(&fixture.accounts.used_bytes[id]), 0);
    return 0;
}

/* Records blocks as they come; asserts wait until the workers are done. */
typedef struct Seen {
    size_t matrix;
    _Atomic unsigned int times[BLOCKS_MAX];
    _Atomic size_t n_wrong;
} Seen;

static void take(void *arg, size_t block_begin, size_t block_end, const void *bytes) {
    Seen *seen = arg;
    const uint64_t from = offset_of(seen->matrix, block_begin), to = offset_of(seen->matrix, block_end);

    for (size_t block = block_begin; block < block_end; block++)
        atomic_fetch_add(&seen->times[block], 1);
    if (memcmp(bytes, fixture.bytes + fixture.matrices[seen->matrix].offset_bytes + from, (size_t)(to - from)) != 0)
        atomic_fetch_add(&seen->n_wrong, 1);
}

static WeightStreamOptions options_of(WeightReading reading, _Atomic uint64_t *heartbeat) {
    return (WeightStreamOptions){ .fd = fixture.fd,
                                  .path = fixture.path,
                                  .reading = reading,
                                  .pool = fixture.pool,
                                  .accounts = &fixture.accounts,
                                  .heartbeat = heartbeat };
}

/* Takes the whole next matrix. */
static int fill_matrix(WeightStream *stream, Seen *seen, ErrText *err) {
    bool is_whole = false;
    int r = 0;

    while (!r && !is_whole)
        r = weight_stream_advance(stream, take, seen, &is_whole, err);
    return r;
}

/* Return: 0, or -EOPNOTSUPP if there is no io_uring. */
static int check_all(WeightReading reading, uint64_t *cachedp, uint64_t *readp) {
    _Atomic uint64_t heartbeat = 0;
    const WeightStreamOptions options = options_of(reading, &heartbeat);
    _cleanup_(weight_stream_freep) WeightStream *stream = NULL;
    uint64_t weight_bytes = 0;
    ErrText err = { 0 };

    assert_int_equal(weight_stream_new(&stream, &options, fixture.matrices, N_MATRICES, &err), 0);
    for (size_t i = 0; i < N_MATRICES; i++) {
        _cleanup_(freep) Seen *seen = calloc(1, sizeof(*seen));
        int r;

        assert_non_null(seen);
        seen->matrix = i;
        r = fill_matrix(stream, seen, &err);
        if (r == -EOPNOTSUPP && reading == WEIGHT_READING_URING) {
            print_message("left out: %s\n", err.text);
            return r;
        }
        if (r)
            fail_msg("%s", err.text);
        assert_int_equal(seen->n_wrong, 0);
        for (size_t block = 0; block < BLOCKS_MAX; block++)
            assert_int_equal(seen->times[block], block < n_blocks_of(i) ? 1 : 0);
        weight_bytes += offset_of(i, n_blocks_of(i));
    }
    *cachedp = weight_stream_cached_bytes(stream);
    *readp = weight_stream_read_bytes(stream);
    assert_int_equal(*cachedp + *readp, weight_bytes);
    assert_true(heartbeat >= N_MATRICES);
    return 0;
}

/* Brings bytes into the page cache, and nothing behind them: reading ahead could bring the rest of the file. */
static void touch(uint64_t offset_bytes, size_t len_bytes) {
    _cleanup_(freep) uint8_t *bytes = malloc(len_bytes);

    assert_non_null(bytes);
    assert_int_equal(posix_fadvise(fixture.fd, 0, 0, POSIX_FADV_RANDOM), 0);
    assert_int_equal(file_read_exact(fixture.fd, bytes, len_bytes, offset_bytes), 0);
    assert_int_equal(posix_fadvise(fixture.fd, 0, 0, POSIX_FADV_NORMAL), 0);
}

static void test_weight_stream_ways(void **state) {
    uint64_t cached, read;

    if (!check_all(WEIGHT_READING_URING, &cached, &read))
        assert_int_equal(cached, 0);
    assert_int_equal(check_all(WEIGHT_READING_THREADS, &cached, &read), 0);
    assert_int_equal(cached, 0);
    assert_int_equal(check_all(WEIGHT_READING_CACHED, &cached, &read), 0);
    assert_int_equal(read, 0);
}

/* BEST reads exactly the bytes from the disk that are not in memory. */
static void test_weight_stream_best(void **state) {
    uint64_t cached, read;
    ErrText err = { 0 };

    touch(0, fixture.len_bytes);
    assert_int_equal(check_all(WEIGHT_READING_BEST, &cached, &read), 0);
    assert_int_equal(read, 0);
    if (page_cache_drop(fixture.fd, fixture.path, &err)) {
        print_message("left out: %s\n", err.text);
        skip();
    }
    assert_int_equal(check_all(WEIGHT_READING_BEST, &cached, &read), 0);
    assert_int_equal(cached, 0);
    assert_int_equal(page_cache_drop(fixture.fd, fixture.path, &err), 0);
    touch(fixture.matrices[0].offset_bytes, 9 << 20);
    touch(fixture.matrices[5].offset_bytes, (size_t)offset_of(5, n_blocks_of(5)));
    assert_int_equal(check_all(WEIGHT_READING_BEST, &cached, &read), 0);
    assert_true(cached >= offset_of(5, n_blocks_of(5)) && read > 0);
}

/* The stream is freed in the middle, with reads under way. */
static void test_weight_stream_given_up(void **state) {
    for (WeightReading reading = WEIGHT_READING_BEST; reading <= WEIGHT_READING_CACHED; reading++) {
        const WeightStreamOptions options = options_of(reading, NULL);
        _cleanup_(freep) Seen *seen = calloc(1, sizeof(*seen));
        WeightStream *stream = NULL;
        int r;

        assert_non_null(seen);
        (void)page_cache_drop(fixture.fd, fixture.path, NULL);
        assert_int_equal(weight_stream_new(&stream, &options, fixture.matrices, N_MATRICES, NULL), 0);
        r = fill_matrix(stream, seen, NULL);
        assert_true(r == 0 || (r == -EOPNOTSUPP && reading == WEIGHT_READING_URING));
        weight_stream_free(stream);
    }
}

static void test_weight_stream_memory(void **state) {
    const WeightStreamOptions options = options_of(WEIGHT_READING_BEST, NULL);
    WeightStream *stream = NULL;
    ErrText err = { 0 };

    fixture.accounts.limit_bytes[ACCOUNT_ACTIVATIONS] = 1 << 20;
    assert_int_equal(weight_stream_new(&stream, &options, fixture.matrices, N_MATRICES, &err), WEIGHT_STREAM_E_MEMORY);
    assert_non_null(strstr(err.text, fixture.path));
    fixture.accounts.limit_bytes[ACCOUNT_ACTIVATIONS] = UINT64_MAX;
}

/* The last test of this file: the file is short afterwards. */
static void test_weight_stream_truncated(void **state) {
    const uint64_t end = fixture.matrices[3].offset_bytes + 100;

    for (WeightReading reading = WEIGHT_READING_BEST; reading <= WEIGHT_READING_CACHED; reading++) {
        const WeightStreamOptions options = options_of(reading, NULL);
        _cleanup_(weight_stream_freep) WeightStream *stream = NULL;
        ErrText err = { 0 };
        int r = 0;

        assert_int_equal(ftruncate(fixture.fd, (off_t)end), 0);
        assert_int_equal(weight_stream_new(&stream, &options, fixture.matrices, N_MATRICES, &err), 0);
        for (size_t i = 0; i < 4; i++) {
            _cleanup_(freep) Seen *seen = calloc(1, sizeof(*seen));

            assert_non_null(seen);
            seen->matrix = i;
            r = fill_matrix(stream, seen, &err);
            if (r == -EOPNOTSUPP && reading == WEIGHT_READING_URING)
                break;
            assert_int_equal(r, i < 3 ? 0 : WEIGHT_STREAM_E_FILE);
            assert_int_equal(seen->n_wrong, 0);
        }
        if (r == WEIGHT_STREAM_E_FILE) {
            assert_non_null(strstr(err.text, fixture.path));
            assert_non_null(strstr(err.text, "cut short"));
        }
    }
}

/* --- engines ------------------------------------------------------------------------------------------------------ */

enum {
    N_VOCAB = 40,
    N_TOKENS = 20
};

/* Return: false if there is no io_uring. */
static bool logits_of(const char *package, WeightReading reading, float *logits) {
    AccountTable accounts;
    Sequence *sequence = NULL;
    Engine *engine = NULL;
    uint32_t tokens[N_TOKENS];
    ErrText err = { 0 };
    int r;
    EngineOptions options = {
        .path = package,
        .load.device = ENGINE_DEVICE_CPU,
        .pool = fixture.pool,
        .accounts = &accounts,
        .load.weights.reading = reading,
    };

    account_table_init(&accounts);
    for (uint32_t i = 0; i < N_TOKENS; i++)
        tokens[i] = i * 7 % N_VOCAB;
    r = engine_new(&engine, &options, &err);
    if (r == -EOPNOTSUPP && reading == WEIGHT_READING_URING) {
        print_message("left out: %s\n", err.text);
        return false;
    }
    if (r)
        fail_msg("%s", err.text);
    assert_int_equal(accounts.used_bytes[ACCOUNT_WEIGHTS],
                     engine_info(engine)->weights.resident_bytes + tokenizer_memory_bytes(engine_tokenizer(engine)));
    assert_int_equal(sequence_new(&sequence, engine, N_TOKENS, &err), 0);
    assert_int_equal(engine_forward(engine, sequence, tokens, N_TOKENS, N_TOKENS, logits, &err), 0);
    sequence_free(sequence);
    engine_free(engine);
    assert_int_equal(accounts.total_bytes, 0);
    return true;
}

static void test_weight_stream_engine(void **state) {
    static const double bits[] = { 8, 4.5 };

    for (size_t i = 0; i < ARRAY_LEN(bits); i++) {
        ModelMaker maker = MODEL_MAKER_DEFAULT;
        static float expected[N_TOKENS * N_VOCAB], logits[N_TOKENS * N_VOCAB];
        ImportFixture *import = *state;
        ImportReport report;
        ErrText err = { 0 };

        import_fixture_source(import, &maker);
        quant_recipe_set_bits(&import->options.recipe, bits[i]);
        if (import_run(import->source, NULL, &import->options, &report, &err))
            fail_msg("%s", err.text);
        assert_true(logits_of(report.path, WEIGHT_READING_CACHED, expected));
        for (WeightReading reading = WEIGHT_READING_BEST; reading < WEIGHT_READING_CACHED; reading++)
            if (logits_of(report.path, reading, logits))
                assert_memory_equal(logits, expected, sizeof(logits));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weight_stream_ways),     cmocka_unit_test(test_weight_stream_best),
        cmocka_unit_test(test_weight_stream_given_up), cmocka_unit_test(test_weight_stream_memory),
        WITH_FOLDER(test_weight_stream_engine),        cmocka_unit_test(test_weight_stream_truncated),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
