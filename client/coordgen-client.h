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
    const char *model;    /* PROGRESS, with model_state: the model that a generation waits for */
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

typedef struct CoordgenMessage {
    CoordgenRole role;
    const char *text;
} CoordgenMessage;

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
} CoordgenTokenizeOptions;

typedef struct CoordgenDetokenizeOptions {
    size_t struct_bytes;
    int timeout_ms;
    const char *model;
    const uint32_t *tokens;
    size_t n_tokens;
    bool with_special; /* print control tokens too */
} CoordgenDetokenizeOptions;

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

/* ---- replies ----------------------------------------------------------------------------------------------------- */

COORDGEN_PUBLIC CoordgenReply *coordgen_reply_ref(CoordgenReply *reply);
COORDGEN_PUBLIC CoordgenReply *coordgen_reply_unref(CoordgenReply *reply); /* NULL is fine; returns NULL */

COORDGEN_PUBLIC int coordgen_reply_error(const CoordgenReply *reply); /* 0 or a CoordgenError */
COORDGEN_PUBLIC const char *coordgen_reply_message(const CoordgenReply *reply);
COORDGEN_PUBLIC const char *coordgen_reply_field(const CoordgenReply *reply);
COORDGEN_PUBLIC uint32_t coordgen_reply_retry_after_ms(const CoordgenReply *reply);

typedef enum CoordgenEndReason {
    COORDGEN_END_NONE = 0,  /* the request failed */
    COORDGEN_END_TOKEN = 1, /* the model ended its turn */
    COORDGEN_END_STOP = 2,  /* a stop string */
    COORDGEN_END_MAX_TOKENS = 3,
    COORDGEN_END_CONTEXT_FULL = 4,
    COORDGEN_END_CANCELLED = 5,
    COORDGEN_END_REPETITION = 6, /* the answer repeated itself over and over */
} CoordgenEndReason;

/* "end-token", "stop-string", ... */
COORDGEN_PUBLIC const char *coordgen_end_reason_name(int reason);

/* Why no more of a prompt was cached from an earlier request of the same user. */
typedef enum CoordgenReuse {
    COORDGEN_REUSE_UNKNOWN = 0,
    COORDGEN_REUSE_WHOLE = 1,     /* all of it was cached, except the last tokens, which are always computed */
    COORDGEN_REUSE_NEW_TEXT = 2,  /* the whole cached prefix fits; the rest of the prompt is new */
    COORDGEN_REUSE_DIFFERENT = 3, /* the cached prefix continues differently from there */
    COORDGEN_REUSE_FIRST_USE = 4, /* nothing is cached for this user and model */
    COORDGEN_REUSE_EVICTED = 5,   /* more had been cached, until its memory was needed */
    COORDGEN_REUSE_TOO_SHORT = 6, /* the prompt, or its common beginning with the cached ones, is too short */
    COORDGEN_REUSE_OFF = 7,       /* the service caches nothing */
    COORDGEN_REUSE_DECLINED = 8,  /* no_reuse */
} CoordgenReuse;

/* "whole", "new-text", ... */
COORDGEN_PUBLIC const char *coordgen_reuse_name(int reuse);

/* Where the value of a sampling option comes from. */
typedef enum CoordgenSamplingOrigin {
    COORDGEN_SAMPLING_UNKNOWN = 0,
    COORDGEN_SAMPLING_REQUEST = 1,
    COORDGEN_SAMPLING_FILE = 2,    /* the model's file */
    COORDGEN_SAMPLING_FAMILY = 3,  /* the service's table of model families */
    COORDGEN_SAMPLING_SERVICE = 4, /* the service's default */
} CoordgenSamplingOrigin;

/* "request", "file", "family", "service", "unknown". */
COORDGEN_PUBLIC const char *coordgen_sampling_origin_name(int origin);

typedef struct CoordgenSamplingOrigins {
    size_t struct_bytes;
    CoordgenSamplingOrigin temperature;
    CoordgenSamplingOrigin top_k;
    CoordgenSamplingOrigin top_p;
    CoordgenSamplingOrigin min_p;
    CoordgenSamplingOrigin repetition_penalty;
    CoordgenSamplingOrigin repetition_window;
    const char *family; /* the family in the service's table that was used; "": none */
} CoordgenSamplingOrigins;

