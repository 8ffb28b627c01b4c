// SPDX-License-Identifier: Apache-2.0
/* Tests the package reader with packed weights: all widths in every matrix of the layers, embeddings of 6 bits, both
 * grids, the refusals, and mutations of the heads. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"
#include "test/unit/fixtures/package_edit.h"

static size_t uniform_bytes; /* of the package on the uniform grid, which comes first */

static int allocate_all_widths(void *state, const ImportModel *model, ErrText *err) {
    for (size_t i = 1; i <= model->hparams.n_layers; i++)
        for (size_t j = 0; j < model->layers[i].n_linears; j++)
            for (size_t channel = 0; channel < model->layers[i].linears[j].n; channel++)
                model->layers[i].linears[j].bits[channel] = (int8_t)(1 + channel % 8);
    return 0;
}

static int make_on_grid(void **state, Grid grid) {
    ImportOptions options = import_options_default();
    ImportMethod method = import_method_plain;

    method.allocate = allocate_all_widths;
    options.method = &method;
    options.recipe.embedding_bits = 6;
    options.recipe.grid = grid;
    return good_package_new(state, &options);
}

static int make_uniform(void **state) {
    return make_on_grid(state, GRID_UNIFORM);
}

static int make_normal(void **state) {
    return make_on_grid(state, GRID_NORMAL);
}

static void put_int8_first(GgufWriter *writer, const char *name) {
    put_linears(writer, name, PACKAGE_LAYOUT_INT8, PACKAGE_LAYOUT_PACKED);
}

static int asked_bits(const PackageLinear *linear, size_t channel) {
    return !strcmp(linear->name, "token_embd") || !strcmp(linear->name, "output") ? 6 : 1 + (int)(channel % 8);
}

/* The bytes unpack to levels of the grid. */
static void check_levels(const PackageLinear *linear, Grid grid) {
    int8_t q[96 * 96];
    PackPlan plan;

    assert_true(linear->packed && !linear->weights && linear->n * linear->k <= sizeof(q));
    assert_int_equal(linear->grid, grid);
    assert_int_equal(pack_plan_init(&plan, grid, linear->bits, linear->n, linear->k), 0);
    assert_int_equal(linear->weight_bytes, plan.offsets[plan.n_blocks]);
    for (size_t i = 0; i < plan.n_blocks; i++)
        unpack_block(&plan, i, linear->packed, q);
    for (size_t channel = 0; channel < linear->n; channel++)
        for (size_t i = 0; i < linear->k; i++) {
            int bits = linear->bits[channel], level = q[channel * linear->k + i];

            assert_int_equal(grid_level(grid, grid_code(grid, level, bits), bits), level);
            assert_true(level >= -grid_max(grid, bits) && level <= grid_max(grid, bits));
        }
    pack_plan_deinit(&plan);
}

/* The averages are those of the widths. */
static void test_package_packed(void **state) {
    GoodPackage *good = *state;
    _cleanup_(package_freep) Package *package = package_edit_parse(good);

    uniform_bytes = good->file.len_bytes;
    assert_int_equal(package_n_linears(package), 16);
    assert_true(package_quant(package)->bits == 4.5f);
    assert_int_equal(package_quant(package)->embedding_bits, 6);
    for (size_t i = 0; i < package_n_linears(package); i++) {
        const PackageLinear *linear = package_linear_at(package, i);

        check_levels(linear, GRID_UNIFORM);
        for (size_t channel = 0; channel < linear->n; channel++)
            assert_int_equal(linear->bits[channel], asked_bits(linear, channel));
    }
}

/* As many bytes, and none is narrower than its block. */
static void test_package_packed_normal(void **state) {
    GoodPackage *good = *state;
    _cleanup_(package_freep) Package *package = package_edit_parse(good);
    size_t n_wider = 0;

    assert_int_equal(good->file.len_bytes, uniform_bytes);
    assert_true(package_quant(package)->bits > 4.5f);
    for (size_t i = 0; i < package_n_linears(package); i++) {
        const PackageLinear *linear = package_linear_at(package, i);

        check_levels(linear, GRID_NORMAL);
        for (size_t channel = 0; channel < linear->n; channel++) {
            assert_true(linear->bits[channel] >= asked_bits(linear, channel));
            n_wider += linear->bits[channel] > asked_bits(linear, channel);
        }
    }
    assert_true(n_wider > 100);
}

