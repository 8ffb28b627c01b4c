// SPDX-License-Identifier: Apache-2.0
/* A device: a table of operators on rows, behind which weights live in the device's own layout. The forward pass
 * (forward.c) knows no device; a new one is a new folder with such a table. test/device holds any device against
 * all that is said here; docs/porting.md is the way to a new one.
 *
 * Every operator works row by row: what it gives for a row must not depend on the other rows of the call, on their
 * number and order, or on the number of threads (design, invariant 1). What a row gives whose values are not all finite
 * is not said, but it is that row's affair alone. Sums have one order for all numbers of rows; which one is the
 * device's choice, and so are its last bits beside those of another device.
 *
 * Arrays of floats are aligned as a float is, and no more; blocks of a cache, packed weights and what linear_at() gets
 * to 64. An operator writes its outputs and nothing else, and allocates nothing; outputs do not overlap inputs, but
 * where that is said. A device has one caller at a time, but for linear_fill(). */
#ifndef COORDGEN_BACKENDS_BACKEND_H
#define COORDGEN_BACKENDS_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/batch.h"
#include "base/err.h"
#include "base/memory/account.h"
#include "base/system/worker_pool.h"
#include "quant/format/grid.h"

enum {
    BACKEND_E_MEMORY = 1,  /* a memory account's limit */
    BACKEND_E_WEIGHTS = 2, /* weights the device cannot take; the text names the tensor and why */
    BACKEND_E_READ = 3,    /* weights that are read on demand could not be; the text names file, tensor and why */
    BACKEND_E_IMAGE = 4,   /* the image of a matrix has not the size of these weights */
    BACKEND_E_SHARED = 5,  /* products use what several threads can not at the same time */
};

typedef struct Backend Backend;
typedef struct BackendLinear BackendLinear; /* one weight matrix in the device's layout */

/* An open file that a device reads columns of matrices from while it computes. */
typedef struct ColumnFile {
    int fd;
    const char *path; /* for messages */
} ColumnFile;

/* How the inputs of a matrix become int8. All zero: dynamic-row: q = rint(x * (127 / amax)) within +-127, amax being
 * the greatest |x| of the row behind its rotation; all zero where 127 / amax is not finite. The product is
 * float(sum of q w) * (amax / 127 * scales[o]), then + bias[o] where there is one: the sum is exact, every other step
 * one in float32.
 * Static-tensor: the same with q = rint(x * (1 / scale)) and `scale` in place of amax / 127; with shadow, then comes
 * (x - +-127 scale) * (scales[o] * w) for every |x| > 127 scale, by rising inputs. */
typedef struct LinearActivations {
    float scale;         /* static-tensor: of all rows, within LINEAR_SCALE_MIN..MAX; 0: dynamic-row */
    bool shadow;         /* inputs past 127 scale are made good beside the product; else they are clipped */
    const uint32_t *hot; /* with shadow: [n_hot], rising: inputs whose column of weights stays in memory */
    size_t n_hot;
    /* With shadow: where int8[k][n], the matrix by columns, is: in a file, which outlives the matrix, or in memory, for
     * linear_new() only; then all inputs are hot. */
    const ColumnFile *file;
    uint64_t file_offset_bytes;
    const int8_t *columns;
} LinearActivations;

#define LINEAR_SCALE_MIN 1e-30f
#define LINEAR_SCALE_MAX 1e30f

/* A matrix y[n] = W[n][k] x[k] + bias as the model file has it; valid during linear_new() only, but for `data`, which a
 * device that reads no packages may go on reading (the file stays mapped while that device lives). */
