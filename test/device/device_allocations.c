// SPDX-License-Identifier: Apache-2.0
/* Checks that operators allocate nothing: scratch is reserved before, and a step cannot fail for lack of memory. */
#undef NDEBUG
#include "test/device/device_matrix.h"
#include "test/device/device_timeline.h"

/* Counter of allocation_wrap.h. */
_Atomic size_t device_allocations;

enum {
    ROWS = 9,
    WIDTH = 192,
    OUTPUTS = 600,
};

static bool is_counted(void) {
    const size_t before = device_allocations;

    guarded_free(guarded_new(1));
    return device_allocations > before;
}

static void expect_none(size_t before, const char *what) {
    if (device_allocations != before)
        fail_msg("%s allocates memory", what);
}

static void take_nothing(void *arg, size_t first, size_t n, float *y, unsigned int worker) {
}

/* Calls the operators on matrices. */
static void check_products(Rig *rig, const BackendLinear *linear, float *x, float *y, float *scratch) {
    static const uint32_t tokens[ROWS] = { 5, 0, 599 };
    size_t before;

    linear_run(rig, linear, x, ROWS, y);
    before = device_allocations;
    linear_run(rig, linear, x, ROWS, y);
    expect_none(before, "linear");
    rig->ops->embed(rig->backend, linear, tokens, ROWS, 2, y);
    expect_none(before, "embed");
    if (!rig->ops->linear_pieces || !rig->ops->has_pieces(linear))
        return;
    assert_int_equal(rig->ops->linear_pieces(rig->backend, linear, x, ROWS, 1, scratch, take_nothing, NULL, NULL), 0);
    expect_none(before, "linear_pieces");
}

static void check_rows(Rig *rig, float *x, float *y) {
    const size_t before = device_allocations;

    rig->ops->norm(rig->backend, x, y, 1e-5f, ROWS, WIDTH, y + WIDTH);
    expect_none(before, "norm");
    rig->ops->rope(rig->backend, x, y, y, ROWS, 3, 64, 64, true);
    expect_none(before, "rope");
    rig->ops->gated(rig->backend, x, y, ROWS, WIDTH, true);
    expect_none(before, "gated");
    rig->ops->add(rig->backend, x, y, ROWS, WIDTH);
    expect_none(before, "add");
}

/* Calls attention on a tree whose first three rows are in place. */
static void check_attention(DeviceSuite *suite) {
    static const int16_t parents[ROWS] = { -1, 0, 1, 0, 3, 1, 5, 6, 3 };
    const KvShape shape = { 6, 2, 32, 0, 0.2f, 0 };
    BatchRow batch_rows[ROWS];
    BatchSequence sequence;
    Batch batch = { .rows = batch_rows, .sequences = &sequence };
    AttentionCall call;
    Timeline timeline;
    size_t before;
    KvRows rows;
    KvRig kv;

    kv_rig_open(&kv, suite, RIG_THREADS, &shape, 200);
    kv_rows_init(&rows, suite, &shape, ROWS);
    timeline_init(&timeline, &kv, 200);
    batch_add_tree(&batch, timeline.blocks, timeline.side, 0, parents, ROWS);
    call = (AttentionCall){ .batch = &batch,
                            .rows = { 0, ROWS },
                            .kv = kv.layers[0],
                            .q = rows.q,
                            .k = rows.k,
                            .v = rows.v,
                            .n_heads = shape.n_heads,
                            .scale = shape.scale };
    before = device_allocations;
    kv.rig.ops->kv_store(kv.rig.backend, &call);
    expect_none(before, "kv_store");
    kv.rig.ops->attention(kv.rig.backend, &call);
    expect_none(before, "attention");
    kv.rig.ops->kv_move(kv.rig.backend, &kv.layers[0], &(KvMove){ timeline.side, timeline.blocks[0], 2, 3 }, 1);
    expect_none(before, "kv_move");
    timeline_deinit(&timeline);
    kv_rows_deinit(&rows);
    kv_rig_close(&kv);
}

void test_device_allocations(void **state) {
    DeviceSuite *suite = *state;
    Rig rig;

    if (!is_counted()) {
        print_message("left out: this program does not count what it allocates\n");
        skip();
    }
    rig_open(&rig, suite, RIG_THREADS, NULL);
    for (MatrixForm form = 0; form < _MATRIX_FORM_N; form++) {
        const MatrixInput in = { .k = WIDTH };
        GUARDED x = guarded_new(ROWS * WIDTH);
        GUARDED y = guarded_new(ROWS * OUTPUTS);
        GUARDED scratch = guarded_new(RIG_THREADS * ROWS * LINEAR_PIECE);
        BackendLinear *linear;
        Matrix matrix;

        if (!matrix_is_taken(suite, form, &in))
            continue;
        matrix_init(&matrix, suite, &in, form, OUTPUTS, 0, true);
        rig_fill(suite, x, ROWS * WIDTH);
        linear = matrix_load(&rig, &matrix);
        check_products(&rig, linear, x, y, scratch);
        check_rows(&rig, x, y);
        rig.ops->linear_free(linear);
        matrix_deinit(&matrix);
    }
    rig_close(&rig);
    check_attention(suite);
}