static void test_package_refuses_packed(void **state) {
    GoodPackage *good = *state;
    const PackageEdit no_width = { .spoil_tensor = "blk.1.ffn_up.bits", .spoil_bits = 0, .spoil_bytes = 1 };
    const PackageEdit nine_bits = { .spoil_tensor = "blk.1.ffn_up.bits", .spoil_bits = 9, .spoil_bytes = 1 };
    const PackageEdit negative = { .spoil_tensor = "blk.1.ffn_up.bits", .spoil_bits = 0xff, .spoil_bytes = 1 };
    /* Channels that are wider than the bytes of their block. */
    const PackageEdit wider = { .spoil_tensor = "blk.1.ffn_up.bits", .spoil_bits = 0x08080808, .spoil_bytes = 4 };
    const PackageEdit wider_embedding = { .spoil_tensor = "token_embd.bits", .spoil_bits = 7, .spoil_bytes = 1 };
    const PackageEdit longer = { .reshape_tensor = "blk.0.attn_q.weight" };
    const PackageEdit wrong_type = { .retype_tensor = "blk.0.attn_q.weight" };
    const PackageEdit called_int8 = { .key = PACKAGE_KEY_LINEAR_LAYOUTS, .put = put_int8_first };
    const PackageEdit other_average = { .key = PACKAGE_KEY_BITS, .put = put_f32_7 };

    expect_edit(good, &no_width, PACKAGE_E_CORRUPT,
                "'blk.1.ffn_up.bits': channel 0 is 0 bits wide: 1 to 8 are possible");
    expect_edit(good, &nine_bits, PACKAGE_E_CORRUPT, "'blk.1.ffn_up.bits': channel 0 is 9 bits wide");
    expect_edit(good, &negative, PACKAGE_E_CORRUPT, "'blk.1.ffn_up.bits': channel 0 is -1 bits wide");
    expect_edit(good, &wider, PACKAGE_E_CORRUPT, "tensor 'blk.1.ffn_up.weight' has ");
    expect_edit(good, &wider_embedding, PACKAGE_E_CORRUPT, "'token_embd.bits': channel 0 is 7 bits wide, key");
    expect_edit(good, &longer, PACKAGE_E_CORRUPT, "tensor 'blk.0.attn_q.weight' has ");
    expect_edit(good, &wrong_type, PACKAGE_E_CORRUPT, "has type F16, a package has I8 there");
    expect_edit(good, &called_int8, PACKAGE_E_CORRUPT, "tensor 'token_embd.weight' is ");
    expect_edit(good, &other_average, PACKAGE_E_CORRUPT,
                "'coordgen.quant.bits' is 7, the widths of the channels average 4.5");
}

/* On the normal grid a narrower channel within a block has no levels there. */
static void test_package_refuses_packed_normal(void **state) {
    GoodPackage *good = *state;
    const PackageEdit narrower = { .spoil_tensor = "blk.1.ffn_up.bits", .spoil_bits = 1, .spoil_bytes = 1 };
    const PackageEdit narrower_embedding = { .spoil_tensor = "token_embd.bits", .spoil_bits = 5, .spoil_bytes = 1 };
    const PackageEdit called_int8 = { .key = PACKAGE_KEY_LINEAR_LAYOUTS, .put = put_int8_first };

    expect_edit(good, &narrower, PACKAGE_E_CORRUPT, "linear 'blk.1.ffn_up' of 64 x 96: cannot be packed");
    expect_edit(good, &narrower_embedding, PACKAGE_E_CORRUPT, "'token_embd.bits': channel 0 is 5 bits wide, key");
    expect_edit(good, &called_int8, PACKAGE_E_CORRUPT, "tensor 'token_embd.weight' is ");
}

int main(void) {
    const struct CMUnitTest uniform[] = {
        cmocka_unit_test(test_package_packed),
        cmocka_unit_test(test_package_refuses_packed),
        cmocka_unit_test(package_edit_mutations),
    };
    const struct CMUnitTest normal[] = {
        cmocka_unit_test(test_package_packed_normal),
        cmocka_unit_test(test_package_refuses_packed_normal),
        { "package_edit_mutations_normal", package_edit_mutations, NULL, NULL, NULL },
    };
    int n_failed = cmocka_run_group_tests(uniform, make_uniform, good_package_free);

    return n_failed + cmocka_run_group_tests(normal, make_normal, good_package_free);
}
