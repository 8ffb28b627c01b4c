// SPDX-License-Identifier: Apache-2.0
#include "model/package/package_linears.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/strings/printable.h"
#include "model/package/package_activations.h"
#include "quant/format/pack.h"
#include "quant/rotate.h"

/* Finds a packed tensor of any number of bytes; check_packed() compares it with the widths. */
static int find_packed(PackageCheck *check, const char *name, const GgufTensor **tensorp) {
    const GgufTensor *tensor = gguf_tensor(check->package->file, name);

    return package_find_tensor(check, name, GGML_I8, tensor ? tensor->ne[0] : 0, 1, tensorp);
}

static uint32_t rotation_block(const PackageCheck *check, size_t index) {
    return (uint32_t)gguf_array_i64(check->rotation_blocks, index);
}

static int check_linear_settings(const PackageCheck *check, size_t index, const char *name, uint64_t k,
                                 uint32_t block) {
    const char *path = gguf_path(check->package->file);
    GgufString layout = check->layouts->strings[index];
    Printable shown;

    if (!package_string_is(check->names->strings[index], name))
        return err_set(
            check->err, PACKAGE_E_CORRUPT, "%s: key '%s': element %zu is '%s', the architecture has '%s' there", path,
            PACKAGE_KEY_LINEAR_NAMES, index,
            printable(&shown, check->names->strings[index].data, check->names->strings[index].len_bytes), name);
    if (!package_string_is(layout, PACKAGE_LAYOUT_INT8) && !package_string_is(layout, PACKAGE_LAYOUT_PACKED) &&
        !package_string_is(layout, PACKAGE_LAYOUT_PACKED_NORMAL))
        return err_set(check->err, PACKAGE_E_UNSUPPORTED,
                       "%s: linear '%s' has layout '%s', this program knows '%s', '%s' and '%s'", path, name,
                       printable(&shown, layout.data, layout.len_bytes), PACKAGE_LAYOUT_INT8, PACKAGE_LAYOUT_PACKED,
                       PACKAGE_LAYOUT_PACKED_NORMAL);
    if (!rotate_block_fits(block, k))
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: linear '%s' of %" PRIu64 " inputs has rotation block %u",
                       path, name, k, block);
    return 0;
}

/* Checks scales and widths. embedding_bits: the width that all channels must have; 0: each channel has its own. */
static int check_channels(PackageCheck *check, const PackageLinear *linear, uint32_t embedding_bits) {
    const char *path = gguf_path(check->package->file);

    for (size_t i = 0; i < linear->n; i++) {
        if (!isfinite(linear->scales[i]) || linear->scales[i] < 0)
            return err_set(check->err, PACKAGE_E_CORRUPT, "%s: tensor '%s.scales': element %zu is %g", path,
                           linear->name, i, (double)linear->scales[i]);
        if (linear->bits[i] < GRID_BITS_MIN || linear->bits[i] > GRID_BITS_MAX)
            return err_set(check->err, PACKAGE_E_CORRUPT,
                           "%s: tensor '%s.bits': channel %zu is %d bits wide: 1 to 8 are possible", path, linear->name,
                           i, linear->bits[i]);
        if (linear->weights && linear->bits[i] != GRID_BITS_MAX)
            return err_set(check->err, PACKAGE_E_CORRUPT,
                           "%s: tensor '%s.bits': channel %zu is %d bits wide, layout '%s' has %d", path, linear->name,
                           i, linear->bits[i], PACKAGE_LAYOUT_INT8, GRID_BITS_MAX);
        if (embedding_bits && linear->bits[i] != (int8_t)embedding_bits)
            return err_set(check->err, PACKAGE_E_CORRUPT,
                           "%s: tensor '%s.bits': channel %zu is %d bits wide, key '%s' says %u", path, linear->name, i,
                           linear->bits[i], PACKAGE_KEY_EMBEDDING_BITS, embedding_bits);
        if (!embedding_bits)
            check->n_weight_bits += (uint64_t)linear->bits[i] * linear->k;
    }
    if (!embedding_bits)
        check->n_weights += (uint64_t)linear->n * linear->k;
    return 0;
}

