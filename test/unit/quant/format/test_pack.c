// SPDX-License-Identifier: Apache-2.0
/* Tests of the packed layout: places of bits against an independent description, and round trips at every width, at the
 * tails of both sizes, with mixed widths. */
#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/min_max.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"
#include "test/unit/fixtures/model_maker.h"

#define GUARD 0x5a

static uint64_t seed;
static Grid grid; /* grid of the current tests */

static size_t draw(size_t n) {
    return (size_t)(test_random(&seed) % n);
}

/* Draws a level of the width. */
static int8_t draw_level(int bits) {
    return (int8_t)(bits == 8 ? (int)draw(255) - 127 : grid_level(grid, (int)draw((size_t)1 << bits), bits));
}

/* --- levels ------------------------------------------------------------------------------------------------------- */

static void test_pack_levels(void **state) {
    for (int bits = GRID_BITS_MIN; bits <= GRID_BITS_MAX; bits++) {
        for (int code = bits == 8; code < 1 << bits; code++) {
            int level = grid_level(grid, code, bits);

            assert_true(level >= -127 && level <= 127 && level >= -grid_max(grid, bits) &&
                        level <= grid_max(grid, bits));
            assert_int_equal(grid_code(grid, level, bits), code);
            for (int wider = bits; grid == GRID_UNIFORM && wider <= GRID_BITS_MAX; wider++)
                assert_int_equal(grid_level(grid, grid_code(grid, level, wider), wider), level);
        }
        assert_int_equal(grid_level(grid, (1 << bits) - 1, bits), grid_max(grid, bits));
    }
}

/* --- tiles -------------------------------------------------------------------------------------------------------- */

/* Returns bit `bit` of the code of register r, byte i, as the header describes it: components 4, 2, 1 with the most
 * significant bits first (8 is 4 + 4); stripes of 64 bytes; the first register of a stripe in the highest bits. */
static int described_bit(const uint8_t *packed, int bits, size_t r, size_t i, int bit) {
    static const int widths[9][2 + 2] = { { 0 },    { 1 },    { 2 },       { 2, 1 }, { 4 },
                                          { 4, 1 }, { 4, 2 }, { 4, 2, 1 }, { 4, 4 } };
    int above = bits;

    for (int c = 0; widths[bits][c]; c++) {
        size_t width = (size_t)widths[bits][c], per_stripe = 8 / width, stripe = r / per_stripe;
        int low = above - (int)width;

        if (bit >= low)
            return packed[stripe * 64 + i] >> (8 - width * (r % per_stripe + 1) + (size_t)(bit - low)) & 1;
        above = low;
        packed += 128 * width;
    }
    fail();
    return 0;
}

static void test_pack_tile_places(void **state) {
    for (int bits = 1; bits <= 8; bits++) {
        uint8_t codes[PACK_TILE_WEIGHTS], packed[PACK_TILE_WEIGHTS + 1];

        for (size_t i = 0; i < PACK_TILE_WEIGHTS; i++)
            codes[i] = (uint8_t)draw((size_t)1 << bits);
        memset(packed, GUARD, sizeof(packed));
        pack_tile(codes, bits, packed);
        assert_int_equal(pack_tile_bytes(bits), 128 * bits);
        assert_int_equal(packed[pack_tile_bytes(bits)], GUARD);
        for (size_t i = 0; i < PACK_TILE_WEIGHTS; i++)
            for (int bit = 0; bit < bits; bit++)
                assert_int_equal(described_bit(packed, bits, i / 64, i % 64, bit), codes[i] >> bit & 1);
    }
}

/* 7 bits by hand: register 0 is in the high half of stripe 0, register 4 begins the second stripe of the 2-bit
 * component, and register 15 is the lowest bit of the last one. */
static void test_pack_tile_by_hand(void **state) {
    uint8_t codes[PACK_TILE_WEIGHTS] = { 0 }, packed[7 * 128], expected[7 * 128] = { 0 };

    codes[3] = 0x7f;            /* 1111 11 1 */
    codes[4 * 64 + 1] = 0x5c;   /* 1011 10 0 */
    codes[15 * 64 + 63] = 0x0b; /* 0001 01 1 */
    expected[3] = 0xf0;
    expected[512 + 3] = 0xc0;
    expected[768 + 3] = 0x80;
    expected[2 * 64 + 1] = 0xb0;
    expected[512 + 64 + 1] = 0x80;
    expected[7 * 64 + 63] = 0x01;
    expected[512 + 3 * 64 + 63] = 0x01;
    expected[768 + 64 + 63] = 0x01;
    pack_tile(codes, 7, packed);
    assert_memory_equal(packed, expected, sizeof(packed));
}

