// SPDX-License-Identifier: Apache-2.0
/* SHA-256 of what a package has, in the package: whether its bytes are those that the importer wrote.
 *
 * A part is the head (keys and tensor table, padding included), or a run of tensors of one layer in the order of the
 * file, with the padding up to the next run. The key holds a digest a part; in the head's own they count as zeros. */
#ifndef COORDGEN_MODEL_PACKAGE_CHECKSUM_H
#define COORDGEN_MODEL_PACKAGE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "model/gguf/gguf.h"

#define PACKAGE_KEY_CHECKSUMS "coordgen.sha256" /* u8 [parts][32] */
#define PACKAGE_CHECKSUM_BYTES 32

enum {
    PACKAGE_CHECKSUM_E_NONE = 1, /* the package has none */
    PACKAGE_CHECKSUM_E_DAMAGED,  /* the text names the part */
    PACKAGE_CHECKSUM_E_FILE,     /* no GGUF file, or one that was cut short */
};

/* Parts that were read, of all; called before each and at the end. */
typedef void PackageChecksumFn(void *arg, uint64_t done_bytes, uint64_t total_bytes);

/* Fills the key in, whose digests are zero, when all else is written. 0, PACKAGE_CHECKSUM_E_FILE, -errno. */
int package_checksum_seal(int fd, const char *name, ErrText *err);
/* Reads the whole file. fn may be NULL. 0, PACKAGE_CHECKSUM_E_*, -errno. */
int package_checksum_verify(int fd, const char *name, PackageChecksumFn *fn, void *arg, ErrText *err);

/* A comparison part by part, for who reads the file anyway: bytes are handed over as they come, and those that do not
 * come are read. Errors: as package_checksum_verify(); the first one is answered again by every later call. */
typedef struct PackageChecksum PackageChecksum; /* one thread at a time */

/* Nothing is read yet. The file of the descriptor, which both outlive the object. */
int package_checksum_new(PackageChecksum **checksump, int fd, const GgufFile *file, ErrText *err);
PackageChecksum *package_checksum_free(PackageChecksum *checksum);
DEFINE_CLEANUP(PackageChecksum, package_checksum_free)
/* Bytes of the file at an offset, in any order; what lies before them is read by now. NULL: these are read, too. */
void package_checksum_take(PackageChecksum *checksum, uint64_t offset_bytes, const void *data, size_t len_bytes);
/* Compares all parts up to the one that holds the byte before end_bytes, this one included; UINT64_MAX: all. */
int package_checksum_compare(PackageChecksum *checksum, uint64_t end_bytes, ErrText *err);
/* Whether two bytes are in one part. */
bool package_checksum_same_part(const PackageChecksum *checksum, uint64_t a_bytes, uint64_t b_bytes);
/* So far, of parts that were compared. */
uint64_t package_checksum_done_bytes(const PackageChecksum *checksum);

#endif
