#include "engine/weights.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

typedef struct WeightsLoader {
    Weights *weights;
    const GgufFile *file;
    Package *package; /* NULL for a source GGUF */
    AccountTable *accounts;
    ErrText *err;
} WeightsLoader;

static WeightsLayer *layer_of(Weights *weights, int layer) {
    return layer < 0 ? &weights->outside : &weights->layers[layer];
}

static void layer_deinit(Weights *weights, WeightsLayer *layer) {
    for (size_t role = 0; role < _ROLE_N; role++) {
        weights->backend->ops->linear_free(layer->linears[role]);
        free(layer->vectors[role]);
    }
}

Weights *weights_free(Weights *weights) {
    if (!weights)
        return NULL;
    layer_deinit(weights, &weights->outside);
    for (uint32_t i = 0; weights->layers && i < weights->hparams->n_layers; i++)
        layer_deinit(weights, &weights->layers[i]);
    free(weights->layers);
    if (weights->columns.fd >= 0)
        close(weights->columns.fd);
    free((char *)weights->columns.path);
    bill_settle(&weights->vectors_bill);
    free(weights);
    return NULL;
}

/* Norms, biases and rotary divisors: copied as float32. */
static int load_vector(WeightsLoader *loader, const ArchTensor *expected, const GgufTensor *tensor, int layer) {
    Weights *weights = loader->weights;
    size_t n = (size_t)tensor->ne[0], len_bytes = n * sizeof(float);
    float *values;

    if (account_charge(loader->accounts, ACCOUNT_WEIGHTS, &weights->vectors_bill, len_bytes))
        return err_set(loader->err, BACKEND_E_MEMORY, "no memory for tensor '%s'", tensor->name);
    values = malloc(len_bytes);
    if (!values)
        return err_set(loader->err, -ENOMEM, "out of memory");
    ggml_dequantize(tensor->type, tensor->data, values, n);
    layer_of(weights, layer)->vectors[expected->role] = values;
    weights->n_parameters += n;
    return 0;
}

/* The descriptor of the file that was checked: another one may have taken its name since. */
static int open_columns(WeightsLoader *loader) {
    const char *path = gguf_path(loader->file);
    ColumnFile *columns = &loader->weights->columns;

    columns->path = strdup(path);
    if (!columns->path)
        return err_set(loader->err, -ENOMEM, "out of memory");
    columns->fd = fcntl(package_fd(loader->package), F_DUPFD_CLOEXEC, 0);
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
        .columns = from->columns,
        .file_offset_bytes = from->columns_offset_bytes,
    };
    if (from->shadow && loader->weights->columns.fd < 0)
        r = open_columns(loader);
    if (from->shadow)
        activations->file = &loader->weights->columns;
    return r;
}

static int load_linear(WeightsLoader *loader, const ArchTensor *expected, const GgufTensor *tensor, int layer) {
    Weights *weights = loader->weights;
    TensorRole bias = tensor_role_bias(expected->role);
    _cleanup_(freep) float *bias_values = NULL;
    const GgufTensor *bias_tensor = NULL;
    LinearSource source = {
        .name = tensor->name,
        .n = (size_t)tensor->ne[1],
        .k = (size_t)tensor->ne[0],
        .type = tensor->type,
        .data = tensor->data,
    };
    char name[GGUF_TENSOR_NAME_MAX];
    PackageLinear linear;
    uint64_t used_bytes;
    int r = 0;

    if (loader->package) {
        r = package_linear(loader->package, tensor->name, &linear, loader->err);
        if (r)
            return r;
        source.n = linear.n; /* a packed tensor is one row of bytes */
        source.k = linear.k;
        source.type = GGML_I8;
        source.data = linear.weights;
        source.packed = linear.packed;
        source.bits = linear.packed ? linear.bits : NULL;
        source.scales = linear.scales;
        source.rotation_block = linear.rotation_block;
        r = load_activations(loader, &linear, &source.activations);
        if (r)
            return r;
    }
    if (bias != ROLE_NONE)
        bias_tensor = gguf_tensor(loader->file, tensor_name(bias, layer, name, sizeof(name)));
    if (bias_tensor && bias_tensor->ne[0] == source.n) {
        bias_values = malloc(source.n * sizeof(float));
        if (!bias_values)
            return err_set(loader->err, -ENOMEM, "out of memory");
        ggml_dequantize(bias_tensor->type, bias_tensor->data, bias_values, source.n);
        source.bias = bias_values;
    }
    weights->n_parameters += (uint64_t)source.n * source.k;
    used_bytes = atomic_load(&loader->accounts->used_bytes[ACCOUNT_WEIGHTS]);
    r = weights->backend->ops->linear_new(weights->backend, &layer_of(weights, layer)->linears[expected->role], &source,
                                          loader->err);
    if (layer >= 0)
        weights->layer_products += (uint64_t)source.n * source.k;
    else if (expected->role == ROLE_OUTPUT || weights->hparams->tied)
        weights->head_products = (uint64_t)source.n * source.k;
    else
        weights->embedding_bytes = atomic_load(&loader->accounts->used_bytes[ACCOUNT_WEIGHTS]) - used_bytes;
    return r;
}

static int load_tensor(void *arg, const ArchTensor *expected, int layer) {
    WeightsLoader *loader = arg;
    const GgufTensor *tensor;
    char name[GGUF_TENSOR_NAME_MAX];

    tensor = gguf_tensor(loader->file, tensor_name(expected->role, layer, name, sizeof(name)));
    if (!tensor) {
        if (expected->optional)
            return 0;
        return err_set(loader->err, BACKEND_E_WEIGHTS, "%s: tensor '%s' is missing", gguf_path(loader->file), name);
    }
    if (tensor_role_is_linear(expected->role))
        return load_linear(loader, expected, tensor, layer);
    return load_vector(loader, expected, tensor, layer);
}

/**
 * weights_new() - put every tensor of the architecture onto a device
 * @file, @package: checked against hparams by the caller; not kept, but for what the reference device reads
 *
 * Return: 0, BACKEND_E_MEMORY, BACKEND_E_WEIGHTS, another condition of the package, or -errno; the text names the tensor.
 */
int weights_new(Weights **weightsp, Backend *backend, const Hparams *hparams, const GgufFile *file, Package *package,
                AccountTable *accounts, ErrText *err) {
    _cleanup_(weights_freep) Weights *weights = calloc(1, sizeof(*weights));
    WeightsLoader loader = { .weights = weights, .file = file, .package = package, .accounts = accounts, .err = err };
    int r;

    if (!weights)
        return err_set(err, -ENOMEM, "out of memory");
    weights->hparams = hparams;
    weights->backend = backend;
    weights->columns.fd = -1;
    weights->layers = calloc(hparams->n_layers, sizeof(*weights->layers));
    if (!weights->layers)
        return err_set(err, -ENOMEM, "out of memory");
    r = hparams_each_tensor(hparams, load_tensor, &loader);
    if (r)
        return r;
    *weightsp = steal(&weights);
    return 0;
}

const BackendLinear *weights_head(const Weights *weights) {
    return weights->outside.linears[weights->hparams->tied ? ROLE_TOKEN_EMBD : ROLE_OUTPUT];
}
