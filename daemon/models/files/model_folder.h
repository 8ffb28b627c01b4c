// SPDX-License-Identifier: Apache-2.0
/* The folder model-dir: its models come into the registry and leave with their files. Owned by the loop, which reads
 * the folder in steps, and only when it may have changed. */
#ifndef COORDGEN_DAEMON_MODEL_FOLDER_H
#define COORDGEN_DAEMON_MODEL_FOLDER_H

#include <dirent.h>
#include <sys/stat.h>

#include "daemon/models/files/model_files.h"
#include "daemon/models/model_registry.h"

#define MODEL_FOLDER_STEP_ENTRIES 64 /* entries of the folder read in one step */

typedef struct ModelFolder { /* all loop */
    ModelRegistry *registry;
    ModelFiles files;
    char *pending;     /* entry whose files are being read; NULL: none */
    DIR *stream;       /* directory stream of the running scan; NULL: none runs */
    uint64_t n_begun;  /* scans that have begun, with the running one */
    uint64_t n_done;   /* scans that have ended */
    uint64_t n_wanted; /* number of the last scan that somebody waits for */
    uint64_t began_ns; /* begin of the last scan */
    struct stat seen;  /* the folder's state when the last scan began */
    int error;         /* errno of the last scan; 0: the folder could be read */
    bool too_soon;     /* changed so shortly before that a further change may not show in the folder's time */
    bool has_news;     /* changed since the previous scan, so that files that are not listed are logged once */
} ModelFolder;

void model_folder_init(ModelFolder *folder, ModelRegistry *registry);
void model_folder_deinit(ModelFolder *folder);
/* Returns the scan to wait for; model_folder_step() runs the scan. 0: the last scan is less than a second old and the
 * folder has not changed. */
uint64_t model_folder_want(ModelFolder *folder);
bool model_folder_step(ModelFolder *folder); /* does a part of the scan; true: there is more to do */
bool model_folder_has(const ModelFolder *folder, uint64_t scan);
/* Returns why the file of this model name is not listed; NULL: the folder has no such file. */
const char *model_folder_why_not(const ModelFolder *folder, const char *name);

#endif
