// SPDX-License-Identifier: Apache-2.0
#define EXP_ROW_NAME exp_row__avx2
#define EXP_ROW_NEED CPU_AVX2
#include "backends/numeric/exp_row_impl.h"
