// SPDX-License-Identifier: Apache-2.0
/* libcoordgen-client: talk to coordgend, the service that owns the language models of a device.
 *
 * Installed as <coordgen-client.h>; link with `pkg-config --cflags --libs libcoordgen-client`.
 *
 *   CoordgenClient *client = NULL;
 *   CoordgenReply *reply = NULL;
 *   CoordgenGenerateOptions options;
 *
 *   coordgen_generate_options_init(&options);
 *   options.prompt = "...";
 *   if (coordgen_client_new(&client) || coordgen_client_connect(client, NULL, 5000) ||
 *       coordgen_generate(client, &options, on_event, NULL, &reply))
 *       fprintf(stderr, "%s\n", coordgen_client_message(client));
 *   coordgen_reply_unref(reply);
 *   coordgen_client_free(client);
 *
 * Rules
 * - Functions that can fail return 0 or a CoordgenError. coordgen_client_message() has the text of the last failure.
 * - A client is one connection. It belongs to one thread at a time, with one exception: coordgen_cancel() may be called
 *   from any thread (not from a signal handler) as long as the client is not freed meanwhile.
 * - Two ways to use it, and they mix: the calls that wait (coordgen_generate(), ...), and coordgen_*_start() with
 *   coordgen_client_fd() and coordgen_client_dispatch() in an event loop. Any number of requests may be in flight.
 *   Calls that wait may not be made from inside a callback; _start() and coordgen_cancel() may.
 * - Nothing is printed, no signal is raised or handled, no state is global; descriptors are close-on-exec. After fork()
 *   the child may only call coordgen_client_free(), which sends nothing.
 * - Text is UTF-8. Texts that a model wrote are not NUL-free: use the length.
 * - NULL where something is needed is an error, COORDGEN_E_INVALID_ARGUMENT, not a crash; functions without a code give
 *   what there is of nothing (0, NULL, "", and of a client that could not be made COORDGEN_E_NO_MEMORY).
 * - Structures that the library fills in may grow at the end in later versions: never copy them by assignment into
 *   storage that outlives a change of the library, never make arrays of them. struct_bytes comes first in each of them:
 *   a program that may run with an older library than it was built with asks COORDGEN_HAS() for a field that is newer.
 *   CoordgenMessage alone, of which programs make arrays, never changes.
 */
#ifndef COORDGEN_CLIENT_H
#define COORDGEN_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define COORDGEN_PUBLIC __attribute__((visibility("default")))
#else
#define COORDGEN_PUBLIC
#endif

/* The kinds of errors: 1..99 come from the service, 100 and above from the library. A newer service may send other
 * numbers: treat them as COORDGEN_E_INTERNAL. */
typedef enum CoordgenError {
    COORDGEN_OK = 0,
    COORDGEN_E_PROTOCOL = 1,         /* the service did not understand the client: versions do not fit */
    COORDGEN_E_VERSION = 2,          /* no common protocol version */
    COORDGEN_E_INVALID_ARGUMENT = 3, /* coordgen_reply_field() names the argument */
    COORDGEN_E_UNKNOWN_OPTION = 4,   /* an option that the service does not know */
    COORDGEN_E_BUSY = 5,             /* try again after coordgen_reply_retry_after_ms() */
    COORDGEN_E_QUOTA_EXCEEDED = 6,
    COORDGEN_E_CONTEXT_FULL = 7, /* the prompt does not fit the model's context */
    COORDGEN_E_MODEL_NOT_FOUND = 8,
    COORDGEN_E_MODEL_NOT_READY = 9,
    COORDGEN_E_MODEL_CORRUPT = 10,
    COORDGEN_E_MODEL_IN_USE = 11,
    COORDGEN_E_CANCELLED = 12,
    COORDGEN_E_DENIED = 13, /* for administrators only */
    COORDGEN_E_SHUTTING_DOWN = 14,
    COORDGEN_E_NOT_FOUND = 15,
    COORDGEN_E_INTERNAL = 16,
    COORDGEN_E_NO_TEMPLATE = 17,    /* the model has no chat template: send a raw prompt */
    COORDGEN_E_VOCAB_MISMATCH = 18, /* two models whose tokens differ: neither can draft for the other */
    COORDGEN_E_INVALID_SCHEMA = 19, /* a schema, grammar or pattern that is malformed or cannot be enforced */
    COORDGEN_E_SCHEMA_TOO_COMPLEX = 20,

    COORDGEN_E_UNREACHABLE = 100, /* no service at the socket */
    COORDGEN_E_TIMEOUT = 101,     /* the caller's time is over; the request was cancelled */
    COORDGEN_E_DISCONNECTED = 102,
    COORDGEN_E_BAD_REPLY = 103, /* the service broke the protocol; the connection is closed */
    COORDGEN_E_NO_MEMORY = 104,
    COORDGEN_E_TOO_LARGE = 105,   /* the request does not fit into a frame */
    COORDGEN_E_WRONG_STATE = 106, /* a call that is not allowed now: not connected, in a callback, after fork() */
} CoordgenError;

