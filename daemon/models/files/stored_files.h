// SPDX-License-Identifier: Apache-2.0
/* A snapshot of the service's files on disk: models, files made from models, work of imports, the draft database. Owned
 * by the loop. */
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
    STORED_RESUMABLE, /* belongs to an interrupted import that can be resumed */
    STORED_SET_ASIDE, /* damaged, kept for an administrator */
} StoredFate;

typedef struct StoredFile {
    Coordgen__V1__FileKind kind;
    StoredFate fate;
    char *path;
    char *model; /* the model's name; NULL: not known */
    char *owner; /* an image's package, as a path; NULL for other files */
    uint64_t bytes;
    bool is_guess; /* model is guessed from the file's name */
    const char *note;
} StoredFile;

typedef struct StoredFiles {
    StoredFile *files;
    size_t n, room;
    ModelRegistry *registry;
} StoredFiles;

/* Collects the files of all folders of the service. 0 or -ENOMEM. */
int stored_files_collect(StoredFiles *files, ModelRegistry *registry);
void stored_files_deinit(StoredFiles *files);
/* Tells whether a file is removed with a model: one of the model's own files, or made from that model alone. */
bool stored_file_goes_with(const StoredFiles *files, const StoredFile *file, const Model *model);
/* Removes a file by its name; an import's work only while no import uses it. 0 or -errno. */
int stored_file_remove(const StoredFile *file, ErrText *err);

#endif
