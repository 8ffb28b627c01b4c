// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "base/files/user_dirs.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system/c_library.h"

static const struct {
    const char *variable;
    const char *in_home; /* NULL: the variable alone counts */
} places[] = {
    [USER_DIR_CONFIG] = { "XDG_CONFIG_HOME", "/.config" },    [USER_DIR_DATA] = { "XDG_DATA_HOME", "/.local/share" },
    [USER_DIR_STATE] = { "XDG_STATE_HOME", "/.local/state" }, [USER_DIR_CACHE] = { "XDG_CACHE_HOME", "/.cache" },
    [USER_DIR_RUNTIME] = { "XDG_RUNTIME_DIR", NULL },
};

/* Tells whether @path is a folder of this user. A shell that su or sudo started may have another user's variable. */
static int check_owner(const char *path) {
    struct stat info;

    if (stat(path, &info) < 0)
        return -ENOENT;
    return S_ISDIR(info.st_mode) && info.st_uid == geteuid() ? 0 : -EPERM;
}

/**
 * user_dir() - write the path of a folder of this user, which need not exist
 * @rest:  what follows "/coordgen" in the path, "" or a path that begins with a slash
 * @path:  char[room_bytes]; undefined on failure
 *
 * A relative path in a variable is ignored, as the specification wants it. A set-user-id program sees no variables.
 * Return: 0; -ENOENT where neither the variable nor HOME tells; -EPERM where the runtime directory is another user's;
 * -ENAMETOOLONG.
 */
int user_dir(UserDir kind, const char *rest, char *path, size_t room_bytes) {
    const char *given = c_library_secure_getenv(places[kind].variable), *home = c_library_secure_getenv("HOME");
    int n, r;

    if (given && *given == '/') {
        r = kind == USER_DIR_RUNTIME ? check_owner(given) : 0;
        if (r)
            return r;
        n = snprintf(path, room_bytes, "%s/coordgen%s", given, rest);
    } else if (places[kind].in_home && home && *home == '/') {
        n = snprintf(path, room_bytes, "%s%s/coordgen%s", home, places[kind].in_home, rest);
    } else {
        return -ENOENT;
    }
    return n < 0 || (size_t)n >= room_bytes ? -ENAMETOOLONG : 0;
}
