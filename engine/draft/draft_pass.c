// SPDX-License-Identifier: Apache-2.0
#include "engine/draft/draft_pass.h"

#include <errno.h>

#include "base/clock.h"
#include "base/min_max.h"

/* A pass that runs. */
typedef struct PassRows {
    const DraftPass *pass;
    const DraftModelRow *rows;
    DraftModelTops *tops;
} PassRows;

static void take_tops(EngineSpan *span, size_t row, const float *logits, const EngineTops *tops) {
    const PassRows *taken = span->head.arg;
    const uint32_t n_tokens = taken->pass->n_tokens;
    DraftModelTops *out = &taken->tops[row];

    out->n = 0;
    for (uint32_t i = 0; i < tops->n && taken->rows[row].token < n_tokens; i++)
        if (tops->tops[i].token < n_tokens)
            out->tops[out->n++] = tops->tops[i];
}

/* Computes rows that fit a step of the engine. */
static int run_pass(const DraftPass *pass, const DraftModelRow *rows, size_t n, DraftModelTops *tops) {
    uint32_t tokens[ENGINE_TREE_ROWS_MAX];
    int16_t parents[ENGINE_TREE_ROWS_MAX];
    PassRows taken = { pass, rows, tops };
    EngineSpan span = {
        .sequence = pass->sequence,
        .tokens = tokens,
        .parents = parents,
        .grows_tree = true,
        .n = n,
        .head = { .n_rows = n, .logits = pass->logits, .take = take_tops, .arg = &taken, .wants_tops = true },
    };
    const bool is_arriving = engine_is_arriving(pass->engine);
    const uint64_t start_ns = clock_now_ns();
    int r;

    for (size_t i = 0; i < n; i++) {
        tokens[i] = rows[i].token;
        parents[i] = rows[i].parent;
    }
    r = pass->run(pass->arg, &span);
    if (!r && !is_arriving) /* a load makes passes wait for weights */
        row_times_measure(pass->times, (uint32_t)n, (float)(clock_now_ns() - start_ns) / 1e6F);
    return r;
}

int draft_pass_rows(const DraftPass *pass, const DraftModelRow *rows, size_t n, DraftModelTops *tops) {
    const size_t chunk = engine_chunk_tokens(pass->engine);
    int r = 0;

    for (size_t at = 0, step; !r && at < n; at += step) {
        step = MIN(n - at, chunk);
        r = run_pass(pass, rows + at, step, tops + at);
    }
    return r;
}

int draft_pass_ended(int r, int *offp) {
    if (r == ENGINE_E_CANCELLED)
        return -ECANCELED;
    if (r && r != -EBUSY)
        r = *offp = r == ENGINE_E_MEMORY || r == ENGINE_E_CONTEXT ? DRAFTER_E_MEMORY : r > 0 ? -EIO : r;
    return r;
}
