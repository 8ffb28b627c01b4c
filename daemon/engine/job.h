// SPDX-License-Identifier: Apache-2.0
/* A job that the loop hands to the engine thread, and the news that come back. */
#ifndef COORDGEN_DAEMON_JOB_H
#define COORDGEN_DAEMON_JOB_H

#include <stdatomic.h>

#include "base/queue.h"
#include "daemon/engine/job_logprobs.h"
#include "daemon/history/draft_errand.h"
#include "engine/draft/draft_timeline.h"
#include "engine/engine.h"
#include "engine/generation.h"
#include "scheduler/requests/priority.h"

typedef enum JobKind {
    JOB_GENERATE,
    JOB_TOKENIZE,
    JOB_DETOKENIZE,
    JOB_LOAD, /* owner: the model; a request owns the jobs above */
    JOB_UNLOAD,
    JOB_SESSION_FORK, /* owner: the session */
    JOB_SESSION_CLOSE,
} JobKind;

enum {                 /* how a job ended: JobNews.result */
    JOB_E_EMPTY = 1,   /* the prompt has no token */
    JOB_E_TOO_LONG,    /* the prompt does not fit the context or the limit on prompts */
    JOB_E_MEMORY,      /* a memory limit is reached */
    JOB_E_SHARE,       /* this user's share of the memory for generations is reached */
    JOB_E_OPTIONS,     /* an option that the engine refuses */
    JOB_E_ROLE,        /* messages that the chat template refuses */
    JOB_E_TOOLS,       /* tools that are no JSON, or that the chat template ignores */
    JOB_E_DOCUMENTS,   /* documents that are no JSON, or that the chat template ignores */
    JOB_E_KWARGS,      /* variables that the chat template never reads */
    JOB_E_THINKING,    /* a limit on the thinking of a model that has none */
    JOB_E_NO_TEMPLATE, /* chat messages for a model without a template */
    JOB_E_TOKEN,       /* no such token id */
    JOB_E_NO_INFILL,   /* a suffix for a model that cannot fill in */
    JOB_E_CANCELLED,
    JOB_E_MODEL,    /* a model file that is corrupt or not supported */
    JOB_E_ANSWER,   /* the answer does not fit a message */
    JOB_E_COMPLEX,  /* the constraint's grammar is too complex behind the answer so far */
    JOB_E_DEAD_END, /* no token of the model goes on with the constraint's text */
    JOB_E_PREFIX,   /* the constraint does not allow the text with which the answer begins */
    JOB_E_SHORT,    /* max_tokens leaves no room for a whole text of the constraint */
};

#define JOB_CALL_ID_BYTES 9 /* of ids that the service makes: the length that Mistral's templates demand */

/* A piece of a call, with copies of its texts, which are NUL-terminated. */
typedef struct JobCall {
    uint32_t index;
    char *name; /* first piece of a call; else NULL */
    char *id;   /* with the name; NULL until the loop has made one, if the model wrote none */
    char own_id[JOB_CALL_ID_BYTES + 1];
    size_t arguments_bytes;
    char texts[]; /* the arguments, then name and id */
} JobCall;

/* End of one step's part in JobNews.text and .tokens; in a tokenizer's answer: end of one token's bytes. */
typedef struct JobMark {
    size_t text_end;
    size_t tokens_end;
    size_t logprobs_end; /* of entries */
    AnswerPart part;
    JobCall *call;   /* ANSWER_CALL, unless the part has tokens alone; owned */
    uint32_t choice; /* which of the answers */
} JobMark;

/* The counts of a prompt that is refused with JOB_E_TOO_LONG; 0: not counted. */
typedef struct JobTooLong {
    uint32_t n_tokens, limit_tokens;
} JobTooLong;

/* News of a job that the loop has not seen yet. Built under the outbox's lock; the loop takes and frees them whole. */
typedef struct JobNews {
    bool started;
    uint64_t started_ns;
    uint32_t context_tokens; /* effective limit on prompt and output */
    GenerationUsage usage;
    StrBuf text;
    TokenList tokens;
    JobLogprobs logprobs;
    JobMark *marks;
    size_t n_marks;
    size_t marks_room;
    GenerationEnd end;
    Engine *engine;    /* JOB_LOAD: passes to the loop, before `done` if weights are still on their way */
    uint32_t permille; /* JOB_LOAD: part of the weights that has arrived */
    bool done;         /* the engine thread has released the job */
    int result;        /* 0, JOB_E_*, -errno */
    ErrText err;
    JobTooLong too_long;
} JobNews;

/* The parts of a job by its kinds. The loop prepares them, and they are const until the job is done, if they do not say
 * otherwise. A job has all of them, for the queue asks every job for its class; the parts of other kinds are zero. */

typedef struct JobInput { /* JOB_GENERATE, JOB_TOKENIZE */
    ChatInput chat;       /* n_messages > 0, or the text */
    const char *text;
    size_t text_bytes;
    const uint32_t *tokens; /* [n_tokens] instead of messages and text, if n_tokens > 0 */
    size_t n_tokens;
    const char *suffix; /* text behind the gap that the answer fills; NULL: none */
    size_t suffix_bytes;
    unsigned int tokenize_flags; /* TokenizeFlags */
    bool count_only;             /* JOB_TOKENIZE: only the number of tokens */
    bool render_only;            /* JOB_TOKENIZE of messages: the rendered text instead of tokens */
    CallChoice calls;            /* JOB_GENERATE: calls of the chat's tools; the name points into the message */
    bool splits;                 /* JOB_GENERATE: thinking and calls are parts of their own */
} JobInput;

