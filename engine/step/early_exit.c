// SPDX-License-Identifier: Apache-2.0
#include "engine/step/early_exit.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "backends/numeric/exp_row.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory/account_refusal.h"
#include "base/min_max.h"
#include "base/system/cpu.h"
#include "engine/step/step_parts.h"
#include "engine/step/step_state.h"
#include "quant/format/ggml_type.h"

enum {
    TOKENS_AT_ONCE = 64, /* rows of the head that are unpacked at a time */
    LANES = 16           /* partial sums of a dot product: the same number in every build */
};

static const PruningMix lens_mix = { 1, 0.25F, 0 }; /* an untrained lens predicts far worse than a draft model */
static const float lens_tau = 1;

void early_exit_deinit(EarlyExit *exit) {
    if (exit->linear)
        exit->floats->ops->linear_free(exit->linear);
    backend_free(exit->floats);
    exit_map_deinit(&exit->map);
    accounted_block_deinit(&exit->rows);
    *exit = (EarlyExit){ 0 };
}

/* --- scratch: f32[n_embd] rows ------------------------------------------------------------------------------------ */

#define SCRATCH_ROWS (3 * EARLY_EXIT_ROWS + TOKENS_AT_ONCE)

/* Returns scratch for hidden states that the map takes in. */
static float *inputs(const Engine *engine) {
    return engine->steps->early_exit.rows.data;
}

/* Returns scratch for the map's output; before that, for hidden states of a step. */
static float *mapped(const Engine *engine) {
    return inputs(engine) + (size_t)EARLY_EXIT_ROWS * engine->hparams.n_embd;
}

/* Returns scratch for states that the head takes in. */
static float *states(const Engine *engine) {
    return mapped(engine) + (size_t)EARLY_EXIT_ROWS * engine->hparams.n_embd;
}

static float *head_rows(const Engine *engine) {
    return states(engine) + (size_t)EARLY_EXIT_ROWS * engine->hparams.n_embd;
}

static int reserve(Engine *engine, EarlyExit *exit, ErrText *err) {
    const size_t len_bytes = SCRATCH_ROWS * (size_t)engine->hparams.n_embd * sizeof(float);
    int r;

    engine_make_room(engine, ACCOUNT_ACTIVATIONS, len_bytes);
    r = accounted_block_init(&exit->rows, engine->accounts, ACCOUNT_ACTIVATIONS, len_bytes);
    return r ? account_refused(err, ENGINE_E_MEMORY, r, engine->accounts, ACCOUNT_ACTIVATIONS, len_bytes,
                               "an early exit")
             : 0;
}

static void take(Engine *engine, EarlyExit *exit) {
    early_exit_deinit(&engine->steps->early_exit);
    engine->steps->early_exit = *exit;
    *exit = (EarlyExit){ 0 };
}

/* --- which predictor ---------------------------------------------------------------------------------------------- */

/**
 * engine_set_lens() - predict from the hidden state behind a layer, without a map
 * @layer: 1..n_layers - 1: behind the first so many; 0: no predictor
 *
 * Thread: the one that computes, while no step has begun. Return: 0, -EINVAL, -EBUSY, ENGINE_E_MEMORY, with a text.
 */
int engine_set_lens(Engine *engine, uint32_t layer, ErrText *err) {
    _cleanup_(early_exit_deinit) EarlyExit exit = { .layer = layer, .mix = lens_mix, .tau = lens_tau };
    int r;

    if (layer >= engine->hparams.n_layers)
        return err_set(err, -EINVAL, "there is no layer between %u and the head", layer);
    for (size_t i = 0; i < engine->steps->n; i++)
        if (engine->steps->step[i].is_taken)
            return err_set(err, -EBUSY, "a step has made way");
    if (!layer) {
        early_exit_deinit(&engine->steps->early_exit);
        return 0;
    }
    r = reserve(engine, &exit, err);
    if (!r)
        take(engine, &exit);
    return r;
}

/* Loads the map as a matrix of a device that takes f16. */
static int load_linear(Engine *engine, EarlyExit *exit, ErrText *err) {
    const uint32_t n_embd = exit->map.n_embd;
    const BackendShape shape = { .rows = EARLY_EXIT_ROWS, .width = n_embd };
    const LinearSource source = {
        .name = "early exit", .n = n_embd, .k = n_embd, .type = GGML_F16, .data = exit->map.map, .bias = exit->map.bias
    };
    int r = backend_reference_new(&exit->floats, cpu_features(), engine->backend->pool, engine->accounts, err);

    if (!r)
        r = exit->floats->ops->reserve(exit->floats, &shape, err);
    if (!r)
        r = exit->floats->ops->linear_new(exit->floats, &exit->linear, &source, err);
    return r > 0 ? ENGINE_E_MEMORY : r;
}

