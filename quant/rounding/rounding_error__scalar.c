// SPDX-License-Identifier: Apache-2.0
#define ROUNDING_ERROR_NAME rounding_error__scalar
#include "quant/rounding/rounding_error_impl.h"
