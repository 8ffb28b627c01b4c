// SPDX-License-Identifier: Apache-2.0
/* A rate is the least time of a few tries, which excludes preemption by others, but not the memory and cache bandwidth
 * that others use at that moment. */
#include "backends/cpu/kernel_rates.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "backends/cpu/packed/packed_coding.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/min_max.h"
#include "quant/format/pack.h"

enum {
    K_TILES = 16,
    N_BLOCKS = 32, /* two panels or more; each is fetched while the one before is multiplied */
    N = N_BLOCKS * INT8_TILE_OUTPUTS,
    K = K_TILES * INT8_TILE_INPUTS,
    ROWS = 64, /* enough for about the best speed of every kernel */
    TRIES = 4,
    WEIGHTS_BYTES = 6 << 20, /* used in turn, so that weights come from past the second-level cache, like a model's */
    READ_BYTES = 4 << 20,    /* per thread: past its second-level cache */
    READ_PIECE_BYTES = 1 << 20,
    ENTRIES_MAX = 32, /* kernel sets; more are measured again */
};

/* Measurements of a set of kernels. */
typedef struct Entry {
    PackedKernels kernels;
    bool has_few_rows[PACKED_CODINGS_N];
    size_t few_rows[PACKED_CODINGS_N];
    double product_ns; /* time of a row with a byte of weights, in the cache; 0: not measured */
} Entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Entry entries[ENTRIES_MAX];
static size_t n_entries;
static double read_ns[64]; /* ns per byte with so many threads reading (last entry: as many or more); 0: not measured */

static Entry *entry_of(const PackedKernels *kernels) {
    for (size_t i = 0; i < n_entries; i++)
        if (entries[i].kernels.few == kernels->few && entries[i].kernels.unpack == kernels->unpack &&
            entries[i].kernels.product == kernels->product)
            return &entries[i];
    if (n_entries == ENTRIES_MAX)
        n_entries = 0;
    entries[n_entries] = (Entry){ .kernels = *kernels };
    return &entries[n_entries++];
}

/* Matrices in one block of memory, and rows; their values do not matter. */
typedef struct Sample {
    AccountedBlock memory;
    const uint8_t *weights; /* [WEIGHTS_BYTES] */
    size_t at_bytes;        /* offset of the next matrix */
    PackedWeights packed;
    Int8Weights int8;
    Int8Rows rows;
    float *y;
    void *scratch;
} Sample;

static void *part(uint8_t **atp, size_t len_bytes) {
    void *here = *atp;

    *atp += (len_bytes + 63) / 64 * 64;
    return here;
}

static size_t sample_parts(Sample *sample, const PackedKernels *kernels, Grid grid, int bits, uint8_t *memory) {
    uint8_t *at = memory, *widths;
    uint64_t *offsets;

    sample->packed = (PackedWeights){ .n = N, .k = K, .k_tiles = K_TILES, .n_blocks = N_BLOCKS, .grid = grid };
    sample->int8 = (Int8Weights){ .n = N, .k = K, .k_tiles = K_TILES, .n_blocks = N_BLOCKS };
    sample->rows = (Int8Rows){ .rows = ROWS, .tile_rows = 1, .stride_bytes = K };
    sample->weights = part(&at, WEIGHTS_BYTES);
    sample->at_bytes = 0;
    sample->int8.scales = sample->packed.scales = part(&at, N * sizeof(float));
    sample->int8.sums = sample->packed.sums = part(&at, N * sizeof(int32_t));
    sample->packed.offsets = offsets = part(&at, (N_BLOCKS + 1) * sizeof(*offsets));
    sample->packed.bits = widths = part(&at, N_BLOCKS);
    sample->rows.x = part(&at, int8_rows_bytes(ROWS, INT8_TILE_ROWS, K));
    sample->rows.shifted = part(&at, ROWS * K);
    sample->rows.scales = part(&at, ROWS * sizeof(float));
    sample->rows.sums = part(&at, ROWS * sizeof(int32_t));
    sample->y = part(&at, ROWS * N * sizeof(float));
    sample->scratch = part(&at, packed_kernels_scratch_bytes(kernels, K_TILES));
    for (size_t block = 0; memory && block <= N_BLOCKS; block++)
        offsets[block] = block * K_TILES * pack_tile_bytes(bits);
    if (memory)
        memset(widths, bits, N_BLOCKS);
    return (size_t)(at - memory);
}