/* Checks that the tensor has as many bytes as its checked widths need. */
static int check_packed(const PackageCheck *check, const PackageLinear *linear) {
    PackPlan plan;
    uint64_t expected_bytes;
    int r;

    r = pack_plan_init(&plan, linear->grid, linear->bits, linear->n, linear->k);
    if (r)
        return err_set(check->err, r == -EINVAL ? PACKAGE_E_CORRUPT : r, "%s: linear '%s' of %zu x %zu: %s",
                       gguf_path(check->package->file), linear->name, linear->k, linear->n,
                       r == -EINVAL ? "cannot be packed" : "out of memory");
    expected_bytes = plan.offsets[plan.n_blocks];
    pack_plan_deinit(&plan);
    if (linear->weight_bytes != expected_bytes)
        return err_set(check->err, PACKAGE_E_CORRUPT,
                       "%s: tensor '%s.weight' has %" PRIu64 " bytes, its widths ask for %" PRIu64,
                       gguf_path(check->package->file), linear->name, linear->weight_bytes, expected_bytes);
    return 0;
}

/* Copies the widths: the plan of a matrix depends on them whenever it is made, and others may write to the file
 * meanwhile. */
static int copy_widths(PackageCheck *check, const GgufTensor *bits, const int8_t **widthsp) {
    Package *package = check->package;
    int8_t *widths = malloc((size_t)bits->len_bytes);

    if (!widths)
        return err_set(check->err, -ENOMEM, "%s: out of memory", gguf_path(package->file));
    memcpy(widths, bits->data, (size_t)bits->len_bytes);
    *widthsp = package->widths[package->n_widths++] = widths;
    return 0;
}

static int check_linear(PackageCheck *check, const char *weight_name, const ArchTensor *expected) {
    Package *package = check->package;
    size_t index = package->n_linears, base_bytes = strlen(weight_name) - strlen(".weight");
    uint64_t k = hparams_dim(&package->hparams, expected->in), n = hparams_dim(&package->hparams, expected->out);
    uint32_t embedding_bits = tensor_role_is_embedding(expected->role) ? package->quant.embedding_bits : 0;
    const GgufTensor *weight, *scales, *bits;
    PackageLinear *linear = &package->linears[index];
    const int8_t *widths = NULL;
    uint32_t block;
    bool packed, normal;
    char *name = package->names[index], part[GGUF_TENSOR_NAME_MAX + 16];
    int r;

    if (index == check->names->n)
        return err_set(check->err, PACKAGE_E_CORRUPT,
                       "%s: key '%s' has %" PRIu64 " elements, tensor '%s' is not among them", gguf_path(package->file),
                       PACKAGE_KEY_LINEAR_NAMES, check->names->n, weight_name);
    memcpy(name, weight_name, base_bytes);
    name[base_bytes] = 0;
    block = rotation_block(check, index);
    r = check_linear_settings(check, index, name, k, block);
    if (r)
        return r;
    normal = package_string_is(check->layouts->strings[index], PACKAGE_LAYOUT_PACKED_NORMAL);
    packed = normal || package_string_is(check->layouts->strings[index], PACKAGE_LAYOUT_PACKED);
    r = packed ? find_packed(check, weight_name, &weight)
               : package_find_tensor(check, weight_name, GGML_I8, k, n, &weight);
    if (r)
        return r;
    snprintf(part, sizeof(part), "%s.scales", name);
    r = package_find_tensor(check, part, GGML_F32, n, 1, &scales);
    if (r)
        return r;
    snprintf(part, sizeof(part), "%s.bits", name);
    r = package_find_tensor(check, part, GGML_I8, n, 1, &bits);
    if (!r)
        r = copy_widths(check, bits, &widths);
    if (r)
        return r;
    *linear = (PackageLinear){
        .name = name,
        .n = (size_t)n,
        .k = (size_t)k,
        .weights = packed ? NULL : (const int8_t *)weight->data,
        .packed = packed ? weight->data : NULL,
        .weight_bytes = weight->len_bytes,
        .scales = (const float *)(const void *)scales->data,
        .bits = widths,
        .grid = normal ? GRID_NORMAL : GRID_UNIFORM,
        .rotation_block = block,
    };
    r = check_channels(check, linear, embedding_bits);
    if (!r && packed)
        r = check_packed(check, linear);
    if (!r)
        r = package_check_activations(check, index, linear, tensor_role_is_embedding(expected->role));
    if (r)
        return r;
    package->by_tensor[weight - gguf_tensor_at(package->file, 0)] = (uint32_t)index + 1;
    package->n_linears++;
    return 0;
}

