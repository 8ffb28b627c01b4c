// SPDX-License-Identifier: Apache-2.0
/* Checks that matrices from parts, from an image, or streamed give the products of matrices loaded as a whole. */
#undef NDEBUG
#include "test/device/device_matrix.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/min_max.h"

/* --- weights in parts --------------------------------------------------------------------------------------------- */

static size_t n_blocks(const Matrix *matrix) {
    return (matrix->n + PACK_BLOCK_CHANNELS - 1) / PACK_BLOCK_CHANNELS;
}

/* Returns the source without what only the parts provide. */
static LinearSource begin_source(const Matrix *matrix) {
    LinearSource source = matrix_source(matrix);

    source.data = NULL;
    source.packed = NULL;
    return source;
}

/* Copies blocks to memory of their own, so that a sanitizer detects reads past them. The caller frees them. */
static uint8_t *bytes_of(const Matrix *matrix, size_t block, size_t end) {
    const size_t k = matrix->in->k,
                 first = matrix->packed ? matrix->plan.offsets[block] : block * PACK_BLOCK_CHANNELS * k,
                 last = matrix->packed ? matrix->plan.offsets[end] : MIN(end * PACK_BLOCK_CHANNELS, matrix->n) * k;
    const uint8_t *from = (matrix->packed ? matrix->packed : (const uint8_t *)matrix->q) + first;
    uint8_t *bytes = aligned_alloc(64, (last - first + 63) / 64 * 64);

    assert_non_null(bytes);
    return memcpy(bytes, from, last - first);
}

static void fill_block(const Rig *rig, const Matrix *matrix, BackendLinear *linear, size_t block, size_t end) {
    _cleanup_(freep) uint8_t *bytes = bytes_of(matrix, block, end);

    rig->ops->linear_fill(rig->backend, linear, block, end, bytes);
}

typedef struct FillThread {
    const Rig *rig;
    const Matrix *matrix;
    BackendLinear *linear;
    size_t first, step;
} FillThread;

static void *fill_some(void *arg) {
    const FillThread *thread = arg;

    for (size_t block = n_blocks(thread->matrix); block-- > 0;)
        if (block % thread->step == thread->first)
            fill_block(thread->rig, thread->matrix, thread->linear, block, block + 1);
    return NULL;
}

/* Fills from the last block to the first, on two threads; or two by two. */
static void fill_all(const Rig *rig, const Matrix *matrix, BackendLinear *linear, bool on_threads) {
    FillThread threads[] = { { rig, matrix, linear, 0, 2 }, { rig, matrix, linear, 1, 2 } };
    pthread_t other;

    if (!on_threads) {
        for (size_t block = 0, end; block < n_blocks(matrix); block = end) {
            end = MIN(block + 2, n_blocks(matrix));
            fill_block(rig, matrix, linear, block, end);
        }
        return;
    }
    assert_int_equal(pthread_create(&other, NULL, fill_some, &threads[1]), 0);
    fill_some(&threads[0]);
    assert_int_equal(pthread_join(other, NULL), 0);
}

static BackendLinear *begin(Rig *rig, const LinearSource *source) {
    BackendLinear *linear = NULL;
    ErrText err = { 0 };

    if (rig->ops->linear_begin(rig->backend, &linear, source, &err))
        fail_msg("a matrix that the device takes does not begin: %s", err.text);
    if (rig->ops->linears_begun) /* has no visible effect */
        rig->ops->linears_begun(rig->backend);
    return linear;
}

static void finish(Rig *rig, BackendLinear *linear, const LinearSource *source) {
    ErrText err = { 0 };

    if (rig->ops->linear_finish(rig->backend, linear, source, &err))
        fail_msg("a matrix that the device takes does not finish: %s", err.text);
}

/* Checks that the products of both are the same. */
static void same_matrix(Rig *rig, const Products *products, const BackendLinear *linear, const char *what) {
    const size_t n = products->rows * products->n_outputs;
    _cleanup_(freep) float *y = malloc(n * sizeof(float)), *expected = malloc(n * sizeof(float));

    assert_true(y && expected);
    linear_run(rig, products_on(products, rig)[0], products->x, products->rows, expected);
    linear_run(rig, linear, products->x, products->rows, y);
    if (memcmp(y, expected, n * sizeof(float)) != 0)
        fail_msg("%s: not the products of the matrix that came as a whole", what);
}

