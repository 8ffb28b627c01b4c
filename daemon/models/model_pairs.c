// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/models/model_pairs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/strings/printable.h"
#include "base/strings/str_buf.h"

/* The file's first line. Each further line is "TARGET<tab>DRAFT", one for each pair. */
static const char head[] = "coordgen-model-pairs 1\n";
static const char lost[] =
    "no pair of models is known but those of draft-model; name them again (coordgenctl model pair)";

#define BODY_BYTES_MAX (PAIRS_MAX * 2 * (PAIR_NAME_BYTES_MAX + 1))

/* ---- content of the file ----------------------------------------------------------------------------------------- */

static const char *lookup(const void *arg, const char *target) {
    return model_pairs_draft_of(arg, target);
}

static const char *lookup_list(const void *arg, const char *target) {
    return pair_list_find(arg, target);
}

static bool is_name(const char *text) {
    return strlen(text) <= PAIR_NAME_BYTES_MAX && state_file_is_name(text);
}

/* Fills a list with the pairs of the file's body: a StateFileParseFn. */
static int parse(PairList *list, char *body) {
    char *line, *rest, *tab;
    int r;

    for (rest = body; (line = strsep(&rest, "\n")) && *line;) {
        tab = strchr(line, '\t');
        if (!tab || tab == line)
            return STATE_FILE_E_DAMAGED;
        *tab = 0;
        if (!is_name(line) || !is_name(tab + 1) || pair_list_find(list, line) ||
            pair_makes_circle(lookup_list, list, line, tab + 1))
            return STATE_FILE_E_DAMAGED;
        r = pair_list_set(list, line, tab + 1);
        if (r)
            return r < 0 ? r : STATE_FILE_E_DAMAGED;
    }
    return rest ? STATE_FILE_E_DAMAGED : 0; /* text behind an empty line is damage */
}

static int take_body(void *arg, char *body) {
    _cleanup_(pair_list_deinit) PairList list = { 0 };
    ModelPairs *pairs = arg;
    int r = parse(&list, body);

    if (r)
        return r;
    pairs->stored = list;
    list = (PairList){ 0 };
    return 0;
}

