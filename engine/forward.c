/* The forward pass: walks the architecture's table of operators for the rows of one step, which one or more sequences
 * share. It knows no device. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "engine/engine_private.h"

/* Rows of the head that shared steps compute at once; the weights of the head are read once for them. */
#define HEAD_ROWS 16

/* Pages that the rows will be written to become their sequences' own. Only a sequence that was rewound into a page that
 * others read needs memory for that. */
static int make_writable(const EngineSpan *spans, size_t n_spans, ErrText *err) {
    for (size_t i = 0; i < n_spans; i++) {
        int r = sequence_make_writable(spans[i].sequence, spans[i].n, err);

        if (r)
            return r;
    }
    return 0;
}

static int check_spans(const Engine *engine, const EngineSpan *spans, size_t n_spans) {
    size_t rows = 0;

    if (!n_spans || n_spans > ENGINE_SPANS_MAX)
        return -EINVAL;
    for (size_t i = 0; i < n_spans; i++) {
        const EngineSpan *span = &spans[i];

        if (!span->n || span->n > engine->chunk_tokens - rows || span->n_logit_rows > span->n)
            return -EINVAL;
        rows += span->n;
        if (span->n > span->sequence->capacity_tokens - span->sequence->n_tokens)
            return ENGINE_E_CONTEXT;
        for (size_t j = 0; j < span->n; j++)
            if (span->tokens[j] >= engine->hparams.n_vocab)
                return -EINVAL;
        for (size_t j = 0; j < i; j++)
            if (spans[j].sequence == span->sequence)
                return -EINVAL;
    }
    return 0;
}

/* Rotary tables and embeddings of all rows; how many there are. */
static size_t begin_rows(Engine *engine, EngineSpan *spans, size_t n_spans) {
    const Hparams *hparams = &engine->hparams;
    const BackendOps *ops = engine->backend->ops;
    size_t first = 0;

    for (size_t i = 0; i < n_spans; i++) {
        EngineSpan *span = &spans[i];
        size_t position = span->sequence->n_tokens;

        span->is_cancelled = false;
        engine->spans[i] = (LayerSpan){
            .first = first, .rows = span->n, .position = position, .blocks = span->sequence->blocks
        };
        rope_rows_fill(&engine->rope, hparams->n_rot / 2, first, position, span->n);
        if (hparams->window)
            rope_rows_fill(&engine->rope_local, hparams->n_rot / 2, first, position, span->n);
        ops->embed(engine->backend, engine->weights->outside.linears[ROLE_TOKEN_EMBD], span->tokens, span->n,
                   hparams->embedding_scale, engine->slots[SLOT_X] + first * hparams->n_embd);
        first += span->n;
    }
    return first;
}

/* Whether none is left. One that was cancelled stays in the step, and nobody looks at what comes out. */
static bool all_cancelled(EngineSpan *spans, size_t n_spans) {
    bool all = true;

    for (size_t i = 0; i < n_spans; i++) {
        const _Atomic bool *flag = spans[i].sequence->cancelled;

        if (flag && atomic_load_explicit(flag, memory_order_relaxed))
            spans[i].is_cancelled = true;
        all = all && spans[i].is_cancelled;
    }
    return all;
}

/* Since when, for a trace. */
static uint64_t trace_begin(const Engine *engine) {
    return engine->trace ? clock_now_ns() : 0;
}

static void trace_end(const Engine *engine, const char *name, const char *category, uint64_t start_ns, int32_t layer,
                      size_t rows) {
    if (engine->trace)
        trace_add(engine->trace,
                  &(TraceEvent){ name, category, start_ns, clock_now_ns(), layer, (uint32_t)rows });
}

static const char *category_of(OpKind kind) {
    return kind == OP_LINEAR ? "product" : kind == OP_ATTENTION ? "attention" : "element-wise";
}

static int run_layers(Engine *engine, EngineSpan *spans, size_t n_spans, size_t n_rows, ErrText *err) {
    const Hparams *hparams = &engine->hparams;
    LayerRows rows = {
        .hparams = hparams, .backend = engine->backend, .rows = n_rows, .spans = engine->spans, .n_spans = n_spans
    };
    int r;

    memcpy(rows.slots, engine->slots, sizeof(rows.slots));
    for (uint32_t layer = 0; layer < hparams->n_layers; layer++) {
        const WeightsLayer *weights = &engine->weights->layers[layer];

        rows.layer = layer;
        rows.rope = hparams_layer_is_local(hparams, layer) ? &engine->rope_local : &engine->rope;
        for (size_t i = 0; i < n_spans; i++) {
            engine->spans[i].k_offset_bytes = 2 * layer * engine->kv_plane_bytes;
            engine->spans[i].v_offset_bytes = (2 * layer + 1) * engine->kv_plane_bytes;
        }
        for (size_t i = 0, n_ran; i < hparams->arch->n_ops; i += n_ran) {
            const ArchOp *ops = &hparams->arch->ops[i];
            uint64_t start_ns = trace_begin(engine);

            if (all_cancelled(spans, n_spans))
                return ENGINE_E_CANCELLED;
            r = layer_run_ops(&rows, i, weights->linears, weights->vectors, &n_ran, err);
            if (r)
                return r < 0 ? r : ENGINE_E_READ;
            trace_end(engine, arch_op_name(&ops[n_ran - 1]), category_of(ops[n_ran - 1].kind), start_ns, (int32_t)layer,
                      n_rows);
            if (engine->heartbeat)
                atomic_fetch_add_explicit(engine->heartbeat, 1, memory_order_relaxed);
        }
    }
    return 0;
}