/* A text of a request for vectors, as text or as token ids. */
typedef struct JobText {
    const char *text;
    size_t text_bytes;
    const uint32_t *tokens; /* [n_tokens] */
    size_t n_tokens;
} JobText;

typedef struct JobTexts { /* JOB_GENERATE: texts whose vectors are wanted, instead of an answer */
    JobText *list;        /* [n]: the owner's, const; texts point into its memory */
    size_t n;             /* 0: an answer is wanted */
    bool takes_model_pooling;
} JobTexts;

typedef struct Job Job;
typedef struct JobChoices JobChoices; /* job_choices.h */
typedef struct JobVectors JobVectors; /* job_vectors.h */

typedef struct JobGenerate {    /* JOB_GENERATE: what the request asks for */
    Engine *draft_engine;       /* engine of the draft model; NULL: none */
    DraftPair **draft_pairp;    /* with draft_engine: pair that generations share; the first one makes it */
    GenerationOptions options;  /* stops point into the owner's memory; the engine thread settles sampler */
    SamplingChoice sampling;    /* the request's; the engine thread fills in the model's defaults */
    uint32_t sampling_fields;   /* bits 1 << SamplingField: set by the request */
    bool samples_as_model;      /* other fields come from the model */
    uint32_t prompt_max_tokens; /* 0: no limit but the context */
    uint32_t n;                 /* answers; 0 counts as 1 */
    bool echo;                  /* each answer begins with the prompt's text */
    bool want_tokens;
    bool keeps_history; /* drafts may use the user's earlier answers, and this answer is stored */
    Priority priority;
    uint64_t ageing_ns; /* waiting time that raises the class by one */
} JobGenerate;

typedef struct JobRun {      /* JOB_GENERATE: the engine thread's */
    uint64_t waits_since_ns; /* start of the time without rows in a step */
    DraftErrand *errand;     /* has the answer so far, to be stored at a good end; NULL: not stored */
    DraftModel draft_model;  /* drafts of draft_engine for this generation */
    DraftReport report;      /* others read it after the news about the prompt */
    ThinkingPlace place;     /* where the prompt ends */
    Generation *generation;  /* also the loop's under the outbox's lock, to cancel it */
    CallTools *tools;        /* for the parser of calls; NULL: none */
    JobChoices *choices;     /* of a request with several answers, from its first turn on; written under the outbox's
                              * lock; else NULL */
    Job *asked;              /* of a further answer: the request's own job, which has the first answer; else NULL */
    uint32_t choice;         /* which of the answers; from 0 */
    size_t text;             /* of a lane: the text whose vector it computes */
    JobVectors *vectors;     /* of a request for vectors, from its first turn on; the loop's once the job is done */
} JobRun;

typedef struct JobDetokenize { /* JOB_DETOKENIZE */
    const uint32_t *tokens;
    size_t n_tokens;
    bool with_special;
} JobDetokenize;

typedef struct JobLoad {    /* JOB_LOAD */
    EngineOptions options;  /* pool is the engine thread's */
    uint32_t told_permille; /* engine thread: progress that was reported */
} JobLoad;

typedef struct JobPins { /* JOB_SESSION_* */
    PrefixCache *cache;  /* of the pins */
    PrefixPin *pin;
    const PrefixPin *from; /* JOB_SESSION_FORK */
} JobPins;

struct Job {
    JobKind kind;   /* const */
    void *owner;    /* loop; const */
    Engine *engine; /* prepared by the loop; of a load, the engine thread's */
    JobInput input;
    JobTexts texts;
    JobGenerate generate;
    JobRun run;
    JobDetokenize detokenize;
    JobLoad load;
    JobPins pins;

    _Atomic bool cancelled; /* loop sets, engine thread reads; of several answers, also by the engine thread */
    _Atomic bool paused;    /* loop sets and clears: the client reads too slowly, no step is computed */
    _Atomic uint32_t width; /* loop sets: how many of its answers may run at a time; 0: all */
    TAILQ_ENTRY(Job) link;  /* inbox: its lock; active list: engine thread */

    /* Under the outbox's lock. */
    JobNews news;
    bool posted;
    STAILQ_ENTRY(Job) outbox_link;
};

TAILQ_HEAD(JobList, Job);
typedef struct JobList JobList;

/* Engine thread: tokenizes the prompt or the text. 0, JOB_E_*, -errno. */
int job_encode(const Job *job, TokenList *list, ErrText *err);
/* Engine thread: renders the messages of a JOB_TOKENIZE. 0, JOB_E_*, -errno. */
int job_render(const Job *job, StrBuf *text, ErrText *err);
/* Engine thread: fills in the source of model drafts for a generation that begins: a draft model, or the model's own
 * layers in memory. Without memory the generation gets none. */
void job_begin_draft(Job *job, size_t n_prompt, GenerationOptions *options);
void job_end_draft(Job *job); /* after the generation is freed; there may have been no draft */
/* Adds a mark of answer 0 at the present end of text and tokens. call: copied; may be NULL. 0 or
 * -ENOMEM. */
int job_news_mark(JobNews *news, AnswerPart part, const CallPiece *call);
/* Engine thread: appends the prompt's text, of a prompt of ids without those of control tokens. 0 or -ENOMEM. */
int job_prompt_text(const Job *job, const TokenList *prompt, StrBuf *text);
/* Appends a text to the answer of a choice, in marks of whole characters that each fit a message. 0 or -ENOMEM. */
int job_news_echo(JobNews *news, const StrBuf *text, uint32_t choice);
void job_news_deinit(JobNews *news); /* does not free the engine */

#endif
