// SPDX-License-Identifier: Apache-2.0
/* A token sequence as the draft database and its exports hold it: varints, compressed with zstd, with a checksum that
 * also covers the owner. Whatever the bytes are, reading them gives the sequence or an error. */
#ifndef COORDGEN_SPEC_DRAFT_DB_BLOB_H
#define COORDGEN_SPEC_DRAFT_DB_BLOB_H

#include <stddef.h>
#include <stdint.h>

enum {
    DRAFT_DB_BLOB_E_CORRUPT = 1, /* the blob is not what was written, or was written for another owner */
    DRAFT_DB_BLOB_E_TOO_LONG,    /* the sequence has more than DRAFT_DB_TOKENS_MAX tokens */
};

#define DRAFT_DB_TOKENS_MAX (1u << 20)
#define DRAFT_DB_BLOB_HEAD_BYTES 26u
/* No blob is longer: a varint of a token has at most 5 bytes, and what zstd would make longer is not compressed. */
#define DRAFT_DB_BLOB_BYTES_MAX (DRAFT_DB_BLOB_HEAD_BYTES + 5u * DRAFT_DB_TOKENS_MAX)

/* Encode and decode; owner: bytes that the reader must give too. The caller frees the results with free(). */
int draft_db_blob_encode(const uint32_t *tokens, size_t n_tokens, const void *owner, size_t owner_bytes,
                         uint8_t **blobp, size_t *blob_bytesp);
int draft_db_blob_decode(const uint8_t *blob, size_t blob_bytes, const void *owner, size_t owner_bytes,
                         uint32_t **tokensp, size_t *n_tokensp);

#endif
