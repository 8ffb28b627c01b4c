// SPDX-License-Identifier: Apache-2.0
/* `matrix` checks that tokens and logits are the same bytes under every schedule. Each cell runs one greedy and one
 * seeded generation and compares all tokens and their logits with the first cell's. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "engine/draft/draft_timeline.h"
#include "engine/generation.h"
#include "tools/eval/eval.h"
#include "tools/eval/matrix/matrix_company.h"
#include "tools/eval/matrix/matrix_npu.h"
#include "tools/eval/matrix/matrix_output.h"
#include "tools/eval/matrix/matrix_prompt.h"
#include "tools/eval/matrix/matrix_way.h"

extern char **environ;

#define N_RUNS 2 /* greedy, seeded */
/* Least tokens of an answer that must have had drafts, since the prompt repeats itself. */
#define DRAFTED_TOKENS_MIN 16

typedef struct Cell {
    Isa isa;
    unsigned int threads;
    uint32_t chunk_tokens;
    const char *company; /* "alone", "between others", "sharing steps", "making way", "prefix reuse", "fork", ... */
    size_t n_prompt;
    size_t way;            /* way of drafting (matrix_way.h) */
    uint32_t with_percent; /* per cent of the layers in memory plus 1; 0: all layers */
    const MatrixNpu *npu;  /* setup on the npu device; NULL: the cpu device */
    bool has_schema;       /* answers are JSON that fits a schema, also those of the company */
} Cell;

typedef struct Matrix {
    const EvalOptions *options;
    EvalModel model;
    bool is_open;
    bool is_other; /* than the next cell wants it */
    PrefixCache *prefix_cache;
    EvalModel draft; /* the model once more as a draft model, from the first cell that needs it */
    DraftPair *pair;
    TokenList prompt;
    MatrixOutput golden[N_RUNS], brief_golden[N_RUNS], schema_golden[N_RUNS]; /* by the cell's prompt and schema */
    size_t n_cells, n_different;
    json_t *rows;
} Matrix;

static void matrix_deinit(Matrix *matrix) {
    for (size_t i = 0; i < N_RUNS; i++) {
        matrix_output_deinit(&matrix->golden[i]);
        matrix_output_deinit(&matrix->brief_golden[i]);
        matrix_output_deinit(&matrix->schema_golden[i]);
    }
    token_list_deinit(&matrix->prompt);
    if (matrix->is_open)
        eval_model_close(&matrix->model);
    draft_pair_free(matrix->pair);
    eval_model_close(&matrix->draft);
    prefix_cache_free(matrix->prefix_cache);
    json_decref(matrix->rows);
}

static GenerationOptions run_options(const Matrix *matrix, size_t run) {
    GenerationOptions options = {
        .max_tokens = (uint32_t)matrix->options->matrix.n_tokens,
        .ignore_end = true,
        .no_reuse = true,
        .sampler = SAMPLER_OPTIONS_GREEDY,
    };

    if (run)
        options.sampler = (SamplerOptions){ .temperature = 0.8f,
                                            .top_k = 60,
                                            .top_p = 0.95f,
                                            .min_p = 0.01f,
                                            .repetition_penalty = 1.1f,
                                            .repetition_window = 64,
                                            .presence_penalty = 0.25f,
                                            .frequency_penalty = 0.125f,
                                            .typical_p = 0.95f,
                                            .xtc_probability = 0.25f,
                                            .xtc_threshold = 0.1f,
                                            .dry = { .multiplier = 0.8f, .base = 1.75f, .allowed_length = 2 },
                                            .seed = 20210907 };
    return options;
}

/* Cancels requests at every stage: before the first step, in prefill, in decode. */
static int cancel_some(Matrix *matrix, Engine *engine, ErrText *err) {
    static const size_t steps_before[] = { 0, 1, 40 };

    for (size_t i = 0; i < ARRAY_LEN(steps_before); i++) {
        GenerationOptions options = run_options(matrix, i % N_RUNS);
        _cleanup_(generation_freep) Generation *generation = NULL;
        int r = generation_new(&generation, engine, matrix->prompt.ids, matrix->prompt.n, &options, err);

        for (size_t step = 0; !r && step < steps_before[i]; step++)
            r = generation_step(generation, NULL, NULL, err);
        if (r)
            return r;
        generation_cancel(generation);
        r = generation_step(generation, NULL, NULL, err);
        if (r)
            return r;
        if (steps_before[i] < options.max_tokens && generation_end(generation) != GENERATION_END_CANCELLED)
            return err_set(err, -EPROTO, "a cancelled generation went on");
    }
    return 0;
}

