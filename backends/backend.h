// SPDX-License-Identifier: Apache-2.0
/* The device interface: a table of operators on rows (BackendOps). A device keeps weights in a layout of its own. The
 * forward pass (forward.c) knows no particular device; a new device is a new folder with such a table. test/device
 * checks a device against every statement here; docs/porting.md describes how to write one.
 *
 * Every operator works row by row. The result of a row must not depend on the other rows of the call, on their number
 * and order, or on the number of threads (design, invariant 1). The result of a row with non-finite values is
 * undefined, but such a row never affects other rows. A device sums in one order for all numbers of rows. Each device
 * chooses that order, so two devices may differ in the last bits.
 *
 * Arrays of floats have the alignment of a float. Cache blocks, packed weights and the argument of linear_at() are
 * aligned to 64 bytes. An operator writes nothing but its outputs and allocates nothing. Outputs don't overlap inputs
 * unless the operator's comment allows it. A device has one caller at a time, except for linear_fill(). */
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
    BACKEND_E_MEMORY = 1,  /* a memory account's limit is reached */
    BACKEND_E_WEIGHTS = 2, /* the device can't take these weights; the text names the tensor and the reason */
    BACKEND_E_READ = 3,    /* weights read on demand failed to be read; the text names file, tensor and reason */
    BACKEND_E_IMAGE = 4,   /* the size of a matrix's image doesn't match these weights */
    BACKEND_E_SHARED = 5,  /* products use a resource that threads can't use at the same time */
};

typedef struct Backend Backend;
typedef struct BackendLinear BackendLinear; /* one weight matrix in the device's layout */

/* An open file from which a device reads matrix columns while it computes. */
typedef struct ColumnFile {
    int fd;
    const char *path; /* for messages */
} ColumnFile;

/* Quantization of a matrix's inputs to int8. All fields zero mean dynamic-row: q = rint(x * (127 / amax)) within
 * +-127. Here amax is the greatest |x| of the row after its rotation; q is zero if 127 / amax is not finite. The
 * product is float(sum of q w) * (amax / 127 * scales[o]), then + bias[o] if there is a bias. The sum is exact; every
 * other step is one float32 operation. Static-tensor replaces amax / 127 by the constant `scale`: q = rint(x * (1 /
 * scale)). With shadow, the product then adds (x - +-127 scale) * (scales[o] * w) for every |x| > 127 scale, in rising
 * order of inputs. */
typedef struct LinearActivations {
    float scale;         /* static-tensor: scale of all rows, LINEAR_SCALE_MIN..MAX; 0: dynamic-row */
    bool shadow;         /* a float product adds what exceeds 127 scale; false: inputs are clipped */
    const uint32_t *hot; /* with shadow: [n_hot], rising: inputs whose weight column stays in memory */
    size_t n_hot;
    /* With shadow: the location of int8[k][n], the matrix by columns. A file must outlive the matrix. The array in
     * memory is for linear_new() only; all inputs are hot then. */
    const ColumnFile *file;
    uint64_t file_offset_bytes;
    const int8_t *columns;
} LinearActivations;

#define LINEAR_SCALE_MIN 1e-30f
#define LINEAR_SCALE_MAX 1e30f

/* A matrix y[n] = W[n][k] x[k] + bias in the model file's form. The source is valid during linear_new() only. As an
 * exception, a device that reads no packages may keep reading `data`: the file stays mapped while that device lives. */
typedef struct LinearSource {
    const char *name;
    size_t n, k;
    uint32_t type;         /* GgmlType; GGML_I8: int8 rows with scales */
    const void *data;      /* row-major, n rows of k values; NULL with `packed` */
    const float *scales;   /* [n], GGML_I8 only */
    const uint8_t *packed; /* GGML_I8: the matrix in the packed layout (quant/format/pack.h), or NULL; aligned to 64 */
    const int8_t *bits;    /* [n], with `packed`: width of every channel, 1..8 */
    Grid grid;             /* with `packed`: the levels that codes stand for */
    uint32_t rotation_block; /* GGML_I8: size of the blocks in which inputs are rotated (quant/rotate.h); 0: none */
    const float *bias;       /* [n] or NULL; copied */
    const void *image;       /* linear_begin(): bytes from linear_image(), which outlive the matrix; or NULL */
    size_t image_bytes;
    /* linear_begin(): linear_at() sets the address of the integers (image_bytes bytes), and sets it again when other
     * integers replace them. The owner of that memory has charged it. */
    bool streamed;
    bool expanded; /* linear_begin(), linear_image_bytes(): with `bits`, integers are kept unpacked in memory */
    LinearActivations activations;
} LinearSource;

