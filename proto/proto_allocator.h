// SPDX-License-Identifier: Apache-2.0
/* A ProtobufCAllocator with a budget: what a peer sends cannot make the decoder take more memory than was granted. */
#ifndef COORDGEN_PROTO_PROTO_ALLOCATOR_H
#define COORDGEN_PROTO_PROTO_ALLOCATOR_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

#define PROTO_ALLOCATION_OVERHEAD_BYTES 16 /* counted on top of each allocation: the heap's own header */

/* Lives on the stack of one decode. What it gave is plain malloc() memory: it is freed with the allocator NULL. */
typedef struct ProtoAllocator {
    ProtobufCAllocator base;
    size_t left_bytes;
    size_t n_left;
    bool budget_passed; /* a refusal was by budget, not by the system */
} ProtoAllocator;

void proto_allocator_init(ProtoAllocator *allocator, size_t budget_bytes, size_t n_allocations);

#endif
