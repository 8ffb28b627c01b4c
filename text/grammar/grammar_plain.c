// SPDX-License-Identifier: Apache-2.0
/* Counts of plain characters: read off the expressions of the lexemes where these say it, else by a search through the
 * states. */
#include "base/min_max.h"
#include "text/grammar/grammar_matcher.h"
#include "text/grammar/grammar_matcher_private.h"
#include "text/grammar/grammar_plain.h"

enum {
    NESTING_MAX = 6,   /* of expressions that are read */
    SEARCH_MAX = 48,   /* states of a search, with their places */
    SEARCH_SHARE = 40, /* of a call's fuel that a search gets */
};

static uint32_t edges_of(const GrammarMatcher *matcher, PlainPlace place, const PlainEdge **edgesp) {
    const uint32_t begin = place ? matcher->plain.ends[place - 1] : 0;

    *edgesp = matcher->plain.edges + begin;
    return matcher->plain.ends[place] - begin;
}

/* Makes the edges of plain characters between the classes of bytes, when a matcher first needs them. */
static void make_edges(GrammarMatcher *matcher) {
    PlainEdges *plain = &matcher->plain;
    uint32_t n = 0;

    for (PlainPlace place = 0; place < _PLAIN_PLACES_N; place++) {
        uint16_t seen[256] = { 0 }; /* of each class, the places behind */

        for (unsigned int byte = 0; byte < 256; byte++) {
            const PlainPlace next = plain_step(place, (uint8_t)byte);
            const uint8_t class = matcher->regex.class_of[byte];

            if (next == PLAIN_NONE || seen[class] >> next & 1)
                continue;
            seen[class] |= (uint16_t)(1u << next);
            plain->edges[n++] = (PlainEdge){ class, (uint8_t)next };
            if (place == PLAIN_BOUNDARY)
                byte_set_add(&plain->first, (uint8_t)byte);
        }
        plain->ends[place] = (uint16_t)n;
    }
}

/* --- expressions -------------------------------------------------------------------------------------------------- */

/* Plain characters that an expression goes on with. */
typedef struct PlainRange {
    uint32_t least; /* so many may come, whatever they are */
    uint32_t most;  /* no text begins with more; TRIE_CHARS_ENDLESS: any number, or that is not known */
    bool is_closed; /* something that is not plain comes before the expression's end, whatever follows it */
} PlainRange;

/* Whether the expression's texts have every plain character from a place on, and nothing longer that begins so. */
static bool has_each(GrammarMatcher *matcher, RegexId id, PlainPlace place) {
    const PlainEdge *edge;

    for (uint32_t n = edges_of(matcher, place, &edge); n--; edge++) {
        const RegexId rest = byte_regex_derive(&matcher->regex, id, matcher->regex.sample_of[edge->class]);

        if (edge->next == PLAIN_BOUNDARY ? rest != REGEX_EMPTY
                                         : rest == REGEX_NOTHING || !has_each(matcher, rest, edge->next))
            return false;
    }
    return true;
}

/* Whether the texts of an expression that begin like plain characters are these characters, one each. */
static bool is_unit(GrammarMatcher *matcher, RegexId id) {
    PlainUnit *unit = &matcher->plain.units[id % ARRAY_LEN(matcher->plain.units)];

    if (!unit->is_known || unit->id != id)
        *unit = (PlainUnit){ id, true, has_each(matcher, id, PLAIN_BOUNDARY) };
    if (matcher->regex.failure)
        unit->is_known = false;
    return unit->is_known && unit->is_unit;
}

static bool begins_plain(const GrammarMatcher *matcher, RegexId id) {
    const ByteSet *first = byte_regex_first(&matcher->regex, id);
    uint32_t common = 0;

    for (size_t w = 0; w < ARRAY_LEN(first->bits); w++)
        common |= first->bits[w] & matcher->plain.first.bits[w];
    return common;
}

static PlainRange range_of(GrammarMatcher *matcher, RegexId id, int nesting);

/* Whether any plain characters in front of each text of the expression make another of its texts. */
static bool is_absorbing(GrammarMatcher *matcher, RegexId id) {
    const ByteRegex *regex = &matcher->regex;

    if (regex->infos[id].kind == REGEX_KIND_CONCAT)
        id = byte_regex_word(regex, id, 0);
    return regex->infos[id].kind == REGEX_KIND_REPEAT && byte_regex_word(regex, id, 2) == REGEX_NO_MAX &&
           is_unit(matcher, byte_regex_word(regex, id, 0));
}

/* Reads an intersection with complements of texts that are not long. A text behind any plain characters is known in two
 * cases: there is one other part, whose texts get longer than those; or all other parts absorb the characters in front
 * of a text that they have in common. */
