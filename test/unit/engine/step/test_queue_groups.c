// SPDX-License-Identifier: Apache-2.0
/* Steps of several groups on the npu device, whose products run beside everything else. The bits are the cpu device's
 * in every order, with stolen products, with several sequences in a step, with steps that make way and that are
 * cancelled. The queues' counts are right. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "engine/step/step_state.h"
#include "test/unit/fixtures/npu_engine.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/importer/import_fixture.h"
#include "weights/image/weights_image.h"

enum {
    N_VOCAB = 40,
    N_PROMPT = 700, /* three groups, the last of them not whole */
    N_SECOND = 300,
    N_BEHIND = 4, /* tokens, one a step */
    N_TOKENS = N_PROMPT + N_BEHIND,
    N_LAYERS = 5,
    CHUNK = 1024,
    TURNS_UNTIL_STOLEN = 60,
};

/* Computes the rows of all logits of the prompt with this number, f32[n][N_VOCAB]. */
static EngineSpan span_of(Sequence *sequence, size_t prompt, size_t first, size_t n, float *logits) {
    static uint32_t tokens[2][N_TOKENS];

    for (uint32_t i = 0; i < N_TOKENS; i++)
        tokens[prompt][i] = (i * 7 + i / 5 + 3 * (uint32_t)prompt) % N_VOCAB;
    return (EngineSpan){
        .sequence = sequence, .tokens = tokens[prompt] + first, .n = n, .head = { .n_rows = n, .logits = logits }
    };
}

static void run_spans(NpuEngine *loaded, EngineSpan *spans, size_t n) {
    ErrText err = { 0 };

    if (engine_forward_spans(loaded->engine, spans, n, &err))
        fail_msg("%s", err.text);
}

/* Computes a prompt of N_PROMPT, beside it in the step one of N_SECOND if that is wanted, then tokens. */
static void answer(NpuEngine *loaded, bool has_second, float *logits, float *second) {
    Sequence *sequences[2] = { NULL };
    EngineSpan spans[2];
    ErrText err = { 0 };

    for (size_t i = 0; i < 1 + (size_t)has_second; i++)
        assert_int_equal(sequence_new(&sequences[i], loaded->engine, N_TOKENS, &err), 0);
    spans[0] = span_of(sequences[0], 0, 0, N_PROMPT, logits);
    spans[1] = span_of(sequences[1], 1, 0, N_SECOND, second);
    run_spans(loaded, spans, 1 + has_second);
    for (size_t i = 0; i < N_BEHIND; i++) {
        spans[0] = span_of(sequences[0], 0, N_PROMPT + i, 1, logits + (N_PROMPT + i) * N_VOCAB);
        run_spans(loaded, spans, 1);
    }
    for (size_t i = 0; i < 1 + (size_t)has_second; i++)
        sequence_free(sequences[i]);
}

typedef struct Expected {
    float first[N_TOKENS * N_VOCAB], second[N_SECOND * N_VOCAB];
} Expected;

static Expected expected, given;

/* A package of static activations, its options for the npu device, and the cpu device's logits. */
static EngineOptions prepare(ImportFixture *fixture, char *image) {
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    const char *package;
    NpuEngine loaded;

    maker.n_layers = N_LAYERS;
    maker.n_context = 1024;
    package = import_fixture_package(fixture, &maker, 8, true);
    npu_engine_load(
        &loaded,
        &(EngineOptions){
            .path = package, .load.device = ENGINE_DEVICE_CPU, .load.isa = ISA_BEST, .load.chunk_tokens = CHUNK },
        2);
    answer(&loaded, true, expected.first, expected.second);
    npu_engine_unload(&loaded);
    assert_int_equal(weights_image_path(image, PATH_MAX, fixture->cache, package), 0);
    return (EngineOptions){ .path = package,
                            .load.device = ENGINE_DEVICE_NPU,
                            .load.isa = ISA_BEST,
                            .load.chunk_tokens = CHUNK,
                            .load.weights.checking = WEIGHTS_CHECKING_NEW,
                            .load.weights.graphs = { .policy = GRAPH_SWITCH_NONE },
                            .image_path = image };
}

static void check(bool has_second) {
    assert_memory_equal(given.first, expected.first, sizeof(given.first));
    if (has_second)
        assert_memory_equal(given.second, expected.second, sizeof(given.second));
    memset(&given, 0, sizeof(given));
}