/* Tokens that the run under test reuses: they end in the middle of a page and of every chunk of more than one row. */
#define N_SHARED(n_prompt) ((n_prompt)*2 / 3 + 1)

/* Runs a request that begins as the tested one and goes on with other tokens, to its end if @parentp is NULL, else
 * until its prompt is computed. */
static int run_before(Matrix *matrix, const Cell *cell, Generation **parentp, ErrText *err) {
    GenerationOptions options = { .max_tokens = 12, .ignore_end = true, .sampler = SAMPLER_OPTIONS_GREEDY };
    _cleanup_(generation_freep) Generation *generation = NULL;
    _cleanup_(freep) uint32_t *ids = malloc(cell->n_prompt * sizeof(*ids));
    int r;

    if (!ids)
        return err_no_memory(err);
    for (size_t i = 0; i < cell->n_prompt; i++)
        ids[i] = matrix->prompt.ids[i < N_SHARED(cell->n_prompt) ? i : cell->n_prompt - 1 - i];
    prefix_cache_drop_all(matrix->prefix_cache);
    r = generation_new(&generation, matrix->model.engine, ids, cell->n_prompt, &options, err);
    while (!r && generation_end(generation) == GENERATION_RUNNING &&
           !(parentp && generation_usage(generation)->n_output_tokens))
        r = generation_step(generation, NULL, NULL, err);
    if (!r && parentp)
        *parentp = steal(&generation);
    return r;
}

/* Runs a step of the forked generation's parent, which must not disturb the fork, then of the fork. */
static int step_beside(Generation *parent, Generation *generation, MatrixOutput *output, ErrText *err) {
    int r = generation_end(parent) == GENERATION_RUNNING ? generation_step(parent, NULL, NULL, err) : 0;

    return r ? r : generation_step(generation, matrix_output_take, output, err);
}

static int open_draft(Matrix *matrix, ErrText *err) {
    EvalModelOptions options = matrix->options->model;
    int r;

    if (matrix->pair)
        return 0;
    options.engine.load.threads = 2;
    r = eval_model_open(&matrix->draft, &options, err);
    return r ? r : draft_pair_new(&matrix->pair, matrix->draft.engine, matrix->model.engine, err);
}

/* Fails a cell about pruned rows in which no row was pruned. */
static int check_pruned(const ExitPruning *pruning, const GenerationOptions *options, size_t run, ErrText *err) {
    if (!run && pruning->mode == EXIT_PRUNING_ALWAYS && options->max_tokens >= 4 * DRAFTED_TOKENS_MIN &&
        !pruning->report.n_rows)
        return err_set(err, -EPROTO, "no row was pruned");
    return 0;
}