/**
 * engine_load_exit() - load the trained predictor of a package
 * @path: PACKAGE.exit
 *
 * A predictor that is damaged or belongs to another package is refused, and nothing changes. Thread: as
 * engine_set_lens(). Return: 0; ENGINE_E_MODEL: there is no such file, or it was refused, with a text that names it;
 * ENGINE_E_MEMORY, -EBUSY, -errno.
 */
int engine_load_exit(Engine *engine, const char *path, ErrText *err) {
    const ExitMapModel model = { engine->info.package_sha256, engine->hparams.n_embd, engine->hparams.n_layers };
    _cleanup_(early_exit_deinit) EarlyExit exit = { 0 };
    int r;

    for (size_t i = 0; i < engine->steps->n; i++)
        if (engine->steps->step[i].is_taken)
            return err_set(err, -EBUSY, "a step has made way");
    r = exit_map_read(&exit.map, engine->accounts, path, &model, err);
    if (r)
        return r == EXIT_MAP_E_MEMORY ? ENGINE_E_MEMORY : r > 0 ? ENGINE_E_MODEL : r;
    exit.layer = exit.map.layer;
    exit.mix = (PruningMix){ exit.map.by_q, exit.map.by_share, exit.map.offset };
    exit.tau = exit.map.tau;
    r = load_linear(engine, &exit, err);
    if (!r)
        r = reserve(engine, &exit, err);
    if (!r)
        take(engine, &exit);
    return r;
}

uint32_t engine_exit_layer(const Engine *engine) {
    return engine->steps->early_exit.layer;
}

PruningMix engine_exit_mix(const Engine *engine) {
    return engine->steps->early_exit.mix;
}

/* --- shares ------------------------------------------------------------------------------------------------------- */

