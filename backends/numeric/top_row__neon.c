// SPDX-License-Identifier: Apache-2.0
#define LANES_NEON
#define TOP_ROW_NAME top_row__neon
#define TOP_ROW_NEED CPU_NEON
#include "backends/numeric/top_row_impl.h"
