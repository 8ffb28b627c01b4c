// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "model/package/package_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory/page_size.h"
#include "base/strings/printable.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"
#include "quant/rotate.h"

Package *package_free(Package *package) {
    if (!package)
        return NULL;
    gguf_free(package->file);
    if (package->fd >= 0)
        close(package->fd);
    for (size_t i = 0; package->widths && i < package->n_widths; i++)
        free(package->widths[i]);
    free(package->widths);
    free(package->linears);
    free(package->names);
    free(package->hot);
    free(package->by_tensor);
    free(package);
    return NULL;
}

bool package_is(const GgufFile *file) {
    return gguf_key(file, PACKAGE_KEY_FORMAT_VERSION);
}

/* --- checks ------------------------------------------------------------------------------------------------------- */

/* GGUF_E_* of a key as this module's condition. */
int package_key_error(int r) {
    return r < 0 ? r : PACKAGE_E_CORRUPT;
}

int package_get_list(const PackageCheck *check, const char *key, PackageList type, const GgufArray **arrayp) {
    const GgufFile *file = check->package->file;
    int r;

    if (type == PACKAGE_LIST_STRINGS)
        r = gguf_get_strings(file, key, arrayp, check->err);
    else if (type == PACKAGE_LIST_COUNTS)
        r = gguf_get_integers(file, key, 0, UINT32_MAX, arrayp, check->err);
    else
        r = gguf_get_numbers(file, key, arrayp, check->err);
    if (r)
        return package_key_error(r);
    if ((*arrayp)->n != check->names->n)
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: key '%s' has %" PRIu64 " elements, '%s' has %" PRIu64,
                       gguf_path(file), key, (*arrayp)->n, PACKAGE_KEY_LINEAR_NAMES, check->names->n);
    return 0;
}

bool package_string_is(GgufString string, const char *text) {
    return string.len_bytes == strlen(text) && !memcmp(string.data, text, string.len_bytes);
}

static int get_sha256(const PackageCheck *check, const char *key, char sha256[65]) {
    const GgufFile *file = check->package->file;
    GgufString value;
    int r;

    r = gguf_get_string(file, key, &value, check->err);
    if (r)
        return package_key_error(r);
    if (value.len_bytes != 64 || strspn(memcpy(sha256, value.data, 64), "0123456789abcdef") != 64)
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: key '%s' is not a SHA-256 of 64 hex digits", gguf_path(file),
                       key);
    return 0;
}

/* An average width. */
static int get_bits(const PackageCheck *check, const char *key, float *bitsp) {
    const GgufFile *file = check->package->file;
    int r;

    r = gguf_get_f32(file, key, bitsp, check->err);
    if (r)
        return package_key_error(r);
    if (!(*bitsp >= GRID_BITS_MIN && *bitsp <= GRID_BITS_MAX))
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: key '%s' is %g: 1 to 8 bits are possible", gguf_path(file),
                       key, (double)*bitsp);
    return 0;
}

