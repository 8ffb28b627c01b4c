// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "tools/train/exit_training.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/f16.h"
#include "base/min_max.h"
#include "base/progress.h"
#include "base/strings/str_buf.h"
#include "base/system/thread.h"
#include "importer/calibration_text.h"
#include "importer/importer.h"
#include "model/package/package.h"
#include "tools/baselines/draft_policy.h"
#include "tools/exit/early_exit.h"
#include "tools/train/exit_collect.h"
#include "tools/train/exit_quality.h"
#include "tools/train/exit_refine.h"
#include "tools/train/exit_ridge.h"

/* Share of the states' mean square; 2,000 positions already learn something. */
static const float ridge_strength = 0.03F;

/* State of a whole run. */
typedef struct Training {
    const ExitTrainingOptions *options;
    ExitTrainingReport *report;
    Progress progress;
    AccountTable accounts;
    WorkerPool *pool;
    char package[PATH_MAX];
    Engine *target, *draft;
    DraftPair *pair;
    CalibrationText texts[EXIT_TEXTS_MAX];
    size_t n_texts;
    ExitSetShape shape;
    ExitSet *set;
    ExitWindow window;
    float *maps[EXIT_LAYERS_MAX]; /* f32[n_embd + 1][n_embd] each: the map's rows, then the bias */
} Training;

static void training_deinit(Training *training) {
    if (training->options->progress_fd >= 0)
        progress_end(&training->progress);
    for (size_t i = 0; i < EXIT_LAYERS_MAX; i++)
        free(training->maps[i]);
    exit_window_deinit(&training->window);
    exit_set_free(training->set);
    for (size_t i = 0; i < EXIT_TEXTS_MAX; i++)
        calibration_deinit(&training->texts[i]);
    draft_pair_free(training->pair);
    engine_free(training->draft);
    engine_free(training->target);
    worker_pool_free(training->pool);
}

static void tell(Training *training, const char *stage, uint64_t done, uint64_t all) {
    if (training->options->progress_fd >= 0)
        progress_update(&training->progress, stage, done, all);
}

/* --- models and texts --------------------------------------------------------------------------------------------- */

static void show_import(void *arg, const ImportProgress *progress) {
    tell(arg, import_stage_name(progress->stage), progress->done_bytes, progress->total_bytes);
}

/* Finds the package, imported from a .gguf if needed. */
static int find_package(Training *training, const char *path, char package[PATH_MAX], ErrText *err) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    ImportOptions import = import_options_default();
    ImportReport report;
    int r = gguf_open(&file, path, err);

    if (r)
        return r;
    if (package_is(file)) {
        if (snprintf(package, PATH_MAX, "%s", path) >= PATH_MAX)
            return err_set(err, -ENAMETOOLONG, "%s: the path is too long", path);
        return 0;
    }
    import.n_threads = training->options->threads;
    import.progress = show_import;
    import.progress_arg = training;
    r = import_run(path, NULL, &import, &report, err);
    if (!r)
        memcpy(package, report.path, PATH_MAX);
    return r;
}

static int open_engine(Training *training, const char *package, Engine **enginep, ErrText *err) {
    const EngineOptions options = {
        .path = package,
        .load.device = ENGINE_DEVICE_CPU,
        .load.isa = training->options->isa,
        .load.chunk_tokens = training->options->window,
        .pool = training->pool,
        .accounts = &training->accounts,
    };

    tell(training, "load", 0, 0);
    return engine_new(enginep, &options, err);
}

static int open_models(Training *training, ErrText *err) {
    const ExitTrainingOptions *options = training->options;
    char draft[PATH_MAX];
    int r;

    account_table_init(&training->accounts);
    r = worker_pool_new(&training->pool, options->threads ? options->threads : thread_n_processors());
    if (r)
        return err_set(err, r, "cannot start the worker threads: %s", strerror(-r));
    r = find_package(training, options->model, training->package, err);
    if (!r)
        r = find_package(training, options->draft, draft, err);
    if (!r)
        r = open_engine(training, training->package, &training->target, err);
    if (!r)
        r = open_engine(training, draft, &training->draft, err);
    if (!r)
        r = draft_pair_new(&training->pair, training->draft, training->target, err);
    if (!r && !*engine_info(training->target)->package_sha256)
        r = err_set(err, -EINVAL, "%s has no checksums, by which a predictor knows it: import the model again",
                    training->package);
    return r;
}

