// SPDX-License-Identifier: Apache-2.0
/* Checks of static activations (llm.npu 3.3): one scale for the inputs of an operator, and its outliers. */
#ifndef COORDGEN_MODEL_PACKAGE_ACTIVATIONS_H
#define COORDGEN_MODEL_PACKAGE_ACTIVATIONS_H

#include "model/package/package_check.h"

int package_check_activation_mode(const PackageCheck *check);
/* Checks the parallel arrays, which have check->names->n elements; mode static-tensor only. */
int package_check_activation_arrays(PackageCheck *check);
/* Fills linear->activations; called in file order. */
int package_check_activations(PackageCheck *check, size_t index, PackageLinear *linear, bool is_embedding);
/* Checks the operators; called when all linears are there. */
int package_check_operators(const PackageCheck *check);

#endif
