// SPDX-License-Identifier: Apache-2.0
/* GET / */
#define _GNU_SOURCE
#include "gateway/page/page.h"

#include <nettle/base64.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/files/file_io.h"
#include "gateway/gateway.h"

static const unsigned char page[] = {
#include "gateway/page/page_bytes.inc"
};

enum {
    HASH_BYTES = BASE64_ENCODE_RAW_LENGTH(SHA256_DIGEST_SIZE) + 1,
};

const char *page_html(size_t *len_bytesp) {
    *len_bytesp = sizeof(page);
    return (const char *)page;
}

/* Hashes what stands between the first <name> and its end, every byte of it, as browsers do. */
static int hash_of(const char *html, size_t len_bytes, const char *name, char hash[HASH_BYTES]) {
    char open[16], close[16];
    uint8_t digest[SHA256_DIGEST_SIZE];
    struct sha256_ctx ctx;
    const char *text, *end;

    snprintf(open, sizeof(open), "<%s>", name);
    snprintf(close, sizeof(close), "</%s>", name);
    text = memmem(html, len_bytes, open, strlen(open));
    if (!text)
        return -EINVAL;
    text += strlen(open);
    end = memmem(text, len_bytes - (size_t)(text - html), close, strlen(close));
    if (!end)
        return -EINVAL;
    sha256_init(&ctx);
    sha256_update(&ctx, (size_t)(end - text), (const uint8_t *)text);
    sha256_digest(&ctx, sizeof(digest), digest);
    base64_encode_raw(hash, sizeof(digest), digest);
    hash[HASH_BYTES - 1] = '\0';
    return 0;
}

int page_policy(const char *html, size_t len_bytes, char policy[PAGE_POLICY_BYTES]) {
    char style[HASH_BYTES], script[HASH_BYTES];
    int n;

    if (hash_of(html, len_bytes, "style", style) || hash_of(html, len_bytes, "script", script))
        return err_raise(-EINVAL);
    /* Trusted types keep even the page's own script from turning a text into markup. */
    n = snprintf(policy, PAGE_POLICY_BYTES,
                 "default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; img-src data:; "
                 "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                 "require-trusted-types-for 'script'; trusted-types 'none'",
                 script, style);
    return n < PAGE_POLICY_BYTES ? 0 : err_raise(-EINVAL);
}

/* Whether a header If-None-Match names the tag: a list of tags, weak ones too, or "*". */
static bool matches(const char *header, const char *etag) {
    return header && (!strcmp(header, "*") || strstr(header, etag));
}

void endpoint_page(Gateway *gateway, Exchange *exchange) {
    char etag[PAGE_ETAG_BYTES], hex[SHA256_HEX_BYTES], policy[PAGE_POLICY_BYTES];
    ApiError error;

    if (page_policy((const char *)page, sizeof(page), policy)) {
        api_error_set(&error, 500, "server_error", NULL, "the gateway was built with a damaged page");
        exchange_refuse(exchange, &error);
        return;
    }
    sha256_hex(page, sizeof(page), hex);
    snprintf(etag, sizeof(etag), "\"%s\"", hex);
    exchange_set_header(exchange, "ETag", etag);
    exchange_set_header(exchange, "Cache-Control", "no-cache");
    exchange_set_header(exchange, "Content-Security-Policy", policy);
    exchange_set_header(exchange, "X-Content-Type-Options", "nosniff");
    exchange_set_header(exchange, "Referrer-Policy", "no-referrer");
    exchange_set_header(exchange, "Cross-Origin-Opener-Policy", "same-origin");
    exchange_set_header(exchange, "Cross-Origin-Resource-Policy", "same-origin");
    if (matches(exchange_header(exchange, "If-None-Match"), etag))
        exchange_reply(exchange, 304, "text/html; charset=utf-8", "", 0);
    else
        exchange_reply(exchange, 200, "text/html; charset=utf-8", page, sizeof(page));
}
