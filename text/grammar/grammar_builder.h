// SPDX-License-Identifier: Apache-2.0
/* Builds a grammar from parts: literal text, classes of code points, regular expressions, sequences, choices, repeats,
 * rules that may be recursive, intersections and complements. Fronts (JSON Schema, GBNF) translate into parts.
 *
 * A part is a number, may be used in several places, and belongs to its builder. A failure (memory, a limit) stays
 * with the builder: later calls return any part, and grammar_builder_finish() reports the first failure. A builder is
 * used by one thread at a time. */
#ifndef COORDGEN_TEXT_GRAMMAR_BUILDER_H
#define COORDGEN_TEXT_GRAMMAR_BUILDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "text/grammar/grammar.h"
#include "text/grammar/grammar_parts.h"

int grammar_builder_new(GrammarBuilder **builderp, const GrammarLimits *limits); /* 0 or -ENOMEM */
GrammarBuilder *grammar_builder_free(GrammarBuilder *builder);
DEFINE_CLEANUP(GrammarBuilder, grammar_builder_free)

/* Whether a call has failed, so that a front may stop early. */
bool grammar_builder_failed(const GrammarBuilder *builder);

GrammarPart grammar_part_empty(GrammarBuilder *builder);   /* the empty text */
GrammarPart grammar_part_nothing(GrammarBuilder *builder); /* no text at all */
GrammarPart grammar_part_bytes(GrammarBuilder *builder, const void *bytes, size_t n);
/* Adds one code point of a class. Surrogates are never allowed. */
GrammarPart grammar_part_class(GrammarBuilder *builder, const GrammarRange *ranges, size_t n, unsigned int flags);
GrammarPart grammar_part_sequence(GrammarBuilder *builder, const GrammarPart *parts, size_t n);
GrammarPart grammar_part_choice(GrammarBuilder *builder, const GrammarPart *parts, size_t n);
/* min to max times the part; max may be GRAMMAR_NO_MAX. */
GrammarPart grammar_part_repeat(GrammarBuilder *builder, GrammarPart part, uint32_t min, uint32_t max);
/* Members in any order, with the separator between each two. Up to GRAMMAR_UNORDERED_MAX; more are
 * GRAMMAR_E_TOO_COMPLEX. grammar_builder_finish() returns -EINVAL where a member or the separator may be empty. The
 * part counts as recursive. */
GrammarPart grammar_part_unordered(GrammarBuilder *builder, const GrammarMember *members, size_t n,
                                   GrammarPart separator);
/* Texts of both parts; texts (of any bytes) that are not the part's. Their parts are regular, which means that no rule
 * inside can reach itself. grammar_builder_finish() refuses others. */
GrammarPart grammar_part_and(GrammarBuilder *builder, GrammarPart a, GrammarPart b);
GrammarPart grammar_part_not(GrammarBuilder *builder, GrammarPart part);
/* A rule, whose body may come later and may hold the rule itself. The name (NULL: none) is for messages. */
GrammarPart grammar_part_rule(GrammarBuilder *builder, const char *name);
void grammar_rule_set(GrammarBuilder *builder, GrammarPart rule, GrammarPart body);
bool grammar_rule_is_set(const GrammarBuilder *builder, GrammarPart rule);

/* Adds a regular expression (ECMA-262 with PCRE's usual spellings) as a part, *partp: out. Back references,
 * look-around, word boundaries and anchors in the middle are refused by name. 0; GRAMMAR_E_SYNTAX,
 * GRAMMAR_E_UNSUPPORTED with the offset in the pattern; GRAMMAR_E_TOO_COMPLEX; -ENOMEM. */
int grammar_part_regex(GrammarBuilder *builder, const char *pattern, size_t n, unsigned int flags, GrammarPart *partp,
                       ErrText *err);

/* Tells whether the part, which must be regular and have all of its rules set, allows no text at all: with
 * grammar_part_and(), whether two parts are disjoint. 0; GRAMMAR_E_UNSUPPORTED: the part is not regular;
 * GRAMMAR_E_TOO_COMPLEX; -ENOMEM. These errors leave the builder usable. */
int grammar_builder_allows_nothing(GrammarBuilder *builder, GrammarPart part, bool *nothingp, ErrText *err);

/* Makes the grammar whose texts are root's; the builder may be freed afterwards. 0; GRAMMAR_E_SYNTAX: a rule has no
 * body; GRAMMAR_E_UNSUPPORTED: an intersection or complement of a recursive part; GRAMMAR_E_NOTHING: no text is
 * allowed; GRAMMAR_E_TOO_COMPLEX; -ENOMEM. */
int grammar_builder_finish(GrammarBuilder *builder, GrammarPart root, Grammar **grammarp, ErrText *err);

#endif
