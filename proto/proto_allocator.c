// SPDX-License-Identifier: Apache-2.0
#include "proto/proto_allocator.h"

#include <stdlib.h>

static void *budget_alloc(void *data, size_t len_bytes) {
    ProtoAllocator *allocator = data;

    if (!allocator->n_left || allocator->left_bytes < PROTO_ALLOCATION_OVERHEAD_BYTES ||
        len_bytes > allocator->left_bytes - PROTO_ALLOCATION_OVERHEAD_BYTES) {
        allocator->budget_passed = true;
        return NULL;
    }
    allocator->n_left--;
    allocator->left_bytes -= len_bytes + PROTO_ALLOCATION_OVERHEAD_BYTES;
    return malloc(len_bytes ? len_bytes : 1);
}

/* Gives nothing back to the budget, which bounds the work of a decode as well as its peak. */
static void budget_free(void *data, void *memory) {
    free(memory);
}

void proto_allocator_init(ProtoAllocator *allocator, size_t budget_bytes, size_t n_allocations) {
    *allocator = (ProtoAllocator){
        .base = { .alloc = budget_alloc, .free = budget_free, .allocator_data = allocator },
        .left_bytes = budget_bytes,
        .n_left = n_allocations,
    };
}
