// SPDX-License-Identifier: Apache-2.0
/* What the loop hands to the engine thread, and the news that come back. */
#ifndef COORDGEN_DAEMON_JOB_H
#define COORDGEN_DAEMON_JOB_H

#include <stdatomic.h>

#include "base/queue.h"
#include "daemon/history/draft_errand.h"
#include "engine/draft/draft_timeline.h"
#include "engine/engine.h"
#include "engine/generation.h"
#include "scheduler/priority.h"

typedef enum JobKind {
    JOB_GENERATE,
    JOB_TOKENIZE,
    JOB_DETOKENIZE,
    JOB_LOAD, /* owner: the model; the others: a request */
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
    JOB_E_TOOLS,       /* tools or documents that are no JSON, or that the chat template ignores */
    JOB_E_NO_TEMPLATE, /* chat messages for a model without a template */
    JOB_E_TOKEN,       /* no such token id */
    JOB_E_CANCELLED,
    JOB_E_MODEL,  /* a model file that is corrupt or not supported */
    JOB_E_ANSWER, /* the answer does not fit a message */
};

/* Where one step's part ends in JobNews.text and .tokens; of a tokenizer's answer: where one token's bytes end. */
typedef struct JobMark {
    size_t text_end;
    size_t tokens_end;
} JobMark;

/* What the loop has not seen yet. Built under the outbox's lock, taken whole by the loop, which frees it. */
typedef struct JobNews {
    bool started;
    uint64_t started_ns;
    uint32_t context_tokens; /* cap that took effect */
    GenerationUsage usage;
    StrBuf text;
    TokenList tokens;
    JobMark *marks;
    size_t n_marks;
    size_t marks_room;
    GenerationEnd end;
    Engine *engine;    /* JOB_LOAD: the loop's from here on, before `done` when weights are still on their way */
    uint32_t permille; /* JOB_LOAD: of the weights are there */
    bool done;         /* the engine thread has let go of the job */
    int result;        /* 0, JOB_E_*, -errno */
    ErrText err;
} JobNews;

typedef struct Job Job;
struct Job {
    JobKind kind; /* const */
    void *owner;  /* loop; const */

    /* Input: prepared by the loop, const until done. */
    Engine *engine;
    Engine *draft_engine; /* JOB_GENERATE: of the model that drafts for engine's, compared with it; NULL: none does */
    DraftPair **draft_pairp;     /* with it: of the two, which generations share; the first one makes it */
    const ChatMessage *messages; /* n_messages > 0, or text */
    size_t n_messages;
    int64_t now_s;             /* with messages: when the request came, for templates that write the date */
    const char *tools;         /* with messages: JSON; NULL: none */
    const char *documents;     /* likewise */
    bool no_generation_prompt; /* with messages: nothing behind the last one */
    const char *text;
    size_t text_bytes;
    unsigned int tokenize_flags; /* TokenizeFlags */
    bool count_only;             /* JOB_TOKENIZE: the tokens, not what each stands for */
    const uint32_t *tokens;
    size_t n_tokens;
    bool with_special;
    GenerationOptions generation_options; /* stops point into the owner's memory; the engine thread settles sampler */
    SamplingChoice sampling;              /* of the request; then the engine thread's, with the model's defaults */
    uint32_t sampling_fields;             /* bits 1 << SamplingField: those that the request sets */
    bool samples_as_model;                /* the others are the model's */
    uint32_t prompt_max_tokens;           /* 0: no limit but the context */
    bool want_tokens;
    bool keeps_history; /* JOB_GENERATE: drafts may come from the user's earlier answers, and this one is stored */
    Priority priority;
    uint64_t ageing_ns;        /* JOB_GENERATE: of waiting make it count as one class more */
    PrefixCache *prefix_cache; /* JOB_SESSION_*: of the pins */
    PrefixPin *pin;
    const PrefixPin *pin_from;    /* JOB_SESSION_FORK */
    EngineOptions engine_options; /* JOB_LOAD; pool is the engine thread's */

    _Atomic bool cancelled; /* loop sets, engine thread reads */
    _Atomic bool paused;    /* loop sets and clears: the client reads too slowly, no step is computed */

    uint32_t told_permille;  /* engine thread: of a load */
    uint64_t waits_since_ns; /* engine thread: since when it has had no rows in a step */
    DraftErrand *answer;     /* engine thread: what it has said, which is stored if it ends well; NULL: nothing is */
    DraftModel draft_model;  /* engine thread: of draft_engine, of this generation alone */
    DraftReport report;      /* engine thread fills it; others read it once news have said what the prompt has */
    Generation *running;     /* engine thread; loop under the outbox's lock, to cancel it */
    TAILQ_ENTRY(Job) link;   /* inbox: its lock; active list: engine thread */

    /* Under the outbox's lock. */
    JobNews news;
    bool posted;
    STAILQ_ENTRY(Job) outbox_link;
};

TAILQ_HEAD(JobList, Job);
typedef struct JobList JobList;

/* Engine thread: the prompt's or the text's tokens. 0, JOB_E_*, -errno. */
int job_encode(const Job *job, TokenList *list, ErrText *err);
/* Engine thread: what drafts for the generation that is to begin, in its options: a draft model of its own, or its own
 * model's layers in memory; without memory it goes without. */
void job_begin_draft(Job *job, size_t n_prompt, GenerationOptions *options);
void job_end_draft(Job *job); /* its generation is freed; there may be none */
/* Adds a mark after what text and tokens hold now. 0 or -ENOMEM. */
int job_news_mark(JobNews *news);
void job_news_deinit(JobNews *news); /* not the engine */

#endif
