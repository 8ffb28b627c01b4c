// SPDX-License-Identifier: Apache-2.0
/* Files that the service has on disks: models, what was made of them, work of imports, the draft database, as they are
 * at one moment. Owned by the loop. */
#ifndef COORDGEN_DAEMON_STORED_FILES_H
#define COORDGEN_DAEMON_STORED_FILES_H

#include "daemon/models/model_registry.h"
#include "proto/coordgen.pb-c.h"

enum {
    STORED_FILES_MAX = 16384,
};

typedef enum StoredFate {
    STORED_NEEDED,
    STORED_USELESS,   /* nothing can use it */
    STORED_RESUMABLE, /* of an import that was broken off and may be gone on with */
    STORED_SET_ASIDE, /* damaged, kept for people */
} StoredFate;

typedef struct StoredFile {
    Coordgen__V1__FileKind kind;
    StoredFate fate;
    char *path;
    char *model; /* name; NULL: none is known */
    char *owner; /* of an image: its package's path */
    uint64_t bytes;
    bool is_guess; /* the model is one of such a name, as far as the file's name tells */
    const char *note;
} StoredFile;

typedef struct StoredFiles {
    StoredFile *files;
    size_t n, room;
    ModelRegistry *registry;
} StoredFiles;

/* Looks into all folders of the service. 0 or -ENOMEM. */
int stored_files_collect(StoredFiles *files, ModelRegistry *registry);
void stored_files_deinit(StoredFiles *files);
/* Whether a file goes with a model: itself, its other parts, and what was made of it alone. */
bool stored_file_goes_with(const StoredFiles *files, const StoredFile *file, const Model *model);
/* Removes the name, whatever it is of; of an import's work, only while nobody works on it. 0 or -errno. */
int stored_file_remove(const StoredFile *file, ErrText *err);

#endif