typedef struct CoordgenGenerateResult {
    size_t struct_bytes;
    const char *text; /* the whole text, NUL-terminated; after a failure, the text before it */
    size_t text_bytes;
    CoordgenEndReason end_reason;
    uint32_t prompt_tokens;
    uint32_t cached_tokens; /* prompt tokens that were cached */
    uint32_t output_tokens;
    uint64_t queue_us;
    uint64_t load_us;
    uint64_t prefill_us;
    uint64_t decode_us;
    uint64_t total_us;
    const char *model;
    /* values in effect */
    uint64_t seed;
    uint32_t max_tokens;
    float temperature;
    uint32_t top_k;
    float top_p;
    float min_p;
    float repetition_penalty;
    uint32_t repetition_window;
    CoordgenPriority priority;
    CoordgenReuse reuse;       /* why no more of the prompt was cached */
    uint32_t incomplete_bytes; /* bytes of a character that the end cut off; not in text */
    uint32_t decode_steps;     /* passes over the weights after the prompt; each gives one or more tokens */
    uint32_t drafted_tokens;   /* drafted tokens that the steps verified */
    uint32_t accepted_tokens;  /* drafted tokens that became output */
    uint64_t request_number;   /* the service's number of the request, for coordgen_explain(); 0: the request failed */
    const CoordgenSamplingOrigins *sampling_origins; /* origins of the options above; NULL: the request failed */
    bool ends_repetition;                            /* whether COORDGEN_END_REPETITION was possible */
} CoordgenGenerateResult;

/* Why a request runs without drafts. */
typedef enum CoordgenSpeculationOff {
    COORDGEN_SPECULATION_ON = 0,        /* it runs with drafts, or has not begun */
    COORDGEN_SPECULATION_SETTING = 1,   /* by the service's setting */
    COORDGEN_SPECULATION_REQUEST = 2,   /* by the request */
    COORDGEN_SPECULATION_NO_SOURCE = 3, /* no requested source exists, or had memory */
} CoordgenSpeculationOff;

/* "on", "setting", "request", "no-source". */
COORDGEN_PUBLIC const char *coordgen_speculation_off_name(int off);

/* Whether sources of drafts learned from the logits of the prompt, and why. */
typedef enum CoordgenPromptLearning {
    COORDGEN_PROMPT_LEARNING_NONE = 0,     /* no source learns, or the request has not begun */
    COORDGEN_PROMPT_LEARNING_DECLINED = 1, /* not learned: no source asked */
    COORDGEN_PROMPT_LEARNING_PAYS = 2,     /* learned: prompt_gain_us exceeds prompt_cost_us */
    COORDGEN_PROMPT_LEARNING_LOSES = 3,    /* not learned: the gain does not pay */
    COORDGEN_PROMPT_LEARNING_TRIAL = 4,    /* learned as a trial: gain or cost is unknown or may have changed */
} CoordgenPromptLearning;

/* "none", "declined", "pays", "loses", "trial". */
COORDGEN_PUBLIC const char *coordgen_prompt_learning_name(int learning);

typedef struct CoordgenDraftSource {
    size_t struct_bytes;
    const char *name; /* "sam", "table", ...; never NULL */
    bool is_on;       /* false: the service does not have the source, or had no memory for it */
    uint64_t drafted_tokens;
    uint64_t accepted_tokens; /* drafted tokens that became output */
} CoordgenDraftSource;

/* What drafts brought a generation. A row is one token that the model computes in a decoding step: the last token or a
 * draft. */
typedef struct CoordgenExplanation {
    size_t struct_bytes;
    CoordgenSpeculationOff off;
    size_t n_sources;
    const CoordgenDraftSource *const *sources; /* the requested sources */
    size_t n_accept_lengths;
    const uint64_t *accept_lengths; /* [i]: verifications that accepted i drafts; empty in lists of requests */
    uint64_t decode_steps;
    uint64_t verifications;  /* decoding steps with drafts */
    uint64_t valid_rows;     /* rows that gave a token */
    uint64_t wasted_rows;    /* rows of drafts that were rejected */
    uint64_t idle_rows;      /* padding rows that the device computes, up to whole tiles */
    uint64_t draft_us;       /* time of making drafts and learning */
    uint64_t head_us;        /* part of steps_us: logits of the rows, and sampling */
    uint64_t steps_us;       /* time of decoding steps, verification included */
    uint64_t prompt_rows;    /* rows of the prompt from whose logits sources learned */
    uint64_t prompt_head_us; /* time of these rows */
    CoordgenPromptLearning prompt_learning;
    uint64_t prompt_cost_us; /* expected cost of learning from the prompt; 0: unknown */
    uint64_t prompt_gain_us;
    uint64_t model_passes; /* passes of the draft model after the prompt */
    uint64_t model_rows;   /* rows of these passes */
    uint64_t model_us;     /* time of these passes and of reading the prompt; not in draft_us */
    /* For a model whose layers are streamed from the disk: */
    uint64_t read_bytes;   /* bytes read for the request's steps, which may share reads with other requests */
    uint64_t read_wait_us; /* time that its steps waited for these reads */
} CoordgenExplanation;

