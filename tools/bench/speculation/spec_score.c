// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/speculation/spec_score.h"

#include <math.h>

#include "base/min_max.h"

/* Whether a step ended with token i. */
static bool ends_step(const SpecAnswer *answer, size_t i) {
    return i + 1 == answer->n || answer->ends_ns[i + 1] != answer->ends_ns[i];
}

/**
 * spec_lowest_window() - find the slowest part of an answer beside plain decoding of the same tokens
 *
 * Tokens of one step have no times of their own, so a window consists of whole steps: it begins where a step has ended,
 * and is the shortest with SPEC_WINDOW tokens. The first window begins after the prompt's step. Windows end with plain
 * decoding's answer, which may be shorter.
 *
 * Return: the lowest ratio of plain decoding's time to the answer's, above 1: faster everywhere; 0: no window.
 */
double spec_lowest_window(const SpecAnswer *answer, const SpecAnswer *plain) {
    double lowest = 0;

    for (size_t from = 0, to = SPEC_WINDOW; to < answer->n; from++, to = to < from + SPEC_WINDOW ? to + 1 : to) {
        uint64_t time_ns;
        double ratio;

        if (!ends_step(answer, from))
            continue;
        while (!ends_step(answer, to))
            to++;
        if (to >= plain->n)
            break;
        time_ns = answer->ends_ns[to] - answer->ends_ns[from];
        if (!time_ns)
            continue;
        ratio = (double)(plain->ends_ns[to] - plain->ends_ns[from]) / (double)time_ns;
        lowest = lowest > 0 && lowest < ratio ? lowest : ratio;
    }
    return lowest;
}

static void add_speed(SpecSpeed *speed, const SpecAnswer *answer) {
    speed->n_decoded += answer->n_decoded;
    speed->prefill_ns += answer->prefill_ns;
    speed->decode_ns += answer->total_ns - answer->prefill_ns;
}

void spec_score_add(SpecScore *score, const SpecAnswer *answer, const SpecAnswer *plain) {
    const DraftReport *report = &answer->report;
    const double lowest = spec_lowest_window(answer, plain);

    score->n_requests++;
    score->n_prompt += answer->n_prompt;
    score->n_output += answer->n;
    add_speed(&score->own, answer);
    add_speed(&score->plain, plain);
    score->n_steps += report->n_steps;
    score->n_rows += report->n_rows;
    score->n_rows_idle += report->n_rows_idle;
    score->draft_ns += report->draft_ns;
    score->head_ns += report->head_ns;
    score->prompt_head_ns += report->prompt_head_ns;
    score->model_ns += report->model_ns - answer->prompt_model_ns;
    score->step_ns += report->step_ns;
    score->flash_bytes += answer->flash.read_bytes;
    score->flash_ns += answer->flash.reading_ns;
    if (answer->draft_bytes > score->draft_bytes)
        score->draft_bytes = answer->draft_bytes;
    if (lowest > 0 && !(score->lowest_window > 0 && score->lowest_window < lowest))
        score->lowest_window = lowest;
    for (size_t i = 0; i < _SPECULATION_N; i++) {
        score->drafted[i] += report->drafted[i];
        score->accepted[i] += report->accepted[i];
    }
}

static double part(double of, double by) {
    return by > 0 ? of / by : NAN;
}

double spec_accept_length(const SpecScore *score) {
    return part((double)score->own.n_decoded, (double)score->n_steps);
}

double spec_tokens_per_s(const SpecScore *score) {
    return part(1e9 * (double)score->own.n_decoded, (double)score->own.decode_ns);
}

/* Returns the ratio of speeds, for plain decoding may have fewer tokens. */
double spec_ratio_to_plain(const SpecScore *score) {
    return part((double)score->plain.decode_ns * (double)score->own.n_decoded,
                (double)score->own.decode_ns * (double)score->plain.n_decoded);
}

double spec_lowest_ratio(const SpecScore *score) {
    return score->lowest_window > 0 ? score->lowest_window : NAN;
}

static double end_to_end_ratio(const SpecScore *score) {
    return part((double)(score->plain.prefill_ns + score->plain.decode_ns),
                (double)(score->own.prefill_ns + score->own.decode_ns));
}

double spec_rows_per_step(const SpecScore *score) {
    return part((double)score->n_rows, (double)score->n_steps);
}

/* Shares of all rows that the device computes. */
static double valid_share(const SpecScore *score) {
    return part((double)score->own.n_decoded, (double)(score->n_rows + score->n_rows_idle));
}

static double wasted_share(const SpecScore *score) {
    return part((double)score->n_rows - (double)score->own.n_decoded, (double)(score->n_rows + score->n_rows_idle));
}

static double idle_share(const SpecScore *score) {
    return part((double)score->n_rows_idle, (double)(score->n_rows + score->n_rows_idle));
}

static double draft_us_per_step(const SpecScore *score) {
    return part((double)score->draft_ns / 1e3, (double)score->n_steps);
}

static double head_us_per_step(const SpecScore *score) {
    return part((double)score->head_ns / 1e3, (double)score->n_steps);
}

/* The heads' own time. */
static double prompt_head_us(const SpecScore *score) {
    return part((double)score->prompt_head_ns / 1e3, (double)score->n_prompt);
}

/* All that prefill takes beyond plain prefill, with the noise of both. */
static double prefill_more_us(const SpecScore *score) {
    return part(((double)score->own.prefill_ns - (double)score->plain.prefill_ns) / 1e3, (double)score->n_prompt);
}

static double draft_mb(const SpecScore *score) {
    return (double)score->draft_bytes / 1e6;
}

const SpecFigure spec_figures[SPEC_FIGURES] = {
    { "accept_length", "tokens a step", 2, spec_accept_length },
    { "tokens_per_s", "tokens/s", 1, spec_tokens_per_s },
    { "ratio_to_plain", "of plain", 2, spec_ratio_to_plain },
    { "lowest_window_ratio", "at least", 2, spec_lowest_ratio },
    { "end_to_end_ratio", "end to end", 2, end_to_end_ratio },
    { "rows_per_step", "rows a step", 1, spec_rows_per_step },
    { "valid_share", "valid", 2, valid_share },
    { "wasted_share", "wasted", 2, wasted_share },
    { "idle_share", "idle", 2, idle_share },
    { "draft_us_per_step", "drafting us", 1, draft_us_per_step },
    { "head_us_per_step", "head us", 0, head_us_per_step },
    { "prompt_head_us_per_token", "prompt's head us", 1, prompt_head_us },
    { "prefill_more_us_per_token", "prefill more us", 1, prefill_more_us },
    { "draft_mb", "draftdb MB", 1, draft_mb },
};
