// SPDX-License-Identifier: Apache-2.0
/* Prompts of a body: a text, token ids, or several of these. */
#ifndef COORDGEN_GATEWAY_PROMPTS_H
#define COORDGEN_GATEWAY_PROMPTS_H

#include "client/coordgen-client.h"
#include "gateway/json/owned.h"

typedef struct Prompt {
    const char *text; /* NULL: token ids */
    const uint32_t *tokens;
    size_t n_tokens;
} Prompt;

typedef struct PromptList {
    Prompt *list;
    size_t n;
    bool is_array; /* the body has an array of prompts, perhaps of one */
} PromptList;

/* Reads a prompt (a string or an array of token ids) or an array of at most n_max prompts, each of which is not empty.
 * The list and its ids belong to owned, texts to the value. path: its own, "prompt". 0 or API_E_REFUSED. */
int prompts_read(PromptList *prompts, Owned *owned, const json_t *value, size_t n_max, const char *path,
                 ApiError *error);
/* Makes a prompt the input of a generation. */
void prompt_set(const Prompt *prompt, CoordgenGenerateOptions *options);

#endif
