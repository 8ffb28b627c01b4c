// SPDX-License-Identifier: Apache-2.0
#define ROW_OPS_NAME row_ops__scalar
#define ROW_OPS_NEED 0
#include "backends/cpu/rows/row_ops_impl.h"
