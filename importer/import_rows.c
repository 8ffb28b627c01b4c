// SPDX-License-Identifier: Apache-2.0
/* Rows are independent: every thread reads rows with pread and gives them to a function one by one. A file that is cut
 * short meanwhile is an error, not a SIGBUS. Memory: about 0.8 MiB a thread at the widest rows. */
#define _GNU_SOURCE
#include "importer/import_rows.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "importer/files/import_source.h"
#include "quant/format/grid.h"
#include "quant/format/recipe_spec.h"
#include "quant/rotate.h"
#include "quant/rounding/round.h"
#include "quant/rounding/scale_search.h"

#define BATCH_BYTES (256u << 10)

/* The first fault of any thread. */
typedef enum RowsFault {
    FAULT_NONE,
    FAULT_CANCELLED,
    FAULT_READ,     /* FILE_E_SHORT or -errno */
    FAULT_VALUE,    /* a value that is not finite */
    FAULT_ROTATION, /* finite values whose rotation is not finite */
} RowsFault;

typedef struct RowsBuffers {
    uint8_t *source; /* [batch_rows][row_bytes] */
    float *row;      /* [k] */
} RowsBuffers;

typedef struct Rows {
    const ImportModel *model;
    const ImportLinear *linear;
    size_t begin, batch_rows;
    uint64_t row_bytes;
    ImportRowFn *fn;
    void *arg;
    RowsBuffers *buffers; /* [n_threads] */
    _Atomic int fault;
    _Atomic int fault_error;
    _Atomic size_t fault_row;
} Rows;

static void set_fault(Rows *rows, RowsFault fault, int error, size_t row) {
    int none = FAULT_NONE;

    if (atomic_compare_exchange_strong(&rows->fault, &none, fault)) {
        atomic_store(&rows->fault_error, error);
        atomic_store(&rows->fault_row, row);
    }
}

