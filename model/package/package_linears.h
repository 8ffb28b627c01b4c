// SPDX-License-Identifier: Apache-2.0
/* Checks of a package's tensors: linears with their scales and widths, and vectors. */
#ifndef COORDGEN_MODEL_PACKAGE_LINEARS_H
#define COORDGEN_MODEL_PACKAGE_LINEARS_H

#include "model/package/package_check.h"

/* Fills the package's linears, after the checks of keys and parallel arrays. 0, PACKAGE_E_*, -errno. */
int package_check_tensors(PackageCheck *check);

#endif
