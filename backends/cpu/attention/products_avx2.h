// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/attention/products_pairs.h"
