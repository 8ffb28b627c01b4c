// SPDX-License-Identifier: Apache-2.0
#include "tools/exit/early_exit.h"

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
#include "engine/core/engine_state.h"
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
static float *inputs(const EarlyExit *exit) {
    return exit->rows.data;
}

/* Returns scratch for the map's output; before that, for hidden states that are gathered. */
static float *mapped(const EarlyExit *exit) {
    return inputs(exit) + (size_t)EARLY_EXIT_ROWS * exit->engine->hparams.n_embd;
}

/* Returns scratch for states that the head takes in. */
static float *states(const EarlyExit *exit) {
    return mapped(exit) + (size_t)EARLY_EXIT_ROWS * exit->engine->hparams.n_embd;
}

static float *head_rows(const EarlyExit *exit) {
    return states(exit) + (size_t)EARLY_EXIT_ROWS * exit->engine->hparams.n_embd;
}

static int reserve(EarlyExit *exit, ErrText *err) {
    Engine *engine = exit->engine;
    const size_t len_bytes = SCRATCH_ROWS * (size_t)engine->hparams.n_embd * sizeof(float);
    int r;

    engine_make_room(engine, ACCOUNT_ACTIVATIONS, len_bytes);
    r = accounted_block_init(&exit->rows, engine->accounts, ACCOUNT_ACTIVATIONS, len_bytes);
    return r ? account_refused(err, ENGINE_E_MEMORY, r, engine->accounts, ACCOUNT_ACTIVATIONS, len_bytes,
                               "an early exit")
             : 0;
}

static void replace(EarlyExit *exit, EarlyExit *by) {
    early_exit_deinit(exit);
    *exit = *by;
    *by = (EarlyExit){ 0 };
}

/* --- which predictor ---------------------------------------------------------------------------------------------- */

int early_exit_set_lens(EarlyExit *exit, Engine *engine, uint32_t layer, ErrText *err) {
    _cleanup_(early_exit_deinit)
        EarlyExit lens = { .engine = engine, .layer = layer, .mix = lens_mix, .tau = lens_tau };
    int r;

    if (layer >= engine->hparams.n_layers)
        return err_set(err, -EINVAL, "there is no layer between %u and the head", layer);
    if (!layer) {
        early_exit_deinit(exit);
        return 0;
    }
    r = reserve(&lens, err);
    if (!r)
        replace(exit, &lens);
    return r;
}

