// SPDX-License-Identifier: Apache-2.0
/* Prompts of a body: a text, token ids, or several of these. */
#ifndef COORDGEN_GATEWAY_PROMPTS_H
#define COORDGEN_GATEWAY_PROMPTS_H

#include "gateway/request/generation_request.h"

/* A piece of a prompt that mixes ids and texts. */
typedef struct PromptPiece {
    const TokenText *text; /* NULL: one id */
    uint32_t id;
} PromptPiece;

typedef struct Prompt {
    const char *text; /* NULL: token ids */
    const uint32_t *tokens;
    size_t n_tokens;
    const PromptPiece *pieces; /* [n_pieces] that become the ids above */
    size_t n_pieces;
} Prompt;

typedef struct PromptList {
    Prompt *list;
    size_t n;
    bool is_array; /* the body has an array of prompts, perhaps of one */
} PromptList;

/* Reads a prompt (a string, or an array of token ids and strings) or an array of at most n_max prompts, each of which
 * is not empty. An array of strings alone has prompts. The list belongs to the request, texts to the value. path: its
 * own, "prompt". 0 or API_E_REFUSED. */
int prompts_read(PromptList *prompts, GenerationRequest *request, const json_t *value, size_t n_max, const char *path,
                 ApiError *error);
/* Makes token ids of prompts that mix ids and texts, once the ids of the request's texts are known. 0 or
 * API_E_REFUSED. */
int prompts_join(PromptList *prompts, GenerationRequest *request, ApiError *error);
/* Makes a prompt the input of a generation. */
void prompt_set(const Prompt *prompt, CoordgenGenerateOptions *options);

#endif