/* "busy", "model-not-found", ...: stable names for scripts and logs. */
COORDGEN_PUBLIC const char *coordgen_error_name(int code);
/* Returns the version of the library: "0.1.0". */
COORDGEN_PUBLIC const char *coordgen_client_version(void);

/* Whether the library that filled *object in knows the field: COORDGEN_HAS(result, incomplete_bytes). */
#define COORDGEN_HAS(object, field)                                                                                    \
    ((object)->struct_bytes >= (size_t)((const char *)(&(object)->field + 1) - (const char *)(object)))

typedef struct CoordgenClient CoordgenClient;
typedef struct CoordgenReply CoordgenReply;

/* ---- connection -------------------------------------------------------------------------------------------------- */

COORDGEN_PUBLIC int coordgen_client_new(CoordgenClient **clientp);
/* Closes the connection, which ends its requests in the service; their callbacks are not called. NULL is fine. */
COORDGEN_PUBLIC CoordgenClient *coordgen_client_free(CoordgenClient *client);

/* Sets the name that administrators see, at most 64 bytes, before connecting. Default: the program's name. */
COORDGEN_PUBLIC int coordgen_client_set_name(CoordgenClient *client, const char *name);

/* Connects and greets. socket_path NULL: $COORDGEN_SOCKET, else $XDG_RUNTIME_DIR/coordgen/api.sock if the user's own
 * service listens there, else /run/coordgen/api.sock. timeout_ms < 0: no limit. The client may connect again after a
 * failure, and after the end of a connection. */
COORDGEN_PUBLIC int coordgen_client_connect(CoordgenClient *client, const char *socket_path, int timeout_ms);
/* Connects without waiting for the service's greeting; requests may be started at once. */
COORDGEN_PUBLIC int coordgen_client_connect_start(CoordgenClient *client, const char *socket_path);
/* Uses a connected stream socket, which the library owns from here on, even if this call fails. */
COORDGEN_PUBLIC int coordgen_client_connect_fd(CoordgenClient *client, int fd, int timeout_ms);

COORDGEN_PUBLIC const char *coordgen_client_socket_path(const CoordgenClient *client);     /* "" before connecting */
COORDGEN_PUBLIC const char *coordgen_client_service_version(const CoordgenClient *client); /* "" before the greeting */

/* Describe the last call on this client that failed. A NULL client: COORDGEN_E_NO_MEMORY and its text. */
COORDGEN_PUBLIC int coordgen_client_error(const CoordgenClient *client);
COORDGEN_PUBLIC const char *coordgen_client_message(const CoordgenClient *client);
COORDGEN_PUBLIC const char *coordgen_client_field(const CoordgenClient *client); /* "" if no field is at fault */
COORDGEN_PUBLIC uint32_t coordgen_client_retry_after_ms(const CoordgenClient *client);

/* ---- event loop -------------------------------------------------------------------------------------------------- */

/* A descriptor for poll(), epoll, libevent, GLib and others: call coordgen_client_dispatch() when the events of
 * coordgen_client_events() (always POLLIN) come, or when coordgen_client_timeout_ms() (-1: none) has passed. The
 * descriptor stays the same from the first connection to coordgen_client_free(). The timeout changes: ask for it
 * before each wait. */
COORDGEN_PUBLIC int coordgen_client_fd(const CoordgenClient *client);
COORDGEN_PUBLIC short coordgen_client_events(const CoordgenClient *client);
COORDGEN_PUBLIC int coordgen_client_timeout_ms(CoordgenClient *client);
/* Reads what has arrived and calls the callbacks; never waits. An error means that the connection is over, and that
 * every request has had its COORDGEN_EVENT_END. */
COORDGEN_PUBLIC int coordgen_client_dispatch(CoordgenClient *client);
COORDGEN_PUBLIC size_t coordgen_client_n_in_flight(const CoordgenClient *client);

typedef struct CoordgenCallDelta CoordgenCallDelta;
typedef struct CoordgenTokenLogprobs CoordgenTokenLogprobs;

/* What a piece of an answer is. */
typedef enum CoordgenPart {
    COORDGEN_PART_TEXT = 1,
    COORDGEN_PART_REASONING = 2, /* the thinking, without its marks */
    COORDGEN_PART_CALL = 3,      /* a piece of a tool call: CoordgenEvent.call */
} CoordgenPart;

typedef enum CoordgenEventKind {
    COORDGEN_EVENT_PROGRESS = 1, /* generate: position in the queue, prompt; load: share of the work */
    COORDGEN_EVENT_DELTA = 2,    /* generate: more text */
    COORDGEN_EVENT_END = 3,      /* the last one of a request: reply is set */
} CoordgenEventKind;