static void test_queue_groups_bits(void **state) {
    static const size_t steal_beyond[] = { OP_STEAL_MEASURED, 1, OP_STEAL_NEVER };
    static const OpPlacementKind placements[] = { OP_PLACEMENT_NPU, OP_PLACEMENT_PROFILE, OP_PLACEMENT_ALL };
    uint64_t n_stolen[_OP_ORDER_N][ARRAY_LEN(steal_beyond)] = { { 0 } };
    char image[PATH_MAX];
    EngineOptions options = prepare(*state, image);

    for (options.load.op_order = 0; options.load.op_order < _OP_ORDER_N; options.load.op_order++)
        for (size_t i = 0; i < ARRAY_LEN(steal_beyond); i++) {
            EngineQueueCounts counts;
            NpuEngine loaded;

            if (patience_is_short() && steal_beyond[i] == 1 && options.load.op_order != OP_ORDER_POSITION)
                continue; /* only that order steals */
            options.load.steal_beyond = steal_beyond[i];
            options.load.weights.graphs.policy = (GraphSwitchPolicy)((options.load.op_order + i) % _GRAPH_SWITCH_N);
            options.load.op_placement = placements[i];
            npu_engine_load(&loaded, &options, 1 + i % 2);
            for (int turn = 0; turn < (patience_is_short() ? 2 : 3); turn++) {
                answer(&loaded, turn % 2, given.first, given.second);
                check(turn % 2);
            }
            counts = engine_queue_counts(loaded.engine);
            /* A product's first time on the processors is measured, if the NPU leaves some in its queue. */
            for (int turn = 0; options.load.op_order == OP_ORDER_POSITION && !i && !counts.n_stolen; turn++) {
                assert_true(turn < TURNS_UNTIL_STOLEN);
                answer(&loaded, true, given.first, given.second);
                check(true);
                counts = engine_queue_counts(loaded.engine);
            }
            n_stolen[options.load.op_order][i] = counts.n_stolen;
            /* Checks that all nodes of steps with several groups are counted, by whoever ran them. */
            assert_int_equal((counts.n_products + counts.n_placed + counts.n_stolen + counts.n_others) % N_LAYERS, 0);
            /* In the first step each product is measured on the processors. */
            assert_int_equal(options.load.op_placement != OP_PLACEMENT_PROFILE, !counts.n_placed);
            assert_int_equal(options.load.op_placement == OP_PLACEMENT_NPU, !counts.n_joint);
            assert_true(counts.n_products && counts.n_others > counts.n_products);
            assert_true(counts.npu_ns && counts.npu_ns <= counts.wall_ns && counts.cpu_ns <= counts.wall_ns);
            npu_engine_unload(&loaded);
        }
    for (OpOrder order = 0; order < _OP_ORDER_N; order++)
        for (size_t i = 0; i < ARRAY_LEN(steal_beyond); i++)
            if (order != OP_ORDER_POSITION || steal_beyond[i] == OP_STEAL_NEVER)
                assert_int_equal(n_stolen[order][i], 0);
}

/* Places of products by a made-up profile: of every kind, and not the same in all groups. */
static void test_queue_groups_placed(void **state) {
    const int n_turns = patience_is_short() ? 8 : 24;
    uint64_t n_joint = 0, random = 20261130, n_placed = 0, n_products = 0, products = 0, attention = 0;
    char image[PATH_MAX], text[1024];
    EngineOptions options = prepare(*state, image);
    size_t n_of_one = 0, n_attending = 0;
    QueueProfile *profile;
    NpuEngine loaded;

    npu_engine_load(&loaded, &options, 2);
    engine_op_explain(loaded.engine, text, sizeof(text));
    assert_non_null(strstr(text, "not everything is measured yet"));
    profile = &loaded.engine->steps->queue_profile;
    products = op_queues_products(&loaded.engine->steps->layer.graph);
    attention = op_queues_attention(&loaded.engine->steps->layer.graph);
    for (int turn = 0; turn < n_turns; turn++) {
        const EngineQueueCounts before = engine_queue_counts(loaded.engine);
        EngineQueueCounts after;

        engine_set_op_order(loaded.engine, (OpOrder)(turn % _OP_ORDER_N), OP_STEAL_NEVER, OP_PLACEMENT_PROFILE);
        for (size_t node = 0; node < loaded.engine->steps->layer.graph.n; node++)
            for (size_t by = 0; by < _OP_QUEUE_N; by++) {
                profile->times.ns[by][node] = (double)(1 + (test_random(&random) >> 33) % 1000) * 1e6;
                profile->times.n[by][node] = OP_TIMES_FIRST;
            }
        answer(&loaded, turn % 2, given.first, given.second);
        check(turn % 2);
        after = engine_queue_counts(loaded.engine);
        n_placed += after.n_placed - before.n_placed;
        n_products += after.n_products - before.n_products;
        n_of_one += profile->placement.on_npu[0] != profile->placement.on_npu[1];
        for (size_t i = 0; i < OP_PLACEMENT_GROUPS; i++)
            assert_int_equal(profile->placement.on_npu[i] & ~(products | attention), 0);
        n_attending += (profile->placement.on_npu[0] & attention) != 0;
        n_joint += after.n_joint - before.n_joint;
        engine_op_explain(loaded.engine, text, sizeof(text));
        assert_non_null(strstr(text, "predicted for"));
    }
    if (!(n_placed > 4 * (uint64_t)n_turns && n_products > 4 * (uint64_t)n_turns && n_of_one > (size_t)n_turns / 8))
        fail_msg("%u products on the processors, %u on the npu, groups with places of their own %zu times",
                 (unsigned int)n_placed, (unsigned int)n_products, n_of_one);
    /* Attention, too, has its places. */
    assert_true(n_joint && n_attending > 0 && n_attending < (size_t)n_turns);
    /* The placement NPU puts all products on the NPU again. */
    engine_set_op_order(loaded.engine, OP_ORDER_OUT_OF_ORDER, OP_STEAL_NEVER, OP_PLACEMENT_NPU);
    n_placed = engine_queue_counts(loaded.engine).n_placed;
    answer(&loaded, false, given.first, given.second);
    check(false);
    assert_int_equal(engine_queue_counts(loaded.engine).n_placed, n_placed);
    npu_engine_unload(&loaded);
}

