// SPDX-License-Identifier: Apache-2.0
/* Inside of the package reader. package.c: keys, tensors, the object; package_activations.c: static activations. */
#ifndef COORDGEN_MODEL_PACKAGE_PRIVATE_H
#define COORDGEN_MODEL_PACKAGE_PRIVATE_H

#include "model/package/package.h"

struct Package {
    GgufFile *file;
    int fd; /* -1: none */
    Hparams hparams;
    char source_sha256[65];
    PackageQuant quant;
    size_t n_linears;
    PackageLinear *linears;
    char (*names)[GGUF_TENSOR_NAME_MAX]; /* [n_linears] */
    int8_t **widths;                     /* [n_widths] of the channels of each linear; copies */
    size_t n_widths;
    uint32_t *hot;       /* hot channels of all linears, one after the other */
    uint32_t *by_tensor; /* [n_tensors]: index + 1 of the linear whose weight the tensor is, or 0 */
};

typedef struct PackageCheck {
    Package *package;
    ErrText *err;
    const GgufArray *names, *layouts, *rotation_blocks, *activations;
    const GgufArray *activation_scales, *outliers, *importance, *hot_counts,
        *hot_channels; /* mode static-tensor only */
    uint64_t n_hot;    /* of the linears so far */
    size_t n_tensors_known;
    uint64_t n_weights, n_weight_bits; /* of the layers' linears */
} PackageCheck;

/* --- package.c ---------------------------------------------------------------------------------------------------- */

/* GGUF_E_* of a key as this module's condition. */
int package_key_error(int r);
typedef enum PackageList {
    PACKAGE_LIST_STRINGS,
    PACKAGE_LIST_COUNTS,  /* 0 to UINT32_MAX */
    PACKAGE_LIST_NUMBERS, /* f32 */
} PackageList;
/* Gets a list that has an element for each linear. 0, PACKAGE_E_CORRUPT. */
int package_get_list(const PackageCheck *check, const char *key, PackageList type, const GgufArray **arrayp);
bool package_string_is(GgufString string, const char *text);
/* Counts the tensor as known. */
int package_find_tensor(PackageCheck *check, const char *name, uint32_t type, uint64_t ne0, uint64_t ne1,
                        const GgufTensor **tensorp);

/* --- package_activations.c ---------------------------------------------------------------------------------------- */

int package_check_activation_mode(const PackageCheck *check);
/* The parallel arrays; their elements belong to check->names->n linears. Mode static-tensor only. */
int package_check_activation_arrays(PackageCheck *check);
/* Fills linear->activations; in file order. */
int package_check_activations(PackageCheck *check, size_t index, PackageLinear *linear, bool is_embedding);
/* When all linears are there. */
int package_check_operators(const PackageCheck *check);

#endif
