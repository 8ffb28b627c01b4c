// SPDX-License-Identifier: Apache-2.0
/*
 * Plans where the matrices of a package will be: in memory, in an image that is mapped, layer by layer in a ring of
 * slots, or block by block in the graphs of a device. A ring and graphs read an image, so that nothing is laid out
 * twice. If there is no image, the load makes it and writes every matrix when it has arrived. Layers of the ring are
 * then laid out in the ring's slots, one after the other, and layers of graphs where they stay. A load therefore never
 * has more in memory than the model that it has loaded.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "base/min_max.h"
#include "weights/weights_private.h"

/* Upper bounds of what a matrix takes beside its integers: for a channel (scale, bias, number of the channel, half a
 * byte of widths and offsets), and for alignment. */
enum {
    CHANNEL_BYTES = 16,
    MATRIX_BYTES = 1024,
};

/* --- the matrices ------------------------------------------------------------------------------------------------- */

static bool wants_ring(const WeightsLoader *loader) {
    return loader->options->memory.is_set;
}

static bool has_graphs(const WeightsLoader *loader) {
    return loader->weights->backend->ops->linear_shape;
}

static int find_image_bytes(const WeightsLoader *loader, PlannedMatrix *planned, const char *name, ErrText *err) {
    return loader->weights->backend->ops->linear_image_bytes(
        &(LinearSource){
            .name = name,
            .n = planned->matrix.n,
            .k = planned->matrix.k,
            .bits = planned->matrix.bits,
            .grid = planned->matrix.grid,
            .expanded = has_graphs(loader) && planned->layer >= 0,
        },
        &planned->image_bytes, err);
}

static int list_matrix(void *arg, const ArchTensor *expected, int layer) {
    WeightsLoader *loader = arg;
    PlannedMatrix *planned = &loader->matrices[loader->n_matrices];
    const GgufTensor *tensor;
    char name[GGUF_TENSOR_NAME_MAX];
    PackageLinear linear;
    int r;

    if (!tensor_role_is_linear(expected->role))
        return 0;
    tensor = gguf_tensor(loader->source->file, tensor_name(expected->role, layer, name, sizeof(name)));
    if (!tensor) /* an optional one; of any other load_tensor() says that it is missing */
        return 0;
    r = package_linear(loader->source->package, name, &linear, loader->err);
    if (r)
        return r;
    loader->n_matrices++;
    *planned = (PlannedMatrix){
        .matrix = {
            .offset_bytes = tensor->offset_bytes,
            .n = linear.n,
            .k = linear.k,
            .bits = linear.packed ? linear.bits : NULL,
            .grid = linear.grid,
        },
        .layer = layer,
    };
    return wants_ring(loader) || has_graphs(loader) ? find_image_bytes(loader, planned, name, loader->err) : 0;
}

static int list_matrices(WeightsLoader *loader) {
    loader->matrices = calloc(package_n_linears(loader->source->package) + 1, sizeof(*loader->matrices));
    if (!loader->matrices)
        return err_no_memory(loader->err);
    return hparams_each_tensor(loader->weights->hparams, list_matrix, loader);
}

bool weights_plan_streams(const WeightsLoader *loader, int layer) {
    return layer >= (int)loader->n_pinned;
}

