// SPDX-License-Identifier: Apache-2.0
/* What one mode brought in one task: sums over its requests, and the figures that follow from them. */
#ifndef COORDGEN_BENCH_SPEC_SCORE_H
#define COORDGEN_BENCH_SPEC_SCORE_H

#include "tools/bench/speculation/spec_answer.h"

enum {
    SPEC_WINDOW = 64 /* tokens over which the service's control bounds what drafts may lose */
};

typedef struct SpecSpeed {
    uint64_t n_decoded; /* tokens by decoding steps, end tokens among them */
    uint64_t prefill_ns, decode_ns;
} SpecSpeed;

/* Embedded; begins as zero. */
typedef struct SpecScore {
    const char *mode, *task;
    size_t n_requests;
    uint64_t n_prompt, n_output; /* tokens */
    SpecSpeed own, plain;        /* plain decoding of the same requests may have been asked for fewer tokens */
    uint64_t n_steps, n_rows, n_rows_idle;
    uint64_t draft_ns, head_ns, prompt_head_ns;
    uint64_t model_ns, step_ns;     /* of decoding: a draft model's, and of its steps with all drafting */
    uint64_t flash_bytes, flash_ns; /* read of streamed layers while decoding, and while reads were under way */
    uint64_t draft_bytes;           /* the most of any request */
    double lowest_window;           /* see spec_lowest_window(); 0: no answer was long enough */
    uint64_t drafted[_SPECULATION_N], accepted[_SPECULATION_N];
} SpecScore;

/* Adds an answer, beside plain decoding's answer to the same request. */
void spec_score_add(SpecScore *score, const SpecAnswer *answer, const SpecAnswer *plain);
/* Returns the lowest ratio of the answer's speed to plain decoding's over SPEC_WINDOW tokens; 0: too few tokens. */
double spec_lowest_window(const SpecAnswer *answer, const SpecAnswer *plain);

/* A figure of a score; NaN: no value. */
typedef struct SpecFigure {
    const char *key, *title; /* in JSON and CSV, in the table */
    int digits;              /* in the table */
    double (*value)(const SpecScore *score);
} SpecFigure;

enum {
    SPEC_FIGURES = 14
};

extern const SpecFigure spec_figures[SPEC_FIGURES]; /* in the order of the columns */

double spec_accept_length(const SpecScore *score);  /* tokens a decoding step; plain: 1 */
double spec_tokens_per_s(const SpecScore *score);   /* of decoding */
double spec_ratio_to_plain(const SpecScore *score); /* likewise */
double spec_rows_per_step(const SpecScore *score);
double spec_lowest_ratio(const SpecScore *score); /* of windows; NaN: there is none */

#endif
