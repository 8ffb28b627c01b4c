// SPDX-License-Identifier: Apache-2.0
/* How many plain characters (plain_chars.h) may come in a state, whatever they are. Tokens of no more of them need no
 * walk. Private to the matcher; grammar_matcher_private.h comes before. */
#ifndef COORDGEN_TEXT_GRAMMAR_PLAIN_H
#define COORDGEN_TEXT_GRAMMAR_PLAIN_H

/* Counts the plain characters that the grammar allows from a state on, up to TRIE_CHARS_ENDLESS. A character that has
 * begun, as `place` says, is the first of them. The count may be too low, but not too high. *is_exactp: no text of more
 * plain characters may come. A failure is the matcher's. */
uint32_t matcher_count_plain(GrammarMatcher *matcher, GrammarState state, PlainPlace place, bool *is_exactp);

#endif
