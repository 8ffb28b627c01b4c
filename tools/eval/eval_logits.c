// SPDX-License-Identifier: Apache-2.0
/* `logits` compares next-token losses, log-sum-exps, single logits and greedy continuations with golden values. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/min_max.h"
#include "importer/check/scorer.h"
#include "base/strings/json_text.h"
#include "tools/eval/eval.h"
#include "tools/eval/json_lines.h"

/* Perplexity judges the int8 path; these bounds allow for the worst single logit of thousands, which varies by a share
 * of the rms. */
#define TOLERANCE_REFERENCE 2e-4
#define TOLERANCE_CPU 0.5
#define MARGIN_REFERENCE 0.005
#define MARGIN_CPU 0.5
#define ROUNDING 1e-6 /* rounding of the golden values in the file */

typedef struct Worst {
    double deviation; /* share of the rms */
    char where[160];
} Worst;

typedef struct LogitsRun {
    EvalModel *model;
    double tolerance, margin;
    Worst worst;
    size_t n_cases, n_values, n_outside;
    size_t n_greedy, n_greedy_wrong, n_greedy_close;
    char first_wrong[160];
} LogitsRun;

static void check(LogitsRun *run, double value, double golden, double rms, const char *id, size_t pos,
                  const char *what) {
    double deviation = (fabs(value - golden) - ROUNDING) / rms;

    run->n_values++;
    if (!(deviation <= run->tolerance)) /* a NaN is outside too */
        run->n_outside++;
    if (!(deviation <= run->worst.deviation)) {
        run->worst.deviation = deviation;
        snprintf(run->worst.where, sizeof(run->worst.where), "%.60s, position %zu, %s: %.6f, golden %.6f", id, pos,
                 what, value, golden);
    }
}

static double rms_of(const float *logits, size_t n) {
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)logits[i] * logits[i];
    return sqrt(sum / (double)n);
}

/* Compares the pairs [id, logit] of one position. */
static int check_pairs(LogitsRun *run, const json_t *pairs, const char *kind, const float *logits, size_t n_vocab,
                       double rms, const char *id, size_t pos, ErrText *err) {
    char what[32];
    size_t i;
    json_t *pair;

    json_array_foreach((json_t *)pairs, i, pair) {
        json_int_t token = json_integer_value(json_array_get(pair, 0));
        const json_t *golden = json_array_get(pair, 1);

        if (token < 0 || (uint64_t)token >= n_vocab || !json_is_number(golden))
            return err_set(err, -EINVAL, "'%s' of position %zu holds something else than [id, logit]", kind, pos);
        snprintf(what, sizeof(what), "token %lld", (long long)token);
        check(run, logits[token], json_number_value(golden), rms, id, pos, what);
    }
    return 0;
}

static int check_positions(LogitsRun *run, const json_t *positions, const float *logits, size_t n, size_t n_vocab,
                           const char *id, ErrText *err) {
    size_t i;
    json_t *position;
    int r;

    json_array_foreach((json_t *)positions, i, position) {
        json_int_t pos = json_integer_value(json_object_get(position, "pos"));
        double rms = json_number_value(json_object_get(position, "rms"));
        const json_t *lse = json_object_get(position, "lse");
        const float *row;

        if (pos < 0 || (uint64_t)pos >= n || !(rms > 0))
            return err_set(err, -EINVAL, "entry %zu of 'positions' needs 'pos' below %zu and 'rms' above 0", i, n);
        row = logits + (size_t)pos * n_vocab;
        if (lse)
            check(run, log_sum_exp(row, n_vocab), json_number_value(lse), rms, id, (size_t)pos, "log-sum-exp");
        check(run, rms_of(row, n_vocab), rms, rms, id, (size_t)pos, "rms");
        if ((r = check_pairs(run, json_object_get(position, "top"), "top", row, n_vocab, rms, id, (size_t)pos, err)) ||
            (r = check_pairs(run, json_object_get(position, "probe"), "probe", row, n_vocab, rms, id, (size_t)pos,
                             err)))
            return r;
    }
    return 0;
}

