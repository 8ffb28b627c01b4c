// SPDX-License-Identifier: Apache-2.0
/* The page of the gateway: a chat for browsers, one HTML file within the program. Thread: the loop. */
#ifndef COORDGEN_GATEWAY_PAGE_H
#define COORDGEN_GATEWAY_PAGE_H

#include <stddef.h>

enum {
    PAGE_ETAG_BYTES = 2 + 64 + 1, /* SHA-256 in hex digits, quotation marks and a NUL included */
    PAGE_POLICY_BYTES = 512,      /* Content-Security-Policy */
};

/* Writes the policy that lets a browser run nothing but the style and the script of the page, by their SHA-256. 0 or
 * -EINVAL if the page lacks one of the two, or a policy is longer than the buffer. */
int page_policy(const char *html, size_t len_bytes, char policy[PAGE_POLICY_BYTES]);
/* Returns the bytes of the page. */
const char *page_html(size_t *len_bytesp);

#endif
