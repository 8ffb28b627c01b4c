// SPDX-License-Identifier: Apache-2.0
/* The draft database's token sequences. The first byte chooses: the bytes as they are; bytes under a right head and
 * checksum, so that the code behind them is reached too; or tokens that must come back. */
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "spec/db/draft_db_blob.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

/* A decoded sequence must come out the same when it is encoded and read again. */
static void round_trip(const uint32_t *tokens, size_t n_tokens) {
    _cleanup_(freep) uint8_t *blob = NULL;
    _cleanup_(freep) uint32_t *again = NULL;
    size_t blob_bytes, n_again;

    if (draft_db_blob_encode(tokens, n_tokens, "fuzz", 4, &blob, &blob_bytes) || blob_bytes > DRAFT_DB_BLOB_BYTES_MAX ||
        draft_db_blob_decode(blob, blob_bytes, "fuzz", 4, &again, &n_again) || n_again != n_tokens ||
        (n_tokens && memcmp(again, tokens, n_tokens * sizeof(*tokens))))
        abort();
}

static void decode(const uint8_t *blob, size_t blob_bytes) {
    _cleanup_(freep) uint32_t *tokens = NULL;
    size_t n_tokens;
    int r = draft_db_blob_decode(blob, blob_bytes, "fuzz", 4, &tokens, &n_tokens);

    if (r && (r != DRAFT_DB_BLOB_E_CORRUPT || tokens))
        abort();
    if (!r && n_tokens > DRAFT_DB_TOKENS_MAX)
        abort();
    if (!r)
        round_trip(tokens, n_tokens);
}

/* Method, two bytes of tokens, two of varints, then the payload. */
static void decode_made(const uint8_t *data, size_t len_bytes) {
    _cleanup_(freep) uint8_t *blob = NULL;
    struct sha256_ctx context;

    if (len_bytes < 5)
        return;
    blob = calloc(1, DRAFT_DB_BLOB_HEAD_BYTES + len_bytes - 5);
    if (!blob)
        return;
    blob[0] = 1;
    blob[1] = data[0];
    memcpy(blob + 2, data + 1, 2);
    memcpy(blob + 6, data + 3, 2);
    memcpy(blob + DRAFT_DB_BLOB_HEAD_BYTES, data + 5, len_bytes - 5);
    sha256_init(&context);
    sha256_update(&context, 4, (const uint8_t *)"fuzz");
    sha256_update(&context, 10, blob);
    sha256_update(&context, len_bytes - 5, blob + DRAFT_DB_BLOB_HEAD_BYTES);
    sha256_digest(&context, 16, blob + 10);
    decode(blob, DRAFT_DB_BLOB_HEAD_BYTES + len_bytes - 5);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes) {
    _cleanup_(freep) uint32_t *tokens = NULL;

    if (!len_bytes || len_bytes > 1 << 16)
        return 0;
    switch (data[0]) {
    case 'm':
        decode_made(data + 1, len_bytes - 1);
        break;
    case 't':
        tokens = malloc(len_bytes);
        if (!tokens)
            return 0;
        memcpy(tokens, data + 1, len_bytes - 1);
        round_trip(tokens, (len_bytes - 1) / sizeof(*tokens));
        break;
    default:
        decode(data + 1, len_bytes - 1);
        break;
    }
    return 0;
}
