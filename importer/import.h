// SPDX-License-Identifier: Apache-2.0
/* An import: its source, its package and its progress. */
#ifndef COORDGEN_IMPORTER_IMPORT_H
#define COORDGEN_IMPORTER_IMPORT_H

#include "importer/calibration_text.h"
#include "importer/files/import_journal.h"
#include "importer/import_model.h"
#include "importer/import_monitor.h"
#include "importer/files/import_part.h"
#include "importer/import_plan.h"
#include "importer/files/import_source.h"
#include "importer/methods/import_method.h"

typedef struct Import {
    QuantRecipe recipe;
    const ImportMethod *method;
    unsigned int n_threads; /* as in ImportOptions */
    const char *out_path;   /* of the package */
    ImportMonitor monitor;
    ImportSource source;
    char source_sha256[SHA256_HEX_BYTES];
    CalibrationText calibration;
    ImportPlan plan;
    ImportPart part;
    ImportJournal *journal;
    ImportModel model; /* while import_work() runs */
    size_t n_resumed;  /* layers that an earlier import had finished */
} Import;

#endif