/* Every code at every place; arbitrary bytes are the packing of what they unpack to. */
static void test_pack_tile_round_trip(void **state) {
    for (int bits = 1; bits <= 8; bits++) {
        uint8_t codes[PACK_TILE_WEIGHTS], back[PACK_TILE_WEIGHTS], packed[PACK_TILE_WEIGHTS], again[PACK_TILE_WEIGHTS];

        for (size_t shift = 0; shift < (size_t)1 << bits; shift++) {
            for (size_t i = 0; i < PACK_TILE_WEIGHTS; i++)
                codes[i] = (uint8_t)((i + shift) % ((size_t)1 << bits));
            pack_tile(codes, bits, packed);
            memset(back, GUARD, sizeof(back));
            unpack_tile(packed, bits, back);
            assert_memory_equal(back, codes, sizeof(codes));
        }
        for (size_t i = 0; i < pack_tile_bytes(bits); i++)
            packed[i] = (uint8_t)draw(256);
        unpack_tile(packed, bits, back);
        for (size_t i = 0; i < PACK_TILE_WEIGHTS; i++)
            assert_true(back[i] < 1 << bits);
        pack_tile(back, bits, again);
        assert_memory_equal(again, packed, pack_tile_bytes(bits));
    }
}

/* --- plans -------------------------------------------------------------------------------------------------------- */

typedef enum Widths {
    WIDTHS_ONE,      /* equal widths */
    WIDTHS_BY_BLOCK, /* equal within blocks of 16 neighbours */
    WIDTHS_ANY,
    WIDTHS_ONE_WIDER, /* equal but for the last channel */
    _WIDTHS_N,
} Widths;

static void fill_bits(Widths widths, int8_t *bits, size_t n) {
    int one = 1 + (int)draw(7);

    for (size_t i = 0; i < n; i++)
        if (widths == WIDTHS_ANY || (widths == WIDTHS_BY_BLOCK && i % 16 == 0))
            bits[i] = (int8_t)(1 + draw(8));
        else
            bits[i] = widths == WIDTHS_BY_BLOCK ? bits[i - 1] : (int8_t)one;
    if (widths == WIDTHS_ONE_WIDER)
        bits[n - 1] = 8;
}

static void check_plan(const PackPlan *plan, const int8_t *bits, size_t n, size_t k) {
    size_t n_blocks = (n + 15) / 16;
    bool in_order = true;

    assert_int_equal(plan->n, n);
    assert_int_equal(plan->k, k);
    assert_int_equal(plan->n_blocks, n_blocks);
    assert_int_equal(plan->k_tiles, (k + 63) / 64);
    assert_int_equal(plan->offsets[0], 0);
    for (size_t i = 0; i < n; i++)
        in_order = in_order && bits[i] == bits[i - i % 16];
    assert_int_equal(plan->in_order, in_order);
    for (size_t p = 0; p < n_blocks * 16; p++) {
        uint32_t channel = plan->channels[p];

        if (p >= n) {
            assert_int_equal(channel, PACK_CHANNEL_NONE);
            continue;
        }
        assert_true(channel < n);
        assert_true(bits[channel] <= plan->bits[p / 16]);
        if (in_order) {
            assert_int_equal(channel, p);
        } else if (p) { /* falling widths, equal ones in order: no channel comes twice */
            uint32_t before = plan->channels[p - 1];

            assert_true(bits[before] > bits[channel] || (bits[before] == bits[channel] && before < channel));
        }
    }
    for (size_t block = 0; block < n_blocks; block++) {
        int widest = 0;

        for (size_t p = block * 16; p < block * 16 + 16 && p < n; p++)
            widest = MAX(bits[plan->channels[p]], widest);
        assert_int_equal(plan->bits[block], widest);
        assert_int_equal(plan->offsets[block + 1] - plan->offsets[block],
                         plan->k_tiles * 128 * (size_t)plan->bits[block]);
    }
}