static PlainRange range_of_and(GrammarMatcher *matcher, RegexId id, int nesting) {
    ByteRegex *regex = &matcher->regex;
    const size_t n = byte_regex_n_words(regex, id);
    PlainRange range = { TRIE_CHARS_ENDLESS, TRIE_CHARS_ENDLESS, false };
    uint32_t refused_bytes = 0;
    size_t n_others = 0;
    bool all_absorb = true;

    for (size_t i = 0; i < n; i++) {
        const RegexId part = byte_regex_word(regex, id, i);
        PlainRange one;

        if (regex->infos[part].kind == REGEX_KIND_NOT) {
            refused_bytes = MAX(refused_bytes, regex->infos[byte_regex_word(regex, part, 0)].most);
            continue;
        }
        one = range_of(matcher, part, nesting + 1);
        n_others++;
        all_absorb = all_absorb && is_absorbing(matcher, part);
        range.least = MIN(range.least, one.least);
        range.most = MIN(range.most, one.most);
        range.is_closed = range.is_closed || one.is_closed;
    }
    if (all_absorb && refused_bytes != REGEX_NEVER)
        range.least = byte_regex_end_bytes(regex, id) == REGEX_NEVER ? 0 : TRIE_CHARS_ENDLESS;
    else if (n_others != 1 || range.least == TRIE_CHARS_ENDLESS || refused_bytes >= range.least)
        range.least = 0;
    return range;
}

/* Returns the characters of an expression that has always so many, one or more; 0: it has not. */
static uint32_t fixed_chars(GrammarMatcher *matcher, RegexId id) {
    const bool is_repeat = matcher->regex.infos[id].kind == REGEX_KIND_REPEAT;
    const RegexId unit = is_repeat ? byte_regex_word(&matcher->regex, id, 0) : id;

    if (is_repeat && byte_regex_word(&matcher->regex, id, 1) != byte_regex_word(&matcher->regex, id, 2))
        return 0;
    return !is_unit(matcher, unit) ? 0 : is_repeat ? byte_regex_word(&matcher->regex, id, 1) : 1;
}

static uint32_t add_chars(uint32_t a, uint32_t b) {
    return b == TRIE_CHARS_ENDLESS ? b : MIN((uint64_t)a + b, TRIE_CHARS_ENDLESS - 1u);
}

/* Reads a sequence: what follows counts where the first part has a fixed length. */
static PlainRange range_of_sequence(GrammarMatcher *matcher, RegexId first, RegexId behind, int nesting) {
    const uint32_t n_fixed = fixed_chars(matcher, first);
    PlainRange range;

    if (!n_fixed) {
        range = range_of(matcher, first, nesting + 1);
        if (!range.is_closed && begins_plain(matcher, behind))
            range.most = TRIE_CHARS_ENDLESS;
        else
            range.is_closed = range.is_closed || !matcher->regex.infos[behind].nullable;
        return range;
    }
    range = range_of(matcher, behind, nesting + 1);
    range.least = add_chars(n_fixed, range.least);
    range.most = add_chars(n_fixed, range.most);
    return range;
}

/* Reads how many plain characters an expression goes on with. */
static PlainRange range_of(GrammarMatcher *matcher, RegexId id, int nesting) {
    const ByteRegex *regex = &matcher->regex;
    PlainRange range = { 0, TRIE_CHARS_ENDLESS, false };

    if (!begins_plain(matcher, id))
        return (PlainRange){ 0, 0, !regex->infos[id].nullable };
    if (nesting == NESTING_MAX)
        return range;
    switch ((RegexKind)regex->infos[id].kind) {
    case REGEX_KIND_REPEAT:
        if (is_unit(matcher, byte_regex_word(regex, id, 0))) {
            const uint32_t max = byte_regex_word(regex, id, 2);

            range.least = range.most = max == REGEX_NO_MAX ? TRIE_CHARS_ENDLESS : MIN(max, TRIE_CHARS_ENDLESS - 1u);
        }
        break;
    case REGEX_KIND_AND:
        range = range_of_and(matcher, id, nesting);
        break;
    case REGEX_KIND_CONCAT:
        range = range_of_sequence(matcher, byte_regex_word(regex, id, 0), byte_regex_word(regex, id, 1), nesting);
        break;
    case REGEX_KIND_CHOICE:
        range = (PlainRange){ 0, 0, true };
        for (size_t i = 0; i < byte_regex_n_words(regex, id); i++) {
            const PlainRange one = range_of(matcher, byte_regex_word(regex, id, i), nesting + 1);

            range.least = MAX(range.least, one.least);
            range.most = MAX(range.most, one.most);
            range.is_closed = range.is_closed && one.is_closed;
        }
        break;
    default:
        break;
    }
    return range;
}

/* Reads the lexemes of a state. Behind a lexeme's end others begin, of which nothing is known here. Numbers as large as
 * the greatest one may stand for larger ones. */