typedef struct CoordgenEvent {
    size_t struct_bytes;
    CoordgenEventKind kind;
    uint64_t request_id;
    /* DELTA */
    const char *text; /* complete UTF-8 sequences, perhaps none; an uncounted NUL follows */
    size_t text_bytes;
    const uint32_t *tokens; /* if want_tokens is set */
    size_t n_tokens;
    /* PROGRESS */
    uint32_t queue_position; /* 1: the next; 0: running */
    uint32_t prefilled_tokens;
    uint32_t prompt_tokens;
    int model_state; /* a CoordgenModelState while a model loads */
    uint32_t permille;
    /* END */
    CoordgenReply *reply; /* owned by the library; coordgen_reply_ref() keeps it */
    const char *model;    /* the generation's: in its first DELTA, and in PROGRESS unless it waits for a place */
    /* DELTA */
    CoordgenPart part;
    uint32_t choice;                       /* which of n answers; from 0 */
    const CoordgenCallDelta *call;         /* part CALL; else NULL */
    const CoordgenTokenLogprobs *logprobs; /* [n_logprobs]; of each token, if logprobs is set */
    size_t n_logprobs;
    uint32_t cached_tokens; /* PROGRESS: part of prefilled_tokens that was cached */
} CoordgenEvent;

/* Handles an event, whose pointers are valid during the call. Returns 0, or another value to cancel the request. */
typedef int CoordgenEventFn(void *arg, const CoordgenEvent *event);

/* Asks the service to end a request, or all requests in flight (request_id 0). Each still ends with its own END event;
 * the reply of a generation has COORDGEN_END_CANCELLED. A request that is over is no error. Thread: any. */
COORDGEN_PUBLIC int coordgen_cancel(CoordgenClient *client, uint64_t request_id);

/* ---- requests ---------------------------------------------------------------------------------------------------- */

typedef enum CoordgenRole {
    COORDGEN_ROLE_SYSTEM = 1,
    COORDGEN_ROLE_USER = 2,
    COORDGEN_ROLE_ASSISTANT = 3,
    COORDGEN_ROLE_TOOL = 4, /* the answer of a tool */
} CoordgenRole;

/* A call of a tool by the model. */
typedef struct CoordgenToolCall {
    const char *id; /* may be NULL in a message */
    const char *name;
    const char *arguments; /* JSON: an object */
} CoordgenToolCall;

typedef struct CoordgenMessage {
    CoordgenRole role;
    const char *text;                   /* NULL: none, in an assistant's message with calls */
    const CoordgenToolCall *tool_calls; /* assistant: the calls of this turn */
    size_t n_tool_calls;
    const char *tool_call_id; /* tool: the call that it answers; may be NULL */
    const char *name;         /* the tool or the participant; may be NULL */
    const char *reasoning;    /* assistant: the thinking of this turn, for templates that show it; may be NULL */
} CoordgenMessage;

/* A piece of a tool call. */
struct CoordgenCallDelta {
    uint32_t index;        /* which call of the answer; from 0 */
    const char *id;        /* with the name; else NULL */
    const char *name;      /* first piece of a call; else NULL */
    const char *arguments; /* the next bytes of a JSON object */
    size_t arguments_bytes;
};

typedef struct CoordgenLogprob {
    uint32_t token;
    float logprob; /* natural logarithm, of the model's own distribution at temperature 1 */
    const char *piece;
    size_t piece_bytes;
} CoordgenLogprob;

struct CoordgenTokenLogprobs {
    CoordgenLogprob chosen;
    const CoordgenLogprob *top; /* the most probable tokens, best first */
    size_t n_top;
};

typedef enum CoordgenConstraintKind {
    COORDGEN_CONSTRAINT_NONE = 0,
    COORDGEN_CONSTRAINT_JSON_SCHEMA = 1, /* share/doc/coordgen/json-schema.md; "{}": any JSON */
    COORDGEN_CONSTRAINT_GBNF = 2,        /* a grammar as llama.cpp writes it, from its rule "root" */
    COORDGEN_CONSTRAINT_REGEX = 3,       /* a regular expression, which the whole answer matches */
} CoordgenConstraintKind;

typedef enum CoordgenToolChoice {
    COORDGEN_TOOLS_DEFAULT = 0,  /* auto, if there are tools */
    COORDGEN_TOOLS_NONE = 1,     /* no calls: what looks like one is text */
    COORDGEN_TOOLS_AUTO = 2,     /* the model chooses */
    COORDGEN_TOOLS_REQUIRED = 3, /* at least one call */
    COORDGEN_TOOLS_NAMED = 4,    /* one call of the tool tool_name */
} CoordgenToolChoice;