static int check_vector(const PackageCheck *check, const GgufTensor *tensor) {
    const float *values = (const float *)(const void *)tensor->data;

    for (uint64_t i = 0; i < tensor->ne[0]; i++)
        if (!isfinite(values[i]))
            return err_set(check->err, PACKAGE_E_CORRUPT, "%s: tensor '%s': element %" PRIu64 " is not a finite number",
                           gguf_path(check->package->file), tensor->name, i);
    return 0;
}

static int check_tensor(void *arg, const ArchTensor *expected, int layer) {
    PackageCheck *check = arg;
    const GgufTensor *tensor;
    char name[GGUF_TENSOR_NAME_MAX];
    int r;

    tensor_name(expected->role, layer, name, sizeof(name));
    if (expected->optional && !gguf_tensor(check->package->file, name))
        return 0;
    if (tensor_role_is_linear(expected->role))
        return check_linear(check, name, expected);
    r = package_find_tensor(check, name, GGML_F32, hparams_dim(&check->package->hparams, expected->in),
                            hparams_dim(&check->package->hparams, expected->out), &tensor);
    return r ? r : check_vector(check, tensor);
}

/* Compares exact counts, divided once; the tolerance is for other writers. */
static int check_average(const PackageCheck *check) {
    double average = check->n_weights ? (double)check->n_weight_bits / (double)check->n_weights : 0;

    if (!(fabs((double)check->package->quant.bits - average) <= 1e-4))
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: key '%s' is %g, the widths of the channels average %g",
                       gguf_path(check->package->file), PACKAGE_KEY_BITS, (double)check->package->quant.bits, average);
    return 0;
}

int package_check_tensors(PackageCheck *check) {
    Package *package = check->package;
    int r;

    package->linears = calloc(check->names->n + 1, sizeof(*package->linears));
    package->names = calloc(check->names->n + 1, sizeof(*package->names));
    package->widths = calloc(check->names->n + 1, sizeof(*package->widths));
    package->by_tensor = calloc(gguf_n_tensors(package->file) + 1, sizeof(*package->by_tensor));
    if (!package->linears || !package->names || !package->widths || !package->by_tensor)
        return err_set(check->err, -ENOMEM, "%s: out of memory for %" PRIu64 " linears", gguf_path(package->file),
                       check->names->n);
    r = hparams_each_tensor(&package->hparams, check_tensor, check);
    if (r)
        return r;
    if (package->n_linears != check->names->n)
        return err_set(check->err, PACKAGE_E_CORRUPT,
                       "%s: key '%s' has %" PRIu64 " elements, the architecture has %zu linears",
                       gguf_path(package->file), PACKAGE_KEY_LINEAR_NAMES, check->names->n, package->n_linears);
    if (check->n_tensors_known != gguf_n_tensors(package->file))
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: %zu tensors, the architecture has %zu",
                       gguf_path(package->file), gguf_n_tensors(package->file), check->n_tensors_known);
    r = package_check_operators(check);
    return r ? r : check_average(check);
}
