// SPDX-License-Identifier: Apache-2.0
#include "daemon/requests/explanation.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/min_max.h"
#include "base/strings/utf8.h"
#include "daemon/engine/job_choices.h"

static_assert(sizeof(KeptExplanation) * EXPLANATIONS_A_USER * EXPLANATION_USERS_MAX <= 4 << 20,
              "what all take is bounded");

/* Returns the wire state of a generation that has not ended. */
static Coordgen__V1__RequestState state_of(const Request *request) {
    if (!request_is_submitted(request))
        return model_can_serve(request->model) ? COORDGEN__V1__REQUEST_STATE__REQUEST_STATE_QUEUED
                                               : COORDGEN__V1__REQUEST_STATE__REQUEST_STATE_LOADING;
    if (request_is_resting(request))
        return COORDGEN__V1__REQUEST_STATE__REQUEST_STATE_RESTING;
    if (request_is_paused(request))
        return COORDGEN__V1__REQUEST_STATE__REQUEST_STATE_PAUSED;
    return request->answer.usage.n_output_tokens ? COORDGEN__V1__REQUEST_STATE__REQUEST_STATE_DECODE
                                                 : COORDGEN__V1__REQUEST_STATE__REQUEST_STATE_PREFILL;
}

void explanation_of(Explanation *explanation, const Request *request, const char *outcome) {
    const uint64_t now_ns = clock_now_ns();

    *explanation = (Explanation){
        .number = request->serial,
        .uid = request->user->uid,
        .priority = request->job.generate.priority,
        .state = outcome ? COORDGEN__V1__REQUEST_STATE__REQUEST_STATE_ENDED : state_of(request),
        .outcome = outcome,
        .queue_position = request_is_waiting(request) && !outcome ? request->progress.queue_position : 0,
        .age_us = now_ns > request->times.received_ns ? (now_ns - request->times.received_ns) / 1000 : 0,
        .sources = request->job.generate.options.speculation.sources,
        .by_request = request->input.chose_speculation,
        .usage = request->answer.usage,
        .report = request->answer.usage.n_prompt_tokens ? job_report((Job *)(uintptr_t)&request->job) : NULL,
    };
    snprintf(explanation->model, sizeof(explanation->model), "%.*s",
             UTF8_PREFIX(request->model->name, EXPLANATION_MODEL_BYTES));
}

/* Finds a place: the user's own, else a free one, else the place of the user whose last explanation is the oldest. */
static UserExplanations *place_for(ExplanationTable *table, uid_t uid) {
    UserExplanations *place = &table->users[0];

    for (size_t i = 0; i < EXPLANATION_USERS_MAX; i++) {
        UserExplanations *user = &table->users[i];

        if (user->ring && user->uid == uid)
            return user;
        if (place->ring && (!user->ring || user->last_kept < place->last_kept))
            place = user;
    }
    if (!place->ring)
        place->ring = calloc(EXPLANATIONS_A_USER, sizeof(*place->ring));
    place->uid = uid;
    place->n_kept = 0;
    return place;
}

void explanation_keep(ExplanationTable *table, const Explanation *explanation) {
    UserExplanations *user = place_for(table, explanation->uid);
    KeptExplanation *kept;

    if (!user->ring)
        return;
    kept = &user->ring[user->n_kept++ % EXPLANATIONS_A_USER];
    kept->it = *explanation;
    if (explanation->report) {
        kept->report = *explanation->report;
        kept->it.report = &kept->report;
    }
    user->last_kept = ++table->clock;
}

const Explanation *explanation_find(const ExplanationTable *table, uint64_t number, const uid_t *uid) {
    for (size_t i = 0; i < EXPLANATION_USERS_MAX; i++) {
        const UserExplanations *user = &table->users[i];
        const uint64_t n = MIN(user->n_kept, EXPLANATIONS_A_USER);

        if (!user->ring || (uid && user->uid != *uid))
            continue;
        for (uint64_t at = 0; at < n; at++)
            if (user->ring[at].it.number == number)
                return &user->ring[at].it;
    }
    return NULL;
}

void explanation_table_deinit(ExplanationTable *table) {
    for (size_t i = 0; i < EXPLANATION_USERS_MAX; i++)
        free(table->users[i].ring);
    *table = (ExplanationTable){ 0 };
}