static PlainRange range_of_state(GrammarMatcher *matcher, GrammarState state) {
    PlainRange range = { 0, 0, true };
    size_t n;

    matcher_threads(matcher, state, &n);
    for (size_t i = 0; i < n; i++) {
        const RegexId rest = matcher_threads(matcher, state, &n)[i].rest;
        const PlainRange one = range_of(matcher, rest, 0);
        const bool is_known = (one.is_closed || !begins_plain(matcher, rest)) && one.most < TRIE_CHARS_ENDLESS - 1u;

        range.least = MAX(range.least, one.least);
        range.most = MAX(range.most, is_known ? one.most : TRIE_CHARS_ENDLESS);
    }
    return range;
}

/* --- states ------------------------------------------------------------------------------------------------------- */

typedef struct SearchPlace {
    GrammarState state;
    uint8_t place;
    uint8_t n_chars; /* plain characters before */
} SearchPlace;

/* A search by rising numbers of characters. */
typedef struct PlainSearch {
    SearchPlace places[SEARCH_MAX];
    uint32_t n;
    uint32_t bound; /* characters known to be allowed by states that are not searched */
} PlainSearch;

/* Adds a place. Whether there was room. */
static bool add_place(const GrammarMatcher *matcher, PlainSearch *search, SearchPlace place) {
    const MatcherState *known = &matcher->states[place.state];

    if (known->n_plain && known->plain_place == place.place) {
        search->bound = MIN(search->bound, place.n_chars + known->n_plain - 1u);
        return true;
    }
    for (uint32_t i = 0; i < search->n; i++)
        if (search->places[i].state == place.state && search->places[i].place == place.place)
            return true;
    if (search->n == SEARCH_MAX)
        return false;
    search->places[search->n++] = place;
    return true;
}

/* Goes on from a place along every plain byte. Whether none is refused, and there was room. */
static bool expand(GrammarMatcher *matcher, PlainSearch *search, SearchPlace from) {
    const PlainEdge *edge;

    for (uint32_t n = edges_of(matcher, from.place, &edge); n--; edge++) {
        const GrammarState next = matcher_step(matcher, from.state, edge->class);
        const uint8_t n_chars = (uint8_t)(from.n_chars + (edge->next == PLAIN_BOUNDARY));

        if (next == STATE_DEAD || !add_place(matcher, search, (SearchPlace){ next, edge->next, n_chars }))
            return false;
    }
    return true;
}

/* Looks for the least number of characters behind which a further one is refused. A character's bytes are searched
 * before those of the next one. */
static uint32_t search_within_fuel(GrammarMatcher *matcher, PlainSearch *search) {
    for (uint32_t n_chars = 0; n_chars < TRIE_CHARS_MAX; n_chars++) {
        bool has_any = false;

        if (n_chars >= search->bound)
            return search->bound;
        for (uint32_t at = 0; at < search->n; at++) {
            if (search->places[at].n_chars != n_chars)
                continue;
            has_any = true;
            if (!expand(matcher, search, search->places[at]))
                return MIN(search->bound, n_chars);
        }
        if (!has_any)
            return search->bound;
    }
    return MIN(search->bound, (uint32_t)TRIE_CHARS_MAX);
}

/* Searches with a small part of the call's fuel, of which the walk needs the rest: without a count it only takes
 * longer. */
static uint32_t search_plain(GrammarMatcher *matcher, GrammarState state, PlainPlace place) {
    ByteRegex *regex = &matcher->regex;
    const uint64_t before = regex->fuel, given = MIN(before, matcher->limits.fuel_max / SEARCH_SHARE);
    PlainSearch search = { .bound = TRIE_CHARS_ENDLESS };
    uint32_t n;

    if (regex->failure || before < matcher->limits.fuel_max / 2)
        return 0;
    regex->fuel = given;
    add_place(matcher, &search, (SearchPlace){ state, (uint8_t)place, 0 });
    n = search_within_fuel(matcher, &search);
    if (regex->failure == GRAMMAR_E_TOO_COMPLEX && !regex->fuel)
        regex->failure = 0;
    regex->fuel += before - given;
    return n;
}

uint32_t matcher_count_plain(GrammarMatcher *matcher, GrammarState state, PlainPlace place, bool *is_exactp) {
    MatcherState *known = &matcher->states[state];
    PlainRange range = { 0, TRIE_CHARS_ENDLESS, false };

    if (known->n_plain && known->plain_place == place) {
        *is_exactp = known->is_plain_exact;
        return known->n_plain - 1u;
    }
    if (!matcher->plain.ends[_PLAIN_PLACES_N - 1])
        make_edges(matcher);
    if (place == PLAIN_BOUNDARY)
        range = range_of_state(matcher, state);
    if (!range.least && range.most)
        range.least = search_plain(matcher, state, place);
    *is_exactp = place == PLAIN_BOUNDARY && range.least == range.most && range.least != TRIE_CHARS_ENDLESS;
    if (matcher->regex.failure)
        return 0;
    known = &matcher->states[state]; /* they may have moved */
    known->n_plain = (uint8_t)(range.least + 1);
    known->plain_place = (uint8_t)place;
    known->is_plain_exact = *is_exactp;
    return range.least;
}
