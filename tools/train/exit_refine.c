// SPDX-License-Identifier: Apache-2.0
#include "tools/train/exit_refine.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "engine/core/engine_state.h"
#include "quant/rounding/blas.h"
#include "tools/train/exit_ridge.h"

enum {
    BATCH = 64, /* positions of a step */
    PIECE = 64, /* rows of the map that a thread changes at a time */
};

#define MAGIC "CGXCKPT1"

static const float rate = 2e-4F; /* learning rate of the first step; it falls to a tenth */
static const float beta_mean = 0.9F, beta_square = 0.99F, tiny = 1e-8F;

static size_t n_values(const ExitRefine *refine) {
    return (refine->head.n_embd + 1) * refine->head.n_embd;
}

/* --- checkpoints -------------------------------------------------------------------------------------------------- */

typedef struct Checkpoint {
    char magic[8];
    char fingerprint[SHA256_HEX_BYTES];
    uint32_t n_embd, layer, epochs, epoch;
    uint64_t n_steps;
    double least;
} Checkpoint;

static Checkpoint head_of(const ExitRefine *refine) {
    Checkpoint head;

    memset(&head, 0, sizeof(head));
    memcpy(head.magic, MAGIC, sizeof(head.magic));
    memcpy(head.fingerprint, exit_set_shape(refine->set)->fingerprint, sizeof(head.fingerprint));
    head.n_embd = (uint32_t)refine->head.n_embd;
    head.layer = refine->layer;
    head.epochs = refine->epochs;
    return head;
}

static int write_checkpoint(const ExitRefine *refine, ErrText *err) {
    const float *const parts[] = { refine->now, refine->best, refine->mean, refine->square };
    _cleanup_(atomic_file_freep) AtomicFile *file = NULL;
    Checkpoint head = head_of(refine);
    int r = atomic_file_new(&file, refine->path, err);

    if (r)
        return r;
    head.epoch = refine->epoch;
    head.n_steps = refine->n_steps;
    head.least = refine->least;
    r = file_write_all(atomic_file_fd(file), &head, sizeof(head));
    for (size_t i = 0; !r && i < ARRAY_LEN(parts); i++)
        r = file_write_all(atomic_file_fd(file), parts[i], n_values(refine) * sizeof(float));
    return r ? err_set(err, r, "%s: %s", refine->path, strerror(-r)) : atomic_file_commit(file, err);
}

/* Reads the checkpoint. Return: false, with nothing changed, if there is none of this run. */
static bool read_checkpoint(ExitRefine *refine) {
    const size_t len_bytes = n_values(refine) * sizeof(float);
    const Checkpoint expected = head_of(refine);
    float *const parts[] = { refine->now, refine->best, refine->mean, refine->square };
    _cleanup_(freep) char *data = NULL;
    size_t n_bytes;
    Checkpoint head;

    if (file_slurp(refine->path, sizeof(head) + 4 * len_bytes, &data, &n_bytes, NULL) ||
        n_bytes != sizeof(head) + 4 * len_bytes)
        return false;
    memcpy(&head, data, sizeof(head));
    if (memcmp(head.magic, expected.magic, sizeof(head.magic)) ||
        memcmp(head.fingerprint, expected.fingerprint, sizeof(head.fingerprint)) || head.n_embd != expected.n_embd ||
        head.layer != expected.layer || head.epochs != expected.epochs || head.epoch > head.epochs)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        memcpy(parts[i], data + sizeof(head) + i * len_bytes, len_bytes);
    refine->epoch = head.epoch;
    refine->n_steps = head.n_steps;
    refine->least = head.least;
    return true;
}

/* ------------------------------------------------------------------------------------------------------------------ */

int exit_refine_init(ExitRefine *refine, Engine *engine, WorkerPool *pool, ExitSet *set, uint32_t layer,
                     uint32_t epochs, const float *map, const float *bias, const char *path, ErrText *err) {
    const size_t n_embd = engine->hparams.n_embd, n = (n_embd + 1) * n_embd;
    int r = blas_load(err);

    if (r)
        return r;
    *refine = (ExitRefine){
        .engine = engine,
        .head = exit_head(engine),
        .pool = pool,
        .set = set,
        .layer = layer,
        .epochs = epochs,
        .least = -1,
        .now = malloc(n * sizeof(float)),
        .best = malloc(n * sizeof(float)),
        .mean = calloc(n, sizeof(float)),
        .square = calloc(n, sizeof(float)),
        .path = path ? strdup(path) : NULL,
    };
    if (!refine->now || !refine->best || !refine->mean || !refine->square || (path && !refine->path)) {
        exit_refine_deinit(refine);
        return err_no_memory(err);
    }
    memcpy(refine->now, map, n_embd * n_embd * sizeof(float));
    memcpy(refine->now + n_embd * n_embd, bias, n_embd * sizeof(float));
    memcpy(refine->best, refine->now, n * sizeof(float));
    if (path)
        (void)read_checkpoint(refine);
    return 0;
}