/* Packs the last block first, with guards around; unpacks into a filled matrix. */
static void check_round_trip(Widths widths, size_t n, size_t k) {
    _cleanup_(freep) int8_t *bits = malloc(n), *q = malloc(n * k), *back = malloc(n * k);
    _cleanup_(freep) uint8_t *packed = NULL, *one = NULL;
    _cleanup_(pack_plan_deinit) PackPlan plan = { 0 };
    size_t len_bytes;

    assert_true(bits && q && back);
    fill_bits(widths, bits, n);
    if (grid != GRID_UNIFORM)
        assert_int_equal(pack_widen(bits, n), 0);
    assert_int_equal(pack_plan_init(&plan, grid, bits, n, k), 0);
    check_plan(&plan, bits, n, k);
    len_bytes = plan.offsets[plan.n_blocks];
    for (size_t i = 0; i < n * k; i++)
        q[i] = draw_level(bits[i / k]);
    packed = malloc(len_bytes + 1);
    one = malloc(len_bytes);
    assert_true(packed && one);
    memset(packed, GUARD, len_bytes + 1);
    memset(back, GUARD, n * k);
    for (size_t block = plan.n_blocks; block-- > 0;) {
        pack_block(&plan, block, q, packed);
        for (size_t i = 0; i < plan.offsets[block]; i++)
            assert_int_equal(packed[i], GUARD);
    }
    assert_int_equal(packed[len_bytes], GUARD);
    for (size_t block = 0; block < plan.n_blocks; block++) {
        memset(one, GUARD, len_bytes);
        pack_block(&plan, block, q, one);
        for (size_t i = 0; i < len_bytes; i++) /* its own bytes and no others */
            assert_int_equal(one[i], i >= plan.offsets[block] && i < plan.offsets[block + 1] ? packed[i] : GUARD);
        unpack_block(&plan, block, packed, back);
        for (size_t p = (block + 1) * 16; p < n; p++)
            for (size_t i = 0; i < k; i++)
                assert_int_equal(back[plan.channels[p] * k + i], GUARD);
    }
    assert_memory_equal(back, q, n * k);
    /* Inputs past k and channels past n have code 0. */
    for (size_t block = 0; block < plan.n_blocks; block++)
        for (size_t tile = 0; tile < plan.k_tiles; tile++) {
            uint8_t codes[PACK_TILE_WEIGHTS];

            unpack_tile(packed + plan.offsets[block] + tile * pack_tile_bytes(plan.bits[block]), plan.bits[block],
                        codes);
            for (size_t i = 0; i < PACK_TILE_WEIGHTS; i++)
                if (tile * 64 + i / 64 * 4 + i % 4 >= k || block * 16 + i % 64 / 4 >= n)
                    assert_int_equal(codes[i], 0);
        }
}

static void test_pack_every_n(void **state) {
    for (Widths widths = WIDTHS_ONE; widths < _WIDTHS_N; widths++)
        for (size_t n = 1; n <= 50; n++)
            check_round_trip(widths, n, 1 + draw(70));
}

static void test_pack_every_k(void **state) {
    for (Widths widths = WIDTHS_ONE; widths < _WIDTHS_N; widths++)
        for (size_t k = 1; k <= 130; k++)
            check_round_trip(widths, 1 + draw(35), k);
}

static void test_pack_random(void **state) {
    for (int i = 0; i < 60; i++)
        check_round_trip((Widths)draw(_WIDTHS_N), 1 + draw(100), 1 + draw(300));
}

