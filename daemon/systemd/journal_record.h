// SPDX-License-Identifier: Apache-2.0
/* The record of a request in the journal. */
#ifndef COORDGEN_DAEMON_JOURNAL_RECORD_H
#define COORDGEN_DAEMON_JOURNAL_RECORD_H

#include <stdint.h>
#include <sys/types.h>

/* Sizes and times of a finished request, never its text. */
typedef struct RequestRecord {
    uint64_t serial;
    uid_t uid;
    const char *operation;
    const char *model;
    const char *outcome;  /* "stop", "cancelled", an error code: a constant, whose address tells lines apart */
    const char *priority; /* "interactive", ...; NULL: it has none */
    uint32_t n_prompt_tokens;
    uint32_t n_output_tokens;
    uint64_t first_token_us; /* 0: none */
    uint64_t total_us;
} RequestRecord;

#endif
