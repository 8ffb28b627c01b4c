// SPDX-License-Identifier: Apache-2.0
/* From the plan to the package: widths, then layer by layer, with a journal of what is finished. */
#ifndef COORDGEN_IMPORTER_IMPORT_WORK_H
#define COORDGEN_IMPORTER_IMPORT_WORK_H

#include "importer/import.h"

/* Makes the package at import->out_path; its plan is made, the part is locked. */
int import_work(Import *import, ErrText *err);

#endif
