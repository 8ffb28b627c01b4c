// SPDX-License-Identifier: Apache-2.0
#define ATTENTION_NAME attention__scalar
#define ATTENTION_NEED 0
#include "backends/cpu/attention/products_scalar.h"

#include "backends/cpu/attention/attention_impl.h"
