// SPDX-License-Identifier: Apache-2.0
/* SHA-256 of what a package has, in the package: whether its bytes are those that the importer wrote.
 *
 * A part is the head (keys and tensor table, padding included), or a run of tensors of one layer in the order of the
 * file, with the padding up to the next run. The key holds a digest a part; in the head's own they count as zeros. */
#ifndef COORDGEN_MODEL_PACKAGE_CHECKSUM_H
#define COORDGEN_MODEL_PACKAGE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PACKAGE_KEY_CHECKSUMS "coordgen.sha256" /* u8 [parts][32] */
#define PACKAGE_CHECKSUM_BYTES 32

enum {
    PACKAGE_CHECKSUM_E_NONE = 1, /* the package has none */
    PACKAGE_CHECKSUM_E_DAMAGED,  /* the text names the part */
    PACKAGE_CHECKSUM_E_FILE,     /* no GGUF file, or none that can be read */
};

/* Parts that were read, of all; called before each and at the end. */
typedef void PackageChecksumFn(void *arg, uint64_t done_bytes, uint64_t total_bytes);

/* Fills the key in, whose digests are zero, when all else is written. 0, PACKAGE_CHECKSUM_E_FILE, -errno. */
int package_checksum_seal(int fd, const char *name, ErrText *err);
/* Reads the whole file. fn may be NULL. 0, PACKAGE_CHECKSUM_E_*, -errno. */
int package_checksum_verify(int fd, const char *name, PackageChecksumFn *fn, void *arg, ErrText *err);

#endif