typedef void PartsFn(Rig *rig, const Products *products);

/* Calls fn for every form that comes in parts, on both rigs. */
static void each_part_form(DeviceSuite *suite, PartsFn *fn) {
    static const struct {
        MatrixForm form;
        size_t n, k;
        int widths;
    } cases[] = { { MATRIX_INT8, 211, 96, 8 },
                  { MATRIX_INT8, 5, 192, 8 },
                  { MATRIX_PACKED, 211, 96, 0 },
                  { MATRIX_PACKED, 100, 192, 5 } };
    Rig rigs[2];

    rig_open_pair(rigs, suite, NULL);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const MatrixInput in = { .k = cases[i].k };
        Products products;

        if (!matrix_is_taken(suite, cases[i].form, &in))
            continue;
        products_init(&products, rigs, &in, &cases[i].form, &cases[i].n, 1, cases[i].widths, i % 2, 7);
        fn(&rigs[i % 2], &products);
        products_deinit(&products, rigs);
    }
    rig_close_pair(rigs);
}

static void check_parts(Rig *rig, const Products *products) {
    const Matrix *matrix = &products->matrices[0];
    const LinearSource source = begin_source(matrix);

    if (!rig->ops->linear_begin)
        return;
    for (int way = 0; way < 2; way++) {
        BackendLinear *linear = begin(rig, &source);

        fill_all(rig, matrix, linear, way);
        finish(rig, linear, &source);
        same_matrix(rig, products, linear, "a matrix in parts");
        rig->ops->linear_free(linear);
        rig->ops->linear_free(begin(rig, &source)); /* a load that was cancelled */
    }
}

void test_device_parts(void **state) {
    each_part_form(*state, check_parts);
    assert_non_null(*state);
}

/* --- images ------------------------------------------------------------------------------------------------------- */

/* Returns the image of the matrix, in memory that the caller frees. */
static void *image_of(Rig *rig, const Products *products, size_t *len_bytesp) {
    const LinearSource source = begin_source(&products->matrices[0]);
    const void *image = rig->ops->linear_image(products_on(products, rig)[0], len_bytesp);
    size_t planned_bytes = 0;
    void *copy;

    assert_int_equal(rig->ops->linear_image_bytes(&source, &planned_bytes, NULL), 0);
    assert_int_equal(planned_bytes, *len_bytesp);
    copy = aligned_alloc(64, (*len_bytesp + 63) / 64 * 64);
    assert_non_null(copy);
    memcpy(copy, image, *len_bytesp);
    return copy;
}

static void check_image(Rig *rig, const Products *products) {
    LinearSource source = begin_source(&products->matrices[0]);
    _cleanup_(freep) void *image = NULL;
    const uint64_t used_bytes = rig_used_bytes(rig, ACCOUNT_WEIGHTS);
    BackendLinear *linear = NULL;
    ErrText err = { 0 };
    size_t len_bytes;

    if (!rig->ops->linear_image)
        return;
    image = image_of(rig, products, &len_bytes);
    source.image = image;
    source.image_bytes = len_bytes;
    linear = begin(rig, &source);
    finish(rig, linear, &source);
    same_matrix(rig, products, linear, "a matrix of an image");
    assert_true(rig_used_bytes(rig, ACCOUNT_WEIGHTS) >= used_bytes + len_bytes); /* mapped memory is charged too */
    rig->ops->linear_free(linear);
    assert_int_equal(rig_used_bytes(rig, ACCOUNT_WEIGHTS), used_bytes);
    linear = NULL;
    source.image_bytes -= 64;
    assert_int_equal(rig->ops->linear_begin(rig->backend, &linear, &source, &err), BACKEND_E_IMAGE);
    assert_null(linear);
    assert_non_null(strstr(err.text, "blk.0.test.weight"));
    assert_int_equal(rig_used_bytes(rig, ACCOUNT_WEIGHTS), used_bytes);
}

void test_device_image(void **state) {
    each_part_form(*state, check_image);
    assert_non_null(*state);
}

