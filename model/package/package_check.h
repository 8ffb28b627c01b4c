// SPDX-License-Identifier: Apache-2.0
/* State of the checks of a package that is opened, and the helpers that the checks share. */
#ifndef COORDGEN_MODEL_PACKAGE_CHECK_H
#define COORDGEN_MODEL_PACKAGE_CHECK_H

#include "model/package/package_private.h"

typedef struct PackageCheck {
    Package *package;
    ErrText *err;
    const GgufArray *names, *layouts, *rotation_blocks, *activations;
    const GgufArray *activation_scales, *outliers, *importance, *hot_counts,
        *hot_channels; /* mode static-tensor only */
    uint64_t n_hot;    /* hot channels of the linears so far */
    size_t n_tensors_known;
    uint64_t n_weights, n_weight_bits; /* of the layers' linears */
} PackageCheck;

/* Turns GGUF_E_* of a key into PACKAGE_E_CORRUPT; a negative errno stays. */
int package_key_error(int r);
typedef enum PackageList {
    PACKAGE_LIST_STRINGS,
    PACKAGE_LIST_COUNTS,  /* 0 to UINT32_MAX */
    PACKAGE_LIST_NUMBERS, /* f32 */
} PackageList;
/* Gets a list that has an element for each linear. 0, PACKAGE_E_CORRUPT. */
int package_get_list(const PackageCheck *check, const char *key, PackageList type, const GgufArray **arrayp);
bool package_string_is(GgufString string, const char *text);
/* Finds a tensor, checks its type and shape, and counts it as known. 0, PACKAGE_E_CORRUPT. */
int package_find_tensor(PackageCheck *check, const char *name, uint32_t type, uint64_t ne0, uint64_t ne1,
                        const GgufTensor **tensorp);

#endif
