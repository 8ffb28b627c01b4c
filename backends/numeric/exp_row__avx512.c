// SPDX-License-Identifier: Apache-2.0
#define EXP_ROW_NAME exp_row__avx512
#define EXP_ROW_NEED (CPU_AVX2 | CPU_AVX512)
#include "backends/numeric/exp_row_impl.h"