/* Input of a product, row by row: x, or the result of one operator that the product applies to x first. */
typedef struct LinearInput {
    const float *x;         /* f32[rows][k] */
    const float *norm;      /* f32[k]: the input is x / sqrt(mean(x^2) + eps) * norm instead of x; or NULL */
    const float *norm_bias; /* f32[k], with norm: the input is the LayerNorm of x, as layer_norm(); or NULL */
    float eps;
    float *stream; /* f32[rows][k], with norm: becomes stream + x, and the norm is taken of the sum; or NULL */
} LinearInput;

typedef enum LinearGate {
    LINEAR_GATE_NONE,
    LINEAR_GATE_SILU,
    LINEAR_GATE_GELU, /* gelu_tanh */
} LinearGate;

/* Outputs of products. */
typedef struct LinearOutput {
    float *const *y; /* y[i] f32[rows][n_i] */
    /* A gate joins two products with equally many outputs: y[0] becomes activation(product 0) * product 1; the content
     * of y[1] is undefined. */
    LinearGate gate;
} LinearOutput;

/* Upper bound of products under way on any device; a device's own number is product_slots. */
#define BACKEND_PRODUCT_SLOTS_MAX 8

/* Upper bound of outputs in a piece of a product. */
#define LINEAR_PIECE 512

/* Takes outputs [first, first + n) of all rows: y f32[rows][LINEAR_PIECE], which the callee may change during the
 * call. Thread: the pool's `worker`; pieces of one worker come in rising order. */
typedef void LinearPieceFn(void *arg, size_t first, size_t n, float *y, unsigned int worker);

/* Location of a layer's keys and values, the same in every cache block. Each part holds kv_block_positions *
 * n_kv_heads * kv_row_bytes(head_size) bytes, in the device's layout. */
typedef struct KvLayer {
    size_t k_offset_bytes, v_offset_bytes; /* multiples of 64 */
    size_t n_kv_heads, head_size;          /* head_size: a multiple of 16 */
} KvLayer;

/* Rows of a batch in one layer. When a row attends, its sequence's cache holds all positions up to the row's own.
 * Exceptions are the row and its ancestors with a slot: the side block holds those (batch_side_rows()). */
typedef struct AttentionCall {
    const Batch *batch;
    BatchRange rows;
    KvLayer kv;
    float *q;       /* [rows.n][n_heads * head_size]; replaced by the output */
    const float *k; /* kv_store(): [rows.n][n_kv_heads * head_size] */
    const float *v;
    size_t n_heads; /* a multiple of n_kv_heads */
    size_t window;  /* positions seen, the row's own included; 0: all */
    float scale;
    /* f32[n_kv_heads * head_size], powers of two, or NULL: ones. A device whose cache has fewer bits than float32
     * divides keys by them and multiplies queries with them, so that no channel takes the range of all (numbers.md).
     * Other devices may ignore them. */
    const float *balance;
    float soft_cap; /* scores become soft_cap * tanh(score / soft_cap); 0: no cap */
} AttentionCall;

/* A move of keys and values from a position of one block to a position of another. */
typedef struct KvMove {
    void *from, *to;
    size_t from_position, to_position; /* below kv_block_positions */
} KvMove;

/* Upper bounds of the calls that will be made; scratch is reserved for them. */
typedef struct BackendShape {
    size_t rows;
    size_t width; /* inputs of a product */
    size_t n_vocab;
    size_t n_heads, n_kv_heads, head_size;
} BackendShape;

