/* Tensors of the source become tensors of the package. Rows are independent: every thread reads rows with pread (a file
 * that is cut short meanwhile is an error, not a SIGBUS), converts them and writes them to their place, so the bytes do
 * not depend on the number of threads. Memory: about 1.6 MiB a thread at the widest rows, and the scales of one tensor
 * (8 MiB at 2 million tokens). */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "importer/import_private.h"
#include "model/package.h"
#include "quant/rotate.h"
#include "quant/round.h"

#define BATCH_BYTES (256u << 10)

/* What went wrong first, in any thread. */
typedef enum ConvertFault {
    FAULT_NONE,
    FAULT_CANCELLED,
    FAULT_SHORT, /* the source ended early */
    FAULT_READ,  /* errno */
    FAULT_WRITE, /* errno */
    FAULT_VALUE, /* a value that is not finite */
} ConvertFault;

typedef struct ThreadBuffers {
    uint8_t *source; /* [batch_rows][row_bytes] */
    float *row;      /* [k] */
    int8_t *q;       /* [batch_rows][k] */
} ThreadBuffers;

typedef struct Conversion {
    ImportJob *job;
    const ImportTensor *tensor;
    size_t k, n, batch_rows;
    uint64_t row_bytes;
    float *scales;          /* [n] */
    ThreadBuffers *buffers; /* [n_threads] */
    _Atomic int fault;
    _Atomic int fault_errno;
    _Atomic size_t fault_row;
} Conversion;

static void set_fault(Conversion *conversion, ConvertFault fault, int error, size_t row) {
    int none = FAULT_NONE;

    if (atomic_compare_exchange_strong(&conversion->fault, &none, fault)) {
        atomic_store(&conversion->fault_errno, error);
        atomic_store(&conversion->fault_row, row);
    }
}

static int write_at(int fd, const void *data, size_t len_bytes, uint64_t offset) {
    const uint8_t *at = data;

    while (len_bytes) {
        ssize_t n = pwrite(fd, at, len_bytes, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        at += n;
        offset += (uint64_t)n;
        len_bytes -= (size_t)n;
    }
    return 0;
}

/* Rows [row, row + rows) of the tensor; false after a fault. */
static bool convert_batch(Conversion *conversion, const ThreadBuffers *buffers, size_t row, size_t rows) {
    const ImportTensor *tensor = conversion->tensor;
    ImportJob *job = conversion->job;
    size_t k = conversion->k;
    int r;

    if (import_cancelled(job->options)) {
        set_fault(conversion, FAULT_CANCELLED, 0, row);
        return false;
    }
    r = file_read_exact(job->source_fd, buffers->source, rows * conversion->row_bytes,
                        tensor->source->offset_bytes + row * conversion->row_bytes);
    if (r) {
        set_fault(conversion, r == FILE_E_SHORT ? FAULT_SHORT : FAULT_READ, r, row);
        return false;
    }
    for (size_t i = 0; i < rows; i++) {
        ggml_dequantize(tensor->source->type, buffers->source + i * conversion->row_bytes, buffers->row, k);
        if (tensor->rotation_block)
            rotate_row(buffers->row, k, tensor->rotation_block);
        if (!round_channel_int8(buffers->row, k, buffers->q + i * k, &conversion->scales[row + i])) {
            set_fault(conversion, FAULT_VALUE, 0, row + i);
            return false;
        }
    }
    r = write_at(job->out_fd, buffers->q, rows * k, tensor->out_offset + (uint64_t)row * k);
    if (r) {
        set_fault(conversion, FAULT_WRITE, r, row);
        return false;
    }
    atomic_fetch_add(&job->done_bytes, rows * conversion->row_bytes);
    return true;
}

static void convert_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    Conversion *conversion = arg;

    for (size_t row = begin; row < end; row += conversion->batch_rows) {
        size_t rows = end - row < conversion->batch_rows ? end - row : conversion->batch_rows;

        if (atomic_load(&conversion->fault) || !convert_batch(conversion, &conversion->buffers[worker], row, rows))
            return;
        if (worker == 0) /* the thread of import_run() */
            import_progress(conversion->job->options, IMPORT_STAGE_CONVERT, atomic_load(&conversion->job->done_bytes),
                            conversion->job->total_bytes);
    }
}

