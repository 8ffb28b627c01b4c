// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/rule_graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/min_max.h"
#include "text/grammar/grammar_error.h"

typedef struct Drawing {
    RuleGraph *graph;
    const RuleDraft *draft;
    ByteRegex *store;
    RuleEdge *edges;       /* the draft's, by node */
    uint32_t *first_edges; /* [n_nodes + 1] */
    bool *is_nullable;     /* [n_rules] */
    uint32_t *seen;        /* [n_nodes], number of the walk that has met a node */
    uint32_t n_walks;
    uint32_t *stack; /* [n_nodes] */
    uint32_t n_stack;
    uint32_t *list; /* [n_nodes], of one rule */
    uint64_t n_steps;
    uint32_t *numbers; /* [n_nodes], of nodes that stay; UINT32_MAX: none */
    uint32_t *owners;  /* [n_nodes], rule of a node; UINT32_MAX: not reached */
    uint32_t *costs;   /* [n_lexemes], bytes of a short text of at least one byte */
    uint32_t room_edges;
} Drawing;

static void drawing_deinit(Drawing *drawing) {
    free(drawing->edges);
    free(drawing->first_edges);
    free(drawing->is_nullable);
    free(drawing->seen);
    free(drawing->stack);
    free(drawing->list);
    free(drawing->numbers);
    free(drawing->owners);
    free(drawing->costs);
}

void rule_graph_deinit(RuleGraph *graph) {
    free(graph->rules);
    free(graph->nodes);
    free(graph->edges);
    free(graph->lexemes);
    free(graph->unordered);
    free(graph->members);
    *graph = (RuleGraph){ 0 };
}

size_t rule_graph_memory_bytes(const RuleGraph *graph) {
    return graph->n_rules * sizeof(*graph->rules) + graph->n_nodes * sizeof(*graph->nodes) +
           graph->n_edges * sizeof(*graph->edges) + graph->n_lexemes * sizeof(*graph->lexemes) +
           graph->n_unordered * sizeof(*graph->unordered) + graph->n_members * sizeof(*graph->members);
}

/* Takes fuel for n steps that are far cheaper than a node of an expression. */
static int burn(Drawing *drawing, uint64_t n_steps) {
    const uint64_t fuel = n_steps / 16 + 1;

    if (drawing->store->fuel < fuel)
        return GRAMMAR_E_TOO_COMPLEX;
    drawing->store->fuel -= fuel;
    return 0;
}

/* Sorts the draft's edges by node. */
static int drawing_init(Drawing *drawing, RuleGraph *graph, const RuleDraft *draft, ByteRegex *store) {
    const uint32_t n_nodes = draft->n_nodes;

    *drawing = (Drawing){ .graph = graph, .draft = draft, .store = store };
    drawing->edges = malloc(MAX(draft->n_edges, 1) * sizeof(*drawing->edges));
    drawing->first_edges = calloc((size_t)n_nodes + 2, sizeof(*drawing->first_edges));
    drawing->is_nullable = calloc(draft->n_rules, sizeof(*drawing->is_nullable));
    drawing->seen = calloc(n_nodes, sizeof(*drawing->seen));
    drawing->stack = malloc(n_nodes * sizeof(*drawing->stack));
    drawing->list = malloc(n_nodes * sizeof(*drawing->list));
    drawing->numbers = malloc(n_nodes * sizeof(*drawing->numbers));
    drawing->owners = malloc(n_nodes * sizeof(*drawing->owners));
    drawing->costs = malloc(MAX(draft->lexemes.n, 1) * sizeof(*drawing->costs));
    if (!drawing->edges || !drawing->first_edges || !drawing->is_nullable || !drawing->seen || !drawing->stack ||
        !drawing->list || !drawing->numbers || !drawing->owners || !drawing->costs)
        return err_raise(-ENOMEM);
    memset(drawing->numbers, 0xff, n_nodes * sizeof(*drawing->numbers));
    memset(drawing->owners, 0xff, n_nodes * sizeof(*drawing->owners));
    for (uint32_t i = 0; i < draft->n_edges; i++)
        drawing->first_edges[draft->edges[i].from + 2]++;
    for (uint32_t i = 2; i < n_nodes + 2; i++)
        drawing->first_edges[i] += drawing->first_edges[i - 1];
    for (uint32_t i = 0; i < draft->n_edges; i++)
        drawing->edges[drawing->first_edges[draft->edges[i].from + 1]++] = draft->edges[i].edge;
    return 0;
}

