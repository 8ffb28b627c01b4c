// SPDX-License-Identifier: Apache-2.0
#include "tools/eval/quality/mcq.h"

#include <errno.h>
#include <string.h>

#include "importer/check/scorer.h"
#include "tools/eval/json_lines.h"

#define CHOICES_MAX 64

static const char *const normalise_names[] = {
    [MCQ_NORMALISE_AUTO] = "auto",
    [MCQ_NORMALISE_BYTES] = "bytes",
    [MCQ_NORMALISE_NONE] = "none",
};

int mcq_normalise_parse(const char *name, McqNormalise *normalisep) {
    for (size_t i = 0; i < ARRAY_LEN(normalise_names); i++)
        if (!strcmp(name, normalise_names[i])) {
            *normalisep = (McqNormalise)i;
            return 0;
        }
    return -EINVAL;
}

const char *mcq_normalise_name(McqNormalise normalise) {
    return normalise_names[normalise];
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

typedef struct McqRow {
    char *id; /* "" when it has none */
    size_t line, answer, n_choices;
    bool by_bytes;
    ScorePair pairs[CHOICES_MAX];
    size_t bytes[CHOICES_MAX]; /* bytes of each continuation */
} McqRow;

typedef struct McqRun {
    const Tokenizer *tokenizer;
    uint32_t n_context;
    const McqOptions *options;
    McqRow **rows; /* [n] */
    size_t n, room;
} McqRun;

static void row_free(McqRow *row) {
    if (!row)
        return;
    for (size_t i = 0; i < row->n_choices; i++)
        score_pair_deinit(&row->pairs[i]);
    free(row->id);
    free(row);
}

static void row_freep(McqRow **rowp) {
    row_free(*rowp);
}

static void run_deinit(McqRun *run) {
    for (size_t i = 0; i < run->n; i++)
        row_free(run->rows[i]);
    free(run->rows);
}

static bool normalise_by_bytes(McqNormalise normalise, const json_t *object) {
    const char *set = json_string_value(json_object_get(object, "set"));

    if (normalise != MCQ_NORMALISE_AUTO)
        return normalise == MCQ_NORMALISE_BYTES;
    return !set || strncmp(set, "winogrande", 10) || (set[10] && set[10] != '/');
}

static int read_choices(McqRow *row, const McqRun *run, const json_t *object, ErrText *err) {
    const json_t *contexts = json_object_get(object, "ctxs"), *continuations = json_object_get(object, "conts");
    const json_t *answer = json_object_get(object, "answer");
    size_t n = json_array_size(continuations);
    int r;

    if (!json_is_array(contexts) || !json_is_array(continuations))
        return err_set(err, -EINVAL, "'%s' is missing or not an array", json_is_array(contexts) ? "conts" : "ctxs");
    if (n < 2 || n > CHOICES_MAX || json_array_size(contexts) != n)
        return err_set(err, -EINVAL, "%zu 'ctxs' and %zu 'conts': 2 to %d of both, as many of one as of the other",
                       json_array_size(contexts), n, CHOICES_MAX);
    if (!json_is_integer(answer) || json_integer_value(answer) < 0 || (size_t)json_integer_value(answer) >= n)
        return err_set(err, -EINVAL, "'answer' is not the index of one of the %zu choices", n);
    row->answer = (size_t)json_integer_value(answer);
    for (size_t i = 0; i < n; i++) {
        const json_t *context = json_array_get(contexts, i), *continuation = json_array_get(continuations, i);

        if (!json_is_string(context) || !json_is_string(continuation))
            return err_set(err, -EINVAL, "choice %zu: ctxs[%zu] or conts[%zu] is not a string", i, i, i);
        row->bytes[i] = json_string_length(continuation);
        r = score_pair_init_with(&row->pairs[i], run->tokenizer, run->n_context, json_string_value(context),
                                 json_string_length(context), json_string_value(continuation),
                                 json_string_length(continuation), err);
        if (r) {
            err_prefix(err, "choice %zu", i);
            return r;
        }
        row->n_choices++;
    }
    return 0;
}

static int mcq_read_row(void *arg, json_t *object, size_t line, ErrText *err) {
    McqRun *run = arg;
    const char *id = json_string_value(json_object_get(object, "id"));
    _cleanup_(row_freep) McqRow *row = NULL;
    int r;

    if (run->options->limit && run->n == run->options->limit)
        return 0;
    row = calloc(1, sizeof(*row));
    if (!row)
        return err_no_memory(err);
    row->line = line;
    row->by_bytes = normalise_by_bytes(run->options->normalise, object);
    row->id = strdup(id ? id : "");
    if (!row->id)
        return err_no_memory(err);
    r = read_choices(row, run, object, err);
    if (r)
        return r;
    if (run->n == run->room) {
        size_t room = run->room ? 2 * run->room : 64;
        McqRow **rows = realloc(run->rows, room * sizeof(*rows));

        if (!rows)
            return err_no_memory(err);
        run->rows = rows;
        run->room = room;
    }
    run->rows[run->n++] = steal(&row);
    return 0;
}

static int read_rows(McqRun *run, ErrText *err) {
    int r = json_lines_each(run->options->file, mcq_read_row, run, err);

    return r || run->n ? r : err_set(err, -EINVAL, "%s: no row", run->options->file);
}

int mcq_check(const Tokenizer *tokenizer, uint32_t n_context, const McqOptions *options, ErrText *err) {
    _cleanup_(run_deinit) McqRun run = { .tokenizer = tokenizer, .n_context = n_context, .options = options };

    return read_rows(&run, err);
}

/* --- scores ------------------------------------------------------------------------------------------------------- */

/* Returns the first of the best choices. */
static size_t choose(const McqRow *row, const Score *scores) {
    size_t best = 0;
    double best_value = 0;

    for (size_t i = 0; i < row->n_choices; i++) {
        double value = scores[i].log_likelihood / (row->by_bytes ? (double)row->bytes[i] : 1);

        if (!i || value > best_value) {
            best = i;
            best_value = value;
        }
    }
    return best;
}

static json_t *report_row(const McqRow *row, const Score *scores, size_t chosen) {
    json_t *values = json_array(), *bytes = json_array(), *tokens = json_array();

    for (size_t i = 0; i < row->n_choices; i++) {
        json_array_append_new(values, json_real(scores[i].log_likelihood));
        json_array_append_new(bytes, json_integer((json_int_t)row->bytes[i]));
        json_array_append_new(tokens, json_integer((json_int_t)scores[i].n_tokens));
    }
    return json_pack("{s:i, s:s, s:i, s:i, s:b, s:s, s:o, s:o, s:o}", "line", (int)row->line, "id", row->id, "answer",
                     (int)row->answer, "chosen", (int)chosen, "right", chosen == row->answer, "normalised",
                     row->by_bytes ? "bytes" : "none", "log_likelihood", values, "bytes", bytes, "tokens", tokens);
}

void mcq_deinit(Mcq *result) {
    json_decref(result->rows);
    result->rows = NULL;
}

int mcq_measure(Mcq *result, Engine *engine, const McqOptions *options, ErrText *err) {
    _cleanup_(run_deinit) McqRun run = {
        .tokenizer = engine_tokenizer(engine),
        .n_context = engine_info(engine)->n_context,
        .options = options,
    };
    _cleanup_(mcq_deinit) Mcq made = { .rows = options->with_rows ? json_array() : NULL };
    _cleanup_(scorer_deinit) Scorer scorer = { 0 };
    Score scores[CHOICES_MAX];
    int r;

    r = read_rows(&run, err);
    if (!r)
        r = scorer_init(&scorer, engine, err);
    if (r)
        return r;
    for (size_t i = 0; i < run.n; i++) {
        const McqRow *row = run.rows[i];
        size_t chosen;

        r = scorer_pairs(&scorer, row->pairs, row->n_choices, scores, err);
        if (r) {
            err_prefix(err, "%s:%zu", options->file, row->line);
            return r;
        }
        chosen = choose(row, scores);
        made.n_right += chosen == row->answer;
        for (size_t j = 0; j < row->n_choices; j++)
            made.n_merged += !row->pairs[j].clean;
        if (made.rows)
            json_array_append_new(made.rows, report_row(row, scores, chosen));
        if (options->on_row)
            options->on_row(options->arg, i + 1, run.n, made.n_right);
    }
    made.n_rows = run.n;
    made.accuracy = (double)made.n_right / (double)made.n_rows;
    made.standard_error = standard_error_of_share(made.n_right, made.n_rows);
    *result = made;
    made.rows = NULL;
    return 0;
}