static int check_recipe(const PackageCheck *check) {
    PackageQuant *quant = &check->package->quant;
    const GgufFile *file = check->package->file;
    const GgufArray *steps;
    GgufString recipe;
    int r;

    if ((r = gguf_get_string(file, PACKAGE_KEY_RECIPE, &recipe, check->err)) ||
        (r = gguf_get_strings(file, PACKAGE_KEY_STEPS, &steps, check->err)) ||
        (r = gguf_get_bool(file, PACKAGE_KEY_ROTATED, &quant->rotated, check->err)) ||
        (r = gguf_get_u32(file, PACKAGE_KEY_EMBEDDING_BITS, &quant->embedding_bits, check->err)))
        return package_key_error(r);
    /* Whatever made the integers, they are used alike: an unknown recipe is no reason to refuse. */
    if (!recipe.len_bytes || recipe.len_bytes >= sizeof(quant->recipe) || memchr(recipe.data, 0, recipe.len_bytes))
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: key '%s' has %zu bytes: a name of 1 to %zu is needed",
                       gguf_path(file), PACKAGE_KEY_RECIPE, recipe.len_bytes, sizeof(quant->recipe) - 1);
    memcpy(quant->recipe, recipe.data, recipe.len_bytes);
    quant->steps = steps->strings;
    quant->n_steps = (size_t)steps->n;
    if (quant->embedding_bits < GRID_BITS_MIN || quant->embedding_bits > GRID_BITS_MAX)
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: key '%s' is %u: 1 to 8 bits are possible", gguf_path(file),
                       PACKAGE_KEY_EMBEDDING_BITS, quant->embedding_bits);
    r = get_bits(check, PACKAGE_KEY_BITS, &quant->bits);
    if (!r)
        r = get_bits(check, PACKAGE_KEY_BITS_ASKED, &quant->bits_asked);
    if (!r && gguf_key(file, PACKAGE_KEY_CALIBRATION))
        r = get_sha256(check, PACKAGE_KEY_CALIBRATION, quant->calibration_sha256);
    if (!r && gguf_key(file, PACKAGE_KEY_BUDGET)) {
        r = gguf_get_u64(file, PACKAGE_KEY_BUDGET, &quant->budget_bytes, check->err);
        r = r ? package_key_error(r) : 0;
    }
    if (!r && gguf_key(file, PACKAGE_KEY_IMPORT_REVISION)) {
        r = gguf_get_u32(file, PACKAGE_KEY_IMPORT_REVISION, &quant->import_revision, check->err);
        r = r ? package_key_error(r) : 0;
    }
    return r;
}

static int check_keys(PackageCheck *check) {
    Package *package = check->package;
    const GgufFile *file = package->file;
    uint32_t version;
    int r;

    if (!package_is(file))
        return err_set(check->err, PACKAGE_E_NOT_PACKAGE,
                       "%s: a GGUF file, but not a model package: import it first (coordgenctl "
                       "model import)",
                       gguf_path(file));
    r = gguf_get_u32(file, PACKAGE_KEY_FORMAT_VERSION, &version, check->err);
    if (r)
        return package_key_error(r);
    if (version != PACKAGE_FORMAT_VERSION)
        return err_set(
            check->err, PACKAGE_E_UNSUPPORTED,
            "%s: package format version %u, this program reads %d: import the model again (coordgenctl model import)",
            gguf_path(file), version, PACKAGE_FORMAT_VERSION);
    if (gguf_alignment(file) != PACKAGE_ALIGNMENT)
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: key 'general.alignment' is %u, a package has %d",
                       gguf_path(file), gguf_alignment(file), PACKAGE_ALIGNMENT);
    r = get_sha256(check, PACKAGE_KEY_SOURCE_SHA256, package->source_sha256);
    if (!r)
        r = check_recipe(check);
    return r ? r : package_check_activation_mode(check);
}

static int check_arrays(PackageCheck *check) {
    const struct {
        const char *key;
        PackageList type;
        const GgufArray **arrayp;
    } arrays[] = {
        { PACKAGE_KEY_LINEAR_NAMES, PACKAGE_LIST_STRINGS, &check->names },
        { PACKAGE_KEY_LINEAR_LAYOUTS, PACKAGE_LIST_STRINGS, &check->layouts },
        { PACKAGE_KEY_LINEAR_ROTATIONS, PACKAGE_LIST_COUNTS, &check->rotation_blocks },
        { PACKAGE_KEY_LINEAR_ACTIVATIONS, PACKAGE_LIST_STRINGS, &check->activations },
    };
    int r;

    for (size_t i = 0; i < ARRAY_LEN(arrays); i++) {
        r = package_get_list(check, arrays[i].key, arrays[i].type, arrays[i].arrayp);
        if (r)
            return r;
    }
    if (check->names->n > gguf_n_tensors(check->package->file))
        return err_set(check->err, PACKAGE_E_CORRUPT,
                       "%s: key '%s' names %" PRIu64 " linears, the file has %zu tensors",
                       gguf_path(check->package->file), PACKAGE_KEY_LINEAR_NAMES, check->names->n,
                       gguf_n_tensors(check->package->file));
    return check->package->quant.static_activations ? package_check_activation_arrays(check) : 0;
}