/* --- nothing ------------------------------------------------------------------------------------------------------ */

static void meet(Drawing *drawing, uint32_t node) {
    if (drawing->seen[node] == drawing->n_walks)
        return;
    drawing->seen[node] = drawing->n_walks;
    drawing->stack[drawing->n_stack++] = node;
}

static bool is_empty(const Drawing *drawing, uint32_t symbol) {
    return symbol == SYMBOL_EMPTY || (symbol & SYMBOL_RULE && drawing->is_nullable[symbol & ~SYMBOL_RULE]);
}

/* Begins a walk along edges that may be empty. */
static void walk_from(Drawing *drawing, uint32_t node) {
    drawing->n_walks++;
    drawing->n_stack = 0;
    meet(drawing, node);
}

/* Whether the rule may only end behind a node. */
static bool is_end_only(Drawing *drawing, uint32_t node, uint32_t end) {
    bool has_end = false;

    walk_from(drawing, node);
    while (drawing->n_stack) {
        const uint32_t at = drawing->stack[--drawing->n_stack];

        has_end = has_end || at == end;
        for (uint32_t i = drawing->first_edges[at]; i < drawing->first_edges[at + 1]; i++) {
            drawing->n_steps++;
            if (drawing->edges[i].symbol != SYMBOL_EMPTY)
                return false;
            meet(drawing, drawing->edges[i].to);
        }
    }
    return has_end;
}

/* A rule that calls itself as its last part goes back to its start instead: no row of a parser grows with the text. */
static int loop_tails(Drawing *drawing, uint32_t rule) {
    const DraftRule *ends = &drawing->draft->rules[rule];
    uint32_t n_list = 0;

    drawing->n_steps = 0;
    /* All nodes of the rule, along any edge. */
    walk_from(drawing, ends->start);
    while (drawing->n_stack) {
        const uint32_t at = drawing->stack[--drawing->n_stack];

        drawing->owners[at] = rule;
        drawing->list[n_list++] = at;
        for (uint32_t i = drawing->first_edges[at]; i < drawing->first_edges[at + 1]; i++)
            meet(drawing, drawing->edges[i].to);
    }
    for (uint32_t k = 0; k < n_list; k++)
        for (uint32_t i = drawing->first_edges[drawing->list[k]]; i < drawing->first_edges[drawing->list[k] + 1]; i++) {
            RuleEdge *edge = &drawing->edges[i];

            if (edge->symbol != (rule | SYMBOL_RULE) || !is_end_only(drawing, edge->to, ends->end))
                continue;
            *edge = (RuleEdge){ SYMBOL_EMPTY, ends->start };
            if (drawing->n_steps > UINT16_MAX && burn(drawing, drawing->n_steps))
                return GRAMMAR_E_TOO_COMPLEX;
            drawing->n_steps = drawing->n_steps > UINT16_MAX ? 0 : drawing->n_steps;
        }
    return burn(drawing, drawing->n_steps + n_list);
}

