// SPDX-License-Identifier: Apache-2.0
#define INT8_PRODUCT_NAME int8_product__neondot
#include "backends/cpu/int8/int8_product_neon_impl.h"
