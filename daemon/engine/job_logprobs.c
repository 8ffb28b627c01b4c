// SPDX-License-Identifier: Apache-2.0
#include "daemon/engine/job_logprobs.h"

#include <errno.h>
#include <stdlib.h>

#include "base/min_max.h"

/* Makes room for one token's entries. 0 or -ENOMEM. */
static int grow(JobLogprobs *logprobs) {
    const size_t wanted = logprobs->n + JOB_LOGPROBS_ENTRIES_MAX, room = MAX(wanted, 2 * logprobs->room);
    JobLogprob *entries;

    if (wanted <= logprobs->room)
        return 0;
    entries = reallocarray(logprobs->entries, room, sizeof(*entries));
    if (!entries)
        return err_raise(-ENOMEM);
    logprobs->entries = entries;
    logprobs->room = room;
    return 0;
}

static void add(JobLogprobs *logprobs, const Tokenizer *tokenizer, Logprob one) {
    (void)tokenizer_piece(tokenizer, one.token, true, &logprobs->pieces); /* padding of a vocabulary has no bytes */
    logprobs->entries[logprobs->n++] = (JobLogprob){ one, logprobs->pieces.len_bytes };
}

int job_logprobs_add(JobLogprobs *logprobs, const Tokenizer *tokenizer, const TokenLogprobs *token) {
    int r = grow(logprobs);

    if (r)
        return r;
    add(logprobs, tokenizer, token->chosen);
    for (uint32_t i = 0; i < token->n_top; i++)
        add(logprobs, tokenizer, token->top[i]);
    return str_buf_failed(&logprobs->pieces) ? -ENOMEM : 0;
}

void job_logprobs_deinit(JobLogprobs *logprobs) {
    free(logprobs->entries);
    str_buf_deinit(&logprobs->pieces);
    *logprobs = (JobLogprobs){ 0 };
}
