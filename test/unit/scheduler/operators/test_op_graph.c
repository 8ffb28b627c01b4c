// SPDX-License-Identifier: Apache-2.0
/* The graph of a layer's operators: its edges follow from what operators read and write. Every order that the graph
 * allows gives the same logits to the bit, on every architecture and device. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "engine/step/step_parts.h"
#include "engine/step/step_state.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/golden/golden_arch.h"
#include "test/unit/importer/import_fixture.h"

/* --- the graph ---------------------------------------------------------------------------------------------------- */

enum {
    A = 1,
    B = 2,
    C = 4,
};

static void test_op_graph_waits(void **state) {
    OpGraph graph = { 0 };

    op_graph_add(&graph, OP_CLASS_PRODUCT, A, B, false);
    op_graph_add(&graph, OP_CLASS_ELEMENT_WISE, A, C, false); /* independent of the node before: both read A */
    op_graph_add(&graph, OP_CLASS_ELEMENT_WISE, B | C, C, false);
    op_graph_add(&graph, OP_CLASS_ATTENTION, C, A, true); /* A is written when nobody reads the old one any more */
    op_graph_close(&graph);
    assert_int_equal(graph.n, 4);
    assert_int_equal(graph.nodes[0].before, 0);
    assert_int_equal(graph.nodes[1].before, 0);
    assert_int_equal(graph.nodes[2].before, 3);
    assert_int_equal(graph.nodes[3].before, 7);
    /* Node 0 of the next layer reads A, and writes B, which node 2 reads and it has written itself. */
    assert_int_equal(graph.nodes[0].before_layer, 1 | 4 | 8);
    assert_true(op_graph_allows(&graph, 0, 0, UINT64_MAX));
    assert_false(op_graph_allows(&graph, 0, 0, 7));
    assert_false(op_graph_allows(&graph, 2, 1, UINT64_MAX));
    assert_true(op_graph_allows(&graph, 2, 3, UINT64_MAX));
    assert_true(graph.nodes[3].follows);
    assert_string_equal(op_class_name(graph.nodes[3].class), "attention");
}

/* --- a layer's ---------------------------------------------------------------------------------------------------- */

/* Every operator is in one node, in its order; the nodes of products are as the device has them. */
static void test_op_graph_of_layers(void **state) {
    for (size_t i = 0; i < golden_arch_n(); i++) {
        const Arch *arch = arch_find(golden_arch_at(i)->maker.arch);

        for (int fuses = 0; fuses < 2; fuses++) {
            LayerGraph layer;
            size_t n_attention = 0, n_fused = 0;
            const ArchOp *next = arch->ops;

            layer_graph_init(&layer, arch, fuses);
            for (size_t node = 0; node < layer.graph.n; node++) {
                assert_ptr_equal(layer.nodes[node].first, next);
                next += layer.nodes[node].n_ops;
                n_attention += layer.graph.nodes[node].follows;
                n_fused += layer.nodes[node].n_ops > 1;
                if (layer.nodes[node].n_ops > 1)
                    assert_int_equal(layer.graph.nodes[node].class, OP_CLASS_PRODUCT);
            }
            assert_ptr_equal(next, arch->ops + arch->n_ops);
            assert_int_equal(n_attention, 1);
            assert_true(fuses ? n_fused > 0 : !n_fused);
        }
    }
}

/* Rotary positions of queries do not wait for keys, and products that share an input do not wait for each other. */
static void test_op_graph_is_no_chain(void **state) {
    const Arch *arch = arch_find("gemma3");
    LayerGraph layer;
    size_t query = 0, key = 0;

    layer_graph_init(&layer, arch, false);
    for (size_t node = 0; node < layer.graph.n; node++)
        if (layer.nodes[node].main->kind == OP_ROPE)
            *(layer.nodes[node].main->in == SLOT_Q ? &query : &key) = node;
    assert_true(query && key);
    assert_false(layer.graph.nodes[key].before & (UINT64_C(1) << query));
    assert_false(layer.graph.nodes[query].before & (UINT64_C(1) << key));
}

/* --- any order ---------------------------------------------------------------------------------------------------- */

typedef struct Shuffled {
    Engine *engine;
    uint64_t random;
    size_t n_out_of_order; /* nodes that ran before an earlier node of the table */
} Shuffled;

/* Chooses a node that may run next, in a layer or the one after it. */
static size_t choose(Shuffled *shuffled, const uint64_t done[3], bool has_next) {
    const OpGraph *graph = &shuffled->engine->steps->layer.graph;
    size_t allowed[2 * OP_GRAPH_NODES_MAX], n = 0;

    for (size_t layer = 0; layer < (has_next ? 2 : 1); layer++)
        for (size_t node = 0; node < graph->n; node++)
            if (!(done[layer + 1] >> node & 1) && op_graph_allows(graph, node, done[layer + 1], done[layer]))
                allowed[n++] = layer * graph->n + node;
    assert_true(n > 0);
    return allowed[test_random(&shuffled->random) % n];
}

