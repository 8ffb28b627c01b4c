// SPDX-License-Identifier: Apache-2.0
/* States and steps. A state is the set of lexemes that may be under way, each with the row where it began: an
 * automaton whose states are made when a text first comes by. */
#include "text/grammar/grammar_matcher.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "text/grammar/grammar_matcher_private.h"

static void fail(GrammarMatcher *matcher, int r) {
    if (!matcher->regex.failure)
        matcher->regex.failure = r;
}

void matcher_begin_call(GrammarMatcher *matcher) {
    matcher->regex.failure = 0;
    matcher->regex.fuel = matcher->limits.fuel_max;
}

/* --- states ------------------------------------------------------------------------------------------------------- */

static void add_thread(GrammarMatcher *matcher, uint32_t row, uint32_t lexeme, RegexId rest) {
    if (matcher->n_threads == matcher->room_threads) {
        uint32_t room = MAX(2 * matcher->room_threads, 64);
        StateThread *threads = realloc(matcher->threads, room * sizeof(*threads));

        if (!threads)
            return fail(matcher, err_raise(-ENOMEM));
        matcher->threads = threads;
        matcher->room_threads = room;
    }
    matcher->threads[matcher->n_threads++] = (StateThread){ row, lexeme, rest };
}

/* Adds the lexemes that may begin at a row. */
static void add_row(GrammarMatcher *matcher, uint32_t row) {
    const ParserRow *from = &matcher->rows.rows[row];
    const RowStep *steps = matcher->rows.steps + from->lexemes;

    for (uint32_t i = 0; i < from->n_lexemes; i++)
        if (!i || steps[i].symbol != steps[i - 1].symbol)
            add_thread(matcher, row, steps[i].symbol, matcher->grammar->graph.lexemes[steps[i].symbol]);
}

static int compare_threads(const void *a, const void *b) {
    const StateThread *x = a, *y = b;

    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    if (x->lexeme != y->lexeme)
        return x->lexeme < y->lexeme ? -1 : 1;
    return (x->rest > y->rest) - (x->rest < y->rest);
}

/* Joins threads of the same lexeme from the same row: what follows is either's rest. */
static void join_threads(GrammarMatcher *matcher) {
    StateThread *threads = matcher->threads;
    uint32_t n = 0;

    if (matcher->n_threads > 1)
        qsort(threads, matcher->n_threads, sizeof(*threads), compare_threads);
    for (uint32_t i = 0; i < matcher->n_threads; i++) {
        StateThread *last = n ? &threads[n - 1] : NULL;

        if (last && last->row == threads[i].row && last->lexeme == threads[i].lexeme)
            last->rest = byte_regex_choice(&matcher->regex, (const RegexId[]){ last->rest, threads[i].rest }, 2);
        else
            threads[n++] = threads[i];
    }
    matcher->n_threads = n;
}

/* Returns the state of the threads; STATE_DEAD on a failure. */
static GrammarState intern_state(GrammarMatcher *matcher, bool is_end) {
    uint32_t *key, before = matcher->keys.n, id = STATE_DEAD;
    size_t n_words;

    join_threads(matcher);
    add_thread(matcher, 0, 0, 0); /* room for the word in front */
    if (before == matcher->room_states) {
        uint32_t room = MAX(2 * before, 64);
        MatcherState *states = realloc(matcher->states, room * sizeof(*states));

        if (!states)
            fail(matcher, err_raise(-ENOMEM));
        matcher->states = states ? states : matcher->states;
        matcher->room_states = states ? room : matcher->room_states;
    }
    if (matcher->regex.failure)
        return STATE_DEAD;
    n_words = 3 * (size_t)(matcher->n_threads - 1) + 1;
    key = (uint32_t *)matcher->threads;
    memmove(key + 1, key, (n_words - 1) * sizeof(*key));
    key[0] = is_end;
    if (tuple_store_intern(&matcher->keys, key, n_words, &id)) {
        fail(matcher, -ENOMEM);
        return STATE_DEAD;
    }
    if (id == before) {
        matcher->states[id] = (MatcherState){
            .end_bytes = REGEX_UNKNOWN, .end_tokens = REGEX_UNKNOWN, .end_class = CLASS_NONE, .is_end = is_end
        };
        if (!(id & 63) && grammar_matcher_memory_bytes(matcher) > matcher->limits.memory_bytes_max)
            fail(matcher, GRAMMAR_E_TOO_COMPLEX);
    }
    return id;
}

