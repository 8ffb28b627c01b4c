// SPDX-License-Identifier: Apache-2.0
/* Options and verbs of coordgen-eval. */
#include <stdlib.h>
#include <string.h>

#include "base/files/standard_io.h"
#include "base/strings/command_line.h"
#include "tools/eval/eval.h"
#include "tools/eval/eval_settings.h"

static const char help_head[] =
    "coordgen-eval VERB [FILE] --model MODEL [OPTION...]\n"
    "\n"
    "Holds the engine against golden values, without the daemon.\n"
    "\n"
    "Verbs\n"
    "  tokens FILE.jsonl      token vectors and chat renderings\n"
    "  logits FILE.jsonl      losses, logits and greedy continuations\n"
    "  perplexity --file TEXT windows of a text, the second half of each scored\n"
    "  divergence --file TEXT how far what it says of the next token is from what another model does, --against\n"
    "  mcq FILE.jsonl         multiple choice by the log-likelihood of the continuations\n"
    "  cloze FILE.jsonl       whether the last word of a text comes by itself, and its perplexity\n"
    "  quant-table            packages of several recipes: bytes, perplexity, accuracy, divergence, import time\n"
    "  mask FILE.jsonl        JSON schemas with instances, token by token through the masks of their grammars\n"
    "  embed FILE             vectors of the file's lines beside those of the float model, --against\n"
    "  matrix                 bit-exactness over chunk sizes, instruction sets, threads and company\n"
    "\n"
    "Options\n";

static const char help_foot[] = "\n"
                                "Exit code: 0 within the tolerance, 1 outside it or failed, 2 wrong usage.\n";

enum {
    HELP_COLUMN = 24
};

/* The field of EvalOptions that takes a row's value. */
#define AT(field) .offset = offsetof(EvalOptions, field)
#define TEXT(field) .set = command_set_text, AT(field)
#define FLAG(field) .set = command_set_flag, AT(field)
#define NUMBER(type, field, least_, most_) .set = command_set_##type, AT(field), .least = (least_), .most = (most_)
#define TYPED(setter, field, accepts_) .set = (setter), AT(field), .accepts = (accepts_)
#define CHOICE(choices_, field) .set = command_set_choice, AT(field), .choices = (choices_)

static int set_normalise(const CommandOption *option, const char *value, void *field, ErrText *err) {
    return mcq_normalise_parse(value, field) ? COMMAND_E_VALUE : 0;
}

static int add_questions(const CommandOption *option, const char *value, void *field, ErrText *err) {
    EvalTableOptions *table = field;

    if (table->n_mcq == EVAL_MCQ_MAX)
        return err_set(err, OPTIONS_E_USAGE, "--mcq is taken 8 times, '%s' is one too many", value);
    table->mcq[table->n_mcq++] = value;
    return 0;
}

static int add_divergence(const CommandOption *option, const char *value, void *field, ErrText *err) {
    EvalTableOptions *table = field;

    if (table->n_divergence == EVAL_DIVERGENCE_MAX)
        return err_set(err, OPTIONS_E_USAGE, "--divergence is taken 8 times, '%s' is one too many", value);
    table->divergence[table->n_divergence++] = value;
    return 0;
}