/* --- output ---------------------------------------------------------------------------------------------------------- */

/* The logit rows of all spans, normalised, close together in SLOT_NORM; how many there are. */
static size_t gather_outputs(Engine *engine, const EngineSpan *spans, size_t n_spans) {
    const Hparams *hparams = &engine->hparams;
    size_t n = 0;

    for (size_t i = 0; i < n_spans; i++) {
        size_t first = engine->spans[i].first + spans[i].n - spans[i].n_logit_rows;

        if (!spans[i].n_logit_rows)
            continue;
        engine->backend->ops->norm(engine->backend, engine->slots[SLOT_X] + first * hparams->n_embd,
                                   engine->weights->outside.vectors[ROLE_OUTPUT_NORM], hparams->norm_eps,
                                   spans[i].n_logit_rows, hparams->n_embd,
                                   engine->slots[SLOT_NORM] + n * hparams->n_embd);
        n += spans[i].n_logit_rows;
    }
    return n;
}

static int run_head(Engine *engine, size_t first, size_t rows, float *logits, ErrText *err) {
    const BackendLinear *head = weights_head(engine->weights);
    const LinearInput in = { .x = engine->slots[SLOT_NORM] + first * engine->hparams.n_embd };
    int r = engine->backend->ops->linear(engine->backend, &head, 1, &in, rows, &logits, err);

    return r > 0 ? ENGINE_E_READ : r;
}

/* Rows that sequences share a pass for: HEAD_ROWS, or 0 when there is no memory for more than one sequence's at a time. */
static size_t shared_head_rows(Engine *engine) {
    if (!engine->head_rows.data && accounted_block_init(&engine->head_rows, engine->accounts, ACCOUNT_ACTIVATIONS,
                                                        HEAD_ROWS * (size_t)engine->hparams.n_vocab * sizeof(float)))
        return 0;
    return HEAD_ROWS;
}

static int run_heads_apart(Engine *engine, const EngineSpan *spans, size_t n_spans, ErrText *err) {
    size_t first = 0;
    int r = 0;

    for (size_t i = 0; i < n_spans && !r; i++) {
        if (spans[i].n_logit_rows)
            r = run_head(engine, first, spans[i].n_logit_rows, spans[i].logits, err);
        first += spans[i].n_logit_rows;
    }
    return r;
}

static int run_heads(Engine *engine, const EngineSpan *spans, size_t n_spans, ErrText *err) {
    const size_t n_rows = gather_outputs(engine, spans, n_spans), n_vocab = engine->hparams.n_vocab,
                 group = n_spans > 1 && n_rows > 1 ? shared_head_rows(engine) : 0;
    size_t span = 0, row = 0; /* where the next logits go */

    if (!group)
        return run_heads_apart(engine, spans, n_spans, err);
    for (size_t first = 0; first < n_rows; first += group) {
        const size_t n = n_rows - first < group ? n_rows - first : group;
        const float *logits = engine->head_rows.data;
        int r = run_head(engine, first, n, engine->head_rows.data, err);

        if (r)
            return r;
        for (size_t i = 0; i < n; i++, row++) {
            for (; row == spans[span].n_logit_rows; row = 0)
                span++;
            memcpy(spans[span].logits + row * n_vocab, logits + i * n_vocab, n_vocab * sizeof(*logits));
        }
    }
    return 0;
}

/**
 * engine_forward_spans() - append tokens to several sequences and compute them together
 *
 * The weights are read once for all rows. What comes out for a sequence does not depend on the others: every operator
 * works row by row. Keys and values are written past n_tokens, which moves only at the end: a sequence whose part was
 * cancelled stays as it was, and so do all when weights could not be read. Thread: the one that computes.
 * Return: 0, ENGINE_E_CONTEXT, ENGINE_E_CANCELLED; ENGINE_E_READ, with a text that names package and tensor; -EINVAL;
 * after sequence_rewind() into what others read too: ENGINE_E_MEMORY or -ENOMEM, with a text.
 */
int engine_forward_spans(Engine *engine, EngineSpan *spans, size_t n_spans, ErrText *err) {
    uint64_t start_ns;
    size_t n_rows;
    int r = check_spans(engine, spans, n_spans);

    if (!r)
        r = make_writable(spans, n_spans, err);
    if (r)
        return r;
    start_ns = trace_begin(engine);
    n_rows = begin_rows(engine, spans, n_spans);
    trace_end(engine, tensor_role_name(ROLE_TOKEN_EMBD), "element-wise", start_ns, -1, n_rows);
    r = run_layers(engine, spans, n_spans, n_rows, err);
    start_ns = trace_begin(engine);
    if (!r)
        r = run_heads(engine, spans, n_spans, err);
    trace_end(engine, tensor_role_name(ROLE_OUTPUT), "product", start_ns, -1, n_rows);
    for (size_t i = 0; i < n_spans && !r; i++)
        if (!spans[i].is_cancelled)
            spans[i].sequence->n_tokens += spans[i].n;
    return r;
}

/* See engine_forward_spans(). */
int engine_forward(Engine *engine, Sequence *sequence, const uint32_t *tokens, size_t n, size_t n_logit_rows,
                   float *logits, ErrText *err) {
    EngineSpan span = { sequence, tokens, n, n_logit_rows, logits, false };
    int r = engine_forward_spans(engine, &span, 1, err);

    return !r && span.is_cancelled ? ENGINE_E_CANCELLED : r;
}
