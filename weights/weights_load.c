// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/log.h"
#include "base/memory/account_refusal.h"
#include "weights/attention_balance.h"
#include "weights/weights.h"
#include "weights/weights_private.h"

static WeightsLayer *layer_of(Weights *weights, int layer) {
    return layer < 0 ? &weights->outside : &weights->layers[layer];
}

/* Copies a norm, bias or rotary divisors as float32. */
static int load_vector(WeightsLoader *loader, const ArchTensor *expected, const GgufTensor *tensor, int layer) {
    Weights *weights = loader->weights;
    size_t n = (size_t)tensor->ne[0], len_bytes = n * sizeof(float);
    float *values;

    int r = account_charge(loader->weights->backend->accounts, ACCOUNT_WEIGHTS, &weights->vectors_bill, len_bytes);

    if (r)
        return account_refused(loader->err, BACKEND_E_MEMORY, r, loader->weights->backend->accounts, ACCOUNT_WEIGHTS,
                               len_bytes, "tensor '%s'", tensor->name);
    values = malloc(len_bytes);
    if (!values)
        return err_no_memory(loader->err);
    ggml_dequantize(tensor->type, tensor->data, values, n);
    layer_of(weights, layer)->vectors[expected->role] = values;
    weights->counts.n_parameters += n;
    return 0;
}

/* Keeps the descriptor of the file that was checked: another file may have taken its name since. */
static int open_columns(WeightsLoader *loader) {
    const char *path = gguf_path(loader->source->file);
    ColumnFile *columns = &loader->weights->columns;

    columns->path = strdup(path);
    if (!columns->path)
        return err_no_memory(loader->err);
    columns->fd = fcntl(package_fd(loader->source->package), F_DUPFD_CLOEXEC, 0);
    if (columns->fd < 0)
        return err_set(loader->err, -errno, "%s: cannot keep it open: %s", path, strerror(errno));
    return 0;
}

static int load_activations(WeightsLoader *loader, const PackageLinear *linear, LinearActivations *activations) {
    const PackageActivations *from = &linear->activations;
    int r = 0;

    *activations = (LinearActivations){
        .scale = from->scale,
        .shadow = from->shadow,
        .hot = from->hot,
        .n_hot = from->n_hot,
        .file_offset_bytes = from->columns_offset_bytes,
    };
    if (from->shadow && loader->weights->columns.fd < 0)
        r = open_columns(loader);
    if (r || !from->shadow)
        return r;
    activations->file = &loader->weights->columns;
    /* The columns are read when the integers are there; until then the system can read them ahead. */
    for (size_t i = 0; i < from->n_hot; i++)
        (void)posix_fadvise(loader->weights->columns.fd, (off_t)(from->columns_offset_bytes + from->hot[i] * linear->n),
                            (off_t)linear->n, POSIX_FADV_WILLNEED);
    return 0;
}

/* Loads the bias of a matrix with n outputs, if it has one; the caller frees it. */
static int load_bias(const WeightsLoader *loader, const ArchTensor *expected, int layer, size_t n, float **valuesp) {
    const ArchTensor bias = { tensor_role_bias(expected->role), expected->out, DIM_NONE, true };
    GgufTensor tensor;
    float *values;

    if (bias.role == ROLE_NONE ||
        !hparams_tensor(loader->weights->hparams, loader->source->file, &bias, layer, &tensor) || tensor.ne[0] != n)
        return 0;
    values = malloc(n * sizeof(float));
    if (!values)
        return err_no_memory(loader->err);
    ggml_dequantize(tensor.type, tensor.data, values, n);
    *valuesp = values;
    return 0;
}

/* Returns the stage in which a matrix is used: before the layers, in one of them, after them. */
static uint32_t stage_of(const WeightsLoader *loader, int layer) {
    return layer >= 0 ? 1 + (uint32_t)layer : loader->past_layers ? 1 + loader->weights->hparams->n_layers : 0;
}

/* Prepares a matrix whose integers come later, once or, in a ring or graphs, again and again. */
static int place_later(WeightsLoader *loader, int layer, BackendLinear *linear, const LinearSource *source) {
    Weights *weights = loader->weights;
    int r;

    if (source->streamed && weights->graphs)
        weights_graphs_add(weights->graphs, linear, loader->comes_whole);
    else if (source->streamed)
        weights_ring_add(weights->ring, linear);
    if (source->streamed && !loader->comes_whole)
        return weights->backend->ops->linear_finish(weights->backend, linear, source, loader->err);
    r = weights_arrival_place(weights->coming.arrival, stage_of(loader, layer), linear, source);
    return r ? err_set(loader->err, r, "out of memory") : 0;
}

