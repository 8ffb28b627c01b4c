// SPDX-License-Identifier: Apache-2.0
/* Progress of a generation and the gain of its drafts: now if it runs, at its end for each user's last generations.
 * Numbers only, no text. Owned by the loop. */
#ifndef COORDGEN_DAEMON_EXPLANATION_H
#define COORDGEN_DAEMON_EXPLANATION_H

#include "daemon/requests/request_state.h"

enum {
    EXPLANATIONS_A_USER = 64,
    EXPLANATION_USERS_MAX = 64, /* so all take less than 4 MiB */
    EXPLANATION_MODEL_BYTES = 64,
};

typedef struct Explanation {
    uint64_t number; /* Request.serial */
    uid_t uid;
    char model[EXPLANATION_MODEL_BYTES + 1]; /* the beginning of its name */
    Priority priority;
    Coordgen__V1__RequestState state;
    const char *outcome; /* static; NULL: it has not ended */
    uint32_t queue_position;
    uint64_t age_us;
    uint32_t sources; /* asked for, as bits */
    bool by_request;  /* not by the setting */
    GenerationUsage usage;
    const DraftReport *report; /* the job's report or the table's copy; NULL: the generation has not begun */
} Explanation;

typedef struct KeptExplanation {
    Explanation it;
    DraftReport report; /* copy of the generation's report, if the generation has begun */
} KeptExplanation;

typedef struct UserExplanations {
    uid_t uid;
    uint64_t n_kept;       /* since its first; the last EXPLANATIONS_A_USER are there */
    uint64_t last_kept;    /* when, on the table's clock */
    KeptExplanation *ring; /* NULL: a free place */
} UserExplanations;

typedef struct ExplanationTable {
    uint64_t clock; /* how many were kept */
    UserExplanations users[EXPLANATION_USERS_MAX];
} ExplanationTable; /* zero is empty */

/* Describes a generation as it is now. outcome: a static text if it ends now, else NULL. */
void explanation_of(Explanation *explanation, const Request *request, const char *outcome);
/* Keeps an explanation in place of the user's oldest one. With too many users, the user without a new explanation for
 * longest loses all. Without memory nothing is kept. */
void explanation_keep(ExplanationTable *table, const Explanation *explanation);
/* Finds a kept explanation; uid NULL: of any user. NULL: not kept, or not any more. */
const Explanation *explanation_find(const ExplanationTable *table, uint64_t number, const uid_t *uid);
void explanation_table_deinit(ExplanationTable *table);

/* explanation_message.c: its messages, whose texts and numbers are the explanation's. */
typedef struct ExplanationMessage {
    Coordgen__V1__RequestInfo info;
    Coordgen__V1__Explanation explanation; /* the member that info points to */
    Coordgen__V1__DraftSource sources[_SPECULATION_N];
    Coordgen__V1__DraftSource *source_list[_SPECULATION_N];
    uint64_t lengths[DRAFT_ROWS_MAX];
} ExplanationMessage;

void explanation_message(ExplanationMessage *message, const Explanation *explanation, bool with_lengths);
Coordgen__V1__Priority explanation_priority(Priority priority);

#endif
