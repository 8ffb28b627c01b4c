// SPDX-License-Identifier: Apache-2.0
/* Tokens that clients show, from a file that nobody else can read: one a line. Kept and compared as SHA-256, in a time
 * that does not depend on the token. Thread: one. */
#ifndef COORDGEN_GATEWAY_TOKEN_SET_H
#define COORDGEN_GATEWAY_TOKEN_SET_H

#include <stdbool.h>

#include "base/cleanup.h"
#include "base/err.h"

enum {
    TOKEN_E_FILE = 1, /* what the file is, who can read it, or what stands in it */
};

typedef struct TokenSet TokenSet;

/* Reads the file. 0, TOKEN_E_FILE or -errno, with a text. */
int token_set_read(TokenSet **setp, const char *path, ErrText *err);
TokenSet *token_set_free(TokenSet *set); /* NULL is fine; returns NULL */
DEFINE_CLEANUP(TokenSet, token_set_free)
bool token_set_has(const TokenSet *set, const char *token);

#endif