static int load_texts(Training *training, ErrText *err) {
    const ExitTrainingOptions *options = training->options;

    training->n_texts = options->n_texts ? options->n_texts : 1;
    for (size_t i = 0; i < training->n_texts; i++) {
        int r = calibration_load(&training->texts[i], options->n_texts ? options->texts[i] : NULL, err);

        if (r)
            return r;
    }
    return 0;
}

/* --- the set ------------------------------------------------------------------------------------------------------ */

/* Chooses a few layers from the middle on: lower layers know little of the next token, and near the last one little
 * is saved. The layer that was asked for is picked later, if it is among them, so that the work file serves any of
 * them. */
static int choose_layers(Training *training, ErrText *err) {
    const uint32_t n = engine_info(training->target)->n_layers, layer = training->options->layer;
    const uint32_t some[] = { n / 2, 2 * n / 3, 3 * n / 4, 5 * n / 6 };
    ExitSetShape *shape = &training->shape;

    if (layer >= n || n < 2)
        return err_set(err, -EINVAL, "--layer %u: the model has %u layers, 1 to %u can be the exit", layer, n, n - 1);
    for (size_t i = 0; i < ARRAY_LEN(some); i++)
        if (some[i] && (!shape->n_layers || some[i] > shape->layers[shape->n_layers - 1]))
            shape->layers[shape->n_layers++] = some[i];
    for (size_t i = 0; i < shape->n_layers; i++)
        if (!layer || shape->layers[i] == layer)
            return 0;
    shape->layers[0] = layer;
    shape->n_layers = 1;
    return 0;
}

/* Hashes all that decides the windows' bytes. */
static int fingerprint(Training *training, ErrText *err) {
    const ExitTrainingOptions *options = training->options;
    ExitSetShape *shape = &training->shape;
    _cleanup_(str_buf_deinit) StrBuf text = { 0 };

    str_buf_addf(&text, "1 %s %s %u %u", engine_info(training->target)->package_sha256,
                 engine_info(training->draft)->package_sha256, options->window, options->say);

    for (uint32_t i = 0; i < shape->n_layers; i++)
        str_buf_addf(&text, " %u", shape->layers[i]);
    for (size_t i = 0; i < training->n_texts; i++)
        str_buf_addf(&text, " %s", training->texts[i].sha256);
    if (str_buf_failed(&text))
        return err_no_memory(err);
    sha256_hex(text.data, text.len_bytes, shape->fingerprint);
    return 0;
}

/* Cuts texts into u32[*np][window], the beginnings of windows, from all texts in turn. */
static int cut_windows(Training *training, uint32_t **tokensp, uint32_t *np, ErrText *err) {
    const ExitTrainingOptions *options = training->options;
    const size_t window = options->window, n_text = window - options->say;
    _cleanup_(freep) uint32_t *all = calloc((size_t)options->windows * window, sizeof(*all));
    uint32_t n = 0;

    if (!all)
        return err_no_memory(err);
    for (size_t i = 0; i < training->n_texts; i++) {
        const size_t most = options->windows / training->n_texts + (i < options->windows % training->n_texts);
        _cleanup_(freep) uint32_t *tokens = NULL;
        size_t n_windows;
        int r = most ? calibration_windows(&training->texts[i], engine_tokenizer(training->target), most, n_text,
                                           &tokens, &n_windows, err)
                     : 0;

        if (r)
            return r;
        for (size_t at = 0; most && at < n_windows; at++)
            memcpy(all + window * n++, tokens + at * n_text, n_text * sizeof(*all));
    }
    if (n < EXIT_WINDOWS_MIN)
        return err_set(err, -EINVAL, "the text has %u windows of %zu tokens; %d are needed", n, n_text,
                       EXIT_WINDOWS_MIN);
    *np = n;
    *tokensp = steal(&all);
    return 0;
}

