// SPDX-License-Identifier: Apache-2.0
/* Tokens in JSON. */
#ifndef COORDGEN_GATEWAY_TOKEN_JSON_H
#define COORDGEN_GATEWAY_TOKEN_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "client/coordgen-client.h"
#include "gateway/json/api_error.h"

/* Reads an array of token ids. path: of the array, for errors. *tokensp: uint32_t[*n_tokensp], freed by free(), not
 * NULL. 0 or API_E_REFUSED. */
int token_ids_read(const json_t *list, const char *path, uint32_t **tokensp, size_t *n_tokensp, ApiError *error);
/* Returns a token's bytes: a string, or an array of numbers if they are no UTF-8. NULL: out of memory. */
json_t *token_piece_json(const char *piece, size_t len_bytes);
/* Returns the tokens of coordgen_tokenize(): ids, or with_pieces objects of id and piece. NULL: out of memory. */
json_t *token_list_json(const CoordgenReply *reply, bool with_pieces);

#endif