typedef struct LinearSource {
    const char *name;
    size_t n, k;
    uint32_t type;         /* GgmlType; GGML_I8: int8 rows with scales */
    const void *data;      /* row-major, n rows of k values; NULL with `packed` */
    const float *scales;   /* [n], GGML_I8 only */
    const uint8_t *packed; /* GGML_I8: the matrix in the packed layout (quant/format/pack.h), or NULL; aligned to 64 */
    const int8_t *bits;    /* [n], with `packed`: width of every channel, 1..8 */
    Grid grid;             /* with `packed`: what the codes mean */
    uint32_t
        rotation_block; /* GGML_I8: inputs are rotated by such blocks (quant/rotate.h) before they are int8; 0: not */
    const float *bias;  /* [n] or NULL; copied */
    const void *image;  /* linear_begin(): bytes that linear_image() gave, which outlive the matrix; or NULL */
    size_t image_bytes;
    /* linear_begin(): linear_at() says where the integers, image_bytes of them, are, and says it again where others
     * take their place meanwhile. Whoever has that memory has charged it. */
    bool streamed;
    bool expanded; /* linear_begin(): with `bits`, integers that are not packed in memory; linear_image_bytes(), too */
    LinearActivations activations;
} LinearSource;

/* What a product takes in, row by row: x, or what one operator makes of it on the way. */
typedef struct LinearInput {
    const float *x;         /* f32[rows][k] */
    const float *norm;      /* f32[k]: x / sqrt(mean(x^2) + eps) * norm instead of x; or NULL */
    const float *norm_bias; /* f32[k], with norm: LayerNorm of x instead, as layer_norm(); or NULL */
    float eps;
    float *stream; /* f32[rows][k], with norm: becomes stream + x, and the norm is of that; or NULL */
} LinearInput;

typedef enum LinearGate {
    LINEAR_GATE_NONE,
    LINEAR_GATE_SILU,
    LINEAR_GATE_GELU, /* gelu_tanh */
} LinearGate;

/* Where products go. */
typedef struct LinearOutput {
    float *const *y; /* y[i] f32[rows][n_i] */
    /* Of two products, as many outputs each: y[0] becomes activation(product 0) * product 1, y[1] anything. */
    LinearGate gate;
} LinearOutput;

/* Products that any device has under way at most: how many one has is its own number (product_slots). */
#define BACKEND_PRODUCT_SLOTS_MAX 8

/* Outputs that a piece of a product has at most. */
#define LINEAR_PIECE 512

/* Outputs [first, first + n) of all rows: y f32[rows][LINEAR_PIECE], the callee's during the call. Thread: the pool's
 * `worker`; pieces of one worker come in rising order. */
typedef void LinearPieceFn(void *arg, size_t first, size_t n, float *y, unsigned int worker);

/* Rows [first, first + rows) of a batch in one layer: each against the cache of its sequence. */
typedef struct AttentionCall {
    const Batch *batch;
    size_t first, rows;
    float *q;       /* [rows][n_heads * head_size], of row `first` on; replaced by the output */
    const float *k; /* kv_store(): [rows][n_kv_heads * head_size] */
    const float *v;
    /* In every block of a cache the keys of this layer begin at one offset and the values at another, both multiples of
     * 64; each are kv_block_positions * n_kv_heads * head_size of the device's KV type, as the device lays them out.
     * When a row attends, its sequence's cache holds all positions up to its own, but for those that its parents with a
     * slot have, and itself: these are in the side block (batch_side_rows()). */
    size_t k_offset_bytes, v_offset_bytes;
    size_t n_heads, n_kv_heads, head_size; /* n_heads is a multiple of n_kv_heads; head_size one of 16 */
    size_t window;                         /* positions seen, the own included; 0: all */
    float scale;
    float soft_cap; /* scores become soft_cap * tanh(score / soft_cap); 0: they do not */
} AttentionCall;

/* Where keys and values of a layer are in every block: as AttentionCall has it. */
typedef struct KvLayer {
    size_t k_offset_bytes, v_offset_bytes;
    size_t n_kv_heads, head_size;
} KvLayer;

/* From a position of a block to one of another. */
typedef struct KvMove {
    void *from, *to;
    size_t from_position, to_position; /* below kv_block_positions */
} KvMove;

/* Largest call that will be made; scratch is reserved for it. */
typedef struct BackendShape {
    size_t rows;
    size_t width; /* inputs of a product */
    size_t n_vocab;
    size_t n_heads, n_kv_heads, head_size;
} BackendShape;

