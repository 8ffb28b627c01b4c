// SPDX-License-Identifier: Apache-2.0
/* Tests that every unpack kernel of this machine gives the levels of pack.c's codes, at every width, on both grids. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/packed/unpack_tile.h"
#include "base/cleanup.h"
#include "base/system/cpu.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"
#include "test/unit/fixtures/model_maker.h"

enum {
    TILES_MAX = 5
};

static uint64_t seed;
static Grid grid; /* grid of the current tests */

static void check(const UnpackTileKernel *kernel, int bits, size_t n_tiles, const uint8_t *source) {
    _Alignas(64) uint8_t packed[TILES_MAX * PACK_TILE_WEIGHTS + 64];
    _Alignas(64) int8_t tiles[TILES_MAX * PACK_TILE_WEIGHTS + 64];
    size_t packed_bytes = n_tiles * pack_tile_bytes(bits);

    memset(packed, 0xff, sizeof(packed));
    memcpy(packed, source, packed_bytes);
    memset(tiles, 0x5a, sizeof(tiles));
    kernel->fn(packed, grid, bits, n_tiles, tiles);
    for (size_t t = 0; t < n_tiles; t++) {
        uint8_t codes[PACK_TILE_WEIGHTS];

        unpack_tile(source + t * pack_tile_bytes(bits), bits, codes);
        for (size_t i = 0; i < PACK_TILE_WEIGHTS; i++)
            if (tiles[t * PACK_TILE_WEIGHTS + i] != grid_level(grid, codes[i], bits))
                fail_msg("%s: %s, %d bits, tile %zu of %zu, byte %zu is %d, expected %d", kernel->name, grid_name(grid),
                         bits, t, n_tiles, i, tiles[t * PACK_TILE_WEIGHTS + i], grid_level(grid, codes[i], bits));
    }
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(tiles[n_tiles * PACK_TILE_WEIGHTS + i], 0x5a);
}

static void each_kernel(int bits, size_t n_tiles, const uint8_t *source) {
    for (size_t i = 0; i < unpack_tile_n_kernels(); i++)
        if (!(unpack_tile_kernel_at(i)->need & ~cpu_features()))
            check(unpack_tile_kernel_at(i), bits, n_tiles, source);
}

static void test_unpack_tile_random(void **state) {
    uint8_t source[TILES_MAX * PACK_TILE_WEIGHTS];

    for (int bits = 1; bits <= 8; bits++)
        for (size_t n_tiles = 0; n_tiles <= TILES_MAX; n_tiles++)
            for (int repeat = 0; repeat < 20; repeat++) {
                for (size_t i = 0; i < sizeof(source); i++)
                    source[i] = (uint8_t)test_random(&seed);
                each_kernel(bits, n_tiles, source);
            }
}

/* Sets a single bit of the packed tile at a time, so that a leak into a neighbouring byte shows; then its
 * complement. */
static void test_unpack_tile_single_bits(void **state) {
    for (int bits = 1; bits <= 8; bits++)
        for (size_t bit = 0; bit < pack_tile_bytes(bits) * 8; bit++) {
            uint8_t source[PACK_TILE_WEIGHTS] = { 0 };

            source[bit / 8] = (uint8_t)(1 << bit % 8);
            each_kernel(bits, 1, source);
            for (size_t i = 0; i < sizeof(source); i++)
                source[i] = (uint8_t)~source[i];
            each_kernel(bits, 1, source);
        }
}

/* Every subset of the features selects the first kernel whose needs are in it. */
static void test_unpack_tile_select(void **state) {
    const uint32_t all = CPU_ALL;
    size_t n = unpack_tile_n_kernels();

    assert_true(n >= 1);
    assert_int_equal(unpack_tile_kernel_at(n - 1)->need, 0);
    for (uint32_t sub = 0;; sub = (sub - all) & all) {
        size_t i = 0;

        while (unpack_tile_kernel_at(i)->need & ~sub)
            i++;
        assert_ptr_equal(unpack_tile_select(sub), unpack_tile_kernel_at(i));
        if (sub == all)
            break;
    }
    assert_string_equal(unpack_tile_select(0)->name, "unpack_tile__scalar");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unpack_tile_random),
        cmocka_unit_test(test_unpack_tile_single_bits),
        cmocka_unit_test(test_unpack_tile_select),
    };
    const char *env = getenv("TEST_SEED");
    int failed = 0;

    seed = env ? strtoull(env, NULL, 0) : 20240607;
    printf("seed %llu (TEST_SEED sets another)\n", (unsigned long long)seed);
    for (size_t i = 0; i < unpack_tile_n_kernels(); i++)
        printf("%s: %s\n", unpack_tile_kernel_at(i)->name,
               unpack_tile_kernel_at(i)->need & ~cpu_features() ? "absent on this machine" : "tested");
    for (; grid < _GRID_N && !failed; grid++)
        failed = cmocka_run_group_tests_name(grid_name(grid), tests, NULL, NULL);
    return failed;
}
