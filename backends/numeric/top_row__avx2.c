// SPDX-License-Identifier: Apache-2.0
#define TOP_ROW_NAME top_row__avx2
#define TOP_ROW_NEED CPU_AVX2
#include "backends/numeric/top_row_impl.h"