/* What shadow outliers have cost since the device was made. */
typedef struct ShadowCounts {
    uint64_t n_rows;           /* inputs of operators that have a shadow */
    uint64_t n_outliers;       /* of their values, those past the threshold */
    uint64_t n_hot;            /* of these, those of hot channels */
    uint64_t n_columns_read;   /* from the package */
    uint64_t n_columns_cached; /* not hot, but read a short while before */
} ShadowCounts;

/* Of the clock (base/clock.h). */
typedef struct BackendTime {
    uint64_t start_ns, end_ns;
} BackendTime;

typedef struct BackendOps {
    const char *name;    /* "cpu" */
    const char *kv_type; /* "f16" */
    size_t kv_element_bytes;
    /* Positions of a block of the cache, more than BATCH_SLOTS_MAX. Nothing but attention() and kv_move() reads what is
     * in a block; blocks may be copied whole and shared by sequences, so that a device knows nothing of them but what
     * is in them, and what is behind the last position that was written is never read. What is finite stays finite in
     * a KV type that holds less than float32. */
    size_t kv_block_positions;

    Backend *(*free)(Backend *backend);
    const char *(*kernel)(const Backend *backend); /* which product kernel runs */
    /* Scratch for all operators, charged to ACCOUNT_ACTIVATIONS. Before the weights or behind them, and again when
     * calls grow. 0, -ENOMEM, or BACKEND_E_MEMORY with a text; then it may be tried again with more room. */
    int (*reserve)(Backend *backend, const BackendShape *shape, ErrText *err);
    /* The same device for operators of one thread: all matrices can be used with both, each has scratch of its own, and
     * what runs on one does not meet what runs on the other. Each is reserved by itself, rows and positions. The pool
     * has one thread. Freed before this one. NULL: operators of this device run one at a time. BACKEND_E_SHARED: its
     * matrices do not allow it. */
    int (*thread_new)(const Backend *backend, Backend **threadp, WorkerPool *pool, ErrText *err);
    /* With thread_new: rows from which on its operators compute for longer than they take to get at the weights, which
     * no other thread then gets for them. */
    size_t (*thread_rows)(const Backend *backend);
    /* Rows of a step that are enough for its products to be about as fast as with any more. NULL: no matter. */
    size_t (*step_rows)(const Backend *backend);
    /* Rows that products of so many compute beside these, because they work in whole tiles: one less with each row
     * more, until the tile is whole. NULL: none. */
    size_t (*idle_rows)(const Backend *backend, size_t rows);
    /* Scratch of attention over n_positions; may grow. As reserve. */
    int (*reserve_positions)(Backend *backend, size_t n_positions, ErrText *err);

    /* What it copies is charged to ACCOUNT_WEIGHTS, in the device's layout. 0; BACKEND_E_WEIGHTS: not one of the forms
     * that the device takes, or values that contradict themselves; BACKEND_E_MEMORY; -ENOMEM. The text names the
     * tensor, and nothing stays charged. */
    int (*linear_new)(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err);
    /* The same for weights that come in parts: begin without data and packed (with bits the matrix is packed); fill for
     * every block of 16 outputs once, with the bytes of [block_begin, block_end) as the package has them, in any order
     * and on any thread; then finish with the source of begin. NULL: the device wants the matrix as a whole. */
    int (*linear_begin)(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err);
    void (*linear_fill)(const Backend *backend, BackendLinear *linear, size_t block_begin, size_t block_end,
                        const void *bytes);
    int (*linear_finish)(Backend *backend, BackendLinear *linear, const LinearSource *source, ErrText *err);
    /* All matrices of a load that will be filled have been begun: their memory may be brought ahead of that. NULL: a
     * device without need for it. */
    void (*linears_begun)(Backend *backend);
    BackendLinear *(*linear_free)(BackendLinear *linear); /* also one that was not finished; NULL is none */
    /* The integers of a matrix that is finished, as they lie in memory. linear_begin() takes them back in place of what
     * fill would bring (the source is the same otherwise, finish follows). They are only multiplied with: nothing in
     * them becomes an address or a size. Of another device or another `image_layout` they must not come. NULL: the
     * device has none. */
    const void *(*linear_image)(const BackendLinear *linear, size_t *len_bytesp);
    const char *image_layout; /* "cpu 1": changes with every change of the layout */
    /* With linear_image: how many bytes it will give for a matrix of n, k, bits and grid. 0, BACKEND_E_WEIGHTS,
     * -ENOMEM. */
    int (*linear_image_bytes)(const LinearSource *source, size_t *len_bytesp, ErrText *err);
    /* Where the integers of a streamed matrix are from now on: products read them there, and until it is finished fill
     * writes them there. Aligned to 64. Not while anything uses the matrix. */
    void (*linear_at)(BackendLinear *linear, void *integers);
    /* A device of static graphs: a product with a matrix of static-tensor activations computes the rows of its graph,
     * those of the call and rows of zeros; of more it runs several times. Graphs for prompts and for what is generated
     * have so many rows, and integers of their own: linear_at() says where those of the graph are that is used next,
     * and linear_shape() its rows, one of these two, and how many of them the product takes at a time: a part of them,
     * and a multiple of 16; 0: as the device does best with. It makes no difference to the bits. Matrices of one call
     * have the same. Not while anything uses the matrix. 0 and NULL: one copy of the weights serves any rows. */
    size_t prefill_rows, decode_rows;
    void (*linear_shape)(BackendLinear *linear, size_t rows, size_t rows_at_once);
    /* With linear_shape: what linear_fill() writes for these blocks of a streamed matrix, begun or finished, to
     * `integers`, from where linear_at() may have it later. Whether the weights are ones that the device takes. Thread:
     * any, while products and other calls use the matrix. */
    bool (*linear_expand)(const Backend *backend, const BackendLinear *linear, size_t block_begin, size_t block_end,
                          const void *bytes, void *integers);

    /* With linear_shape, on a device whose products run beside the processors: product_slots of them may be under way
     * at once, each in a slot that nobody else uses until its end, in steps with rows for more than one graph of
     * prompts. submit begins what `linear` would do, of at most prefill_rows rows and matrices that are all queued, and
     * returns; is_over: end would not wait; end waits, says when the queue worked at it, and then y is whole: 0, or as
     * `linear`. From submit to end the caller leaves x, y and the matrices alone. here: the same product by the
     * processors, as `linear`; it says when they worked at what the queue would have. Thread: the one that computes. */
    size_t product_slots;
    bool (*is_queued)(const BackendLinear *linear);
    void (*linear_submit)(Backend *backend, size_t slot, const BackendLinear *const *linears, size_t n, const float *x,
                          size_t rows, float *const *y);
    bool (*linear_is_over)(const Backend *backend, size_t slot);
    int (*linear_end)(Backend *backend, size_t slot, BackendTime *time, ErrText *err);
    int (*linear_here)(Backend *backend, const BackendLinear *const *linears, size_t n, const float *x, size_t rows,
                       float *const *y, BackendTime *time, ErrText *err);

    /* y[i] = x W[i]^T + bias[i] for n matrices, 3 at most, that share their input, its rotation and its activations:
     * each as it would be alone. 0; BACKEND_E_READ or -errno: y is undefined, and the next call is as if this had not
     * been. */
    int (*linear)(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in, size_t rows,
                  const LinearOutput *out, ErrText *err);
    /* With linear_pieces, which may be NULL: whether the device can give a matrix's outputs so. */
    bool (*has_pieces)(const BackendLinear *linear);
    /* The product of the first n_outputs of a matrix (all at most) and x f32[rows][k], piece by piece while a piece is
     * in the cache, the bits those of `linear`; every output once. scratch: f32[threads of the
     * pool][rows][LINEAR_PIECE]. 0, else as `linear`. */
    int (*linear_pieces)(Backend *backend, const BackendLinear *linear, const float *x, size_t rows, size_t n_outputs,
                         float *scratch, LinearPieceFn *take, void *arg, ErrText *err);
    bool fuses; /* `linear` takes in norm, stream and gate; the bits are those of the operators apart */
    void (*shadow_counts)(const Backend *backend, ShadowCounts *counts); /* zeros, where there are no shadows */
    /* Rows that `embed` will read of integers that are mapped from a file and may not be in memory: they are asked for
     * all at once, and nobody waits. NULL: it reads none so. */
    void (*embed_ahead)(const BackendLinear *embedding, const uint32_t *tokens, size_t rows);
    /* y[r] = row tokens[r] of the embedding, times factor; of int8 float(q) * scale, rotated back, times factor. */
    void (*embed)(Backend *backend, const BackendLinear *embedding, const uint32_t *tokens, size_t rows, float factor,
                  float *y);
    /* y = x / sqrt(mean(x^2) + eps) * w; y may be x. */
    void (*norm)(Backend *backend, const float *x, const float *w, float eps, size_t rows, size_t n, float *y);
    /* y = (x - mean(x)) / sqrt(variance(x) + eps) * w + bias; y may be x. */
    void (*layer_norm)(Backend *backend, const float *x, const float *w, const float *bias, float eps, size_t rows,
                       size_t n, float *y);
    /* In place: pairs (2i, 2i + 1) of each head, or (i, i + n_rot / 2) with neox; what is behind n_rot stays. cos, sin
     * f32[rows][n_rot / 2]; x f32[rows][n_heads * head_size] */
    void (*rope)(Backend *backend, float *x, const float *cos, const float *sin, size_t rows, size_t n_heads,
                 size_t head_size, size_t n_rot, bool neox);
    /* Keys and values of the rows go into the caches of their sequences, or beside them, within the layer's planes;
     * then their queries attend, which writes to no block: each gets the bits that it would get if the way to it were
     * the only one. */
    void (*kv_store)(Backend *backend, const AttentionCall *call);
    void (*attention)(Backend *backend, const AttentionCall *call);
    /* Keys and values of rows that had a slot go to where their positions are, byte for byte, in this layer: one move
     * after the other. */
    void (*kv_move)(Backend *backend, const KvLayer *layer, const KvMove *moves, size_t n_moves);
    /* gate = silu(gate) * up, silu(a) = a / (1 + exp(-a)), or gelu_tanh(gate) * up. */
    void (*gated)(Backend *backend, float *gate, const float *up, size_t rows, size_t n, bool gelu);
    /* x = silu(x), or gelu_tanh(x). */
    void (*activate)(Backend *backend, float *x, size_t rows, size_t n, bool gelu);
    /* x += y */
    void (*add)(Backend *backend, float *x, const float *y, size_t rows, size_t n);
} BackendOps;

struct Backend {
    const BackendOps *ops;
    WorkerPool *pool;
    AccountTable *accounts;
    Backend *host; /* the device's own, which has the operators that it borrows (backends/borrowed_ops); or NULL */
};

/* How a device is made. */
typedef struct BackendDevice {
    const char *name;    /* as its table has it */
    bool reads_packages; /* its weights are those of packages; else those of the GGUF that one is made of */
    /* cpu: CPU_* bits that it may use; pool and accounts outlive it. 0 or -errno, with a text. */
    int (*make)(Backend **backendp, uint32_t cpu, WorkerPool *pool, AccountTable *accounts, ErrText *err);
    bool has_graphs; /* static ones (linear_shape) */
} BackendDevice;

int backend_reference_new(Backend **backendp, uint32_t cpu, WorkerPool *pool, AccountTable *accounts, ErrText *err);
int backend_cpu_new(Backend **backendp, uint32_t cpu, WorkerPool *pool, AccountTable *accounts, ErrText *err);
int backend_npu_new(Backend **backendp, uint32_t cpu, WorkerPool *pool, AccountTable *accounts, ErrText *err);

static inline Backend *backend_free(Backend *backend) {
    return backend ? backend->ops->free(backend) : NULL;
}

#endif