/* Cost of shadow outliers since the device was made. */
typedef struct ShadowCounts {
    uint64_t n_rows;           /* input rows of operators that have a shadow */
    uint64_t n_outliers;       /* values of these rows past the threshold */
    uint64_t n_hot;            /* outliers in hot channels */
    uint64_t n_columns_read;   /* columns read from the package */
    uint64_t n_columns_cached; /* columns not hot, but still in the cache of columns */
} ShadowCounts;

/* Time on the clock of base/clock.h. */
typedef struct BackendTime {
    uint64_t start_ns, end_ns;
} BackendTime;

/* What attention whose products go through the queue takes in it. */
typedef struct BackendJointTime {
    uint64_t wait_ns;  /* until earlier products were over */
    uint64_t queue_ns; /* of the queue's work */
} BackendJointTime;

typedef struct BackendOps {
    const char *name;                         /* "cpu" */
    const char *kv_type;                      /* "int8" */
    size_t (*kv_row_bytes)(size_t head_size); /* bytes of the keys, or the values, of a position in one KV head */
    /* Positions in a cache block, more than BATCH_SLOTS_MAX. Only attention() and kv_move() read a block's content.
     * Blocks may be copied whole and shared by sequences, so a device keeps no state about a block outside it. Content
     * after the last written position is never read. Finite values stay finite in a KV type with a smaller range than
     * float32. */
    size_t kv_block_positions;

    Backend *(*free)(Backend *backend);
    const char *(*kernel)(const Backend *backend); /* name of the product kernel in use */
    /* Reserves scratch for all operators, charged to ACCOUNT_ACTIVATIONS. The caller calls it before or after loading
     * weights, and again when calls grow. Returns 0, -ENOMEM, or BACKEND_E_MEMORY with a text; a call may be repeated
     * when there is more room. */
    int (*reserve)(Backend *backend, const BackendShape *shape, ErrText *err);
    /* Makes a second handle of this device for operators of one thread; the pool has one thread. Both handles use all
     * matrices, each has its own scratch, and calls on both may run at the same time. The caller reserves rows and
     * positions for each handle, and frees this handle before the device. NULL: operators of this device run one at a
     * time. Returns BACKEND_E_SHARED if the device's matrices don't allow it. */
    int (*thread_new)(const Backend *backend, Backend **threadp, WorkerPool *pool, ErrText *err);
    /* With thread_new: returns the number of rows from which on computing takes longer than reading the weights, which
     * this handle's thread reads by itself. */
    size_t (*thread_rows)(const Backend *backend);
    /* Returns the number of rows at which a step's products are about as fast per row as with any more. NULL: any
     * number is as good. */
    size_t (*step_rows)(const Backend *backend);
    /* Returns how many rows of padding a product of `rows` rows computes, because it works in whole tiles: one less
     * with each further row, until the tile is full. NULL: none. */
    size_t (*idle_rows)(const Backend *backend, size_t rows);
    /* Reserves attention's scratch for n_positions, which may grow. Returns as reserve(). */
    int (*reserve_positions)(Backend *backend, size_t n_positions, ErrText *err);

    /* Makes a matrix. Copies are in the device's layout and charged to ACCOUNT_WEIGHTS. Returns 0, BACKEND_E_WEIGHTS
     * (a form that the device doesn't take, or contradictory values), BACKEND_E_MEMORY or -ENOMEM. The text names the
     * tensor; after an error nothing stays charged. */
    int (*linear_new)(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err);
    /* Makes a matrix from parts. begin takes a source without data and packed (with bits the matrix is packed). fill
     * takes every block of 16 outputs once, as the package's bytes of [block_begin, block_end), in any order and on
     * any thread. finish takes the source of begin. NULL: the device wants the matrix as a whole. */
    int (*linear_begin)(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err);
    void (*linear_fill)(const Backend *backend, BackendLinear *linear, size_t block_begin, size_t block_end,
                        const void *bytes);
    int (*linear_finish)(Backend *backend, BackendLinear *linear, const LinearSource *source, ErrText *err);
    /* Tells the device that all matrices of a load that will be filled have been begun. The device may now populate
     * their memory in advance. NULL: not needed. */
    void (*linears_begun)(Backend *backend);
    BackendLinear *(*linear_free)(BackendLinear *linear); /* also for an unfinished matrix; NULL is allowed */
    /* Returns the integers of a finished matrix as they lie in memory. linear_begin() accepts them as an image in
     * place of fill (the source is the same otherwise, finish follows). Products only multiply with these bytes:
     * nothing in them becomes an address or a size. An image of another device or another `image_layout` must not be
     * used. NULL: the device has none. */
    const void *(*linear_image)(const BackendLinear *linear, size_t *len_bytesp);
    const char *image_layout; /* "cpu 1": changes with every change of the layout */
    /* With linear_image: computes the length of the image of a matrix of n, k, bits and grid. Returns 0,
     * BACKEND_E_WEIGHTS or -ENOMEM. */
    int (*linear_image_bytes)(const LinearSource *source, size_t *len_bytesp, ErrText *err);
    /* Sets the address of a streamed matrix's integers. Products read them there, and fill writes them there until the
     * matrix is finished. Aligned to 64. The caller must not call it while anything uses the matrix. */
    void (*linear_at)(BackendLinear *linear, void *integers);
    /* A device of static graphs computes a product with static-tensor activations in graphs of a fixed number of rows:
     * the call's rows and rows of zeros. A call with more rows runs the graph several times. Graphs for prompts have
     * prefill_rows and graphs for generation have decode_rows, each with integers of its own. linear_at() sets the
     * integers of the graph that is used next. linear_shape() sets its rows, one of these two, and how many of them
     * the product takes at a time: a multiple of 16 that divides them, or 0 for the device's choice. The shape does
     * not change the bits. Matrices of one call have the same shape. The caller must not call it while anything uses
     * the matrix. 0 and NULL: one copy of the weights serves any number of rows. */
    size_t prefill_rows, decode_rows;
    void (*linear_shape)(BackendLinear *linear, size_t rows, size_t rows_at_once);
    /* With linear_shape: writes to `integers` what linear_fill() writes for these blocks of a streamed matrix, begun
     * or finished. linear_at() may use the place later. Returns false for weights that the device can't take. Thread:
     * any, while products and other calls use the matrix. */
    bool (*linear_expand)(const Backend *backend, const BackendLinear *linear, size_t block_begin, size_t block_end,
                          const void *bytes, void *integers);

    /* With linear_shape, on a device whose products run beside the processors: product_slots products may be under way
     * at once. Each occupies a slot until its end, in steps with rows for more than one graph of prompts. submit
     * starts what `linear` would do, for at most prefill_rows rows and matrices that are all queued, and returns at
     * once. is_over returns true if end would not wait. end waits until y is complete and stores when the queue worked
     * at it; it returns as `linear`. The caller leaves x, y and the matrices alone from submit to end. here computes
     * the product on the processors, as `linear`, and stores when they worked at it. Thread: the computing one. */
    size_t product_slots;
    bool (*is_queued)(const BackendLinear *linear);
    void (*linear_submit)(Backend *backend, size_t slot, const BackendLinear *const *linears, size_t n, const float *x,
                          size_t rows, float *const *y);
    bool (*linear_is_over)(const Backend *backend, size_t slot);
    int (*linear_end)(Backend *backend, size_t slot, BackendTime *time, ErrText *err);
    int (*linear_here)(Backend *backend, const BackendLinear *const *linears, size_t n, const float *x, size_t rows,
                       float *const *y, BackendTime *time, ErrText *err);

    /* y[i] = x W[i]^T + bias[i] for n <= 3 matrices that share their input, its rotation and its activations; the
     * result for each is as if it were alone. Returns 0; BACKEND_E_READ or -errno: y is undefined, and the next call
     * is unaffected. */
    int (*linear)(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in, size_t rows,
                  const LinearOutput *out, ErrText *err);
    /* With linear_pieces, which may be NULL: returns whether the device can give this matrix's outputs in pieces. */
    bool (*has_pieces)(const BackendLinear *linear);
    /* Multiplies x f32[rows][k] by the first n_outputs of a matrix (all at most). Each piece is handed over while it
     * is in the cache; every output comes once, with the bits of `linear`. scratch: f32[threads of the
     * pool][rows][LINEAR_PIECE]. Returns as `linear`. */
    int (*linear_pieces)(Backend *backend, const BackendLinear *linear, const float *x, size_t rows, size_t n_outputs,
                         float *scratch, LinearPieceFn *take, void *arg, ErrText *err);
    bool fuses; /* `linear` supports norm, stream and gate; the bits are those of separate operators */
    void (*shadow_counts)(const Backend *backend, ShadowCounts *counts); /* all zero on a device without shadows */
    /* Requests the rows that `embed` will read from integers mapped from a file, all at once and without waiting.
     * NULL: the device maps none. */
    void (*embed_ahead)(const BackendLinear *embedding, const uint32_t *tokens, size_t rows);
    /* y[r] = row tokens[r] of the embedding, times factor. An int8 row is float(q) * scale, rotated back, times
     * factor. */
    void (*embed)(Backend *backend, const BackendLinear *embedding, const uint32_t *tokens, size_t rows, float factor,
                  float *y);
    /* y = x / sqrt(mean(x^2) + eps) * w; y may be x. */
    void (*norm)(Backend *backend, const float *x, const float *w, float eps, size_t rows, size_t n, float *y);
    /* y = (x - mean(x)) / sqrt(variance(x) + eps) * w + bias; y may be x. */
    void (*layer_norm)(Backend *backend, const float *x, const float *w, const float *bias, float eps, size_t rows,
                       size_t n, float *y);
    /* Rotates in place: pairs (2i, 2i + 1) of each head, or (i, i + n_rot / 2) with neox; elements from n_rot on stay.
     * cos, sin f32[rows][n_rot / 2]; x f32[rows][n_heads * head_size] */
    void (*rope)(Backend *backend, float *x, const float *cos, const float *sin, size_t rows, size_t n_heads,
                 size_t head_size, size_t n_rot, bool neox);
    /* kv_store writes the rows' keys and values to the caches of their sequences, or to the side blocks, within the
     * layer's planes. attention then lets their queries attend and writes to no block. The bits of each row are those
     * of a sequence that consists of its ancestors alone. */
    void (*kv_store)(Backend *backend, const AttentionCall *call);
    void (*attention)(Backend *backend, const AttentionCall *call);
    /* With product_slots, under the same conditions: as attention, but the queue multiplies while the processors make
     * weights. The queue ends products under way first, whose slots stay occupied. Rows with a slot are attended by
     * the processors alone. NULL: the queue cannot. */
    void (*attention_joint)(Backend *backend, const AttentionCall *call, BackendJointTime *time);
    /* Moves keys and values of rows that had a slot to their positions in the cache, byte for byte, in this layer.
     * Moves are done in order. */
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
    Backend *host; /* the device whose operators this one borrows (backends/borrowed_ops), owned; or NULL */
};

/* Description of a device from which it is made. */
typedef struct BackendDevice {
    const char *name;    /* as in the device's table */
    bool reads_packages; /* the device takes weights of packages; else those of the GGUF that a package is made of */
    /* cpu: CPU_* bits that the device may use; pool and accounts outlive it. Returns 0 or -errno, with a text. */
    int (*make)(Backend **backendp, uint32_t cpu, WorkerPool *pool, AccountTable *accounts, ErrText *err);
    bool has_graphs; /* static graphs (linear_shape) */
} BackendDevice;

int backend_reference_new(Backend **backendp, uint32_t cpu, WorkerPool *pool, AccountTable *accounts, ErrText *err);
int backend_cpu_new(Backend **backendp, uint32_t cpu, WorkerPool *pool, AccountTable *accounts, ErrText *err);
int backend_npu_new(Backend **backendp, uint32_t cpu, WorkerPool *pool, AccountTable *accounts, ErrText *err);

static inline Backend *backend_free(Backend *backend) {
    return backend ? backend->ops->free(backend) : NULL;
}

#endif