typedef enum CoordgenSplit {
    COORDGEN_SPLIT_DEFAULT = 0, /* with messages, not with a prompt */
    COORDGEN_SPLIT_ON = 1,      /* thinking and calls come as parts of their own */
    COORDGEN_SPLIT_OFF = 2,     /* everything is text */
} CoordgenSplit;

typedef struct CoordgenLogitBias {
    uint32_t token;
    float bias; /* -1000..1000, or -INFINITY: the token is never given */
} CoordgenLogitBias;

typedef enum CoordgenPriority {
    COORDGEN_PRIORITY_DEFAULT = 0,     /* normal */
    COORDGEN_PRIORITY_INTERACTIVE = 1, /* a user waits for the first word */
    COORDGEN_PRIORITY_NORMAL = 2,
    COORDGEN_PRIORITY_BACKGROUND = 3, /* gets the time that others leave, and always a share */
} CoordgenPriority;

/* "interactive", "normal", "background". */
COORDGEN_PUBLIC const char *coordgen_priority_name(int priority);

/* Stand for sampling options that are not set: the model's value counts, or the service's if the model has none or
 * temperature is 0. */
#define COORDGEN_UNSET (-1.0f)
#define COORDGEN_UNSET_COUNT UINT32_MAX

typedef enum CoordgenRepetition {
    COORDGEN_REPETITION_DEFAULT = 0, /* end an answer to messages; continue with a raw prompt or ignore_end */
    COORDGEN_REPETITION_END = 1,     /* end an answer that repeats itself over and over: COORDGEN_END_REPETITION */
    COORDGEN_REPETITION_ALLOW = 2,
} CoordgenRepetition;

/* Further ways of sampling. Set by coordgen_sampling_options_init(). */
typedef struct CoordgenSamplingOptions {
    size_t struct_bytes;
    float presence_penalty;          /* 0: off; -10..10; taken from the logits of tokens of the answer */
    float frequency_penalty;         /* 0: off; -10..10; taken as often as a token stands in the answer */
    float typical_p;                 /* 1: off */
    float xtc_probability;           /* 0: off */
    float xtc_threshold;             /* 0.1 */
    float dry_multiplier;            /* 0: off */
    float dry_base;                  /* 1.75 */
    uint32_t dry_allowed_length;     /* tokens; 2 */
    uint32_t dry_window;             /* tokens; 0: all */
    const char *const *dry_breakers; /* texts that end a repetition; NULL: newline, colon, quotation mark, asterisk */
    size_t n_dry_breakers;           /* at most 16, of at most 32 bytes; 0 with dry_breakers: none */
    const CoordgenLogitBias *logit_bias; /* at most 1,024 */
    size_t n_logit_bias;
} CoordgenSamplingOptions;

/* Set by coordgen_generate_options_init(), then changed by the caller. The library keeps no pointer after the call. */
typedef struct CoordgenGenerateOptions {
    size_t struct_bytes; /* set by the init function; tells the library which fields the caller knows */
    int timeout_ms;      /* of the whole request; < 0: none (the default) */
    const char *model;   /* NULL: the default model */
    /* Either messages or prompt: */
    const CoordgenMessage *messages; /* rendered by the model's chat template */
    size_t n_messages;
    const char *prompt; /* raw text: no template, and no control tokens */

    uint32_t max_tokens; /* 0: as many as fit */
    const char *const
        *stops; /* up to 8 texts of up to 256 bytes, or names of control tokens; the output ends before them */
    size_t n_stops;
    /* The init function sets these to COORDGEN_UNSET or COORDGEN_UNSET_COUNT: */
    float temperature;          /* 0: greedy; up to 100 */
    uint32_t top_k;             /* 0: off */
    float top_p;                /* 1: off */
    float min_p;                /* 0: off */
    float repetition_penalty;   /* 1: off */
    uint32_t repetition_window; /* tokens; 0: all */
    bool has_seed;              /* false: the service draws a seed and tells it */
    bool want_tokens;           /* token ids in the events */
    bool ignore_end;            /* continue past end-of-generation tokens */
    uint64_t seed;
    CoordgenPriority priority;
    bool no_reuse;    /* compute the whole prompt, and cache nothing of it */
    uint64_t session; /* 0: none. Else messages or prompt go on with what the session holds, and model is NULL */
    /* Sources of drafts, which give several tokens a step: "auto", "off", or names separated by commas. NULL: the
     * service's setting. The text of an answer does not depend on drafts. */
    const char *speculation;
    bool explain;    /* the reply tells what drafts brought: coordgen_reply_explanation() */
    bool no_history; /* no drafts from the user's earlier answers, and do not store this answer */
    /* JSON for chat templates with tools or documents; needs messages; counts for this request alone. A field that the
     * template ignores is refused (COORDGEN_E_INVALID_ARGUMENT). */
    const char *tools;
    const char *documents;
    bool no_generation_prompt; /* the prompt ends after the last message, without the beginning of an answer */
    CoordgenRepetition repetition;
    const CoordgenSamplingOptions *more_sampling; /* NULL: none */
    CoordgenConstraintKind constraint_kind;
    const char *constraint; /* the schema, grammar or pattern */
    bool compact;           /* JSON schema: no white space */
    bool any_order;         /* JSON schema: properties in any order, not only in the schema's */
    bool no_end_in_time;    /* a constraint's answer may be cut off by max_tokens or the end of the context */
    bool single_call;       /* at most one call */
    CoordgenToolChoice tool_choice;
    CoordgenSplit split;
    const char *tool_name;         /* COORDGEN_TOOLS_NAMED */
    const char *template_kwargs;   /* JSON object: further variables of the chat template; needs messages */
    uint32_t thinking_tokens;      /* then the model must answer; 0: no thinking; COORDGEN_UNSET_COUNT: no limit */
    uint32_t logprobs;             /* of so many other tokens, at most 20; COORDGEN_UNSET_COUNT: none at all */
    uint32_t n;                    /* answers, at most 16; answer i has the seed + i; 0: one, without choices */
    const uint32_t *prompt_tokens; /* instead of messages and prompt: as they are, without BOS */
    size_t n_prompt_tokens;
    const char *suffix;        /* the text behind the answer (fill in the middle); needs a prompt */
    const char *answer_prefix; /* the beginning of the answer, which the model continues; needs messages */
    bool echo;                 /* the answer begins with the prompt's text; needs a prompt */
    bool each_progress;        /* PROGRESS at the prompt's begin and end, and behind each step of it */
} CoordgenGenerateOptions;

