// SPDX-License-Identifier: Apache-2.0
/* Tensors of a source file, and the places of an architecture's roles in them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/hparams/hparams.h"

static int each_of(const ArchTensors *of, int layer, HparamsTensorFn *fn, void *arg) {
    for (size_t i = 0; i < of->n; i++) {
        int r = fn(arg, &of->tensors[i], layer);

        if (r)
            return r;
    }
    return 0;
}

int hparams_each_tensor(const Hparams *hparams, HparamsTensorFn *fn, void *arg) {
    const Arch *arch = hparams->arch;
    int r;

    r = each_of(&arch->first, -1, fn, arg);
    for (uint32_t layer = 0; !r && layer < hparams->n_layers; layer++)
        r = each_of(&arch->layer, (int)layer, fn, arg);
    return r ? r : each_of(&arch->last, -1, fn, arg);
}

/* --- tensors of which several share one --------------------------------------------------------------------------- */

static const ArchTensor *tensor_of(const ArchTensors *of, TensorRole role) {
    for (size_t i = 0; i < of->n; i++)
        if (of->tensors[i].role == role)
            return &of->tensors[i];
    return NULL;
}

static const char *fused_name(const ArchFused *fused, int layer, char name[GGUF_TENSOR_NAME_MAX]) {
    snprintf(name, GGUF_TENSOR_NAME_MAX, "blk.%d.%s", layer, fused->name);
    return name;
}

/* Rows of a matrix, elements of a vector. */
static uint64_t rows_of(const Hparams *hparams, const ArchTensor *expected) {
    return hparams_dim(hparams, expected->out == DIM_NONE ? expected->in : expected->out);
}

/* Finds the tensor that holds the rows of this one and others in this file; NULL: none does. */
static const GgufTensor *find_fused(const Hparams *hparams, const GgufFile *file, TensorRole role, int layer,
                                    const ArchFused **fusedp) {
    const Arch *arch = hparams->arch;
    char name[GGUF_TENSOR_NAME_MAX];

    for (size_t i = 0; layer >= 0 && i < arch->n_fused; i++) {
        const ArchFused *fused = &arch->fused[i];

        for (size_t part = 0; part < fused->n; part++)
            if (fused->parts[part] == role) {
                *fusedp = fused;
                return gguf_tensor(file, tensor_name(fused->parts[0], layer, name, sizeof(name)))
                           ? NULL
                           : gguf_tensor(file, fused_name(fused, layer, name));
            }
    }
    return NULL;
}

/* Counts the rows of the role's parts before it, and of all parts. */
static uint64_t fused_rows(const Hparams *hparams, const ArchFused *fused, TensorRole role, uint64_t *firstp) {
    uint64_t n = 0;

    for (size_t part = 0; part < fused->n; part++) {
        if (fused->parts[part] == role)
            *firstp = n;
        n += rows_of(hparams, tensor_of(&hparams->arch->layer, fused->parts[part]));
    }
    return n;
}

/* Whether the tensor has the rows of all its parts, and can be cut between them. */
static bool can_be_cut(const Hparams *hparams, const GgufTensor *tensor, const ArchTensor *expected, uint64_t n_rows) {
    const bool is_vector = expected->out == DIM_NONE;
    uint32_t block_values, block_bytes;

    if (!ggml_type_block(tensor->type, &block_values, &block_bytes) || (is_vector && block_values > 1))
        return false;
    return tensor->ne[is_vector ? 0 : 1] == n_rows &&
           tensor->ne[is_vector ? 1 : 0] == (is_vector ? 1 : hparams_dim(hparams, expected->in)) &&
           tensor->ne[2] == 1 && tensor->ne[3] == 1 && tensor->len_bytes % n_rows == 0;
}

bool hparams_tensor(const Hparams *hparams, const GgufFile *file, const ArchTensor *expected, int layer,
                    GgufTensor *tensor) {
    const ArchFused *fused = NULL;
    const GgufTensor *whole = find_fused(hparams, file, expected->role, layer, &fused);
    const bool is_vector = expected->out == DIM_NONE;
    uint64_t first = 0, n_rows, row_bytes;
    char name[GGUF_TENSOR_NAME_MAX];

    if (!whole) {
        whole = gguf_tensor(file, tensor_name(expected->role, layer, name, sizeof(name)));
        if (whole)
            *tensor = *whole;
        return whole;
    }
    n_rows = fused_rows(hparams, fused, expected->role, &first);
    if (!can_be_cut(hparams, whole, expected, n_rows))
        return false;
    row_bytes = whole->len_bytes / n_rows;
    *tensor = *whole;
    tensor_name(expected->role, layer, tensor->name, sizeof(tensor->name));
    tensor->ne[is_vector ? 0 : 1] = rows_of(hparams, expected);
    tensor->offset_bytes += first * row_bytes;
    tensor->data += first * row_bytes;
    tensor->len_bytes = rows_of(hparams, expected) * row_bytes;
    return true;
}

/* --- checking a source -------------------------------------------------------------------------------------------- */

