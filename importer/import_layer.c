// SPDX-License-Identifier: Apache-2.0
/* Peak memory: the integers of a layer's linears and the packed bytes of one of them; one panel of the embedding or
 * head. */
#define _GNU_SOURCE
#include "importer/import_layer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "importer/import_rows.h"
#include "model/package/package.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"

#define PANEL_BYTES (8u << 20)

static int out_of_memory(const Import *import, const char *tensor, ErrText *err) {
    return err_set(err, -ENOMEM, "%s: out of memory for tensor '%s'", import->source.path, tensor);
}

static int write_at(const Import *import, const void *data, size_t len_bytes, uint64_t offset, ErrText *err) {
    int r = file_write_at(import->part.fd, data, len_bytes, offset);

    return r ? import_write_error(r, import->out_path, import->plan.package_bytes, err) : 0;
}

/* Writes a whole tensor and zeros up to the next one, whatever the file held before. */
static int write_tensor(const Import *import, const void *data, uint64_t len_bytes, uint64_t offset, ErrText *err) {
    static const uint8_t zeros[PACKAGE_ALIGNMENT];
    int r = write_at(import, data, (size_t)len_bytes, offset, err);

    return r ? r : write_at(import, zeros, (size_t)(-len_bytes % PACKAGE_ALIGNMENT), offset + len_bytes, err);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

void import_layer_end(Import *import, size_t index) {
    const ImportLayer *layer = &import->plan.layers[index];

    for (size_t i = 0; i < layer->n_linears; i++) {
        free(layer->linears[i].q);
        free(layer->linears[i].scales);
        layer->linears[i].q = NULL;
        layer->linears[i].scales = NULL;
    }
    for (size_t i = 0; i < layer->n_vectors; i++) {
        free(layer->vectors[i].values);
        layer->vectors[i].values = NULL;
    }
}

/**
 * import_layer_begin() - allocate a layer's memory; import_layer_end() frees it, also after an error
 *
 * Vectors are filled from the source. Embedding and head get scales only.
 */
int import_layer_begin(Import *import, size_t index, ErrText *err) {
    const ImportLayer *layer = &import->plan.layers[index];
    int r;

    for (size_t i = 0; i < layer->n_linears; i++) {
        ImportLinear *linear = &layer->linears[i];

        linear->scales = malloc(linear->n * sizeof(*linear->scales));
        linear->q = index ? malloc(linear->n * linear->k) : NULL;
        if (!linear->scales || (index && !linear->q))
            return out_of_memory(import, linear->source->name, err);
    }
    for (size_t i = 0; i < layer->n_vectors; i++) {
        ImportVector *vector = &layer->vectors[i];

        vector->values = malloc(vector->n * sizeof(*vector->values));
        if (!vector->values)
            return out_of_memory(import, vector->source->name, err);
        r = import_read_vector(&import->model, vector, err);
        if (r)
            return r;
    }
    return 0;
}

/* --- packing ------------------------------------------------------------------------------------------------------ */

typedef struct Packing {
    PackPlan plan;
    int8_t *q;
    uint8_t *packed;
} Packing;

static void packing_deinit(Packing *packing) {
    pack_plan_deinit(&packing->plan);
    free(packing->packed);
}

static void pack_blocks(void *arg, size_t begin, size_t end, unsigned int worker) {
    const Packing *packing = arg;

    for (size_t block = begin; block < end; block++)
        pack_block(&packing->plan, block, packing->q, packing->packed);
}

/* Packs rows of q[][k] at these widths into packing->packed. */
static int pack_rows(const Import *import, Packing *packing, const int8_t *bits, size_t rows, size_t k) {
    int r = pack_plan_init(&packing->plan, import->recipe.grid, bits, rows, k);

    if (r)
        return r;
    packing->packed = malloc((size_t)packing->plan.offsets[packing->plan.n_blocks]);
    if (!packing->packed)
        return -ENOMEM;
    worker_pool_run(import->model.pool, pack_blocks, packing, packing->plan.n_blocks, 1);
    return 0;
}

/* Refuses scales that are not finite: extreme values of the source make them. A method's integers need no check. */
static int check_scales(const Import *import, const ImportLinear *linear, ErrText *err) {
    for (size_t i = 0; i < linear->n; i++)
        if (!isfinite(linear->scales[i]) || linear->scales[i] < 0)
            return err_set(err, IMPORT_E_CORRUPT, "%s: tensor '%s', row %zu: its values are too large to be quantized",
                           import->source.path, linear->source->name, i);
    return 0;
}

static int write_channels(const Import *import, const ImportTensor *tensor, ErrText *err) {
    const ImportLinear *linear = tensor->linear;
    int r;

    r = check_scales(import, linear, err);
    if (!r)
        r = write_tensor(import, linear->scales, linear->n * sizeof(*linear->scales), tensor->scales_offset, err);
    return r ? r : write_tensor(import, linear->bits, linear->n, tensor->bits_offset, err);
}

static int write_columns(const Import *import, const ImportTensor *tensor, ErrText *err) {
    const ImportLinear *linear = tensor->linear;
    _cleanup_(freep) int8_t *columns = NULL;
    int r;

    if (!tensor->columns_offset)
        return 0;
    r = import_linear_columns(&import->model, linear, &columns, err);
    return r ? r : write_tensor(import, columns, (uint64_t)linear->n * linear->k, tensor->columns_offset, err);
}

static int write_linear(const Import *import, const ImportTensor *tensor, ErrText *err) {
    const ImportLinear *linear = tensor->linear;
    _cleanup_(packing_deinit) Packing packing = { .q = linear->q };
    int r;

    if (!tensor->packed) {
        r = write_tensor(import, linear->q, tensor->weight_bytes, tensor->offset, err);
        return r ? r : write_channels(import, tensor, err);
    }
    r = pack_rows(import, &packing, linear->bits, linear->n, linear->k);
    if (r)
        return r == -ENOMEM ? out_of_memory(import, linear->source->name, err) : err_raise(r);
    assert(packing.plan.offsets[packing.plan.n_blocks] == tensor->weight_bytes);
    r = write_tensor(import, packing.packed, tensor->weight_bytes, tensor->offset, err);
    return r ? r : write_channels(import, tensor, err);
}

int import_layer_write(Import *import, size_t index, ErrText *err) {
    int r = 0;

    for (size_t i = 0; !r && i < import->plan.n_tensors; i++) {
        const ImportTensor *tensor = &import->plan.tensors[i];

        if (tensor->layer != index || (tensor->linear && !index))
            continue;
        if (tensor->linear) {
            r = write_linear(import, tensor, err);
            if (!r)
                r = write_columns(import, tensor, err);
        } else {
            r = write_tensor(import, tensor->vector->values, tensor->weight_bytes, tensor->offset, err);
        }
        if (!r) /* starts the write-out now, so that the sync at the end has little left to do; only a hint */
            (void)sync_file_range(import->part.fd, (off_t)tensor->offset, (off_t)tensor->weight_bytes,
                                  SYNC_FILE_RANGE_WRITE);
    }
    return r;
}

/* --- embedding and head ------------------------------------------------------------------------------------------- */

static int write_panel(const Import *import, const ImportTensor *tensor, int8_t *q, size_t begin, size_t rows,
                       ErrText *err) {
    const ImportLinear *linear = tensor->linear;
    _cleanup_(packing_deinit) Packing packing = { .q = q };
    uint64_t panel_bytes;
    int r;

    if (!tensor->packed)
        return write_at(import, q, rows * linear->k, tensor->offset + (uint64_t)begin * linear->k, err);
    r = pack_rows(import, &packing, linear->bits + begin, rows, linear->k);
    if (r)
        return r == -ENOMEM ? out_of_memory(import, linear->source->name, err) : err_raise(r);
    /* All blocks have one width, hence one size in bytes. */
    panel_bytes = packing.plan.offsets[packing.plan.n_blocks];
    return write_at(import, packing.packed, (size_t)panel_bytes,
                    tensor->offset + begin / PACK_BLOCK_CHANNELS * (panel_bytes / packing.plan.n_blocks), err);
}

static int write_by_panels(Import *import, const ImportTensor *tensor, ErrText *err) {
    static const uint8_t zeros[PACKAGE_ALIGNMENT];
    const ImportLinear *linear = tensor->linear;
    size_t panel_rows = PANEL_BYTES / linear->k / PACK_BLOCK_CHANNELS * PACK_BLOCK_CHANNELS;
    _cleanup_(freep) int8_t *q = NULL;
    int r = 0;

    if (panel_rows < PACK_BLOCK_CHANNELS)
        panel_rows = PACK_BLOCK_CHANNELS;
    q = malloc(panel_rows * linear->k);
    if (!q)
        return out_of_memory(import, linear->source->name, err);
    for (size_t begin = 0; !r && begin < linear->n; begin += panel_rows) {
        size_t rows = MIN(linear->n - begin, panel_rows);

        r = import_round_rows(&import->model, linear, begin, begin + rows, q, linear->scales, err);
        if (!r)
            r = write_panel(import, tensor, q, begin, rows, err);
        import->monitor.progress.done_bytes += linear->source->len_bytes / linear->n * rows;
        import_monitor_tell(&import->monitor);
    }
    if (!r)
        r = write_at(import, zeros, (size_t)(-tensor->weight_bytes % PACKAGE_ALIGNMENT),
                     tensor->offset + tensor->weight_bytes, err);
    return r ? r : write_channels(import, tensor, err);
}

int import_outside_write(Import *import, ErrText *err) {
    int r = 0;

    for (size_t i = 0; !r && i < import->plan.n_tensors; i++)
        if (!import->plan.tensors[i].layer && import->plan.tensors[i].linear)
            r = write_by_panels(import, &import->plan.tensors[i], err);
    return r;
}

/* --- reading back ------------------------------------------------------------------------------------------------- */

static void unpack_blocks(void *arg, size_t begin, size_t end, unsigned int worker) {
    const Packing *packing = arg;

    for (size_t block = begin; block < end; block++)
        unpack_block(&packing->plan, block, packing->packed, packing->q);
}

static int read_at(const Import *import, void *data, uint64_t len_bytes, uint64_t offset, ErrText *err) {
    int r = file_read_exact(import->part.fd, data, (size_t)len_bytes, offset);

    return r ? err_set(err, r < 0 ? r : -EIO, "%s: cannot read what was written: %s", import->out_path,
                       r < 0 ? strerror(-r) : "the file is too short")
             : 0;
}

static int read_weights(const Import *import, const ImportTensor *tensor, ErrText *err) {
    ImportLinear *linear = tensor->linear;
    _cleanup_(packing_deinit) Packing packing = { 0 };
    int r;

    if (!linear->q)
        linear->q = malloc(linear->n * linear->k);
    if (!linear->q)
        return out_of_memory(import, linear->source->name, err);
    if (!tensor->packed)
        return read_at(import, linear->q, tensor->weight_bytes, tensor->offset, err);
    packing.q = linear->q;
    packing.packed = malloc((size_t)tensor->weight_bytes);
    r = packing.packed ? pack_plan_init(&packing.plan, import->recipe.grid, linear->bits, linear->n, linear->k)
                       : -ENOMEM;
    if (r)
        return r == -ENOMEM ? out_of_memory(import, linear->source->name, err) : err_raise(r);
    r = read_at(import, packing.packed, tensor->weight_bytes, tensor->offset, err);
    if (r)
        return r;
    worker_pool_run(import->model.pool, unpack_blocks, &packing, packing.plan.n_blocks, 1);
    return 0;
}

/* Reads the integers of a layer that was written, after import_layer_begin(); allocates the q of layer 0. */
int import_layer_read_integers(Import *import, size_t index, ErrText *err) {
    int r = 0;

    for (size_t i = 0; !r && i < import->plan.n_tensors; i++)
        if (import->plan.tensors[i].layer == index && import->plan.tensors[i].linear)
            r = read_weights(import, &import->plan.tensors[i], err);
    return r;
}

/* Reads the scales and vectors of a layer that was written, after import_layer_begin(). */
int import_layer_read_floats(Import *import, size_t index, ErrText *err) {
    int r = 0;

    for (size_t i = 0; !r && i < import->plan.n_tensors; i++) {
        const ImportTensor *tensor = &import->plan.tensors[i];

        if (tensor->layer != index)
            continue;
        if (tensor->linear)
            r = read_at(import, tensor->linear->scales, tensor->linear->n * sizeof(float), tensor->scales_offset, err);
        else
            r = read_at(import, tensor->vector->values, tensor->weight_bytes, tensor->offset, err);
    }
    return r;
}
