// SPDX-License-Identifier: Apache-2.0
#define LANES_NEON
#define ATTENTION_NAME attention__neon
#define ATTENTION_NEED CPU_NEON
#include "backends/cpu/attention/products_neon.h"

#include "backends/cpu/attention/attention_impl.h"
