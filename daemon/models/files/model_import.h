// SPDX-License-Identifier: Apache-2.0
/* Runs an import in a child process, so that a hostile model file meets no session's memory. Loop side. */
#ifndef COORDGEN_DAEMON_MODEL_IMPORT_H
#define COORDGEN_DAEMON_MODEL_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/queue.h"
#include "daemon/loop.h"

enum {
    MODEL_IMPORT_E_MODEL = 1, /* the file is corrupt or not supported */
    MODEL_IMPORT_E_FAILED,    /* any other reason, such as a full disk; the text says which */
};

typedef struct ModelImport ModelImport;
TAILQ_HEAD(ModelImportList, ModelImport);
typedef struct ModelImportList ModelImportList;

typedef void ModelImportProgressFn(void *arg, uint32_t permille);
/* Last callback; the receiver frees the import. result: 0 with the package's path, or MODEL_IMPORT_E_* with a text. */
typedef void ModelImportDoneFn(void *arg, int result, const char *package_path, const ErrText *err);

/* Starts the child. fd: open source file, used until this returns; -1: the child opens the path. checks_package:
 * compares an existing package with its checksums, and makes it again if it is damaged. */
int model_import_new(ModelImport **importp, Loop *loop, const char *source, int fd, const char *cache_dir,
                     bool checks_package, ModelImportProgressFn *progress, ModelImportDoneFn *done, void *arg,
                     ErrText *err);
ModelImport *model_import_free(ModelImport *import); /* kills and reaps a child that still runs; done is not called */
DEFINE_CLEANUP(ModelImport, model_import_free)
/* Kills the child without waiting for its end, which may take time in the middle of a write. The import stays in the
 * list until the loop hears of that end. */
void model_import_abandon(ModelImport *import, ModelImportList *abandoned);
void model_import_reap(ModelImportList *abandoned); /* waits for the children that are left */

/* Child side (import_worker.c): `coordgend --import-worker SOURCE CACHE_DIR [opened] [check]`. It reports by lines,
 * "verb rest", on IMPORT_REPORT_FD and returns its exit status. "opened": IMPORT_SOURCE_FD is the source; "check":
 * checks_package. */
#define IMPORT_WORKER_FLAG "--import-worker"
#define IMPORT_WORKER_OPENED "opened"
#define IMPORT_WORKER_CHECK "check"
#define IMPORT_REPORT_FD 3
#define IMPORT_SOURCE_FD 4
#define IMPORT_VERB_PROGRESS "progress" /* permille */
#define IMPORT_VERB_DONE "done"         /* path of the package */
#define IMPORT_VERB_CORRUPT "corrupt"   /* text */
#define IMPORT_VERB_FAILED "failed"     /* text */
int import_worker_main(int argc, char *const argv[]);

#endif
