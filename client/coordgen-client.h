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

/* What went wrong. 1..99 come from the service, 100 and above from the library. A newer service may send numbers that
 * are not listed: treat them as COORDGEN_E_INTERNAL. */
typedef enum CoordgenError {
    COORDGEN_OK = 0,
    COORDGEN_E_PROTOCOL = 1,         /* the service did not understand the client: versions do not fit */
    COORDGEN_E_VERSION = 2,          /* no common protocol version */
    COORDGEN_E_INVALID_ARGUMENT = 3, /* coordgen_reply_field() names it */
    COORDGEN_E_UNKNOWN_OPTION = 4,   /* an option that the service does not know */
    COORDGEN_E_BUSY = 5,             /* try again after coordgen_reply_retry_after_ms() */
    COORDGEN_E_QUOTA_EXCEEDED = 6,
    COORDGEN_E_CONTEXT_FULL = 7, /* the prompt does not fit the model's context */
    COORDGEN_E_MODEL_NOT_FOUND = 8,
    COORDGEN_E_MODEL_NOT_READY = 9,
    COORDGEN_E_MODEL_CORRUPT = 10,
    COORDGEN_E_MODEL_IN_USE = 11,
    COORDGEN_E_CANCELLED = 12,
    COORDGEN_E_DENIED = 13, /* administrators' socket only */
    COORDGEN_E_SHUTTING_DOWN = 14,
    COORDGEN_E_NOT_FOUND = 15,
    COORDGEN_E_INTERNAL = 16,
    COORDGEN_E_NO_TEMPLATE = 17,    /* the model has no chat template: send a raw prompt */
    COORDGEN_E_VOCAB_MISMATCH = 18, /* two models whose tokens differ: neither can draft for the other */

    COORDGEN_E_UNREACHABLE = 100, /* no service at the socket */
    COORDGEN_E_TIMEOUT = 101,     /* the time that the caller gave is over; the request was cancelled */
    COORDGEN_E_DISCONNECTED = 102,
    COORDGEN_E_BAD_REPLY = 103, /* the service sent something that breaks the protocol; the connection is closed */
    COORDGEN_E_NO_MEMORY = 104,
    COORDGEN_E_TOO_LARGE = 105,   /* the request does not fit into a frame */
    COORDGEN_E_WRONG_STATE = 106, /* a call that is not allowed now: not connected, in a callback, after fork() */
} CoordgenError;

/* "busy", "model-not-found", ...: stable names for scripts and logs. */
COORDGEN_PUBLIC const char *coordgen_error_name(int code);
/* Of the library: "0.1.0". */
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

/* Shown to administrators; at most 64 bytes. Default: the program's name. Before connecting. */
COORDGEN_PUBLIC int coordgen_client_set_name(CoordgenClient *client, const char *name);

/* Connects and greets. socket_path NULL: $COORDGEN_SOCKET, else $XDG_RUNTIME_DIR/coordgen/api.sock where a service of
 * the user's own listens, else /run/coordgen/api.sock. timeout_ms < 0: none. After a failure, and
 * after the end of a connection, the same client may connect again. */
COORDGEN_PUBLIC int coordgen_client_connect(CoordgenClient *client, const char *socket_path, int timeout_ms);
/* The same without waiting for the service's greeting: requests may be started at once. */
COORDGEN_PUBLIC int coordgen_client_connect_start(CoordgenClient *client, const char *socket_path);
/* On a connected stream socket, which the library owns from here on, also when this fails. */
COORDGEN_PUBLIC int coordgen_client_connect_fd(CoordgenClient *client, int fd, int timeout_ms);

COORDGEN_PUBLIC const char *coordgen_client_socket_path(const CoordgenClient *client);     /* "" before connecting */
COORDGEN_PUBLIC const char *coordgen_client_service_version(const CoordgenClient *client); /* "" before the greeting */

/* The last call on this client that failed. Of NULL: COORDGEN_E_NO_MEMORY and its text. */
COORDGEN_PUBLIC int coordgen_client_error(const CoordgenClient *client);
COORDGEN_PUBLIC const char *coordgen_client_message(const CoordgenClient *client);
COORDGEN_PUBLIC const char *coordgen_client_field(const CoordgenClient *client); /* "" when no field is at fault */
COORDGEN_PUBLIC uint32_t coordgen_client_retry_after_ms(const CoordgenClient *client);

/* ---- event loop -------------------------------------------------------------------------------------------------- */

