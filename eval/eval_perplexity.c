/* `perplexity`: windows of a text, the second half of each scored. A model that wants a BOS has one before the text, and
 * in place of the first token of every later window. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/file_io.h"
#include "eval/eval.h"

#define TEXT_MAX ((size_t)64 << 20)
#define ROWS_MAX 64 /* logit rows at a time: their memory is rows x vocabulary */
/* Relative, of the perplexity: every window of the float reference; all windows together of int8. */
#define TOLERANCE 1e-4
#define TOLERANCE_CPU 0.005

typedef struct PerplexityRun {
    EvalModel model;
    TokenList tokens;
    float *logits; /* f32[ROWS_MAX][n_vocab] */
    double *means; /* nll of each window */
    size_t n_windows, window, n_scored;
    bool bos_replaces_first;
    double perplexity;
} PerplexityRun;

static void run_deinit(PerplexityRun *run) {
    token_list_deinit(&run->tokens);
    free(run->logits);
    free(run->means);
    eval_model_close(&run->model);
}

/* Rows [from, to) of the window; sums the losses of the tokens after each, from row first_scored on. */
static int score_rows(PerplexityRun *run, Sequence *sequence, const uint32_t *ids, size_t from, size_t to,
                      size_t first_scored, double *sump) {
    Engine *engine = run->model.engine;
    size_t n_vocab = engine_info(engine)->n_vocab;

    while (from < to) {
        bool scored = from >= first_scored;
        size_t limit = scored ? ROWS_MAX : first_scored - from, rows = to - from;
        int r;

        if (rows > limit)
            rows = limit;
        if (rows > engine_chunk_tokens(engine))
            rows = engine_chunk_tokens(engine);
        r = engine_forward(engine, sequence, ids + from, rows, scored ? rows : 0, run->logits);
        if (r)
            return r;
        for (size_t i = 0; scored && i < rows; i++)
            *sump +=
                eval_log_sum_exp(run->logits + i * n_vocab, n_vocab) - run->logits[i * n_vocab + ids[from + i + 1]];
        from += rows;
    }
    return 0;
}

static int score_window(PerplexityRun *run, size_t index, ErrText *err) {
    const Tokenizer *tokenizer = engine_tokenizer(run->model.engine);
    uint32_t *ids = run->tokens.ids + index * run->window, first = ids[0];
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    double sum = 0;
    int r;

    r = sequence_new(&sequence, run->model.engine, run->window, err);
    if (r)
        return r;
    if (run->bos_replaces_first)
        ids[0] = tokenizer_bos(tokenizer);
    r = score_rows(run, sequence, ids, 0, run->window - 1, run->window / 2, &sum);
    ids[0] = first;
    run->means[index] = sum / (double)run->n_scored;
    return r ? err_set(err, r, "the forward pass failed in window %zu", index) : 0;
}

static int prepare(PerplexityRun *run, const EvalOptions *options, ErrText *err) {
    _cleanup_(freep) char *text = NULL;
    size_t len_bytes, available;
    int r;

    r = eval_model_open(&run->model, options, err);
    if (!r)
        r = file_slurp(options->file, TEXT_MAX, &text, &len_bytes, err);
    if (!r)
        r = tokenizer_encode(engine_tokenizer(run->model.engine), text, len_bytes, TOKENIZE_ADD_SPECIAL, &run->tokens, err);
    if (r)
        return r;
    run->window = options->window;
    if (run->window < 4 || run->window % 2 || run->window > engine_info(run->model.engine)->n_context)
        return err_set(err, -EINVAL, "--window %zu: an even number from 4 to the model's %u positions is needed",
                       run->window, engine_info(run->model.engine)->n_context);
    available = run->tokens.n / run->window;
    run->n_windows = options->windows ? options->windows : available;
    if (!available || run->n_windows > available)
        return err_set(err, -EINVAL, "%s: %zu tokens make %zu windows of %zu, but %zu are asked for", options->file,
                       run->tokens.n, available, run->window, options->windows ? options->windows : 1);
    run->n_scored = run->window / 2 - 1;
    run->bos_replaces_first = tokenizer_adds_bos(engine_tokenizer(run->model.engine));
    run->means = calloc(run->n_windows, sizeof(*run->means));
    run->logits = malloc(ROWS_MAX * (size_t)engine_info(run->model.engine)->n_vocab * sizeof(float));
    return run->means && run->logits ? 0 : err_set(err, -ENOMEM, "out of memory");
}

/* How far the run is from golden values, as relative differences of perplexity. */
typedef struct Deviation {
    double overall; /* over all windows that both have */
    double worst;   /* of a single window */
    char where[160];
} Deviation;

