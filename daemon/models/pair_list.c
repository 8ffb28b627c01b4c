// SPDX-License-Identifier: Apache-2.0
#include "daemon/models/pair_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strings/printable.h"

void pair_list_deinit(PairList *list) {
    for (size_t i = 0; i < list->n; i++) {
        free(list->pairs[i].target);
        free(list->pairs[i].draft);
    }
    free(list->pairs);
    *list = (PairList){ 0 };
}

static NamePair *pair_of(const PairList *list, const char *target) {
    for (size_t i = 0; i < list->n; i++)
        if (!strcmp(list->pairs[i].target, target))
            return &list->pairs[i];
    return NULL;
}

const char *pair_list_find(const PairList *list, const char *target) {
    const NamePair *pair = pair_of(list, target);

    return pair ? pair->draft : NULL;
}

int pair_list_set(PairList *list, const char *target, const char *draft) {
    _cleanup_(freep) char *name = strdup(target);
    _cleanup_(freep) char *other = strdup(draft);
    NamePair *pair = pair_of(list, target), *grown;

    if (!name || !other)
        return err_raise(-ENOMEM);
    if (pair) {
        free(pair->draft);
        pair->draft = steal(&other);
        return 0;
    }
    if (list->n >= PAIRS_MAX)
        return PAIR_LIST_E_FULL;
    grown = reallocarray(list->pairs, list->n + 1, sizeof(*grown));
    if (!grown)
        return err_raise(-ENOMEM);
    list->pairs = grown;
    list->pairs[list->n++] = (NamePair){ .target = steal(&name), .draft = steal(&other) };
    return 0;
}

void pair_list_remove(PairList *list, const char *target) {
    NamePair *pair = pair_of(list, target);

    if (!pair)
        return;
    free(pair->target);
    free(pair->draft);
    *pair = list->pairs[--list->n];
}

/* A path of more steps than there are pairs follows a circle that does not contain the target. */
bool pair_makes_circle(PairLookupFn *lookup, const void *arg, const char *target, const char *draft) {
    for (size_t i = 0; draft && *draft && i <= 2 * PAIRS_MAX; i++) {
        if (!strcmp(draft, target))
            return true;
        draft = lookup(arg, draft);
    }
    return false;
}

static const char *lookup_list(const void *arg, const char *target) {
    return pair_list_find(arg, target);
}

/* Copies a name out of the text, without the blanks around it; NULL: no name, a name that is too long, or no memory. */
static char *name_dup(const char *from, const char *end) {
    while (from < end && (*from == ' ' || *from == '\t'))
        from++;
    while (end > from && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return from < end && (size_t)(end - from) <= PAIR_NAME_BYTES_MAX ? strndup(from, (size_t)(end - from)) : NULL;
}

/* Parses one pair, up to end. */
static int add_pair(PairList *list, const char *from, const char *end, ErrText *err) {
    const char *equals = memchr(from, '=', (size_t)(end - from));
    _cleanup_(freep) char *target = equals ? name_dup(from, equals) : NULL;
    _cleanup_(freep) char *draft = equals ? name_dup(equals + 1, end) : NULL;
    Printable part;
    int r;

    printable(&part, from, (size_t)(end - from));
    if (!target || !draft)
        return err_set(err, PAIR_LIST_E_TEXT, "'%s' is not TARGET=DRAFT, names of models of at most %d bytes",
                       part.text, PAIR_NAME_BYTES_MAX);
    if (pair_of(list, target))
        return err_set(err, PAIR_LIST_E_TEXT, "'%s': a draft model for this target stands before already", part.text);
    if (pair_makes_circle(lookup_list, list, target, draft))
        return err_set(err, PAIR_LIST_E_TEXT, "'%s': the target would draft for itself", part.text);
    r = pair_list_set(list, target, draft);
    return r > 0 ? err_set(err, r, "more than %d pairs", PAIRS_MAX) : r;
}

int pair_list_parse(PairList *list, const char *text, ErrText *err) {
    _cleanup_(pair_list_deinit) PairList made = { 0 };
    int r;

    text += strspn(text, ", \t");
    while (*text) {
        const char *end = text + strcspn(text, ",");

        r = add_pair(&made, text, end, err);
        if (r)
            return r;
        text = end + strspn(end, ", \t");
    }
    pair_list_deinit(list);
    *list = made;
    made = (PairList){ 0 };
    return 0;
}
