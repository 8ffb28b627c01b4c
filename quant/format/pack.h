// SPDX-License-Identifier: Apache-2.0
/* Packed weights take B bits each in storage and stand for the canonical int8 matrix (EdgeFlow 4.2).  A matrix q[n][k]
 * is cut like the int8 layout of the products: blocks of 16 channels, tiles of 16 channels x 64 inputs. All channels
 * of a block are stored with one width, that of its widest channel. If the widths of neighbours differ, channels are
 * first put in order of falling width (pack_plan_init()), so that few blocks hold narrower channels. Only levels of
 * the uniform grid can be stored wider than they are. On the normal grid a channel is made as wide as its block before
 * it is rounded (pack_widen()), which takes no more bytes.  A tile of width B has 128 * B bytes: the components of B
 * in binary (4, 2 and 1 bits; 8 is 4 + 4), the most significant bits of the code u first (grid.h), e.g. 7 = 4 | 2 | 1.
 * The paper leaves the order open. The int8 tile has 16 registers of 64 bytes; register r holds inputs 4r..4r+3 of the
 * 16 channels, byte [channel][input % 4]. A component of w bits takes 2w stripes of 64 bytes. Stripe s holds registers
 * s * 8/w .. s * 8/w + 8/w - 1 side by side in each byte, the first one in the highest bits. One load, one shift and
 * one mask then give a register of weightlets in the order in which the products read them, for any register width
 * that divides 64 bytes.  Inputs past k and channels past n have code 0; products multiply them by an activation of
 * zero or never store them. */
#ifndef COORDGEN_QUANT_PACK_H
#define COORDGEN_QUANT_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "quant/format/grid.h"

#define PACK_BLOCK_CHANNELS 16
#define PACK_TILE_INPUTS 64
#define PACK_TILE_WEIGHTS 1024
#define PACK_CHANNEL_NONE UINT32_MAX

static inline size_t pack_tile_bytes(int bits) {
    return (size_t)128 * (size_t)bits;
}

/* The places of all parts of one matrix. The plan follows from the widths alone, so a file keeps only those. */
typedef struct PackPlan {
    size_t n, k;
    Grid grid;          /* the meaning of the codes */
    size_t n_blocks;    /* ceil(n / 16) */
    size_t k_tiles;     /* ceil(k / 64) */
    bool in_order;      /* position p is channel p: every block of 16 neighbours has one width */
    uint8_t *bits;      /* [n_blocks] */
    uint64_t *offsets;  /* [n_blocks + 1] bytes; the last one is the whole */
    uint32_t *channels; /* [n_blocks * 16]: the channel at each position, or PACK_CHANNEL_NONE */
} PackPlan;

/* Plans a matrix of bits[n], 1..8 per channel. 0; -EINVAL: a width outside 1..8, n or k of 0, or a block of several
 * widths on a grid that allows only one; -ENOMEM. */
int pack_plan_init(PackPlan *plan, Grid grid, const int8_t *bits, size_t n, size_t k);
/* Makes every channel as wide as the block that stores it; bits[n] of 1..8. 0 or -ENOMEM. */
int pack_widen(int8_t *bits, size_t n);
void pack_plan_deinit(PackPlan *plan);
/* Packs one block of q[n][k] (levels of their channel's width) to its place in packed[offsets[n_blocks]]. */
void pack_block(const PackPlan *plan, size_t block, const int8_t *q, uint8_t *packed);
/* Unpacks the channels of one block into q[n][k]. */
void unpack_block(const PackPlan *plan, size_t block, const uint8_t *packed, int8_t *q);

/* Pack and unpack one tile of codes u[16 registers][64 bytes], each below 2^bits: the scalar reference of every unpack
 * kernel. */
void pack_tile(const uint8_t codes[PACK_TILE_WEIGHTS], int bits, uint8_t *packed);
void unpack_tile(const uint8_t *packed, int bits, uint8_t codes[PACK_TILE_WEIGHTS]);

#endif