static bool all_finite(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static void dequantize(const Rows *rows, const RowsBuffers *buffers, size_t i) {
    ggml_dequantize(rows->linear->source->type, buffers->source + i * rows->row_bytes, buffers->row, rows->linear->k);
}

/* Finds why the i-th row of the batch was refused, by dequantizing it once more. */
static RowsFault fault_of(const Rows *rows, const RowsBuffers *buffers, size_t i) {
    dequantize(rows, buffers, i);
    return rows->linear->rotation_block && all_finite(buffers->row, rows->linear->k) ? FAULT_ROTATION : FAULT_VALUE;
}

/* Reads rows [row, row + n); false after a fault. */
static bool read_batch(Rows *rows, unsigned int worker, size_t row, size_t n) {
    const RowsBuffers *buffers = &rows->buffers[worker];
    const ImportLinear *linear = rows->linear;
    int r;

    if (import_monitor_is_cancelled(rows->model->monitor)) {
        set_fault(rows, FAULT_CANCELLED, 0, row);
        return false;
    }
    r = file_read_exact(rows->model->source_fds[linear->source->part], buffers->source, n * rows->row_bytes,
                        linear->source->offset_bytes + row * rows->row_bytes);
    if (r) {
        set_fault(rows, FAULT_READ, r, row);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        dequantize(rows, buffers, i);
        rotate_row(buffers->row, linear->k, linear->rotation_block);
        if (!rows->fn(rows->arg, row + i, buffers->row, worker)) {
            set_fault(rows, fault_of(rows, buffers, i), 0, row + i);
            return false;
        }
    }
    return true;
}

static void read_range(void *arg, size_t begin, size_t end, unsigned int worker) {
    Rows *rows = arg;

    for (size_t row = begin; row < end; row += rows->batch_rows) {
        size_t n = MIN(end - row, rows->batch_rows);

        if (atomic_load(&rows->fault) || !read_batch(rows, worker, rows->begin + row, n))
            return;
    }
}

static int rotation_error(const Rows *rows, ErrText *err) {
    QuantRecipe other = *rows->model->recipe;
    char spec[RECIPE_SPEC_MAX];

    other.rotate = false;
    recipe_spec_format(spec, &other);
    return err_set(err, IMPORT_E_UNSUPPORTED,
                   "%s: tensor '%s', row %zu: its weights are so large that their rotation overflows: import it with "
                   "coordgenctl model import --recipe %s",
                   rows->model->source_path, rows->linear->source->name, atomic_load(&rows->fault_row), spec);
}

static int fault_error(const Rows *rows, ErrText *err) {
    const char *path = rows->model->source_path;

    switch ((RowsFault)atomic_load(&rows->fault)) {
    case FAULT_NONE:
        return 0;
    case FAULT_CANCELLED:
        return import_monitor_cancelled(rows->model->monitor, err);
    case FAULT_READ:
        return import_read_error(atomic_load(&rows->fault_error), path, err);
    case FAULT_ROTATION:
        return rotation_error(rows, err);
    case FAULT_VALUE:
        break;
    }
    return err_set(err, IMPORT_E_CORRUPT,
                   "%s: tensor '%s', row %zu: a value is not a finite number: the file is damaged, download it again",
                   path, rows->linear->source->name, atomic_load(&rows->fault_row));
}

static void buffers_free(RowsBuffers *buffers, unsigned int n_threads) {
    for (unsigned int i = 0; buffers && i < n_threads; i++) {
        free(buffers[i].source);
        free(buffers[i].row);
    }
    free(buffers);
}

static RowsBuffers *buffers_new(unsigned int n_threads, size_t source_bytes, size_t k) {
    RowsBuffers *buffers = calloc(n_threads, sizeof(*buffers));

    for (unsigned int i = 0; buffers && i < n_threads; i++) {
        buffers[i] = (RowsBuffers){ malloc(source_bytes), malloc(k * sizeof(float)) };
        if (!buffers[i].source || !buffers[i].row) {
            buffers_free(buffers, n_threads);
            return NULL;
        }
    }
    return buffers;
}

/**
 * import_each_row() - read rows of a linear on all threads
 * @fn: called once for every row of [begin, end), by any thread; its result must depend on that row alone
 *
 * Matrices have at most 131072 inputs, which hparams_read() checks.
 */
int import_each_row(const ImportModel *model, const ImportLinear *linear, size_t begin, size_t end, ImportRowFn *fn,
                    void *arg, ErrText *err) {
    unsigned int n_threads = worker_pool_n_threads(model->pool);
    Rows rows = {
        .model = model,
        .linear = linear,
        .begin = begin,
        .row_bytes = linear->source->len_bytes / linear->n,
        .fn = fn,
        .arg = arg,
    };

    rows.batch_rows = rows.row_bytes < BATCH_BYTES ? (size_t)(BATCH_BYTES / rows.row_bytes) : 1;
    rows.buffers = buffers_new(n_threads, rows.batch_rows * (size_t)rows.row_bytes, linear->k);
    if (!rows.buffers)
        return err_set(err, -ENOMEM, "%s: out of memory for tensor '%s'", model->source_path, linear->source->name);
    worker_pool_run(model->pool, read_range, &rows, end - begin, 1);
    buffers_free(rows.buffers, n_threads);
    return fault_error(&rows, err);
}

typedef struct ReadLinear {
    float *w;
    size_t k;
} ReadLinear;

static bool import_rows_read(void *arg, size_t row, float *w, unsigned int worker) {
    const ReadLinear *read = arg;

    memcpy(read->w + row * read->k, w, read->k * sizeof(*w));
    return all_finite(w, read->k);
}

int import_read_linear(const ImportModel *model, const ImportLinear *linear, float *w, ErrText *err) {
    return import_each_row(model, linear, 0, linear->n, import_rows_read, &(ReadLinear){ w, linear->k }, err);
}

/* Reads norms, biases and rope_freqs into vector->values, float32. */
int import_read_vector(const ImportModel *model, const ImportVector *vector, ErrText *err) {
    const GgufTensor *source = vector->source;
    _cleanup_(freep) uint8_t *raw = malloc((size_t)source->len_bytes);
    int r;

    if (!raw)
        return err_set(err, -ENOMEM, "%s: out of memory for tensor '%s'", model->source_path, source->name);
    r = file_read_exact(model->source_fds[source->part], raw, (size_t)source->len_bytes, source->offset_bytes);
    if (r)
        return import_read_error(r, model->source_path, err);
    ggml_dequantize(source->type, raw, vector->values, vector->n);
    for (size_t i = 0; i < vector->n; i++)
        if (!isfinite(vector->values[i]))
            return err_set(
                err, IMPORT_E_CORRUPT,
                "%s: tensor '%s': element %zu is not a finite number: the file is damaged, download it again",
                model->source_path, source->name, i);
    return 0;
}

bool import_round_row(const QuantRecipe *recipe, const float *w, size_t k, int bits, int8_t *q, float *scalep) {
    if (bits == GRID_BITS_MAX) /* at this width the largest weight's scale is as good as a searched one */
        return round_channel_int8(w, k, q, scalep);
    if (!(recipe->search_scales ? scale_search : scale_of_largest)(w, k, recipe->grid, bits, scalep))
        return false;
    round_channel(w, k, recipe->grid, bits, *scalep, q);
    return true;
}

typedef struct RoundRows {
    const QuantRecipe *recipe;
    const ImportLinear *linear;
    size_t begin;
    int8_t *q;
    float *scales;
} RoundRows;

static bool round_row(void *arg, size_t row, float *w, unsigned int worker) {
    const RoundRows *rows = arg;
    const ImportLinear *linear = rows->linear;

    return import_round_row(rows->recipe, w, linear->k, linear->bits[row], rows->q + (row - rows->begin) * linear->k,
                            &rows->scales[row]);
}

int import_round_rows(const ImportModel *model, const ImportLinear *linear, size_t begin, size_t end, int8_t *q,
                      float *scales, ErrText *err) {
    RoundRows rows = { model->recipe, linear, begin, q, scales };

    return import_each_row(model, linear, begin, end, round_row, &rows, err);
}

/* Turns q[n][k] into [k][n]; each piece of work is a range of inputs. */
typedef struct Turning {
    const ImportLinear *linear;
    int8_t *columns;
} Turning;

static void turn_columns(void *arg, size_t begin, size_t end, unsigned int worker) {
    const Turning *turning = arg;
    size_t n = turning->linear->n, k = turning->linear->k;

    for (size_t i = 0; i < n; i++)
        for (size_t c = begin; c < end; c++)
            turning->columns[c * n + i] = turning->linear->q[i * k + c];
}

int import_linear_columns(const ImportModel *model, const ImportLinear *linear, int8_t **columnsp, ErrText *err) {
    Turning turning = { linear, malloc(linear->n * linear->k) };

    if (!turning.columns)
        return err_set(err, -ENOMEM, "%s: out of memory for tensor '%s'", model->source_path, linear->source->name);
    worker_pool_run(model->pool, turn_columns, &turning, linear->k, 64);
    *columnsp = turning.columns;
    return 0;
}
