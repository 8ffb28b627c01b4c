// SPDX-License-Identifier: Apache-2.0
/* Who may ask the gateway anything: the host that a client means, the web page that a request comes from, and the token
 * of the client. Thread: the loop. */
#ifndef COORDGEN_GATEWAY_ACCESS_H
#define COORDGEN_GATEWAY_ACCESS_H

#include "gateway/access/token_set.h"
#include "gateway/http/exchange.h"

enum {
    ACCESS_TEXTS_MAX = 16,
};

typedef struct AccessTexts {
    const char *texts[ACCESS_TEXTS_MAX];
    size_t n;
} AccessTexts;

typedef struct Access {
    AccessTexts hosts;   /* names in Host headers, beside localhost, 127.0.0.1 and [::1] */
    AccessTexts origins; /* of web pages from elsewhere; "*": all */
    TokenSet *tokens;    /* NULL: none is asked for */
} Access;

/* Checks a request, and sets the headers of its reply that browsers want. is_public: no token is asked for. 0 or
 * API_E_REFUSED. */
int access_check(const Access *access, Exchange *exchange, bool is_public, ApiError *error);
/* Answers an OPTIONS request that access_check() has let through. methods: "GET, POST". */
void access_preflight(Exchange *exchange, const char *methods);

#endif
