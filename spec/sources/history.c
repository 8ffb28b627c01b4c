// SPDX-License-Identifier: Apache-2.0
#include "spec/sources/history.h"

#include <string.h>

#include "base/min_max.h"
#include "spec/sources/suffix_automaton.h"

enum {
    YOUNG,
    OLD,
    N_AGES,

    PIECE = 256, /* tokens of a text that are taken in at a time: for each part it is decided anew what makes way */
    OVERLAP = 128,
    LEN_MAX = 0xFFFF, /* longest match: two lengths fit in a cursor */
    LINKS_MAX = 32,   /* most strings that are asked for one node */
    /* Most continuations of an age that are looked at for one node: a single word goes on in thousands of ways */
    CONTINUATIONS = 64
};

/* An age: texts that make way together. */
typedef struct Age {
    SuffixAutomaton *automaton; /* NULL: no texts */
    uint64_t n_texts;           /* texts that end in the age */
} Age;

struct History {
    AccountTable *accounts;
    uint64_t bytes_max;
    Age ages[N_AGES];
    uint64_t n_taken;  /* tokens so far: a reader looks again when there are more */
    uint64_t n_shifts; /* number of times that the young texts became the old ones */
    uint32_t n_readers;
    bool is_freed; /* history_free() was called: the last reader frees the memory */
};

/* A text's place in both ages: the longest suffixes that stand there. */
typedef struct Place {
    SuffixMatch matches[N_AGES];
} Place;

struct HistoryReader {
    History *history;
    Place place;
    uint64_t n_taken, n_shifts;       /* the history's counters when place was found */
    uint32_t recent[HISTORY_REMATCH]; /* a ring */
    uint64_t n;                       /* number of tokens of the text */
};

int history_new(AccountTable *accounts, uint64_t bytes_max, History **historyp) {
    History *history = calloc(1, sizeof(*history));

    if (!history)
        return -ENOMEM;
    history->accounts = accounts;
    history->bytes_max = bytes_max;
    *historyp = history;
    return 0;
}

static void free_unused(History *history) {
    if (history->is_freed && !history->n_readers)
        free(history);
}

void history_free(History *history) {
    if (!history)
        return;
    for (int i = 0; i < N_AGES; i++) {
        suffix_automaton_free(history->ages[i].automaton);
        history->ages[i] = (Age){ 0 };
    }
    history->n_shifts += N_AGES;
    history->is_freed = true;
    free_unused(history);
}

/* Drops the old texts, and makes the young ones the old. */
static void shift(History *history) {
    suffix_automaton_free(history->ages[OLD].automaton);
    history->ages[OLD] = history->ages[YOUNG];
    history->ages[YOUNG] = (Age){ 0 };
    history->n_shifts++;
}

static int begin_young(History *history) {
    Age *young = &history->ages[YOUNG];

    return young->automaton ? 0 : suffix_automaton_new(history->accounts, &young->automaton);
}

static int append_young(History *history, const uint32_t *tokens, size_t n) {
    int r = begin_young(history);

    if (!r)
        r = suffix_automaton_append(history->ages[YOUNG].automaton, tokens, n);
    history->n_taken += r ? 0 : n;
    return r;
}

static bool fits_young(const History *history, size_t n) {
    return suffix_automaton_bytes_for(history->ages[YOUNG].automaton, n) <= history->bytes_max / 2;
}

/* Takes some of the text before along when ages shift in the midst of it, so that the rest is found with its
 * context. */
static int append_shifted(History *history, const uint32_t *text, size_t at, size_t n) {
    size_t from = at < OVERLAP ? 0 : at - OVERLAP;

    shift(history);
    return append_young(history, text + from, at + n - from);
}

/* Takes in n tokens of the text at `at`. If the account has no more, the old texts make way too, once: what is short
 * then is not ours to give. */
static int add_piece(History *history, const uint32_t *text, size_t at, size_t n) {
    int r = begin_young(history);

    if (r)
        return r;
    if (!fits_young(history, n))
        return history->bytes_max < HISTORY_BYTES_MIN ? 0 : append_shifted(history, text, at, n);
    r = append_young(history, text + at, n);
    return r == DRAFTER_E_MEMORY ? append_shifted(history, text, at, n) : r;
}

/* The text ends among the old ones where there was no memory for young ones. */
static void end_text(History *history) {
    Age *young = &history->ages[YOUNG];
    bool is_young = young->automaton && suffix_automaton_n_tokens(young->automaton);

    history->ages[is_young ? YOUNG : OLD].n_texts++;
    if (is_young)
        suffix_automaton_border(young->automaton);
}

/**
 * history_add() - take in a finished text
 * @tokens: prompt and answer, or as much of them as is to be drafted from
 *
 * A text that is longer than its room is kept in part, its end at least. Time is in proportion to the tokens, and no
 * single token takes long: the caller may cut a long text into several calls.
 */