static int collect(Training *training, uint32_t *tokens, ErrText *err) {
    const ExitSetShape *shape = &training->shape;
    const size_t n_text = shape->window_tokens - training->options->say;
    ExitCollect models;
    int r;

    if (exit_set_n(training->set) == shape->n_windows)
        return 0;
    r = exit_collect_init(&models, training->target, training->draft, training->pair, shape->window_tokens, err);
    if (r)
        return r;
    for (uint32_t i = exit_set_n(training->set); !r && i < shape->n_windows; i++) {
        uint32_t *window = tokens + (size_t)i * shape->window_tokens;

        tell(training, "read", i * exit_set_window_bytes(shape), shape->n_windows * exit_set_window_bytes(shape));
        r = exit_collect_say(&models, window, n_text, shape->window_tokens, err);
        if (!r)
            r = exit_collect_window(&models, shape, window, &training->window, err);
        if (!r)
            r = exit_set_append(training->set, &training->window, err);
    }
    exit_collect_deinit(&models);
    return r;
}

static int make_set(Training *training, const char *path, ErrText *err) {
    _cleanup_(freep) uint32_t *tokens = NULL;
    ExitSetShape *shape = &training->shape;
    int r = choose_layers(training, err);

    shape->n_embd = engine_info(training->target)->n_embd;
    shape->window_tokens = training->options->window;
    if (!r)
        r = cut_windows(training, &tokens, &shape->n_windows, err);
    if (!r)
        r = fingerprint(training, err);
    if (!r && exit_window_init(&training->window, shape))
        r = err_no_memory(err);
    if (!r)
        r = exit_set_open(&training->set, path, shape, err);
    return r ? r : collect(training, tokens, err);
}

/* --- least squares ------------------------------------------------------------------------------------------------ */

static int solve_layer(Training *training, uint32_t index, ErrText *err) {
    const size_t n_embd = training->shape.n_embd;
    ExitRidge ridge;
    int r = exit_ridge_init(&ridge, training->pool, n_embd, err);

    if (r)
        return r;
    for (uint32_t i = 0; !r && i < training->shape.n_windows; i++) {
        tell(training, "solve", index * training->shape.n_windows + i,
             training->shape.n_layers * training->shape.n_windows);
        if (exit_window_is_held_out(i))
            continue;
        r = exit_set_read(training->set, i, &training->window, err);
        if (!r)
            exit_ridge_add(&ridge, training->window.states[index], training->window.last,
                           training->shape.window_tokens);
    }
    training->maps[index] = malloc((n_embd + 1) * n_embd * sizeof(float));
    if (!r && !training->maps[index])
        r = err_no_memory(err);
    if (!r)
        r = exit_ridge_solve(&ridge, ridge_strength, training->maps[index], training->maps[index] + n_embd * n_embd,
                             err);
    exit_ridge_deinit(&ridge);
    return r;
}

/* --- figures ------------------------------------------------------------------------------------------------------ */

static void log_shares(const float *logits, const ExitSample *sample, bool of_tree, float *shares) {
    float some[EXIT_CHOICES];
    uint32_t n = 0;

    for (uint32_t c = 0; c < sample->n; c++)
        if (!of_tree || sample->q[c] >= EXIT_EDGE_LEAST)
            some[n++] = logits[c];
    if (n)
        early_exit_shares(some, n, 1, some);
    for (uint32_t c = 0, at = 0; c < sample->n; c++)
        shares[c] = !of_tree || sample->q[c] >= EXIT_EDGE_LEAST ? some[at++] : -100;
}

static int add_edges(const ExitHead *head, const ExitSample *sample, const float *lens, const float *mapped,
                     const float *rows, bool tunes, ExitEdges *edges) {
    float logits[EXIT_CHOICES], by_lens[EXIT_CHOICES], by_map[EXIT_CHOICES], alone[EXIT_CHOICES];
    int r = 0;

    exit_logits(head, lens, sample, rows, logits);
    log_shares(logits, sample, false, by_lens);
    exit_logits(head, mapped, sample, rows, logits);
    log_shares(logits, sample, false, by_map);
    log_shares(logits, sample, true, alone);
    for (uint32_t c = 0; !r && c < sample->n; c++)
        if (sample->q[c] >= EXIT_EDGE_LEAST)
            r = exit_edges_add(edges, &(ExitEdge){ .log_q = logf(sample->q[c]),
                                                   .log_lens = by_lens[c],
                                                   .log_map = by_map[c],
                                                   .log_map_alone = alone[c],
                                                   .is_true = sample->tokens[c] == sample->best,
                                                   .tunes = tunes });
    return r;
}

