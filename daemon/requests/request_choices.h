// SPDX-License-Identifier: Apache-2.0
/* How each of several answers ended, for the last message of a request. */
#ifndef COORDGEN_DAEMON_REQUEST_CHOICES_H
#define COORDGEN_DAEMON_REQUEST_CHOICES_H

#include "daemon/engine/job_choices.h"
#include "daemon/requests/request_state.h"

typedef struct ChoiceMessages {
    Coordgen__V1__ChoiceEnd ends[JOB_CHOICES_MAX];
    Coordgen__V1__ChoiceEnd *list[JOB_CHOICES_MAX];
} ChoiceMessages;

/* Fills in done's choices, whose memory is *messages, if the request has set n. end: of the request. Thread: loop. */
void request_fill_choices(const Request *request, GenerationEnd end, ChoiceMessages *messages,
                          Coordgen__V1__GenerateDone *done);
/* Returns a generation's end as the protocol names it. */
Coordgen__V1__EndReason request_end_reason(GenerationEnd end);

#endif