int history_add(History *history, const uint32_t *tokens, size_t n) {
    uint64_t n_before = history->n_taken;
    int r = 0;

    for (size_t at = 0, n_piece; !r && at < n; at += n_piece) {
        n_piece = MIN(n - at, PIECE);
        r = add_piece(history, tokens, at, n_piece);
    }
    if (history->n_taken > n_before)
        end_text(history);
    return r;
}

HistoryStats history_stats(const History *history) {
    HistoryStats stats = { 0 };

    for (int i = 0; i < N_AGES; i++) {
        const Age *age = &history->ages[i];

        stats.n_texts += age->n_texts;
        if (!age->automaton)
            continue;
        stats.n_tokens += suffix_automaton_n_tokens(age->automaton);
        stats.bytes += suffix_automaton_bytes(age->automaton);
    }
    return stats;
}

/* Follows a match over a further token. A match counts at most LEN_MAX: beyond that it is one of a shorter suffix. */
static SuffixMatch follow(const Age *age, SuffixMatch match, uint32_t token) {
    if (!age->automaton)
        return (SuffixMatch){ 0 };
    match = suffix_automaton_follow(age->automaton, suffix_automaton_settled(age->automaton, match), token);
    if (match.len <= LEN_MAX)
        return match;
    match.len = LEN_MAX;
    return suffix_automaton_settled(age->automaton, match);
}

static void place_follow(const History *history, Place *place, uint32_t token) {
    for (int i = 0; i < N_AGES; i++)
        place->matches[i] = follow(&history->ages[i], place->matches[i], token);
}

/* Finds the place of the reader's last tokens alone. */
static Place place_anew(const HistoryReader *reader) {
    uint64_t first = reader->n < HISTORY_REMATCH ? 0 : reader->n - HISTORY_REMATCH;
    Place place = { 0 };

    for (uint64_t i = first; i < reader->n; i++)
        place_follow(reader->history, &place, reader->recent[i % HISTORY_REMATCH]);
    return place;
}

/* Looks again where texts came or went: new ones may have more of the reader's last tokens. What was found before still
 * holds, unless those texts are gone. */
static Place place_now(const HistoryReader *reader) {
    const History *history = reader->history;
    Place place = reader->place, anew;

    if (reader->n_taken == history->n_taken && reader->n_shifts == history->n_shifts)
        return place;
    for (uint64_t n = reader->n_shifts; n < history->n_shifts && n < reader->n_shifts + N_AGES; n++)
        place = (Place){ .matches[OLD] = place.matches[YOUNG] };
    anew = place_anew(reader);
    for (int i = 0; i < N_AGES; i++)
        if (anew.matches[i].len > place.matches[i].len)
            place.matches[i] = anew.matches[i];
    return place;
}

int history_reader_new(History *history, HistoryReader **readerp) {
    HistoryReader *reader = calloc(1, sizeof(*reader));

    if (!reader)
        return -ENOMEM;
    reader->history = history;
    history->n_readers++;
    *readerp = reader;
    return 0;
}

void history_reader_free(HistoryReader *reader) {
    if (!reader)
        return;
    reader->history->n_readers--;
    free_unused(reader->history);
    free(reader);
}

/* The bucket of a match: a class for each doubling of its length, two of each: whether most of what came behind it was
 * this token, had there been one more that was not. */
static uint16_t bucket_of(uint32_t len, uint64_t count, uint64_t total) {
    uint16_t class = (uint16_t)(31 - __builtin_clz(len | 1));

    class = class < DRAFT_BUCKETS / 2 ? class : DRAFT_BUCKETS / 2 - 1;
    return (uint16_t)(2 * class + (2 * count > total + 1));
}

static float history_prior(uint16_t bucket, uint16_t rank) {
    float wrong = bucket % 2 ? 0.56F : 0.8F;

    for (uint16_t i = 0; i < bucket / 2 && i < DRAFT_BUCKETS / 2; i++)
        wrong *= 0.65F;
    return (1 - wrong) / (float)(1 + 2 * rank);
}

/* Never fails: the reader's text is not added to the history. */
static int history_append(void *drafter, const uint32_t *tokens, size_t n) {
    HistoryReader *reader = drafter;

    reader->place = place_now(reader);
    reader->n_taken = reader->history->n_taken;
    reader->n_shifts = reader->history->n_shifts;
    for (size_t i = 0; i < n; i++) {
        place_follow(reader->history, &reader->place, tokens[i]);
        reader->recent[reader->n++ % HISTORY_REMATCH] = tokens[i];
    }
    return 0;
}

static DraftCursor cursor_of(Place place) {
    return (DraftCursor){ .a = place.matches[YOUNG].state,
                          .b = place.matches[OLD].state,
                          .c = place.matches[YOUNG].len << 16 | place.matches[OLD].len };
}

static Place place_of(DraftCursor cursor) {
    return (Place){ .matches[YOUNG] = { cursor.a, cursor.c >> 16 }, .matches[OLD] = { cursor.b, cursor.c & LEN_MAX } };
}

static DraftCursor history_root(const void *drafter) {
    return cursor_of(place_now(drafter));
}