void exit_refine_deinit(ExitRefine *refine) {
    free(refine->now);
    free(refine->best);
    free(refine->mean);
    free(refine->square);
    free(refine->path);
    *refine = (ExitRefine){ 0 };
}

ExitHead exit_head(const Engine *engine) {
    float *const *vectors = weights_outside(engine->weights)->vectors;
    const Hparams *hparams = &engine->hparams;

    return (ExitHead){
        .norm = vectors[ROLE_OUTPUT_NORM],
        .eps = hparams->norm_eps,
        .n_embd = hparams->n_embd,
        .logit_cap = hparams->logit_cap,
        .norm_bias = hparams->arch->norm == NORM_LAYER ? vectors[ROLE_OUTPUT_NORM_BIAS] : NULL,
        .bias = vectors[ROLE_OUTPUT_BIAS],
    };
}

void exit_head_rows(Engine *engine, const ExitSample *samples, size_t n, float *rows) {
    for (size_t i = 0; i < n; i++)
        engine->backend->ops->embed(engine->backend, weights_head(engine->weights), samples[i].tokens, EXIT_CHOICES, 1,
                                    rows + i * EXIT_CHOICES * engine->hparams.n_embd);
}

/* Positions of one window that are computed together. */
typedef struct PositionBatch {
    ExitRefine *refine;
    const ExitSample *samples;
    const float *states; /* f32[BATCH][n_embd] */
    size_t n;
    float *y, *gradients; /* f32[BATCH][n_embd] */
    float *rows;          /* f32[BATCH][EXIT_CHOICES][n_embd] */
    float *map_gradient;  /* f32[n_embd][n_embd] */
    double losses[BATCH];
    float rate, mean_share, square_share; /* factors of Adam's step */
    bool only_loss;
} PositionBatch;

static void position_losses(void *arg, size_t begin, size_t end, unsigned int worker) {
    PositionBatch *batch = arg;
    const size_t n_embd = batch->refine->head.n_embd;

    for (size_t i = begin; i < end; i++)
        batch->losses[i] =
            exit_loss(&batch->refine->head, batch->y + i * n_embd, &batch->samples[i],
                      batch->rows + i * EXIT_CHOICES * n_embd, batch->only_loss ? NULL : batch->gradients + i * n_embd);
}

static void adam(PositionBatch *batch, size_t at, const float *gradient, size_t n) {
    ExitRefine *refine = batch->refine;

    for (size_t i = 0; i < n; i++) {
        float *mean = &refine->mean[at + i], *square = &refine->square[at + i];

        *mean = beta_mean * *mean + (1 - beta_mean) * gradient[i];
        *square = beta_square * *square + (1 - beta_square) * gradient[i] * gradient[i];
        refine->now[at + i] -=
            batch->rate * (*mean / batch->mean_share) / (sqrtf(*square / batch->square_share) + tiny);
    }
}

/* Steps rows of the map. Their gradient is the outer product of the gradients by y and the states. */
static void step_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    PositionBatch *batch = arg;
    const size_t n_embd = batch->refine->head.n_embd;

    for (size_t at = begin; at < end; at += PIECE) {
        const size_t n = MIN(end - at, PIECE);
        float *gradient = batch->map_gradient + at * n_embd;

        blas_product(&(BlasProduct){ .m = n,
                                     .n = n_embd,
                                     .k = batch->n,
                                     .transpose_a = true,
                                     .alpha = 1 / (float)batch->n,
                                     .a = batch->gradients + at,
                                     .a_stride = n_embd,
                                     .b = batch->states,
                                     .b_stride = n_embd,
                                     .c = gradient,
                                     .c_stride = n_embd });
        adam(batch, at * n_embd, gradient, n * n_embd);
    }
}

static void step_bias(PositionBatch *batch) {
    const size_t n_embd = batch->refine->head.n_embd;

    for (size_t i = 0; i < n_embd; i++) {
        float sum = 0;

        for (size_t at = 0; at < batch->n; at++)
            sum += batch->gradients[at * n_embd + i];
        sum /= (float)batch->n;
        adam(batch, n_embd * n_embd + i, &sum, 1);
    }
}

