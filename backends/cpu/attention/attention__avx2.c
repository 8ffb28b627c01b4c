// SPDX-License-Identifier: Apache-2.0
#define ATTENTION_NAME attention__avx2
#define ATTENTION_NEED CPU_AVX2
#include "backends/cpu/attention/products_avx2.h"

#include "backends/cpu/attention/attention_impl.h"
