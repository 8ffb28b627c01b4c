// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/engine/draft/tree_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "engine/kv/sequence_state.h"
#include "test/unit/fixtures/model_maker.h"

void tree_case_init(TreeCase *tree, Engine *engine) {
    const size_t n = ENGINE_TREE_ROWS_MAX * (size_t)engine_info(engine)->n_vocab;

    *tree = (TreeCase){ .engine = engine,
                        .plain = malloc(n * sizeof(*tree->plain)),
                        .logits = malloc(n * sizeof(*tree->logits)) };
    assert_true(tree->plain && tree->logits);
}

void tree_case_deinit(TreeCase *tree) {
    free(tree->plain);
    free(tree->logits);
}

static size_t row_bytes(const Engine *engine) {
    return engine_info(engine)->n_vocab * sizeof(float);
}

static float *row_of(const TreeCase *tree, float *rows, size_t row) {
    return rows + row * engine_info(tree->engine)->n_vocab;
}

static size_t parent_of(TreeShape shape, size_t row, size_t n, uint64_t *random) {
    switch (shape) {
    case TREE_RANDOM:
        return test_random(random) % row;
    case TREE_LONG:
        return row - 1 - test_random(random) % MIN(row, 3);
    case TREE_STAR:
        return 0;
    case TREE_ORDERED: /* a branch begins at the chain, or goes on */
        return row <= n / 2 || test_random(random) % 3 ? row - 1 : test_random(random) % (n / 2 + 1);
    case TREE_TWO_WAYS:
        return row == 2 ? 0 : row - 1;
    default:
        return row - 1;
    }
}

void tree_case_fill(TreeCase *tree, uint64_t *random, TreeShape shape, size_t n) {
    tree->n = n;
    tree->parents[0] = -1;
    tree->depths[0] = 0;
    for (size_t row = 0; row < n; row++) {
        if (row) {
            tree->parents[row] = (int16_t)parent_of(shape, row, n, random);
            tree->depths[row] = tree->depths[tree->parents[row]] + 1;
        }
        tree->tokens[row] = (uint32_t)(test_random(random) % engine_info(tree->engine)->n_vocab);
    }
    tree_case_choose(tree, test_random(random) % n);
}

void tree_case_choose(TreeCase *tree, size_t row) {
    tree->n_path = tree->depths[row] + 1;
    for (int at = (int)row; at >= 0; at = tree->parents[at])
        tree->path[tree->depths[at]] = (uint16_t)at;
}

size_t tree_case_deepest(const TreeCase *tree) {
    size_t deepest = 0;

    for (size_t row = 0; row < tree->n; row++)
        deepest = MAX(tree->depths[row], deepest);
    return deepest;
}

uint32_t tree_case_token(const Engine *engine, uint32_t text, size_t position) {
    uint64_t random = text * 1000003u + position;

    return (uint32_t)(test_random(&random) % engine_info(engine)->n_vocab);
}

void tree_case_append(Engine *engine, Sequence *sequence, uint32_t text, size_t to) {
    uint32_t tokens[64];

    for (size_t at = sequence_n_tokens(sequence), n; at < to; at += n) {
        const size_t room = MIN(engine_chunk_tokens(engine), 64);

        n = MIN(to - at, room);
        for (size_t i = 0; i < n; i++)
            tokens[i] = tree_case_token(engine, text, at + i);
        assert_int_equal(engine_forward(engine, sequence, tokens, n, 0, NULL, NULL), 0);
    }
}

void tree_case_decode(TreeCase *tree, Sequence *sequence) {
    const size_t before = sequence_n_tokens(sequence);
    uint16_t holds[ENGINE_TREE_ROWS_MAX], path[ENGINE_TREE_ROWS_MAX];
    size_t n_held = 0;

    for (size_t row = 0; row < tree->n; row++) {
        size_t same = 0;

        for (int at = (int)row; at >= 0; at = tree->parents[at])
            path[tree->depths[at]] = (uint16_t)at;
        while (same < n_held && same < tree->depths[row] && holds[same] == path[same])
            same++;
        sequence_rewind(sequence, before + same);
        for (; same <= tree->depths[row]; same++) {
            holds[same] = path[same];
            assert_int_equal(engine_forward(tree->engine, sequence, &tree->tokens[path[same]], 1, 1,
                                            row_of(tree, tree->plain, path[same]), NULL),
                             0);
        }
        n_held = same;
    }
    sequence_rewind(sequence, before);
}

static void take(EngineSpan *span, size_t row, const float *logits, const EngineTops *tops) {
    TreeCase *tree = span->head.arg;

    assert_int_equal(tree->n_before + row, tree->n_taken);
    memcpy(row_of(tree, tree->logits, tree->n_taken), logits, row_bytes(tree->engine));
    tree->n_taken++;
    if (span->grows_tree)
        return;
    span->kept = tree->path;
    span->n_kept = tree->n_path;
}

