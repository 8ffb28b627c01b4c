// SPDX-License-Identifier: Apache-2.0
#include "test/device/planted_faults.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/min_max.h"
#include "quant/format/ggml_type.h"

/* The table without the fault, for faulty functions that call the original. */
static const BackendOps *real;

/* --- products ----------------------------------------------------------------------------------------------------- */

static int linear_in_company(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                             size_t rows, const LinearOutput *out, ErrText *err) {
    const int r = real->linear(backend, linears, n, in, rows, out, err);

    if (rows > 1)
        out->y[0][0] = nextafterf(out->y[0][0], INFINITY);
    return r;
}

static int linear_of_zeros(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                           size_t rows, const LinearOutput *out, ErrText *err) {
    const int r = real->linear(backend, linears, n, in, rows, out, err);

    if (in->x[0] >= 0 && in->x[0] <= 0) /* as a division by the greatest value would do */
        out->y[0][0] = NAN;
    return r;
}

static int linear_with_others(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                              size_t rows, const LinearOutput *out, ErrText *err) {
    const int r = real->linear(backend, linears, n, in, rows, out, err);

    if (n > 1)
        out->y[n - 1][0] = nextafterf(out->y[n - 1][0], INFINITY);
    return r;
}

static int linear_that_never_fails(Backend *backend, const BackendLinear *const *linears, size_t n,
                                   const LinearInput *in, size_t rows, const LinearOutput *out, ErrText *err) {
    (void)real->linear(backend, linears, n, in, rows, out, err);
    return 0;
}

static int linear_with_other_eps(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                                 size_t rows, const LinearOutput *out, ErrText *err) {
    LinearInput other = *in;

    other.eps *= 2;
    return real->linear(backend, linears, n, &other, rows, out, err);
}

/* The stream stays as it was: only the product gets the sum. */
static int linear_without_stream(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                                 size_t rows, const LinearOutput *out, ErrText *err) {
    float was = in->stream ? in->stream[0] : 0;
    const int r = real->linear(backend, linears, n, in, rows, out, err);

    if (in->stream)
        in->stream[0] = was;
    return r;
}

static int linear_with_other_gate(Backend *backend, const BackendLinear *const *linears, size_t n,
                                  const LinearInput *in, size_t rows, const LinearOutput *out, ErrText *err) {
    LinearOutput other = *out;

    if (out->gate)
        other.gate = LINEAR_GATE_SILU;
    return real->linear(backend, linears, n, in, rows, &other, err);
}

typedef struct Dropping {
    LinearPieceFn *take;
    void *arg;
} Dropping;

static void take_first_pieces(void *arg, size_t first, size_t n, float *y, unsigned int worker) {
    const Dropping *dropping = arg;

    if (first < 2 * LINEAR_PIECE)
        dropping->take(dropping->arg, first, n, y, worker);
}

static int pieces_dropped(Backend *backend, const BackendLinear *linear, const float *x, size_t rows, size_t n_outputs,
                          float *scratch, LinearPieceFn *take, void *arg, ErrText *err) {
    Dropping dropping = { take, arg };

    return real->linear_pieces(backend, linear, x, rows, n_outputs, scratch, take_first_pieces, &dropping, err);
}

static size_t one_idle_row(const Backend *backend, size_t rows) {
    return 1;
}

static void no_counts(const Backend *backend, ShadowCounts *counts) {
    *counts = (ShadowCounts){ 0 };
}

/* --- weights ------------------------------------------------------------------------------------------------------ */

static int new_without_bias(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err) {
    LinearSource other = *source;

    other.bias = NULL;
    return real->linear_new(backend, linearp, &other, err);
}

static int new_without_shadow(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err) {
    LinearSource other = *source;

    other.activations.shadow = false;
    return real->linear_new(backend, linearp, &other, err);
}

static int new_of_any_type(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err) {
    LinearSource other = *source;

    if (!ggml_type_dequantizable(source->type))
        other.type = GGML_F32;
    return real->linear_new(backend, linearp, &other, err);
}

static int new_that_names_nothing(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err) {
    const int r = real->linear_new(backend, linearp, source, err);

    return r ? err_set(err, r, "bad weights") : 0;
}

static int new_that_leaks(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err) {
    Bill never_settled = { 0 };
    const int r = real->linear_new(backend, linearp, source, err);

    if (!r)
        (void)account_charge(backend->accounts, ACCOUNT_WEIGHTS, &never_settled, 64);
    return r;
}

