// SPDX-License-Identifier: Apache-2.0
/* Short ways from a state to an end of the text. */
#ifndef COORDGEN_TEXT_GRAMMAR_WAY_H
#define COORDGEN_TEXT_GRAMMAR_WAY_H

#include "text/grammar/grammar_matcher.h"

/* Count as grammar_matcher_end_bytes() and grammar_matcher_end_tokens(), within a call. A failure is the matcher's. */
uint32_t matcher_end_bytes(GrammarMatcher *matcher, GrammarState state);
uint32_t matcher_end_tokens(GrammarMatcher *matcher, GrammarState state);

#endif
