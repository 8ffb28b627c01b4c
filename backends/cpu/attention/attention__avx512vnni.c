// SPDX-License-Identifier: Apache-2.0
#define ATTENTION_NAME attention__avx512vnni
#define ATTENTION_NEED (CPU_AVX2 | CPU_AVX512 | CPU_AVX512VNNI)
#include "backends/cpu/attention/products_avx512vnni.h"

#include "backends/cpu/attention/attention_impl.h"