static int run_one(Matrix *matrix, const Cell *cell, size_t run, MatrixOutput *output, ErrText *err) {
    Engine *engine = matrix->model.engine;
    const MatrixWay *way = &matrix_ways[cell->way];
    _cleanup_(early_exit_deinit) EarlyExit exit = { 0 };
    ExitPruning pruning = { .exit = &exit, .mode = way->pruning }, others_pruning = pruning;
    SpecLab lab = *spec_lab_of(way->speculation.lab), others_lab = lab;
    _cleanup_(draft_timeline_free) DraftModel model = { 0 };
    _cleanup_(constraint_unrefp) Constraint *constraint = NULL;
    _cleanup_(company_leave) Company company = { .engine = engine,
                                                 .prompt = &matrix->prompt,
                                                 .n_prompt = cell->has_schema ? cell->n_prompt : matrix->prompt.n,
                                                 .speculation = matrix_way_speculation(way, engine) };
    _cleanup_(generation_freep) Generation *generation = NULL, *parent = NULL;
    GenerationOptions options = run_options(matrix, run);
    bool between = !strcmp(cell->company, "between others"), together = !strcmp(cell->company, "sharing steps"),
         making_way = !strcmp(cell->company, "making way"), fork = !strcmp(cell->company, "fork"),
         reuse = fork || !strcmp(cell->company, "prefix reuse");
    int r = 0;

    if (way->pruning)
        r = early_exit_set_lens(&exit, engine, engine_info(engine)->n_layers / 2, err);
    if (r)
        return r;
    exit_pruning_hook(&pruning, &lab);
    exit_pruning_hook(&others_pruning, &others_lab);
    company.speculation.lab = &others_lab;
    if (!strcmp(cell->company, "after cancelled"))
        r = cancel_some(matrix, engine, err);
    if (!r && reuse)
        r = run_before(matrix, cell, fork ? &parent : NULL, err);
    if (!r && cell->has_schema)
        r = matrix_schema(engine, &constraint, err);
    company.constraint = constraint;
    options.constraint = (GenerationConstraint){ .it = constraint, .may_be_cut = true };
    options.ignore_end = !constraint;
    options.no_reuse = !reuse;
    options.speculation = company.speculation;
    options.speculation.lab = &lab;
    options.on_logits = matrix_output_take_logits;
    options.on_logits_arg = output;
    if (!r && way->with_model)
        r = open_draft(matrix, err);
    if (!r && way->with_model)
        r = draft_timeline_new(&model, matrix->pair, cell->n_prompt + options.max_tokens, err);
    options.speculation.model = model;
    if (!r)
        r = generation_new(&generation, engine, matrix->prompt.ids, cell->n_prompt, &options, err);
    if (!r && reuse && generation_usage(generation)->n_cached_tokens != N_SHARED(cell->n_prompt))
        r = err_set(err, -EPROTO, "%" PRIu32 " tokens were taken over instead of %zu",
                    generation_usage(generation)->n_cached_tokens, N_SHARED(cell->n_prompt));
    while (!r && generation_end(generation) == GENERATION_RUNNING)
        r = between      ? company_step_between(&company, generation, output, err)
            : together   ? company_step_together(&company, generation, output, err)
            : making_way ? company_step_making_way(&company, generation, output, err)
            : fork       ? step_beside(parent, generation, output, err)
                         : generation_step(generation, matrix_output_take, output, err);
    if (!r && spec_lab_of(options.speculation.lab)->always && !run && options.max_tokens >= DRAFTED_TOKENS_MIN &&
        !generation_usage(generation)->n_drafted_tokens)
        r = err_set(err, -EPROTO, "there was no draft");
    return r ? r : check_pruned(&pruning, &options, run, err);
}

/* Tells whether the cell loads the model anew for each run, with weights that arrive during the first steps. */
static bool is_arriving(const Cell *cell) {
    return !strcmp(cell->company, "while arriving");
}

/* Tells whether the cell's steps run as a pipeline; else every operator is split over all threads. */
static bool is_pipelined(const Cell *cell) {
    return strcmp(cell->company, "not pipelined");
}

static uint32_t memory_percent(const Cell *cell) {
    return cell->with_percent ? cell->with_percent - 1 : 100;
}

/* Opens the model for a cell, unless the one that is open fits. */
static int open_for(Matrix *matrix, const Cell *cell, ErrText *err) {
    EvalModelOptions options = matrix->options->model;
    int r;

    if (matrix->is_open) {
        eval_model_close(&matrix->model);
        matrix->is_open = false;
    }
    options.engine.load.isa = cell->isa;
    options.engine.load.threads = cell->threads;
    options.engine.load.chunk_tokens = cell->chunk_tokens;
    options.engine.load.preemption = true;
    options.engine.load.no_pipeline = !is_pipelined(cell);
    options.engine.load.group_rows = 1; /* the smallest groups, whatever is fastest on this machine */
    options.engine.arriving = options.engine.new_image = is_arriving(cell);
    options.engine.prefix_cache = matrix->prefix_cache;
    if (cell->npu)
        matrix_npu_set(cell->npu, &options);
    if (cell->with_percent)
        options.engine.load.weights.memory =
            (WeightsMemory){ .is_set = true, .is_percent = true, .percent = cell->with_percent - 1 };
    r = eval_model_open(&matrix->model, &options, err);
    if (r)
        return r;
    matrix->is_open = true;
    if (cell->with_percent && !engine_info(matrix->model.engine)->weights.n_streamed_layers)
        return err_set(err, -EPROTO, "all layers are in memory");
    return matrix_prompt(engine_tokenizer(matrix->model.engine), &matrix->prompt, err);
}

