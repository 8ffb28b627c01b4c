// SPDX-License-Identifier: Apache-2.0
#define ROUNDING_ERROR_NAME rounding_error__avx512
#include "quant/rounding/rounding_error_impl.h"