/* Fills the integers in one place, then moves them to another that held other integers before. */
static void check_streamed(Rig *rig, const Products *products) {
    const Matrix *matrix = &products->matrices[0];
    LinearSource source = begin_source(matrix);
    _cleanup_(freep) void *image = NULL, *slot = NULL;
    BackendLinear *linear;
    size_t len_bytes;

    if (!rig->ops->linear_at)
        return;
    image = image_of(rig, products, &len_bytes);
    slot = aligned_alloc(64, (len_bytes + 63) / 64 * 64);
    assert_non_null(slot);
    memset(slot, 0x55, len_bytes);
    source.streamed = true;
    source.image_bytes = len_bytes;
    linear = begin(rig, &source);
    rig->ops->linear_at(linear, slot);
    fill_all(rig, matrix, linear, true);
    finish(rig, linear, &source);
    same_matrix(rig, products, linear, "a streamed matrix");
    assert_memory_equal(slot, image, len_bytes);
    memset(slot, 0x55, len_bytes);
    rig->ops->linear_at(linear, image);
    same_matrix(rig, products, linear, "a streamed matrix in another place");
    rig->ops->linear_free(linear);
}

/* Expands the same integers from the package again, to another place, while the matrix is in use. */
static void check_expanded(Rig *rig, const Products *products) {
    const Matrix *matrix = &products->matrices[0];
    LinearSource source = begin_source(matrix);
    _cleanup_(freep) uint8_t *first = NULL, *second = NULL;
    BackendLinear *linear;

    if (!rig->ops->linear_expand)
        return;
    source.streamed = source.expanded = true;
    assert_int_equal(rig->ops->linear_image_bytes(&source, &source.image_bytes, NULL), 0);
    first = aligned_alloc(64, (source.image_bytes + 63) / 64 * 64);
    second = aligned_alloc(64, (source.image_bytes + 63) / 64 * 64);
    assert_true(first && second);
    memset(second, 0x55, source.image_bytes);
    linear = begin(rig, &source);
    rig->ops->linear_at(linear, first);
    fill_all(rig, matrix, linear, true);
    finish(rig, linear, &source);
    same_matrix(rig, products, linear, "an expanded matrix");
    for (size_t end = n_blocks(matrix), block; end > 0; end = block) {
        _cleanup_(freep) uint8_t *bytes = NULL;

        block = end > 3 ? end - 3 : 0;
        bytes = bytes_of(matrix, block, end);
        assert_true(rig->ops->linear_expand(rig->backend, linear, block, end, bytes, second));
    }
    assert_memory_equal(second, first, source.image_bytes);
    rig->ops->linear_at(linear, second);
    same_matrix(rig, products, linear, "an expanded matrix in another place");
    rig->ops->linear_free(linear);
}

void test_device_streamed(void **state) {
    each_part_form(*state, check_streamed);
    each_part_form(*state, check_expanded);
    assert_non_null(*state);
}

/* --- static graphs ------------------------------------------------------------------------------------------------ */

/* Runs a matrix in one shape after the other, with fewer rows than the shape and with more. */
static void check_shapes(Rig *rig, const Products *products) {
    const BackendOps *ops = rig->ops;
    const size_t shapes[][2] = {
        { ops->decode_rows, ops->decode_rows },  { ops->decode_rows, 16 },  { ops->prefill_rows, ops->prefill_rows },
        { ops->prefill_rows, ops->decode_rows }, { ops->prefill_rows, 16 }, { ops->prefill_rows, 0 }
    };
    const size_t counts[] = { 1, ops->decode_rows, ops->decode_rows + 1, products->rows };
    BackendLinear *linear = products_on(products, rig)[0];
    const size_t n = products->n_outputs;
    _cleanup_(freep) float *expected = malloc(products->rows * n * sizeof(float));

    assert_non_null(expected);
    linear_run(rig, linear, products->x, products->rows, expected);
    for (size_t s = 0; s < ARRAY_LEN(shapes); s++) {
        ops->linear_shape(linear, shapes[s][0], shapes[s][1]);
        for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
            const size_t first = products->rows - counts[i];
            GUARDED y = guarded_new(counts[i] * n);

            linear_run(rig, linear, products->x + first * products->in.k, counts[i], y);
            guarded_check(y, "a product of a static shape");
            if (memcmp(y, expected + first * n, counts[i] * n * sizeof(*y)) != 0)
                fail_msg("%zu rows in a graph of %zu, %zu at a time: not the products of another shape", counts[i],
                         shapes[s][0], shapes[s][1]);
        }
    }
}