/* --- after a restart: the same run in a process of its own, handed over in a file --------------------------------- */

static int run_restarted(Matrix *matrix, const Cell *cell, MatrixOutput *outputs, ErrText *err) {
    char path[] = "/tmp/coordgen-matrix-XXXXXX", threads[16], chunk[16], n_tokens[24];
    const char *const argv[] = { "coordgen-eval",
                                 "matrix",
                                 "--model",
                                 matrix->options->model.path,
                                 "--isa",
                                 isa_name(cell->isa),
                                 "--threads",
                                 threads,
                                 "--chunk",
                                 chunk,
                                 "--tokens",
                                 n_tokens,
                                 "--dump",
                                 path,
                                 NULL };
    _cleanup_(closep) int fd = mkstemp(path);
    int r, status = 0;
    pid_t pid;

    if (fd < 0)
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    snprintf(threads, sizeof(threads), "%u", cell->threads);
    snprintf(chunk, sizeof(chunk), "%" PRIu32, cell->chunk_tokens);
    snprintf(n_tokens, sizeof(n_tokens), "%zu", matrix->options->matrix.n_tokens);
    r = -posix_spawn(&pid, "/proc/self/exe", NULL, NULL, (char *const *)argv, environ);
    if (!r && waitpid(pid, &status, 0) < 0)
        r = -errno;
    if (!r && status)
        r = err_set(err, -EPROTO, "the restarted process failed");
    if (!r)
        r = matrix_outputs_load(path, outputs, N_RUNS, err);
    unlink(path);
    return r;
}

/* --- cells -------------------------------------------------------------------------------------------------------- */

/* Tells whether the cell is one of the few for a format of weights. A format affects products, the embedding, how
 * weights arrive and where they are; a tree, a shared step and a step that makes way have rows of all kinds. */
static bool is_of_few(const Cell *cell) {
    bool sharing = !strcmp(cell->company, "sharing steps"), making_way = !strcmp(cell->company, "making way");

    if (cell->npu)
        return true;
    if (cell->threads == 1 || !strcmp(cell->company, "between others") || !strcmp(cell->company, "after cancelled"))
        return false;
    if (cell->way == WAY_PLAIN)
        return true;
    if (cell->with_percent)
        return cell->way == WAY_TREE || (cell->way == WAY_PRUNED && sharing) || (cell->way == WAY_LEVER);
    return (cell->way == WAY_TREE && !making_way) || cell->way == WAY_SMALL_TREE;
}

/* Tells whether the cell is to run. The first one always runs, for the others are compared with it. */
static bool is_chosen(const Matrix *matrix, const Cell *cell) {
    const char *cells = matrix->options->matrix.cells;

    if (!cells || !strcmp(cells, "all") || !matrix->n_cells)
        return true;
    if (!strcmp(cells, "npu"))
        return cell->npu;
    if (!strcmp(cells, "schema"))
        return cell->has_schema;
    return !strcmp(cells, "few") ? is_of_few(cell) : !strcmp(cells, cell->company);
}