/* Finds which layers stay in memory, by the setting; without a ring all do. */
static int plan_memory(WeightsLoader *loader) {
    const uint32_t n_layers = loader->weights->hparams->n_layers;
    _cleanup_(freep) uint64_t *layer_bytes = calloc(n_layers + 1, sizeof(*layer_bytes));
    WeightsSizes sizes = { .layer_bytes = layer_bytes, .n_layers = n_layers };
    uint64_t slot_bytes = 0;
    int r;

    loader->n_pinned = has_graphs(loader) ? 0 : n_layers;
    if (!wants_ring(loader))
        return 0;
    if (!layer_bytes)
        return err_no_memory(loader->err);
    for (size_t i = 0; i < loader->n_matrices; i++) {
        const PlannedMatrix *planned = &loader->matrices[i];

        *(planned->layer < 0 ? &sizes.others_bytes : &layer_bytes[planned->layer]) +=
            planned->image_bytes + IMAGE_ALIGNMENT;
        sizes.others_bytes += planned->matrix.n * CHANNEL_BYTES + MATRIX_BYTES;
    }
    for (uint32_t i = 0; i < n_layers; i++)
        slot_bytes = MAX(layer_bytes[i], slot_bytes);
    r = weights_memory_plan(&loader->options->memory, &sizes, slot_bytes + 2 * EXTENT_ALIGNMENT, &loader->n_pinned,
                            loader->err);
    if (r)
        err_prefix(loader->err, "%s", gguf_path(loader->source->file));
    return r ? BACKEND_E_MEMORY : 0;
}

static bool streams(const WeightsLoader *loader) {
    return loader->n_pinned < loader->weights->hparams->n_layers;
}

/* --- images ------------------------------------------------------------------------------------------------------- */

/* Finds the name and the key of an image. */
static int place_image(WeightsLoader *loader, ErrText *err) {
    Weights *weights = loader->weights;
    int r;

    weights->images.package_path = realpath(gguf_path(loader->source->file), NULL);
    r = weights->images.package_path
            ? weights_image_key(&weights->images.key, package_fd(loader->source->package), weights->images.package_path,
                                weights->backend->ops->image_layout)
            : -errno;
    if (!r && !(weights->images.path = strdup(loader->image_path)))
        r = -ENOMEM;
    return r ? err_set(err, r, "no image of the weights: %s: %s", gguf_path(loader->source->file), strerror(-r)) : 0;
}

/* Opens an image. A missing or useless one is no error: the package has all. */
static void open_image(const WeightsLoader *loader, WeightsImage **imagep) {
    const Weights *weights = loader->weights;
    ErrText why = { 0 };

    if (!loader->without_image &&
        weights_image_open(imagep, weights->images.path, &weights->images.key, loader->n_matrices, &why))
        log_info(TOPIC_ENGINE, "no image of the weights: %s", why.text);
}

static size_t *list_part_bytes(const WeightsLoader *loader) {
    size_t *part_bytes = calloc(loader->n_matrices + 1, sizeof(*part_bytes));

    for (size_t i = 0; part_bytes && i < loader->n_matrices; i++)
        part_bytes[i] = loader->matrices[i].image_bytes;
    return part_bytes;
}

static int begin_image(WeightsLoader *loader, ErrText *err) {
    Weights *weights = loader->weights;
    _cleanup_(freep) size_t *part_bytes = NULL;
    int r = 0;

    for (size_t i = 0; i < loader->n_matrices && !r; i++)
        r = find_image_bytes(loader, &loader->matrices[i], "", err);
    if (r)
        return r == -ENOMEM ? r : -EINVAL;
    part_bytes = list_part_bytes(loader);
    if (!part_bytes)
        return err_no_memory(err);
    return weights_image_write(&weights->images.writer, weights->images.path, &weights->images.key, part_bytes,
                               loader->n_matrices, weights->images.how, err);
}

/* Begins to write an image for the next load. This load does not fail by it. */
static void make_image(WeightsLoader *loader) {
    Weights *weights = loader->weights;
    ErrText why = { 0 };

    weights->images.writer_result = begin_image(loader, &why);
    if (weights->images.writer_result)
        log_warn(TOPIC_ENGINE, "no image of the weights: %s", why.text);
}

/* Maps the matrices in memory from an image, or begins to make one. A load does not fail by it. */
static void use_image(WeightsLoader *loader) {
    WeightsImage **image = &loader->weights->images.mapped;
    ErrText why = { 0 };

    if (!loader->image_path || !loader->weights->backend->ops->linear_image)
        return;
    if (place_image(loader, &why)) {
        log_warn(TOPIC_ENGINE, "%s", why.text);
        return;
    }
    open_image(loader, image);
    if (*image && weights_check_image(loader->source->check, *image, 0, loader->n_matrices, &why)) {
        log_warn(TOPIC_ENGINE, "%s", why.text);
        *image = weights_image_free(*image);
    }
    if (!*image)
        make_image(loader);
}

