// SPDX-License-Identifier: Apache-2.0
#define TOP_ROW_NAME top_row__avx512
#define TOP_ROW_NEED (CPU_AVX2 | CPU_AVX512)
#include "backends/numeric/top_row_impl.h"