static int run_cell(Matrix *matrix, const Cell *cell, bool reopen, ErrText *err) {
    static const char *const run_names[N_RUNS] = { "greedy", "seeded" };
    MatrixOutput outputs[N_RUNS] = { 0 }, *golden = cell->has_schema                 ? matrix->schema_golden
                                                    : cell->n_prompt == PROMPT_BRIEF ? matrix->brief_golden
                                                                                     : matrix->golden;
    char where[160] = "";
    bool different = false;
    uint64_t start_ns;
    size_t n_vocab;
    int r = 0;

    matrix->is_other = matrix->is_other || reopen;
    if (!is_chosen(matrix, cell))
        return 0;
    if (matrix->is_other || !matrix->is_open)
        r = open_for(matrix, cell, err);
    else
        r = engine_set_chunk_tokens(matrix->model.engine, cell->chunk_tokens, err);
    if (r)
        return r;
    matrix->is_other = false;
    n_vocab = engine_info(matrix->model.engine)->n_vocab;
    start_ns = clock_now_ns();
    for (size_t run = 0; run < N_RUNS && !r; run++)
        r = matrix_output_init(&outputs[run], matrix->options->matrix.n_tokens, n_vocab);
    if (!r && !strcmp(cell->company, "after a restart"))
        r = run_restarted(matrix, cell, outputs, err);
    else
        for (size_t run = 0; run < N_RUNS && !r; run++) {
            if (is_arriving(cell))
                r = open_for(matrix, cell, err);
            if (!r && is_arriving(cell) && !engine_is_arriving(matrix->model.engine))
                r = err_set(err, -EPROTO, "all weights were there before the first step");
            if (!r)
                r = run_one(matrix, cell, run, &outputs[run], err);
        }
    if (!r && cell->npu)
        r = matrix_npu_check(cell->npu, matrix->model.engine, err);
    for (size_t run = 0; run < N_RUNS && !r; run++) {
        if (!golden[run].n) {
            golden[run] = outputs[run];
            outputs[run] = (MatrixOutput){ 0 };
        } else if (!different && matrix_output_differs(&outputs[run], &golden[run], where, sizeof(where))) {
            different = true;
            err_set(err, 0, "%s, %s", run_names[run], where);
            snprintf(where, sizeof(where), "%.159s", err->text);
        }
    }
    for (size_t run = 0; run < N_RUNS; run++)
        matrix_output_deinit(&outputs[run]);
    if (r)
        return r;
    matrix->n_cells++;
    matrix->n_different += different;
    if (matrix->options->json.is_wanted)
        json_array_append_new(matrix->rows,
                              json_pack("{s:s, s:i, s:i, s:i, s:s, s:s, s:b, s:s, s:i, s:s, s:b}", "isa",
                                        isa_name(cell->isa), "threads", (int)cell->threads, "chunk",
                                        (int)cell->chunk_tokens, "prompt", (int)cell->n_prompt, "company",
                                        cell->company, "drafts", matrix_ways[cell->way].name, "same", !different,
                                        "where", where, "memory_percent", (int)memory_percent(cell), "npu",
                                        cell->npu ? cell->npu->name : "", "schema", cell->has_schema));
    else
        printf("%-11s %7u %6" PRIu32 " %6zu %5" PRIu32 "%%  %-16s %-10s  %s %6.1f s%s%s%s%s%s\n", isa_name(cell->isa),
               cell->threads, cell->chunk_tokens, cell->n_prompt, memory_percent(cell), cell->company,
               matrix_ways[cell->way].name, different ? "DIFFERENT" : "same     ",
               (double)(clock_now_ns() - start_ns) / 1e9, cell->npu ? "  npu: " : "", cell->npu ? cell->npu->name : "",
               cell->has_schema ? "  JSON of a schema" : "", different ? "  " : "", where);
    fflush(stdout);
    return 0;
}

/* Runs cells with streamed layers, none or some of them in memory. */
static int run_streamed(Matrix *matrix, Isa isa, ErrText *err) {
    static const struct StreamedCell {
        uint32_t percent;
        const char *company;
        size_t way;
        bool is_long; /* with --full only */
    } cells[] = {
        { 0, "alone", WAY_PLAIN, false },          { 0, "sharing steps", WAY_TREE, false },
        { 0, "while arriving", WAY_PLAIN, false }, { 40, "alone", WAY_TREE, false },
        { 40, "making way", WAY_TREE, false },     { 0, "alone", WAY_OURS, true },
        { 0, "alone", WAY_LEVER, false },          { 40, "sharing steps", WAY_OURS, false },
        { 0, "sharing steps", WAY_PRUNED, false }, { 40, "alone", WAY_SELF, false },
        { 40, "making way", WAY_PRUNED, true },    { 40, "sharing steps", WAY_SELF, true },
    };
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(cells) && !r; i++)
        if (matrix->options->matrix.full || !cells[i].is_long)
            r = run_cell(matrix,
                         &(Cell){ isa, 2, ENGINE_CHUNK_DEFAULT, cells[i].company, PROMPT_WHOLE, cells[i].way,
                                  cells[i].percent + 1, NULL, false },
                         true, err);
    return r;
}

