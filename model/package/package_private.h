// SPDX-License-Identifier: Apache-2.0
/* The object behind Package, for the modules that fill and read it. */
#ifndef COORDGEN_MODEL_PACKAGE_PRIVATE_H
#define COORDGEN_MODEL_PACKAGE_PRIVATE_H

#include "model/gguf/gguf.h"
#include "model/hparams/hparams.h"
#include "model/package/package_format.h"

typedef struct Package {
    GgufFile *file;
    int fd; /* -1: none */
    Hparams hparams;
    char source_sha256[65];
    PackageQuant quant;
    size_t n_linears;
    PackageLinear *linears;
    char (*names)[GGUF_TENSOR_NAME_MAX]; /* [n_linears] */
    int8_t **widths;                     /* [n_widths]: widths of the channels of each linear; copies */
    size_t n_widths;
    uint32_t *hot;       /* hot channels of all linears, one after the other */
    uint32_t *by_tensor; /* [n_tensors]: index + 1 of the linear whose weight the tensor is, or 0 */
} Package;

#endif
