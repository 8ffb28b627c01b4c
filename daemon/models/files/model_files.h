// SPDX-License-Identifier: Apache-2.0
/* The files of model-dir that a scan has met, with the kind of each. A new or changed file is read in steps. Owned by
 * the loop. */
#ifndef COORDGEN_DAEMON_MODEL_FILES_H
#define COORDGEN_DAEMON_MODEL_FILES_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/queue.h"
#include "model/gguf/gguf_kind.h"

enum {
    MODEL_FILES_MAX = 8192,              /* remembered files; further ones are ignored */
    MODEL_FILES_STEP_BYTES = 256 * 1024, /* read from a file in one step */
};

typedef struct ModelFile { /* all loop */
    char *name;            /* in the folder */
    struct stat seen;      /* the file's state before it was read */
    GgufKindInfo info;
    char *why_not; /* reason why the file is not listed; NULL: listed, or not looked at */
    uint64_t scan; /* the last scan that has met the file */
    TAILQ_ENTRY(ModelFile) link;
} ModelFile;

TAILQ_HEAD(ModelFileList, ModelFile);

typedef struct ModelFiles { /* all loop */
    struct ModelFileList list;
    size_t n;
    void *by_name;          /* the files, in a tree of tsearch(3) */
    GgufKindReader *reader; /* reader of the file being read; NULL: none */
    ModelFile *reading;     /* the file being read, not in the list yet */
} ModelFiles;

void model_files_init(ModelFiles *files);
void model_files_deinit(ModelFiles *files);
/* Looks at a file of the folder in this scan. NULL with *pendingp: the file must be read; call model_files_step() and
 * then this again. NULL otherwise: the file is gone, or there are too many files. */
ModelFile *model_files_look(ModelFiles *files, uint64_t scan, const char *path, bool *pendingp);
/* Reads a part of the pending file. Return: whether there is more to do. */
bool model_files_step(ModelFiles *files);
/* Forgets the files that this scan has not met. */
void model_files_forget_gone(ModelFiles *files, uint64_t scan);
/* Keeps the reason why the file is not listed; NULL: it is listed. */
void model_file_explain(ModelFile *file, const char *why_not);
/* Returns why the file of this model name is not listed; NULL: there is no such file. */
const char *model_files_why_not(const ModelFiles *files, const char *model);

#endif
