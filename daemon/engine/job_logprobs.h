// SPDX-License-Identifier: Apache-2.0
/* Log probabilities of an answer's tokens on their way from the engine thread to the loop. The bytes of tokens come
 * with them, because the loop does not use a model's tokenizer. */
#ifndef COORDGEN_DAEMON_JOB_LOGPROBS_H
#define COORDGEN_DAEMON_JOB_LOGPROBS_H

#include "base/strings/str_buf.h"
#include "engine/sampling/logprobs.h"
#include "text/tokenizer/tokenizer.h"

typedef struct JobLogprob {
    Logprob it;
    size_t piece_end; /* end of the token's bytes in `pieces`; they begin where the entry before ends */
} JobLogprob;

/* For each token one entry, and one for each of its most probable tokens behind that. */
typedef struct JobLogprobs {
    JobLogprob *entries; /* [n] */
    size_t n;
    size_t room;
    StrBuf pieces;
} JobLogprobs;

/* Most entries of one token. */
#define JOB_LOGPROBS_ENTRIES_MAX (1 + LOGPROBS_TOP_MAX)

/* Adds the entries of one token. 0 or -ENOMEM. */
int job_logprobs_add(JobLogprobs *logprobs, const Tokenizer *tokenizer, const TokenLogprobs *token);
void job_logprobs_deinit(JobLogprobs *logprobs);

#endif
