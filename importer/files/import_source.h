// SPDX-License-Identifier: Apache-2.0
/* The file that is imported, or all files of a model in parts. */
#ifndef COORDGEN_IMPORTER_IMPORT_SOURCE_H
#define COORDGEN_IMPORTER_IMPORT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/files/file_io.h"
#include "importer/import_monitor.h"
#include "model/gguf/gguf.h"
#include "model/hparams/hparams.h"

typedef struct ImportSource {
    const char *path;
    const char *name; /* base name */
    size_t n_parts;
    int *fds;         /* [n_parts] */
    struct stat *sts; /* [n_parts] */
    GgufFile *file;
    Hparams hparams;
} ImportSource;

#define IMPORT_SOURCE_NULL ((ImportSource){ 0 })

/* fd: an open file that is read instead of path, or NULL; it stays the caller's. */
int import_source_open(ImportSource *source, const char *path, const int *fd, ErrText *err);
void import_source_deinit(ImportSource *source);
/* Length of all parts. */
uint64_t import_source_len_bytes(const ImportSource *source);
/* Compares the files with their state when they were opened. IMPORT_E_CHANGED if one differs. */
int import_source_unchanged(const ImportSource *source, ErrText *err);
/* Gives the SHA-256 of all parts: recalled from the cache folder, or computed. */
int import_source_identify(const ImportSource *source, const char *cache_dir, ImportMonitor *monitor,
                           char sha256[SHA256_HEX_BYTES], bool *rememberedp, ErrText *err);
/* Reports a failed read: FILE_E_SHORT or -errno. */
int import_read_error(int error, const char *path, ErrText *err);

#endif