/* One descriptor for poll(), epoll, libevent, GLib, ...: call coordgen_client_dispatch() when the events of
 * coordgen_client_events() (always POLLIN) come, or when coordgen_client_timeout_ms() (-1: none) has passed. The
 * descriptor stays the same from the first connecting to coordgen_client_free(). Ask for the timeout anew before each
 * wait. */
COORDGEN_PUBLIC int coordgen_client_fd(const CoordgenClient *client);
COORDGEN_PUBLIC short coordgen_client_events(const CoordgenClient *client);
COORDGEN_PUBLIC int coordgen_client_timeout_ms(CoordgenClient *client);
/* Never waits; calls the callbacks. An error means that the connection is over; every request has had its
 * COORDGEN_EVENT_END by then. */
COORDGEN_PUBLIC int coordgen_client_dispatch(CoordgenClient *client);
COORDGEN_PUBLIC size_t coordgen_client_n_in_flight(const CoordgenClient *client);

typedef enum CoordgenEventKind {
    COORDGEN_EVENT_PROGRESS = 1, /* generate: waiting and prompt; load: share of the work */
    COORDGEN_EVENT_DELTA = 2,    /* generate: more text */
    COORDGEN_EVENT_END = 3,      /* the last one of a request: reply is set */
} CoordgenEventKind;

typedef struct CoordgenEvent {
    size_t struct_bytes;
    CoordgenEventKind kind;
    uint64_t request_id;
    /* DELTA */
    const char *text; /* whole UTF-8 sequences; a NUL follows, which is not counted; may be empty */
    size_t text_bytes;
    const uint32_t *tokens; /* when want_tokens */
    size_t n_tokens;
    /* PROGRESS */
    uint32_t queue_position; /* 1: the next; 0: running */
    uint32_t prefilled_tokens;
    uint32_t prompt_tokens;
    int model_state; /* CoordgenModelState while a model loads */
    uint32_t permille;
    /* END */
    CoordgenReply *reply; /* the library's; coordgen_reply_ref() keeps it */
    const char *model;    /* PROGRESS, with model_state: the model that a generation waits for */
} CoordgenEvent;

/* Everything the event points to is valid during the call. Return 0, or anything else to cancel the request. */
typedef int CoordgenEventFn(void *arg, const CoordgenEvent *event);

/* Asks the service to end a request, or (request_id 0) every one in flight. It still ends with its own END event: for a
 * generation the reply then says COORDGEN_END_CANCELLED. Thread: any. A request that is over is no error. */
COORDGEN_PUBLIC int coordgen_cancel(CoordgenClient *client, uint64_t request_id);

/* ---- requests ---------------------------------------------------------------------------------------------------- */

typedef enum CoordgenRole {
    COORDGEN_ROLE_SYSTEM = 1,
    COORDGEN_ROLE_USER = 2,
    COORDGEN_ROLE_ASSISTANT = 3,
    COORDGEN_ROLE_TOOL = 4, /* what a tool answered */
} CoordgenRole;

typedef struct CoordgenMessage {
    CoordgenRole role;
    const char *text;
} CoordgenMessage;

typedef enum CoordgenPriority {
    COORDGEN_PRIORITY_DEFAULT = 0,     /* normal */
    COORDGEN_PRIORITY_INTERACTIVE = 1, /* somebody waits for the first word */
    COORDGEN_PRIORITY_NORMAL = 2,
    COORDGEN_PRIORITY_BACKGROUND = 3, /* takes what the others leave */
} CoordgenPriority;

/* "interactive", "normal", "background". */
COORDGEN_PUBLIC const char *coordgen_priority_name(int priority);

/* Stand for a sampling option that is not set: the model's own value counts, or the service's where the model says
 * nothing or temperature is 0. */
#define COORDGEN_UNSET (-1.0f)
#define COORDGEN_UNSET_COUNT UINT32_MAX

typedef enum CoordgenRepetition {
    COORDGEN_REPETITION_DEFAULT = 0, /* ended with messages, allowed with a raw prompt or ignore_end */
    COORDGEN_REPETITION_END = 1,     /* an answer that repeats itself over and over ends: COORDGEN_END_REPETITION */
    COORDGEN_REPETITION_ALLOW = 2,
} CoordgenRepetition;