/* A session keeps a conversation in the service, with the work that was done for it, so that each request sends only
 * new text. A request's question and answer join the session if its END event comes without an error and with some
 * text, even after a cancel; otherwise the session stays as it was. Answers are the same as for the whole conversation
 * in one request. A session belongs to the connection that opened it, and ends with it. */
typedef struct CoordgenSessionOptions {
    size_t struct_bytes;
    int timeout_ms;
    const char *model; /* NULL: the default model */
    /* The beginning of the conversation: messages, prompt or neither. */
    const CoordgenMessage *messages;
    size_t n_messages;
    const char *prompt; /* raw text: prompts and answers of the session make one text */
} CoordgenSessionOptions;

#define COORDGEN_ALL_MESSAGES UINT32_MAX

typedef struct CoordgenTokenizeOptions {
    size_t struct_bytes;
    int timeout_ms;
    const char *model;
    const char *text; /* text, or messages below, which the chat template renders */
    const CoordgenMessage *messages;
    size_t n_messages;
    bool add_special;   /* text: add BOS / EOS as the model asks */
    bool parse_special; /* text: control tokens by name */
    bool count_only;    /* the reply has the count only, without ids and pieces, which may be too many for it */
    const char *tools;  /* JSON, as in CoordgenGenerateOptions; needs messages */
    const char *documents;
    bool no_generation_prompt; /* as in CoordgenGenerateOptions */
    bool render_only;          /* messages: the reply has the rendered text instead of tokens: coordgen_reply_text() */
    const char *template_kwargs; /* as in CoordgenGenerateOptions */
    const char *answer_prefix;   /* as in CoordgenGenerateOptions */
    uint32_t thinking_tokens;    /* as in CoordgenGenerateOptions */
} CoordgenTokenizeOptions;

typedef struct CoordgenDetokenizeOptions {
    size_t struct_bytes;
    int timeout_ms;
    const char *model;
    const uint32_t *tokens;
    size_t n_tokens;
    bool with_special; /* print control tokens too */
} CoordgenDetokenizeOptions;

typedef enum CoordgenPooling {
    COORDGEN_POOLING_DEFAULT = 0, /* the model's; the mean if it has none */
    COORDGEN_POOLING_MEAN = 1,
    COORDGEN_POOLING_LAST = 2,
    COORDGEN_POOLING_CLS = 3, /* the first token */
} CoordgenPooling;

typedef struct CoordgenEmbedOptions {
    size_t struct_bytes;
    int timeout_ms;
    const char *model;
    const char *const *texts; /* [n_texts]: 1 to 256 */
    size_t n_texts;
    CoordgenPooling pooling;
    CoordgenPriority priority;
    bool raw; /* false: vectors of length 1 */
    /* Instead of texts: token ids of each text, [n_texts] lists, as they are, without BOS. */
    const uint32_t *const *tokens;
    const size_t *n_tokens; /* [n_texts]: ids of each list */
} CoordgenEmbedOptions;

