// SPDX-License-Identifier: Apache-2.0
#include "daemon/users/user.h"

#include <assert.h>
#include <stdlib.h>

#include "base/err.h"

void user_table_init(UserTable *table, Loop *loop, const Config *config, AccountTable *accounts) {
    *table = (UserTable){ .loop = loop, .config = config, .accounts = accounts };
    for (size_t i = 0; i < USER_BUCKETS; i++)
        LIST_INIT(&table->buckets[i]);
}

static struct UserList *bucket_of(UserTable *table, uid_t uid) {
    return &table->buckets[uid % USER_BUCKETS];
}

User *user_find(UserTable *table, uid_t uid) {
    User *user;

    LIST_FOREACH (user, bucket_of(table, uid), link)
        if (user->uid == uid)
            return user;
    return NULL;
}

User *user_next(const UserTable *table, const User *user) {
    size_t i = user ? user->uid % USER_BUCKETS + 1 : 0;

    if (user && LIST_NEXT(user, link))
        return LIST_NEXT(user, link);
    while (i < USER_BUCKETS && LIST_EMPTY(&table->buckets[i]))
        i++;
    return i < USER_BUCKETS ? LIST_FIRST(&table->buckets[i]) : NULL;
}

User *user_get(UserTable *table, uid_t uid) {
    User *user = user_find(table, uid);

    if (user)
        return user_ref(user);
    user = calloc(1, sizeof(*user));
    if (!user)
        return NULL;
    user->table = table;
    user->uid = uid;
    user->n_refs = 1;
    TAILQ_INIT(&user->peers);
    TAILQ_INIT(&user->requests);
    LIST_INSERT_HEAD(bucket_of(table, uid), user, link);
    return user;
}

User *user_ref(User *user) {
    user->n_refs++;
    return user;
}

User *user_unref(User *user) {
    if (!user || --user->n_refs)
        return NULL;
    assert(TAILQ_EMPTY(&user->peers) && TAILQ_EMPTY(&user->requests));
    assert(!user->n_connections && !user->n_sessions && !user->n_held_back && !user->client_bytes);
    for (size_t i = 0; i < _PLACE_N; i++)
        assert(!user->places[i].n_active);
    LIST_REMOVE(user, link);
    free(user);
    return NULL;
}

unsigned int user_n_active(const User *user) {
    unsigned int n = 0;

    for (int kind = 0; kind < _PLACE_N; kind++)
        n += user->places[kind].n_active;
    return n;
}