/* Fill with coordgen_generate_options_init(), then change what you need. Nothing is kept after the call. */
typedef struct CoordgenGenerateOptions {
    size_t struct_bytes; /* set by the init function: tells the library which fields the caller knows */
    int timeout_ms;      /* of the whole request; < 0: none (the default) */
    const char *model;   /* NULL: the default model */
    /* One of the two: */
    const CoordgenMessage *messages; /* through the model's chat template */
    size_t n_messages;
    const char *prompt; /* raw: no template, and no mark in it is a control token */

    uint32_t max_tokens;      /* 0: as many as fit */
    const char *const *stops; /* at most 8 of at most 256 bytes, control tokens by name too; no part of the output */
    size_t n_stops;
    /* Each is COORDGEN_UNSET or COORDGEN_UNSET_COUNT until you set it. */
    float temperature;          /* 0: greedy; up to 100 */
    uint32_t top_k;             /* 0: off */
    float top_p;                /* 1: off */
    float min_p;                /* 0: off */
    float repetition_penalty;   /* 1: off */
    uint32_t repetition_window; /* tokens; 0: all */
    bool has_seed;              /* else the service draws one and tells it */
    bool want_tokens;           /* token ids in the events */
    bool ignore_end;            /* go on past end-of-generation tokens */
    uint64_t seed;
    CoordgenPriority priority;
    bool no_reuse;    /* compute the whole prompt, and keep nothing of it for later requests */
    uint64_t session; /* 0: none. Else messages or prompt go on with what the session holds, and model is NULL */
    /* Where drafts come from that give several tokens a step: "auto", "off", sources with commas, or a policy. NULL: as
     * the service is set. The text does not depend on it. */
    const char *speculation;
    bool explain;    /* the reply says what drafts have brought: coordgen_reply_explanation() */
    bool no_history; /* no drafts from the user's earlier answers, and this one is not stored for later ones */
    /* With messages: JSON, for chat templates that have tools or documents; of this request alone. What the template
     * ignores is refused (COORDGEN_E_INVALID_ARGUMENT). */
    const char *tools;
    const char *documents;
    bool no_generation_prompt; /* with messages: the prompt ends behind the last one, not where the answer begins */
    CoordgenRepetition repetition;
} CoordgenGenerateOptions;

/* A session: the service remembers what was said, so that each request sends only what is new, and holds on to what it
 * has computed of it. A request's question and answer belong to the session when its END event has come without an
 * error and with some text, also when it was cancelled; else the session is as it was. Answers are those that the whole
 * conversation in one request would get. A session belongs to the connection that opened it and ends with it. */
typedef struct CoordgenSessionOptions {
    size_t struct_bytes;
    int timeout_ms;
    const char *model; /* NULL: the default model */
    /* What it begins with; none of the two: nothing. */
    const CoordgenMessage *messages;
    size_t n_messages;
    const char *prompt; /* raw: prompts and answers of the session make one text */
} CoordgenSessionOptions;

#define COORDGEN_ALL_MESSAGES UINT32_MAX

typedef struct CoordgenTokenizeOptions {
    size_t struct_bytes;
    int timeout_ms;
    const char *model;
    const char *text; /* or messages, through the chat template */
    const CoordgenMessage *messages;
    size_t n_messages;
    bool add_special;   /* text: begin / end tokens as the model asks */
    bool parse_special; /* text: control tokens by name */
    bool count_only;    /* how many they are only: neither ids nor pieces, which may be too many for one reply */
    const char *tools;  /* messages: JSON, as with generate */
    const char *documents;
    bool no_generation_prompt; /* likewise */
} CoordgenTokenizeOptions;

typedef struct CoordgenDetokenizeOptions {
    size_t struct_bytes;
    int timeout_ms;
    const char *model;
    const uint32_t *tokens;
    size_t n_tokens;
    bool with_special; /* print control tokens too */
} CoordgenDetokenizeOptions;

/* Names a user's part of the draft database, which has what finished generations have answered. What is kept, and for
 * how long: share/doc/coordgen/privacy.md. */