EngineSpan tree_case_span(TreeCase *tree, Sequence *sequence) {
    tree->n_taken = tree->n_before = 0;
    memset(tree->logits, 0, tree->n * row_bytes(tree->engine));
    return (EngineSpan){
        .sequence = sequence,
        .tokens = tree->tokens,
        .parents = tree->parents,
        .n = tree->n,
        .head = { .n_rows = tree->n,
                  .logits = row_of(tree, tree->logits, tree->n - 1), /* anything: the row that is taken last */
                  .take = take,
                  .arg = tree },
    };
}

void tree_case_sort(TreeCase *tree) {
    const TreeCase was = *tree;
    size_t to[ENGINE_TREE_ROWS_MAX], n = 0;

    for (size_t depth = 0; n < was.n; depth++)
        for (size_t row = 0; row < was.n; row++) {
            if (was.depths[row] != depth)
                continue;
            to[row] = n;
            tree->parents[n] = depth ? (int16_t)to[was.parents[row]] : -1;
            tree->tokens[n] = was.tokens[row];
            tree->depths[n++] = depth;
        }
    for (size_t i = 0; i < tree->n_path; i++)
        tree->path[i] = (uint16_t)to[was.path[i]];
}

EngineSpan tree_case_pass(TreeCase *tree, Sequence *sequence, size_t n) {
    tree->n_before = tree->n_taken;
    return (EngineSpan){
        .sequence = sequence,
        .tokens = tree->tokens + tree->n_before,
        .parents = tree->parents + tree->n_before,
        .grows_tree = true,
        .n = n,
        .head = { .n_rows = n,
                  .logits = row_of(tree, tree->logits, tree->n_before + n - 1),
                  .take = take,
                  .arg = tree },
    };
}

static size_t rows_of_pass(const TreeCase *tree, uint64_t *random, size_t most, bool by_depth) {
    const size_t left = tree->n - tree->n_taken;
    size_t n = 1;

    if (!by_depth)
        return 1 + test_random(random) % MIN(left, most);
    while (n < left && tree->depths[tree->n_taken + n] == tree->depths[tree->n_taken])
        n++;
    return n;
}

void tree_case_run_passes(TreeCase *tree, Sequence *sequence, uint64_t *random, size_t most, bool by_depth) {
    tree->n_taken = 0;
    memset(tree->logits, 0, tree->n * row_bytes(tree->engine));
    while (tree->n_taken < tree->n) {
        EngineSpan span = tree_case_pass(tree, sequence, rows_of_pass(tree, random, most, by_depth));

        assert_int_equal(sequence->tree.n, tree->n_taken);
        assert_int_equal(engine_forward_spans(tree->engine, &span, 1, NULL), 0);
    }
    assert_int_equal(sequence_close_tree(sequence, tree->path, tree->n_path), 0);
    assert_int_equal(sequence->tree.n, 0);
}

void tree_case_compare(const TreeCase *tree, const char *what) {
    for (size_t row = 0; row < tree->n; row++)
        if (memcmp(row_of(tree, tree->logits, row), row_of(tree, tree->plain, row), row_bytes(tree->engine)))
            fail_msg("%s: row %zu of %zu, behind %d, at depth %zu: other logits than plain decoding", what, row,
                     tree->n, tree->parents[row], tree->depths[row]);
}

void tree_case_go_on(const TreeCase *tree, Sequence *sequence, Sequence *plain, uint32_t text, size_t n) {
    const size_t before = sequence_n_tokens(plain);
    float *logits[2] = { malloc(row_bytes(tree->engine)), malloc(row_bytes(tree->engine)) };

    assert_true(logits[0] && logits[1]);
    assert_int_equal(sequence_n_tokens(sequence), before + tree->n_path);
    for (size_t i = 0; i < tree->n_path; i++)
        assert_int_equal(engine_forward(tree->engine, plain, &tree->tokens[tree->path[i]], 1, 1, logits[0], NULL), 0);
    for (size_t i = 0; i < n; i++) {
        const uint32_t token = tree_case_token(tree->engine, text, i);

        assert_int_equal(engine_forward(tree->engine, plain, &token, 1, 1, logits[0], NULL), 0);
        assert_int_equal(engine_forward(tree->engine, sequence, &token, 1, 1, logits[1], NULL), 0);
        if (memcmp(logits[0], logits[1], row_bytes(tree->engine)))
            fail_msg("%zu positions before, %zu kept: other logits %zu tokens behind", before, tree->n_path, i + 1);
    }
    sequence_rewind(plain, before);
    sequence_rewind(sequence, before);
    free(logits[0]);
    free(logits[1]);
}
