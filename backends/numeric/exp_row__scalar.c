// SPDX-License-Identifier: Apache-2.0
#define EXP_ROW_NAME exp_row__scalar
#define EXP_ROW_NEED 0
#include "backends/numeric/exp_row_impl.h"