const uint32_t *matcher_table_new(GrammarMatcher *matcher, GrammarState state) {
    const ByteRegex *regex = &matcher->regex;
    uint32_t *next = malloc(regex->n_classes * sizeof(*next));
    ByteSet first = { 0 };
    const StateThread *threads;
    size_t n;

    if (!next) {
        fail(matcher, err_raise(-ENOMEM));
        return NULL;
    }
    threads = matcher_threads(matcher, state, &n);
    for (size_t i = 0; i < n; i++) {
        const ByteSet *set = byte_regex_first(regex, threads[i].rest);

        for (size_t w = 0; w < ARRAY_LEN(first.bits); w++)
            first.bits[w] |= set->bits[w];
    }
    for (uint32_t class = 0; class < regex->n_classes; class ++)
        next[class] = byte_set_has(&first, regex->sample_of[class]) ? STATE_UNKNOWN : STATE_DEAD;
    matcher->states[state].next = next;
    matcher->n_tables++;
    return next;
}

GrammarState matcher_step_new(GrammarMatcher *matcher, GrammarState state, uint32_t class) {
    ByteRegex *regex = &matcher->regex;
    const uint8_t byte = regex->sample_of[class];
    bool is_end = false;
    uint32_t row;
    GrammarState next = STATE_DEAD;
    size_t n;

    matcher->n_threads = 0;
    parser_rows_begin(&matcher->rows);
    matcher_threads(matcher, state, &n);
    byte_regex_burn(regex, 4 * n);
    for (size_t i = 0; i < n && !regex->failure; i++) {
        const StateThread thread = matcher_threads(matcher, state, &n)[i];
        const RegexId rest = byte_regex_derive(regex, thread.rest, byte);

        if (rest == REGEX_NOTHING || (regex->infos[rest].has_logic && byte_regex_end_bytes(regex, rest) == REGEX_NEVER))
            continue;
        if (rest != REGEX_EMPTY)
            add_thread(matcher, thread.row, thread.lexeme, rest);
        if (regex->infos[rest].nullable)
            parser_rows_scan(&matcher->rows, thread.row, thread.lexeme);
    }
    row = matcher->rows.n_items ? parser_rows_finish(&matcher->rows, &is_end) : UINT32_MAX;
    if (row != UINT32_MAX)
        add_row(matcher, row);
    if (!regex->failure && (matcher->n_threads || is_end))
        next = intern_state(matcher, is_end);
    if (regex->failure)
        return STATE_DEAD;
    matcher->states[state].next[class] = next;
    return next;
}

/* --- the matcher -------------------------------------------------------------------------------------------------- */

static void clear(GrammarMatcher *matcher) {
    for (uint32_t i = 0; i < matcher->keys.n && matcher->states; i++)
        free(matcher->states[i].next);
    for (int i = 0; i < MASKS_N; i++)
        free(matcher->masks[i].words);
    memset(matcher->masks, 0, sizeof(matcher->masks));
    tuple_store_deinit(&matcher->keys);
    parser_rows_deinit(&matcher->rows);
    byte_regex_deinit(&matcher->regex);
    free(matcher->states);
    free(matcher->threads);
    matcher->states = NULL;
    matcher->threads = NULL;
    matcher->n_threads = matcher->room_threads = matcher->room_states = matcher->n_tables = 0;
}

/* Makes the dead state and the start. */
static int begin(GrammarMatcher *matcher) {
    int r = byte_regex_copy(&matcher->regex, matcher->grammar->regex);

    if (r)
        return r;
    matcher->regex.memory_bytes_max = matcher->limits.memory_bytes_max;
    memset(&matcher->plain, 0, sizeof(matcher->plain));
    matcher_begin_call(matcher);
    matcher->regex.fuel = UINT32_MAX; /* the first row is bounded by the grammar */
    r = parser_rows_init(&matcher->rows, &matcher->grammar->graph, &matcher->regex);
    if (!r)
        r = tuple_store_init(&matcher->keys);
    if (r)
        return r;
    intern_state(matcher, false);
    if (matcher->regex.failure)
        return matcher->regex.failure;
    matcher->states[STATE_DEAD].end_bytes = matcher->states[STATE_DEAD].end_tokens = REGEX_NEVER;
    matcher->n_threads = 0;
    add_row(matcher, 0);
    matcher->start = intern_state(matcher, matcher->grammar->graph.is_root_nullable);
    return matcher->regex.failure;
}