static DraftCursor history_follow(const void *drafter, DraftCursor at, uint32_t token) {
    const HistoryReader *reader = drafter;
    Place place = place_of(at);

    place_follow(reader->history, &place, token);
    return cursor_of(place);
}

/* A token that came behind a string, counted over both ages. */
typedef struct Continuation {
    uint32_t token;
    uint32_t age, last_end; /* where the token came last */
    uint64_t count;
} Continuation;

/* A walk from the longest matches down to shorter ones. */
typedef struct Walk {
    const History *history;
    Place place;
    uint32_t left[N_AGES];   /* continuations that may still be looked at */
    uint32_t len;            /* length of the string that is looked at; 0: none is left */
    uint64_t counts[N_AGES]; /* how often the string came, by the last age that was asked */
    Continuation found[N_AGES * CONTINUATIONS];
    uint32_t n_found;
} Walk;

static Continuation *continuation_for(Walk *walk, uint32_t n_others, uint32_t token) {
    for (uint32_t i = 0; i < n_others; i++)
        if (walk->found[i].token == token)
            return &walk->found[i];
    walk->found[walk->n_found] = (Continuation){ .token = token };
    return &walk->found[walk->n_found++];
}

/* Collects what came behind a state's strings in one age, beside what is there of the younger age. */
static void gather(Walk *walk, uint32_t age, uint32_t state) {
    const SuffixAutomaton *automaton = walk->history->ages[age].automaton;
    uint32_t n_others = walk->n_found, at = 0;
    SuffixNext next;

    walk->counts[age] = suffix_automaton_count(automaton, state);
    while (walk->left[age] && suffix_automaton_next(automaton, state, &at, &next)) {
        Continuation *continuation = continuation_for(walk, n_others, next.token);

        if (!continuation->count) {
            continuation->age = age;
            continuation->last_end = next.last_end;
        }
        continuation->count += next.count;
        walk->left[age]--;
    }
}

/* Goes on to the next string: the longer of both matches, or both where they are one string. */
static void walk_on(Walk *walk) {
    walk->len = 0;
    walk->n_found = 0;
    for (int i = 0; i < N_AGES; i++)
        walk->len = MAX(walk->place.matches[i].len, walk->len);
    for (uint32_t i = 0; i < N_AGES && walk->len; i++) {
        const SuffixAutomaton *automaton = walk->history->ages[i].automaton;
        SuffixMatch *match = &walk->place.matches[i];

        if (match->len != walk->len)
            continue;
        gather(walk, i, match->state);
        match->state = suffix_automaton_link(automaton, match->state);
        match->len = suffix_automaton_len(automaton, match->state);
    }
}

static bool comes_before(const Continuation *one, const Continuation *other) {
    if (one->count != other->count)
        return one->count > other->count;
    return one->age != other->age ? one->age < other->age : one->last_end > other->last_end;
}

/* Takes the best token out and returns it. */
static bool take_best(Walk *walk, Continuation *bestp) {
    Continuation *best = NULL;

    for (uint32_t i = 0; i < walk->n_found; i++)
        if (walk->found[i].count && (!best || comes_before(&walk->found[i], best)))
            best = &walk->found[i];
    if (!best)
        return false;
    *bestp = *best;
    best->count = 0;
    return true;
}

static bool has(const DraftChoice *choices, size_t n, uint32_t token) {
    for (size_t i = 0; i < n; i++)
        if (choices[i].token == token)
            return true;
    return false;
}

static void walk_init(Walk *walk, const History *history, DraftCursor at) {
    walk->history = history;
    walk->place = place_of(at);
    for (int i = 0; i < N_AGES; i++) {
        walk->left[i] = CONTINUATIONS;
        walk->counts[i] = 0;
        if (walk->place.matches[i].len)
            walk->place.matches[i] = suffix_automaton_settled(history->ages[i].automaton, walk->place.matches[i]);
    }
}

/* Lists choices by falling length of the match, then by how often each token came behind it, then the latest first. */
static size_t history_choices(const void *drafter, DraftCursor at, DraftChoice *choices, size_t max) {
    const HistoryReader *reader = drafter;
    Walk walk;
    size_t n = 0;

    max = MIN(max, DRAFT_CHOICES_MAX);
    walk_init(&walk, reader->history, at);
    for (int i = 0; i < LINKS_MAX && n < max; i++) {
        Continuation best;

        walk_on(&walk);
        if (!walk.len)
            break;
        while (n < max && take_best(&walk, &best)) {
            if (has(choices, n, best.token))
                continue;
            choices[n] =
                (DraftChoice){ .token = best.token,
                               .bucket = bucket_of(walk.len, best.count, walk.counts[YOUNG] + walk.counts[OLD]),
                               .rank = (uint16_t)n,
                               .next = history_follow(drafter, at, best.token) };
            n++;
        }
    }
    return n;
}

static void history_self_free(void *self) {
    history_reader_free(self);
}

const DrafterOps history_drafter_ops = {
    .prior = history_prior,
    .append = history_append,
    .root = history_root,
    .choices = history_choices,
    .follow = history_follow,
    .free = history_self_free,
};