/* Selects a part of the draft database, which stores answers of finished generations. share/doc/coordgen/privacy.md
 * tells what is stored, and for how long. */
typedef struct CoordgenDraftDbOptions {
    size_t struct_bytes;
    int timeout_ms;
    bool has_uid;    /* administrators: the part of the user uid */
    bool all_users;  /* administrators, stats and forget: the parts of all users */
    bool has_before; /* forget: documents stored before before_s, in seconds since 1970 */
    uint32_t uid;
    uint64_t before_s;
    const char *model; /* forget: documents in the tokens of this model, which must be loaded; NULL: any */
} CoordgenDraftDbOptions;

#define coordgen_draft_db_options_init(options) coordgen_draft_db_options_init_sized((options), sizeof(*(options)))
COORDGEN_PUBLIC void coordgen_draft_db_options_init_sized(CoordgenDraftDbOptions *options, size_t struct_bytes);

#define coordgen_sampling_options_init(options) coordgen_sampling_options_init_sized((options), sizeof(*(options)))
#define coordgen_embed_options_init(options) coordgen_embed_options_init_sized((options), sizeof(*(options)))
COORDGEN_PUBLIC void coordgen_sampling_options_init_sized(CoordgenSamplingOptions *options, size_t struct_bytes);
COORDGEN_PUBLIC void coordgen_embed_options_init_sized(CoordgenEmbedOptions *options, size_t struct_bytes);

#define coordgen_generate_options_init(options) coordgen_generate_options_init_sized((options), sizeof(*(options)))
#define coordgen_session_options_init(options) coordgen_session_options_init_sized((options), sizeof(*(options)))
#define coordgen_tokenize_options_init(options) coordgen_tokenize_options_init_sized((options), sizeof(*(options)))
#define coordgen_detokenize_options_init(options) coordgen_detokenize_options_init_sized((options), sizeof(*(options)))
COORDGEN_PUBLIC void coordgen_generate_options_init_sized(CoordgenGenerateOptions *options, size_t struct_bytes);
COORDGEN_PUBLIC void coordgen_session_options_init_sized(CoordgenSessionOptions *options, size_t struct_bytes);
COORDGEN_PUBLIC void coordgen_tokenize_options_init_sized(CoordgenTokenizeOptions *options, size_t struct_bytes);
COORDGEN_PUBLIC void coordgen_detokenize_options_init_sized(CoordgenDetokenizeOptions *options, size_t struct_bytes);

/* Each _start() function sends one request and returns. Dispatch calls fn (NULL: events are dropped). request_idp may
 * be NULL. timeout_ms < 0: no limit. After a failure of _start() nothing was sent, and fn is not called. */
