// SPDX-License-Identifier: Apache-2.0
#define LANES_NEON
#define ATTENTION_NAME attention__i8mm
#define ATTENTION_NEED (CPU_NEON | CPU_NEONDOT | CPU_I8MM)
#include "backends/cpu/attention/products_i8mm.h"

#include "backends/cpu/attention/attention_impl.h"
