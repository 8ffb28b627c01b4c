// SPDX-License-Identifier: Apache-2.0
/* The default folder of models: an import puts packages there, and the service looks for models there. */
#ifndef COORDGEN_MODEL_MODEL_DIR_H
#define COORDGEN_MODEL_MODEL_DIR_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the folder's path. 0, -ENAMETOOLONG, or -ENOENT: neither XDG_DATA_HOME nor HOME is set. */
int model_dir_default(bool of_user, char *path, size_t room_bytes);

#endif
