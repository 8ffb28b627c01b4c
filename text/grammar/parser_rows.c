// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/parser_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/min_max.h"
#include "text/grammar/grammar_error.h"

static void fail(ParserRows *rows, int r) {
    if (!rows->store->failure)
        rows->store->failure = r;
}

/* Takes fuel for n steps that are cheaper than a node of an expression. */
static void burn(ParserRows *rows, uint32_t n_steps) {
    const uint64_t fuel = n_steps / 16 + 1;

    if (rows->store->fuel < fuel)
        fail(rows, GRAMMAR_E_TOO_COMPLEX);
    rows->store->fuel -= MIN(fuel, rows->store->fuel);
}

static const RuleNode *node_at(const ParserRows *rows, uint32_t node) {
    return node <= rows->graph->n_nodes ? &rows->graph->nodes[node] : &unordered_node(&rows->unordered, node)->node;
}

static bool has_edges(const ParserRows *rows, uint32_t node) {
    const RuleGraph *graph = rows->graph;

    return node > graph->n_nodes ? unordered_node(&rows->unordered, node)->n_left
                                 : graph->nodes[node].first_edge < graph->nodes[node + 1].first_edge;
}

/* Returns the edges of a node, valid until the next call. */
static const RuleEdge *edges_of(ParserRows *rows, uint32_t node, uint32_t *np) {
    static const RuleEdge none; /* a graph may have no edges at all, and then no address of edges */
    const RuleGraph *graph = rows->graph;

    if (node < graph->n_nodes) {
        *np = graph->nodes[node + 1].first_edge - graph->nodes[node].first_edge;
        return *np ? graph->edges + graph->nodes[node].first_edge : &none;
    }
    *np = 0;
    if (unordered_nodes_edges(&rows->unordered, node, np))
        fail(rows, -ENOMEM);
    burn(rows, 8 * *np);
    return rows->unordered.edges;
}

