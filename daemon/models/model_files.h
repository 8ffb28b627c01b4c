// SPDX-License-Identifier: Apache-2.0
/* What the files of model-dir are, as far as a scan has met them. A file is read when it is new or has changed, some of
 * it in each step. Owned by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_FILES_H
#define COORDGEN_DAEMON_MODEL_FILES_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/queue.h"
#include "model/gguf/gguf_kind.h"

enum {
    MODEL_FILES_MAX = 8192,              /* that are remembered; others are none */
    MODEL_FILES_STEP_BYTES = 256 * 1024, /* of a file, in one step */
};

typedef struct ModelFile { /* all loop */
    char *name;            /* in the folder */
    struct stat seen;      /* before it was read */
    GgufKindInfo info;
    char *why_not; /* it is not listed as a model; NULL: it is, or was not looked at */
    uint64_t scan; /* the last one that has met it */
    TAILQ_ENTRY(ModelFile) link;
} ModelFile;

TAILQ_HEAD(ModelFileList, ModelFile);

typedef struct ModelFiles { /* all loop */
    struct ModelFileList list;
    size_t n;
    void *by_name;          /* the same, in a tree of tsearch(3) */
    GgufKindReader *reader; /* of the file that is read; NULL: none */
    ModelFile *reading;     /* that one, not in the list yet */
} ModelFiles;

void model_files_init(ModelFiles *files);
void model_files_deinit(ModelFiles *files);
/* What a file of the folder is in this scan. NULL: it must be read, for which model_files_step() is to be called, and
 * this again; or it is gone, or one too many, as *pendingp says. */
ModelFile *model_files_look(ModelFiles *files, uint64_t scan, const char *path, bool *pendingp);
/* A part of the reading. Whether there is more to do. */
bool model_files_step(ModelFiles *files);
/* Forgets what this scan has not met. */
void model_files_forget_gone(ModelFiles *files, uint64_t scan);
/* Keeps why the file is not listed; NULL: it is. */
void model_file_explain(ModelFile *file, const char *why_not);
/* Why no model has this name though there is a file of it; NULL: there is none. */
const char *model_files_why_not(const ModelFiles *files, const char *model);

#endif