static size_t argmax(const float *logits, size_t n) {
    size_t best = 0;

    for (size_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* Compares greedy tokens. Each step continues the golden tokens, so that one close call does not hide later
 * differences. */
static int check_greedy(LogitsRun *run, Sequence *sequence, float *logits, const uint32_t *greedy, size_t n_greedy,
                        const json_t *margins, const char *id, ErrText *err) {
    size_t n_vocab = engine_info(run->model->engine)->n_vocab;

    for (size_t i = 0; i < n_greedy; i++) {
        double margin = json_number_value(json_array_get(margins, i));
        size_t best = argmax(logits, n_vocab);
        int r;

        if (best == greedy[i] || margin > run->margin)
            run->n_greedy++;
        else
            run->n_greedy_close++;
        if (best != greedy[i] && margin > run->margin && !run->n_greedy_wrong++)
            snprintf(run->first_wrong, sizeof(run->first_wrong), "%.60s, step %zu: token %zu, golden %u (margin %.4f)",
                     id, i, best, greedy[i], margin);
        if (i + 1 == n_greedy)
            break;
        r = engine_forward(run->model->engine, sequence, &greedy[i], 1, 1, logits, err);
        if (r)
            return r;
    }
    return 0;
}

static int check_case(void *arg, json_t *object, size_t line, ErrText *err) {
    LogitsRun *run = arg;
    Engine *engine = run->model->engine;
    size_t n_vocab = engine_info(engine)->n_vocab, chunk = engine_chunk_tokens(engine), n, n_greedy = 0;
    const char *id = json_string_value(json_object_get(object, "id"));
    const json_t *nll = json_object_get(object, "nll"), *greedy_ids = json_object_get(object, "greedy");
    _cleanup_(freep) uint32_t *ids = NULL, *greedy = NULL;
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    _cleanup_(freep) float *logits = NULL;
    char number[32];
    int r;

    snprintf(number, sizeof(number), "line %zu", line);
    id = id ? id : number;
    r = json_lines_ids(json_object_get(object, "ids"), (uint32_t)n_vocab, &ids, &n, err);
    if (!r && greedy_ids)
        r = json_lines_ids(greedy_ids, (uint32_t)n_vocab, &greedy, &n_greedy, err);
    if (r)
        return r;
    if (!n || n > 8192)
        return err_set(err, -EINVAL, "%zu ids; 1 to 8192 are taken", n);
    r = sequence_new(&sequence, engine, n + n_greedy, err);
    if (r)
        return r;
    logits = malloc(n * n_vocab * sizeof(*logits));
    if (!logits)
        return err_set(err, -ENOMEM, "no memory for the logits of %zu tokens", n);
    for (size_t at = 0; at < n; at += chunk) {
        size_t rows = MIN(n - at, chunk);

        r = engine_forward(engine, sequence, ids + at, rows, rows, logits + at * n_vocab, err);
        if (r)
            return scorer_forward_failed(r, err);
    }
    for (size_t i = 0; i + 1 < n && i < json_array_size(nll); i++) {
        const float *row = logits + i * n_vocab;

        check(run, log_sum_exp(row, n_vocab) - row[ids[i + 1]], json_number_value(json_array_get(nll, i)),
              rms_of(row, n_vocab), id, i, "nll");
    }
    run->n_cases++;
    r = check_positions(run, json_object_get(object, "positions"), logits, n, n_vocab, id, err);
    if (r)
        return r;
    memmove(logits, logits + (n - 1) * n_vocab, n_vocab * sizeof(*logits));
    r = check_greedy(run, sequence, logits, greedy, n_greedy, json_object_get(object, "margin"), id, err);
    return r ? scorer_forward_failed(r, err) : 0;
}

int eval_logits(const EvalOptions *options) {
    bool reference = options->model.engine.load.device == ENGINE_DEVICE_REFERENCE;
    _cleanup_(eval_model_close) EvalModel model = { 0 };
    LogitsRun run = {
        .model = &model,
        .tolerance = options->limits.tolerance >= 0 ? options->limits.tolerance
                     : reference                    ? TOLERANCE_REFERENCE
                                                    : TOLERANCE_CPU,
        .margin = options->limits.greedy_margin >= 0 ? options->limits.greedy_margin
                  : reference                        ? MARGIN_REFERENCE
                                                     : MARGIN_CPU,
    };
    ErrText err = { 0 };
    json_t *report;
    bool ok;

    if (eval_model_open(&model, &options->model, &err) || json_lines_each(options->file, check_case, &run, &err))
        return eval_fail(options, "%s", err.text);
    ok = !run.n_outside && !run.n_greedy_wrong && run.n_values + run.n_greedy;
    if (options->json.is_wanted) {
        report = eval_report_add(eval_report_new(options, &model, "logits"),
                                 json_pack("{s:b, s:i, s:i, s:i, s:f, s:{s:o, s:o}, s:{s:i, s:i, s:i, s:o, s:f}}", "ok",
                                           ok, "cases", (int)run.n_cases, "values", (int)run.n_values, "outside",
                                           (int)run.n_outside, "tolerance", run.tolerance, "worst", "deviation",
                                           eval_json_real(run.worst.deviation), "where", json_text(run.worst.where),
                                           "greedy", "compared", (int)run.n_greedy, "wrong", (int)run.n_greedy_wrong,
                                           "differs_within_margin", (int)run.n_greedy_close, "first_wrong",
                                           json_text(run.first_wrong), "margin", run.margin));
        return eval_print_json(options, report, ok ? EVAL_OK : EVAL_OUTSIDE);
    }
    printf("%zu cases, %zu values: worst deviation %.3g x rms (tolerance %g)\n  at %s\n", run.n_cases, run.n_values,
           run.worst.deviation, run.tolerance, run.worst.where);
    printf("greedy: %zu tokens compared, %zu wrong, %zu differ where the golden margin is below %g\n", run.n_greedy,
           run.n_greedy_wrong, run.n_greedy_close, run.margin);
    if (run.n_greedy_wrong)
        printf("  first at %s\n", run.first_wrong);
    printf("%s\n", ok ? "ok" : "OUTSIDE THE TOLERANCE");
    return ok ? EVAL_OK : EVAL_OUTSIDE;
}
