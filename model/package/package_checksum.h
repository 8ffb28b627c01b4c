// SPDX-License-Identifier: Apache-2.0
/* SHA-256 checksums of a package, stored in the package, which tell whether its bytes are those that the importer
 * wrote. A part is the head (keys and tensor table, padding included), or a run of tensors of one layer in the order of
 * the file, with the padding up to the next run. The key holds a digest for each part; the digests' own bytes in the
 * head count as zeros. */
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
    PACKAGE_CHECKSUM_E_NONE = 1, /* the package has no checksums */
    PACKAGE_CHECKSUM_E_DAMAGED,  /* the text names the part */
    PACKAGE_CHECKSUM_E_FILE,     /* not a GGUF file, or one that was cut short */
};

/* Receives how many parts of all were read; called before each part and at the end. */
typedef void PackageChecksumFn(void *arg, uint64_t done_bytes, uint64_t total_bytes);

/* Fills in the key's digests, which are zero, when all else is written. 0, PACKAGE_CHECKSUM_E_FILE, -errno. */
int package_checksum_seal(int fd, const char *name, ErrText *err);
/* Compares the whole file. fn may be NULL. 0, PACKAGE_CHECKSUM_E_*, -errno. */
int package_checksum_verify(int fd, const char *name, PackageChecksumFn *fn, void *arg, ErrText *err);

/* A comparison part by part for a caller that reads the file anyway: the caller hands bytes over as they come, and
 * missing ones are read. Errors are those of package_checksum_verify(); every later call returns the first error
 * again. */
typedef struct PackageChecksum PackageChecksum; /* one thread at a time */

/* Makes a comparison of the file behind fd and file, which both outlive the object. Reads nothing yet. */
int package_checksum_new(PackageChecksum **checksump, int fd, const GgufFile *file, ErrText *err);
PackageChecksum *package_checksum_free(PackageChecksum *checksum);
DEFINE_CLEANUP(PackageChecksum, package_checksum_free)
/* Takes bytes of the file at an offset, which may come in any order; reads the bytes before them. data NULL: reads
 * these bytes, too. */
void package_checksum_take(PackageChecksum *checksum, uint64_t offset_bytes, const void *data, size_t len_bytes);
/* Compares all parts up to the one that holds the byte before end_bytes, this one included; UINT64_MAX: all. */
int package_checksum_compare(PackageChecksum *checksum, uint64_t end_bytes, ErrText *err);
/* Whether two bytes are in one part. */
bool package_checksum_same_part(const PackageChecksum *checksum, uint64_t a_bytes, uint64_t b_bytes);
/* Counts the bytes of the parts that were compared so far. */
uint64_t package_checksum_done_bytes(const PackageChecksum *checksum);

#endif