typedef struct TensorCheck {
    const Hparams *hparams;
    const GgufFile *file;
    ErrText *err;
} TensorCheck;

static int wrong_shape(const TensorCheck *check, const GgufTensor *tensor, uint64_t in, uint64_t out) {
    return err_set(check->err, HPARAMS_E_CORRUPT,
                   "%s: tensor '%s' is %" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64
                   ", but the metadata asks for %" PRIu64 " x %" PRIu64,
                   gguf_path(check->file), tensor->name, tensor->ne[0], tensor->ne[1], tensor->ne[2], tensor->ne[3], in,
                   out);
}

/* Checks a tensor that stands for several: all of them must be in it. */
static int check_fused(const TensorCheck *check, const ArchTensor *expected, int layer) {
    const uint64_t in = hparams_dim(check->hparams, expected->in);
    const ArchFused *fused = NULL;
    const GgufTensor *whole = find_fused(check->hparams, check->file, expected->role, layer, &fused);
    uint64_t first = 0, n_rows;

    if (!whole)
        return 0;
    n_rows = fused_rows(check->hparams, fused, expected->role, &first);
    if (can_be_cut(check->hparams, whole, expected, n_rows))
        return 0;
    return expected->out == DIM_NONE ? wrong_shape(check, whole, n_rows, 1) : wrong_shape(check, whole, in, n_rows);
}

static int check_tensor(void *arg, const ArchTensor *expected, int layer) {
    const TensorCheck *check = arg;
    uint64_t in = hparams_dim(check->hparams, expected->in), out = hparams_dim(check->hparams, expected->out);
    GgufTensor tensor;
    char name[GGUF_TENSOR_NAME_MAX];
    int r = check_fused(check, expected, layer);

    if (r)
        return r;
    if (!hparams_tensor(check->hparams, check->file, expected, layer, &tensor)) {
        if (expected->optional)
            return 0;
        return err_set(check->err, HPARAMS_E_CORRUPT, "%s: tensor '%s' is missing", gguf_path(check->file),
                       tensor_name(expected->role, layer, name, sizeof(name)));
    }
    if (tensor.ne[0] != in || tensor.ne[1] != out || tensor.ne[2] != 1 || tensor.ne[3] != 1)
        return wrong_shape(check, &tensor, in, out);
    if (!ggml_type_dequantizable(tensor.type))
        return err_set(check->err, HPARAMS_E_UNSUPPORTED, "%s: tensor '%s' has type %s, which is not supported",
                       gguf_path(check->file), tensor.name,
                       ggml_type_name(tensor.type) ? ggml_type_name(tensor.type) : "?");
    return 0;
}

static bool is_one_of(const ArchTensors *of, int layer, const char *name) {
    char known[GGUF_TENSOR_NAME_MAX];

    for (size_t i = 0; i < of->n; i++)
        if (!strcmp(name, tensor_name(of->tensors[i].role, layer, known, sizeof(known))))
            return true;
    return false;
}

/* Whether the tensor stands for others that are missing. */
static bool is_fused(const TensorCheck *check, int layer, const char *name) {
    const Arch *arch = check->hparams->arch;
    char known[GGUF_TENSOR_NAME_MAX];

    for (size_t i = 0; i < arch->n_fused; i++)
        if (!strcmp(name, fused_name(&arch->fused[i], layer, known)) &&
            !gguf_tensor(check->file, tensor_name(arch->fused[i].parts[0], layer, known, sizeof(known))))
            return true;
    return false;
}

static bool is_known(const TensorCheck *check, const char *name) {
    const Arch *arch = check->hparams->arch;
    unsigned long layer;

    if (strncmp(name, "blk.", 4))
        return is_one_of(&arch->first, -1, name) || is_one_of(&arch->last, -1, name);
    layer = strtoul(name + 4, NULL, 10);
    return layer < check->hparams->n_layers &&
           (is_one_of(&arch->layer, (int)layer, name) || is_fused(check, (int)layer, name));
}

bool hparams_has_tensor(const Hparams *hparams, const GgufFile *file, const char *name) {
    return is_known(&(TensorCheck){ .hparams = hparams, .file = file }, name);
}

/* Checks the tensors of a source GGUF; a package checks its own. Return: 0, HPARAMS_E_CORRUPT,
 * HPARAMS_E_UNSUPPORTED. */
int hparams_check_tensors(const Hparams *hparams, const GgufFile *file, ErrText *err) {
    TensorCheck check = { .hparams = hparams, .file = file, .err = err };
    int r;

    r = hparams_each_tensor(hparams, check_tensor, &check);
    if (r)
        return r;
    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        const GgufTensor *tensor = gguf_tensor_at(file, i);

        if (!is_known(&check, tensor->name))
            return err_set(err, HPARAMS_E_UNSUPPORTED,
                           "%s: tensor '%s' is not part of the %s architecture as it is supported here",
                           gguf_path(file), tensor->name, hparams->arch->name);
    }
    return 0;
}
