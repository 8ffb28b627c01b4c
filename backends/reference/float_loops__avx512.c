// SPDX-License-Identifier: Apache-2.0
#define FLOAT_LOOPS_NAME float_loops__avx512
#define FLOAT_LOOPS_TEXT "float_loops__avx512"
#define FLOAT_LOOPS_NEED (CPU_AVX2 | CPU_AVX512)
#include "backends/reference/float_loops_impl.h"
