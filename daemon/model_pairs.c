// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/model_pairs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file_io.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/str_buf.h"
#include "base/utf8.h"

/* The file: this line, a line "TARGET<tab>DRAFT" for each pair, and the hash of all before it. Names are printable, so
 * that none holds a tab or a line's end. */
static const char head[] = "coordgen-model-pairs 1\n";
static const char seal[] = "sha256 ";

#define FILE_BYTES_MAX (sizeof(head) + PAIRS_MAX * 2 * (PAIR_NAME_BYTES_MAX + 1) + sizeof(seal) + SHA256_HEX_BYTES)
#define ASIDE_MAX 99 /* damaged files that are kept */

/* ---- what the file says ------------------------------------------------------------------------------------------ */

static const char *lookup(const void *arg, const char *target) {
    return model_pairs_draft_of(arg, target);
}

static const char *lookup_list(const void *arg, const char *target) {
    return pair_list_find(arg, target);
}

static bool is_name(const char *text, size_t len_bytes) {
    if (len_bytes > PAIR_NAME_BYTES_MAX || !utf8_is_valid(text, len_bytes))
        return false;
    for (size_t i = 0; i < len_bytes; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return false;
    return true;
}

/* Where the seal begins; NULL: there is none, or it is broken. */
static char *find_seal(char *text, size_t len_bytes) {
    const size_t seal_bytes = strlen(seal) + SHA256_HEX_BYTES; /* a line's end instead of the NUL */
    char hex[SHA256_HEX_BYTES], *at = text + len_bytes - seal_bytes;

    if (len_bytes < strlen(head) + seal_bytes || strncmp(text, head, strlen(head)) || strncmp(at, seal, strlen(seal)) ||
        at[-1] != '\n' || text[len_bytes - 1] != '\n')
        return NULL;
    sha256_hex(text, len_bytes - seal_bytes, hex);
    return memcmp(at + strlen(seal), hex, SHA256_HEX_BYTES - 1) ? NULL : at;
}

/* 0, MODEL_PAIRS_E_STORE: it is damaged; -ENOMEM. */
static int parse(PairList *list, char *text, size_t len_bytes) {
    char *end = find_seal(text, len_bytes), *line, *rest, *tab;
    int r;

    if (!end)
        return MODEL_PAIRS_E_STORE;
    *end = 0;
    for (rest = text + strlen(head); (line = strsep(&rest, "\n")) && *line;) {
        tab = strchr(line, '\t');
        if (!tab || tab == line || !is_name(line, (size_t)(tab - line)) || !is_name(tab + 1, strlen(tab + 1)))
            return MODEL_PAIRS_E_STORE;
        *tab = 0;
        if (pair_list_find(list, line) || pair_makes_circle(lookup_list, list, line, tab + 1))
            return MODEL_PAIRS_E_STORE;
        r = pair_list_set(list, line, tab + 1);
        if (r)
            return r < 0 ? r : MODEL_PAIRS_E_STORE;
    }
    return rest ? MODEL_PAIRS_E_STORE : 0; /* a NUL or an empty line before the end */
}

static void set_aside(const ModelPairs *pairs) {
    char *aside = NULL;

    for (int i = 1; i <= ASIDE_MAX; i++) {
        _cleanup_(freep) char *path = NULL;

        if (asprintf(&path, "%s.corrupt-%d", pairs->path, i) < 0) {
            path = NULL;
            break;
        }
        if (i == ASIDE_MAX || access(path, F_OK) < 0) {
            aside = steal(&path);
            break;
        }
    }
    if (aside && !rename(pairs->path, aside))
        log_error(TOPIC_DAEMON,
                  "%s: damaged, and set aside as %s: no pair of models is known but those of draft-model; name them "
                  "again (coordgenctl model pair)",
                  pairs->path, aside);
    else
        log_error(TOPIC_DAEMON, "%s: damaged: no pair of models is known but those of draft-model", pairs->path);
    free(aside);
}

static int read_file(ModelPairs *pairs) {
    _cleanup_(pair_list_deinit) PairList list = { 0 };
    _cleanup_(freep) char *text = NULL;
    ErrText err = { "" };
    size_t len_bytes;
    int r;

    r = file_slurp(pairs->path, 2 * FILE_BYTES_MAX, &text, &len_bytes, &err);
    if (r == -ENOENT)
        return 0;
    if (r == -ENOMEM)
        return r;
    if (r < 0 && r != -EFBIG) {
        pairs->is_unreadable = true;
        log_error(TOPIC_DAEMON, "%s: no pair of models is known but those of draft-model, and none can be stored",
                  err.text);
        return 0;
    }
    r = r ? MODEL_PAIRS_E_STORE : parse(&list, text, len_bytes);
    if (r > 0)
        set_aside(pairs);
    if (r)
        return r < 0 ? r : 0;
    pairs->stored = list;
    list = (PairList){ 0 };
    return 0;
}

static int write_file(const ModelPairs *pairs, const PairList *list, ErrText *err) {
    _cleanup_(atomic_file_freep) AtomicFile *file = NULL;
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    _cleanup_(freep) char *dir = NULL;
    char hex[SHA256_HEX_BYTES];
    int r;

    str_buf_add(&text, head);
    for (size_t i = 0; i < list->n; i++)
        str_buf_addf(&text, "%s\t%s\n", list->pairs[i].target, list->pairs[i].draft);
    if (str_buf_failed(&text))
        return err_raise(-ENOMEM);
    sha256_hex(text.data, text.len_bytes, hex);
    str_buf_addf(&text, "%s%s\n", seal, hex);
    dir = strndup(pairs->path, (size_t)(strrchr(pairs->path, '/') - pairs->path));
    if (!dir || str_buf_failed(&text))
        return err_raise(-ENOMEM);
    r = file_make_dirs(dir, err);
    if (!r)
        r = atomic_file_new(&file, pairs->path, err);
    if (!r) {
        r = file_write_all(atomic_file_fd(file), text.data, text.len_bytes);
        if (r)
            err_set(err, r, "%s: %s", pairs->path, strerror(-r));
    }
    return r ? r : atomic_file_commit(file, err);
}

/* Of writers that were killed: nobody else writes here. */
static void remove_leftovers(const char *dir) {
    static const char begin[] = MODEL_PAIRS_FILE ATOMIC_FILE_INFIX;
    DIR *folder = opendir(dir);
    const struct dirent *entry;

    if (!folder)
        return;
    while ((entry = readdir(folder)))
        if (!strncmp(entry->d_name, begin, strlen(begin)))
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

int model_pairs_init(ModelPairs *pairs, const char *dir) {
    *pairs = (ModelPairs){ 0 };
    if (!*dir)
        return 0;
    if (asprintf(&pairs->path, "%s/" MODEL_PAIRS_FILE, dir) < 0) {
        pairs->path = NULL;
        return err_raise(-ENOMEM);
    }
    remove_leftovers(dir);
    return read_file(pairs);
}

void model_pairs_deinit(ModelPairs *pairs) {
    free(pairs->path);
    pair_list_deinit(&pairs->stored);
    pair_list_deinit(&pairs->set);
    *pairs = (ModelPairs){ 0 };
}

int model_pairs_take_setting(ModelPairs *pairs, const char *text) {
    _cleanup_(pair_list_deinit) PairList wanted = { 0 };
    PairList before = pairs->set;
    ErrText err = { "" };
    int r = pair_list_parse(&wanted, text, &err);

    if (r)
        return err_fold(r); /* the configuration has checked it */
    pairs->set = (PairList){ 0 };
    for (size_t i = 0; !r && i < wanted.n; i++) {
        const NamePair *pair = &wanted.pairs[i];

        /* What was said of the target goes before the setting. */
        if (!pair_list_find(&pairs->stored, pair->target) && model_pairs_are_circle(pairs, pair->target, pair->draft))
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

bool model_pairs_are_circle(const ModelPairs *pairs, const char *target, const char *draft) {
    return pair_makes_circle(lookup, pairs, target, draft);
}

/* A list like the stored one, with another draft for the target. */
static int changed_list(const ModelPairs *pairs, const char *target, const char *draft, PairList *list) {
    int r = 0;

    for (size_t i = 0; !r && i < pairs->stored.n; i++)
        r = pair_list_set(list, pairs->stored.pairs[i].target, pairs->stored.pairs[i].draft);
    if (r)
        return r;
    /* Where the setting has one for it, that there is to be none is remembered. */
    if (*draft || pair_list_find(&pairs->set, target))
        return pair_list_set(list, target, draft);
    pair_list_remove(list, target);
    return 0;
}

/* Writes a list, which takes the place of the stored one; of before it has what that was. 0, MODEL_PAIRS_E_STORE,
 * -ENOMEM. */
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

    if (model_pairs_are_circle(pairs, target, draft))
        return err_set(err, MODEL_PAIRS_E_CIRCLE, "%.*s would draft for itself: %.*s is drafted for by it",
                       UTF8_PREFIX(target, 64), UTF8_PREFIX(draft, 64));
    if (!pairs->path)
        return err_set(err, MODEL_PAIRS_E_STORE,
                       "there is no folder to keep pairs in: set state-dir, or XDG_STATE_HOME or HOME");
    if (pairs->is_unreadable)
        return err_set(err, MODEL_PAIRS_E_STORE,
                       "%.512s could not be read, and is not written over: the service's log says why", pairs->path);
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