/* Ends the product of rows [first, first + n) in a slot or on the processors, and checks it. */
static void check_ended(const Products *products, const float *expected, size_t first, size_t n, const float *y,
                        const char *what) {
    guarded_check(y, what);
    if (memcmp(y, expected + first * products->n_outputs, n * products->n_outputs * sizeof(*y)) != 0)
        fail_msg("%s: %zu rows are not what linear() gives", what, n);
}

/* Two products are under way, and one runs on the processors meanwhile. */
static void check_queued(Rig *rig, const Products *products) {
    const BackendOps *ops = rig->ops;
    const BackendLinear *linear = products_on(products, rig)[0];
    const size_t n = products->n_outputs, k = products->in.k, rows[] = { ops->prefill_rows, 37, 40 },
                 firsts[] = { 0, 3, ops->prefill_rows };
    _cleanup_(freep) float *expected = malloc(products->rows * n * sizeof(float));
    ErrText err = { 0 };

    assert_non_null(expected);
    assert_true(ops->product_slots >= 2 && ops->is_queued(linear));
    linear_run(rig, products_on(products, rig)[0], products->x, products->rows, expected);
    for (size_t s = 0; s < 2; s++) {
        GUARDED first = guarded_new(rows[0] * n);
        GUARDED second = guarded_new(rows[1] * n);
        GUARDED here = guarded_new(rows[2] * n);
        float *const ys[] = { first, second, here };
        BackendTime time = { 0 }, time_here = { 0 };
        uint64_t start_ns;

        ops->linear_shape(products_on(products, rig)[0], s ? ops->decode_rows : ops->prefill_rows, 0);
        for (size_t i = 0; i < 2; i++)
            ops->linear_submit(rig->backend, i, &linear, 1, products->x + firsts[i] * k, rows[i], &ys[i]);
        start_ns = clock_now_ns();
        assert_int_equal(
            ops->linear_here(rig->backend, &linear, 1, products->x + firsts[2] * k, rows[2], &ys[2], &time_here, &err),
            0);
        assert_true(time_here.start_ns >= start_ns && time_here.end_ns >= time_here.start_ns);
        assert_true(time_here.end_ns <= clock_now_ns());
        for (size_t i = 0; i < 2; i++) {
            const uint64_t before_ns = time.end_ns;

            assert_int_equal(ops->linear_end(rig->backend, i, &time, &err), 0);
            assert_true(ops->linear_is_over(rig->backend, i));
            assert_true(time.start_ns >= before_ns && time.end_ns >= time.start_ns); /* one at a time */
        }
        check_ended(products, expected, firsts[0], rows[0], first, "a product in slot 0");
        check_ended(products, expected, firsts[1], rows[1], second, "a product in slot 1");
        check_ended(products, expected, firsts[2], rows[2], here, "a product of the processors");
    }
}

void test_device_shapes(void **state) {
    DeviceSuite *suite = *state;
    Rig rigs[2];

    rig_open_pair(rigs, suite,
                  &(const BackendShape){
                      .rows = 320, .width = 256, .n_vocab = 1, .n_heads = 2, .n_kv_heads = 1, .head_size = 16 });
    assert_true(rigs[0].ops == rigs[1].ops);
    for (size_t i = 0; rigs[0].ops->linear_shape && i < 4; i++) {
        uint32_t hot[256];
        const MatrixInput in = { .k = i % 2 ? 256 : 100,
                                 .rotation_block = i % 2 ? 64 : 0,
                                 .scale = 0.01f,
                                 .shadow = i < 2,
                                 .hot = hot,
                                 .n_hot = i % 2 ? 256 : 100 };
        Products products;

        for (uint32_t j = 0; j < in.n_hot; j++)
            hot[j] = j;
        if (!matrix_is_taken(suite, MATRIX_INT8, &in))
            continue;
        products_init(&products, rigs, &in, (const MatrixForm[]){ MATRIX_INT8 }, (const size_t[]){ 150 }, 1, 0, true,
                      rigs[0].ops->prefill_rows + 40);
        check_shapes(&rigs[i / 2], &products);
        if (rigs[0].ops->linear_submit)
            check_queued(&rigs[i / 2], &products);
        products_deinit(&products, rigs);
    }
    rig_close_pair(rigs);
}
