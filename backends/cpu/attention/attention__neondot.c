// SPDX-License-Identifier: Apache-2.0
#define LANES_NEON
#define ATTENTION_NAME attention__neondot
#define ATTENTION_NEED (CPU_NEON | CPU_NEONDOT)
#include "backends/cpu/attention/products_neondot.h"

#include "backends/cpu/attention/attention_impl.h"