static const CommandOption option_table[] = {
    { { "model", 'm', "FILE", "a .gguf, or a .cgm package; a .gguf is imported on first use by --device=cpu" },
      TEXT(model.path) },
    { { "device", 0, "NAME",
        "reference (float32 loops on the .gguf), cpu (int8 products; default), or npu (these on\n"
        "static graphs, of a package with static activations)" },
      CHOICE(engine_device_choices, model.engine.load.device) },
    { { "isa", 0, "NAME", "best (default), scalar, avx2, avx512vnni, amx, neon, neondot, i8mm; also COORDGEN_ISA" },
      CHOICE(isa_choices, model.engine.load.isa) },
    { { "threads", 0, "N", "threads that compute (default: the processors)" },
      NUMBER(u32, model.engine.load.threads, 1, 1024) },
    { { "chunk", 0, "N",
        "tokens of a prefill step (default: as the machine does best;\n"
        "matrix: 256)" },
      NUMBER(u32, model.engine.load.chunk_tokens, 1, ENGINE_CHUNK_MAX) },
    { { "graph-switch", 0, "HOW",
        "npu: none (graphs of prompts and of decoding in memory), sync, async or progressive\n"
        "(default)" },
      CHOICE(graph_switch_choices, model.engine.load.weights.graphs.policy) },
    { { "graph-blocks", 0, "N", "npu: parts of the layers that are loaded by themselves (default 8)" },
      NUMBER(u32, model.engine.load.weights.graphs.n_blocks, 1, GRAPH_BLOCKS_MAX) },
    { { "graph-files", 0, "HOW",
        "npu: what graphs are loaded from: auto (default), packed (the package) or materialised" },
      CHOICE(graph_form_choices, model.engine.load.weights.graphs.form) },
    { { "graphs-memory", 0, "SIZE", "npu: limit of the graphs' memory (default 4G)" },
      TYPED(eval_set_bytes, model.engine.load.weights.graphs.memory_bytes, EVAL_BYTES_ACCEPTS) },
    { { "op-order", 0, "HOW",
        "npu: what runs next in steps of several chunks: in-order, static, out-of-order (default)\n"
        "or position" },
      CHOICE(op_order_choices, model.engine.load.op_order) },
    { { "op-placement", 0, "HOW",
        "npu: where products of such steps run: profile (where the whole is sooner done, default),\n"
        "npu, or all (attention's products, too)" },
      CHOICE(op_placement_choices, model.engine.load.op_placement) },
    { { "recipe", 0, "SPEC",
        "how a .gguf is imported: NAME[:BITS][:SWITCH...], e.g. int8 (default), int8:4.5,\n"
        "compensated:4:-rotation; a SWITCH is + or - rotation, scale-search, smoothing,\n"
        "compensation, descent, gain-correction or static-activations, or\n"
        "allocation=HOW, grid=KIND, embedding-bits=N, budget-bytes=N, hot-channels=PERCENT,\n"
        "prune-outliers=PERCENT" },
      TYPED(eval_set_recipe, model, NULL) },
    { { "calibration", 0, "FILE", "a text for recipes that need one (default: coordgen's own)" },
      TYPED(eval_set_calibration, model, NULL) },
    { { "json", 0, "[HOW]", "report as JSON: pretty (default), short, off" },
      TYPED(eval_set_json, json, EVAL_JSON_ACCEPTS),
      .most = 9 },
    { { "tolerance", 0, "X",
        "logits: share of the rms (default 2e-4 reference, 0.5 cpu)\n"
        "perplexity with --expect: relative (default 1e-4 reference; 5e-3 cpu, and two\n"
        "standard errors of the windows' differences)" },
      TYPED(command_set_share, limits.tolerance, "a number from 0 on") },
    { { "greedy-margin", 0, "X",
        "logits: golden margin below which a greedy token may differ\n"
        "(default 0.005 reference, 0.5 cpu)" },
      TYPED(command_set_share, limits.greedy_margin, "a number from 0 on") },
    { { "file", 0, "TEXT", "perplexity, divergence: the text" }, TEXT(file) },
    { { "window", 0, "N", "perplexity, divergence: tokens of a window (default 512)" },
      NUMBER(size, text.window, 4, 1u << 20) },
    { { "windows", 0, "N", "perplexity, divergence: how many from the start (default: all that fit)" },
      NUMBER(size, text.windows, 1, 1u << 20) },
    { { "against", 0, "FILE", "divergence, embed: a .gguf, computed in float32, or a .cgm package" },
      TEXT(text.against) },
    { { "expect", 0, "FILE", "perplexity: golden values to compare with" }, TEXT(text.expect) },
    { { "name", 0, "NAME", "perplexity: the model's entry in that file" }, TEXT(text.name) },
    { { "limit", 0, "N", "mcq, cloze, quant-table: the first N rows of questions; mask: of schemas (default: all)" },
      NUMBER(size, questions.limit, 1, 1u << 30),
      .accepts = "a number of rows from 1 on" },
    { { "normalise", 0, "HOW",
        "mcq, quant-table: log-likelihoods a byte of the continuation (bytes), as they are (none),\n"
        "or by the row's set (auto, the default): none for winogrande, bytes for others" },
      TYPED(set_normalise, questions.normalise, "auto, bytes or none") },
    { { "rows", 0, "SPEC,...", "quant-table: recipes, after a first row in float; as --recipe has them" },
      TEXT(table.rows) },
    { { "mcq", 0, "FILE",
        "quant-table: questions as mcq has them; up to 8 times. --file TEXT with --windows: its\n"
        "perplexity" },
      TYPED(add_questions, table, NULL) },
    { { "divergence", 0, "TEXT",
        "quant-table: how far rows are from float on the first --windows of a text; up to 8\n"
        "times" },
      TYPED(add_divergence, table, NULL) },
    { { "work-dir", 0, "DIR", "quant-table: where packages and what the reference said are kept" },
      TEXT(table.work_dir) },
    { { "save", 0, "FILE.json",
        "quant-table: where results are kept, so that the same command goes on after what is\n"
        "done (default: DIR/NAME.quant-table.json)" },
      TEXT(table.save) },
    { { "plot", 0, "FILE.csv", "quant-table: numbers of a plot, perplexity against bytes, which tools/plot draws" },
      TEXT(table.plot) },
    { { "drop-packages", 0, NULL, "quant-table: remove a package when its row is done" }, FLAG(table.drop_packages) },
    { { "tokens", 0, "N", "matrix: output tokens of each run (default 200)" }, NUMBER(size, matrix.n_tokens, 1, 4096) },
    { { "full", 0, NULL, "matrix: every instruction set with every chunk size and thread count" }, FLAG(matrix.full) },
    { { "cells", 0, "WHICH",
        "matrix: all (default); few: those that a format of weights can differ in, beside a\n"
        "model that has them all; npu: those on that device; or a company (\"after a restart\");\n"
        "and the first cell" },
      TEXT(matrix.cells) },
    { { "dump", 0, "FILE",
        "matrix: instead, the tokens and logits of one run (--isa, --threads, --chunk) into FILE,\n"
        "which has the same bytes on every machine" },
      TEXT(matrix.dump) },
    { { "brief", 0, NULL, "with --dump: the prompt of 82 tokens, not of 530" }, FLAG(matrix.brief) },
    { { "list", 0, NULL, "mask: each schema that is refused or wrong" }, FLAG(list) },
    { { "any-order", 0, NULL, "mask: properties in any order, not only in the schema's" }, FLAG(any_order) },
    { { "trace", 0, "FILE",
        "mask: writes the vocabulary, each instance's tokens and the time of each mask, as JSON lines" },
      TEXT(trace) },
    { { "verbose", 0, NULL, "log to stderr" }, .set = command_set_verbose },
    { .option = { "help", 'h', NULL, "this text" } },
    { .option = { "version", 0, NULL, "the version" } },
};

