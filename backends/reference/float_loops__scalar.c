// SPDX-License-Identifier: Apache-2.0
#define FLOAT_LOOPS_NAME float_loops__scalar
#define FLOAT_LOOPS_TEXT "float_loops__scalar"
#define FLOAT_LOOPS_NEED 0
#include "backends/reference/float_loops_impl.h"
