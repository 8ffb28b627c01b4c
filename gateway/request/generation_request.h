// SPDX-License-Identifier: Apache-2.0
/* A generation that a body asks for: options for the service, with everything that they point to, and what the answer
 * shall have. gateway/request/generation_fields reads it from a body. */
#ifndef COORDGEN_GATEWAY_GENERATION_REQUEST_H
#define COORDGEN_GATEWAY_GENERATION_REQUEST_H

#include "base/cleanup.h"
#include "gateway/request/generation_names.h"
#include "gateway/request/messages.h"
#include "gateway/request/token_texts.h"
#include "gateway/json/field.h"

enum {
    GENERATION_PING_S = 15, /* silence before a comment keeps a stream alive */
};

/* What the answer has beside the text. */
typedef struct AnswerWishes {
    bool is_stream;
    bool with_usage;    /* stream_options.include_usage */
    bool with_progress; /* return_progress */
    bool with_timings;  /* timings_per_token */
    bool with_tokens;   /* return_tokens */
    uint32_t ping_s;    /* seconds between comments while nothing else comes; 0: none */
} AnswerWishes;

/* Fields that have their meaning together with others; NULL: absent. They live in the body. */
typedef struct GenerationJson {
    const json_t *messages, *tools, *tool_choice, *response_format, *json_schema, *template_kwargs;
    const char *grammar, *regex, *reasoning_effort, *reasoning_format;
    bool no_parallel_calls, with_logprobs;
    bool has_continue, does_continue;  /* continue_final_message */
    bool has_beginning, has_no_answer; /* add_generation_prompt: true, false */
    uint32_t top_logprobs, n_probs;    /* UINT32_MAX: absent */
    int32_t repeat_last_n, dry_last_n; /* INT32_MIN: absent */
} GenerationJson;

/* A bias of every token of a text. */
typedef struct BiasText {
    const TokenText *text;
    float bias;
} BiasText;

typedef struct GenerationRequest {
    CoordgenGenerateOptions options; /* more_sampling is the one below */
    CoordgenSamplingOptions sampling;
    AnswerWishes wishes;
    GenerationNames names;
    GenerationJson json;
    MessageList messages;
    TokenTexts texts; /* that must be known before the generation starts */
    BiasText *bias_texts;
    size_t n_bias_texts;
    Owned owned;
    json_t *body;
} GenerationRequest;

/* Makes a request without any option, and takes the body over (NULL: there is none). An endpoint with more fields has
 * a structure of its own, struct_bytes long, that begins with a GenerationRequest; the rest of it is zero. NULL: out
 * of memory. */
GenerationRequest *generation_request_new(size_t struct_bytes, json_t *body);
GenerationRequest *generation_request_free(GenerationRequest *request);
DEFINE_CLEANUP(GenerationRequest, generation_request_free)

#endif