int grammar_matcher_new(GrammarMatcher **matcherp, Grammar *grammar, TokenTrie *trie,
                        const GrammarMatcherLimits *limits) {
    _cleanup_(grammar_matcher_freep) GrammarMatcher *matcher = calloc(1, sizeof(*matcher));
    int r;

    if (!matcher)
        return err_raise(-ENOMEM);
    matcher->grammar = grammar_ref(grammar);
    matcher->trie = token_trie_ref(trie);
    matcher->limits = *limits;
    r = begin(matcher);
    if (!r)
        *matcherp = steal(&matcher);
    return r;
}

GrammarMatcher *grammar_matcher_free(GrammarMatcher *matcher) {
    if (!matcher)
        return NULL;
    clear(matcher);
    grammar_unref(matcher->grammar);
    token_trie_unref(matcher->trie);
    free(matcher);
    return NULL;
}

int grammar_matcher_forget(GrammarMatcher *matcher) {
    clear(matcher);
    return begin(matcher);
}

size_t grammar_matcher_memory_bytes(const GrammarMatcher *matcher) {
    size_t n_bytes = sizeof(*matcher) + byte_regex_memory_bytes(&matcher->regex) +
                     parser_rows_memory_bytes(&matcher->rows) + tuple_store_memory_bytes(&matcher->keys) +
                     matcher->room_states * sizeof(*matcher->states) +
                     (size_t)matcher->n_tables * matcher->regex.n_classes * sizeof(uint32_t) +
                     matcher->room_threads * sizeof(*matcher->threads);

    for (int i = 0; i < MASKS_N; i++)
        n_bytes += matcher->masks[i].words ? TOKEN_MASK_WORDS(matcher->trie->n_tokens) * sizeof(uint64_t) : 0;
    return n_bytes;
}

GrammarState grammar_matcher_start(const GrammarMatcher *matcher) {
    return matcher->start;
}

bool grammar_matcher_is_end_allowed(const GrammarMatcher *matcher, GrammarState state) {
    return matcher->states[state].is_end;
}

bool grammar_matcher_is_complete(const GrammarMatcher *matcher, GrammarState state) {
    size_t n;

    matcher_threads(matcher, state, &n);
    return !n && matcher->states[state].is_end;
}

void grammar_matcher_set_fuel(GrammarMatcher *matcher, uint64_t fuel) {
    matcher->limits.fuel_max = fuel;
    matcher->regex.fuel = fuel;
}

uint64_t grammar_matcher_fuel_left(const GrammarMatcher *matcher) {
    return matcher->regex.fuel;
}

int grammar_matcher_advance_bytes(GrammarMatcher *matcher, GrammarState state, const void *bytes, size_t n_bytes,
                                  GrammarState *nextp) {
    const uint8_t *text = bytes;

    matcher_begin_call(matcher);
    for (size_t i = 0; i < n_bytes; i++) {
        state = matcher_step(matcher, state, matcher->regex.class_of[text[i]]);
        if (state == STATE_DEAD)
            return matcher->regex.failure ? matcher->regex.failure : GRAMMAR_E_REFUSED;
        if (matcher->regex.fuel < matcher->limits.fuel_max / 2 && n_bytes > TOKEN_TRIE_BYTES_MAX)
            matcher->regex.fuel = matcher->limits.fuel_max; /* a long text is as many calls */
    }
    *nextp = state;
    return 0;
}

int grammar_matcher_advance(GrammarMatcher *matcher, GrammarState state, uint32_t token, GrammarState *nextp) {
    TokenBytes bytes;

    if (token >= matcher->trie->n_tokens)
        return GRAMMAR_E_REFUSED;
    bytes = token_trie_bytes(matcher->trie, token);
    return bytes.n_bytes && bytes.n_bytes <= TOKEN_TRIE_BYTES_MAX
               ? grammar_matcher_advance_bytes(matcher, state, bytes.bytes, bytes.n_bytes, nextp)
               : GRAMMAR_E_REFUSED;
}
