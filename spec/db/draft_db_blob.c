// SPDX-License-Identifier: Apache-2.0
#include "spec/db/draft_db_blob.h"

#include <errno.h>
#include <nettle/sha2.h>
#include <stdbool.h>
#include <string.h>
#include <zstd.h>

#include "base/cleanup.h"
#include "base/err.h"

/* The head: byte 0 is the form, 1; byte 1 the method; then u32 tokens and u32 bytes of varints, little-endian; then the
 * first 16 bytes of the SHA-256 of the owner, the head before it and the payload. The payload follows. */
enum {
    BLOB_FORM = 1,
    BLOB_PLAIN = 0, /* the payload is the varints */
    BLOB_ZSTD = 1,  /* the payload is a zstd frame of the varints, which states its content's size */
    BLOB_SUM_AT = 10,
    BLOB_SUM_BYTES = 16,
    /* documents are short: higher levels gain little, and the reader's time does not depend on the level */
    BLOB_LEVEL = 3,
};
_Static_assert(BLOB_SUM_AT + BLOB_SUM_BYTES == DRAFT_DB_BLOB_HEAD_BYTES, "the head ends with its sum");

static void blob_put_u32(uint8_t *at, uint32_t value) {
    for (unsigned int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t blob_get_u32(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void blob_sum(const uint8_t *blob, size_t blob_bytes, const void *owner, size_t owner_bytes,
                     uint8_t sum[BLOB_SUM_BYTES]) {
    struct sha256_ctx context;

    sha256_init(&context);
    sha256_update(&context, owner_bytes, owner);
    sha256_update(&context, BLOB_SUM_AT, blob);
    sha256_update(&context, blob_bytes - DRAFT_DB_BLOB_HEAD_BYTES, blob + DRAFT_DB_BLOB_HEAD_BYTES);
    sha256_digest(&context, BLOB_SUM_BYTES, sum);
}

static size_t varints_write(uint8_t *out, const uint32_t *tokens, size_t n_tokens) {
    uint8_t *at = out;

    for (size_t i = 0; i < n_tokens; i++) {
        uint32_t rest = tokens[i];

        for (; rest >= 0x80; rest >>= 7)
            *at++ = (uint8_t)(rest | 0x80);
        *at++ = (uint8_t)rest;
    }
    return (size_t)(at - out);
}

/* Reads exactly n_tokens numbers of 32 bits from exactly these bytes, each as short as it can be. */
static bool varints_read(const uint8_t *at, size_t len_bytes, uint32_t *tokens, size_t n_tokens) {
    const uint8_t *end = at + len_bytes;

    for (size_t i = 0; i < n_tokens; i++) {
        uint64_t value = 0;

        for (unsigned int shift = 0;; shift += 7) {
            uint8_t byte;

            if (at == end || shift > 28)
                return false;
            byte = *at++;
            value |= (uint64_t)(byte & 0x7f) << shift;
            if (byte & 0x80)
                continue;
            if (value > UINT32_MAX || (shift && !byte))
                return false;
            break;
        }
        tokens[i] = (uint32_t)value;
    }
    return at == end;
}

/**
 * draft_db_blob_encode() - make the blob of a sequence
 * @tokens: u32[n_tokens], any values; not read if n_tokens is 0
 * @owner:  what the checksum covers beside the tokens: whose they are
 * Every sequence is compressed by itself: neither its bytes nor their number tell of another one.
 * Return: 0, -ENOMEM, or DRAFT_DB_BLOB_E_TOO_LONG.
 */
int draft_db_blob_encode(const uint32_t *tokens, size_t n_tokens, const void *owner, size_t owner_bytes,
                         uint8_t **blobp, size_t *blob_bytesp) {
    _cleanup_(freep) uint8_t *plain = NULL, *blob = NULL;
    size_t plain_bytes, packed_bytes = 0;

    if (n_tokens > DRAFT_DB_TOKENS_MAX)
        return DRAFT_DB_BLOB_E_TOO_LONG;
    plain = malloc(5 * n_tokens + 1);
    if (!plain)
        return err_raise(-ENOMEM);
    plain_bytes = varints_write(plain, tokens, n_tokens);
    blob = malloc(DRAFT_DB_BLOB_HEAD_BYTES + plain_bytes + 1);
    if (!blob)
        return err_raise(-ENOMEM);

    /* Compresses into as much room as the varints take; where they get no shorter, they stay as they are. */
    if (plain_bytes)
        packed_bytes = ZSTD_compress(blob + DRAFT_DB_BLOB_HEAD_BYTES, plain_bytes, plain, plain_bytes, BLOB_LEVEL);
    blob[0] = BLOB_FORM;
    blob[1] = BLOB_ZSTD;
    if (!packed_bytes || ZSTD_isError(packed_bytes) || packed_bytes >= plain_bytes) {
        blob[1] = BLOB_PLAIN;
        packed_bytes = plain_bytes;
        memcpy(blob + DRAFT_DB_BLOB_HEAD_BYTES, plain, plain_bytes);
    }
    blob_put_u32(blob + 2, (uint32_t)n_tokens);
    blob_put_u32(blob + 6, (uint32_t)plain_bytes);
    blob_sum(blob, DRAFT_DB_BLOB_HEAD_BYTES + packed_bytes, owner, owner_bytes, blob + BLOB_SUM_AT);
    *blobp = steal(&blob);
    *blob_bytesp = DRAFT_DB_BLOB_HEAD_BYTES + packed_bytes;
    return 0;
}

/* Unpacks the varints of a payload into out[plain_bytes], never more, whatever the frame holds. */
static bool blob_unpack(const uint8_t *payload, size_t payload_bytes, uint8_t method, uint8_t *out,
                        size_t plain_bytes) {
    if (method == BLOB_PLAIN) {
        if (payload_bytes != plain_bytes)
            return false;
        memcpy(out, payload, plain_bytes);
        return true;
    }
    return ZSTD_getFrameContentSize(payload, payload_bytes) == plain_bytes &&
           ZSTD_findFrameCompressedSize(payload, payload_bytes) == payload_bytes &&
           ZSTD_decompress(out, plain_bytes, payload, payload_bytes) == plain_bytes;
}

/**
 * draft_db_blob_decode() - read the sequence of a blob
 * @blob:    any bytes
 * @tokensp: out: u32[n_tokens], the caller's; never NULL when 0 is returned
 *
 * Memory: 9 bytes a token, where the head may promise DRAFT_DB_TOKENS_MAX, and zstd's fixed part. The checksum comes
 * first and stops accidental damage; the checks behind it hold for bytes that somebody has crafted.
 * Return: 0, -ENOMEM, or DRAFT_DB_BLOB_E_CORRUPT.
 */
int draft_db_blob_decode(const uint8_t *blob, size_t blob_bytes, const void *owner, size_t owner_bytes,
                         uint32_t **tokensp, size_t *n_tokensp) {
    _cleanup_(freep) uint8_t *plain = NULL;
    _cleanup_(freep) uint32_t *tokens = NULL;
    uint8_t sum[BLOB_SUM_BYTES];
    size_t n_tokens, plain_bytes;

    if (blob_bytes < DRAFT_DB_BLOB_HEAD_BYTES || blob_bytes > DRAFT_DB_BLOB_BYTES_MAX || blob[0] != BLOB_FORM ||
        blob[1] > BLOB_ZSTD)
        return DRAFT_DB_BLOB_E_CORRUPT;
    n_tokens = blob_get_u32(blob + 2);
    plain_bytes = blob_get_u32(blob + 6);
    if (n_tokens > DRAFT_DB_TOKENS_MAX || plain_bytes < n_tokens || plain_bytes > 5 * n_tokens)
        return DRAFT_DB_BLOB_E_CORRUPT;
    blob_sum(blob, blob_bytes, owner, owner_bytes, sum);
    if (memcmp(sum, blob + BLOB_SUM_AT, sizeof(sum)))
        return DRAFT_DB_BLOB_E_CORRUPT;

    plain = malloc(plain_bytes + 1);
    tokens = malloc((n_tokens + 1) * sizeof(*tokens));
    if (!plain || !tokens)
        return err_raise(-ENOMEM);
    if (!blob_unpack(blob + DRAFT_DB_BLOB_HEAD_BYTES, blob_bytes - DRAFT_DB_BLOB_HEAD_BYTES, blob[1], plain,
                     plain_bytes) ||
        !varints_read(plain, plain_bytes, tokens, n_tokens))
        return DRAFT_DB_BLOB_E_CORRUPT;
    *tokensp = steal(&tokens);
    *n_tokensp = n_tokens;
    return 0;
}
