// SPDX-License-Identifier: Apache-2.0
/* Rows of an Earley parser (Earley 1970) over lexemes, shared as in a graph-structured stack: a row is what may be
 * open between two lexemes, does not depend on where in the text it stands, and never changes. Equal rows have equal
 * numbers, so a list of any length needs no more rows than a short one. */
#ifndef COORDGEN_TEXT_PARSER_ROWS_H
#define COORDGEN_TEXT_PARSER_ROWS_H

#include "text/grammar/rule_graph.h"
#include "text/grammar/unordered_nodes.h"

/* Behind the symbol (a lexeme or a rule that begins at this row) its rule goes on at a node. */
typedef struct RowStep {
    uint32_t symbol;
    uint32_t node;
    uint32_t origin;    /* row where the node's rule began */
    uint32_t end_bytes; /* for a rule: of a short way from behind any such step of the row to an end of the text */
} RowStep;

typedef struct ParserRow {
    uint32_t lexemes, n_lexemes; /* steps along lexemes, sorted */
    uint32_t rules, n_rules;     /* steps along rules, sorted */
} ParserRow;

/* Item of a row: a rule that began at origin is at node. */
typedef struct RowItem {
    uint32_t node;
    uint32_t origin;
} RowItem;

typedef struct ParserRows {
    const RuleGraph *graph;
    ByteRegex *store;   /* has the fuel and the failure */
    TupleStore kernels; /* RowItems, sorted, without those that the row itself predicts */
    ParserRow *rows;    /* [kernels.n] */
    uint32_t room_rows;
    RowStep *steps;
    uint32_t n_steps, room_steps;
    RowItem *items; /* of the row under construction */
    uint32_t n_items, room_items;
    uint32_t *marks; /* [n_rules], number of the build that has last predicted the rule */
    uint32_t n_builds;
    UnorderedNodes unordered;
} ParserRows;

/* Makes the rows of a graph, with row 0, where the text begins. 0, GRAMMAR_E_TOO_COMPLEX, -errno. */
int parser_rows_init(ParserRows *rows, const RuleGraph *graph, ByteRegex *store);
void parser_rows_deinit(ParserRows *rows);
size_t parser_rows_memory_bytes(const ParserRows *rows);

/* Begins a new row, which is empty. */
void parser_rows_begin(ParserRows *rows);
/* Adds what follows a lexeme that began at row. A failure is the store's. */
void parser_rows_scan(ParserRows *rows, uint32_t row, uint32_t lexeme);
/* Ends the new row. *is_endp: the text may end here. Returns its number; UINT32_MAX: nothing can follow, or a failure
 * of the store's. */
uint32_t parser_rows_finish(ParserRows *rows, bool *is_endp);
/* Returns the bytes of a short way to an end of the text behind a lexeme that began at row. */
uint32_t parser_rows_end_bytes(const ParserRows *rows, uint32_t row, uint32_t lexeme);

#endif
