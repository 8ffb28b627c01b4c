// SPDX-License-Identifier: Apache-2.0
/* What a generation has come to, and what drafts have brought it: of one that runs as it is now, of each user's last
 * ones as they ended. Numbers only, no text. Owned by the loop. */
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
    const DraftReport *report; /* of the job, or of the table; NULL: the generation has not begun */
} Explanation;

typedef struct KeptExplanation {
    Explanation it;
    DraftReport report; /* of it, where it has begun */
} KeptExplanation;

typedef struct UserExplanations {
    uid_t uid;
    uint64_t n_kept;       /* since its first; the last EXPLANATIONS_A_USER are there */
    uint64_t last_kept;    /* when, on the table's clock */
    KeptExplanation *ring; /* NULL: nobody's */
} UserExplanations;

typedef struct ExplanationTable {
    uint64_t clock; /* how many were kept */
    UserExplanations users[EXPLANATION_USERS_MAX];
} ExplanationTable; /* zero is empty */

/* A generation as it is; outcome: a static text where it ends now, or NULL. */
void explanation_of(Explanation *explanation, const Request *request, const char *outcome);
/* Makes way: the user's oldest, and where there are too many users all of the one who has had none for longest. Without
 * memory it is not kept. */
void explanation_keep(ExplanationTable *table, const Explanation *explanation);
/* uid NULL: of all users. NULL: it is not kept (any more). */
const Explanation *explanation_find(const ExplanationTable *table, uint64_t number, const uid_t *uid);
void explanation_table_deinit(ExplanationTable *table);

/* explanation_message.c: its messages, whose texts and numbers are the explanation's. */
typedef struct ExplanationMessage {
    Coordgen__V1__RequestInfo info;
    Coordgen__V1__Explanation explanation; /* of info */
    Coordgen__V1__DraftSource sources[_SPECULATION_N];
    Coordgen__V1__DraftSource *source_list[_SPECULATION_N];
    uint64_t lengths[DRAFT_ROWS_MAX];
} ExplanationMessage;

void explanation_message(ExplanationMessage *message, const Explanation *explanation, bool with_lengths);
Coordgen__V1__Priority explanation_priority(Priority priority);

#endif