/* Returns the window's loss; takes a step after each batch unless @only_loss. */
static double run_window(PositionBatch *batch, const ExitWindow *window) {
    ExitRefine *refine = batch->refine;
    const ExitSetShape *shape = exit_set_shape(refine->set);
    const size_t n_embd = refine->head.n_embd;
    double loss = 0;

    for (size_t at = 0; at < shape->window_tokens; at += BATCH) {
        batch->n = MIN(shape->window_tokens - at, BATCH);
        batch->samples = window->samples + at;
        batch->states = window->states[refine->layer] + at * n_embd;
        exit_map_apply(refine->pool, refine->now, refine->now + n_embd * n_embd, n_embd, batch->states, batch->n,
                       batch->y);
        exit_head_rows(refine->engine, batch->samples, batch->n, batch->rows);
        worker_pool_run(refine->pool, position_losses, batch, batch->n, 4);
        for (size_t i = 0; i < batch->n; i++)
            loss += batch->losses[i];
        if (batch->only_loss)
            continue;
        refine->n_steps++;
        batch->mean_share = 1 - powf(beta_mean, (float)refine->n_steps);
        batch->square_share = 1 - powf(beta_square, (float)refine->n_steps);
        worker_pool_run(refine->pool, step_rows, batch, n_embd, PIECE);
        step_bias(batch);
    }
    return loss;
}

/* Orders the windows; the order depends on the epoch alone. */
static void order_windows(uint32_t *order, uint32_t n, uint32_t epoch) {
    uint64_t state = 0x9e3779b97f4a7c15u * (epoch + 1);

    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t other, swapped = order[i - 1];

        state = state * 6364136223846793005u + 1442695040888963407u;
        other = (uint32_t)((state >> 33) % i);
        order[i - 1] = order[other];
        order[other] = swapped;
    }
}

/* Tells whether a held-out window tunes: the even ones do, the odd ones are for figures alone. */
static bool tunes(uint32_t index) {
    return exit_window_is_held_out(index) && index / EXIT_HELD_OUT % 2 == 0;
}

static int run_windows(PositionBatch *batch, ExitWindow *window, bool trains, ExitRefineFn *done, void *arg,
                       double *lossp, ErrText *err) {
    ExitRefine *refine = batch->refine;
    const uint32_t n = exit_set_n(refine->set);
    _cleanup_(freep) uint32_t *order = malloc((n ? n : 1) * sizeof(*order));

    if (!order)
        return err_no_memory(err);
    order_windows(order, n, refine->epoch);
    batch->only_loss = !trains;
    *lossp = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t index = trains ? order[i] : i;
        int r;

        if (trains ? exit_window_is_held_out(index) : !tunes(index))
            continue;
        r = exit_set_read(refine->set, index, window, err);
        if (r)
            return r;
        *lossp += run_window(batch, window);
        if (done)
            done(arg, (uint64_t)refine->epoch * n + i + 1, (uint64_t)refine->epochs * n);
    }
    return 0;
}

static int note_loss(PositionBatch *batch, ExitWindow *window, ErrText *err) {
    ExitRefine *refine = batch->refine;
    double loss;
    int r = run_windows(batch, window, false, NULL, NULL, &loss, err);

    if (!r && (refine->least < 0 || loss < refine->least)) {
        refine->least = loss;
        memcpy(refine->best, refine->now, n_values(refine) * sizeof(float));
    }
    return r;
}

/**
 * exit_refine_epoch() - run all windows once and write a checkpoint
 *
 * `best` keeps the map with the least loss on held-out windows, which may be the map from before the first epoch.
 */
int exit_refine_epoch(ExitRefine *refine, ExitRefineFn *done, void *arg, ErrText *err) {
    const size_t n_embd = refine->head.n_embd;
    _cleanup_(freep) float *memory = malloc((BATCH * (2 + EXIT_CHOICES) + n_embd) * n_embd * sizeof(float));
    _cleanup_(exit_window_deinit) ExitWindow window = { 0 };
    PositionBatch batch = { .refine = refine,
                            .y = memory,
                            .gradients = memory + BATCH * n_embd,
                            .rows = memory + 2 * BATCH * n_embd,
                            .map_gradient = memory + (2 + EXIT_CHOICES) * BATCH * n_embd,
                            .rate = rate * (1 - 0.9F * (float)refine->epoch / (float)refine->epochs) };
    double loss;
    int r;

    if (!memory || exit_window_init(&window, exit_set_shape(refine->set)))
        return err_no_memory(err);
    r = refine->least < 0 ? note_loss(&batch, &window, err) : 0;
    if (!r)
        r = run_windows(&batch, &window, true, done, arg, &loss, err);
    if (!r)
        r = note_loss(&batch, &window, err);
    if (r)
        return r;
    refine->epoch++;
    return refine->path ? write_checkpoint(refine, err) : 0;
}