/* Channels 0..17 of widths 3 and 5: the three of 5 bits come first, and one block holds both widths. */
static void test_pack_plan_by_hand(void **state) {
    static const int8_t bits[18] = { 3, 3, 5, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 5, 5 };
    static const uint32_t channels[18] = { 2, 16, 17, 0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    _cleanup_(pack_plan_deinit) PackPlan plan = { 0 };

    assert_int_equal(pack_plan_init(&plan, GRID_UNIFORM, bits, 18, 65), 0);
    assert_false(plan.in_order);
    assert_memory_equal(plan.channels, channels, sizeof(channels));
    assert_int_equal(plan.channels[18], PACK_CHANNEL_NONE);
    assert_int_equal(plan.bits[0], 5);
    assert_int_equal(plan.bits[1], 3);
    assert_int_equal(plan.offsets[1], 2 * 640);
    assert_int_equal(plan.offsets[2], 2 * 640 + 2 * 384);
}

/* The three channels of 5 bits take 13 channels of 3 bits into their block. */
static void test_pack_widen_by_hand(void **state) {
    static const int8_t widened[18] = { 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 3, 3, 5, 5 };
    int8_t bits[18] = { 3, 3, 5, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 5, 5 };
    PackPlan plan = { .n = 77 };

    assert_int_equal(pack_plan_init(&plan, GRID_NORMAL, bits, 18, 65), -EINVAL);
    assert_int_equal(plan.n, 77);
    assert_int_equal(pack_widen(bits, 18), 0);
    assert_memory_equal(bits, widened, sizeof(bits));
    assert_int_equal(pack_plan_init(&plan, GRID_NORMAL, bits, 18, 65), 0);
    pack_plan_deinit(&plan);
}

/* Any widths: as many bytes as before, no channel narrower, and every block of one width. */
static void test_pack_widen(void **state) {
    for (int repeat = 0; repeat < 300; repeat++) {
        int8_t bits[200], before[200];
        size_t n = 1 + draw(200);
        PackPlan narrow, wide;

        fill_bits((Widths)draw(_WIDTHS_N), bits, n);
        memcpy(before, bits, n);
        assert_int_equal(pack_plan_init(&narrow, GRID_UNIFORM, bits, n, 100), 0);
        assert_int_equal(pack_widen(bits, n), 0);
        for (size_t i = 0; i < n; i++)
            assert_true(bits[i] >= before[i] && bits[i] <= 8);
        assert_int_equal(pack_plan_init(&wide, GRID_NORMAL, bits, n, 100), 0);
        assert_int_equal(wide.offsets[wide.n_blocks], narrow.offsets[narrow.n_blocks]);
        memcpy(before, bits, n);
        assert_int_equal(pack_widen(bits, n), 0);
        assert_memory_equal(bits, before, n);
        pack_plan_deinit(&narrow);
        pack_plan_deinit(&wide);
    }
}

static void test_pack_plan_errors(void **state) {
    int8_t bits[40];
    PackPlan plan = { .n = 77 };

    memset(bits, 4, sizeof(bits));
    assert_int_equal(pack_plan_init(&plan, grid, bits, 0, 64), -EINVAL);
    assert_int_equal(pack_plan_init(&plan, grid, bits, 40, 0), -EINVAL);
    assert_int_equal(pack_plan_init(&plan, grid, bits, 40, SIZE_MAX), -EINVAL);
    assert_int_equal(pack_plan_init(&plan, grid, bits, 40, (size_t)1 << 61), -EINVAL);
    assert_int_equal(pack_plan_init(&plan, grid, bits, (size_t)1 << 32, 64), -EINVAL);
    for (size_t i = 0; i < sizeof(bits); i++) {
        static const int8_t wrong[] = { 0, -1, 9, 127, -128 };

        for (size_t w = 0; w < sizeof(wrong); w++) {
            bits[i] = wrong[w];
            assert_int_equal(pack_plan_init(&plan, grid, bits, 40, 64), -EINVAL);
        }
        bits[i] = 4;
    }
    assert_int_equal(plan.n, 77); /* unchanged */
    assert_null(plan.bits);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pack_levels),       cmocka_unit_test(test_pack_tile_places),
        cmocka_unit_test(test_pack_tile_by_hand), cmocka_unit_test(test_pack_tile_round_trip),
        cmocka_unit_test(test_pack_every_n),      cmocka_unit_test(test_pack_every_k),
        cmocka_unit_test(test_pack_random),       cmocka_unit_test(test_pack_plan_by_hand),
        cmocka_unit_test(test_pack_plan_errors),  cmocka_unit_test(test_pack_widen_by_hand),
        cmocka_unit_test(test_pack_widen),
    };
    const char *env = getenv("TEST_SEED");
    int failed = 0;

    seed = env ? strtoull(env, NULL, 0) : 20240607;
    printf("seed %llu (TEST_SEED sets another)\n", (unsigned long long)seed);
    for (; grid < _GRID_N && !failed; grid++)
        failed = cmocka_run_group_tests_name(grid_name(grid), tests, NULL, NULL);
    return failed;
}