/* Collects the edges of all held-out windows. */
static int find_edges(Training *training, uint32_t index, const float *map, ExitEdges *edges, ErrText *err) {
    const size_t n_embd = training->shape.n_embd, n = training->shape.window_tokens;
    const ExitHead head = exit_head(training->target);
    _cleanup_(freep) float *y = malloc(n * n_embd * sizeof(float)),
                           *rows = malloc(EXIT_CHOICES * n_embd * sizeof(float));
    int r = y && rows ? 0 : err_no_memory(err);

    for (uint32_t i = 0; !r && i < training->shape.n_windows; i++) {
        if (!exit_window_is_held_out(i))
            continue;
        r = exit_set_read(training->set, i, &training->window, err);
        if (r)
            break;
        exit_map_apply(training->pool, map, map + n_embd * n_embd, n_embd, training->window.states[index], n, y);
        for (size_t row = 0; !r && row < n; row++) {
            exit_head_rows(training->target, &training->window.samples[row], 1, rows);
            r = add_edges(&head, &training->window.samples[row], training->window.states[index] + row * n_embd,
                          y + row * n_embd, rows, i / EXIT_HELD_OUT % 2 == 0, edges);
        }
    }
    return r == -ENOMEM ? err_set(err, r, "out of memory") : r;
}

static int measure(Training *training, uint32_t index, const float *map, ExitFigures *figures, ErrText *err) {
    const uint32_t n_layers = engine_info(training->target)->n_layers, layer = training->shape.layers[index];
    _cleanup_(exit_edges_deinit) ExitEdges edges = { 0 };
    int r = find_edges(training, index, map, &edges, err);
    const ExitScore mixture = { .mix = &figures->mix };
    float *quality = figures->quality;
    PruningMix alone;

    if (r)
        return r;
    *figures = (ExitFigures){ .layer = layer };
    figures->mix = exit_edges_fit(&edges, false);
    alone = exit_edges_fit(&edges, true);
    for (int i = 0; i < 2; i++) {
        const double share = i ? 0.98 : 0.95;

        quality[EXIT_KEPT_95_Q + i] = (float)exit_edges_kept(&edges, false, (ExitScore){ .by_q = 1 }, share, NULL);
        quality[EXIT_KEPT_95_LENS + i] =
            (float)exit_edges_kept(&edges, false, (ExitScore){ .by_lens = 1 }, share, NULL);
        quality[EXIT_KEPT_95_MAP + i] = (float)exit_edges_kept(&edges, false, (ExitScore){ .by_map = 1 }, share, NULL);
        quality[EXIT_KEPT_95_MIXTURE + i] = (float)exit_edges_kept(&edges, false, mixture, share, NULL);
    }
    quality[EXIT_N_EDGES] = (float)edges.n;
    figures->kept_95_without_shadows =
        (float)exit_edges_kept(&edges, false, (ExitScore){ .mix = &alone, .alone = true }, 0.95, NULL);
    figures->mix_alone = alone;
    for (int i = 0; i < 2; i++)
        figures->worth += (quality[EXIT_KEPT_95_Q + i] - quality[EXIT_KEPT_95_MIXTURE + i]) / 2;
    figures->worth *= (float)(n_layers - layer) / (float)n_layers;
    return 0;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static int solve_all(Training *training, ErrText *err) {
    ExitTrainingReport *report = training->report;

    for (uint32_t i = 0; i < training->shape.n_layers; i++) {
        int r = solve_layer(training, i, err);

        if (!r)
            r = measure(training, i, training->maps[i], &report->layers[i], err);
        if (r)
            return r;
        report->n_measured++;
    }
    return 0;
}

static void told(void *arg, uint64_t done, uint64_t all) {
    tell(arg, "refine", done, all);
}

static int name_checkpoint(const Training *training, uint32_t index, char path[PATH_MAX], ErrText *err) {
    const ExitTrainingReport *report = training->report;

    return snprintf(path, PATH_MAX, "%s.%u.checkpoint", report->path, training->shape.layers[index]) < PATH_MAX
               ? 0
               : err_set(err, -ENAMETOOLONG, "%s: the path is too long", report->path);
}

/* Refines a layer's map; the map that is best on held-out windows replaces the layer's. */
static int refine_layer(Training *training, uint32_t index, ErrText *err) {
    const size_t n_embd = training->shape.n_embd;
    char path[PATH_MAX];
    ExitRefine refine;
    int r = name_checkpoint(training, index, path, err);

    if (r)
        return r;
    r = exit_refine_init(&refine, training->target, training->pool, training->set, index, training->options->epochs,
                         training->maps[index], training->maps[index] + n_embd * n_embd, path, err);
    if (r)
        return r;
    while (!r && refine.epoch < refine.epochs)
        r = exit_refine_epoch(&refine, told, training, err);
    if (!r)
        memcpy(training->maps[index], refine.best, (n_embd + 1) * n_embd * sizeof(float));
    exit_refine_deinit(&refine);
    return r;
}

/* Refines all layers, or the one that was asked for; least squares do not tell which layer refinement makes best.
 * *bestp gets the layer worth most. */
static int refine_all(Training *training, uint32_t *bestp, ErrText *err) {
    const uint32_t layer = training->options->layer;
    ExitTrainingReport *report = training->report;
    float most = -1;

    *bestp = 0;
    for (uint32_t i = 0; i < training->shape.n_layers; i++) {
        int r = 0;

        if (layer && training->shape.layers[i] != layer)
            continue;
        report->refined_layers[i] = report->layers[i];
        if (training->options->epochs)
            r = refine_layer(training, i, err);
        if (!r && training->options->epochs)
            r = measure(training, i, training->maps[i], &report->refined_layers[i], err);
        if (r)
            return r;
        if (report->refined_layers[i].worth > most || layer) {
            most = report->refined_layers[i].worth;
            *bestp = i;
        }
    }
    return 0;
}

/* Rounds a map as the file does, so that figures are of the map that will be used. */
static void round_map(float *map, uint16_t *halves, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const float most = 60000;

        halves[i] = f32_to_f16(map[i] > most ? most : MAX(-most, map[i]));
        map[i] = f16_to_f32(halves[i]);
    }
}