/* Each product is measured three times on either side, then the places are chosen, and now and then a product is
 * measured again. */
static void test_queue_groups_profile(void **state) {
    char image[PATH_MAX];
    EngineOptions options = prepare(*state, image);
    uint64_t products;
    NpuEngine loaded;

    npu_engine_load(&loaded, &options, 1);
    products = op_queues_products(&loaded.engine->steps->layer.graph);
    answer(&loaded, false, given.first, given.second);
    check(false);
    assert_int_equal(engine_queue_counts(loaded.engine).n_placed,
                     OP_TIMES_FIRST * (uint64_t)__builtin_popcountll(products));
    assert_true(op_times_know(&loaded.engine->steps->queue_profile.times, OP_QUEUE_CPU, products));
    assert_true(op_times_know(&loaded.engine->steps->queue_profile.times, OP_QUEUE_NPU, products));
    assert_true(op_times_know(&loaded.engine->steps->queue_profile.times, OP_QUEUE_NPU,
                              op_queues_attention(&loaded.engine->steps->layer.graph)));
    assert_int_equal(engine_queue_counts(loaded.engine).n_joint, OP_TIMES_FIRST);
    assert_true(loaded.engine->steps->queue_profile.placement.n_groups == 0);
    for (int turn = 0; turn < (patience_is_short() ? 20 : 40); turn++) { /* one node is tried every eight steps */
        answer(&loaded, false, given.first, given.second);
        check(false);
        assert_true(loaded.engine->steps->queue_profile.placement.placed_ns > 0);
        assert_true(loaded.engine->steps->queue_profile.placement.placed_ns <=
                    loaded.engine->steps->queue_profile.placement.all_npu_ns);
    }
    assert_true(engine_queue_counts(loaded.engine).n_placed >
                OP_TIMES_FIRST * (uint64_t)__builtin_popcountll(products));
    npu_engine_unload(&loaded);
}

/* By default steps have four groups, except in the order that has no use for them. */
static void test_queue_groups_chunk(void **state) {
    char image[PATH_MAX];
    EngineOptions options = prepare(*state, image);

    options.load.chunk_tokens = 0;
    for (options.load.op_order = 0; options.load.op_order < _OP_ORDER_N; options.load.op_order++) {
        NpuEngine loaded;

        npu_engine_load(&loaded, &options, 1);
        assert_int_equal(engine_chunk_tokens(loaded.engine),
                         options.load.op_order == OP_ORDER_IN_ORDER ? 256 : 4 * 256);
        npu_engine_unload(&loaded);
    }
}

