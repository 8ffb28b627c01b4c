// SPDX-License-Identifier: Apache-2.0
#define LANES_NEON
#define EXP_ROW_NAME exp_row__neon
#define EXP_ROW_NEED CPU_NEON
#include "backends/numeric/exp_row_impl.h"
