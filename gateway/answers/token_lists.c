// SPDX-License-Identifier: Apache-2.0
#include "gateway/answers/token_lists.h"

#include <stdlib.h>

void token_lists_free(void *arg) {
    TokenLists *lists = arg;

    if (!lists)
        return;
    json_decref(lists->ids);
    json_decref(lists->logprobs);
    free(lists);
}

TokenLists *token_lists_new(size_t n_choices) {
    TokenLists *lists = calloc(1, sizeof(*lists));
    int r = 0;

    if (!lists)
        return NULL;
    lists->n_choices = n_choices;
    lists->ids = json_array();
    lists->logprobs = json_array();
    for (size_t i = 0; !r && i < n_choices; i++)
        r = json_array_append_new(lists->ids, json_array()) || json_array_append_new(lists->logprobs, json_array());
    if (!r)
        return lists;
    token_lists_free(lists);
    return NULL;
}

json_t *token_lists_ids(const TokenLists *lists, size_t choice) {
    return json_array_get(lists->ids, choice);
}

json_t *token_lists_logprobs(const TokenLists *lists, size_t choice) {
    return json_array_get(lists->logprobs, choice);
}

void token_lists_add(TokenLists *lists, size_t choice, const CoordgenEvent *event, TokenListsMakeFn *make) {
    for (size_t i = 0; i < event->n_tokens; i++)
        json_array_append_new(token_lists_ids(lists, choice), json_integer(event->tokens[i]));
    for (size_t i = 0; i < event->n_logprobs; i++)
        json_array_append_new(token_lists_logprobs(lists, choice), make(&event->logprobs[i]));
}
