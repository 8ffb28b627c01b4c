// SPDX-License-Identifier: Apache-2.0
#include "tools/eval/quality/cloze.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "importer/check/scorer.h"
#include "tools/eval/json_lines.h"

typedef struct ClozeRow {
    char *id; /* "" when it has none */
    size_t line;
    ScorePair pair;
} ClozeRow;

typedef struct ClozeRun {
    Engine *engine;
    const ClozeOptions *options;
    ClozeRow *rows; /* [n] */
    size_t n, room;
} ClozeRun;

static void run_deinit(ClozeRun *run) {
    for (size_t i = 0; i < run->n; i++) {
        score_pair_deinit(&run->rows[i].pair);
        free(run->rows[i].id);
    }
    free(run->rows);
}

static int cloze_read_row(void *arg, json_t *object, size_t line, ErrText *err) {
    ClozeRun *run = arg;
    const json_t *prompt = json_object_get(object, "prompt"), *reference = json_object_get(object, "reference");
    const char *id = json_string_value(json_object_get(object, "id"));
    ClozeRow row = { .line = line };
    int r;

    if (run->options->limit && run->n == run->options->limit)
        return 0;
    if (!json_is_string(prompt) || !json_is_string(reference))
        return err_set(err, -EINVAL, "'%s' is missing or not a string",
                       json_is_string(prompt) ? "reference" : "prompt");
    if (run->n == run->room) {
        size_t room = run->room ? 2 * run->room : 64;
        ClozeRow *rows = realloc(run->rows, room * sizeof(*rows));

        if (!rows)
            return err_no_memory(err);
        run->rows = rows;
        run->room = room;
    }
    r = score_pair_init(&row.pair, run->engine, json_string_value(prompt), json_string_length(prompt),
                        json_string_value(reference), json_string_length(reference), err);
    if (r)
        return r;
    row.id = strdup(id ? id : "");
    run->rows[run->n++] = row;
    return row.id ? 0 : err_no_memory(err);
}

void cloze_deinit(Cloze *result) {
    json_decref(result->rows);
    result->rows = NULL;
}

int cloze_measure(Cloze *result, Engine *engine, const ClozeOptions *options, ErrText *err) {
    _cleanup_(run_deinit) ClozeRun run = { .engine = engine, .options = options };
    _cleanup_(cloze_deinit) Cloze made = { .rows = options->with_rows ? json_array() : NULL };
    _cleanup_(scorer_deinit) Scorer scorer = { 0 };
    double sum = 0;
    int r;

    r = json_lines_each(options->file, cloze_read_row, &run, err);
    if (!r && !run.n)
        r = err_set(err, -EINVAL, "%s: no row", options->file);
    if (!r)
        r = scorer_init(&scorer, engine, err);
    if (r)
        return r;
    for (size_t i = 0; i < run.n; i++) {
        const ClozeRow *row = &run.rows[i];
        Score score;

        r = scorer_pairs(&scorer, &row->pair, 1, &score, err);
        if (r) {
            err_prefix(err, "%s:%zu", options->file, row->line);
            return r;
        }
        sum += score.log_likelihood;
        made.n_right += score.greedy;
        made.n_merged += !row->pair.clean;
        if (made.rows)
            json_array_append_new(made.rows, json_pack("{s:i, s:s, s:b, s:f, s:i}", "line", (int)row->line, "id",
                                                       row->id, "right", score.greedy, "log_likelihood",
                                                       score.log_likelihood, "tokens", (int)score.n_tokens));
        if (options->on_row)
            options->on_row(options->arg, i + 1, run.n, made.n_right);
    }
    made.n_rows = run.n;
    made.accuracy = (double)made.n_right / (double)made.n_rows;
    made.standard_error = standard_error_of_share(made.n_right, made.n_rows);
    made.perplexity = exp(-sum / (double)made.n_rows);
    *result = made;
    made.rows = NULL;
    return 0;
}
