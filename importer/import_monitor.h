// SPDX-License-Identifier: Apache-2.0
/* The importer's view of its caller: who is told of progress, and whether the caller has cancelled. importer.c makes one
 * and passes it down, so that no module below calls up. */
#ifndef COORDGEN_IMPORTER_IMPORT_MONITOR_H
#define COORDGEN_IMPORTER_IMPORT_MONITOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "importer/import_error.h"

typedef enum ImportStage {
    IMPORT_STAGE_HASH,    /* SHA-256 of the source */
    IMPORT_STAGE_WAIT,    /* for another import to the same path */
    IMPORT_STAGE_MEASURE, /* calibration: sensitivity of the tensors, where the bits go */
    IMPORT_STAGE_RESUME,  /* layers that an earlier import has finished are checked */
    IMPORT_STAGE_CONVERT, /* layers; what lies outside of them counts as one */
    IMPORT_STAGE_SYNC,    /* the package reaches the disk */
} ImportStage;

const char *import_stage_name(ImportStage stage);

typedef struct ImportProgress {
    ImportStage stage;
    uint64_t done_bytes, total_bytes; /* of the stage: of the source, or of its tensors */
    size_t done_layers, n_layers;     /* resuming and converting */
    int other_pid;                    /* waiting: the process that is waited for, 0: not known */
} ImportProgress;

/* Called on the thread that runs import_run(), some times for every megabyte. */
typedef void ImportProgressFn(void *arg, const ImportProgress *progress);

typedef struct ImportMonitor {
    const char *source_path;       /* names the import in messages */
    const _Atomic bool *cancelled; /* may be NULL; any thread sets the flag */
    ImportProgressFn *fn;          /* may be NULL */
    void *arg;
    ImportProgress progress;               /* what fn is told next; the import's thread */
    uint64_t part_begin_bytes, part_bytes; /* the range of the stage that import_monitor_part() divides */
} ImportMonitor;

/* Any thread. */
bool import_monitor_is_cancelled(const ImportMonitor *monitor);
/* 0, or IMPORT_E_CANCELLED with its text. Any thread. */
int import_monitor_check(const ImportMonitor *monitor, ErrText *err);
/* Sets the text of a cancelled import. Return: IMPORT_E_CANCELLED. */
int import_monitor_cancelled(const ImportMonitor *monitor, ErrText *err);
/* Tells the progress as it stands. */
void import_monitor_tell(const ImportMonitor *monitor);
/* Begins a stage, or the next part of it: what follows is [begin, begin + part) of total. Tells. */
void import_monitor_stage(ImportMonitor *monitor, ImportStage stage, uint64_t begin_bytes, uint64_t part_bytes,
                          uint64_t total_bytes);
/* Tells that this share of the part is done, 0..1. */
void import_monitor_part(ImportMonitor *monitor, double done);

#endif