typedef enum CoordgenRequestState {
    COORDGEN_REQUEST_QUEUED = 1,
    COORDGEN_REQUEST_LOADING = 2, /* waits for its model */
    COORDGEN_REQUEST_PREFILL = 3, /* its prompt is being computed */
    COORDGEN_REQUEST_DECODE = 4,
    COORDGEN_REQUEST_PAUSED = 5,  /* its client reads too slowly */
    COORDGEN_REQUEST_RESTING = 6, /* has yielded its place to another user */
    COORDGEN_REQUEST_ENDED = 7,
} CoordgenRequestState;

/* "queued", "loading", "prefill", "decode", "paused", "resting", "ended". */
COORDGEN_PUBLIC const char *coordgen_request_state_name(int state);

/* A generation of this or another client, without its texts. */
typedef struct CoordgenRequestInfo { /* texts are never NULL */
    size_t struct_bytes;
    uint64_t number;
    uint32_t uid;
    const char *model;
    CoordgenPriority priority;
    CoordgenRequestState state;
    const char *outcome;     /* how an ended request ended */
    uint32_t queue_position; /* position in the queue; 1: the next; 0: unknown */
    uint32_t prompt_tokens;  /* 0: unknown yet */
    uint32_t read_tokens;    /* prompt tokens that were cached or are computed */
    uint32_t output_tokens;
    uint64_t age_us; /* time since its arrival; for an ended request, until its end */
    uint64_t prefill_us;
    uint64_t decode_us;
    const CoordgenExplanation *explanation; /* never NULL */
} CoordgenRequestInfo;

typedef enum CoordgenModelState {
    COORDGEN_MODEL_AVAILABLE = 1, /* on disk */
    COORDGEN_MODEL_IMPORTING = 2,
    COORDGEN_MODEL_LOADING = 3,
    COORDGEN_MODEL_READY = 4,
    COORDGEN_MODEL_FAILED = 5,
} CoordgenModelState;

COORDGEN_PUBLIC const char *coordgen_model_state_name(int state);

typedef enum CoordgenModelPairState {
    COORDGEN_MODEL_PAIR_IDLE = 1, /* the target is not loaded */
    COORDGEN_MODEL_PAIR_LOADING = 2,
    COORDGEN_MODEL_PAIR_READY = 3,    /* one drafts for the other */
    COORDGEN_MODEL_PAIR_ABSENT = 4,   /* one of the names has no model */
    COORDGEN_MODEL_PAIR_MISMATCH = 5, /* their tokens differ: the target runs without drafts of it */
    COORDGEN_MODEL_PAIR_FAILED = 6,   /* the draft model could not be loaded: the target runs without it */
} CoordgenModelPairState;

/* "idle", "loading", "ready", "absent", "mismatch", "failed". */
COORDGEN_PUBLIC const char *coordgen_model_pair_state_name(int state);

typedef struct CoordgenModelPair { /* texts are never NULL */
    size_t struct_bytes;
    const char *target;
    const char *draft; /* "": none, even if the service's setting names one */
    bool is_stored;    /* made by coordgen_model_pair(); false: by the setting */
    CoordgenModelPairState state;
    const char *detail; /* why the target runs without drafts of it */
} CoordgenModelPair;

typedef enum CoordgenModelDefaultBy { /* the reason why a model is the default */
    COORDGEN_MODEL_DEFAULT_BY_SETTING = 1,
    COORDGEN_MODEL_DEFAULT_BY_COMMAND = 2, /* coordgen_model_default() */
    COORDGEN_MODEL_DEFAULT_BY_FIRST = 3,   /* it was the first model; nothing else decides */
} CoordgenModelDefaultBy;

/* "setting", "command", "first". */
COORDGEN_PUBLIC const char *coordgen_model_default_by_name(int by);

