// SPDX-License-Identifier: Apache-2.0
/* Random token trees behind a text, verified in one step, beside plain decoding of each way down. */
#ifndef COORDGEN_TEST_UNIT_TREE_CASE_H
#define COORDGEN_TEST_UNIT_TREE_CASE_H

#include "engine/engine.h"

typedef enum TreeShape {
    TREE_RANDOM,   /* a row follows any earlier one */
    TREE_LONG,     /* a row follows one of the last three */
    TREE_STAR,     /* all follow the root */
    TREE_ORDERED,  /* like draft trees: a chain, then branches depth first */
    TREE_TWO_WAYS, /* the root, one row, and a long chain beside it */
    TREE_CHAIN,
    _TREE_SHAPE_N,
} TreeShape;

typedef struct TreeCase {
    Engine *engine;
    size_t n;
    int16_t parents[ENGINE_TREE_ROWS_MAX];
    uint32_t tokens[ENGINE_TREE_ROWS_MAX];
    size_t depths[ENGINE_TREE_ROWS_MAX]; /* 0: the root */
    float *plain, *logits;               /* f32[ENGINE_TREE_ROWS_MAX][n_vocab] */
    size_t n_taken;                      /* rows that got logits */
    size_t n_before;                     /* rows of earlier passes */
    uint16_t path[ENGINE_TREE_ROWS_MAX]; /* the rows to keep */
    size_t n_path;
} TreeCase;

void tree_case_init(TreeCase *tree, Engine *engine);
void tree_case_deinit(TreeCase *tree);
/* Makes another tree of n rows, whose path goes to a random row. */
void tree_case_fill(TreeCase *tree, uint64_t *random, TreeShape shape, size_t n);
void tree_case_choose(TreeCase *tree, size_t row);
size_t tree_case_deepest(const TreeCase *tree);
/* Returns the token at a position of a text. */
uint32_t tree_case_token(const Engine *engine, uint32_t text, size_t position);
/* Extends the sequence by the text's positions up to `to`. */
void tree_case_append(Engine *engine, Sequence *sequence, uint32_t text, size_t to);
/* Computes tree->plain by steps of one token behind the sequence, which is then as before. */
void tree_case_decode(TreeCase *tree, Sequence *sequence);
/* Fills a span that takes all logits and keeps the path. */
EngineSpan tree_case_span(TreeCase *tree, Sequence *sequence);
/* Sorts rows by depth; the path stays the same. */
void tree_case_sort(TreeCase *tree);
/* Fills a span that computes the next n rows, behind n_taken computed ones, and leaves the tree open. */
EngineSpan tree_case_pass(TreeCase *tree, Sequence *sequence, size_t n);
/* Runs all passes, each alone in its step, of at most `most` random rows, or of one depth each; then keeps the path. */
void tree_case_run_passes(TreeCase *tree, Sequence *sequence, uint64_t *random, size_t most, bool by_depth);
/* Checks that all rows have the bytes of plain decoding. */
void tree_case_compare(const TreeCase *tree, const char *what);
/* Checks that the sequence, which has kept the path, and a plain one, which gets it too, give the same bytes for `n`
 * more tokens of the text. Afterwards both are as before the tree. */
void tree_case_go_on(const TreeCase *tree, Sequence *sequence, Sequence *plain, uint32_t text, size_t n);

#endif