int package_find_tensor(PackageCheck *check, const char *name, uint32_t type, uint64_t ne0, uint64_t ne1,
                        const GgufTensor **tensorp) {
    const GgufTensor *tensor = gguf_tensor(check->package->file, name);
    const char *path = gguf_path(check->package->file);

    if (!tensor)
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: tensor '%s' is missing", path, name);
    if (tensor->type != type)
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: tensor '%s' has type %s, a package has %s there", path, name,
                       ggml_type_name(tensor->type), ggml_type_name(type));
    if (tensor->ne[0] != ne0 || tensor->ne[1] != ne1 || tensor->ne[2] != 1 || tensor->ne[3] != 1)
        return err_set(check->err, PACKAGE_E_CORRUPT,
                       "%s: tensor '%s' is %" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64
                       ", the metadata asks for %" PRIu64 " x %" PRIu64,
                       path, name, tensor->ne[0], tensor->ne[1], tensor->ne[2], tensor->ne[3], ne0, ne1);
    check->n_tensors_known++;
    *tensorp = tensor;
    return 0;
}

/* Any number of bytes: check_packed() compares it with the widths. */
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

/* embedding_bits: the width that all channels must have, 0: each its own. */
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

/* As many bytes as the widths ask for, which were checked. */
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

/* The plan of a matrix goes by them whenever it is made, and others may write to the file meanwhile. */
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

/* Counts are exact, and one division rounds alike everywhere; the tolerance is for other writers. */
static int check_average(const PackageCheck *check) {
    double average = check->n_weights ? (double)check->n_weight_bits / (double)check->n_weights : 0;

    if (!(fabs((double)check->package->quant.bits - average) <= 1e-4))
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: key '%s' is %g, the widths of the channels average %g",
                       gguf_path(check->package->file), PACKAGE_KEY_BITS, (double)check->package->quant.bits, average);
    return 0;
}

