// SPDX-License-Identifier: Apache-2.0
/* Imports of a small model of six layers that are stopped on purpose, in this process or in another one. */
#ifndef COORDGEN_TEST_STOPPED_IMPORT_H
#define COORDGEN_TEST_STOPPED_IMPORT_H

#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "test/unit/importer/import_fixture.h"

#define STOPPED_IMPORT_LAYERS 6 /* and the tensors outside */

/* Place where an import is interrupted, and the interruption: it is cancelled, */
typedef struct Interrupt {
    ImportStage stage;
    _Atomic bool cancelled;
    const char *append_to; /* or the source grows meanwhile, */
    const char *truncate;  /* or the source is cut in half, */
    rlim_t limit_bytes;    /* or no file may be longer from now on, */
    int pipe_fd;           /* or it reports here and waits to be killed, */
    int go_fd;             /* or for a byte from here */
    size_t n_layers;       /* least number of finished layers */
    bool done;
} Interrupt;

/* Serves as ImportOptions.progress, with an Interrupt. */
void stopped_import_interrupt(void *arg, const ImportProgress *progress);

void stopped_import_source(ImportFixture *fixture);
/* Gives the hash of the package of an undisturbed import; the package is removed. */
void stopped_import_undisturbed(ImportFixture *fixture, char hash[SHA256_HEX_BYTES]);
/* Checks that the import resumes with n layers, and makes the same package. */
void stopped_import_goes_on(ImportFixture *fixture, size_t n, const char *expected_hash);
/* Checks that it resumes with least to most layers: the disk decides which layers a killed import had recorded. */
void stopped_import_goes_on_with(ImportFixture *fixture, size_t least, size_t most, const char *expected_hash);

/* Cancels an import when n layers are finished; its part and journal stay. */
void stopped_import_cancelled(ImportFixture *fixture, size_t n);

typedef struct StoppedImport {
    pid_t pid;
    int go_fd; /* a byte lets it go on */
} StoppedImport;

/* Starts an import in another process that stops when n layers are finished. */
StoppedImport stopped_import_start(ImportFixture *fixture, const char *out, size_t n);
void stopped_import_kill(StoppedImport other);

#endif
