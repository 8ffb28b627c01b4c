// SPDX-License-Identifier: Apache-2.0
/* PATH.part, the package that is being written, and its journal PATH.part.journal. */
#ifndef COORDGEN_IMPORTER_IMPORT_PART_H
#define COORDGEN_IMPORTER_IMPORT_PART_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "importer/import_monitor.h"

typedef struct ImportPart {
    const char *out_path;
    char path[PATH_MAX];
    char journal_path[PATH_MAX];
    int fd;
} ImportPart;

/* Opens and locks the part; least_bytes: what the package needs at least, for the message of a full disk. */
int import_part_open(ImportPart *part, const char *out_path, uint64_t least_bytes, ImportMonitor *monitor,
                     bool *waitedp, ErrText *err);
void import_part_deinit(ImportPart *part);
void import_part_remove(const ImportPart *part);
/* Removes the files left beside a finished package. */
void import_part_clear(const char *out_path);
int import_part_check_space(const ImportPart *part, uint64_t package_bytes, ErrText *err);
int import_part_reserve(const ImportPart *part, uint64_t package_bytes, ErrText *err);
/* Gives the package its name: fsync, rename, fsync of the folder. */
int import_part_commit(const ImportPart *part, uint64_t package_bytes, ErrText *err);
/* Removes old files that killed imports of any package have left in the folder. */
void import_parts_clean(const char *cache_folder);
/* Reports a failed write: IMPORT_E_NO_SPACE or -errno. */
int import_write_error(int error, const char *out_path, uint64_t package_bytes, ErrText *err);
/* Reports -ENOSPC and -EDQUOT with the bytes that the package needs; returns any other r as it is. */
int import_full_error(int r, const char *out_path, uint64_t package_bytes, ErrText *err);

/* --- what an import has left beside the path of its package ------------------------------------------------------- */

typedef enum ImportLeft {
    IMPORT_LEFT_USELESS,   /* nothing that can be resumed */
    IMPORT_LEFT_RESUMABLE, /* import_run() with the same settings would resume it */
    IMPORT_LEFT_BUSY,      /* a process works on it, or it belongs to another user */
} ImportLeft;

ImportLeft import_left(const char *package_path);
/* Removes the files of a killed or cancelled import. -EBUSY while a process works on them. */
int import_left_discard(const char *package_path, bool *foundp, ErrText *err);

#endif
