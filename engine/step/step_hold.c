// SPDX-License-Identifier: Apache-2.0
/* What a step does between its operators: checks whether it must stop, waits for weights, and records its trace. */
#include "base/clock.h"
#include "engine/step/step_parts.h"
#include "engine/step/step_state.h"

#define WAIT_NS 20000000 /* wait for weights before the step's cancel flags are looked at again */

uint64_t engine_trace_begin(const Engine *engine) {
    return engine->trace ? clock_now_ns() : 0;
}

void engine_trace_part(const Engine *engine, const char *name, const char *category, uint64_t start_ns, int32_t layer,
                       size_t rows) {
    if (engine->trace)
        trace_add(engine->trace, &(TraceEvent){ .name = name,
                                                .category = category,
                                                .start_ns = start_ns,
                                                .end_ns = clock_now_ns(),
                                                .layer = layer,
                                                .rows = (uint32_t)rows });
}

void engine_trace_node(const Engine *engine, size_t node, uint64_t start_ns, uint32_t layer, BatchRange rows,
                       unsigned int worker) {
    if (engine->trace)
        trace_add(engine->trace, &(TraceEvent){ .name = engine->steps->layer.graph.nodes[node].name,
                                                .category = op_class_name(engine->steps->layer.graph.nodes[node].class),
                                                .start_ns = start_ns,
                                                .end_ns = clock_now_ns(),
                                                .layer = (int32_t)layer,
                                                .row = (uint32_t)rows.first,
                                                .rows = (uint32_t)rows.n,
                                                .lane = worker ? TRACE_LANE_WORKER + worker - 1 : TRACE_LANE_ENGINE });
}

static bool is_cancelled(const EngineSpan *span) {
    const _Atomic bool *flag = span->sequence->cancelled;

    return span->is_cancelled || (flag && atomic_load_explicit(flag, memory_order_relaxed));
}

static bool all_cancelled(const EngineStep *step) {
    for (size_t i = 0; i < step->n_spans; i++)
        if (!is_cancelled(&step->spans[i]))
            return false;
    return true;
}

static bool must_yield(const EngineYield *yield) {
    return yield && ((yield->wanted && atomic_load_explicit(yield->wanted, memory_order_relaxed)) ||
                     (yield->until_ns && clock_now_ns() >= yield->until_ns));
}

bool engine_step_stops(const EngineStep *step, const EngineYield *yield) {
    return must_yield(yield) || all_cancelled(step);
}

/* Notes which sequences are cancelled, and returns why the step stops. A cancelled sequence stays in the step until all
 * are cancelled, and its results are ignored. Each flag is read once: a flag set between two reads would end the step
 * as cancelled and its span as computed. */
int engine_step_look_up(EngineStep *step, const EngineYield *yield) {
    bool is_wanted = false;

    for (size_t i = 0; i < step->n_spans; i++) {
        step->spans[i].is_cancelled = is_cancelled(&step->spans[i]);
        is_wanted = is_wanted || !step->spans[i].is_cancelled;
    }
    return !is_wanted ? ENGINE_E_CANCELLED : must_yield(yield) ? ENGINE_E_YIELDED : 0;
}

/**
 * engine_step_hold() - acquire the weights of a stage, which may still be on their way
 * @yield: when not to wait for the weights; NULL: always wait
 *
 * The weights are there until engine_step_let_go(). The cancel flags and @yield are checked whenever a piece of the
 * weights has come, even before the step's first operator: the weights go on coming. Return: 0, ENGINE_E_CANCELLED,
 * ENGINE_E_YIELDED, ENGINE_E_WAITING, ENGINE_E_READ with a text, -errno.
 */
int engine_step_hold(EngineStep *step, uint32_t stage, int32_t layer, const EngineYield *yield, ErrText *err) {
    Engine *engine = step->engine;
    uint64_t start_ns, ns;
    int r = engine_acquire(engine, stage, 0, err);

    if (r != ENGINE_E_WAITING)
        return r > 0 ? ENGINE_E_READ : r;
    start_ns = clock_now_ns();
    do {
        const bool no_waiting = yield && yield->no_waiting;

        r = engine_step_look_up(step, no_waiting ? NULL : yield);
        if (!r && no_waiting)
            r = ENGINE_E_WAITING;
        if (r)
            break;
        r = engine_acquire(engine, stage, WAIT_NS, err);
        engine_beat(engine);
        if (r > 0 && r != ENGINE_E_WAITING)
            r = ENGINE_E_READ;
    } while (r == ENGINE_E_WAITING);
    ns = clock_now_ns() - start_ns;
    for (size_t i = 0; i < step->n_spans; i++)
        step->spans[i].wait_ns += ns;
    engine_trace_part(engine, "arrival", "load", engine->trace ? start_ns : 0, layer, step->batch.n_rows);
    return r;
}

void engine_step_let_go(EngineStep *step, uint32_t stage) {
    weights_release(step->engine->weights, stage, step->layer);
}