typedef struct CoordgenModel { /* texts are never NULL */
    size_t struct_bytes;
    const char *name;
    const char *path;
    CoordgenModelState state;
    const char *detail;
    bool is_default;
    const char *architecture;
    const char *kv_type;
    const char *kernel;
    const char *source_sha256;
    const char *chat_format;
    uint32_t context_tokens; /* the trained context; this and the next fields: 0 if not loaded */
    uint32_t vocabulary;
    uint64_t parameters;
    uint64_t weights_bytes;
    uint64_t kv_bytes_per_token;
    uint64_t file_bytes;
    const CoordgenModelPair *draft; /* the model that drafts for this one; NULL: none */
    size_t n_draft_of;
    const char *const *draft_of; /* names of the models for which this one drafts */
    /* Streaming; 0 if all weights are in memory or the model is not loaded: */
    uint32_t layers;
    uint32_t streamed_layers;  /* layers streamed from the disk in each step */
    uint64_t pinned_bytes;     /* bytes of weights that stay in memory */
    uint64_t sweep_bytes;      /* bytes that a step reads */
    uint64_t read_bytes_per_s; /* speed of the reads so far */
    const char *image; /* the state of its weights image, for people: "mapped, 1704 MB", or "none: " and the reason */
    size_t n_chat_takes;
    const char *const *chat_takes;     /* further inputs of its chat template: "tools", "documents" */
    CoordgenModelDefaultBy default_by; /* 0: not the default */
    uint32_t usable_context_tokens;    /* the limit on prompt and output of a request together; 0: not loaded */
    uint32_t setting_context_tokens;   /* the service's setting context-tokens for this model */
} CoordgenModel;

typedef struct CoordgenMemory {
    size_t struct_bytes;
    const char *name;
    uint64_t used_bytes;
    uint64_t peak_bytes;
    uint64_t limit_bytes; /* 0: none */
} CoordgenMemory;

typedef struct CoordgenStatus {
    size_t struct_bytes;
    const char *service_version;
    const char *isa;
    uint64_t uptime_us;
    uint32_t pid;
    uint32_t threads;
    uint32_t connections;
    uint32_t connections_max;
    uint32_t requests_queued;
    uint32_t requests_running;
    uint32_t queue_max;
    bool draining;
    uint64_t requests_done;
    uint64_t requests_cancelled;
    uint64_t requests_failed;
    uint64_t prompt_tokens;
    uint64_t output_tokens;
    uint64_t preemptions;            /* steps that yielded to a higher class */
    uint64_t cached_tokens;          /* part of prompt_tokens */
    uint64_t prefix_cache_bytes;     /* cached keys and values of prompts */
    uint64_t prefix_cache_max_bytes; /* 0: nothing is cached */
    uint32_t sessions;               /* open sessions */
    /* For administrators; else 0 and "": */
    uint64_t memory_used_bytes;      /* bytes of all accounts */
    uint64_t memory_limit_bytes;     /* limit on memory_used_bytes; 0: none */
    const char *memory_limit_source; /* "set", or the origin of the limit; for people */
} CoordgenStatus;

typedef struct CoordgenDraftDbUser {
    size_t struct_bytes;
    uint32_t uid;
    bool frozen;
    uint64_t documents; /* stored answers */
    uint64_t tokens;
    uint64_t bytes;    /* bytes that count for the limit */
    uint64_t oldest_s; /* seconds since 1970; 0: no documents */
    uint64_t newest_s;
} CoordgenDraftDbUser;

typedef struct CoordgenDraftDb {
    size_t struct_bytes;
    uint64_t documents;   /* documents forgotten, exported or added */
    uint64_t expired;     /* import: documents older than the service's limit */
    uint64_t total_bytes; /* export: bytes of the whole export */
    /* stats: limits on all users together; 0: none */
    uint64_t bytes_max;
    uint64_t documents_max;
    uint64_t age_max_s;
    /* stats, for administrators: answers of all users since the start of the service */
    uint64_t stored;
    uint64_t dropped; /* answers without room */
} CoordgenDraftDb;

/* The functions below return parts of a reply, which live as long as the reply; NULL or 0 for a NULL reply or one of
 * another kind. n_tokensp and len_bytesp may be NULL. */
