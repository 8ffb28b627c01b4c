// SPDX-License-Identifier: Apache-2.0
/* The block in three phases, for a device whose unit multiplies and whose processors make weights. Included by
 * attention_impl.h. All phases share one scratch, and together they give the sums of block(). */
#ifndef COORDGEN_BACKENDS_CPU_ATTENTION_ATTENTION_PHASES_H
#define COORDGEN_BACKENDS_CPU_ATTENTION_ATTENTION_PHASES_H

static void attention_keys(const AttentionQueries *queries, size_t first, size_t n, const AttentionParts *parts,
                           void *scratch) {
    const GroupScratch group = group_scratch(scratch);
    const size_t levels_bytes = attention_levels_bytes(queries->head_size);

    assert(n <= ATTENTION_GROUP);
    for (size_t part = 0; part < parts->n; part++)
        products_of_keys(queries->levels + first * levels_bytes, levels_bytes, queries->starts + first, n,
                         parts->at[part].keys, queries->head_size, (int32_t *)(void *)group.scores + part * KV_BLOCK,
                         COLUMNS_MAX);
}

static void attention_weights(const AttentionQueries *queries, size_t first, size_t n, const AttentionParts *parts,
                              const AttentionMask *masks, void *scratch, const AttentionSums *sums) {
    const GroupScratch group = group_scratch(scratch);
    Greatest greatest_of;

    value_scales(group.scales, parts, masks, n);
    for (size_t part = 0; part < parts->n; part++)
        scores_with_part(&group, queries, first, n, parts, part, masks, &greatest_of);
    weights_of_group(&group, n, parts, masks, &greatest_of, sums);
}

static void attention_values(size_t n, const AttentionParts *parts, size_t head_size, void *scratch,
                             const AttentionSums *sums) {
    const GroupScratch group = group_scratch(scratch);
    const int8_t *values[ATTENTION_PARTS_MAX];

    for (size_t part = 0; part < parts->n; part++)
        values[part] = parts->at[part].values;
    products_of_values(group.weights, (size_t)ATTENTION_PARTS_MAX * WEIGHTS_PART_BYTES, n, values, parts->n, head_size,
                       sums->outputs);
}

#endif
