// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <zstd.h>

#include <cmocka.h>
#include <nettle/sha2.h>

#include "base/cleanup.h"
#include "spec/db/draft_db_blob.h"

#define OWNER "whose they are"

static int decode(const uint8_t *blob, size_t blob_bytes, uint32_t **tokensp, size_t *n_tokensp) {
    /* A copy of exactly this length: the sanitizer sees a read past its end. */
    _cleanup_(freep) uint8_t *exact = malloc(blob_bytes ? blob_bytes : 1);

    assert_non_null(exact);
    memcpy(exact, blob, blob_bytes);
    return draft_db_blob_decode(exact, blob_bytes, OWNER, strlen(OWNER), tokensp, n_tokensp);
}

static void refused(const uint8_t *blob, size_t blob_bytes) {
    uint32_t *tokens = NULL;
    size_t n_tokens = 77;

    assert_int_equal(decode(blob, blob_bytes, &tokens, &n_tokens), DRAFT_DB_BLOB_E_CORRUPT);
    assert_null(tokens);
    assert_int_equal(n_tokens, 77);
}

static size_t round_trip(const uint32_t *tokens, size_t n_tokens) {
    _cleanup_(freep) uint8_t *blob = NULL;
    _cleanup_(freep) uint32_t *again = NULL;
    size_t blob_bytes, n_again;

    assert_int_equal(draft_db_blob_encode(tokens, n_tokens, OWNER, strlen(OWNER), &blob, &blob_bytes), 0);
    assert_true(blob_bytes <= DRAFT_DB_BLOB_BYTES_MAX);
    assert_int_equal(decode(blob, blob_bytes, &again, &n_again), 0);
    assert_int_equal(n_again, n_tokens);
    assert_memory_equal(again, tokens, n_tokens * sizeof(*tokens));
    return blob_bytes;
}

static void test_draft_db_blob_round_trips(void **state) {
    static const uint32_t edges[] = { 0, 127, 128, 16383, 16384, 2097151, 2097152, 268435455, 268435456, UINT32_MAX };
    _cleanup_(freep) uint32_t *tokens = malloc(65536 * sizeof(*tokens));
    uint64_t random = 1;

    assert_non_null(tokens);
    assert_int_equal(round_trip(edges, 0), DRAFT_DB_BLOB_HEAD_BYTES);
    for (size_t i = 0; i < ARRAY_LEN(edges); i++)
        round_trip(&edges[i], 1);
    round_trip(edges, ARRAY_LEN(edges));
    for (size_t i = 0; i < 65536; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        tokens[i] = (uint32_t)(random >> 47); /* 17 bits, as of a vocabulary */
    }
    assert_true(round_trip(tokens, 65536) < 65536 * 3);
    for (size_t i = 0; i < 65536; i++)
        tokens[i] = 40000 + (uint32_t)i % 100;
    assert_true(round_trip(tokens, 65536) < 2000);
}

static void test_draft_db_blob_too_long(void **state) {
    _cleanup_(freep) uint32_t *tokens = calloc(DRAFT_DB_TOKENS_MAX + 1, sizeof(*tokens));
    _cleanup_(freep) uint8_t *blob = NULL;
    size_t blob_bytes;

    assert_non_null(tokens);
    assert_int_equal(draft_db_blob_encode(tokens, DRAFT_DB_TOKENS_MAX + 1, OWNER, 1, &blob, &blob_bytes),
                     DRAFT_DB_BLOB_E_TOO_LONG);
    assert_null(blob);
    round_trip(tokens, DRAFT_DB_TOKENS_MAX);
}

static void test_draft_db_blob_of_another_owner(void **state) {
    static const uint32_t tokens[] = { 1, 2, 3 };
    _cleanup_(freep) uint8_t *blob = NULL;
    uint32_t *again;
    size_t blob_bytes, n_again;

    assert_int_equal(draft_db_blob_encode(tokens, 3, "uid 1", 5, &blob, &blob_bytes), 0);
    assert_int_equal(draft_db_blob_decode(blob, blob_bytes, "uid 2", 5, &again, &n_again), DRAFT_DB_BLOB_E_CORRUPT);
}