static float dot(const float *a, const float *b, size_t n) {
    float sums[LANES] = { 0 }, sum = 0;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            sums[lane] += a[i + lane] * b[i + lane];
    for (; i < n; i++)
        sums[0] += a[i] * b[i];
    for (size_t lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    return sum;
}

/* Scales rows to mean square 1, so that the map's input does not depend on the size of a state. */
void early_exit_scale(const float *hidden, size_t n, size_t n_embd, float *scaled) {
    for (size_t row = 0; row < n; row++, hidden += n_embd, scaled += n_embd) {
        const float squares = dot(hidden, hidden, n_embd), factor = 1 / sqrtf(squares / (float)n_embd + 1e-12F);

        for (size_t i = 0; i < n_embd; i++)
            scaled[i] = hidden[i] * factor;
    }
}

int early_exit_states(Engine *engine, const float *hidden, size_t n, float *normed, ErrText *err) {
    const EarlyExit *exit = &engine->steps->early_exit;
    const Hparams *hparams = &engine->hparams;
    float *y = mapped(engine);

    assert(n <= EARLY_EXIT_ROWS);
    if (exit->linear) {
        const BackendLinear *linear = exit->linear;
        int r;

        early_exit_scale(hidden, n, hparams->n_embd, inputs(engine));
        r = exit->floats->ops->linear(exit->floats, &linear, 1, &(LinearInput){ .x = inputs(engine) }, n,
                                      &(LinearOutput){ .y = &y }, err);
        if (r)
            return r;
        hidden = y;
    }
    layer_norm_rows(engine->backend, hparams, weights_outside(engine->weights)->vectors, ROLE_OUTPUT_NORM, hidden, n,
                    hparams->n_embd, normed);
    return 0;
}

void early_exit_logits(Engine *engine, const float *state, const uint32_t *tokens, size_t n, float *logits) {
    const size_t n_embd = engine->hparams.n_embd;
    const float *rows = head_rows(engine), *bias = weights_outside(engine->weights)->vectors[ROLE_OUTPUT_BIAS];

    for (size_t first = 0; first < n; first += TOKENS_AT_ONCE) {
        const size_t n_now = MIN(n - first, TOKENS_AT_ONCE);

        engine->backend->ops->embed(engine->backend, weights_head(engine->weights), tokens + first, n_now, 1,
                                    head_rows(engine));
        for (size_t i = 0; i < n_now; i++)
            logits[first + i] = dot(state, rows + i * n_embd, n_embd) + (bias ? bias[tokens[first + i]] : 0);
    }
    if (engine->hparams.logit_cap > 0)
        exp_row_select(cpu_features())->soft_cap(logits, n, engine->hparams.logit_cap);
}

void early_exit_shares(const float *logits, size_t n, float tau, float *log_shares) {
    float most = logits[0];
    double sum = 0;

    for (size_t i = 1; i < n; i++)
        most = MAX(logits[i], most);
    for (size_t i = 0; i < n; i++)
        sum += exp(((double)logits[i] - (double)most) / (double)tau);
    for (size_t i = 0; i < n; i++)
        log_shares[i] = (float)(((double)logits[i] - (double)most) / (double)tau - log(sum));
}

/* --- a step ------------------------------------------------------------------------------------------------------- */

/* Returns how many edges from `first` on begin at its row. */
static size_t edges_of_row(const EngineExit *asked, size_t first) {
    size_t n = 1;

    while (first + n < asked->n && asked->rows[first + n] == asked->rows[first])
        n++;
    return n;
}

/* Computes the states of rows that edges from `first` on begin at, as many as there is room for; *nextp: the first edge
 * of the next row. */
static int find_states(EngineStep *step, size_t index, size_t first, size_t *nextp, ErrText *err) {
    Engine *engine = step->engine;
    const EngineExit *asked = step->spans[index].exit;
    const BatchRange rows = step->batch.sequences[index].rows;
    const size_t end = rows.first + rows.n, n_embd = engine->hparams.n_embd;
    size_t n = 0, at = rows.first;

    for (*nextp = first; *nextp < asked->n && n < EARLY_EXIT_ROWS; *nextp += edges_of_row(asked, *nextp)) {
        at = step_rows_find(step, at, end, asked->rows[*nextp]);
        if (at == end)
            return err_set(err, -EINVAL, "row %u is not in the step", asked->rows[*nextp]);
        memcpy(mapped(engine) + n++ * n_embd, step->slots[SLOT_X] + at * n_embd, n_embd * sizeof(float));
    }
    /* The input may be in the map's scratch: it is scaled into other scratch before the map writes. */
    return early_exit_states(engine, mapped(engine), n, states(engine), err);
}

static int score_span(EngineStep *step, size_t index, ErrText *err) {
    Engine *engine = step->engine;
    EngineExit *asked = step->spans[index].exit;

    for (size_t first = 0, next; first < asked->n; first = next) {
        const float *state = states(engine);
        int r = find_states(step, index, first, &next, err);

        if (r)
            return r;
        for (size_t n; first < next; first += n, state += engine->hparams.n_embd) {
            n = edges_of_row(asked, first);
            early_exit_logits(engine, state, asked->tokens + first, n, asked->log_shares + first);
            early_exit_shares(asked->log_shares + first, n, engine->steps->early_exit.tau, asked->log_shares + first);
        }
    }
    return 0;
}

static int run_span(EngineStep *step, size_t index, ErrText *err) {
    EngineSpan *span = &step->spans[index];
    const uint64_t start_ns = clock_now_ns();
    uint16_t rows[ENGINE_TREE_ROWS_MAX];
    size_t n;
    int r = score_span(step, index, err);

    if (r)
        return r;
    span->exit->ns = clock_now_ns() - start_ns;
    n = span->exit->choose(span->exit->arg, rows);
    return n && n < span->n ? engine_step_keep(step, index, rows, n) : 0;
}

/* Runs only if the head's weights are there: otherwise all rows go on. */
int early_exit_run(EngineStep *step, ErrText *err) {
    Engine *engine = step->engine;
    const uint64_t start_ns = engine_trace_begin(engine);
    const size_t n_rows = step->batch.n_rows;
    int r = engine_acquire(engine, 1 + engine->hparams.n_layers, 0, NULL);

    if (r)
        return 0;
    for (size_t i = 0; !r && i < step->n_spans; i++)
        if (step->spans[i].exit && step->spans[i].exit->n && !step->spans[i].is_cancelled)
            r = run_span(step, i, err);
    engine_step_let_go(step, 1 + engine->hparams.n_layers);
    engine_trace_part(engine, "early exit", "element-wise", start_ns, (int32_t)engine->steps->early_exit.layer - 1,
                      n_rows);
    return r;
}
