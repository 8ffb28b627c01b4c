// SPDX-License-Identifier: Apache-2.0
/* Queries of endpoints that take a body, for tests of what they read. */
#ifndef COORDGEN_GATEWAY_ENDPOINT_QUERIES_H
#define COORDGEN_GATEWAY_ENDPOINT_QUERIES_H

#include "gateway/service/query.h"

extern const QueryOps tokenize_query, detokenize_query;         /* tokens.c */
extern const QueryOps embeddings_query, plain_embeddings_query; /* embeddings.c */
extern const QueryOps apply_template_query, chat_tokens_query;  /* chat_tokens.c */

#endif
