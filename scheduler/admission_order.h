// SPDX-License-Identifier: Apache-2.0
/* Who of those that wait goes before whom: the highest class, with what waiting has added to it; in a class the user
 * with fewer generations at work, so that users take turns however many requests each has; of equals the one that came
 * first. */
#ifndef COORDGEN_SCHEDULER_ADMISSION_ORDER_H
#define COORDGEN_SCHEDULER_ADMISSION_ORDER_H

#include "daemon/requests/request_state.h"

/* The class that a request counts as by now. */
Priority admission_rank(const Request *request, uint64_t now_ns);
/* Fills queue_position of all that wait, by queue_link: 1 is the next. Where memory is short they stay as they were. */
void admission_number(const RequestList *waiting, unsigned int n_waiting, uint64_t now_ns);
PlaceKind admission_kind(const Request *request); /* which places a generation takes */

#endif