static int write_map(Training *training, uint32_t index, const uint16_t *halves, ErrText *err) {
    const size_t n_embd = training->shape.n_embd;
    const ExitTrainingReport *report = training->report;
    const ExitFigures *figures = &report->refined;
    ExitMap file = {
        .n_embd = (uint32_t)n_embd,
        .n_layers = engine_info(training->target)->n_layers,
        .layer = training->shape.layers[index],
        .tau = 1,
        .by_q = figures->mix.by_q,
        .by_share = figures->mix.by_share,
        .offset = figures->mix.offset,
        .bias = training->maps[index] + n_embd * n_embd,
        .map = halves,
    };

    memcpy(file.quality, figures->quality, sizeof(file.quality));
    memcpy(file.package_sha256, engine_info(training->target)->package_sha256, sizeof(file.package_sha256));
    return exit_map_write(&file, report->path, err);
}

/* Tries trees of the published policies and of ours. */
static int try_trees(Training *training, ErrText *err) {
    static const DraftPolicyOps *const policies[EXIT_POLICIES] = { &draft_policies[POLICY_SPECINFER],
                                                                   &draft_policies[POLICY_OPT_TREE] };
    const ExitTrainingOptions *options = training->options;
    const size_t n_pairs = options->answers / 2;
    _cleanup_(freep) uint32_t *tokens = NULL;
    _cleanup_(freep) const uint32_t **prompts = calloc(2 * n_pairs, sizeof(*prompts));
    ExitTrainingReport *report = training->report;
    _cleanup_(early_exit_deinit) EarlyExit exit = { 0 };
    ExitTreesWork work = { .exit = &exit,
                           .pair = training->pair,
                           .prompts = prompts,
                           .n_prompt = options->window - options->say,
                           .n_output = options->window / 4,
                           .mix_alone = report->refined.mix_alone };
    uint32_t n, n_there;
    int r = prompts ? cut_windows(training, &tokens, &n, err) : err_no_memory(err);

    if (r)
        return r;
    n_there = n / EXIT_HELD_OUT / 2;
    for (size_t i = 0; i < n_pairs && i < n_there; i++) { /* from all texts, so that the first of two tunes */
        const size_t pair = n_pairs < n_there ? i * n_there / n_pairs : i;

        for (size_t half = 0; half < 2; half++)
            prompts[work.n_prompts++] =
                tokens + ((2 * pair + half) * EXIT_HELD_OUT + EXIT_HELD_OUT - 1) * options->window;
    }
    r = early_exit_load(&exit, training->target, report->path, err);
    for (uint32_t i = 0; !r && i < EXIT_POLICIES; i++) {
        tell(training, "try", i, EXIT_POLICIES);
        report->policies[i] = policies[i];
        r = exit_trees_run(&work, policies[i], &report->trees[i], err);
        report->n_trees += !r;
    }
    return r;
}