/* Makes a matrix of the package, without its integers. */
static int place_linear(WeightsLoader *loader, const ArchTensor *expected, const GgufTensor *tensor, int layer) {
    Weights *weights = loader->weights;
    Backend *backend = weights->backend;
    BackendLinear **linearp = &layer_of(weights, layer)->linears[expected->role];
    _cleanup_(freep) float *bias = NULL;
    const PlannedMatrix *planned = &loader->matrices[loader->n_placed++];
    const bool streams = weights_plan_streams(loader, layer);
    const WeightsImagePart image = weights_arrival_next_part(weights->coming.arrival);
    PackageLinear linear;
    LinearSource source;
    int r;

    r = package_linear(loader->source->package, tensor->name, &linear, loader->err);
    if (!r)
        r = load_bias(loader, expected, layer, linear.n, &bias);
    if (r)
        return r;
    source = (LinearSource){
        .name = tensor->name,
        .n = linear.n,
        .k = linear.k,
        .type = GGML_I8,
        .scales = linear.scales,
        .bits = linear.packed ? linear.bits : NULL,
        .grid = linear.grid,
        .rotation_block = linear.rotation_block,
        .bias = bias,
        .image = image.data,
        .image_bytes = streams ? planned->image_bytes : image.len_bytes,
        .streamed = streams,
        .expanded = streams && weights->graphs,
    };
    r = load_activations(loader, &linear, &source.activations);
    if (!r && weights->graphs && layer >= 0 && !(source.activations.scale > 0))
        r = err_set(
            loader->err, BACKEND_E_WEIGHTS,
            "%s: tensor '%s': its inputs have a scale a row, and graphs of the %s device want one for all: import "
            "the model for it (coordgenctl model import FILE.gguf --profile mobile)",
            gguf_path(loader->source->file), tensor->name, backend->ops->name);
    if (r)
        return r;
    weights->counts.n_parameters += (uint64_t)source.n * source.k;
    r = backend->ops->linear_begin(backend, linearp, &source, loader->err);
    return r ? r : place_later(loader, layer, *linearp, &source);
}

/* Makes a matrix of a source GGUF. */
static int load_linear(WeightsLoader *loader, const ArchTensor *expected, const GgufTensor *tensor, int layer) {
    Weights *weights = loader->weights;
    _cleanup_(freep) float *bias = NULL;
    LinearSource source = {
        .name = tensor->name,
        .n = (size_t)tensor->ne[1],
        .k = (size_t)tensor->ne[0],
        .type = tensor->type,
        .data = tensor->data,
    };
    int r;

    r = load_bias(loader, expected, layer, source.n, &bias);
    if (r)
        return r;
    source.bias = bias;
    weights->counts.n_parameters += (uint64_t)source.n * source.k;
    return weights->backend->ops->linear_new(weights->backend, &layer_of(weights, layer)->linears[expected->role],
                                             &source, loader->err);
}

/* Counts what a step multiplies and reads. used_bytes: of the account before this matrix was made. */
static void count_products(const WeightsLoader *loader, const ArchTensor *expected, int layer, uint64_t used_bytes) {
    Weights *weights = loader->weights;
    const uint64_t products =
        (uint64_t)hparams_dim(weights->hparams, expected->out) * hparams_dim(weights->hparams, expected->in);

    if (layer >= 0)
        weights->counts.layer_products += products;
    else if (expected->role == ROLE_OUTPUT || weights->hparams->tied)
        weights->counts.head_products = products;
    else
        weights->counts.embedding_bytes =
            atomic_load(&weights->backend->accounts->used_bytes[ACCOUNT_WEIGHTS]) - used_bytes;
}

static int load_tensor(void *arg, const ArchTensor *expected, int layer) {
    WeightsLoader *loader = arg;
    GgufTensor tensor;
    char name[GGUF_TENSOR_NAME_MAX];
    uint64_t used_bytes;
    int r;

    if (!hparams_tensor(loader->weights->hparams, loader->source->file, expected, layer, &tensor)) {
        if (expected->optional)
            return 0;
        return err_set(loader->err, BACKEND_E_WEIGHTS, "%s: tensor '%s' is missing", gguf_path(loader->source->file),
                       tensor_name(expected->role, layer, name, sizeof(name)));
    }
    if (!tensor_role_is_linear(expected->role))
        return load_vector(loader, expected, &tensor, layer);
    used_bytes = atomic_load(&loader->weights->backend->accounts->used_bytes[ACCOUNT_WEIGHTS]);
    loader->past_layers = loader->past_layers || layer >= 0;
    r = loader->source->package ? place_linear(loader, expected, &tensor, layer)
                                : load_linear(loader, expected, &tensor, layer);
    if (!r)
        count_products(loader, expected, layer, used_bytes);
    return r;
}

