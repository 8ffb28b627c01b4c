// SPDX-License-Identifier: Apache-2.0
#define ROW_OPS_NAME row_ops__avx2
#define ROW_OPS_NEED CPU_AVX2
#include "backends/cpu/rows/row_ops_impl.h"
