// SPDX-License-Identifier: Apache-2.0
#define TOP_ROW_NAME top_row__scalar
#define TOP_ROW_NEED 0
#include "backends/numeric/top_row_impl.h"