static const struct {
    const char *name;
    int (*fn)(const EvalOptions *options);
    bool needs_file;
} verbs[] = {
    { "tokens", eval_tokens, true },
    { "logits", eval_logits, true },
    { "perplexity", eval_perplexity, true },
    { "divergence", eval_divergence, true },
    { "mcq", eval_mcq, true },
    { "cloze", eval_cloze, true },
    { "quant-table", eval_quant_table, false },
    { "mask", eval_mask, true },
    { "embed", eval_embed, true },
    { "matrix", eval_matrix, false },
};

int main(int argc, char **argv) {
    EvalOptions options = {
        .model.engine = { .load.device = ENGINE_DEVICE_CPU, .load.isa = ISA_BEST },
        .limits = { .tolerance = -1, .greedy_margin = -1 },
        .text.window = 512,
        .matrix.n_tokens = 200,
    };
    CommandLine line = {
        .program = "coordgen-eval",
        .see_help = "; see coordgen-eval --help",
        .tables = { { help_head, option_table, ARRAY_LEN(option_table) } },
        .help_column = HELP_COLUMN,
        .help_foot = help_foot,
        .options = &options,
    };
    const char *isa = getenv("COORDGEN_ISA"), **rest = line.arguments + 1;
    size_t verb = 0;
    ErrText err = { 0 };
    int status;

    if (standard_io_secure()) {
        fputs("coordgen-eval: /dev/null cannot be opened in place of a closed standard descriptor\n", stderr);
        return EVAL_OUTSIDE;
    }
    (void)quant_recipe_named(&options.model.recipe, NULL);
    if (isa && *isa && isa_parse(isa, &options.model.engine.load.isa, &err))
        return command_line_refuse(&line, "COORDGEN_ISA: %s", err.text);
    if (!command_line_read(&line, argc, argv, &status))
        return status;
    if (!*line.arguments)
        return command_line_refuse(&line, "a verb is missing");
    while (verb < ARRAY_LEN(verbs) && strcmp(verbs[verb].name, *line.arguments))
        verb++;
    if (verb == ARRAY_LEN(verbs))
        return command_line_refuse_verb(&line, *line.arguments, &verbs[0].name, sizeof(*verbs), ARRAY_LEN(verbs));
    if (*rest && verbs[verb].needs_file && !options.file)
        options.file = *rest++;
    if (*rest)
        return command_line_refuse(&line, "unexpected argument '%s'", *rest);
    if (!options.model.path)
        return command_line_refuse(&line, "--model is missing");
    if (verbs[verb].needs_file && !options.file)
        return command_line_refuse(&line, "%s needs a file", verbs[verb].name);
    return standard_output_end("coordgen-eval", verbs[verb].fn(&options), EVAL_OUTSIDE);
}
