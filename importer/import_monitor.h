// SPDX-License-Identifier: Apache-2.0
/* The importer's view of its caller: a callback for progress, and a flag that cancels. importer.c makes one monitor and
 * passes it down, so that no module below calls up. */
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
    IMPORT_STAGE_WAIT,    /* waits for another import to the same path */
    IMPORT_STAGE_MEASURE, /* calibration: measures the tensors' sensitivity and allocates bits */
    IMPORT_STAGE_RESUME,  /* checks layers that an earlier import has finished */
    IMPORT_STAGE_CONVERT, /* converts layers; the tensors outside the layers count as one */
    IMPORT_STAGE_SYNC,    /* the package reaches the disk */
} ImportStage;

const char *import_stage_name(ImportStage stage);

typedef struct ImportProgress {
    ImportStage stage;
    uint64_t done_bytes, total_bytes; /* of the stage: bytes of the source, or of its tensors */
    size_t done_layers, n_layers;     /* while resuming and converting */
    int other_pid;                    /* while waiting: the process that is waited for, 0: not known */
} ImportProgress;

/* Receives progress on the thread that runs import_run(), several times for every megabyte. */
typedef void ImportProgressFn(void *arg, const ImportProgress *progress);

typedef struct ImportMonitor {
    const char *source_path;       /* names the import in messages */
    const _Atomic bool *cancelled; /* may be NULL; any thread sets the flag */
    ImportProgressFn *fn;          /* may be NULL */
    void *arg;
    ImportProgress progress;               /* next report to fn; the import's thread */
    uint64_t part_begin_bytes, part_bytes; /* the range of the stage that import_monitor_part() divides */
} ImportMonitor;

/* Any thread. */
bool import_monitor_is_cancelled(const ImportMonitor *monitor);
/* 0, or IMPORT_E_CANCELLED with its text. Any thread. */
int import_monitor_check(const ImportMonitor *monitor, ErrText *err);
/* Sets the text of a cancelled import. Return: IMPORT_E_CANCELLED. */
int import_monitor_cancelled(const ImportMonitor *monitor, ErrText *err);
/* Reports the progress as it stands. */
void import_monitor_tell(const ImportMonitor *monitor);
/* Begins a stage, or its next part, which covers [begin, begin + part) of total; reports it. */
void import_monitor_stage(ImportMonitor *monitor, ImportStage stage, uint64_t begin_bytes, uint64_t part_bytes,
                          uint64_t total_bytes);
/* Reports which share of the part is done, 0..1. */
void import_monitor_part(ImportMonitor *monitor, double done);

#endif
