// SPDX-License-Identifier: Apache-2.0
/* Counts of requests and tokens since the start: in all, and for each user. Owned by the loop. */
#ifndef COORDGEN_DAEMON_TALLY_H
#define COORDGEN_DAEMON_TALLY_H

#include <stdint.h>
#include <sys/types.h>

typedef enum TallyOutcome {
    TALLY_DONE,
    TALLY_CANCELLED,
    TALLY_FAILED,
    _TALLY_N,
} TallyOutcome;

typedef struct Tally {
    uid_t uid;
    uint64_t n_requests[_TALLY_N];
    uint64_t n_prompt_tokens;
    uint64_t n_cached_tokens; /* part of n_prompt_tokens */
    uint64_t n_output_tokens;
} Tally;

typedef struct TallyTable {
    Tally all;
    void *users; /* a tree of tsearch(3) */
} TallyTable;

void tally_table_deinit(TallyTable *table);
/* Counts a request of this user that has ended. Without memory for a new user only the sum counts the request. */
void tally_note(TallyTable *table, uid_t uid, TallyOutcome outcome, uint32_t n_prompt_tokens, uint32_t n_cached_tokens,
                uint32_t n_output_tokens);
Tally tally_of(const TallyTable *table, uid_t uid);

#endif