/* Fills as if blocks always came in order. */
static void fill_in_order(const Backend *backend, BackendLinear *linear, size_t block_begin, size_t block_end,
                          const void *bytes) {
    static _Atomic(BackendLinear *) last_linear;
    static _Atomic size_t last_end;

    if (last_linear != linear)
        last_end = 0;
    last_linear = linear;
    if (block_begin >= last_end)
        real->linear_fill(backend, linear, block_begin, block_end, bytes);
    last_end = block_end;
}

static int image_bytes_too_many(const LinearSource *source, size_t *len_bytesp, ErrText *err) {
    const int r = real->linear_image_bytes(source, len_bytesp, err);

    *len_bytesp += 64;
    return r;
}

static void at_the_first_place(BackendLinear *linear, void *integers) {
    static BackendLinear *placed;

    if (placed != linear)
        real->linear_at(linear, integers);
    placed = linear;
}

static size_t graph_rows; /* rows of the last matrix that was shaped */

static void note_shape(BackendLinear *linear, size_t rows, size_t rows_at_once) {
    graph_rows = rows;
}

static int linear_of_its_shape(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                               size_t rows, const LinearOutput *out, ErrText *err) {
    const int r = real->linear(backend, linears, n, in, rows, out, err);

    if (graph_rows > 32)
        out->y[0][0] = nextafterf(out->y[0][0], INFINITY);
    return r;
}

/* A product overwrites the one before, whatever its slot. */
static struct {
    const BackendLinear *linears[4];
    size_t n, rows;
    const float *x;
    float *y[4];
} submitted;

static bool any_is_queued(const BackendLinear *linear) {
    return true;
}

static void submit_in_one_place(Backend *backend, size_t slot, const BackendLinear *const *linears, size_t n,
                                const float *x, size_t rows, float *const *y) {
    submitted.n = n;
    submitted.rows = rows;
    submitted.x = x;
    for (size_t i = 0; i < n; i++) {
        submitted.linears[i] = linears[i];
        submitted.y[i] = y[i];
    }
}

static bool is_over(const Backend *backend, size_t slot) {
    return true;
}

static int end_the_last(Backend *backend, size_t slot, BackendTime *time, ErrText *err) {
    return real->linear(backend, submitted.linears, submitted.n, &(LinearInput){ .x = submitted.x }, submitted.rows,
                        &(LinearOutput){ .y = submitted.y }, err);
}

static int here(Backend *backend, const BackendLinear *const *linears, size_t n, const float *x, size_t rows,
                float *const *y, BackendTime *time, ErrText *err) {
    time->start_ns = time->end_ns = clock_now_ns();
    return real->linear(backend, linears, n, &(LinearInput){ .x = x }, rows, &(LinearOutput){ .y = y }, err);
}

