#include "backends/cpu/amx_tile_model.h"
#include "backends/cpu/int8_product_amx_impl.h"

/* The source of int8_product__amx on the portable model of its instructions: for tests, on any machine. */
const Int8ProductKernel int8_product_amx_model = { .name = "int8_product__amx (tile model)",
                                                   .fn = int8_product_amx_body };