/* The step stops before every operator, and each time another sequence has a step of its own. */
static void test_queue_groups_make_way(void **state) {
    const EngineYield yield = { .until_ns = 1 };
    char image[PATH_MAX];
    EngineOptions options = prepare(*state, image);
    Sequence *sequence, *other;
    EngineStep *made = NULL;
    size_t n_others = 0;
    ErrText err = { 0 };
    EngineSpan span;
    NpuEngine loaded;
    int r;

    options.load.preemption = true;
    npu_engine_load(&loaded, &options, 2);
    assert_int_equal(sequence_new(&sequence, loaded.engine, N_TOKENS, &err), 0);
    assert_int_equal(sequence_new(&other, loaded.engine, N_TOKENS, &err), 0);
    span = span_of(sequence, 0, 0, N_PROMPT, given.first);
    assert_int_equal(engine_step_begin(&made, loaded.engine, &span, 1, &err), 0);
    while ((r = engine_step_run(made, &yield, &err)) == ENGINE_E_YIELDED || r == ENGINE_E_WAITING) {
        EngineSpan few;

        if (n_others == N_SECOND)
            continue;
        few = span_of(other, 1, n_others, 1, given.second + n_others * N_VOCAB);
        run_spans(&loaded, &few, 1);
        n_others++;
    }
    if (r)
        fail_msg("%s", err.text);
    assert_true(n_others > 20);
    assert_memory_equal(given.first, expected.first, N_PROMPT * N_VOCAB * sizeof(float));
    assert_memory_equal(given.second, expected.second, n_others * N_VOCAB * sizeof(float));
    sequence_free(sequence);
    sequence_free(other);
    npu_engine_unload(&loaded);
}

/* The step is cancelled after any number of operators: no product is under way then, and the next step is normal. */
static void test_queue_groups_cancelled(void **state) {
    char image[PATH_MAX];
    EngineOptions options = prepare(*state, image);
    _Atomic uint64_t heartbeat = 0;
    NpuEngine loaded;

    options.heartbeat = &heartbeat;
    npu_engine_load(&loaded, &options, 2);
    for (uint64_t after = 0; after < 40; after += patience_is_short() ? 13 : 3) {
        const EngineYield yield = { .until_ns = 1 };
        _Atomic bool cancelled = false;
        EngineStep *made = NULL;
        Sequence *sequence;
        ErrText err = { 0 };
        EngineSpan span;
        uint64_t n_yields = 0;
        int r;

        assert_int_equal(sequence_new(&sequence, loaded.engine, N_TOKENS, &err), 0);
        sequence_set_cancel(sequence, &cancelled);
        span = span_of(sequence, 0, 0, N_PROMPT, given.first);
        assert_int_equal(engine_step_begin(&made, loaded.engine, &span, 1, &err), 0);
        do {
            atomic_store(&cancelled, n_yields++ == after);
            r = engine_step_run(made, &yield, &err);
        } while (r == ENGINE_E_YIELDED || r == ENGINE_E_WAITING);
        assert_int_equal(r, ENGINE_E_CANCELLED);
        sequence_free(sequence);
        answer(&loaded, false, given.first, given.second);
        check(false);
    }
    assert_true(heartbeat);
    npu_engine_unload(&loaded);
}

/* Both queues have lines in the trace, and no product runs while another one does. */
static void test_queue_groups_trace(void **state) {
    size_t n_products = 0;
    uint64_t npu_until_ns = 0;
    char image[PATH_MAX];
    EngineOptions options = prepare(*state, image);
    Trace *trace;
    NpuEngine loaded;

    assert_int_equal(trace_new(&trace, 100000), 0);
    options.trace = trace;
    options.load.op_placement = OP_PLACEMENT_NPU;
    npu_engine_load(&loaded, &options, 1);
    answer(&loaded, false, given.first, given.second);
    for (size_t i = 0; i < trace_n(trace); i++) {
        const TraceEvent *event = trace_at(trace, i);

        assert_true(event->start_ns <= event->end_ns);
        if (event->lane != TRACE_LANE_NPU)
            continue;
        n_products++;
        assert_string_equal(event->category, "product");
        assert_true(event->rows == 256 || event->rows == N_PROMPT - 2 * 256);
        assert_true(event->start_ns >= npu_until_ns);
        npu_until_ns = event->end_ns;
    }
    assert_int_equal(n_products, engine_queue_counts(loaded.engine).n_products);
    assert_int_equal(n_products, 3 * 4 * N_LAYERS);
    npu_engine_unload(&loaded);
    trace_free(trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_queue_groups_placed),   WITH_FOLDER(test_queue_groups_profile),
        WITH_FOLDER(test_queue_groups_bits),     WITH_FOLDER(test_queue_groups_chunk),
        WITH_FOLDER(test_queue_groups_make_way), WITH_FOLDER(test_queue_groups_cancelled),
        WITH_FOLDER(test_queue_groups_trace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
