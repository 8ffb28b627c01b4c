// SPDX-License-Identifier: Apache-2.0
#ifndef COORDGEN_TEST_UNIT_INT8_PRODUCT_AMX_MODEL_H
#define COORDGEN_TEST_UNIT_INT8_PRODUCT_AMX_MODEL_H

#include "backends/cpu/int8/int8_product.h"

/* The AMX kernel on a portable model of the tile instructions; on x86-64 it needs nothing. */
extern const Int8ProductKernel int8_product_amx_model;

#endif
