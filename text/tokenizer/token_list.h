// SPDX-License-Identifier: Apache-2.0
/* Lists of token ids. */
#ifndef COORDGEN_TEXT_TOKEN_LIST_H
#define COORDGEN_TEXT_TOKEN_LIST_H

#include <stddef.h>
#include <stdint.h>

#define TOKEN_NONE UINT32_MAX

/* Growing list of token ids; zero-initialised it is empty. */
typedef struct TokenList {
    uint32_t *ids;
    size_t n;
    size_t room;
} TokenList;

int token_list_add(TokenList *list, uint32_t id); /* 0 or -ENOMEM */
void token_list_deinit(TokenList *list);

#endif