/* Computes what each layer's attention divides keys by. */
static int load_balances(WeightsLoader *loader) {
    Weights *weights = loader->weights;
    int r = 0;

    for (uint32_t i = 0; !r && loader->source->package && i < weights->hparams->n_layers; i++)
        r = attention_balance_of_package(weights->hparams, loader->source->package, i, weights->layers[i].vectors,
                                         &weights->layers[i].balance, loader->err);
    return r > 0 ? BACKEND_E_WEIGHTS : r;
}

static int weights_load(WeightsLoader *loader, const Hparams *hparams, Backend *backend, Weights **weightsp) {
    _cleanup_(weights_freep) Weights *weights = calloc(1, sizeof(*weights));
    AccountTable *accounts = backend->accounts;
    uint64_t before_bytes = atomic_load(&accounts->used_bytes[ACCOUNT_WEIGHTS]);
    int r = 0;

    if (!weights)
        return err_no_memory(loader->err);
    loader->weights = weights;
    weights->hparams = hparams;
    weights->backend = backend;
    weights->columns.fd = -1;
    weights->disk.limit = loader->options->flash_limit;
    shared_limiter_init(&weights->disk.shared, weights->disk.limit);
    weights->disk.is_shared = loader->options->limits_all;
    weights->coming.check = loader->source->check;
    weights->images.how = (loader->options->image == WEIGHTS_IMAGE_ON ? 0 : WEIGHTS_IMAGE_OPTIONAL) |
                          (loader->without_image ? WEIGHTS_IMAGE_ANEW : 0);
    weights->layers = calloc(hparams->n_layers, sizeof(*weights->layers));
    if (!weights->layers)
        return err_no_memory(loader->err);
    if (loader->source->package)
        r = weights_plan(loader);
    if (!r)
        r = hparams_each_tensor(hparams, load_tensor, loader);
    if (!r)
        r = load_balances(loader);
    if (!r && loader->source->package && !weights->images.mapped && backend->ops->linears_begun)
        backend->ops->linears_begun(backend);
    if (!r && (weights->images.streamed || weights->form.is_packed) && !loader->comes_whole)
        r = weights_start_ring(weights, loader->err);
    if (r)
        return r;
    weights->counts.resident_bytes = atomic_load(&accounts->used_bytes[ACCOUNT_WEIGHTS]) - before_bytes;
    *weightsp = steal(&weights);
    return 0;
}

/* Returns the path of the image that the load may use. If all of the package is compared, an image saves nothing: only
 * layers on disk and static graphs, which are read from it, need one. */
static const char *image_path_of(const Backend *backend, const WeightsSource *source, const WeightsOptions *options) {
    return options->checking == WEIGHTS_CHECKING_ALL && !options->memory.is_set && !backend->ops->linear_shape
               ? NULL
               : source->image_path;
}

static int load_once(Weights **weightsp, Backend *backend, const Hparams *hparams, const WeightsSource *source,
                     const WeightsOptions *options, bool without_image, ErrText *err) {
    WeightsLoader loader = {
        .source = source,
        .image_path = image_path_of(backend, source, options),
        .options = options,
        .without_image = without_image,
        .err = err,
    };
    int r = weights_load(&loader, hparams, backend, weightsp);

    free(loader.matrices);
    return r;
}

/**
 * weights_new() - a place on a device for every tensor of the architecture
 * @source: its file and package are checked against hparams by the caller
 *
 * Takes all memory. Vectors, and all tensors of a source GGUF, are there at once. The integers of a package come later:
 * weights_advance() takes them in, in the order of use, while they are read ahead (weight_stream, or weights_image if
 * there is an image), and hot columns with them. With options->memory the first layers stay, and the others go through
 * a ring (weights_ring): from an image, which is made when the weights come for the first time. On a device of static
 * graphs all layers are loaded in blocks (weights/graphs/weights_graphs).
 *
 * Return: 0, BACKEND_E_MEMORY, BACKEND_E_WEIGHTS, another condition of the package, or -errno; the text names the
 * tensor or the file.
 */
int weights_new(Weights **weightsp, Backend *backend, const Hparams *hparams, const WeightsSource *source,
                const WeightsOptions *options, ErrText *err) {
    const bool new_image = source->new_image || options->checking == WEIGHTS_CHECKING_ALL;
    int r = load_once(weightsp, backend, hparams, source, options, new_image, err);

    if (r != BACKEND_E_IMAGE)
        return r;
    log_warn(TOPIC_ENGINE, "%s: not used: %s", source->image_path, err ? err->text : "");
    return load_once(weightsp, backend, hparams, source, options, true, err);
}
