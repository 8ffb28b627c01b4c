// SPDX-License-Identifier: Apache-2.0
/* Requests for the vectors of texts, and what their replies hold. */
#include "client/client_reply_internal.h"

/* The lists of token ids of a request, as its message has them. */
typedef struct TokenLists {
    Coordgen__V1__TokenIds *lists;
    Coordgen__V1__TokenIds **pointers;
} TokenLists;

static void token_lists_deinit(TokenLists *room) {
    free(room->lists);
    free(room->pointers);
}

static int texts_fill(CoordgenClient *client, Coordgen__V1__EmbedRequest *embed, const CoordgenEmbedOptions *options) {
    if (options->n_texts && !options->texts)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "embed.text", 0, "%zu texts are given, which are NULL",
                           options->n_texts);
    for (size_t i = 0; i < options->n_texts; i++)
        if (!options->texts[i])
            return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "embed.text", 0, "text %zu is NULL", i);
    embed->n_text = options->n_texts;
    embed->text = (char **)(uintptr_t)options->texts;
    return 0;
}

static int tokens_fill(CoordgenClient *client, Coordgen__V1__EmbedRequest *embed, TokenLists *room,
                       const CoordgenEmbedOptions *options) {
    const size_t n = options->n_texts;

    if (options->texts)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "embed.tokens", 0,
                           "texts and token ids are given: one of them");
    if (!options->n_tokens)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "embed.tokens", 0, "n_tokens is NULL");
    room->lists = calloc(n + 1, sizeof(*room->lists));
    room->pointers = calloc(n + 1, sizeof(*room->pointers));
    if (!room->lists || !room->pointers)
        return client_fail(client, COORDGEN_E_NO_MEMORY, "", 0, "out of memory for %zu texts", n);
    for (size_t i = 0; i < n; i++) {
        if (options->n_tokens[i] && !options->tokens[i])
            return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "embed.tokens", 0, "the token ids %zu are NULL", i);
        room->lists[i] = (Coordgen__V1__TokenIds)COORDGEN__V1__TOKEN_IDS__INIT;
        room->lists[i].n_id = options->n_tokens[i];
        room->lists[i].id = (uint32_t *)(uintptr_t)options->tokens[i];
        room->pointers[i] = &room->lists[i];
    }
    embed->n_tokens = n;
    embed->tokens = room->pointers;
    return 0;
}

int coordgen_embed_start(CoordgenClient *client, const CoordgenEmbedOptions *given, CoordgenEventFn *fn, void *arg,
                         uint64_t *request_idp) {
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;
    Coordgen__V1__EmbedRequest embed = COORDGEN__V1__EMBED_REQUEST__INIT;
    _cleanup_(token_lists_deinit) TokenLists room = { 0 };
    CoordgenEmbedOptions options;
    int r;

    coordgen_embed_options_init(&options);
    r = client_options_copy(client, &options, sizeof(options), given, offsetof(CoordgenEmbedOptions, tokens));
    if (!r)
        r = options.tokens ? tokens_fill(client, &embed, &room, &options) : texts_fill(client, &embed, &options);
    if (r)
        return r;
    embed.model = client_text(options.model);
    embed.has_pooling = options.pooling != COORDGEN_POOLING_DEFAULT;
    embed.pooling = (Coordgen__V1__Pooling)options.pooling;
    embed.has_raw = embed.raw = options.raw;
    embed.has_priority = options.priority != 0;
    embed.priority = (Coordgen__V1__Priority)options.priority;
    message.op_case = COORDGEN__V1__REQUEST__OP_EMBED;
    message.embed = &embed;
    return client_start(client, REQUEST_EMBED, &message, options.timeout_ms, fn, arg, request_idp);
}

static const Coordgen__V1__Embedding *embedding_at(const CoordgenReply *reply, size_t index) {
    return index < coordgen_reply_n_embeddings(reply) ? reply->response->embed->embeddings[index] : NULL;
}

size_t coordgen_reply_n_embeddings(const CoordgenReply *reply) {
    return client_reply_holds(reply, COORDGEN__V1__RESPONSE__OP_EMBED) ? reply->response->embed->n_embeddings : 0;
}

const float *coordgen_reply_embedding(const CoordgenReply *reply, size_t index, size_t *n_valuesp) {
    const Coordgen__V1__Embedding *embedding = embedding_at(reply, index);

    if (n_valuesp)
        *n_valuesp = embedding ? embedding->n_value : 0;
    return embedding ? embedding->value : NULL;
}

uint32_t coordgen_reply_embedding_tokens(const CoordgenReply *reply, size_t index) {
    const Coordgen__V1__Embedding *embedding = embedding_at(reply, index);

    return embedding ? embedding->tokens : 0;
}

const char *coordgen_reply_embedding_model(const CoordgenReply *reply) {
    return client_reply_holds(reply, COORDGEN__V1__RESPONSE__OP_EMBED) ? client_or_empty(reply->response->embed->model)
                                                                       : "";
}

int coordgen_reply_pooling(const CoordgenReply *reply) {
    return client_reply_holds(reply, COORDGEN__V1__RESPONSE__OP_EMBED) ? (int)reply->response->embed->pooling : 0;
}

const char *coordgen_pooling_name(int pooling) {
    static const char *const names[] = {
        [COORDGEN_POOLING_DEFAULT] = "unknown",
        [COORDGEN_POOLING_MEAN] = "mean",
        [COORDGEN_POOLING_LAST] = "last",
        [COORDGEN_POOLING_CLS] = "cls",
    };

    return pooling >= 0 && (size_t)pooling < ARRAY_LEN(names) ? names[pooling] : "unknown";
}