static int write_file(const ModelPairs *pairs, const PairList *list, ErrText *err) {
    _cleanup_(str_buf_deinit) StrBuf body = STR_BUF_NULL;

    for (size_t i = 0; i < list->n; i++)
        str_buf_addf(&body, "%s\t%s\n", list->pairs[i].target, list->pairs[i].draft);
    if (str_buf_failed(&body))
        return err_raise(-ENOMEM);
    return state_file_write(&pairs->file, body.data ? body.data : "", "pairs", err);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

int model_pairs_init(ModelPairs *pairs, const char *dir) {
    int r;

    *pairs = (ModelPairs){ 0 };
    r = state_file_init(&pairs->file, dir, MODEL_PAIRS_FILE, head);
    return r ? r : state_file_read(&pairs->file, BODY_BYTES_MAX, take_body, pairs, lost);
}

void model_pairs_deinit(ModelPairs *pairs) {
    state_file_deinit(&pairs->file);
    pair_list_deinit(&pairs->stored);
    pair_list_deinit(&pairs->set);
    *pairs = (ModelPairs){ 0 };
}

int model_pairs_take_setting(ModelPairs *pairs, const char *text) {
    _cleanup_(pair_list_deinit) PairList wanted = { 0 };
    PairList before = pairs->set;
    ErrText err = { 0 };
    int r = pair_list_parse(&wanted, text, &err);

    if (r)
        return err_fold(r); /* the configuration has checked the setting */
    pairs->set = (PairList){ 0 };
    for (size_t i = 0; !r && i < wanted.n; i++) {
        const NamePair *pair = &wanted.pairs[i];

        /* A pair that an administrator stored for the target overrides the setting. */
        if (!pair_list_find(&pairs->stored, pair->target) &&
            pair_makes_circle(lookup, pairs, pair->target, pair->draft))
            log_warn(TOPIC_DAEMON,
                     "draft-model: '%s=%s' has no effect: with the pairs of coordgenctl model pair %s would draft for "
                     "itself",
                     pair->target, pair->draft, pair->target);
        else
            r = pair_list_set(&pairs->set, pair->target, pair->draft);
    }
    if (r) {
        pair_list_deinit(&pairs->set);
        pairs->set = before;
        return err_fold(r);
    }
    pair_list_deinit(&before);
    return 0;
}

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

const char *model_pairs_draft_of(const ModelPairs *pairs, const char *target) {
    const char *draft = pair_list_find(&pairs->stored, target);

    if (!draft)
        draft = pair_list_find(&pairs->set, target);
    return draft && *draft ? draft : NULL;
}

/* Copies the stored list with another draft model for the target. */
static int changed_list(const ModelPairs *pairs, const char *target, const char *draft, PairList *list) {
    int r = 0;

    for (size_t i = 0; !r && i < pairs->stored.n; i++)
        r = pair_list_set(list, pairs->stored.pairs[i].target, pairs->stored.pairs[i].draft);
    if (r)
        return r;
    /* An empty draft must be stored if it overrides a pair of the setting. */
    if (*draft || pair_list_find(&pairs->set, target))
        return pair_list_set(list, target, draft);
    pair_list_remove(list, target);
    return 0;
}

/* Writes a list and swaps it with the stored one: afterwards @list has the pairs stored before. Return: 0,
 * MODEL_PAIRS_E_STORE, -ENOMEM. */
static int store(ModelPairs *pairs, PairList *list, ErrText *err) {
    const PairList before = pairs->stored;
    int r = write_file(pairs, list, err);

    if (r)
        return r == -ENOMEM ? r : MODEL_PAIRS_E_STORE;
    pairs->stored = *list;
    *list = before;
    return 0;
}

int model_pairs_forget(ModelPairs *pairs, const char *model, ErrText *err) {
    _cleanup_(pair_list_deinit) PairList list = { 0 };
    int r = 0;

    for (size_t i = 0; !r && i < pairs->stored.n; i++) {
        const NamePair *pair = &pairs->stored.pairs[i];

        if (strcmp(pair->target, model) && strcmp(pair->draft, model))
            r = pair_list_set(&list, pair->target, pair->draft);
    }
    if (r || list.n == pairs->stored.n)
        return r ? err_fold(r) : 0;
    return store(pairs, &list, err);
}

int model_pairs_set(ModelPairs *pairs, const char *target, const char *draft, ErrText *err) {
    _cleanup_(pair_list_deinit) PairList list = { 0 };
    int r;

    if (pair_makes_circle(lookup, pairs, target, draft))
        return err_set(err, MODEL_PAIRS_E_CIRCLE, "%.*s would draft for itself: %.*s is drafted for by it",
                       UTF8_PREFIX(target, 64), UTF8_PREFIX(draft, 64));
    r = changed_list(pairs, target, draft, &list);
    if (r)
        return r < 0 ? r : err_set(err, MODEL_PAIRS_E_FULL, "more than %d pairs: undo some", PAIRS_MAX);
    return store(pairs, &list, err);
}

bool model_pairs_find(const ModelPairs *pairs, const char *target, ModelPairEntry *entry) {
    const char *stored = pair_list_find(&pairs->stored, target);
    const char *draft = stored ? stored : pair_list_find(&pairs->set, target);

    if (draft)
        *entry = (ModelPairEntry){ target, draft, stored };
    return draft;
}

size_t model_pairs_targets_of(const ModelPairs *pairs, const char *draft, const char *targets[], size_t room) {
    const PairList *const lists[] = { &pairs->stored, &pairs->set };
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        for (size_t j = 0; j < lists[i]->n && n < room; j++)
            if (!strcmp(lists[i]->pairs[j].draft, draft) &&
                (i == 0 || !pair_list_find(&pairs->stored, lists[i]->pairs[j].target)))
                targets[n++] = lists[i]->pairs[j].target;
    return n;
}

size_t model_pairs_list(const ModelPairs *pairs, ModelPairEntry entries[2 * PAIRS_MAX]) {
    size_t n = 0;

    for (size_t i = 0; i < pairs->stored.n; i++)
        entries[n++] = (ModelPairEntry){ pairs->stored.pairs[i].target, pairs->stored.pairs[i].draft, true };
    for (size_t i = 0; i < pairs->set.n; i++)
        if (!pair_list_find(&pairs->stored, pairs->set.pairs[i].target))
            entries[n++] = (ModelPairEntry){ pairs->set.pairs[i].target, pairs->set.pairs[i].draft, false };
    return n;
}
