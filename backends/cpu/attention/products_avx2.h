// SPDX-License-Identifier: Apache-2.0
/* The two integer products of attention on AVX2: pairs of 16 bits. */
#ifndef COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_AVX2_H
#define COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_AVX2_H

#include "backends/cpu/attention/products_pairs.h"

#endif