/* Loads the map as a matrix of a device that takes f16. */
static int load_linear(EarlyExit *exit, ErrText *err) {
    Engine *engine = exit->engine;
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
 * early_exit_load() - load the trained predictor of the engine's package
 * @path: PACKAGE.exit
 *
 * A predictor that is damaged or belongs to another package is refused, and *exit stays as it was. Return: 0;
 * ENGINE_E_MODEL: there is no such file, or it was refused, with a text that names it; ENGINE_E_MEMORY, -errno.
 */
int early_exit_load(EarlyExit *exit, Engine *engine, const char *path, ErrText *err) {
    const ExitMapModel model = { engine->info.package_sha256, engine->hparams.n_embd, engine->hparams.n_layers };
    _cleanup_(early_exit_deinit) EarlyExit loaded = { .engine = engine };
    int r = exit_map_read(&loaded.map, engine->accounts, path, &model, err);

    if (r)
        return r == EXIT_MAP_E_MEMORY ? ENGINE_E_MEMORY : r > 0 ? ENGINE_E_MODEL : r;
    loaded.layer = loaded.map.layer;
    loaded.mix = (PruningMix){ loaded.map.by_q, loaded.map.by_share, loaded.map.offset };
    loaded.tau = loaded.map.tau;
    r = load_linear(&loaded, err);
    if (!r)
        r = reserve(&loaded, err);
    if (!r)
        replace(exit, &loaded);
    return r;
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

int early_exit_states(EarlyExit *exit, const float *hidden, size_t n, float *normed, ErrText *err) {
    const Engine *engine = exit->engine;
    const Hparams *hparams = &engine->hparams;
    float *y = mapped(exit);

    assert(n <= EARLY_EXIT_ROWS);
    if (exit->linear) {
        const BackendLinear *linear = exit->linear;
        int r;

        early_exit_scale(hidden, n, hparams->n_embd, inputs(exit));
        r = exit->floats->ops->linear(exit->floats, &linear, 1, &(LinearInput){ .x = inputs(exit) }, n,
                                      &(LinearOutput){ .y = &y }, err);
        if (r)
            return r < 0 ? r : -EIO;
        hidden = y;
    }
    layer_norm_rows(engine->backend, hparams, weights_outside(engine->weights)->vectors, ROLE_OUTPUT_NORM, hidden, n,
                    hparams->n_embd, normed);
    return 0;
}

void early_exit_logits(EarlyExit *exit, const float *state, const uint32_t *tokens, size_t n, float *logits) {
    const Engine *engine = exit->engine;
    const size_t n_embd = engine->hparams.n_embd;
    const float *rows = head_rows(exit), *bias = weights_outside(engine->weights)->vectors[ROLE_OUTPUT_BIAS];

    for (size_t first = 0; first < n; first += TOKENS_AT_ONCE) {
        const size_t n_now = MIN(n - first, TOKENS_AT_ONCE);

        engine->backend->ops->embed(engine->backend, weights_head(engine->weights), tokens + first, n_now, 1,
                                    head_rows(exit));
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

/* --- edges of a tree ---------------------------------------------------------------------------------------------- */

/* Returns how many edges from `first` on begin at its row. */
static size_t edges_of_row(const DraftEdge *edges, size_t n, size_t first) {
    size_t n_same = 1;

    while (first + n_same < n && edges[first + n_same].row == edges[first].row)
        n_same++;
    return n_same;
}

/* Computes the states of rows that edges from `first` on begin at, as many as there is room for; *nextp: the first edge
 * of the next row. */
static int find_states(EarlyExit *exit, const float *hidden, const DraftEdge *edges, size_t n_edges, size_t first,
                       size_t *nextp, ErrText *err) {
    const size_t n_embd = exit->engine->hparams.n_embd;
    size_t n = 0;

    for (*nextp = first; *nextp < n_edges && n < EARLY_EXIT_ROWS; *nextp += edges_of_row(edges, n_edges, *nextp))
        memcpy(mapped(exit) + n++ * n_embd, hidden + edges[*nextp].row * n_embd, n_embd * sizeof(float));
    /* The input may be in the map's scratch: it is scaled into other scratch before the map writes. */
    return early_exit_states(exit, mapped(exit), n, states(exit), err);
}

static int score(EarlyExit *exit, const float *hidden, const DraftEdge *edges, size_t n_edges, float *log_shares,
                 ErrText *err) {
    for (size_t first = 0, next; first < n_edges; first = next) {
        const float *state = states(exit);
        int r = find_states(exit, hidden, edges, n_edges, first, &next, err);

        if (r)
            return r;
        for (size_t n; first < next; first += n, state += exit->engine->hparams.n_embd) {
            uint32_t tokens[DRAFT_ROWS_MAX];

            n = edges_of_row(edges, n_edges, first);
            assert(n <= DRAFT_ROWS_MAX);
            for (size_t i = 0; i < n; i++)
                tokens[i] = edges[first + i].token;
            early_exit_logits(exit, state, tokens, n, log_shares + first);
            early_exit_shares(log_shares + first, n, exit->tau, log_shares + first);
        }
    }
    return 0;
}

int early_exit_score(EarlyExit *exit, const float *hidden, const DraftEdge *edges, size_t n, float *log_shares,
                     ErrText *err) {
    Engine *engine = exit->engine;
    const uint32_t head = 1 + engine->hparams.n_layers;
    const uint64_t start_ns = engine_trace_begin(engine);
    int r;

    if (engine_acquire(engine, head, 0, NULL))
        return 1;
    r = score(exit, hidden, edges, n, log_shares, err);
    weights_release(engine->weights, head, exit->layer);
    engine_trace_part(engine, "early exit", "element-wise", start_ns, (int32_t)exit->layer - 1,
                      n ? edges[n - 1].row + 1 : 0);
    return r;
}
