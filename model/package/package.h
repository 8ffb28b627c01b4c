// SPDX-License-Identifier: Apache-2.0
/* Reader of model packages (package_format.h). */
#ifndef COORDGEN_MODEL_PACKAGE_H
#define COORDGEN_MODEL_PACKAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "model/gguf/gguf.h"
#include "model/hparams/hparams.h"
#include "model/package/package_format.h"

typedef struct Package Package; /* immutable: any number of threads may read it */

/* Opens a package and checks everything but the weights' values. The file stays mapped while the package lives. If it
 * is cut short meanwhile (see gguf_open()), readers of scales, widths or vectors find out by gguf_check_whole(). */
int package_open(Package **packagep, const char *path, ErrText *err);
/* Opens a package whose file is open already; fd stays the caller's, name is used in messages. Errors of
 * package_open(). */
int package_open_fd(Package **packagep, int fd, const char *name, ErrText *err);
/* Opens a package in memory that outlives the object, aligned to 4096 (fuzzing, tests). */
int package_parse(Package **packagep, const void *data, size_t len_bytes, const char *name, ErrText *err);
Package *package_free(Package *package);
DEFINE_CLEANUP(Package, package_free)

/* Whether the file claims to be a package (of any version). */
bool package_is(const GgufFile *file);

const GgufFile *package_file(const Package *package);
/* The package's descriptor of the mapped file; -1 after package_parse(). */
int package_fd(const Package *package);
const Hparams *package_hparams(const Package *package);
const char *package_source_sha256(const Package *package); /* 64 hex digits */
const PackageQuant *package_quant(const Package *package);

size_t package_n_linears(const Package *package);
const PackageLinear *package_linear_at(const Package *package, size_t index); /* file order */
/* Finds a linear by its tensor's name, "blk.0.attn_q.weight". 0, or PACKAGE_E_CORRUPT if there is no such linear.
 * O(1). */
int package_linear(const Package *package, const char *tensor_name, PackageLinear *linearp, ErrText *err);

#endif
