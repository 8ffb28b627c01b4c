// SPDX-License-Identifier: Apache-2.0
/* The plan of a package: what every tensor of the source becomes, and its place in the file. */
#ifndef COORDGEN_IMPORTER_IMPORT_PLAN_H
#define COORDGEN_IMPORTER_IMPORT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "importer/import_model.h"
#include "importer/files/import_source.h"
#include "model/gguf/gguf_writer.h"

/* A tensor of the source and its place in the package. */
typedef struct ImportTensor {
    ImportLinear *linear; /* or: */
    ImportVector *vector;
    const GgufTensor *source;
    size_t layer;                        /* index of its ImportLayer */
    char name[GGUF_TENSOR_NAME_MAX + 8]; /* name of a linear, without ".weight" */
    bool packed;
    uint64_t offset, weight_bytes; /* of the weight or vector */
    uint64_t scales_offset, bits_offset;
    uint64_t columns_offset; /* for an operator with a shadow, else 0 */
} ImportTensor;

typedef struct ImportPlan {
    const ImportSource *source;
    ImportTensor *tensors; /* [n_tensors], in the order of the package */
    size_t n_tensors;
    GgufTensor *sources; /* [n_tensors], tensors of the source, or rows of them */
    ImportLayer *layers; /* [n_layers]: the first one holds the tensors outside the layers */
    size_t n_layers;
    ImportLinear *linears; /* [n_linears], by layers */
    size_t n_linears;
    ImportVector *vectors;
    int8_t *bits; /* [n_channels], of all linears in their order */
    size_t n_channels;
    ImportOperator *operators; /* [n_operators], with static activations only */
    size_t n_operators;
    uint8_t *is_hot; /* [n_inputs], of all operators in their order */
    size_t n_inputs;
    uint64_t *layer_bytes; /* [n_layers], bytes of the source's tensors */
    uint64_t total_bytes;
    GgufWriter *writer;     /* after import_plan_layout() */
    uint64_t package_bytes; /* likewise */
    double bits_made;       /* after import_plan_layout(): average width of the layers' weights */
} ImportPlan;

int import_plan_make(ImportPlan *plan, const ImportSource *source, const QuantRecipe *recipe, ErrText *err);
void import_plan_deinit(ImportPlan *plan);
/* Gives the smallest size that the package can have, before its widths are known. */
uint64_t import_plan_least_bytes(const ImportPlan *plan, const QuantRecipe *recipe);
/* Computes head and offsets for the widths as they stand; may be called again. calibration_sha256 "": none. */
int import_plan_layout(ImportPlan *plan, const QuantRecipe *recipe, const char *source_sha256,
                       const char *calibration_sha256, ErrText *err);

#endif