/* Returns the first of n sorted steps whose symbol is not below. */
static uint32_t find_step(const RowStep *steps, uint32_t n, uint32_t symbol) {
    uint32_t low = 0;

    for (uint32_t high = n; low < high;) {
        const uint32_t middle = low + (high - low) / 2;

        if (steps[middle].symbol < symbol)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* --- items -------------------------------------------------------------------------------------------------------- */

static void add_item(ParserRows *rows, uint32_t node, uint32_t origin) {
    if (rows->store->failure)
        return;
    if (rows->n_items == rows->room_items) {
        uint32_t room = MAX(2 * rows->room_items, 64);
        RowItem *items = realloc(rows->items, room * sizeof(*items));

        if (!items)
            return fail(rows, err_raise(-ENOMEM));
        rows->items = items;
        rows->room_items = room;
    }
    rows->items[rows->n_items++] = (RowItem){ node, origin };
}

static void add_new_item(ParserRows *rows, uint32_t node, uint32_t origin) {
    for (uint32_t i = 0; i < rows->n_items; i++)
        if (rows->items[i].node == node && rows->items[i].origin == origin)
            return;
    burn(rows, rows->n_items);
    add_item(rows, node, origin);
}

void parser_rows_begin(ParserRows *rows) {
    rows->n_items = 0;
}

void parser_rows_scan(ParserRows *rows, uint32_t row, uint32_t lexeme) {
    const ParserRow *from = &rows->rows[row];

    for (uint32_t i = find_step(rows->steps + from->lexemes, from->n_lexemes, lexeme); i < from->n_lexemes; i++) {
        const RowStep *step = &rows->steps[from->lexemes + i];

        if (step->symbol != lexeme)
            break;
        add_new_item(rows, step->node, step->origin);
    }
}

/* Goes on behind every rule that ends here, in the row where it began. */
static void complete(ParserRows *rows) {
    for (uint32_t i = 0; i < rows->n_items && !rows->store->failure; i++) {
        const RowItem item = rows->items[i];
        const ParserRow *row = &rows->rows[item.origin];
        const RuleNode *node = node_at(rows, item.node);
        const uint32_t rule = node->rule;

        if (!node->is_final)
            continue;
        for (uint32_t k = find_step(rows->steps + row->rules, row->n_rules, rule); k < row->n_rules; k++) {
            const RowStep *step = &rows->steps[row->rules + k];

            if (step->symbol != rule)
                break;
            add_new_item(rows, step->node, step->origin);
        }
    }
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static void add_step(ParserRows *rows, uint32_t symbol, uint32_t node, uint32_t origin) {
    if (rows->store->failure)
        return;
    if (rows->n_steps == rows->room_steps) {
        uint64_t room = MAX(2 * (uint64_t)rows->room_steps, 256);
        RowStep *steps = room > UINT32_MAX ? NULL : realloc(rows->steps, room * sizeof(*steps));

        if (!steps)
            return fail(rows, err_raise(-ENOMEM));
        rows->steps = steps;
        rows->room_steps = (uint32_t)room;
    }
    rows->steps[rows->n_steps++] = (RowStep){ symbol, node, origin, REGEX_NEVER };
}

static int compare_steps(const void *a, const void *b) {
    const RowStep *x = a, *y = b;

    if (x->symbol != y->symbol)
        return x->symbol < y->symbol ? -1 : 1;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return (x->origin > y->origin) - (x->origin < y->origin);
}

/* Sorts the steps from first on, without doubles. Returns how many they are. */
static uint32_t sort_steps(ParserRows *rows, uint32_t first) {
    RowStep *steps = rows->steps + first;
    const uint32_t n = rows->n_steps - first;
    uint32_t n_kept = 0;

    if (n > 1)
        qsort(steps, n, sizeof(*steps), compare_steps);
    for (uint32_t i = 0; i < n; i++)
        if (!i || compare_steps(&steps[i], &steps[n_kept - 1]))
            steps[n_kept++] = steps[i];
    rows->n_steps = first + n_kept;
    return n_kept;
}

/* Bytes of a short way to an end of the text from a node whose rule began at origin. */
static uint32_t end_from(const ParserRows *rows, uint32_t node, uint32_t origin) {
    const RuleNode *at = node_at(rows, node);
    const ParserRow *row = &rows->rows[origin];
    uint32_t step, rest;

    if (node == rows->graph->n_nodes)
        return 0;
    step = find_step(rows->steps + row->rules, row->n_rules, at->rule);
    rest = step < row->n_rules ? rows->steps[row->rules + step].end_bytes : REGEX_NEVER;
    return rest == REGEX_NEVER ? REGEX_NEVER : (uint32_t)MIN((uint64_t)at->end_bytes + rest, REGEX_BYTES_MAX);
}

/* Finds the ways behind the rules of a new row, until none gets shorter: rules of a row may follow each other. */
static void find_ends(ParserRows *rows, const ParserRow *row) {
    RowStep *steps = rows->steps + row->rules;

    for (bool has_changed = true; has_changed && !rows->store->failure;) {
        has_changed = false;
        for (uint32_t i = 0, end; i < row->n_rules; i = end) {
            uint32_t n_bytes = REGEX_NEVER;

            for (end = i; end < row->n_rules && steps[end].symbol == steps[i].symbol; end++)
                n_bytes = MIN(n_bytes, end_from(rows, steps[end].node, steps[end].origin));
            has_changed = has_changed || n_bytes != steps[i].end_bytes;
            for (uint32_t k = i; k < end; k++)
                steps[k].end_bytes = n_bytes;
        }
        burn(rows, row->n_rules);
    }
}

/* Makes the steps of row number id from its items, and of the rules that may begin here. */
static void build_row(ParserRows *rows, uint32_t id) {
    const RuleGraph *graph = rows->graph;
    ParserRow row = { .lexemes = rows->n_steps };

    rows->n_builds++;
    for (uint32_t i = 0; i < rows->n_items; i++) {
        const RowItem item = rows->items[i];
        uint32_t n_edges;
        const RuleEdge *edge = edges_of(rows, item.node, &n_edges);

        for (const RuleEdge *end = edge + n_edges; edge < end; edge++) {
            const uint32_t rule = edge->symbol & ~SYMBOL_RULE;

            if (!(edge->symbol & SYMBOL_RULE)) {
                add_step(rows, edge->symbol, edge->to, item.origin);
            } else if (rows->marks[rule] != rows->n_builds) {
                rows->marks[rule] = rows->n_builds;
                add_item(rows, graph->rules[rule].start, id);
            }
        }
    }
    row.n_lexemes = sort_steps(rows, row.lexemes);
    row.rules = rows->n_steps;
    if (!id) /* behind the root the text ends */
        add_step(rows, 0, graph->n_nodes, 0);
    for (uint32_t i = 0; i < rows->n_items; i++) {
        const RowItem item = rows->items[i];
        uint32_t n_edges;
        const RuleEdge *edge = edges_of(rows, item.node, &n_edges);

        for (const RuleEdge *end = edge + n_edges; edge < end; edge++)
            if (edge->symbol & SYMBOL_RULE)
                add_step(rows, edge->symbol & ~SYMBOL_RULE, edge->to, item.origin);
    }
    row.n_rules = sort_steps(rows, row.rules);
    burn(rows, 8 * (row.n_lexemes + row.n_rules));
    rows->rows[id] = row;
    find_ends(rows, &rows->rows[id]);
}

static int make_room(ParserRows *rows) {
    if (rows->kernels.n + 1 > rows->room_rows) {
        uint32_t room = MAX(2 * rows->room_rows, 16);
        ParserRow *grown = realloc(rows->rows, room * sizeof(*grown));

        if (!grown)
            return err_raise(-ENOMEM);
        rows->rows = grown;
        rows->room_rows = room;
    }
    return 0;
}

static int compare_items(const void *a, const void *b) {
    return memcmp(a, b, sizeof(RowItem));
}

uint32_t parser_rows_finish(ParserRows *rows, bool *is_endp) {
    const uint32_t n_before = rows->kernels.n;
    uint32_t n = 0, id;

    complete(rows);
    if (rows->store->failure || make_room(rows)) {
        fail(rows, -ENOMEM);
        return UINT32_MAX;
    }
    for (uint32_t i = 0; i < rows->n_items; i++) {
        const RowItem item = rows->items[i];

        if (item.node == rows->graph->n_nodes)
            *is_endp = true;
        else if (has_edges(rows, item.node))
            rows->items[n++] = item;
    }
    rows->n_items = n;
    if (!n)
        return UINT32_MAX;
    qsort(rows->items, n, sizeof(*rows->items), compare_items);
    if (tuple_store_intern(&rows->kernels, (const uint32_t *)rows->items, 2 * n, &id)) {
        fail(rows, -ENOMEM);
        return UINT32_MAX;
    }
    if (id == n_before)
        rows->rows[id] = (ParserRow){ 0 };
    /* A row whose construction failed is built when it is met again. */
    if (!rows->rows[id].n_lexemes && !rows->rows[id].n_rules)
        build_row(rows, id);
    if (rows->store->failure) {
        rows->rows[id] = (ParserRow){ 0 };
        return UINT32_MAX;
    }
    return id;
}

int parser_rows_init(ParserRows *rows, const RuleGraph *graph, ByteRegex *store) {
    uint32_t id;
    int r;

    *rows = (ParserRows){ .graph = graph, .store = store };
    rows->marks = calloc(graph->n_rules, sizeof(*rows->marks));
    rows->room_steps = 64;
    rows->steps = malloc(rows->room_steps * sizeof(*rows->steps));
    r = rows->marks && rows->steps ? tuple_store_init(&rows->kernels) : err_raise(-ENOMEM);
    if (!r)
        r = unordered_nodes_init(&rows->unordered, graph);
    if (!r)
        r = make_room(rows);
    if (!r)
        r = tuple_store_intern(&rows->kernels, NULL, 0, &id);
    if (!r) {
        rows->marks[0] = 1; /* of the first build */
        add_item(rows, graph->rules[0].start, 0);
        build_row(rows, 0);
        r = store->failure;
    }
    if (r)
        parser_rows_deinit(rows);
    return r;
}

void parser_rows_deinit(ParserRows *rows) {
    tuple_store_deinit(&rows->kernels);
    unordered_nodes_deinit(&rows->unordered);
    free(rows->rows);
    free(rows->steps);
    free(rows->items);
    free(rows->marks);
    *rows = (ParserRows){ 0 };
}

size_t parser_rows_memory_bytes(const ParserRows *rows) {
    return tuple_store_memory_bytes(&rows->kernels) + unordered_nodes_memory_bytes(&rows->unordered) +
           rows->room_rows * sizeof(*rows->rows) + rows->room_steps * sizeof(*rows->steps) +
           rows->room_items * sizeof(*rows->items);
}

uint32_t parser_rows_end_bytes(const ParserRows *rows, uint32_t row, uint32_t lexeme) {
    const ParserRow *from = &rows->rows[row];
    uint32_t n_bytes = REGEX_NEVER;

    for (uint32_t i = find_step(rows->steps + from->lexemes, from->n_lexemes, lexeme); i < from->n_lexemes; i++) {
        const RowStep *step = &rows->steps[from->lexemes + i];

        if (step->symbol != lexeme)
            break;
        n_bytes = MIN(n_bytes, end_from(rows, step->node, step->origin));
    }
    return n_bytes;
}
