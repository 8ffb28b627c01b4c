// SPDX-License-Identifier: Apache-2.0
#define PACKED_PRODUCT_NAME packed_product__neondot
#include "backends/cpu/packed/packed_product_neon_impl.h"