static int reserve_says_nothing(Backend *backend, const BackendShape *shape, ErrText *err) {
    return real->reserve(backend, shape, NULL) ? -ENOMEM : 0;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static void embed_without_factor(Backend *backend, const BackendLinear *embedding, const uint32_t *tokens, size_t rows,
                                 float factor, float *y) {
    real->embed(backend, embedding, tokens, rows, 1, y);
}

static void norm_past_the_end(Backend *backend, const float *x, const float *w, float eps, size_t rows, size_t n,
                              float *y) {
    real->norm(backend, x, w, eps, rows, n, y);
    y[rows * n] = 0;
}

/* A single NaN in a row zeroes all rows of the call. */
static void norm_of_the_call(Backend *backend, const float *x, const float *w, float eps, size_t rows, size_t n,
                             float *y) {
    real->norm(backend, x, w, eps, rows, n, y);
    for (size_t i = 0; i < rows * n; i++)
        if (isnan(x[i]))
            memset(y, 0, rows * n * sizeof(*y));
}

/* Allocates its scratch at every call. */
static void norm_that_allocates(Backend *backend, const float *x, const float *w, float eps, size_t rows, size_t n,
                                float *y) {
    _cleanup_(freep) float *copy = malloc(rows * n * sizeof(*copy));

    if (copy)
        memcpy(copy, x, rows * n * sizeof(*copy));
    real->norm(backend, copy ? copy : x, w, eps, rows, n, y);
}

/* Uses scratch that all threads of the device share. */
static void norm_in_shared_scratch(Backend *backend, const float *x, const float *w, float eps, size_t rows, size_t n,
                                   float *y) {
    static float scratch[16384];

    if (rows * n <= ARRAY_LEN(scratch))
        memcpy(scratch, x, rows * n * sizeof(*x));
    usleep(2000);
    real->norm(backend, rows * n <= ARRAY_LEN(scratch) ? scratch : x, w, eps, rows, n, y);
}

static void rope_of_other_pairs(Backend *backend, float *x, const float *cos, const float *sin, size_t rows,
                                size_t n_heads, size_t head_size, size_t n_rot, bool neox) {
    real->rope(backend, x, cos, sin, rows, n_heads, head_size, n_rot, false);
}

static void gated_by_silu(Backend *backend, float *gate, const float *up, size_t rows, size_t n, bool gelu) {
    real->gated(backend, gate, up, rows, n, false);
}

static void add_but_the_last(Backend *backend, float *x, const float *y, size_t rows, size_t n) {
    real->add(backend, x, y, 1, rows * n - 1);
}

/* --- attention ---------------------------------------------------------------------------------------------------- */

static void attention_without_window(Backend *backend, const AttentionCall *call) {
    AttentionCall other = *call;

    other.window = 0;
    real->attention(backend, &other);
}

static void joint_without_window(Backend *backend, const AttentionCall *call, BackendJointTime *time) {
    *time = (BackendJointTime){ .wait_ns = 0 };
    attention_without_window(backend, call);
}

static void attention_of_wide_window(Backend *backend, const AttentionCall *call) {
    AttentionCall other = *call;

    other.window += other.window > 0;
    real->attention(backend, &other);
}

/* Calls the original on other rows. */
static void attention_on(Backend *backend, const AttentionCall *call, void (*change)(Batch *batch, size_t row)) {
    const size_t n = call->batch->earlier.first + call->batch->earlier.n, n_rows = MAX(n, call->batch->n_rows);
    _cleanup_(freep) BatchRow *rows = malloc(n_rows * sizeof(*rows));
    Batch batch = *call->batch;
    AttentionCall other = *call;

    if (!rows)
        return;
    memcpy(rows, batch.rows, n_rows * sizeof(*rows));
    batch.rows = rows;
    other.batch = &batch;
    for (size_t r = 0; r < batch.n_rows; r++)
        change(&batch, r);
    real->attention(backend, &other);
}

static void follow_the_one_before(Batch *batch, size_t row) {
    if (batch->rows[row].slot > 0)
        batch->rows[row].parent = (uint32_t)row - 1;
}

static void attention_of_siblings(Backend *backend, const AttentionCall *call) {
    attention_on(backend, call, follow_the_one_before);
}

/* Takes rows of earlier steps for the first row of this one. */
static void follow_this_step(Batch *batch, size_t row) {
    BatchRow *at = &batch->rows[row];

    if (batch->earlier.n && at->slot != BATCH_IN_PLACE && at->parent >= batch->earlier.first)
        at->parent = (uint32_t)batch->earlier.first;
}

static void attention_of_this_step(Backend *backend, const AttentionCall *call) {
    attention_on(backend, call, follow_this_step);
}

static void look_ahead(Batch *batch, size_t row) {
    if ((batch->rows[row].position + 1) % 64)
        batch->rows[row].position++;
}

static void attention_that_looks_ahead(Backend *backend, const AttentionCall *call) {
    attention_on(backend, call, look_ahead);
}

static void be_of_the_first(Batch *batch, size_t row) {
    const BatchSequence *first = &batch->sequences[0];

    if (batch->rows[row].position < batch->rows[first->rows.first].position)
        batch->rows[row].sequence = 0;
}

static void attention_of_the_first(Backend *backend, const AttentionCall *call) {
    attention_on(backend, call, be_of_the_first);
}

static void attention_that_writes(Backend *backend, const AttentionCall *call) {
    const BatchRow *row = &call->batch->rows[call->rows.first];
    float *block = call->batch->sequences[row->sequence].blocks[row->position / 64];

    real->attention(backend, call);
    block[call->kv.k_offset_bytes / sizeof(float)] = 1;
}

static void store_beside(Backend *backend, const AttentionCall *call) {
    const BatchRow *row = &call->batch->rows[call->rows.first];
    float *block = call->batch->sequences[row->sequence].blocks[row->position / 64];

    real->kv_store(backend, call);
    block[0] = 1;
}

/* Places all layers where the first one is. */
static AttentionCall in_the_first_layer(const AttentionCall *call) {
    static size_t k_offset_bytes, v_offset_bytes;
    AttentionCall other = *call;

    if (!v_offset_bytes) {
        k_offset_bytes = call->kv.k_offset_bytes;
        v_offset_bytes = call->kv.v_offset_bytes;
    }
    other.kv.k_offset_bytes = k_offset_bytes;
    other.kv.v_offset_bytes = v_offset_bytes;
    return other;
}

static void store_in_the_first_layer(Backend *backend, const AttentionCall *call) {
    const AttentionCall other = in_the_first_layer(call);

    real->kv_store(backend, &other);
}

/* Block content remembered by address: only positions that the device has written itself count. */
enum {
    KNOWN_MAX = 256,
};

static struct KnownBlock {
    void *block;
    uint64_t positions;
} known_blocks[KNOWN_MAX];

static struct KnownBlock *known(void *block) {
    size_t i = 0;

    while (i + 1 < KNOWN_MAX && known_blocks[i].block && known_blocks[i].block != block)
        i++;
    known_blocks[i].block = block;
    return &known_blocks[i];
}

static void store_and_remember(Backend *backend, const AttentionCall *call) {
    for (size_t r = 0; r < call->rows.n; r++) {
        const BatchRow *row = &call->batch->rows[call->rows.first + r];

        if (row->slot == BATCH_IN_PLACE)
            known(call->batch->sequences[row->sequence].blocks[row->position / 64])->positions |= UINT64_C(1)
                                                                                                  << row->position % 64;
    }
    real->kv_store(backend, call);
}

static void attention_from_memory(Backend *backend, const AttentionCall *call) {
    const BatchRow *row = &call->batch->rows[call->rows.first];

    for (uint32_t p = 0; p < row->position; p++)
        if (!(known(call->batch->sequences[row->sequence].blocks[p / 64])->positions >> p % 64 & 1))
            memset(call->q, 0, call->n_heads * call->kv.head_size * sizeof(*call->q));
    real->attention(backend, call);
}

/* Stores values outside float16's range without clamping, as that type would. */
static void store_without_a_limit(Backend *backend, const AttentionCall *call) {
    const size_t n = call->rows.n * call->kv.n_kv_heads * call->kv.head_size;
    _cleanup_(freep) float *v = malloc(n * sizeof(*v));
    AttentionCall other = *call;

    if (!v)
        return;
    for (size_t i = 0; i < n; i++)
        v[i] = fabsf(call->v[i]) > 65504 ? copysignf(INFINITY, call->v[i]) : call->v[i];
    other.v = v;
    real->kv_store(backend, &other);
}

static void moves_from_the_last(Backend *backend, const KvLayer *layer, const KvMove *moves, size_t n_moves) {
    while (n_moves-- > 0)
        real->kv_move(backend, layer, &moves[n_moves], 1);
}

static void moves_of_keys(Backend *backend, const KvLayer *layer, const KvMove *moves, size_t n_moves) {
    KvLayer keys = *layer;

    keys.v_offset_bytes = keys.k_offset_bytes;
    real->kv_move(backend, &keys, moves, n_moves);
}

static void attention_without_cap(Backend *backend, const AttentionCall *call) {
    AttentionCall other = *call;

    other.soft_cap = 0;
    real->attention(backend, &other);
}

static void attention_without_balance(Backend *backend, const AttentionCall *call) {
    AttentionCall other = *call;

    other.balance = NULL;
    real->attention(backend, &other);
}

/* Multiplies queries by the balance of keys that were not divided by it. */
static void attention_with_half_a_balance(Backend *backend, const AttentionCall *call) {
    if (call->balance)
        call->q[0] *= call->balance[0];
    real->attention(backend, call);
}

static void attention_of_the_last_few_hundred(Backend *backend, const AttentionCall *call) {
    AttentionCall other = *call;

    other.window = call->window ? MIN(call->window, 400) : 400;
    real->attention(backend, &other);
}

static void layer_norm_without_bias(Backend *backend, const float *x, const float *w, const float *bias, float eps,
                                    size_t rows, size_t n, float *y) {
    real->layer_norm(backend, x, w, bias, eps, rows, n, y);
    for (size_t i = 0; i < rows * n; i++)
        y[i] -= bias[i % n];
}

static void activate_by_silu(Backend *backend, float *x, size_t rows, size_t n, bool gelu) {
    real->activate(backend, x, rows, n, false);
}

static int linear_without_norm_bias(Backend *backend, const BackendLinear *const *linears, size_t n,
                                    const LinearInput *in, size_t rows, const LinearOutput *out, ErrText *err) {
    LinearInput other = *in;

    other.norm_bias = NULL;
    return real->linear(backend, linears, n, &other, rows, out, err);
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

#define FIELD(field, function) offsetof(BackendOps, field), (void (*)(void))(function)

const PlantedFault planted_faults[] = {
    { "company", false, FIELD(linear, linear_in_company), "products", "among" },
    { "no_bias", false, FIELD(linear_new, new_without_bias), "products", "products of F32" },
    { "zeros", false, FIELD(linear, linear_of_zeros), "products_extreme", "products of extreme rows" },
    { "others", true, FIELD(linear, linear_with_others), "products_together", "products of several matrices" },
    { "fused_eps", true, FIELD(linear, linear_with_other_eps), "fused_input", "is not that of the operators apart" },
    { "fused_stream", true, FIELD(linear, linear_without_stream), "fused_input", "product of the norm of a sum: row" },
    { "fused_bias", true, FIELD(linear, linear_without_norm_bias), "fused_input",
      "is not that of the operators apart" },
    { "fused_gate", true, FIELD(linear, linear_with_other_gate), "fused_gate", "by the operators apart" },
    { "pieces", true, FIELD(linear_pieces, pieces_dropped), "pieces", "outputs, 0 wrong ranges" },
    { "idle_rows", false, FIELD(idle_rows, one_idle_row), "idle_rows", "!=" },
    { "no_shadow", true, FIELD(linear_new, new_without_shadow), "outliers", "products with shadows" },
    { "no_counts", true, FIELD(shadow_counts, no_counts), "outliers", "!=" },
    { "failed_read", true, FIELD(linear, linear_that_never_fails), "columns_of_a_file", "!=" },
    { "fill_order", true, FIELD(linear_fill, fill_in_order), "parts", "a matrix in parts" },
    { "image_bytes", true, FIELD(linear_image_bytes, image_bytes_too_many), "image", "!=" },
    { "one_place", true, FIELD(linear_at, at_the_first_place), "streamed", "in another place" },
    { "shape", true, FIELD(linear, linear_of_its_shape), "shapes", "in a graph of 256" },
    { "slots", true, FIELD(linear_submit, submit_in_one_place), "shapes", "a product in slot 0" },
    { "any_type", false, FIELD(linear_new, new_of_any_type), "refusals", "a type that is none" },
    { "no_name", false, FIELD(linear_new, new_that_names_nothing), "refusals", "does not name the tensor" },
    { "leak", false, FIELD(linear_new, new_that_leaks), "weights_account", "!=" },
    { "free_weights", true, FIELD_NONE, NULL, "weights_account", "used_bytes" },
    { "no_text", false, FIELD(reserve, reserve_says_nothing), "reserve", "BACKEND_E_MEMORY" },
    { "half_a_table", true, offsetof(BackendOps, linear_fill), NULL, "table", "linear_fill" },
    { "embed_factor", false, FIELD(embed, embed_without_factor), "embed", "embedding: value" },
    { "past_a_row", false, FIELD(norm, norm_past_the_end), "norm", "behind the end of an array" },
    { "spoiled", false, FIELD(norm, norm_of_the_call), "norm", "beside rows that are not finite" },
    { "rope_pairs", false, FIELD(rope, rope_of_other_pairs), "rope", "rope, neox: value" },
    { "gelu", false, FIELD(gated, gated_by_silu), "gated", "gated, gelu: value" },
    { "layer_norm", false, FIELD(layer_norm, layer_norm_without_bias), "norm", "layer norm: value" },
    { "activate", false, FIELD(activate, activate_by_silu), "activate", "activate, gelu: value" },
    { "add", false, FIELD(add, add_but_the_last), "add", "add" },
    { "allocates", false, FIELD(norm, norm_that_allocates), "allocations", "norm allocates memory" },
    { "threads", false, FIELD(norm, norm_in_shared_scratch), "threads", "gave other bits" },
    { "no_window", false, FIELD(attention, attention_without_window), "chain", "attention with a window: value" },
    { "no_joint_window", false, FIELD(attention_joint, joint_without_window), "chain", "joint attention" },
    { "no_cap", false, FIELD(attention, attention_without_cap), "chain", "attention with a soft cap: value" },
    { "wide_window", false, FIELD(attention, attention_of_wide_window), "chain", "attention with a window: value" },
    { "looks_ahead", false, FIELD(attention, attention_that_looks_ahead), "chain", "attention: value" },
    { "forgets", false, FIELD(attention, attention_of_the_last_few_hundred), "long", "behind many positions: value" },
    { "attention_writes", false, FIELD(attention, attention_that_writes), "chain", "attention has written" },
    { "first_sequence", false, FIELD(attention, attention_of_the_first), "company", "attention among other sequences" },
    { "siblings", false, FIELD(attention, attention_of_siblings), "trees", "attention in a tree" },
    { "this_step", false, FIELD(attention, attention_of_this_step), "open_trees", "second step of an open tree" },
    { "move_order", false, FIELD(kv_move, moves_from_the_last), "moves", "in their order" },
    { "move_keys", false, FIELD(kv_move, moves_of_keys), "moves", "behind what was kept" },
    { "known_blocks", false, FIELD(attention, attention_from_memory), "pages", "shared and copied blocks" },
    { "store_beside", false, FIELD(kv_store, store_beside), "chain", "beside the planes of the layer" },
    { "first_layer", false, FIELD(kv_store, store_in_the_first_layer), "layers", "beside the planes of the layer" },
    { "no_limit", false, FIELD(kv_store, store_without_a_limit), "attention_extreme", "extreme values: value" },
    { "no_balance", true, FIELD(attention, attention_without_balance), "balance", "attention with balance: value" },
    { "float_balance", false, FIELD(attention, attention_with_half_a_balance), "balance", "of floats with balance" },
};
const size_t planted_faults_n = ARRAY_LEN(planted_faults);

static const PlantedFault *planted;
static const DeviceUnderTest *planted_sound;
static BackendOps faulty;

static int faulty_new(Backend **backendp, uint32_t cpu, WorkerPool *pool, AccountTable *accounts, ErrText *err);

/* Makes thread handles that share the scratch of one thread. */
static int thread_with_shared_scratch(const Backend *backend, Backend **threadp, WorkerPool *pool, ErrText *err) {
    return faulty_new(threadp, 0, pool, backend->accounts, err);
}

static size_t any_rows(const Backend *backend) {
    return 1;
}

static int faulty_new(Backend **backendp, uint32_t cpu, WorkerPool *pool, AccountTable *accounts, ErrText *err) {
    static AccountTable nobody; /* account table of memory that is not charged */
    int r;

    if (planted->field == FIELD_NONE)
        account_table_init(&nobody);
    r = planted_sound->device.make(backendp, cpu, pool, planted->field == FIELD_NONE ? &nobody : accounts, err);
    if (r)
        return r;
    real = (*backendp)->ops;
    faulty = *real;
    if (planted->field != FIELD_NONE)
        memcpy((uint8_t *)&faulty + planted->field, &planted->function, sizeof(planted->function));
    if (!strcmp(planted->check, "threads")) {
        faulty.thread_new = thread_with_shared_scratch;
        faulty.thread_rows = any_rows;
    }
    if (!strcmp(planted->check, "shapes")) {
        faulty.linear_shape = note_shape;
        faulty.prefill_rows = 256;
        faulty.decode_rows = 32;
    }
    if (!strcmp(planted->name, "slots")) {
        faulty.product_slots = 2;
        faulty.is_queued = any_is_queued;
        faulty.linear_is_over = is_over;
        faulty.linear_end = end_the_last;
        faulty.linear_here = here;
    }
    if (!strcmp(planted->name, "known_blocks"))
        faulty.kv_store = store_and_remember;
    (*backendp)->ops = &faulty;
    return 0;
}

DeviceUnderTest planted_device(const DeviceUnderTest *sound, const PlantedFault *fault) {
    DeviceUnderTest device = *sound;

    planted = fault;
    planted_sound = sound;
    device.name = fault->name;
    device.device.make = faulty_new;
    return device;
}