COORDGEN_PUBLIC const CoordgenGenerateResult *coordgen_reply_generate(const CoordgenReply *reply);
/* Returns the explanation of a generation with explain, or of coordgen_explain(). */
COORDGEN_PUBLIC const CoordgenExplanation *coordgen_reply_explanation(const CoordgenReply *reply);
COORDGEN_PUBLIC size_t coordgen_reply_n_requests(const CoordgenReply *reply); /* list, explain (1) */
COORDGEN_PUBLIC const CoordgenRequestInfo *coordgen_reply_request(const CoordgenReply *reply, size_t index);
/* Returns the number of requests beyond the list. */
COORDGEN_PUBLIC uint32_t coordgen_reply_more_requests(const CoordgenReply *reply);
COORDGEN_PUBLIC uint64_t coordgen_reply_session(const CoordgenReply *reply); /* the session of an open or fork */
COORDGEN_PUBLIC const uint32_t *coordgen_reply_tokens(const CoordgenReply *reply, size_t *n_tokensp);
COORDGEN_PUBLIC size_t coordgen_reply_n_tokens(const CoordgenReply *reply); /* tokenize, also with count_only */
COORDGEN_PUBLIC const char *coordgen_reply_piece(const CoordgenReply *reply, size_t index, size_t *len_bytesp);
COORDGEN_PUBLIC const char *coordgen_reply_text(const CoordgenReply *reply, size_t *len_bytesp); /* detokenize */
COORDGEN_PUBLIC const CoordgenDraftDb *coordgen_reply_draft_db(const CoordgenReply *reply);
COORDGEN_PUBLIC size_t coordgen_reply_n_draft_db_users(const CoordgenReply *reply);
COORDGEN_PUBLIC const CoordgenDraftDbUser *coordgen_reply_draft_db_user(const CoordgenReply *reply, size_t index);
COORDGEN_PUBLIC const void *coordgen_reply_data(const CoordgenReply *reply,
                                                size_t *len_bytesp); /* export: bytes of the whole export */
COORDGEN_PUBLIC const CoordgenStatus *coordgen_reply_status(const CoordgenReply *reply);
COORDGEN_PUBLIC size_t coordgen_reply_n_memory(const CoordgenReply *reply);
COORDGEN_PUBLIC const CoordgenMemory *coordgen_reply_memory(const CoordgenReply *reply, size_t index);
COORDGEN_PUBLIC size_t coordgen_reply_n_models(const CoordgenReply *reply); /* list, show, load, status */
COORDGEN_PUBLIC const CoordgenModel *coordgen_reply_model(const CoordgenReply *reply, size_t index);
COORDGEN_PUBLIC size_t coordgen_reply_n_model_pairs(const CoordgenReply *reply); /* pair (1, undone 0), pair list */
COORDGEN_PUBLIC const CoordgenModelPair *coordgen_reply_model_pair(const CoordgenReply *reply, size_t index);

typedef enum CoordgenFileKind {
    COORDGEN_FILE_PACKAGE = 1,
    COORDGEN_FILE_SOURCE = 2,
    COORDGEN_FILE_IMPORTED = 4,
    COORDGEN_FILE_IMAGE = 5,
    COORDGEN_FILE_IMPORT_WORK = 6,
    COORDGEN_FILE_DRAFT_DB = 7,
    COORDGEN_FILE_SET_ASIDE = 8,
    COORDGEN_FILE_OTHER = 9,
} CoordgenFileKind;

/* "package", "image", ... */
COORDGEN_PUBLIC const char *coordgen_file_kind_name(int kind);

typedef struct CoordgenFile { /* texts are never NULL */
    size_t struct_bytes;
    CoordgenFileKind kind;
    const char *path;
    const char *model; /* the model of the file; "": unknown */
    uint64_t bytes;    /* on the disk */
    const char *note;  /* "": no note */
} CoordgenFile;

typedef struct CoordgenFileSystem {
    size_t struct_bytes;
    const char *path; /* the folder on this file system */
    uint64_t free_bytes, size_bytes;
} CoordgenFileSystem;

COORDGEN_PUBLIC size_t coordgen_reply_n_files(const CoordgenReply *reply); /* model remove, disk, prune */
COORDGEN_PUBLIC const CoordgenFile *coordgen_reply_file(const CoordgenReply *reply, size_t index);
/* Returns the bytes of all files. *n_morep (may be NULL) counts the files that the reply had no room for; their bytes
 * are included. */
COORDGEN_PUBLIC uint64_t coordgen_reply_files_bytes(const CoordgenReply *reply, uint32_t *n_morep);
COORDGEN_PUBLIC size_t coordgen_reply_n_file_systems(const CoordgenReply *reply); /* disk */
COORDGEN_PUBLIC const CoordgenFileSystem *coordgen_reply_file_system(const CoordgenReply *reply, size_t index);
/* Returns a warning about a pair; "" if there is none, and for other replies. Never NULL. */
COORDGEN_PUBLIC const char *coordgen_reply_warning(const CoordgenReply *reply);

#ifdef __cplusplus
}
#endif

#endif
