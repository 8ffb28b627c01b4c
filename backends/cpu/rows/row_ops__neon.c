// SPDX-License-Identifier: Apache-2.0
#define LANES_NEON
#define ROW_OPS_NAME row_ops__neon
#define ROW_OPS_NEED CPU_NEON
#include "backends/cpu/rows/row_ops_impl.h"