/* Runs cells whose answers are constrained: what the grammar refuses is cut from trees, what it forces is drafted. */
static int run_constrained(Matrix *matrix, Isa isa, ErrText *err) {
    static const struct ConstrainedCell {
        const char *company;
        size_t way;
        uint32_t with_percent;
        bool is_long; /* with --full only */
    } cells[] = {
        { "alone", WAY_PLAIN, 0, false },         { "sharing steps", WAY_TREE, 0, false },
        { "making way", WAY_TREE, 0, false },     { "fork", WAY_SMALL_TREE, 0, false },
        { "prefix reuse", WAY_CHAIN, 0, false },  { "between others", WAY_PLAIN, 0, true },
        { "making way", WAY_PLAIN, 0, true },     { "alone", WAY_OURS, 0, true },
        { "making way", WAY_TREE, 40 + 1, true },
    };
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(cells) && !r; i++)
        if (matrix->options->matrix.full || !cells[i].is_long)
            r = run_cell(matrix,
                         &(Cell){ isa, 2, ENGINE_CHUNK_DEFAULT, cells[i].company, PROMPT_BRIEF, cells[i].way,
                                  cells[i].with_percent, NULL, true },
                         !i || cells[i].with_percent, err);
    return r;
}

static int run_npu(Matrix *matrix, Isa isa, ErrText *err) {
    bool has_cells = false;
    int r = matrix_npu_has_cells(matrix->options->model.path, &has_cells, err);

    for (size_t i = 0; has_cells && i < MATRIX_NPUS_N && !r; i++)
        if (matrix->options->matrix.full || !matrix_npus[i].is_long)
            r = run_cell(matrix,
                         &(Cell){ isa, 2, MATRIX_NPU_CHUNK, matrix_npus[i].company, PROMPT_WHOLE, matrix_npus[i].way, 0,
                                  &matrix_npus[i], false },
                         true, err);
    return r;
}

/* Runs all cells. The first one is what users run: the best ISA at the default chunk, alone. Then each axis varies by
 * itself, and with --full every ISA x chunk x threads. */
