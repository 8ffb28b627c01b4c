// SPDX-License-Identifier: Apache-2.0
/* model-dir, as it was read last: models come into the registry from it and leave with their files. Owned by the loop,
 * which reads it a part at a time, and only when there may be news in it. */
#ifndef COORDGEN_DAEMON_MODEL_FOLDER_H
#define COORDGEN_DAEMON_MODEL_FOLDER_H

#include <dirent.h>
#include <sys/stat.h>

#include "daemon/models/model_files.h"
#include "daemon/models/model_registry.h"

#define MODEL_FOLDER_STEP_ENTRIES 64 /* of the folder, in one step */

typedef struct ModelFolder { /* all loop */
    ModelRegistry *registry;
    ModelFiles files;
    char *pending;     /* the entry whose files are read before the next one is looked at; NULL: none */
    DIR *stream;       /* of the scan that runs; NULL: none does */
    uint64_t n_begun;  /* scans; the last one is the one that runs */
    uint64_t n_done;   /* of those */
    uint64_t n_wanted; /* the last scan that somebody waits for */
    uint64_t began_ns; /* the last scan */
    struct stat seen;  /* the folder, when that began */
    int error;         /* why it could not be read then; 0: it could */
    bool too_soon;     /* it was changed so shortly before that another change may look the same */
    bool has_news;     /* it was changed since the scan before: what is not listed is told once */
} ModelFolder;

void model_folder_init(ModelFolder *folder, ModelRegistry *registry);
void model_folder_deinit(ModelFolder *folder);
/* The scan to wait for, which model_folder_step() is to be called for; 0: what is known is not older than a second, and
 * the folder has not changed since. */
uint64_t model_folder_want(ModelFolder *folder);
bool model_folder_step(ModelFolder *folder); /* a part of a scan; whether there is more to do */
bool model_folder_has(const ModelFolder *folder, uint64_t scan);
/* Why no model has this name though the folder has a file of it; NULL: it has none. */
const char *model_folder_why_not(const ModelFolder *folder, const char *name);

#endif
