// SPDX-License-Identifier: Apache-2.0
#define UNPACK_TILE_NAME unpack_tile__avx512vbmi
#include "backends/cpu/packed/unpack_tile_avx512_impl.h"