/* Golden entry: "window_mean_nll" of each window from the start of the text. A loss is rounded to five decimals there. */
static int compare(const PerplexityRun *run, const EvalOptions *options, Deviation *deviation, ErrText *err) {
    json_error_t error;
    json_t *root = json_load_file(options->expect, 0, &error), *entry, *means, *mean;
    double golden_sum = 0, sum = 0, relative;
    size_t i, n = 0;

    entry = root && options->name ? json_object_get(root, options->name) : root;
    means = json_object_get(entry, "window_mean_nll");
    if (!json_array_size(means) || (size_t)json_integer_value(json_object_get(entry, "window")) != run->window) {
        err_set(err, -EINVAL, "%s: no entry '%s' with windows of %zu tokens (--name NAME)%s%s", options->expect,
                options->name ? options->name : "", run->window, root ? "" : ": ", root ? "" : error.text);
        json_decref(root);
        return -EINVAL;
    }
    json_array_foreach(means, i, mean) {
        if (i >= run->n_windows)
            break;
        golden_sum += json_number_value(mean);
        sum += run->means[i];
        n++;
        relative = expm1(run->means[i] - json_number_value(mean));
        if (fabs(relative) > fabs(deviation->worst)) {
            deviation->worst = relative;
            snprintf(deviation->where, sizeof(deviation->where), "window %zu: mean nll %.5f, golden %.5f", i,
                     run->means[i], json_number_value(mean));
        }
    }
    deviation->overall = expm1((sum - golden_sum) / (double)n);
    json_decref(root);
    return 0;
}

int eval_perplexity(const EvalOptions *options) {
    _cleanup_(run_deinit) PerplexityRun run = { 0 };
    bool reference = options->device == ENGINE_DEVICE_REFERENCE;
    double tolerance = options->tolerance >= 0 ? options->tolerance : reference ? TOLERANCE : TOLERANCE_CPU, sum = 0;
    Deviation deviation = { 0 };
    ErrText err = { 0 };
    json_t *report, *means;
    bool ok = true;

    if (prepare(&run, options, &err))
        return eval_fail(options, "%s", err.text);
    for (size_t i = 0; i < run.n_windows; i++) {
        if (score_window(&run, i, &err))
            return eval_fail(options, "%s", err.text);
        sum += run.means[i];
        if (!options->json) {
            printf("window %zu: mean nll %.5f, perplexity so far %.4f\n", i, run.means[i], exp(sum / (double)(i + 1)));
            fflush(stdout);
        }
    }
    run.perplexity = exp(sum / (double)run.n_windows);
    if (!isfinite(run.perplexity))
        ok = false;
    if (options->expect) {
        if (compare(&run, options, &deviation, &err))
            return eval_fail(options, "%s", err.text);
        /* A better perplexity than the float one's is no fault of int8, but it is one of the reference. */
        ok = ok && (reference ? fabs(deviation.overall) : deviation.overall) <= tolerance;
        ok = ok && (!reference || fabs(deviation.worst) <= tolerance);
    }
    if (options->json) {
        report = eval_report_new(options, &run.model, "perplexity");
        means = json_array();
        for (size_t i = 0; i < run.n_windows; i++)
            json_array_append_new(means, json_real(run.means[i]));
        json_object_update_new(report,
                               json_pack("{s:b, s:s, s:f, s:i, s:i, s:i, s:b, s:o}", "ok", ok, "file", options->file,
                                         "perplexity", run.perplexity, "window", (int)run.window, "windows",
                                         (int)run.n_windows, "scored_per_window", (int)run.n_scored,
                                         "bos_replaces_first", run.bos_replaces_first, "window_mean_nll", means));
        if (options->expect)
            json_object_update_new(report, json_pack("{s:f, s:f, s:{s:f, s:s}}", "tolerance", tolerance, "deviation",
                                                     deviation.overall, "worst", "deviation", deviation.worst, "where",
                                                     deviation.where));
        eval_print_json(options, report);
        return ok ? EVAL_OK : EVAL_OUTSIDE;
    }
    printf("perplexity %.4f over %zu windows of %zu tokens, %zu scored in each (%s, %s)\n", run.perplexity,
           run.n_windows, run.window, run.n_scored, engine_info(run.model.engine)->device,
           engine_info(run.model.engine)->kernel);
    if (options->expect)
        printf("golden: %+.4f %% (tolerance %g %%); worst window %+.4f %%\n  at %s\n%s\n", 100 * deviation.overall,
               100 * tolerance, 100 * deviation.worst, deviation.where, ok ? "ok" : "OUTSIDE THE TOLERANCE");
    return ok ? EVAL_OK : EVAL_OUTSIDE;
}