static int find_nullable(Drawing *drawing) {
    const RuleGraph *graph = drawing->graph;

    for (uint32_t i = 0; i < graph->n_unordered; i++)
        drawing->is_nullable[graph->unordered[i].rule] = !graph->unordered[i].required;
    for (bool has_changed = true; has_changed;) {
        has_changed = false;
        for (uint32_t rule = 0; rule < drawing->draft->n_rules; rule++) {
            const DraftRule *ends = &drawing->draft->rules[rule];
            uint64_t n_steps = 0;

            if (drawing->is_nullable[rule])
                continue;
            walk_from(drawing, ends->start);
            while (drawing->n_stack) {
                const uint32_t at = drawing->stack[--drawing->n_stack];

                for (uint32_t i = drawing->first_edges[at]; i < drawing->first_edges[at + 1]; i++, n_steps++)
                    if (is_empty(drawing, drawing->edges[i].symbol))
                        meet(drawing, drawing->edges[i].to);
            }
            if (burn(drawing, n_steps))
                return GRAMMAR_E_TOO_COMPLEX;
            if (drawing->seen[ends->end] == drawing->n_walks)
                has_changed = drawing->is_nullable[rule] = true;
        }
    }
    for (uint32_t i = 0; i < graph->n_members; i++)
        if (drawing->is_nullable[graph->members[i]])
            return err_raise(-EINVAL);
    for (uint32_t i = 0; i < graph->n_unordered; i++)
        if (drawing->is_nullable[graph->unordered[i].separator])
            return err_raise(-EINVAL);
    return 0;
}

static int compare_edges(const void *a, const void *b) {
    return memcmp(a, b, sizeof(RuleEdge));
}

static int add_edge(Drawing *drawing, const RuleEdge *edge) {
    RuleGraph *graph = drawing->graph;

    if (graph->n_edges >= drawing->draft->edges_max)
        return GRAMMAR_E_TOO_COMPLEX;
    if (graph->n_edges == drawing->room_edges) {
        uint32_t room = MAX(2 * drawing->room_edges, 64);
        RuleEdge *edges = realloc(graph->edges, room * sizeof(*edges));

        if (!edges)
            return err_raise(-ENOMEM);
        graph->edges = edges;
        drawing->room_edges = room;
    }
    graph->edges[graph->n_edges++] = *edge;
    return 0;
}

/* Gives a node of the draft the edges of all nodes that nothing leads to from there, each once. */
static int draw_node(Drawing *drawing, uint32_t node) {
    RuleGraph *graph = drawing->graph;
    RuleNode *drawn = &graph->nodes[drawing->numbers[node]];
    uint64_t n_steps = 0;
    uint32_t n_edges;

    *drawn = (RuleNode){ .rule = drawing->owners[node], .first_edge = graph->n_edges, .end_bytes = REGEX_NEVER };
    walk_from(drawing, node);
    while (drawing->n_stack) {
        const uint32_t at = drawing->stack[--drawing->n_stack];

        drawn->is_final = drawn->is_final || at == drawing->draft->rules[drawn->rule].end;
        for (uint32_t i = drawing->first_edges[at]; i < drawing->first_edges[at + 1]; i++, n_steps++) {
            const RuleEdge *edge = &drawing->edges[i];
            int r = edge->symbol == SYMBOL_EMPTY
                        ? 0
                        : add_edge(drawing, &(RuleEdge){ edge->symbol, drawing->numbers[edge->to] });

            if (r)
                return r;
            if (is_empty(drawing, edge->symbol))
                meet(drawing, edge->to);
        }
    }
    n_edges = graph->n_edges;
    if (n_edges > drawn->first_edge)
        qsort(graph->edges + drawn->first_edge, n_edges - drawn->first_edge, sizeof(*graph->edges), compare_edges);
    graph->n_edges = drawn->first_edge;
    for (uint32_t i = drawn->first_edge; i < n_edges; i++)
        if (i == drawn->first_edge || compare_edges(&graph->edges[i], &graph->edges[graph->n_edges - 1]))
            graph->edges[graph->n_edges++] = graph->edges[i];
    return burn(drawing, n_steps);
}

