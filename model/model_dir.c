// SPDX-License-Identifier: Apache-2.0
#include "model/model_dir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/paths.h"
#include "base/files/user_dirs.h"

/**
 * model_dir_default() - give the default folder of models
 * @of_user: a user's own folder, root's too; otherwise root gets the folder of the system's service, which then has
 *           root's imports
 *
 * $STATE_DIRECTORY is systemd's (StateDirectory=). A user's own models are in $XDG_DATA_HOME: the user has chosen
 * them, so they are neither state of a program nor a cache.
 */
int model_dir_default(bool of_user, char *path, size_t room_bytes) {
    const char *state = getenv("STATE_DIRECTORY");
    int n;

    if (state && *state == '/') /* systemd separates several folders by colons */
        n = snprintf(path, room_bytes, "%.*s/models", (int)strcspn(state, ":"), state);
    else if (geteuid() == 0 && !of_user)
        n = snprintf(path, room_bytes, "%s", PATH_MODEL_DIR);
    else
        return user_dir(USER_DIR_DATA, "/models", path, room_bytes);
    return n < 0 || (size_t)n >= room_bytes ? -ENAMETOOLONG : 0;
}