static int run_cells(Matrix *matrix, ErrText *err) {
    static const uint32_t chunks[] = { 1, 7, 32, ENGINE_CHUNK_DEFAULT, 512 };
    static const char *const companies[] = { "between others", "sharing steps",  "making way",      "prefix reuse",
                                             "fork",           "while arriving", "after cancelled", "after a restart" };
    static const char *const drafting[] = { "alone", "between others", "sharing steps", "making way", "fork" };
    const bool full = matrix->options->matrix.full;
    Isa best = ISA_SCALAR;
    int r;

    for (Isa isa = ISA_SCALAR; isa < _ISA_N; isa++)
        if (isa_present(isa))
            best = isa;
    r = run_cell(matrix, &(Cell){ best, 2, ENGINE_CHUNK_DEFAULT, "alone", PROMPT_WHOLE, WAY_PLAIN, 0, NULL, false },
                 true, err);
    for (size_t i = 0; i < ARRAY_LEN(companies) && !r; i++)
        r = run_cell(matrix,
                     &(Cell){ best, 2, ENGINE_CHUNK_DEFAULT, companies[i], PROMPT_WHOLE, WAY_PLAIN, 0, NULL, false },
                     false, err);
    for (size_t i = 0; i < ARRAY_LEN(drafting) && !r; i++)
        r = run_cell(matrix,
                     &(Cell){ best, 2, ENGINE_CHUNK_DEFAULT, drafting[i], PROMPT_WHOLE, WAY_TREE, 0, NULL, false },
                     false, err);
    /* A draft model only makes other trees; rows that end early are left out of steps that are shared or make way. */
    for (size_t i = 1; i < ARRAY_LEN(drafting) && !r; i++)
        if (full || !strcmp(drafting[i], "sharing steps"))
            r = run_cell(matrix,
                         &(Cell){ best, 2, ENGINE_CHUNK_DEFAULT, drafting[i], PROMPT_WHOLE, WAY_OURS, 0, NULL, false },
                         false, err);
    for (size_t i = 1; i < ARRAY_LEN(drafting) && !r; i++)
        if (full || !strcmp(drafting[i], "sharing steps") || !strcmp(drafting[i], "making way"))
            r = run_cell(
                matrix, &(Cell){ best, 2, ENGINE_CHUNK_DEFAULT, drafting[i], PROMPT_WHOLE, WAY_PRUNED, 0, NULL, false },
                false, err);
    for (size_t way = WAY_TREE + 1; way < WAY_N && !r; way++)
        r = run_cell(matrix, &(Cell){ best, 2, ENGINE_CHUNK_DEFAULT, "alone", PROMPT_WHOLE, way, 0, NULL, false },
                     false, err);
    if (!r)
        r = run_streamed(matrix, best, err);
    if (!r)
        r = run_constrained(matrix, best, err);
    if (!r)
        r = run_npu(matrix, best, err);
    if (!r) /* room for few drafts */
        r = run_cell(matrix, &(Cell){ best, 2, 7, "sharing steps", PROMPT_BRIEF, WAY_TREE, 0, NULL, false }, true, err);
    for (size_t i = 0; i < ARRAY_LEN(chunks) && !r && !full; i++)
        if (chunks[i] != ENGINE_CHUNK_DEFAULT) /* the first cell has this chunk */
            r = run_cell(matrix,
                         &(Cell){ best, 2, chunks[i], "alone", chunks[i] > 1 ? PROMPT_WHOLE : PROMPT_BRIEF, WAY_PLAIN,
                                  0, NULL, false },
                         false, err);
    /* Pipelines with as many groups as threads, with more, and without groups. */
    for (unsigned int threads = 4; threads >= 2 && !r; threads--)
        r = run_cell(matrix,
                     &(Cell){ best, threads, ENGINE_CHUNK_DEFAULT, threads > 2 ? "alone" : "not pipelined",
                              PROMPT_WHOLE, WAY_PLAIN, 0, NULL, false },
                     true, err);
    if (!r)
        r = run_cell(matrix, &(Cell){ best, 2, 7, "sharing steps", PROMPT_BRIEF, WAY_PLAIN, 0, NULL, false }, true,
                     err);
    if (!r)
        r = run_cell(matrix, &(Cell){ best, 2, 7, "prefix reuse", PROMPT_BRIEF, WAY_PLAIN, 0, NULL, false }, false,
                     err);
    for (int isa = (int)best; isa >= ISA_SCALAR && !r; isa--) {
        if (!isa_present((Isa)isa))
            continue;
        for (unsigned int threads = 2; threads >= 1 && !r; threads--) {
            if (!full && isa == ISA_SCALAR && threads == 1)
                continue; /* threads do not depend on the instructions, and these kernels take long */
            if (!full)    /* a chunk size that cuts the prompt unevenly */
                r = run_cell(matrix, &(Cell){ (Isa)isa, threads, 32, "alone", PROMPT_BRIEF, WAY_PLAIN, 0, NULL, false },
                             isa != (int)best || threads != 2, err);
            if (!r && threads == 2 && (full || isa != ISA_SCALAR)) /* test_tree_step has trees of all */
                r = run_cell(matrix, &(Cell){ (Isa)isa, threads, 32, "alone", PROMPT_BRIEF, WAY_TREE, 0, NULL, false },
                             full, err);
            for (size_t i = 0; i < ARRAY_LEN(chunks) && !r && full; i++)
                r = run_cell(matrix,
                             &(Cell){ (Isa)isa, threads, chunks[i], "alone", PROMPT_WHOLE, WAY_PLAIN, 0, NULL, false },
                             !i, err);
        }
    }
    return r;
}