/* Adds the figures of trees to those in the file. */
static void note_trees(ExitTrainingReport *report) {
    float *quality = report->refined.quality;

    for (uint32_t i = 0; i < report->n_trees; i++) {
        const ExitKept *kept = &report->trees[i].kept[EXIT_TREES_MIXTURE];
        const int at = report->policies[i] == &draft_policies[POLICY_SPECINFER]  ? EXIT_ROWS_SPECINFER
                       : report->policies[i] == &draft_policies[POLICY_OPT_TREE] ? EXIT_ROWS_OPT_TREE
                                                                                 : _EXIT_QUALITY_N;

        if (at == _EXIT_QUALITY_N)
            continue;
        quality[at] = (float)kept->rows;
        quality[at + 1] = (float)kept->drafts;
    }
}

static int finish(Training *training, uint32_t index, ErrText *err) {
    const size_t n_embd = training->shape.n_embd;
    ExitTrainingReport *report = training->report;
    float *map = training->maps[index];
    _cleanup_(freep) uint16_t *halves = malloc(n_embd * n_embd * sizeof(*halves));
    int r;

    if (!halves)
        return err_no_memory(err);
    round_map(map, halves, n_embd * n_embd);
    r = measure(training, index, map, &report->refined, err);
    if (!r)
        r = write_map(training, index, halves, err);
    if (r || training->options->answers < 2)
        return r;
    r = try_trees(training, err);
    if (r)
        return r;
    note_trees(report);
    return write_map(training, index, halves, err);
}

static int name_files(Training *training, char set[PATH_MAX], ErrText *err) {
    ExitTrainingReport *report = training->report;
    const char *output = training->options->output;
    const int n = output ? snprintf(report->path, PATH_MAX, "%s", output)
                         : snprintf(report->path, PATH_MAX, "%s" EXIT_MAP_SUFFIX, training->package);

    if (n >= PATH_MAX || snprintf(set, PATH_MAX, "%s.part", report->path) >= PATH_MAX)
        return err_set(err, -ENAMETOOLONG, "%s: the path is too long", output ? output : training->package);
    return 0;
}

static void remove_work(const Training *training, const char *set) {
    char path[PATH_MAX];

    (void)unlink(set);
    for (uint32_t i = 0; i < training->shape.n_layers; i++)
        if (!name_checkpoint(training, i, path, NULL))
            (void)unlink(path);
}

int exit_training_run(const ExitTrainingOptions *options, ExitTrainingReport *report, ErrText *err) {
    _cleanup_(training_deinit) Training training = { .options = options, .report = report };
    char set[PATH_MAX];
    uint32_t best;
    int r;

    *report = (ExitTrainingReport){ .window = options->window };
    if (options->progress_fd >= 0)
        progress_init(&training.progress, options->progress_fd);
    r = open_models(&training, err);
    if (!r)
        r = load_texts(&training, err);
    if (!r)
        r = name_files(&training, set, err);
    if (!r)
        r = make_set(&training, set, err);
    if (!r)
        r = solve_all(&training, err);
    if (!r)
        r = refine_all(&training, &best, err);
    if (!r)
        r = finish(&training, best, err);
    if (r)
        return r;
    report->n_windows = training.shape.n_windows;
    report->n_held_out = training.shape.n_windows / EXIT_HELD_OUT;
    report->n_layers = engine_info(training.target)->n_layers;
    if (!options->keeps_work)
        remove_work(&training, set);
    return 0;
}