int import_write_error(int error, const char *out_path, uint64_t package_bytes, ErrText *err) {
    if (error == -ENOSPC || error == -EDQUOT || error == -EFBIG)
        return err_set(err, IMPORT_E_NO_SPACE,
                       "%s: the package needs %" PRIu64
                       " bytes (%.1f MB): %s; free some space or name another place with -o",
                       out_path, package_bytes, (double)package_bytes / 1e6, strerror(-error));
    return err_set(err, error, "%s: cannot write: %s", out_path, strerror(-error));
}

static int fault_error(const Conversion *conversion, ErrText *err) {
    const ImportJob *job = conversion->job;
    int error = atomic_load(&conversion->fault_errno);

    switch ((ConvertFault)atomic_load(&conversion->fault)) {
    case FAULT_NONE:
        return 0;
    case FAULT_CANCELLED:
        return err_set(err, IMPORT_E_CANCELLED, "%s: the import was cancelled", job->source_path);
    case FAULT_SHORT:
        return err_set(err, IMPORT_E_CHANGED, "%s: the file became shorter while it was read: import it again",
                       job->source_path);
    case FAULT_READ:
        return err_set(err, error, "%s: cannot read: %s", job->source_path, strerror(-error));
    case FAULT_WRITE:
        return import_write_error(error, job->out_path, job->package_bytes, err);
    case FAULT_VALUE:
        break;
    }
    return err_set(err, IMPORT_E_CORRUPT,
                   "%s: tensor '%s', row %zu: a value is not a finite number: the file is damaged, download it again",
                   job->source_path, conversion->tensor->source->name, atomic_load(&conversion->fault_row));
}

/* --- one tensor --------------------------------------------------------------------------------------------------- */

static void buffers_free(ThreadBuffers *buffers, unsigned int n_threads) {
    for (unsigned int i = 0; buffers && i < n_threads; i++) {
        free(buffers[i].source);
        free(buffers[i].row);
        free(buffers[i].q);
    }
    free(buffers);
}

static ThreadBuffers *buffers_new(unsigned int n_threads, size_t source_bytes, size_t k, size_t batch_rows) {
    ThreadBuffers *buffers = calloc(n_threads, sizeof(*buffers));

    for (unsigned int i = 0; buffers && i < n_threads; i++) {
        buffers[i] = (ThreadBuffers){ malloc(source_bytes), malloc(k * sizeof(float)), malloc(batch_rows * k) };
        if (!buffers[i].source || !buffers[i].row || !buffers[i].q) {
            buffers_free(buffers, n_threads);
            return NULL;
        }
    }
    return buffers;
}