/* Runs one cell into a file: the other process of "after a restart", or a matrix on another machine. */
static int run_dump(Matrix *matrix, ErrText *err) {
    const EvalOptions *options = matrix->options;
    Cell cell = { options->model.engine.load.isa,
                  options->model.engine.load.threads,
                  options->model.engine.load.chunk_tokens ? options->model.engine.load.chunk_tokens
                                                          : ENGINE_CHUNK_DEFAULT,
                  "alone",
                  options->matrix.brief ? PROMPT_BRIEF : PROMPT_WHOLE,
                  WAY_PLAIN,
                  0,
                  NULL,
                  false };
    int r = open_for(matrix, &cell, err);

    for (size_t run = 0; run < N_RUNS && !r; run++) {
        r = matrix_output_init(&matrix->golden[run], options->matrix.n_tokens,
                               engine_info(matrix->model.engine)->n_vocab);
        if (!r)
            r = run_one(matrix, &cell, run, &matrix->golden[run], err);
    }
    return r ? r : matrix_outputs_dump(options->matrix.dump, matrix->golden, N_RUNS, err);
}

int eval_matrix(const EvalOptions *options) {
    _cleanup_(freep) char *package = NULL;
    EvalOptions packaged = *options;
    _cleanup_(matrix_deinit) Matrix matrix = { .options = &packaged };
    char absent[64] = "";
    ErrText err = { 0 };

    if (options->model.engine.load.device != ENGINE_DEVICE_CPU &&
        !(options->model.engine.load.device == ENGINE_DEVICE_NPU && options->matrix.dump))
        return eval_fail(options,
                         "the matrix is about the cpu device: leave --device out, or ask for one run of another "
                         "with --dump and compare the files");
    if (options->matrix.n_tokens < 1 || options->matrix.n_tokens > 4096)
        return eval_fail(options, "--tokens %zu is outside 1..4096", options->matrix.n_tokens);
    if (options->matrix.brief && !options->matrix.dump)
        return eval_fail(options, "--brief is for --dump: the matrix has both prompts");
    if (options->matrix.full && options->matrix.dump)
        return eval_fail(options, "--dump is one run, and --full all of them: choose one");
    if (options->matrix.cells && options->matrix.dump)
        return eval_fail(options, "--dump is one run, and --cells some of the matrix: choose one");
    /* All cells, and the other process, load one package, whatever the recipe. */
    if (eval_package_path(&options->model, &package, &err))
        return eval_fail(options, "%s", err.text);
    packaged.model.path = package;
    packaged.model.recipe_option = NULL;
    if (options->matrix.dump)
        return run_dump(&matrix, &err) ? eval_fail(options, "%s", err.text) : EVAL_OK;
    if (prefix_cache_new(&matrix.prefix_cache, UINT64_MAX))
        return eval_fail(options, "out of memory");
    matrix.rows = json_array();
    if (!options->json.is_wanted)
        printf("%-11s %7s %6s %6s %6s  %-16s %-10s  %zu greedy and %zu seeded tokens, with their logits\n", "isa",
               "threads", "chunk", "prompt", "memory", "company", "tokens", options->matrix.n_tokens,
               options->matrix.n_tokens);
    if (run_cells(&matrix, &err))
        return eval_fail(options, "%s", err.text);
    if (options->matrix.cells && matrix.n_cells == 1)
        return eval_fail(
            options,
            "--cells is all, few, schema, npu (with a package of static activations), or a company of the matrix, as "
            "'sharing steps', not '%s'",
            options->matrix.cells);
    for (Isa isa = ISA_SCALAR; isa < _ISA_N; isa++)
        if (!isa_present(isa))
            snprintf(absent + strlen(absent), sizeof(absent) - strlen(absent), "%s%s", *absent ? ", " : "",
                     isa_name(isa));
    if (options->json.is_wanted) {
        json_t *report =
            eval_report_add(eval_report_new(options, &matrix.model, "matrix"),
                            json_pack("{s:b, s:i, s:i, s:i, s:s, s:O}", "ok", !matrix.n_different, "cells",
                                      (int)matrix.n_cells, "different", (int)matrix.n_different, "tokens",
                                      (int)options->matrix.n_tokens, "isas_absent", absent, "rows", matrix.rows));
        return eval_print_json(options, report, matrix.n_different ? EVAL_OUTSIDE : EVAL_OK);
    }
    printf("%zu cells, %zu different%s%s\n%s\n", matrix.n_cells, matrix.n_different,
           *absent ? "; not on this machine: " : "", absent, matrix.n_different ? "NOT BIT-EXACT" : "ok: bit-exact");
    return matrix.n_different ? EVAL_OUTSIDE : EVAL_OK;
}