static int sample_init(Sample *sample, const PackedKernels *kernels, Grid grid, int bits, AccountTable *accounts) {
    const size_t len_bytes = sample_parts(sample, kernels, grid, bits, NULL);
    int r = accounted_block_init(&sample->memory, accounts, ACCOUNT_ACTIVATIONS, len_bytes);

    if (r)
        return r;
    memset(sample->memory.data, 1, len_bytes); /* gives each page memory of its own instead of the shared zero page */
    sample_parts(sample, kernels, grid, bits, sample->memory.data);
    return 0;
}

typedef enum Way {
    WAY_FEW,
    WAY_EXPANDED,
    WAY_INT8,
} Way;

/* Takes the next packed matrix, which is not in the second-level cache; or the int8 matrix, always the same. */
static void take_matrix(Sample *sample, Way way) {
    const size_t len_bytes = way == WAY_INT8 ? 0 : sample->packed.offsets[N_BLOCKS];

    if (sample->at_bytes + len_bytes > WEIGHTS_BYTES)
        sample->at_bytes = 0;
    sample->packed.packed = sample->weights + sample->at_bytes;
    sample->int8.tiles = (const int8_t *)sample->packed.packed;
    sample->at_bytes += len_bytes;
}

/* Returns the least time of a product of n rows. */
static uint64_t way_ns(Sample *sample, const PackedKernels *kernels, Way way, size_t n_rows) {
    Int8Rows rows = sample->rows;
    uint64_t best = UINT64_MAX;

    rows.rows = n_rows;
    rows.tile_rows = way == WAY_FEW ? 1 : int8_tile_rows(kernels->product, n_rows);
    for (int i = 0; i < TRIES; i++) {
        uint64_t start_ns, ns;

        take_matrix(sample, way);
        start_ns = clock_now_ns();
        if (way == WAY_FEW)
            kernels->few->fn(&sample->packed, &rows, 0, N_BLOCKS, sample->y, N);
        else if (way == WAY_EXPANDED)
            packed_kernels_expanded(kernels, &sample->packed, &rows, 0, N_BLOCKS, sample->y, N, sample->scratch);
        else
            kernels->product->fn(&sample->int8, &rows, 0, N_BLOCKS, sample->y, N, sample->scratch);
        ns = clock_now_ns() - start_ns;
        best = MIN(ns, best);
    }
    return best;
}

static size_t measure_few_rows(Sample *sample, const PackedKernels *kernels) {
    static const size_t row_counts[] = { 1, 2, 3, 4, 6, 8, 12, PACKED_FEW_ROWS_MAX, ROWS };
    size_t most = 0, n_lost = 0;

    for (size_t i = 0; i < ARRAY_LEN(row_counts) && n_lost < 2; i++) {
        uint64_t few_ns, expanded_ns;

        if (kernels->product->tile_rows > 1 && row_counts[i] > PACKED_FEW_ROWS_MAX)
            return most; /* rows for `few` are not in tiles */
        few_ns = way_ns(sample, kernels, WAY_FEW, row_counts[i]);
        expanded_ns = way_ns(sample, kernels, WAY_EXPANDED, row_counts[i]);
        n_lost = few_ns > expanded_ns ? n_lost + 1 : 0;
        if (few_ns <= expanded_ns)
            most = row_counts[i];
    }
    return most == ROWS ? SIZE_MAX : most;
}