COORDGEN_PUBLIC int coordgen_generate_start(CoordgenClient *client, const CoordgenGenerateOptions *options,
                                            CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
/* Open, fork or close a session. The reply has the session's number (coordgen_reply_session()). A fork begins with the
 * first n_messages messages of another session (COORDGEN_ALL_MESSAGES: all). Closing cancels a request that runs in
 * the session. */
COORDGEN_PUBLIC int coordgen_session_open_start(CoordgenClient *client, const CoordgenSessionOptions *options,
                                                CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
COORDGEN_PUBLIC int coordgen_session_fork_start(CoordgenClient *client, uint64_t session, uint32_t n_messages,
                                                int timeout_ms, CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
COORDGEN_PUBLIC int coordgen_session_close_start(CoordgenClient *client, uint64_t session, int timeout_ms,
                                                 CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
COORDGEN_PUBLIC int coordgen_tokenize_start(CoordgenClient *client, const CoordgenTokenizeOptions *options,
                                            CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
COORDGEN_PUBLIC int coordgen_detokenize_start(CoordgenClient *client, const CoordgenDetokenizeOptions *options,
                                              CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
/* Asks for the vector of each text; their tokens together, and the reply, are limited. */
COORDGEN_PUBLIC int coordgen_embed_start(CoordgenClient *client, const CoordgenEmbedOptions *options,
                                         CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
COORDGEN_PUBLIC int coordgen_request_list_start(CoordgenClient *client, int timeout_ms, CoordgenEventFn *fn, void *arg,
                                                uint64_t *request_idp);
COORDGEN_PUBLIC int coordgen_explain_start(CoordgenClient *client, uint64_t number, int timeout_ms, CoordgenEventFn *fn,
                                           void *arg, uint64_t *request_idp);
/* Ends a generation of this user, or of any user for administrators, by its request_number. COORDGEN_E_NOT_FOUND:
 * there is none. */
COORDGEN_PUBLIC int coordgen_request_cancel_start(CoordgenClient *client, uint64_t number, int timeout_ms,
                                                  CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
COORDGEN_PUBLIC int coordgen_status_start(CoordgenClient *client, int timeout_ms, CoordgenEventFn *fn, void *arg,
                                          uint64_t *request_idp);
COORDGEN_PUBLIC int coordgen_model_list_start(CoordgenClient *client, int timeout_ms, CoordgenEventFn *fn, void *arg,
                                              uint64_t *request_idp);
COORDGEN_PUBLIC int coordgen_model_show_start(CoordgenClient *client, const char *model, int timeout_ms,
                                              CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
COORDGEN_PUBLIC int coordgen_model_load_start(CoordgenClient *client, const char *model, int timeout_ms,
                                              CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
/* Loads the model (NULL: the default) like a request that names it, if the service's setting load-on-demand permits.
 * The reply comes when the model can be used. */
COORDGEN_PUBLIC int coordgen_model_want_start(CoordgenClient *client, const char *model, int timeout_ms,
                                              CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
/* Opens the file with the rights of this process and hands it over; the service need not have access to the path. */
COORDGEN_PUBLIC int coordgen_model_load_file_start(CoordgenClient *client, const char *path, int timeout_ms,
                                                   CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
COORDGEN_PUBLIC int coordgen_model_unload_start(CoordgenClient *client, const char *model, int timeout_ms,
                                                CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
/* Makes a pair: draft ("" or NULL: undo) drafts for the model target from now on and after restarts, and is loaded
 * with it. The target's output stays the same. For administrators. The reply has coordgen_reply_model_pair() (none
 * after an undo) and coordgen_reply_warning(). */
COORDGEN_PUBLIC int coordgen_model_pair_start(CoordgenClient *client, const char *target, const char *draft,
                                              int timeout_ms, CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
COORDGEN_PUBLIC int coordgen_model_pair_list_start(CoordgenClient *client, int timeout_ms, CoordgenEventFn *fn,
                                                   void *arg, uint64_t *request_idp);
/* Asks for the default model, which serves requests that name none (model NULL), or sets it from now on and after
 * restarts (for administrators). The reply has coordgen_reply_model(); its state is 0 if no such model exists now. */
COORDGEN_PUBLIC int coordgen_model_default_start(CoordgenClient *client, const char *model, int timeout_ms,
                                                 CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
/* Removes a model of the service's folder that is not loaded, with all files made of it; dry_run only lists the files.
 * For administrators. Replies of remove, disk and prune have coordgen_reply_file(). */
COORDGEN_PUBLIC int coordgen_model_remove_start(CoordgenClient *client, const char *model, bool dry_run, int timeout_ms,
                                                CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
/* Lists the service's files on disks. For administrators. */
COORDGEN_PUBLIC int coordgen_disk_start(CoordgenClient *client, int timeout_ms, CoordgenEventFn *fn, void *arg,
                                        uint64_t *request_idp);
enum {
    COORDGEN_PRUNE_IMPORTS = 1, /* also work of interrupted imports that could be resumed */
    COORDGEN_PRUNE_CORRUPT = 2, /* also damaged databases that were set aside */
    COORDGEN_PRUNE_DRY_RUN = 4,
};
/* Removes files that nothing needs any more. For administrators. */
COORDGEN_PUBLIC int coordgen_prune_start(CoordgenClient *client, unsigned int flags, int timeout_ms,
                                         CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
/* Asks for sizes. The reply has coordgen_reply_draft_db_user() for each user, and coordgen_reply_draft_db(). */
COORDGEN_PUBLIC int coordgen_draft_db_stats_start(CoordgenClient *client, const CoordgenDraftDbOptions *options,
                                                  CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
/* Forgets documents that meet all conditions of the options; without conditions, all. After the reply nothing is
 * drafted from them. */
COORDGEN_PUBLIC int coordgen_draft_db_forget_start(CoordgenClient *client, const CoordgenDraftDbOptions *options,
                                                   CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
/* Freezes the part (true): nothing is added or evicted until a thaw (false). */
COORDGEN_PUBLIC int coordgen_draft_db_freeze_start(CoordgenClient *client, const CoordgenDraftDbOptions *options,
                                                   bool freeze, CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
/* Asks for a part of an export from offset on (0: a new export). The reply has coordgen_reply_data(); the next offset
 * is this one plus its length, until the total of coordgen_reply_draft_db() is reached. */
COORDGEN_PUBLIC int coordgen_draft_db_export_start(CoordgenClient *client, const CoordgenDraftDbOptions *options,
                                                   uint64_t offset, CoordgenEventFn *fn, void *arg,
                                                   uint64_t *request_idp);
/* Sends the parts of an export, each after the reply to the one before; with the last part all documents are added, or
 * none. A part of 64 KiB fits the usual limits on messages. */
COORDGEN_PUBLIC int coordgen_draft_db_import_start(CoordgenClient *client, const CoordgenDraftDbOptions *options,
                                                   const void *data, size_t data_bytes, bool first, bool last,
                                                   CoordgenEventFn *fn, void *arg, uint64_t *request_idp);

/* Each blocking function sends a request and waits for its end. fn (may be NULL) gets PROGRESS and DELTA only. *replyp
 * (replyp may be NULL) is set if the request was sent, whatever its end; the caller unrefs it. Returns the code of the
 * reply. */
COORDGEN_PUBLIC int coordgen_generate(CoordgenClient *client, const CoordgenGenerateOptions *options,
                                      CoordgenEventFn *fn, void *arg, CoordgenReply **replyp);
/* Sets *sessionp on success; sessionp must not be NULL. */
COORDGEN_PUBLIC int coordgen_session_open(CoordgenClient *client, const CoordgenSessionOptions *options,
                                          uint64_t *sessionp);
COORDGEN_PUBLIC int coordgen_session_fork(CoordgenClient *client, uint64_t session, uint32_t n_messages, int timeout_ms,
                                          uint64_t *sessionp);
COORDGEN_PUBLIC int coordgen_session_close(CoordgenClient *client, uint64_t session, int timeout_ms);
COORDGEN_PUBLIC int coordgen_tokenize(CoordgenClient *client, const CoordgenTokenizeOptions *options,
                                      CoordgenReply **replyp);
COORDGEN_PUBLIC int coordgen_detokenize(CoordgenClient *client, const CoordgenDetokenizeOptions *options,
                                        CoordgenReply **replyp);
COORDGEN_PUBLIC int coordgen_embed(CoordgenClient *client, const CoordgenEmbedOptions *options, CoordgenReply **replyp);
COORDGEN_PUBLIC int coordgen_status(CoordgenClient *client, int timeout_ms, CoordgenReply **replyp);
/* Lists the generations that run or wait: this user's, or all for administrators. */
COORDGEN_PUBLIC int coordgen_request_list(CoordgenClient *client, int timeout_ms, CoordgenReply **replyp);
/* Tells what drafts brought a generation, by its request_number: one that runs or waits, or one of this user's last
 * 64. An administrator may ask about any user's. COORDGEN_E_NOT_FOUND: none of these. */
COORDGEN_PUBLIC int coordgen_explain(CoordgenClient *client, uint64_t number, int timeout_ms, CoordgenReply **replyp);
/* Ends a generation by its request_number; its own client's call returns with COORDGEN_END_CANCELLED. */
COORDGEN_PUBLIC int coordgen_request_cancel(CoordgenClient *client, uint64_t number, int timeout_ms,
                                            CoordgenReply **replyp);
COORDGEN_PUBLIC int coordgen_model_remove(CoordgenClient *client, const char *model, bool dry_run, int timeout_ms,
                                          CoordgenReply **replyp);
COORDGEN_PUBLIC int coordgen_disk(CoordgenClient *client, int timeout_ms, CoordgenReply **replyp);
COORDGEN_PUBLIC int coordgen_prune(CoordgenClient *client, unsigned int flags, int timeout_ms, CoordgenReply **replyp);
/* Measures the round trip of a status request. round_trip_usp may be NULL. */
COORDGEN_PUBLIC int coordgen_ping(CoordgenClient *client, int timeout_ms, uint64_t *round_trip_usp);
COORDGEN_PUBLIC int coordgen_model_list(CoordgenClient *client, int timeout_ms, CoordgenReply **replyp);
COORDGEN_PUBLIC int coordgen_model_show(CoordgenClient *client, const char *model, int timeout_ms,
                                        CoordgenReply **replyp);
COORDGEN_PUBLIC int coordgen_model_load(CoordgenClient *client, const char *model, int timeout_ms, CoordgenEventFn *fn,
                                        void *arg, CoordgenReply **replyp);
COORDGEN_PUBLIC int coordgen_model_load_file(CoordgenClient *client, const char *path, int timeout_ms,
                                             CoordgenEventFn *fn, void *arg, CoordgenReply **replyp);
COORDGEN_PUBLIC int coordgen_model_unload(CoordgenClient *client, const char *model, int timeout_ms,
                                          CoordgenReply **replyp);
COORDGEN_PUBLIC int coordgen_model_pair(CoordgenClient *client, const char *target, const char *draft, int timeout_ms,
                                        CoordgenReply **replyp);
COORDGEN_PUBLIC int coordgen_model_pair_list(CoordgenClient *client, int timeout_ms, CoordgenReply **replyp);
COORDGEN_PUBLIC int coordgen_model_want(CoordgenClient *client, const char *model, int timeout_ms,
                                        CoordgenReply **replyp);
COORDGEN_PUBLIC int coordgen_model_default(CoordgenClient *client, const char *model, int timeout_ms,
                                           CoordgenReply **replyp);

#include "coordgen-client-replies.h"

#ifdef __cplusplus
}
#endif

#endif
