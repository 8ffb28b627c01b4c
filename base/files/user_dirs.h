// SPDX-License-Identifier: Apache-2.0
/* The folders of a user's own service, by the XDG base directory specification. */
#ifndef COORDGEN_BASE_USER_DIRS_H
#define COORDGEN_BASE_USER_DIRS_H

#include <stddef.h>

typedef enum UserDir {
    USER_DIR_CONFIG,  /* $XDG_CONFIG_HOME, else ~/.config */
    USER_DIR_DATA,    /* $XDG_DATA_HOME, else ~/.local/share */
    USER_DIR_STATE,   /* $XDG_STATE_HOME, else ~/.local/state */
    USER_DIR_CACHE,   /* $XDG_CACHE_HOME, else ~/.cache */
    USER_DIR_RUNTIME, /* $XDG_RUNTIME_DIR, if this user owns it */
} UserDir;

/* Writes the path of @kind's folder with "/coordgen" and @rest behind it. 0, -ENOENT, -EPERM or -ENAMETOOLONG. */
int user_dir(UserDir kind, const char *rest, char *path, size_t room_bytes);

#endif