typedef struct CoordgenDraftDbOptions {
    size_t struct_bytes;
    int timeout_ms;
    bool has_uid;    /* administrators: another user's part than one's own */
    bool all_users;  /* administrators, stats and forget: everybody's */
    bool has_before; /* forget: documents that were stored before before_s, seconds since 1970 */
    uint32_t uid;
    uint64_t before_s;
    const char *model; /* forget: documents of its tokens; it must be loaded. NULL: of any */
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

/* Each sends one request and returns; fn (NULL: events are dropped) is called from dispatch; request_idp may be NULL.
 * timeout_ms < 0: none. A failure here means that nothing was sent and fn will not be called. */
COORDGEN_PUBLIC int coordgen_generate_start(CoordgenClient *client, const CoordgenGenerateOptions *options,
                                            CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
/* The reply has the session's number (coordgen_reply_session()). A fork begins with the first n_messages messages of
 * another session (COORDGEN_ALL_MESSAGES: with all it holds). Closing cancels a request that runs in the session. */
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
/* Ends a generation by its request_number: one of this user, for an administrator's client anybody's.
 * COORDGEN_E_NOT_FOUND: there is none. */
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
/* Loads the model (NULL: the default) as a request does that names it: the service's setting load-on-demand says who
 * may. The reply comes when it can be used. */
COORDGEN_PUBLIC int coordgen_model_want_start(CoordgenClient *client, const char *model, int timeout_ms,
                                              CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
/* Opens the file with the rights of this process and hands it over: the service need not be able to reach its path. */
COORDGEN_PUBLIC int coordgen_model_load_file_start(CoordgenClient *client, const char *path, int timeout_ms,
                                                   CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
COORDGEN_PUBLIC int coordgen_model_unload_start(CoordgenClient *client, const char *model, int timeout_ms,
                                                CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
/* From now on, and after restarts, draft ("" or NULL: none any more) drafts for the model target: it is loaded with it,
 * and the target's output stays the same. Administrators. The reply has coordgen_reply_model_pair() (none where it was
 * undone) and coordgen_reply_warning(). */
COORDGEN_PUBLIC int coordgen_model_pair_start(CoordgenClient *client, const char *target, const char *draft,
                                              int timeout_ms, CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
COORDGEN_PUBLIC int coordgen_model_pair_list_start(CoordgenClient *client, int timeout_ms, CoordgenEventFn *fn,
                                                   void *arg, uint64_t *request_idp);
/* The default model, which requests mean that name none. With a model (else NULL): that one is it from now on, and
 * after restarts; administrators. The reply has coordgen_reply_model(); its state is 0 where there is no such model
 * now. */
COORDGEN_PUBLIC int coordgen_model_default_start(CoordgenClient *client, const char *model, int timeout_ms,
                                                 CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
/* Removes a model of the service's folder that is not loaded, with all that was made of it, or says what that would
 * be. Administrators. The reply of these three has coordgen_reply_file(). */
COORDGEN_PUBLIC int coordgen_model_remove_start(CoordgenClient *client, const char *model, bool dry_run, int timeout_ms,
                                                CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
/* What the service has on disks. Administrators. */
COORDGEN_PUBLIC int coordgen_disk_start(CoordgenClient *client, int timeout_ms, CoordgenEventFn *fn, void *arg,
                                        uint64_t *request_idp);
enum {
    COORDGEN_PRUNE_IMPORTS = 1, /* also what imports that were broken off could go on with */
    COORDGEN_PRUNE_CORRUPT = 2, /* also damaged databases that were set aside */
    COORDGEN_PRUNE_DRY_RUN = 4,
};
/* Removes what nothing needs any more. Administrators. */
COORDGEN_PUBLIC int coordgen_prune_start(CoordgenClient *client, unsigned int flags, int timeout_ms,
                                         CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
/* The reply has coordgen_reply_draft_db_user(), of whom it is about, and coordgen_reply_draft_db(). */
COORDGEN_PUBLIC int coordgen_draft_db_stats_start(CoordgenClient *client, const CoordgenDraftDbOptions *options,
                                                  CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
/* Documents for which all conditions of the options hold; without one all. When the reply is there, nothing is drafted
 * from them any more. */
COORDGEN_PUBLIC int coordgen_draft_db_forget_start(CoordgenClient *client, const CoordgenDraftDbOptions *options,
                                                   CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
/* Nothing is added to the part and nothing evicted, until it is thawed (false). */
COORDGEN_PUBLIC int coordgen_draft_db_freeze_start(CoordgenClient *client, const CoordgenDraftDbOptions *options,
                                                   bool freeze, CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
/* A part of an export, from offset on (0: a new export): coordgen_reply_data(). The next offset is that plus its
 * length, until coordgen_reply_draft_db() says that it is the total. */
COORDGEN_PUBLIC int coordgen_draft_db_export_start(CoordgenClient *client, const CoordgenDraftDbOptions *options,
                                                   uint64_t offset, CoordgenEventFn *fn, void *arg,
                                                   uint64_t *request_idp);
/* The parts of an export one by one, each when the one before is answered; with the last they are added, all or none. A
 * part of 64 KiB fits whatever the service's limit on messages usually is. */
COORDGEN_PUBLIC int coordgen_draft_db_import_start(CoordgenClient *client, const CoordgenDraftDbOptions *options,
                                                   const void *data, size_t data_bytes, bool first, bool last,
                                                   CoordgenEventFn *fn, void *arg, uint64_t *request_idp);

/* The same, waiting for the end. fn (may be NULL) gets PROGRESS and DELTA only. replyp (may be NULL) is set when
 * the request was sent, whatever its end; unref it. Returns the code of the reply. */
COORDGEN_PUBLIC int coordgen_generate(CoordgenClient *client, const CoordgenGenerateOptions *options,
                                      CoordgenEventFn *fn, void *arg, CoordgenReply **replyp);
/* sessionp is set on success, and may not be NULL. */
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
/* The generations of this user that run or wait; an administrator's client sees all. */
COORDGEN_PUBLIC int coordgen_request_list(CoordgenClient *client, int timeout_ms, CoordgenReply **replyp);
/* What drafts have brought a generation, by its request_number: one that runs or waits, or one of this user's last 64;
 * for an administrator anybody's. COORDGEN_E_NOT_FOUND: none of those. */
COORDGEN_PUBLIC int coordgen_explain(CoordgenClient *client, uint64_t number, int timeout_ms, CoordgenReply **replyp);
/* Ends a generation by its request_number; its own client's call returns with COORDGEN_END_CANCELLED. */
COORDGEN_PUBLIC int coordgen_request_cancel(CoordgenClient *client, uint64_t number, int timeout_ms,
                                            CoordgenReply **replyp);
COORDGEN_PUBLIC int coordgen_model_remove(CoordgenClient *client, const char *model, bool dry_run, int timeout_ms,
                                          CoordgenReply **replyp);
COORDGEN_PUBLIC int coordgen_disk(CoordgenClient *client, int timeout_ms, CoordgenReply **replyp);
COORDGEN_PUBLIC int coordgen_prune(CoordgenClient *client, unsigned int flags, int timeout_ms, CoordgenReply **replyp);
/* A status request whose answer is only measured. round_trip_usp may be NULL. */
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
    COORDGEN_END_REPETITION = 6, /* the answer repeats itself over and over */
} CoordgenEndReason;

/* "end-token", "stop-string", ... */
COORDGEN_PUBLIC const char *coordgen_end_reason_name(int reason);

/* Why not more of a prompt was there already, from an earlier request of the same user. */
typedef enum CoordgenReuse {
    COORDGEN_REUSE_UNKNOWN = 0,
    COORDGEN_REUSE_WHOLE = 1,     /* all was, but for the last tokens, which are always computed */
    COORDGEN_REUSE_NEW_TEXT = 2,  /* all that was kept fits; the rest of the prompt is new */
    COORDGEN_REUSE_DIFFERENT = 3, /* what was kept goes on differently from there */
    COORDGEN_REUSE_FIRST_USE = 4, /* nothing of this user and model is kept */
    COORDGEN_REUSE_EVICTED = 5,   /* more was kept, until its memory was needed */
    COORDGEN_REUSE_TOO_SHORT = 6, /* the prompt, or what it has in common with what is kept */
    COORDGEN_REUSE_OFF = 7,       /* the service keeps nothing */
    COORDGEN_REUSE_DECLINED = 8,  /* no_reuse */
} CoordgenReuse;

/* "whole", "new-text", ... */
COORDGEN_PUBLIC const char *coordgen_reuse_name(int reuse);

/* Who said what a sampling option is. */
typedef enum CoordgenSamplingOrigin {
    COORDGEN_SAMPLING_UNKNOWN = 0,
    COORDGEN_SAMPLING_REQUEST = 1,
    COORDGEN_SAMPLING_FILE = 2,    /* the model's file */
    COORDGEN_SAMPLING_FAMILY = 3,  /* the service's table of model families */
    COORDGEN_SAMPLING_SERVICE = 4, /* nobody else */
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
    const char *family; /* whose row of the table was used; "": none */
} CoordgenSamplingOrigins;

typedef struct CoordgenGenerateResult {
    size_t struct_bytes;
    const char *text; /* all of it, NUL-terminated; also what came before a failure */
    size_t text_bytes;
    CoordgenEndReason end_reason;
    uint32_t prompt_tokens;
    uint32_t cached_tokens; /* of the prompt, not computed again */
    uint32_t output_tokens;
    uint64_t queue_us;
    uint64_t load_us;
    uint64_t prefill_us;
    uint64_t decode_us;
    uint64_t total_us;
    const char *model;
    /* as they took effect */
    uint64_t seed;
    uint32_t max_tokens;
    float temperature;
    uint32_t top_k;
    float top_p;
    float min_p;
    float repetition_penalty;
    uint32_t repetition_window;
    CoordgenPriority priority;
    CoordgenReuse reuse;       /* why not more of the prompt was cached */
    uint32_t incomplete_bytes; /* of a character that the end cut off; not in text */
    uint32_t decode_steps;     /* passes over the weights behind the prompt's; each gives a token or more */
    uint32_t drafted_tokens;   /* that these computed beside the next token (speculation) */
    uint32_t accepted_tokens;  /* of them, those that became output */
    uint64_t request_number;   /* the service's, for coordgen_explain(); 0: the request failed */
    const CoordgenSamplingOrigins *sampling_origins; /* of the options above; NULL: the request failed */
    bool ends_repetition;                            /* whether COORDGEN_END_REPETITION was possible */
} CoordgenGenerateResult;

/* Why a request goes without drafts. */
typedef enum CoordgenSpeculationOff {
    COORDGEN_SPECULATION_ON = 0,        /* it does not, or it has not begun */
    COORDGEN_SPECULATION_SETTING = 1,   /* the service's setting, and the request says nothing else */
    COORDGEN_SPECULATION_REQUEST = 2,   /* the request wants none */
    COORDGEN_SPECULATION_NO_SOURCE = 3, /* none of the sources that it asked for is there, or found memory */
} CoordgenSpeculationOff;

/* "on", "setting", "request", "no-source". */
COORDGEN_PUBLIC const char *coordgen_speculation_off_name(int off);

/* Whether the output head ran at the rows of the prompt, for sources that learn from them, and why. */
typedef enum CoordgenPromptLearning {
    COORDGEN_PROMPT_LEARNING_NONE = 0,     /* no source does, or the request has not begun */
    COORDGEN_PROMPT_LEARNING_DECLINED = 1, /* nobody wanted it */
    COORDGEN_PROMPT_LEARNING_PAYS = 2,     /* it did: prompt_gain_us is more than prompt_cost_us */
    COORDGEN_PROMPT_LEARNING_LOSES = 3,    /* it did not */
    COORDGEN_PROMPT_LEARNING_TRIAL = 4,    /* it did: not enough is known, or it is tried again */
} CoordgenPromptLearning;

/* "none", "declined", "pays", "loses", "trial". */
COORDGEN_PUBLIC const char *coordgen_prompt_learning_name(int learning);

typedef struct CoordgenDraftSource {
    size_t struct_bytes;
    const char *name; /* "sam", "table", ...; never NULL */
    bool is_on;       /* false: the service does not have it, or it found no memory */
    uint64_t drafted_tokens;
    uint64_t accepted_tokens; /* of them */
} CoordgenDraftSource;

/* What drafts have brought a generation. A row is what the model computes for one token in a decoding step: the last
 * one's or a draft's. */
typedef struct CoordgenExplanation {
    size_t struct_bytes;
    CoordgenSpeculationOff off;
    size_t n_sources;
    const CoordgenDraftSource *const *sources; /* those that were asked for */
    size_t n_accept_lengths;
    const uint64_t *accept_lengths; /* [i]: verifications that accepted i drafts; of requests in a list: none */
    uint64_t decode_steps;
    uint64_t verifications;  /* of them, those with drafts */
    uint64_t valid_rows;     /* that gave a token */
    uint64_t wasted_rows;    /* of drafts that were wrong, or behind one that was */
    uint64_t idle_rows;      /* that the device computes beside these, up to whole tiles */
    uint64_t draft_us;       /* making drafts and learning from them */
    uint64_t head_us;        /* of steps_us: logits of the rows, and picking tokens */
    uint64_t steps_us;       /* decoding steps as a whole */
    uint64_t prompt_rows;    /* of the prompt, from whose logits the sources have learned */
    uint64_t prompt_head_us; /* that these have taken */
    CoordgenPromptLearning prompt_learning;
    uint64_t prompt_cost_us; /* what it was expected to take, and to bring; 0: not known */
    uint64_t prompt_gain_us;
    uint64_t model_passes; /* of the draft model, behind the text */
    uint64_t model_rows;   /* that these computed */
    uint64_t model_us;     /* they, and reading the text and its prompt; no part of draft_us */
    /* Of a model whose layers are read from the disk. */
    uint64_t read_bytes;   /* for the request's steps, which may share a read with other requests' */
    uint64_t read_wait_us; /* that its steps waited for them */
} CoordgenExplanation;

typedef enum CoordgenRequestState {
    COORDGEN_REQUEST_QUEUED = 1,
    COORDGEN_REQUEST_LOADING = 2, /* waits for its model */
    COORDGEN_REQUEST_PREFILL = 3, /* its prompt is being computed */
    COORDGEN_REQUEST_DECODE = 4,
    COORDGEN_REQUEST_PAUSED = 5,  /* its client reads too slowly */
    COORDGEN_REQUEST_RESTING = 6, /* has given its place up to another user's */
    COORDGEN_REQUEST_ENDED = 7,
} CoordgenRequestState;

/* "queued", "loading", "prefill", "decode", "paused", "resting", "ended". */
COORDGEN_PUBLIC const char *coordgen_request_state_name(int state);

/* A generation, of this client or another one, without any of its text. */
typedef struct CoordgenRequestInfo { /* texts are never NULL */
    size_t struct_bytes;
    uint64_t number;
    uint32_t uid;
    const char *model;
    CoordgenPriority priority;
    CoordgenRequestState state;
    const char *outcome;     /* where it has ended: how */
    uint32_t queue_position; /* where it is queued; 1: the next; 0: not known */
    uint32_t prompt_tokens;  /* 0: not known yet */
    uint32_t read_tokens;    /* of them, those that were cached or are computed */
    uint32_t output_tokens;
    uint64_t age_us; /* since it came; of one that has ended: until then */
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
    COORDGEN_MODEL_PAIR_ABSENT = 4,   /* there is no model of one of the names */
    COORDGEN_MODEL_PAIR_MISMATCH = 5, /* their tokens differ: the target goes without */
    COORDGEN_MODEL_PAIR_FAILED = 6,   /* the draft model could not be loaded: the target goes without */
} CoordgenModelPairState;

/* "idle", "loading", "ready", "absent", "mismatch", "failed". */
COORDGEN_PUBLIC const char *coordgen_model_pair_state_name(int state);

typedef struct CoordgenModelPair { /* texts are never NULL */
    size_t struct_bytes;
    const char *target;
    const char *draft; /* "": none, whatever the service's setting says */
    bool is_stored;    /* by coordgen_model_pair(); false: by the setting */
    CoordgenModelPairState state;
    const char *detail; /* why the target goes without */
} CoordgenModelPair;

typedef enum CoordgenModelDefaultBy { /* what makes a model the default */
    COORDGEN_MODEL_DEFAULT_BY_SETTING = 1,
    COORDGEN_MODEL_DEFAULT_BY_COMMAND = 2, /* coordgen_model_default() */
    COORDGEN_MODEL_DEFAULT_BY_FIRST = 3,   /* it was there before the others, and nobody has said anything */
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
    uint32_t context_tokens; /* that it was trained for; 0: not loaded; likewise the next ones */
    uint32_t vocabulary;
    uint64_t parameters;
    uint64_t weights_bytes;
    uint64_t kv_bytes_per_token;
    uint64_t file_bytes;
    const CoordgenModelPair *draft; /* what drafts for it; NULL: nothing */
    size_t n_draft_of;
    const char *const *draft_of; /* names of the models that it drafts for */
    /* 0 where all weights are in memory, or it is not loaded: */
    uint32_t layers;
    uint32_t streamed_layers;  /* of them, those that are read from the disk in each step */
    uint64_t pinned_bytes;     /* of weights that stay in memory */
    uint64_t sweep_bytes;      /* that a step reads */
    uint64_t read_bytes_per_s; /* of the reads so far, while there were any */
    const char *image; /* what became of the image of its weights: "mapped, 1704 MB", "none: " and why; for people */
    size_t n_chat_takes;
    const char *const *chat_takes;     /* of "tools" and "documents": what its chat template reads beside messages */
    CoordgenModelDefaultBy default_by; /* 0: it is not the default */
    uint32_t usable_context_tokens;    /* that prompt and output of a request may have together; 0: not loaded */
    uint32_t setting_context_tokens;   /* the service's setting context-tokens, for this model */
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
    uint64_t preemptions;            /* steps that have made way for a higher class */
    uint64_t cached_tokens;          /* of prompt_tokens */
    uint64_t prefix_cache_bytes;     /* what is kept of prompts, for the requests to come */
    uint64_t prefix_cache_max_bytes; /* 0: nothing is kept */
    uint32_t sessions;               /* open */
    /* For administrators, else 0 and "": */
    uint64_t memory_used_bytes;      /* all accounts together */
    uint64_t memory_limit_bytes;     /* of that; 0: none */
    const char *memory_limit_source; /* "set", or what it is a part of; for people */
} CoordgenStatus;

typedef struct CoordgenDraftDbUser {
    size_t struct_bytes;
    uint32_t uid;
    bool frozen;
    uint64_t documents; /* answers; each is on the disk as a whole */
    uint64_t tokens;
    uint64_t bytes;    /* that count for the limit */
    uint64_t oldest_s; /* seconds since 1970; 0: no documents */
    uint64_t newest_s;
} CoordgenDraftDbUser;

typedef struct CoordgenDraftDb {
    size_t struct_bytes;
    uint64_t documents;   /* that were forgotten, are in the export, or were added */
    uint64_t expired;     /* import: left out, for they are older than the service keeps any */
    uint64_t total_bytes; /* export */
    /* stats: limits on all users together, 0: none */
    uint64_t bytes_max;
    uint64_t documents_max;
    uint64_t age_max_s;
    /* stats, for administrators: answers since the start of the service, of all users */
    uint64_t stored;
    uint64_t dropped; /* for which there was no room */
} CoordgenDraftDb;

/* Each returns what the reply holds, or NULL / 0 when it is of another kind or NULL. All live as long as the reply.
 * n_tokensp and len_bytesp may be NULL. */
COORDGEN_PUBLIC const CoordgenGenerateResult *coordgen_reply_generate(const CoordgenReply *reply);
/* Of a generation with explain, and of coordgen_explain(). */
COORDGEN_PUBLIC const CoordgenExplanation *coordgen_reply_explanation(const CoordgenReply *reply);
COORDGEN_PUBLIC size_t coordgen_reply_n_requests(const CoordgenReply *reply); /* list, explain (1) */
COORDGEN_PUBLIC const CoordgenRequestInfo *coordgen_reply_request(const CoordgenReply *reply, size_t index);
/* How many there are beside those in the list. */
COORDGEN_PUBLIC uint32_t coordgen_reply_more_requests(const CoordgenReply *reply);
COORDGEN_PUBLIC uint64_t coordgen_reply_session(const CoordgenReply *reply); /* of an open or fork */
COORDGEN_PUBLIC const uint32_t *coordgen_reply_tokens(const CoordgenReply *reply, size_t *n_tokensp);
COORDGEN_PUBLIC size_t coordgen_reply_n_tokens(const CoordgenReply *reply); /* tokenize, also with count_only */
COORDGEN_PUBLIC const char *coordgen_reply_piece(const CoordgenReply *reply, size_t index, size_t *len_bytesp);
COORDGEN_PUBLIC const char *coordgen_reply_text(const CoordgenReply *reply, size_t *len_bytesp); /* detokenize */
COORDGEN_PUBLIC const CoordgenDraftDb *coordgen_reply_draft_db(const CoordgenReply *reply);
COORDGEN_PUBLIC size_t coordgen_reply_n_draft_db_users(const CoordgenReply *reply);
COORDGEN_PUBLIC const CoordgenDraftDbUser *coordgen_reply_draft_db_user(const CoordgenReply *reply, size_t index);
COORDGEN_PUBLIC const void *coordgen_reply_data(const CoordgenReply *reply, size_t *len_bytesp); /* export */
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
    COORDGEN_FILE_PREDICTOR = 3,
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
    const char *model; /* that it belongs to; "": none that is known */
    uint64_t bytes;    /* of the disk */
    const char *note;  /* "": nothing is to be said of it */
} CoordgenFile;

typedef struct CoordgenFileSystem {
    size_t struct_bytes;
    const char *path; /* of the folder that is on it */
    uint64_t free_bytes, size_bytes;
} CoordgenFileSystem;

COORDGEN_PUBLIC size_t coordgen_reply_n_files(const CoordgenReply *reply); /* model remove, disk, prune */
COORDGEN_PUBLIC const CoordgenFile *coordgen_reply_file(const CoordgenReply *reply, size_t index);
/* Bytes of all files, also those that the reply had no room for, which *n_morep counts (may be NULL). */
COORDGEN_PUBLIC uint64_t coordgen_reply_files_bytes(const CoordgenReply *reply, uint32_t *n_morep);
COORDGEN_PUBLIC size_t coordgen_reply_n_file_systems(const CoordgenReply *reply); /* disk */
COORDGEN_PUBLIC const CoordgenFileSystem *coordgen_reply_file_system(const CoordgenReply *reply, size_t index);
/* Pair: what will hardly be wanted of it; "": nothing, and of other replies. Never NULL. */
COORDGEN_PUBLIC const char *coordgen_reply_warning(const CoordgenReply *reply);

#ifdef __cplusplus
}
#endif

#endif