/* Draws what stays without edges of nothing: the starts of rules, and nodes behind a symbol. */
static int draw_nodes(Drawing *drawing) {
    RuleGraph *graph = drawing->graph;
    const RuleDraft *draft = drawing->draft;

    for (uint32_t rule = 0; rule < draft->n_rules; rule++)
        drawing->numbers[draft->rules[rule].start] = 0;
    for (uint32_t i = 0; i < draft->n_edges; i++)
        if (drawing->edges[i].symbol != SYMBOL_EMPTY)
            drawing->numbers[drawing->edges[i].to] = 0;
    for (uint32_t node = 0; node < draft->n_nodes; node++)
        if (!drawing->numbers[node])
            drawing->numbers[node] = drawing->owners[node] == UINT32_MAX ? UINT32_MAX : graph->n_nodes++;
    graph->nodes = calloc((size_t)graph->n_nodes + 1, sizeof(*graph->nodes));
    if (!graph->nodes)
        return err_raise(-ENOMEM);
    for (uint32_t node = 0; node < draft->n_nodes; node++) {
        int r = drawing->numbers[node] == UINT32_MAX ? 0 : draw_node(drawing, node);

        if (r)
            return r;
    }
    graph->nodes[graph->n_nodes].first_edge = graph->n_edges;
    for (uint32_t rule = 0; rule < draft->n_rules; rule++)
        graph->rules[rule] = (Rule){ drawing->numbers[draft->rules[rule].start], REGEX_NEVER };
    for (uint32_t i = 0; i < graph->n_unordered; i++)
        graph->rules[graph->unordered[i].rule].start = graph->n_nodes + 1 + i;
    graph->is_root_nullable = drawing->is_nullable[0];
    return 0;
}

/* --- the way to an end -------------------------------------------------------------------------------------------- */

uint32_t rule_graph_unordered_bytes(const RuleGraph *graph, const UnorderedRule *rule, uint64_t seen) {
    const uint32_t separator = graph->rules[rule->separator].end_bytes;
    uint64_t n_bytes = 0, n_separators = 0;
    uint32_t least = REGEX_NEVER;

    for (uint32_t i = 0; i < rule->n_members; i++) {
        const uint32_t n = rule_graph_member_bytes(graph, rule, i);

        if (seen >> i & 1)
            continue;
        least = MIN(least, n);
        if (!(rule->required >> i & 1))
            continue;
        if (n == REGEX_NEVER)
            return REGEX_NEVER;
        n_bytes += n;
        n_separators++;
    }
    if (!n_separators) /* a separator asks for any member */
        return seen & UNORDERED_BEHIND_SEPARATOR ? least : 0;
    n_separators -= !(seen & UNORDERED_BEHIND_MEMBER);
    if (n_separators && separator == REGEX_NEVER)
        return REGEX_NEVER;
    return (uint32_t)MIN(n_bytes + n_separators * separator, REGEX_BYTES_MAX);
}

static uint32_t cost_of_lexeme(ByteRegex *store, RegexId id) {
    uint32_t n_bytes = REGEX_NEVER;

    if (!store->infos[id].nullable)
        return byte_regex_end_bytes(store, id);
    for (uint32_t class = 0; class < store->n_classes; class ++) {
        const uint32_t rest = byte_regex_end_bytes(store, byte_regex_derive(store, id, store->sample_of[class]));

        n_bytes = rest == REGEX_NEVER ? n_bytes : MIN(n_bytes, MIN(rest + 1, REGEX_BYTES_MAX));
    }
    return n_bytes;
}

/* Bytes to the rule's end along an edge. */
static uint32_t bytes_along(const Drawing *drawing, const RuleEdge *edge) {
    const RuleGraph *graph = drawing->graph;
    const uint32_t rest = graph->nodes[edge->to].end_bytes;
    const uint32_t cost =
        edge->symbol & SYMBOL_RULE ? graph->rules[edge->symbol & ~SYMBOL_RULE].end_bytes : drawing->costs[edge->symbol];

    return cost == REGEX_NEVER || rest == REGEX_NEVER ? REGEX_NEVER
                                                      : (uint32_t)MIN((uint64_t)cost + rest, REGEX_BYTES_MAX);
}

/* Whether that is news. */
static bool set_end(Rule *rule, uint32_t n_bytes) {
    const bool has_changed = rule->end_bytes != n_bytes;

    rule->end_bytes = n_bytes;
    return has_changed;
}