/* --- the ring ----------------------------------------------------------------------------------------------------- */

static void end_image_file(Weights *weights) {
    if (weights->images.file)
        image_file_deinit(weights->images.file);
    free(weights->images.file);
    weights->images.file = NULL;
}

/* Begins to make the image that the ring will read. */
static int begin_image_file(WeightsLoader *loader) {
    Weights *weights = loader->weights;
    _cleanup_(freep) size_t *part_bytes = list_part_bytes(loader);
    _cleanup_(freep) ImageFile *file = calloc(1, sizeof(*file));
    int r;

    if (!part_bytes || !file)
        return err_no_memory(loader->err);
    r = image_file_init(file, weights->images.path, &weights->images.key, part_bytes, loader->n_matrices, loader->err);
    if (r)
        return r;
    weights->images.file = steal(&file);
    return image_file_begin(weights->images.file, loader->err);
}

/* Makes the ring, or the graphs. */
static int new_ring(WeightsLoader *loader, const WeightsImage *image) {
    Weights *weights = loader->weights;
    _cleanup_(freep) RingMatrix *matrices = calloc(loader->n_matrices + 1, sizeof(*matrices));
    size_t n = 0;
    uint64_t at_bytes = 0;
    int r;

    if (!matrices)
        return err_no_memory(loader->err);
    for (size_t i = 0; i < loader->n_matrices; i++) {
        const size_t len_bytes = loader->matrices[i].image_bytes;

        if (!weights_plan_streams(loader, loader->matrices[i].layer))
            continue;
        matrices[n++] = (RingMatrix){
            .layer = (uint32_t)loader->matrices[i].layer,
            .part = i,
            .offset_bytes = image                  ? weights_image_offset_bytes(image, i)
                            : weights->images.file ? image_file_places(weights->images.file)[i].offset_bytes
                                                   : at_bytes, /* as in an image */
            .len_bytes = len_bytes,
        };
        at_bytes += (len_bytes + IMAGE_ALIGNMENT - 1) / IMAGE_ALIGNMENT * IMAGE_ALIGNMENT;
    }
    if (has_graphs(loader)) {
        r = weights_graphs_new(&weights->graphs, weights->backend, &loader->options->graphs, matrices, n,
                               loader->source->tracep, loader->err);
        return r > 0 ? BACKEND_E_MEMORY : r;
    }
    r = weights_ring_new(&weights->ring, weights->backend->ops, weights->backend->accounts, (uint32_t)loader->n_pinned,
                         matrices, n, loader->err);
    return r == WEIGHTS_RING_E_MEMORY ? BACKEND_E_MEMORY : r;
}

/* Opens the image of the ring or the graphs, or begins to make it. If the disk has no room and graphs may do without,
 * there is none. */
static int find_ring_image(WeightsLoader *loader, WeightsImage **imagep) {
    ErrText *const err = loader->err, why = { 0 };
    int r;

    open_image(loader, imagep);
    if (*imagep)
        return 0;
    loader->err = &why;
    r = begin_image_file(loader);
    loader->err = err;
    if (r == -ENOSPC && has_graphs(loader) && loader->options->graphs.form == GRAPH_FORM_AUTO) {
        log_info(TOPIC_ENGINE, "%s: its graphs are read from the package: %s", gguf_path(loader->source->file),
                 why.text);
        end_image_file(loader->weights);
        loader->graph_form = GRAPH_FORM_PACKED;
        return 0;
    }
    if (r && err)
        *err = why;
    return r;
}

