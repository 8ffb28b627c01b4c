// SPDX-License-Identifier: Apache-2.0
/* Replies of libcoordgen-client: what the service has answered. Included by coordgen-client.h. */
#ifndef COORDGEN_CLIENT_REPLIES_H
#define COORDGEN_CLIENT_REPLIES_H

#ifndef COORDGEN_CLIENT_H
#error "include <coordgen-client.h>"
#endif

/* ---- replies ----------------------------------------------------------------------------------------------------- */

COORDGEN_PUBLIC CoordgenReply *coordgen_reply_ref(CoordgenReply *reply);
COORDGEN_PUBLIC CoordgenReply *coordgen_reply_unref(CoordgenReply *reply); /* NULL is fine; returns NULL */

COORDGEN_PUBLIC int coordgen_reply_error(const CoordgenReply *reply); /* 0 or a CoordgenError */
COORDGEN_PUBLIC const char *coordgen_reply_message(const CoordgenReply *reply);
COORDGEN_PUBLIC const char *coordgen_reply_field(const CoordgenReply *reply);
COORDGEN_PUBLIC uint32_t coordgen_reply_retry_after_ms(const CoordgenReply *reply);
/* COORDGEN_E_CONTEXT_FULL: returns the tokens of the prompt, and sets *limitp (may be NULL) to those that the context
 * or the limit on prompts has. Both are 0 if they are unknown, and for other replies. */
COORDGEN_PUBLIC uint32_t coordgen_reply_too_long(const CoordgenReply *reply, uint32_t *limitp);

typedef enum CoordgenEndReason {
    COORDGEN_END_NONE = 0,  /* the request failed */
    COORDGEN_END_TOKEN = 1, /* the model ended its turn */
    COORDGEN_END_STOP = 2,  /* a stop string */
    COORDGEN_END_MAX_TOKENS = 3,
    COORDGEN_END_CONTEXT_FULL = 4,
    COORDGEN_END_CANCELLED = 5,
    COORDGEN_END_REPETITION = 6,  /* the answer repeated itself over and over */
    COORDGEN_END_TOOL_CALLS = 7,  /* the model ended its turn with calls of tools */
    COORDGEN_END_NO_MEMORY = 8,   /* of several answers: this one had no memory for its constraint, others went on */
    COORDGEN_END_TOO_COMPLEX = 9, /* of several answers: what may follow this one was not found, others went on */
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

/* The answer of one choice, if the request set n. */
typedef struct CoordgenChoice {
    const char *text;
    size_t text_bytes;
    const char *reasoning;
    const CoordgenToolCall *tool_calls;
    size_t n_tool_calls;
    CoordgenEndReason end_reason;
    uint32_t output_tokens;
    uint32_t reasoning_tokens;
    uint32_t incomplete_bytes;
    bool ended_in_time;
    uint64_t seed;
} CoordgenChoice;

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
    bool ended_in_time;                              /* the constraint took the shortest way to a whole text */
    uint32_t reasoning_tokens;                       /* tokens of thinking, part of output_tokens */
    const char *reasoning;                           /* the thinking; "" if there was none */
    const CoordgenToolCall *tool_calls;              /* [n_tool_calls] whole calls, in their order */
    size_t n_tool_calls;
    /* If n was set: all answers, [n_choices]; texts above are the first one's, and counts are sums. */
    const CoordgenChoice *choices;
    size_t n_choices;
    const CoordgenSamplingOptions *more_sampling; /* further options in effect; NULL: the request failed */
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
    uint64_t file_time_s;              /* last change of its file, in seconds since 1970; 0: unknown */
    uint32_t embedding_values;         /* values of a vector of a text; 0: not loaded */
} CoordgenModel;

/* Sampling options of a request that sets none. */
typedef struct CoordgenSamplingDefaults {
    size_t struct_bytes;
    float temperature; /* 0: greedy */
    uint32_t top_k;
    float top_p;
    float min_p;
    float repetition_penalty;
    uint32_t repetition_window;
} CoordgenSamplingDefaults;

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
COORDGEN_PUBLIC const char *coordgen_reply_text(const CoordgenReply *reply,
                                                size_t *len_bytesp);            /* detokenize, rendered */
COORDGEN_PUBLIC size_t coordgen_reply_n_embeddings(const CoordgenReply *reply); /* one for each text */
/* Returns the vector of a text, float[*n_valuesp], as long as the reply lives; NULL: there is none. */
COORDGEN_PUBLIC const float *coordgen_reply_embedding(const CoordgenReply *reply, size_t index, size_t *n_valuesp);
/* Returns the number of tokens of a text. */
COORDGEN_PUBLIC uint32_t coordgen_reply_embedding_tokens(const CoordgenReply *reply, size_t index);
/* Returns the name of the model that made the vectors; "" if the reply has none. */
COORDGEN_PUBLIC const char *coordgen_reply_embedding_model(const CoordgenReply *reply);
/* Returns how the vectors were made: a CoordgenPooling; 0: the reply has none. */
COORDGEN_PUBLIC int coordgen_reply_pooling(const CoordgenReply *reply);
COORDGEN_PUBLIC const char *coordgen_pooling_name(int pooling); /* "mean", "last", "cls" */
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
/* Return what coordgen_model_show() tells of a loaded model: the text of its chat template, and the sampling options of
 * a request that sets none. NULL: there is none, or the model is not loaded. */
COORDGEN_PUBLIC const char *coordgen_reply_chat_template(const CoordgenReply *reply, size_t *len_bytesp);
COORDGEN_PUBLIC const CoordgenSamplingDefaults *coordgen_reply_sampling_defaults(const CoordgenReply *reply);
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

#endif