/* Runs the layers of a step whose rows are there, in a random order that the graph allows. */
static void run_shuffled(Shuffled *shuffled, EngineStep *step) {
    Engine *engine = shuffled->engine;
    const OpGraph *graph = &engine->steps->layer.graph;
    const uint64_t all = (UINT64_C(1) << graph->n) - 1;
    uint64_t done[3] = { all, 0, 0 }; /* of the layer before, this one, the next one */

    while (step->layer < engine->hparams.n_layers) {
        const size_t chosen = choose(shuffled, done, step->layer + 1 < engine->hparams.n_layers);
        const uint32_t ahead = (uint32_t)(chosen / graph->n), layer = step->layer + ahead;
        const size_t node = chosen % graph->n;
        const LayerRows rows = step_rows_in_layer(step, (BatchRange){ 0, step->batch.n_rows }, layer, engine->backend);

        assert_int_equal(layer_run_node(&rows, &engine->steps->layer.nodes[node],
                                        weights_layer(engine->weights, layer)->linears,
                                        weights_layer(engine->weights, layer)->vectors, NULL),
                         0);
        shuffled->n_out_of_order += ahead || (~done[1] & ((UINT64_C(1) << node) - 1));
        done[1 + ahead] |= UINT64_C(1) << node;
        while (done[1] == all && step->layer < engine->hparams.n_layers) {
            memmove(done, done + 1, 2 * sizeof(done[0]));
            done[2] = 0;
            step->layer++;
        }
    }
}

static void compute(Shuffled *shuffled, bool is_shuffled, float logits[GOLDEN_ARCH_TOKENS * GOLDEN_ARCH_VOCAB]) {
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    uint32_t tokens[GOLDEN_ARCH_TOKENS];
    EngineSpan span = { .tokens = tokens, .n = GOLDEN_ARCH_TOKENS, .head = { .n_rows = GOLDEN_ARCH_TOKENS } };
    EngineStep *step = NULL;
    ErrText err = { 0 };

    for (size_t i = 0; i < GOLDEN_ARCH_TOKENS; i++)
        tokens[i] = golden_arch_token(i);
    assert_int_equal(sequence_new(&sequence, shuffled->engine, GOLDEN_ARCH_TOKENS, &err), 0);
    span.sequence = sequence;
    span.head.logits = logits;
    assert_int_equal(engine_step_begin(&step, shuffled->engine, &span, 1, &err), 0);
    if (is_shuffled) {
        assert_int_equal(engine_step_layers(step, 0, NULL, &err), 0); /* the embedding alone */
        run_shuffled(shuffled, step);
    }
    assert_int_equal(engine_step_run(step, NULL, &err), 0);
}

static void same_in_any_order(const char *path, EngineDevice device, const char *what, size_t n_orders) {
    static float expected[GOLDEN_ARCH_TOKENS * GOLDEN_ARCH_VOCAB], logits[GOLDEN_ARCH_TOKENS * GOLDEN_ARCH_VOCAB];
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    Shuffled shuffled = { .random = 7 };
    AccountTable accounts;
    ErrText err = { 0 };

    account_table_init(&accounts);
    assert_int_equal(worker_pool_new(&pool, 1), 0);
    if (engine_new(&shuffled.engine,
                   &(EngineOptions){ .path = path,
                                     .load.device = device,
                                     .load.isa = ISA_BEST,
                                     .load.chunk_tokens = GOLDEN_ARCH_TOKENS,
                                     .pool = pool,
                                     .accounts = &accounts },
                   &err))
        fail_msg("%s: %s", what, err.text);
    compute(&shuffled, false, expected);
    for (size_t i = 0; i < n_orders; i++) {
        memset(logits, 0, sizeof(logits));
        compute(&shuffled, true, logits);
        if (memcmp(logits, expected, sizeof(logits)))
            fail_msg("%s, %s, order %zu: other logits", what, engine_info(shuffled.engine)->device, i);
    }
    assert_true(shuffled.n_out_of_order > 0);
    engine_free(shuffled.engine);
}

static void test_op_graph_any_order(void **state) {
    ImportFixture *fixture = *state;
    const size_t n_orders = patience_is_short() ? 3 : 20;

    for (size_t i = 0; i < golden_arch_n(); i++) {
        const GoldenArch *model = golden_arch_at(i);

        import_fixture_source(fixture, &model->maker);
        same_in_any_order(fixture->source, ENGINE_DEVICE_REFERENCE, model->name, n_orders);
        same_in_any_order(import_fixture_package(fixture, &model->maker, 8, false), ENGINE_DEVICE_CPU, model->name,
                          n_orders);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_op_graph_waits),
        cmocka_unit_test(test_op_graph_of_layers),
        cmocka_unit_test(test_op_graph_is_no_chain),
        WITH_FOLDER(test_op_graph_any_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
