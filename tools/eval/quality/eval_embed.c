// SPDX-License-Identifier: Apache-2.0
/* The verb `embed`: vectors of texts, one text a line, beside those of the float model of --against. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file_io.h"
#include "base/min_max.h"
#include "engine/generation.h"
#include "importer/check/scorer.h"
#include "base/strings/json_text.h"
#include "tools/eval/eval.h"

#define MEDIAN_LEAST 0.999
#define WORST_LEAST 0.99
#define TOGETHER 16 /* texts that share steps */

/* The texts of a file, by line. */
typedef struct Texts {
    StrBuf bytes;
    const char **lines; /* [n], into bytes */
    size_t n;
} Texts;

static void texts_deinit(Texts *texts) {
    str_buf_deinit(&texts->bytes);
    free(texts->lines);
}

static int texts_read(Texts *texts, const char *path, ErrText *err) {
    _cleanup_(mapped_file_deinit) MappedFile file = { 0 };
    char *at, *line;
    int r = mapped_file_open(&file, path, err);

    if (r)
        return r;
    str_buf_append(&texts->bytes, file.data, file.len_bytes);
    if (str_buf_failed(&texts->bytes))
        return err_no_memory(err);
    texts->lines = calloc(texts->bytes.len_bytes + 1, sizeof(*texts->lines));
    if (!texts->lines)
        return err_no_memory(err);
    for (at = texts->bytes.data; at && (line = strsep(&at, "\n"));)
        if (*line)
            texts->lines[texts->n++] = line;
    return texts->n > 1 ? 0 : err_set(err, -EINVAL, "%s: at least two texts are needed, one a line", path);
}

/* Begins the generation that makes the vector of a text. */
static int begin(Generation **generationp, Engine *engine, const char *text, ErrText *err) {
    const GenerationOptions options = { .embedding.pooling = EMBEDDING_MEAN,
                                        .no_reuse = true,
                                        .sampler = SAMPLER_OPTIONS_GREEDY };
    _cleanup_(token_list_deinit) TokenList tokens = { 0 };
    int r = tokenizer_encode(engine_tokenizer(engine), text, strlen(text), TOKENIZE_ADD_SPECIAL, &tokens, err);

    return r ? r : generation_new(generationp, engine, tokens.ids, tokens.n, &options, err);
}

/* Computes the vectors of n texts, at most TOGETHER, in steps that they share: f32[n][n_embd]. */
static int embed_together(Engine *engine, const char *const *texts, size_t n, float *vectors, ErrText *err) {
    const size_t n_embd = engine_info(engine)->n_embd;
    GenerationTurn turns[TOGETHER] = { 0 };
    bool is_running = true;
    int r = 0;

    for (size_t i = 0; i < n && !r; i++) {
        turns[i].standing = (Standing){ PRIORITY_NORMAL, PRIORITY_NORMAL };
        r = begin(&turns[i].generation, engine, texts[i], err);
    }
    while (!r && is_running) {
        r = generation_step_together(turns, n, err);
        is_running = false;
        for (size_t i = 0; i < n && !r; i++) {
            r = turns[i].r;
            is_running = is_running || generation_end(turns[i].generation) == GENERATION_RUNNING;
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (!r)
            memcpy(vectors + i * n_embd, generation_vector(turns[i].generation), n_embd * sizeof(*vectors));
        generation_free(turns[i].generation);
    }
    return r;
}

static int embed_all(Engine *engine, const Texts *texts, float **vectorsp, ErrText *err) {
    const size_t n_embd = engine_info(engine)->n_embd;
    float *vectors = calloc(texts->n * n_embd, sizeof(*vectors));
    int r = vectors ? 0 : err_no_memory(err);

    for (size_t i = 0; i < texts->n && !r; i += TOGETHER)
        r = embed_together(engine, texts->lines + i, MIN(texts->n - i, TOGETHER), vectors + i * n_embd, err);
    if (r)
        free(vectors);
    else
        *vectorsp = vectors;
    return r;
}

/* Returns the product of two vectors of length 1. */
static double cosine(const float *a, const float *b, size_t n) {
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Returns the text that is nearest to text `of`. */
static size_t nearest(const float *vectors, size_t n, size_t n_embd, size_t of) {
    size_t best = of ? 0 : 1;

    for (size_t i = 0; i < n; i++)
        if (i != of && cosine(vectors + i * n_embd, vectors + of * n_embd, n_embd) >
                           cosine(vectors + best * n_embd, vectors + of * n_embd, n_embd))
            best = i;
    return best;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int report(const EvalOptions *options, const EvalModel *model, const Texts *texts, const float *vectors,
                  const float *golden) {
    const size_t n_embd = engine_info(model->engine)->n_embd;
    _cleanup_(freep) double *cosines = calloc(texts->n, sizeof(*cosines));
    size_t n_same = 0;
    double median, worst;
    bool ok;

    if (!cosines)
        return eval_fail(options, "out of memory");
    for (size_t i = 0; i < texts->n; i++) {
        cosines[i] = cosine(vectors + i * n_embd, golden + i * n_embd, n_embd);
        n_same += nearest(vectors, texts->n, n_embd, i) == nearest(golden, texts->n, n_embd, i);
    }
    qsort(cosines, texts->n, sizeof(*cosines), compare);
    median = cosines[texts->n / 2];
    worst = cosines[0];
    ok = median >= MEDIAN_LEAST && worst >= WORST_LEAST;
    if (options->json.is_wanted)
        return eval_print_json(options,
                               eval_report_add(eval_report_new(options, model, "embed"),
                                               json_pack("{s:b, s:i, s:o, s:o, s:i}", "ok", ok, "texts", (int)texts->n,
                                                         "median_cosine", eval_json_real(median), "worst_cosine",
                                                         eval_json_real(worst), "same_nearest", (int)n_same)),
                               ok ? EVAL_OK : EVAL_OUTSIDE);
    printf("%zu texts: cosine to the float model %.6f (median), %.6f (worst); the nearest text is the same for %zu\n",
           texts->n, median, worst, n_same);
    printf("%s\n", ok ? "ok" : "OUTSIDE THE TOLERANCE");
    return ok ? EVAL_OK : EVAL_OUTSIDE;
}

int eval_embed(const EvalOptions *options) {
    _cleanup_(eval_model_close) EvalModel model = { 0 }, against = { 0 };
    _cleanup_(texts_deinit) Texts texts = { 0 };
    _cleanup_(freep) float *vectors = NULL, *golden = NULL;
    EvalModelOptions reference = options->model;
    ErrText err = { 0 };

    if (!options->text.against)
        return eval_fail(options, "embed needs --against FILE: the .gguf that %s was made of", options->model.path);
    reference.path = options->text.against;
    reference.recipe_option = NULL;
    reference.engine.load.device = ENGINE_DEVICE_REFERENCE;
    if (texts_read(&texts, options->file, &err) || eval_model_open(&model, &options->model, &err) ||
        eval_model_open(&against, &reference, &err) || embed_all(model.engine, &texts, &vectors, &err) ||
        embed_all(against.engine, &texts, &golden, &err))
        return eval_fail(options, "%s", err.text);
    return report(options, &model, &texts, vectors, golden);
}
