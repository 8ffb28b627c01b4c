// SPDX-License-Identifier: Apache-2.0
#include "daemon/users/no_history.h"

#include <pwd.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strings/decimal.h"

enum {
    PASSWD_BYTES = 16 << 10
};

void no_history_deinit(NoHistory *list) {
    free(list->text);
    free(list->uids);
    *list = (NoHistory){ 0 };
}

/* Finds the uid of a user's name or number. */
static bool find_uid(const char *name, uid_t *uidp) {
    struct passwd entry, *found = NULL;
    char room[PASSWD_BYTES];
    uint64_t number;

    if (decimal_parse_u64(name, &number)) {
        *uidp = (uid_t)number;
        return number <= UINT32_MAX;
    }
    if (getpwnam_r(name, &entry, room, sizeof(room), &found) || !found)
        return false;
    *uidp = entry.pw_uid;
    return true;
}

int no_history_set(NoHistory *list, const char *text) {
    static const char blanks[] = " \t";
    _cleanup_(no_history_deinit) NoHistory made = { 0 };
    const size_t len_bytes = strlen(text);
    char *to;

    to = made.text = calloc(len_bytes + 2, 1);
    made.uids = calloc(len_bytes + 1, sizeof(*made.uids));
    if (!made.text || !made.uids)
        return err_raise(-ENOMEM);
    for (;;) {
        size_t n;

        text += strspn(text, ", \t");
        n = strcspn(text, ",");
        if (!n)
            break;
        memcpy(to, text, n);
        text += n;
        while (strchr(blanks, to[n - 1])) /* ends at the first byte, which is no blank */
            n--;
        to[n] = 0;
        if (find_uid(to, &made.uids[made.n_uids]))
            made.n_uids++;
        to += n + 1;
    }
    *to = 0;
    no_history_deinit(list);
    *list = made;
    made = (NoHistory){ 0 };
    return 0;
}

bool no_history_has(const NoHistory *list, uid_t uid, const char *app) {
    for (size_t i = 0; i < list->n_uids; i++)
        if (list->uids[i] == uid)
            return true;
    for (const char *name = list->text; name && *name; name += strlen(name) + 1)
        if (!strcmp(name, app))
            return true;
    return false;
}
