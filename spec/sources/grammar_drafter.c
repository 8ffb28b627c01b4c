// SPDX-License-Identifier: Apache-2.0
#include "spec/sources/grammar_drafter.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"

enum {
    RUNS_MAX = 128, /* most runs of forced bytes in a step; further ones are not proposed */
    NO_RUN = UINT16_MAX,
    ROOT = GRAMMAR_NOWHERE + 1
};

/* Buckets tell where in its run a token stands. At the end of a run the token that the target takes may reach into what
 * comes next; at its beginning, the bytes in front may have been meant to be a part of it. */
enum {
    AT_START = 1,
    AT_END = 2,
    _GRAMMAR_BUCKETS_N = 4
};

/* A place behind the text: a way of drafted tokens. Ways that trees of one step share are one place. */
typedef struct Place {
    DraftGrammarState state;
    uint32_t token;                     /* the last one of the way */
    uint16_t parent;                    /* GRAMMAR_NOWHERE for the root */
    uint16_t first_child, next_sibling; /* GRAMMAR_NOWHERE: none */
    uint16_t run, at;                   /* run whose token `at` comes next; NO_RUN: none */
    bool was_asked;                     /* run is known */
} Place;

struct GrammarDrafter {
    DraftGrammar grammar;
    AccountedBlock block; /* of the arrays */
    Place *places;        /* [GRAMMAR_PLACES_MAX], the first n_places in use; place 0 is GRAMMAR_NOWHERE */
    DraftForced *runs;    /* [RUNS_MAX] */
    uint32_t n_places, n_runs;
};

int grammar_drafter_new(AccountTable *accounts, DraftGrammar grammar, GrammarDrafter **drafterp) {
    _cleanup_(grammar_drafter_freep) GrammarDrafter *drafter = calloc(1, sizeof(*drafter));
    int r;

    assert(grammar.ops);
    if (!drafter)
        return -ENOMEM;
    drafter->grammar = grammar;
    r = accounted_block_init(&drafter->block, accounts, ACCOUNT_DRAFTDB,
                             GRAMMAR_PLACES_MAX * sizeof(Place) + RUNS_MAX * sizeof(DraftForced));
    if (r)
        return r < 0 ? r : DRAFTER_E_MEMORY;
    drafter->places = drafter->block.data;
    drafter->runs = (DraftForced *)(drafter->places + GRAMMAR_PLACES_MAX);
    *drafterp = steal(&drafter);
    return 0;
}

void grammar_drafter_free(GrammarDrafter *drafter) {
    if (!drafter)
        return;
    accounted_block_deinit(&drafter->block);
    free(drafter);
}

/* --- places ------------------------------------------------------------------------------------------------------- */

void grammar_drafter_begin(GrammarDrafter *drafter) {
    drafter->places[ROOT] = (Place){ .state = drafter->grammar.ops->root(drafter->grammar.self), .run = NO_RUN };
    drafter->n_places = ROOT + 1;
    drafter->n_runs = 0;
}

/* Before the first step there is no place at all. */
uint32_t grammar_drafter_root(const GrammarDrafter *drafter) {
    return drafter->n_places ? ROOT : GRAMMAR_NOWHERE;
}

static uint32_t child_of(const GrammarDrafter *drafter, uint32_t place, uint32_t token) {
    uint32_t child = drafter->places[place].first_child;

    while (child != GRAMMAR_NOWHERE && drafter->places[child].token != token)
        child = drafter->places[child].next_sibling;
    return child;
}

static bool advance(const GrammarDrafter *drafter, uint32_t place, uint32_t token, DraftGrammarState *nextp) {
    return drafter->grammar.ops->advance(drafter->grammar.self, &drafter->places[place].state, token, nextp);
}

bool grammar_drafter_allows(GrammarDrafter *drafter, uint32_t place, uint32_t token) {
    DraftGrammarState next;

    if (place == GRAMMAR_NOWHERE)
        return false;
    return child_of(drafter, place, token) != GRAMMAR_NOWHERE || advance(drafter, place, token, &next);
}