static int begin_ring(WeightsLoader *loader) {
    Weights *weights = loader->weights;
    _cleanup_(weights_image_freep) WeightsImage *image = NULL;
    int r = has_graphs(loader) ? weights_plan_graph_form(loader) : 0;

    if (r)
        return r;
    if (!loader->image_path && loader->graph_form != GRAPH_FORM_PACKED)
        return err_set(
            loader->err, BACKEND_E_WEIGHTS, "%s: to be read %s its weights need a cache folder for their image",
            gguf_path(loader->source->file), has_graphs(loader) ? "as materialised graphs" : "layer by layer");
    if (loader->image_path)
        r = place_image(loader, loader->err);
    if (!r && loader->graph_form != GRAPH_FORM_PACKED)
        r = find_ring_image(loader, &image);
    if (!r && !weights->images.package_path &&
        !(weights->images.package_path = strdup(gguf_path(loader->source->file))))
        r = err_no_memory(loader->err);
    if (!r && loader->graph_form == GRAPH_FORM_PACKED) {
        weights->form.is_packed = true;
        weights->form.package_fd = package_fd(loader->source->package);
    }
    if (!r)
        r = new_ring(loader, image);
    if (!r && image)
        weights->images.streamed = steal(&image); /* reads begin when its matrices are there */
    return r;
}

/* --- arrival ------------------------------------------------------------------------------------------------------ */

/* Whether the embedding may come last. A prompt needs a few rows of it, which are read first of all; nobody needs the
 * whole embedding, unless it is the head, too. */
static bool reads_embedding_late(const Weights *weights) {
    return !weights->hparams->tied && weights->backend->ops->embed_ahead;
}

/* Begins the arrival of all matrices of the package, but for those that the ring finds in an image. */
static int begin_arrival(WeightsLoader *loader) {
    Weights *weights = loader->weights;
    const bool comes_whole = !streams(loader) || weights->images.file ||
                             (weights->form.is_packed && weights_check_layers(loader->source->check));
    const WeightStreamOptions options = {
        .fd = package_fd(loader->source->package),
        .path = gguf_path(loader->source->file),
        .reading = loader->options->reading,
        .pool = weights->backend->pool,
        .accounts = weights->backend->accounts,
        .checksum = comes_whole ? weights_check_layers(loader->source->check) : NULL,
        .heartbeat = loader->source->heartbeat,
        .disk = weights->disk.is_shared ? &weights->disk.shared : NULL,
        .tracep = loader->source->tracep,
    };
    _cleanup_(freep) StreamMatrix *matrices = calloc(loader->n_matrices + 1, sizeof(*matrices));
    size_t n = 0;

    if (!matrices)
        return err_no_memory(loader->err);
    for (size_t i = 0; i < loader->n_matrices; i++)
        if (comes_whole || !weights_plan_streams(loader, loader->matrices[i].layer))
            matrices[n++] = loader->matrices[i].matrix;
    loader->comes_whole = comes_whole;
    weights->coming.was_compared = options.checksum && !weights->images.mapped;
    if (weights->images.mapped)
        weights_image_read_ahead(weights->images.mapped, reads_embedding_late(weights) ? 1 : 0,
                                 options.tracep ? *options.tracep : NULL);
    return weights_arrival_new(&weights->coming.arrival, weights->backend, &options, matrices, n,
                               weights->images.mapped, weights->images.file, weights->images.writer, loader->err);
}

int weights_plan(WeightsLoader *loader) {
    int r = 0;

    if (wants_ring(loader) && (!loader->weights->backend->ops->linear_at || has_graphs(loader)))
        return err_set(loader->err, BACKEND_E_WEIGHTS, "%s: weights-memory: %s", gguf_path(loader->source->file),
                       has_graphs(loader) ? "on this device the limit is graphs-memory"
                                          : "this device wants all weights in memory");
    r = list_matrices(loader);
    if (!r)
        r = plan_memory(loader);
    if (r)
        return r;
    if (streams(loader))
        r = begin_ring(loader);
    else if (!wants_ring(loader))
        use_image(loader);
    return r ? r : begin_arrival(loader);
}
