// SPDX-License-Identifier: Apache-2.0
#include "model/model_dir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/paths.h"

/**
 * model_dir_default() - the folder of models where none is named
 *
 * $STATE_DIRECTORY is systemd's (StateDirectory=). Root's is that of the system's service, so that what root imports is
 * what the service has. A user's own daemon and imports have $XDG_DATA_HOME: models are data that the user has chosen,
 * neither state of a program nor a cache.
 */
int model_dir_default(char *path, size_t room_bytes) {
    const char *state = getenv("STATE_DIRECTORY"), *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int n;

    if (state && *state == '/') /* several are separated by colons */
        n = snprintf(path, room_bytes, "%.*s/models", (int)strcspn(state, ":"), state);
    else if (geteuid() == 0)
        n = snprintf(path, room_bytes, "%s", PATH_MODEL_DIR);
    else if (xdg && *xdg == '/') /* the XDG specification: a relative path is to be ignored */
        n = snprintf(path, room_bytes, "%s/coordgen/models", xdg);
    else if (home && *home == '/')
        n = snprintf(path, room_bytes, "%s/.local/share/coordgen/models", home);
    else
        return -ENOENT;
    return n < 0 || (size_t)n >= room_bytes ? -ENAMETOOLONG : 0;
}