/* Finds the shortest ways, until none gets shorter. */
static int find_ends(Drawing *drawing) {
    RuleGraph *graph = drawing->graph;
    uint32_t n_bytes;

    for (uint32_t i = 0; i < graph->n_lexemes; i++)
        drawing->costs[i] = cost_of_lexeme(drawing->store, graph->lexemes[i]);
    if (drawing->store->failure)
        return drawing->store->failure;
    for (bool has_changed = true; has_changed;) {
        has_changed = false;
        for (uint32_t node = graph->n_nodes; node--;) { /* nodes stand in the order of texts, mostly */
            n_bytes = graph->nodes[node].is_final ? 0 : REGEX_NEVER;
            for (uint32_t i = graph->nodes[node].first_edge; i < graph->nodes[node + 1].first_edge; i++)
                n_bytes = MIN(n_bytes, bytes_along(drawing, &graph->edges[i]));
            has_changed = has_changed || n_bytes != graph->nodes[node].end_bytes;
            graph->nodes[node].end_bytes = n_bytes;
        }
        for (uint32_t rule = 0; rule < graph->n_rules; rule++)
            if (graph->rules[rule].start < graph->n_nodes)
                has_changed |= set_end(&graph->rules[rule], graph->nodes[graph->rules[rule].start].end_bytes);
        for (uint32_t i = 0; i < graph->n_unordered; i++) {
            n_bytes = rule_graph_unordered_bytes(graph, &graph->unordered[i], 0);
            has_changed |= set_end(&graph->rules[graph->unordered[i].rule], n_bytes);
        }
        if (burn(drawing, (uint64_t)graph->n_edges + graph->n_nodes + graph->n_members))
            return GRAMMAR_E_TOO_COMPLEX;
    }
    return graph->rules[0].end_bytes == REGEX_NEVER ? GRAMMAR_E_NOTHING : 0;
}

/* Drops edges that lead to no text. */
static void prune(Drawing *drawing) {
    RuleGraph *graph = drawing->graph;
    uint32_t n_edges = 0;

    for (uint32_t node = 0, i = 0; node < graph->n_nodes; node++) {
        graph->nodes[node].first_edge = n_edges;
        for (; i < graph->nodes[node + 1].first_edge; i++)
            if (bytes_along(drawing, &graph->edges[i]) != REGEX_NEVER)
                graph->edges[n_edges++] = graph->edges[i];
    }
    graph->nodes[graph->n_nodes].first_edge = graph->n_edges = n_edges;
}

int rule_graph_init(RuleGraph *graph, RuleDraft *draft, ByteRegex *store) {
    _cleanup_(drawing_deinit) Drawing drawing = { 0 };
    int r;

    *graph = (RuleGraph){ .n_rules = draft->n_rules,
                          .n_lexemes = draft->lexemes.n,
                          .unordered = draft->unordered,
                          .n_unordered = draft->n_unordered,
                          .members = draft->members,
                          .n_members = draft->n_members };
    draft->unordered = NULL;
    draft->members = NULL;
    graph->rules = calloc(draft->n_rules, sizeof(*graph->rules));
    graph->lexemes = malloc(MAX(graph->n_lexemes, 1) * sizeof(*graph->lexemes));
    if (!graph->rules || !graph->lexemes)
        return err_raise(-ENOMEM);
    if (graph->n_lexemes)
        memcpy(graph->lexemes, draft->lexemes.words, graph->n_lexemes * sizeof(*graph->lexemes));
    r = byte_regex_set_classes(store, graph->lexemes, graph->n_lexemes);
    if (!r)
        r = drawing_init(&drawing, graph, draft, store);
    for (uint32_t rule = 0; !r && rule < draft->n_rules; rule++)
        r = loop_tails(&drawing, rule);
    if (!r)
        r = find_nullable(&drawing);
    if (!r)
        r = draw_nodes(&drawing);
    if (!r)
        r = find_ends(&drawing);
    if (!r)
        prune(&drawing);
    return r;
}
