// SPDX-License-Identifier: Apache-2.0
/* Conditions of an import, which every module of the importer returns. */
#ifndef COORDGEN_IMPORTER_IMPORT_ERROR_H
#define COORDGEN_IMPORTER_IMPORT_ERROR_H

enum {
    IMPORT_E_UNSUPPORTED = 1, /* an architecture, tensor type, tokenizer or kind of file that is refused by name */
    IMPORT_E_CORRUPT = 2,     /* the source contradicts itself or holds values that are not finite */
    IMPORT_E_CANCELLED = 3,   /* the caller's cancel flag was set */
    IMPORT_E_NO_SPACE = 4,    /* the text has the path, the bytes needed, and "free some space" at its end */
    IMPORT_E_CHANGED = 5,     /* the source changed while it was read: import it again */
    IMPORT_E_EXISTS = 6,      /* the output path holds the source itself, or something that is not a package */
    IMPORT_E_BUDGET = 7,      /* not even the smallest package fits the budget; the text has both numbers */
    IMPORT_E_CALIBRATION = 8, /* the calibration text is unusable or too short */
};

#endif