/* Every bit, and every length that is not the whole. */
static void test_draft_db_blob_damaged(void **state) {
    uint32_t tokens[200];

    for (size_t i = 0; i < ARRAY_LEN(tokens); i++)
        tokens[i] = (uint32_t)(i % 10 * 1000);
    for (size_t n = 0; n <= ARRAY_LEN(tokens); n = n ? n * 200 : 1) { /* both methods */
        _cleanup_(freep) uint8_t *blob = NULL;
        size_t blob_bytes;

        assert_int_equal(draft_db_blob_encode(tokens, n, OWNER, strlen(OWNER), &blob, &blob_bytes), 0);
        assert_int_equal(blob[1], n == ARRAY_LEN(tokens));
        for (size_t bit = 0; bit < 8 * blob_bytes; bit++) {
            blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
            refused(blob, blob_bytes);
            blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        for (size_t len = 0; len < blob_bytes; len++)
            refused(blob, len);
    }
}

/* A blob with a right checksum, crafted by somebody who knows the form. */
static size_t made(uint8_t *blob, uint8_t method, uint32_t n_tokens, uint32_t plain_bytes, const void *payload,
                   size_t payload_bytes) {
    struct sha256_ctx context;

    blob[0] = 1;
    blob[1] = method;
    for (unsigned int i = 0; i < 4; i++) {
        blob[2 + i] = (uint8_t)(n_tokens >> 8 * i);
        blob[6 + i] = (uint8_t)(plain_bytes >> 8 * i);
    }
    memcpy(blob + DRAFT_DB_BLOB_HEAD_BYTES, payload, payload_bytes);
    sha256_init(&context);
    sha256_update(&context, strlen(OWNER), (const uint8_t *)OWNER);
    sha256_update(&context, 10, blob);
    sha256_update(&context, payload_bytes, blob + DRAFT_DB_BLOB_HEAD_BYTES);
    sha256_digest(&context, 16, blob + 10);
    return DRAFT_DB_BLOB_HEAD_BYTES + payload_bytes;
}

static void test_draft_db_blob_hostile(void **state) {
    static const struct {
        uint32_t n_tokens, plain_bytes;
        const char *plain;
    } cases[] = {
        { 1, 2, "\x80\x00" },                 /* longer than necessary */
        { 1, 1, "\x80" },                     /* goes on past the end */
        { 1, 2, "\x01\x02" },                 /* more than stated */
        { 2, 2, "\x80\x01" },                 /* fewer */
        { 1, 5, "\xff\xff\xff\xff\x1f" },     /* more than 32 bits */
        { 2, 6, "\xff\xff\xff\xff\xff\x01" }, /* six bytes in one number */
        { 2, 1, "\x01" },                     /* fewer bytes than tokens */
        { 1, 6, "\x01\x01\x01\x01\x01\x01" }, /* more than five bytes each */
        { DRAFT_DB_TOKENS_MAX + 1, DRAFT_DB_TOKENS_MAX + 1, "" },
        { UINT32_MAX, UINT32_MAX, "" },
    };
    uint8_t blob[256];
    uint32_t *tokens;
    size_t n_tokens;

    assert_int_equal(decode(blob, made(blob, 0, 2, 3, "\x80\x01\x07", 3), &tokens, &n_tokens), 0);
    assert_int_equal(n_tokens, 2);
    assert_int_equal(tokens[0], 128);
    assert_int_equal(tokens[1], 7);
    free(tokens);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t bytes = cases[i].plain_bytes < 16 ? cases[i].plain_bytes : 0;

        refused(blob, made(blob, 0, cases[i].n_tokens, cases[i].plain_bytes, cases[i].plain, bytes));
    }
    refused(blob, made(blob, 2, 1, 1, "\x01", 1)); /* no such method */
    refused(blob, made(blob, 1, 1, 1, "\x01", 1)); /* no frame of zstd */
}

/* A small blob with a large content: no more is unpacked than the head says, and the head may say no more than the
 * limit. */
static void test_draft_db_blob_bomb(void **state) {
    const size_t plain_bytes = 64u << 20;
    _cleanup_(freep) uint8_t *plain = calloc(plain_bytes, 1), *packed = malloc(ZSTD_compressBound(plain_bytes)),
                             *blob = NULL;
    size_t packed_bytes, small_bytes;
    uint32_t *tokens;
    size_t n_tokens;

    assert_non_null(plain);
    assert_non_null(packed);
    packed_bytes = ZSTD_compress(packed, ZSTD_compressBound(plain_bytes), plain, plain_bytes, 3);
    assert_true(packed_bytes < 16384);
    blob = malloc(65536);
    assert_non_null(blob);
    refused(blob, made(blob, 1, DRAFT_DB_TOKENS_MAX, DRAFT_DB_TOKENS_MAX, packed, packed_bytes));
    refused(blob, made(blob, 1, (uint32_t)plain_bytes, (uint32_t)plain_bytes, packed, packed_bytes));

    /* A blob of the same form with a content of the stated size, and with something behind it. */
    small_bytes = ZSTD_compress(packed, 65536, plain, 1000, 3);
    assert_int_equal(decode(blob, made(blob, 1, 1000, 1000, packed, small_bytes), &tokens, &n_tokens), 0);
    free(tokens);
    packed[small_bytes] = 0;
    refused(blob, made(blob, 1, 1000, 1000, packed, small_bytes + 1));
    refused(blob, made(blob, 1, 999, 999, packed, small_bytes));
    refused(blob, made(blob, 1, 1001, 1001, packed, small_bytes));
}

/* A single frame that states its size: other frames could be unpacked, but not written again as they were. */
static void test_draft_db_blob_frames(void **state) {
    static const uint8_t plain[1000];
    uint8_t packed[512], blob[512];
    size_t half_bytes, silent_bytes;
    ZSTD_CCtx *context = ZSTD_createCCtx();

    half_bytes = ZSTD_compress(packed, sizeof(packed), plain, 500, 3);
    memcpy(packed + half_bytes, packed, half_bytes);
    refused(blob, made(blob, 1, 1000, 1000, packed, 2 * half_bytes));
    refused(blob, made(blob, 1, 500, 500, packed, 2 * half_bytes));
    memcpy(packed + half_bytes, "\x50\x2a\x4d\x18\0\0\0", 8); /* a frame that zstd skips */
    refused(blob, made(blob, 1, 500, 500, packed, half_bytes + 8));

    assert_non_null(context);
    assert_int_equal(ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0)), 0);
    silent_bytes = ZSTD_compress2(context, packed, sizeof(packed), plain, sizeof(plain));
    ZSTD_freeCCtx(context);
    assert_int_equal(ZSTD_isError(silent_bytes), 0);
    assert_true(ZSTD_getFrameContentSize(packed, silent_bytes) == ZSTD_CONTENTSIZE_UNKNOWN);
    refused(blob, made(blob, 1, 1000, 1000, packed, silent_bytes));
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draft_db_blob_round_trips),      cmocka_unit_test(test_draft_db_blob_too_long),
        cmocka_unit_test(test_draft_db_blob_of_another_owner), cmocka_unit_test(test_draft_db_blob_damaged),
        cmocka_unit_test(test_draft_db_blob_hostile),          cmocka_unit_test(test_draft_db_blob_bomb),
        cmocka_unit_test(test_draft_db_blob_frames),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
