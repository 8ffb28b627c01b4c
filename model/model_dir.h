// SPDX-License-Identifier: Apache-2.0
/* The folder of models: where an import puts a package, and where the service looks for those that nobody named. */
#ifndef COORDGEN_MODEL_MODEL_DIR_H
#define COORDGEN_MODEL_MODEL_DIR_H

#include <stdbool.h>
#include <stddef.h>

/* 0, -ENAMETOOLONG, or -ENOENT: neither XDG_DATA_HOME nor HOME is set. */
int model_dir_default(bool of_user, char *path, size_t room_bytes);

#endif