static int convert_linear(ImportJob *job, const ImportTensor *tensor, ErrText *err) {
    const GgufTensor *source = tensor->source;
    unsigned int n_threads = worker_pool_n_threads(job->pool);
    _cleanup_(freep) float *scales = NULL;
    _cleanup_(freep) int8_t *bits = NULL;
    Conversion conversion = {
        .job = job,
        .tensor = tensor,
        .k = (size_t)source->ne[0],
        .n = (size_t)source->ne[1],
        .row_bytes = source->len_bytes / source->ne[1],
    };
    size_t widest = conversion.row_bytes > conversion.k ? (size_t)conversion.row_bytes : conversion.k;
    int r;

    conversion.batch_rows = widest < BATCH_BYTES ? BATCH_BYTES / widest : 1;
    if (conversion.batch_rows > conversion.n)
        conversion.batch_rows = conversion.n;
    scales = malloc(conversion.n * sizeof(*scales));
    bits = malloc(conversion.n);
    conversion.scales = scales;
    conversion.buffers = buffers_new(n_threads, conversion.batch_rows * (size_t)conversion.row_bytes, conversion.k,
                                     conversion.batch_rows);
    if (!scales || !bits || !conversion.buffers) {
        buffers_free(conversion.buffers, n_threads);
        return err_set(err, -ENOMEM, "%s: out of memory for tensor '%s'", job->source_path, source->name);
    }
    worker_pool_run(job->pool, convert_rows, &conversion, conversion.n, 1);
    buffers_free(conversion.buffers, n_threads);
    r = fault_error(&conversion, err);
    if (r)
        return r;
    memset(bits, PACKAGE_CHANNEL_BITS, conversion.n);
    r = write_at(job->out_fd, scales, conversion.n * sizeof(*scales), tensor->scales_offset);
    if (!r)
        r = write_at(job->out_fd, bits, conversion.n, tensor->bits_offset);
    if (r)
        return import_write_error(r, job->out_path, job->package_bytes, err);
    return 0;
}

/* Norms, biases, rope_freqs: float32 as they are. */
static int convert_vector(ImportJob *job, const ImportTensor *tensor, ErrText *err) {
    const GgufTensor *source = tensor->source;
    _cleanup_(freep) uint8_t *raw = malloc((size_t)source->len_bytes);
    size_t n = (size_t)source->ne[0];
    _cleanup_(freep) float *values = malloc(n * sizeof(*values));
    int r;

    if (!raw || !values)
        return err_set(err, -ENOMEM, "%s: out of memory for tensor '%s'", job->source_path, source->name);
    r = file_read_exact(job->source_fd, raw, (size_t)source->len_bytes, source->offset_bytes);
    if (r == FILE_E_SHORT)
        return err_set(err, IMPORT_E_CHANGED, "%s: the file became shorter while it was read: import it again",
                       job->source_path);
    if (r)
        return err_set(err, r, "%s: cannot read: %s", job->source_path, strerror(-r));
    ggml_dequantize(source->type, raw, values, n);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return err_set(
                err, IMPORT_E_CORRUPT,
                "%s: tensor '%s': element %zu is not a finite number: the file is damaged, download it again",
                job->source_path, source->name, i);
    r = write_at(job->out_fd, values, n * sizeof(*values), tensor->out_offset);
    if (r)
        return import_write_error(r, job->out_path, job->package_bytes, err);
    atomic_fetch_add(&job->done_bytes, source->len_bytes);
    return 0;
}

/**
 * import_convert() - fill the package's data section
 * @tensors: in the order of the package; matrices have at most 131072 inputs (hparams_read() sees to it)
 *
 * Return: 0, IMPORT_E_CORRUPT, IMPORT_E_CANCELLED, IMPORT_E_NO_SPACE, IMPORT_E_CHANGED, or -errno.
 */
int import_convert(ImportJob *job, const ImportTensor *tensors, size_t n, ErrText *err) {
    int r;

    for (size_t i = 0; i < n; i++) {
        if (import_cancelled(job->options))
            return err_set(err, IMPORT_E_CANCELLED, "%s: the import was cancelled", job->source_path);
        r = tensors[i].linear ? convert_linear(job, &tensors[i], err) : convert_vector(job, &tensors[i], err);
        if (r)
            return r;
        /* Writing out starts now, so that the fsync at the end has little left to do. Only a hint. */
        if (tensors[i].linear)
            (void)sync_file_range(job->out_fd, (off_t)tensors[i].out_offset,
                                  (off_t)(tensors[i].source->ne[0] * tensors[i].source->ne[1]), SYNC_FILE_RANGE_WRITE);
        import_progress(job->options, IMPORT_STAGE_CONVERT, atomic_load(&job->done_bytes), job->total_bytes);
    }
    return 0;
}
