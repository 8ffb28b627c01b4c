// SPDX-License-Identifier: Apache-2.0
#include "base/memory/account_refusal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "base/strings/byte_text.h"
#include "base/strings/printable.h"
#include "base/system/machine_limits.h"

enum {
    HOLDERS_MAX = 4, /* a longer list would not be read */
};

/* The setting that limits an account by itself. */
static const char *const own_limits[_ACCOUNT_N] = {
    [ACCOUNT_GRAPHS] = "graphs-memory",
    [ACCOUNT_KV] = "kv-memory-limit",
    [ACCOUNT_CACHE] = "prefix-cache-max",
    [ACCOUNT_SESSIONS] = "session-memory-limit",
};

/* Names the resource limit of the process, else the cgroup's limit, else the machine's memory. */
static void describe_system(char *text, size_t room_bytes) {
    static const struct {
        int resource;
        const char *name;
    } resources[] = {
        { RLIMIT_AS, "RLIMIT_AS (ulimit -v, LimitAS=)" },
        { RLIMIT_DATA, "RLIMIT_DATA (ulimit -d, LimitDATA=)" },
    };
    MachineLimits limits;
    struct rlimit limit;
    ByteText size;

    for (size_t i = 0; i < ARRAY_LEN(resources); i++)
        if (!getrlimit(resources[i].resource, &limit) && limit.rlim_cur != RLIM_INFINITY) {
            snprintf(text, room_bytes, "%s of %s is reached: raise it", resources[i].name,
                     byte_text(&size, limit.rlim_cur));
            return;
        }
    machine_limits_read(&limits);
    if (limits.memory_bytes == UINT64_MAX)
        snprintf(text, room_bytes, "the machine gives no more");
    else
        snprintf(text, room_bytes, "the machine gives no more of its %s (%.*s): end other programs, or use less",
                 byte_text(&size, limits.memory_bytes), 128,
                 *limits.memory_file ? limits.memory_file : "vm.overcommit_memory may forbid it");
}

/* Names the narrowest limit that the charge meets. Return: the setting of that limit; NULL: no setting is known. */
static const char *describe_limit(const AccountTable *table, AccountId id, uint64_t len_bytes, char *text,
                                  size_t room_bytes) {
    const uint64_t own_bytes = account_own_room_bytes(table, id), shared_bytes = account_shared_room_bytes(table, id);
    const bool is_own = own_bytes < len_bytes && own_bytes <= shared_bytes && table->limit_bytes[id] != UINT64_MAX;
    const uint64_t limit_bytes = is_own ? table->limit_bytes[id] : table->total_limit_bytes;
    const char *setting = is_own ? own_limits[id] : table->total_limit_name;
    ByteText limit;

    snprintf(text, room_bytes, "%s (%s) is reached",
             setting  ? setting
             : is_own ? "the limit of its account"
                      : "the limit on all memory",
             limit_bytes == UINT64_MAX ? "none" : byte_text(&limit, limit_bytes));
    return setting;
}

/**
 * account_refused() - set the text of a charge or an allocation that failed
 *
 * The caller names the purpose, as "the KV cache of 4096 tokens". An app may read the text, so it tells nothing of what
 * others hold. Return: r if negative, else code.
 */
int account_refused(ErrText *err, int code, int r, const AccountTable *table, AccountId id, uint64_t len_bytes,
                    const char *format, ...) {
    const char *limit = NULL;
    char what[256], why[256];
    ByteText size;
    va_list args;

    va_start(args, format);
    printable_format(what, sizeof(what), format, args);
    va_end(args);
    if (r < 0)
        describe_system(why, sizeof(why));
    else
        limit = describe_limit(table, id, len_bytes, why, sizeof(why));
    err_set(err, 0, "no memory for %s (%s): %s", what, byte_text(&size, len_bytes), why);
    if (err)
        err->limit = limit;
    return r < 0 ? r : code;
}

int account_refused_by_system(ErrText *err) {
    char why[256];

    describe_system(why, sizeof(why));
    return err_set(err, -ENOMEM, "%.*s: %s", UTF8_PREFIX(err->text, 480), why);
}

void account_holders(const AccountTable *table, char *text, size_t room_bytes) {
    uint64_t told_bytes = UINT64_MAX;
    size_t n = 0, at = 0;

    *text = 0;
    while (n < HOLDERS_MAX) {
        uint64_t most_bytes = 0;
        size_t most = 0;
        ByteText used, limit;
        int more;

        for (size_t i = 0; i < _ACCOUNT_N; i++) {
            const uint64_t used_bytes = atomic_load(&table->used_bytes[i]);

            if (used_bytes < told_bytes && used_bytes > most_bytes) {
                most_bytes = used_bytes;
                most = i;
            }
        }
        if (!most_bytes)
            return;
        more = snprintf(text + at, room_bytes - at, "%s%s %s%s%s", n++ ? ", " : "", account_name((AccountId)most),
                        byte_text(&used, most_bytes), table->limit_bytes[most] == UINT64_MAX ? "" : " of ",
                        table->limit_bytes[most] == UINT64_MAX ? "" : byte_text(&limit, table->limit_bytes[most]));
        if (more < 0 || (size_t)more >= room_bytes - at) {
            text[at] = 0;
            return;
        }
        at += (size_t)more;
        told_bytes = most_bytes;
    }
}
