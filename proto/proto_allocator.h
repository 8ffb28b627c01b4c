// SPDX-License-Identifier: Apache-2.0
/* A ProtobufCAllocator with a budget: no message of a peer makes the decoder take more memory than granted. */
#ifndef COORDGEN_PROTO_PROTO_ALLOCATOR_H
#define COORDGEN_PROTO_PROTO_ALLOCATOR_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

#define PROTO_ALLOCATION_OVERHEAD_BYTES 16 /* added to each allocation, for the heap's header */

/* Lives on the stack of one decode. Its memory comes from malloc(), and is freed with a NULL allocator. */
typedef struct ProtoAllocator {
    ProtobufCAllocator base;
    size_t left_bytes;
    size_t n_left;
    bool budget_passed; /* the budget refused memory, not the system */
} ProtoAllocator;

void proto_allocator_init(ProtoAllocator *allocator, size_t budget_bytes, size_t n_allocations);

#endif
