// SPDX-License-Identifier: Apache-2.0
#define ROUNDING_ERROR_NAME rounding_error__avx2
#include "quant/rounding/rounding_error_impl.h"
