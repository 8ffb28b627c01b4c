// SPDX-License-Identifier: Apache-2.0
/* The rules of a grammar as automata whose edges are lexemes (regular expressions) and rules. */
#ifndef COORDGEN_TEXT_RULE_GRAPH_H
#define COORDGEN_TEXT_RULE_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/grammar/byte_regex.h"
#include "text/grammar/grammar_parts.h"

/* A symbol is a lexeme's number, a rule's number with this bit, or nothing. */
#define SYMBOL_RULE 0x80000000u
#define SYMBOL_EMPTY UINT32_MAX

typedef struct RuleEdge {
    uint32_t symbol;
    uint32_t to;
} RuleEdge;

typedef struct RuleNode {
    uint32_t rule;
    uint32_t first_edge; /* edges of the node, up to those of the next node */
    uint32_t end_bytes;  /* bytes of a short way from here to the rule's end */
    bool is_final;       /* the rule may end here */
} RuleNode;

typedef struct Rule {
    uint32_t start;     /* node */
    uint32_t end_bytes; /* of a short text of the rule */
} Rule;

/* A rule whose members come in any order. Its nodes are made by a parser (unordered_nodes.h); rule.start is the number
 * of the first one. */
typedef struct UnorderedRule {
    uint32_t rule;
    uint32_t separator;               /* the rule between each two members */
    uint32_t first_member, n_members; /* in the graph's members, which are rules */
    uint64_t required;                /* bits of members that must come */
    uint64_t repeated;                /* bits of members that may come again */
} UnorderedRule;

/* Every edge leads to a text; there is a node behind the last one for its first_edge. Rule 0 is the root. */
typedef struct RuleGraph {
    Rule *rules;
    uint32_t n_rules;
    RuleNode *nodes;
    uint32_t n_nodes;
    RuleEdge *edges;
    uint32_t n_edges;
    RegexId *lexemes;
    uint32_t n_lexemes;
    UnorderedRule *unordered;
    uint32_t n_unordered;
    uint32_t *members;
    uint32_t n_members;
    bool is_root_nullable;
} RuleGraph;

/* Bits beside those of the members that were there: behind a member, where a separator or the end follows, and behind
 * a separator, where a member follows. In front of the first member neither is set. */
#define UNORDERED_BEHIND_MEMBER (UINT64_C(1) << GRAMMAR_UNORDERED_MAX)
#define UNORDERED_BEHIND_SEPARATOR (UNORDERED_BEHIND_MEMBER << 1)
#define UNORDERED_MEMBERS (UNORDERED_BEHIND_MEMBER - 1)

/* Automata under construction, with edges of nothing. */
typedef struct DraftEdge {
    uint32_t from;
    RuleEdge edge;
} DraftEdge;

typedef struct DraftRule {
    uint32_t start;
    uint32_t end;
} DraftRule;

typedef struct RuleDraft {
    DraftEdge *edges;
    uint32_t n_edges, room_edges;
    DraftRule *rules;
    uint32_t n_rules, room_rules;
    uint32_t n_nodes;
    TupleStore lexemes; /* RegexId */
    UnorderedRule *unordered;
    uint32_t n_unordered, room_unordered;
    uint32_t *members;
    uint32_t n_members, room_members;
    uint32_t edges_max; /* of a graph */
} RuleDraft;

/* Makes the graph of a draft, whose lists of rules in any order it takes. 0; GRAMMAR_E_NOTHING, GRAMMAR_E_TOO_COMPLEX,
 * -ENOMEM; -EINVAL: a member in any order, or a separator, may be empty. The store's fuel is used. */
int rule_graph_init(RuleGraph *graph, RuleDraft *draft, ByteRegex *store);
void rule_graph_deinit(RuleGraph *graph);
size_t rule_graph_memory_bytes(const RuleGraph *graph);
/* Computes the bytes of a short text of a rule's members behind those that were there; REGEX_NEVER: there is none.
 * seen has the bits of these members and UNORDERED_BEHIND_*. The graph's rules know their own short texts. */
uint32_t rule_graph_unordered_bytes(const RuleGraph *graph, const UnorderedRule *rule, uint64_t seen);

/* Returns the bytes of a short text of a rule's member. */
static inline uint32_t rule_graph_member_bytes(const RuleGraph *graph, const UnorderedRule *rule, uint32_t member) {
    return graph->rules[graph->members[rule->first_member + member]].end_bytes;
}

#endif
