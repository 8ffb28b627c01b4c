// SPDX-License-Identifier: Apache-2.0
#define PACKED_PRODUCT_NAME packed_product__avx512vnnivbmi
#include "backends/cpu/packed/packed_product_avx512_impl.h"
