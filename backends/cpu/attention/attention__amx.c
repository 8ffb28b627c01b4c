// SPDX-License-Identifier: Apache-2.0
#define ATTENTION_NAME attention__amx
#define ATTENTION_NEED (CPU_AVX2 | CPU_AVX512 | CPU_AVX512VNNI | CPU_AMX_INT8)
#define ATTENTION_BLOCK_SUMS tile_block

#include "backends/cpu/attention/attention.h"

/* Few row-heads are multiplied by VNNI, whose cache and weights are the same. */
#define ATTENTION_GROUP VNNI_GROUP
#define products_of_keys few_products_of_keys
#define products_of_values few_products_of_values
#include "backends/cpu/attention/products_avx512vnni.h"
#undef ATTENTION_GROUP
#undef products_of_keys
#undef products_of_values
#include "backends/cpu/attention/products_amx.h"

static void tile_block(const AttentionQueries *queries, size_t first, size_t n, const AttentionParts *parts,
                       const AttentionMask *masks, void *scratch, const AttentionSums *sums);

#include "backends/cpu/attention/attention_impl.h"

#include "backends/cpu/attention/attention_amx_impl.h"