static int check_all_tensors(PackageCheck *check) {
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

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* Scales, widths and vectors; not weights and columns. */
static bool is_checked(const GgufTensor *tensor) {
    const char *last_part = strrchr(tensor->name, '.');

    return tensor->type == GGML_F32 || (last_part && !strcmp(last_part, ".bits"));
}

/* The checks read a few per cent of the file, here and there. What they will read is asked for at once; beyond that a
 * page that is touched brings no neighbours, which are mostly weights, and those are not read through the map. Advice:
 * nothing depends on it. */
static void ask_for_small_tensors(const Package *package) {
    const GgufFile *file = package->file;
    const size_t n = gguf_n_tensors(file);
    uint64_t begin = 0, end = 0, data_begin = gguf_len_bytes(file);

    for (size_t i = 0; i < n; i++)
        if (gguf_tensor_at(file, i)->offset_bytes < data_begin)
            data_begin = gguf_tensor_at(file, i)->offset_bytes;
    data_begin = page_round_down(data_begin);
    if (data_begin < gguf_len_bytes(file))
        (void)madvise((uint8_t *)gguf_data(file) + data_begin, (size_t)(gguf_len_bytes(file) - data_begin),
                      MADV_RANDOM);
    (void)posix_fadvise(package->fd, 0, 0, POSIX_FADV_RANDOM); /* likewise: columns, and page_cache_holds() */
    for (size_t i = 0; i <= n; i++) {
        const GgufTensor *tensor = i < n ? gguf_tensor_at(file, i) : NULL;
        const bool is_small = tensor && is_checked(tensor);

        if (is_small && begin < end && tensor->offset_bytes >= end && tensor->offset_bytes - end < PACKAGE_ALIGNMENT) {
            end = tensor->offset_bytes + tensor->len_bytes;
            continue;
        }
        if (begin < end)
            (void)posix_fadvise(package->fd, (off_t)begin, (off_t)(end - begin), POSIX_FADV_WILLNEED);
        begin = is_small ? tensor->offset_bytes : 0;
        end = is_small ? tensor->offset_bytes + tensor->len_bytes : 0;
    }
}

/* --- object ------------------------------------------------------------------------------------------------------- */

static int check(Package *package, ErrText *err) {
    PackageCheck check = { .package = package, .err = err };
    int r;

    r = check_keys(&check);
    if (r)
        return r;
    r = hparams_read(&package->hparams, package->file, err);
    if (r)
        return r == HPARAMS_E_UNSUPPORTED ? PACKAGE_E_UNSUPPORTED
               : r == HPARAMS_E_CORRUPT   ? PACKAGE_E_CORRUPT
                                          : err_fold(r);
    r = check_arrays(&check);
    return r ? r : check_all_tensors(&check);
}

/* Takes file and fd over, also when it fails. */
static int package_new(Package **packagep, GgufFile *file, int fd, ErrText *err) {
    _cleanup_(gguf_freep) GgufFile *owned = file;
    _cleanup_(closep) int owned_fd = fd;
    _cleanup_(package_freep) Package *package = calloc(1, sizeof(*package));
    int r;

    if (!package)
        return err_set(err, -ENOMEM, "%s: out of memory", gguf_path(file));
    package->file = steal(&owned);
    package->fd = owned_fd;
    owned_fd = -1;
    if (package->fd >= 0)
        ask_for_small_tensors(package);
    r = check(package, err);
    if (gguf_check_whole(file, err)) /* what was wrong was not in the file */
        return PACKAGE_E_CORRUPT;
    if (r)
        return r;
    *packagep = steal(&package);
    return 0;
}

static int gguf_error(int r) {
    return r == GGUF_E_UNSUPPORTED ? PACKAGE_E_UNSUPPORTED : r == GGUF_E_CORRUPT ? PACKAGE_E_CORRUPT : err_fold(r);
}

/* Takes fd over, also when it fails. */
static int open_taken(Package **packagep, int fd, const char *name, ErrText *err) {
    _cleanup_(closep) int owned_fd = fd;
    GgufFile *file = NULL;
    int r;

    r = gguf_open_fd(&file, fd, name, err);
    return r ? gguf_error(r) : package_new(packagep, file, steal_fd(&owned_fd), err);
}

/**
 * package_open() - map a package and check it
 *
 * Everything but the integers of the weights is checked: keys, the parallel arrays, every tensor's presence, type and
 * shape against the architecture, scales, widths, the bytes that the widths ask for, their average, and vectors. Reads
 * some percent of the file at most.
 *
 * Thread: any. Return: 0, PACKAGE_E_*, or -errno; the text names the file and what is wrong.
 */
int package_open(Package **packagep, const char *path, ErrText *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    return fd < 0 ? err_set(err, -errno, "%s: %s", path, strerror(errno)) : open_taken(packagep, fd, path, err);
}

int package_open_fd(Package **packagep, int fd, const char *name, ErrText *err) {
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    return own < 0 ? err_set(err, -errno, "%s: %s", name, strerror(errno)) : open_taken(packagep, own, name, err);
}

int package_parse(Package **packagep, const void *data, size_t len_bytes, const char *name, ErrText *err) {
    GgufFile *file = NULL;
    int r;

    if ((uintptr_t)data % PACKAGE_ALIGNMENT)
        return err_set(err, -EINVAL, "%s: package memory must be aligned to %d", name, PACKAGE_ALIGNMENT);
    r = gguf_parse(&file, data, len_bytes, name, err);
    return r ? gguf_error(r) : package_new(packagep, file, -1, err);
}

const GgufFile *package_file(const Package *package) {
    return package->file;
}

int package_fd(const Package *package) {
    return package->fd;
}

const Hparams *package_hparams(const Package *package) {
    return &package->hparams;
}

const char *package_source_sha256(const Package *package) {
    return package->source_sha256;
}

const PackageQuant *package_quant(const Package *package) {
    return &package->quant;
}

size_t package_n_linears(const Package *package) {
    return package->n_linears;
}

const PackageLinear *package_linear_at(const Package *package, size_t index) {
    return index < package->n_linears ? &package->linears[index] : NULL;
}

int package_linear(const Package *package, const char *weight_name, PackageLinear *linearp, ErrText *err) {
    const GgufTensor *tensor = gguf_tensor(package->file, weight_name);
    uint32_t slot = tensor ? package->by_tensor[tensor - gguf_tensor_at(package->file, 0)] : 0;
    Printable shown;

    if (!slot)
        return err_set(err, PACKAGE_E_CORRUPT, "%s: no linear '%s'", gguf_path(package->file),
                       printable(&shown, weight_name, strlen(weight_name)));
    *linearp = package->linears[slot - 1];
    return 0;
}