uint32_t grammar_drafter_step(GrammarDrafter *drafter, uint32_t place, uint32_t token) {
    Place *parent = &drafter->places[place], *child;
    DraftGrammarState state;
    uint32_t id;

    if (place == GRAMMAR_NOWHERE)
        return GRAMMAR_NOWHERE;
    id = child_of(drafter, place, token);
    if (id != GRAMMAR_NOWHERE)
        return id;
    if (drafter->n_places == GRAMMAR_PLACES_MAX || !advance(drafter, place, token, &state))
        return GRAMMAR_NOWHERE;
    id = drafter->n_places++;
    child = &drafter->places[id];
    *child = (Place){
        .state = state, .token = token, .parent = (uint16_t)place, .next_sibling = parent->first_child, .run = NO_RUN
    };
    parent->first_child = (uint16_t)id;
    if (parent->run != NO_RUN && parent->at + 1u < drafter->runs[parent->run].n &&
        drafter->runs[parent->run].tokens[parent->at] == token) {
        child->run = parent->run;
        child->at = parent->at + 1;
        child->was_asked = true;
    }
    return id;
}

/* --- forced bytes ------------------------------------------------------------------------------------------------- */

/* Asks the grammar for the run that begins at a place. */
static void find_run(GrammarDrafter *drafter, uint32_t id) {
    Place *place = &drafter->places[id];
    uint32_t path[GRAMMAR_PLACES_MAX], n = 0;
    DraftForced *run = &drafter->runs[drafter->n_runs];

    place->was_asked = true;
    if (drafter->n_runs == RUNS_MAX)
        return;
    for (uint32_t at = id; at != ROOT; at = drafter->places[at].parent)
        path[GRAMMAR_PLACES_MAX - ++n] = drafter->places[at].token;
    run->n = 0;
    drafter->grammar.ops->forced(drafter->grammar.self, &place->state, path + GRAMMAR_PLACES_MAX - n, n, run);
    if (!run->n)
        return;
    place->run = (uint16_t)drafter->n_runs++;
    place->at = 0;
}

static float grammar_prior(uint16_t bucket, uint16_t rank) {
    if (rank || bucket >= _GRAMMAR_BUCKETS_N)
        return 0.001F;
    return bucket & AT_END ? 0.7F : 0.95F;
}

/* Takes nothing in: the grammar's owner knows the text. */
static int grammar_append(void *drafter, const uint32_t *tokens, size_t n) {
    (void)drafter;
    (void)tokens;
    (void)n;
    return 0;
}

/* A cursor: a is the place. */
static DraftCursor grammar_root(const void *drafter) {
    return (DraftCursor){ .a = grammar_drafter_root(drafter) };
}

/* The drafter's arrays are not const: a run is looked for when it is first asked for. */
static size_t grammar_choices(const void *self, DraftCursor cursor, DraftChoice *choices, size_t max) {
    GrammarDrafter *drafter = (GrammarDrafter *)self;
    const Place *place = &drafter->places[cursor.a];
    const DraftForced *run;
    uint32_t bucket;

    if (!max || cursor.a == GRAMMAR_NOWHERE)
        return 0;
    if (!place->was_asked)
        find_run(drafter, cursor.a);
    if (place->run == NO_RUN)
        return 0;
    run = &drafter->runs[place->run];
    bucket = (place->at ? 0 : AT_START) | (place->at + 1u == run->n ? AT_END : 0);
    choices[0] = (DraftChoice){ .token = run->tokens[place->at], .bucket = (uint16_t)bucket };
    choices[0].next.a = grammar_drafter_step(drafter, cursor.a, choices[0].token);
    return choices[0].next.a != GRAMMAR_NOWHERE;
}

static DraftCursor grammar_follow(const void *self, DraftCursor at, uint32_t token) {
    return (DraftCursor){ .a = grammar_drafter_step((GrammarDrafter *)self, at.a, token) };
}

static void grammar_keep(void *self) {
    (void)self;
}

const DrafterOps grammar_drafter_ops = {
    .prior = grammar_prior,
    .append = grammar_append,
    .root = grammar_root,
    .choices = grammar_choices,
    .follow = grammar_follow,
    .free = grammar_keep,
};