size_t kernel_rates_few_rows(const PackedKernels *kernels, Grid grid, int bits, AccountTable *accounts) {
    const int coding = packed_coding(grid, bits);
    size_t n_rows = KERNEL_RATES_FEW_ROWS;
    Entry *entry;
    Sample sample;

    if (!kernels->few->need)
        return n_rows;
    pthread_mutex_lock(&lock);
    entry = entry_of(kernels);
    if (!entry->has_few_rows[coding] && !sample_init(&sample, kernels, grid, bits, accounts)) {
        entry->few_rows[coding] = measure_few_rows(&sample, kernels);
        entry->has_few_rows[coding] = true;
        accounted_block_deinit(&sample.memory);
    }
    if (entry->has_few_rows[coding])
        n_rows = entry->few_rows[coding];
    pthread_mutex_unlock(&lock);
    return n_rows;
}

/* --- rows of a step ----------------------------------------------------------------------------------------------- */

static double measure_product(const PackedKernels *kernels, AccountTable *accounts) {
    Sample sample;
    double ns;

    if (sample_init(&sample, kernels, GRID_UNIFORM, GRID_BITS_MAX, accounts))
        return 0;
    ns = (double)way_ns(&sample, kernels, WAY_INT8, ROWS) / ((double)ROWS * N * K);
    accounted_block_deinit(&sample.memory);
    return ns;
}

typedef struct ReadLoop {
    const uint8_t *bytes;
    _Atomic uint64_t sum; /* keeps the compiler from dropping the reads */
} ReadLoop;

static void read_pieces(void *arg, size_t begin, size_t end, unsigned int worker) {
    ReadLoop *loop = arg;
    const uint64_t *words = (const uint64_t *)(loop->bytes + begin * READ_PIECE_BYTES);
    const size_t n_words = (end - begin) * READ_PIECE_BYTES / sizeof(*words);
    uint64_t sums[8] = { 0 };

    for (size_t i = 0; i < n_words; i += ARRAY_LEN(sums))
        for (size_t j = 0; j < ARRAY_LEN(sums); j++)
            sums[j] ^= words[i + j];
    for (size_t j = 0; j < ARRAY_LEN(sums); j++)
        loop->sum += sums[j];
}

/* Measures a thread's time per byte when all threads read. */
static double measure_read(WorkerPool *pool, AccountTable *accounts) {
    const size_t n_threads = worker_pool_n_threads(pool), len_bytes = n_threads * READ_BYTES;
    AccountedBlock memory;
    ReadLoop loop = { 0 };
    uint64_t best = UINT64_MAX;

    if (accounted_block_init(&memory, accounts, ACCOUNT_ACTIVATIONS, len_bytes))
        return 0;
    loop.bytes = memset(memory.data, 1, len_bytes);
    for (int i = 0; i < TRIES; i++) {
        const uint64_t start_ns = clock_now_ns();
        uint64_t ns;

        worker_pool_run(pool, read_pieces, &loop, len_bytes / READ_PIECE_BYTES, 1);
        ns = clock_now_ns() - start_ns;
        best = MIN(ns, best);
    }
    accounted_block_deinit(&memory);
    return (double)best / READ_BYTES;
}

double kernel_rates_balance_rows(const PackedKernels *kernels, WorkerPool *pool, AccountTable *accounts) {
    const size_t n_threads = worker_pool_n_threads(pool),
                 at = n_threads < ARRAY_LEN(read_ns) ? n_threads : ARRAY_LEN(read_ns) - 1;
    Entry *entry;
    double rows = 0;

    if (!kernels->product->need)
        return 0;
    pthread_mutex_lock(&lock);
    entry = entry_of(kernels);
    if (!(entry->product_ns > 0))
        entry->product_ns = measure_product(kernels, accounts);
    if (!(read_ns[at] > 0))
        read_ns[at] = measure_read(pool, accounts);
    if (entry->product_ns > 0)
        rows = read_ns[at] / entry->product_ns;
    pthread_mutex_unlock(&lock);
    return rows;
}
