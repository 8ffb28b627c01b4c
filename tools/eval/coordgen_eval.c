// SPDX-License-Identifier: Apache-2.0
/* coordgen-eval: options and verbs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/standard_io.h"
#include "base/log.h"
#include "base/strings/decimal.h"
#include "base/strings/nearest_word.h"
#include "base/strings/options.h"
#include "quant/format/recipe_spec.h"
#include "tools/eval/eval.h"

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
    "  quant-table            packages of several recipes: bytes, perplexity, accuracy, import time\n"
    "  matrix                 bit-exactness over chunk sizes, instruction sets, threads and company\n"
    "  plot FILE.csv          draw what was measured: no model is needed\n"
    "\n"
    "Options\n";

static const char help_foot[] = "\n"
                                "Exit code: 0 within the tolerance, 1 outside it or failed, 2 wrong usage.\n";

enum {
    HELP_COLUMN = 24
};

enum { /* indices into option_table */
    OPT_MODEL,
    OPT_DEVICE,
    OPT_ISA,
    OPT_THREADS,
    OPT_CHUNK,
    OPT_GRAPH_SWITCH,
    OPT_GRAPH_BLOCKS,
    OPT_GRAPH_FILES,
    OPT_GRAPHS_MEMORY,
    OPT_OP_ORDER,
    OPT_OP_PLACEMENT,
    OPT_RECIPE,
    OPT_CALIBRATION,
    OPT_JSON,
    OPT_TOLERANCE,
    OPT_GREEDY_MARGIN,
    OPT_FILE,
    OPT_WINDOW,
    OPT_WINDOWS,
    OPT_AGAINST,
    OPT_EXPECT,
    OPT_NAME,
    OPT_LIMIT,
    OPT_NORMALISE,
    OPT_ROWS,
    OPT_MCQ,
    OPT_WORK_DIR,
    OPT_SAVE,
    OPT_PLOT,
    OPT_DROP_PACKAGES,
    OPT_TOKENS,
    OPT_FULL,
    OPT_CELLS,
    OPT_DUMP,
    OPT_BRIEF,
    OPT_VERBOSE,
    OPT_HELP,
    OPT_VERSION,
};

static const Option option_table[] = {
    [OPT_MODEL] = { "model", 'm', "FILE",
                    "a .gguf, or a .cgm package; a .gguf is imported on first use by --device=cpu" },
    [OPT_DEVICE] = { "device", 0, "NAME",
                     "reference (float32 loops on the .gguf), cpu (int8 products; default), or npu (these on\n"
                     "static graphs, of a package with static activations)" },
    [OPT_ISA] = { "isa", 0, "NAME",
                  "best (default), scalar, avx2, avx512vnni, amx, neon, neondot, i8mm; also COORDGEN_ISA" },
    [OPT_THREADS] = { "threads", 0, "N", "threads that compute (default: the processors)" },
    [OPT_CHUNK] = { "chunk", 0, "N",
                    "tokens of a prefill step (default: as the machine does best;\n"
                    "matrix: 256)" },
    [OPT_GRAPH_SWITCH] = { "graph-switch", 0, "HOW",
                           "npu: none (graphs of prompts and of decoding in memory), sync, async or progressive\n"
                           "(default)" },
    [OPT_GRAPH_BLOCKS] = { "graph-blocks", 0, "N",
                           "npu: parts of the layers that are loaded by themselves (default 8)" },
    [OPT_GRAPH_FILES] = { "graph-files", 0, "HOW",
                          "npu: what graphs are loaded from: auto (default), packed (the package) or materialised" },
    [OPT_GRAPHS_MEMORY] = { "graphs-memory", 0, "SIZE", "npu: limit of the graphs' memory (default 4G)" },
    [OPT_OP_ORDER] = { "op-order", 0, "HOW",
                       "npu: what runs next in steps of several chunks: in-order, static, out-of-order (default)\n"
                       "or position" },
    [OPT_OP_PLACEMENT] = { "op-placement", 0, "HOW",
                           "npu: where products of such steps run: profile (where the whole is sooner done, default)\n"
                           "or npu" },
    [OPT_RECIPE] = { "recipe", 0, "SPEC",
                     "how a .gguf is imported: NAME[:BITS][:SWITCH...], e.g. int8 (default), int8:4.5,\n"
                     "compensated:4:-rotation; a SWITCH is + or - rotation, scale-search, smoothing,\n"
                     "compensation, descent, gain-correction or static-activations, or\n"
                     "allocation=HOW, grid=KIND, embedding-bits=N, budget-bytes=N, hot-channels=PERCENT,\n"
                     "prune-outliers=PERCENT" },
    [OPT_CALIBRATION] = { "calibration", 0, "FILE", "a text for recipes that need one (default: coordgen's own)" },
    [OPT_JSON] = { "json", 0, "[HOW]", "report as JSON: pretty (default), short, off" },
    [OPT_TOLERANCE] = { "tolerance", 0, "X",
                        "logits: share of the rms (default 2e-4 reference, 0.5 cpu)\n"
                        "perplexity with --expect: relative (default 1e-4 reference, 5e-3 cpu)" },
    [OPT_GREEDY_MARGIN] = { "greedy-margin", 0, "X",
                            "logits: golden margin below which a greedy token may differ\n"
                            "(default 0.005 reference, 0.5 cpu)" },
    [OPT_FILE] = { "file", 0, "TEXT", "perplexity, divergence: the text" },
    [OPT_WINDOW] = { "window", 0, "N", "perplexity, divergence: tokens of a window (default 512)" },
    [OPT_WINDOWS] = { "windows", 0, "N", "perplexity, divergence: how many from the start (default: all that fit)" },
    [OPT_AGAINST] = { "against", 0, "FILE", "divergence: a .gguf, computed in float32, or a .cgm package" },
    [OPT_EXPECT] = { "expect", 0, "FILE", "perplexity: golden values to compare with" },
    [OPT_NAME] = { "name", 0, "NAME", "perplexity: the model's entry in that file" },
    [OPT_LIMIT] = { "limit", 0, "N", "mcq, cloze, quant-table: the first N rows of questions (default: all)" },
    [OPT_NORMALISE] = { "normalise", 0, "HOW",
                        "mcq, quant-table: log-likelihoods a byte of the continuation (bytes), as they are (none),\n"
                        "or by the row's set (auto, the default): none for winogrande, bytes for others" },
    [OPT_ROWS] = { "rows", 0, "SPEC,...", "quant-table: recipes, after a first row in float; as --recipe has them" },
    [OPT_MCQ] = { "mcq", 0, "FILE",
                  "quant-table: questions as mcq has them; up to 8 times. --file TEXT with --windows: its\n"
                  "perplexity" },
    [OPT_WORK_DIR] = { "work-dir", 0, "DIR", "quant-table: where packages are kept" },
    [OPT_SAVE] = { "save", 0, "FILE.json",
                   "quant-table: where results are kept, so that the same command goes on after what is\n"
                   "done (default: DIR/NAME.quant-table.json)" },
    [OPT_PLOT] = { "plot", 0, "FILE.svg", "quant-table: perplexity against bytes; plot: the picture" },
    [OPT_DROP_PACKAGES] = { "drop-packages", 0, NULL, "quant-table: remove a package when its row is done" },
    [OPT_TOKENS] = { "tokens", 0, "N", "matrix: output tokens of each run (default 200)" },
    [OPT_FULL] = { "full", 0, NULL, "matrix: every instruction set with every chunk size and thread count" },
    [OPT_CELLS] = { "cells", 0, "WHICH",
                    "matrix: all (default); few: those that a format of weights can differ in, beside a\n"
                    "model that has them all; npu: those on that device; or a company (\"after a restart\");\n"
                    "and the first cell" },
    [OPT_DUMP] = { "dump", 0, "FILE",
                   "matrix: instead, the tokens and logits of one run (--isa, --threads, --chunk) into FILE,\n"
                   "which has the same bytes on every machine" },
    [OPT_BRIEF] = { "brief", 0, NULL, "with --dump: the prompt of 82 tokens, not of 530" },
    [OPT_VERBOSE] = { "verbose", 0, NULL, "log to stderr" },
    [OPT_HELP] = { "help", 'h', NULL, "this text" },
    [OPT_VERSION] = { "version", 0, NULL, "the version" },
};

static const struct {
    const char *name;
    int (*fn)(const EvalOptions *options);
    bool needs_file, without_model;
} verbs[] = {
    { "tokens", eval_tokens, true, false },
    { "logits", eval_logits, true, false },
    { "perplexity", eval_perplexity, true, false },
    { "divergence", eval_divergence, true, false },
    { "mcq", eval_mcq, true, false },
    { "cloze", eval_cloze, true, false },
    { "quant-table", eval_quant_table, false, false },
    { "matrix", eval_matrix, false, false },
    { "plot", eval_plot, true, true },
};

static int usage(const char *format, const char *value) {
    fprintf(stderr, "coordgen-eval: ");
    fprintf(stderr, format, value);
    fprintf(stderr, "; see coordgen-eval --help\n");
    return EVAL_USAGE;
}

static bool parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *valuep) {
    return decimal_parse_u64(text, valuep) && *valuep >= min && *valuep <= max;
}

static bool parse_share(const char *text, double *valuep) {
    return decimal_parse(text, valuep) && *valuep >= 0;
}

static bool parse_json(const char *how, EvalOptions *options) {
    options->json = true;
    options->json_flags = JSON_INDENT(2) | JSON_REAL_PRECISION(9);
    if (!how || !strcmp(how, "pretty"))
        return true;
    options->json_flags = JSON_COMPACT | JSON_REAL_PRECISION(9);
    if (!strcmp(how, "short"))
        return true;
    options->json = false;
    return !strcmp(how, "off");
}

/* One option; NULL when it is fine, else what is wrong with its value. */
static const char *take_option(int option, const char *value, EvalOptions *options, ErrText *err) {
    uint64_t number = 0;
    WeightsMemory memory;

    switch (option) {
    case OPT_MODEL:
        options->model = value;
        return NULL;
    case OPT_DEVICE:
        return engine_device_named(value, &options->device) ? NULL : "--device is reference, cpu or npu, not '%s'";
    case OPT_ISA:
        return isa_parse(value, &options->isa, err)
                   ? "--isa is best, scalar, avx2, avx512vnni, amx, neon, neondot or i8mm, not '%s'"
                   : NULL;
    case OPT_THREADS:
        if (!parse_number(value, 1, 1024, &number))
            return "--threads is 1..1024, not '%s'";
        options->threads = (unsigned int)number;
        return NULL;
    case OPT_CHUNK:
        if (!parse_number(value, 1, ENGINE_CHUNK_MAX, &number))
            return "--chunk is 1..4096, not '%s'";
        options->chunk_tokens = (uint32_t)number;
        return NULL;
    case OPT_GRAPH_SWITCH:
        return graph_switch_named(value, &options->graphs.policy)
                   ? NULL
                   : "--graph-switch is none, sync, async or progressive, not '%s'";
    case OPT_GRAPH_BLOCKS:
        if (!parse_number(value, 1, GRAPH_BLOCKS_MAX, &number))
            return "--graph-blocks is 1..64, not '%s'";
        options->graphs.n_blocks = (uint32_t)number;
        return NULL;
    case OPT_GRAPH_FILES:
        return graph_form_named(value, &options->graphs.form)
                   ? NULL
                   : "--graph-files is auto, packed or materialised, not '%s'";
    case OPT_GRAPHS_MEMORY:
        if (weights_memory_parse(&memory, value, err) || memory.is_percent || !memory.bytes)
            return "--graphs-memory is a number of bytes, with K, M, G or T behind it, not '%s'";
        options->graphs.memory_bytes = memory.bytes;
        return NULL;
    case OPT_OP_ORDER:
        return op_order_named(value, &options->op_order)
                   ? NULL
                   : "--op-order is in-order, static, out-of-order or position, not '%s'";
    case OPT_OP_PLACEMENT:
        return op_placement_named(value, &options->op_placement) ? NULL : "--op-placement is profile or npu, not '%s'";
    case OPT_RECIPE:
        options->recipe_option = "--recipe";
        return recipe_spec_parse(&options->recipe, value, err) ? err->text : NULL;
    case OPT_CALIBRATION:
        options->calibration = value;
        options->recipe_option = "--calibration";
        return NULL;
    case OPT_ROWS:
        options->rows = value;
        return NULL;
    case OPT_MCQ:
        if (options->n_mcq == EVAL_MCQ_MAX)
            return "--mcq is taken 8 times, '%s' is one too many";
        options->mcq[options->n_mcq++] = value;
        return NULL;
    case OPT_WORK_DIR:
        options->work_dir = value;
        return NULL;
    case OPT_SAVE:
        options->save = value;
        return NULL;
    case OPT_PLOT:
        options->plot = value;
        return NULL;
    case OPT_DROP_PACKAGES:
        options->drop_packages = true;
        return NULL;
    case OPT_JSON:
        return parse_json(value, options) ? NULL : "--json is pretty, short or off, not '%s'";
    case OPT_TOLERANCE:
        return parse_share(value, &options->tolerance) ? NULL : "--tolerance is a number from 0 on, not '%s'";
    case OPT_GREEDY_MARGIN:
        return parse_share(value, &options->greedy_margin) ? NULL : "--greedy-margin is a number from 0 on, not '%s'";
    case OPT_FILE:
        options->file = value;
        return NULL;
    case OPT_WINDOW:
        if (!parse_number(value, 4, 1u << 20, &number))
            return "--window is 4..1048576, not '%s'";
        options->window = (size_t)number;
        return NULL;
    case OPT_WINDOWS:
        if (!parse_number(value, 1, 1u << 20, &number))
            return "--windows is 1..1048576, not '%s'";
        options->windows = (size_t)number;
        return NULL;
    case OPT_AGAINST:
        options->against = value;
        return NULL;
    case OPT_EXPECT:
        options->expect = value;
        return NULL;
    case OPT_NAME:
        options->name = value;
        return NULL;
    case OPT_LIMIT:
        if (!parse_number(value, 1, 1u << 30, &number))
            return "--limit is a number of rows from 1 on, not '%s'";
        options->limit = (size_t)number;
        return NULL;
    case OPT_NORMALISE:
        return mcq_normalise_parse(value, &options->normalise) ? "--normalise is auto, bytes or none, not '%s'" : NULL;
    case OPT_TOKENS:
        if (!parse_number(value, 1, 4096, &number))
            return "--tokens is 1..4096, not '%s'";
        options->n_tokens = (size_t)number;
        return NULL;
    case OPT_FULL:
        options->full = true;
        return NULL;
    case OPT_CELLS:
        options->cells = value;
        return NULL;
    case OPT_DUMP:
        options->dump = value;
        return NULL;
    case OPT_BRIEF:
        options->brief = true;
        return NULL;
    case OPT_VERBOSE:
        log_set_level(LOG_LEVEL_DEBUG);
        return NULL;
    }
    return NULL;
}

static int help(void) {
    fputs(help_head, stdout);
    options_print(stdout, option_table, ARRAY_LEN(option_table), HELP_COLUMN);
    fputs(help_foot, stdout);
    return standard_output_end("coordgen-eval", EVAL_OK, EVAL_OUTSIDE);
}

static int version(void) {
    puts("coordgen-eval " COORDGEN_VERSION);
    return standard_output_end("coordgen-eval", EVAL_OK, EVAL_OUTSIDE);
}

#define ARGUMENTS_MAX 3 /* one more than any verb takes */

/* The command line; false: the program ends with *statusp. */
static bool read_words(int argc, char **argv, EvalOptions *options, const char *arguments[ARGUMENTS_MAX],
                       int *statusp) {
    OptionReader reader;
    OptionWord word;
    const char *wrong;
    size_t n = 0;
    ErrText err;
    int r;

    option_reader_init(&reader, argc, argv);
    option_reader_add(&reader, option_table, ARRAY_LEN(option_table));
    while (!(r = option_reader_next(&reader, &word, &err))) {
        const int option = word.option ? (int)(word.option - option_table) : -1;

        if (option < 0) {
            arguments[n] = word.text;
            n += n + 1 < ARGUMENTS_MAX;
            continue;
        }
        if (option == OPT_HELP || option == OPT_VERSION) {
            *statusp = option == OPT_HELP ? help() : version();
            return false;
        }
        wrong = take_option(option, word.text, options, &err);
        if (!wrong)
            continue;
        *statusp = wrong == err.text ? usage("%s", err.text) : usage(wrong, word.text);
        return false;
    }
    *statusp = EVAL_USAGE;
    if (r == OPTIONS_E_USAGE)
        fprintf(stderr, "coordgen-eval: %s\n", err.text);
    return r == OPTIONS_E_END;
}

/* Says that there is no such verb, and which one may be meant. */
static int unknown_verb(const char *name) {
    const char *near = nearest_word_in(name, &verbs[0].name, sizeof(*verbs), ARRAY_LEN(verbs));

    if (!near)
        return usage("unknown verb '%.64s'", name);
    fprintf(stderr, "coordgen-eval: unknown verb '%.64s': did you mean '%s'?\n", name, near);
    return EVAL_USAGE;
}

int main(int argc, char **argv) {
    EvalOptions options = {
        .device = ENGINE_DEVICE_CPU,
        .isa = ISA_BEST,
        .tolerance = -1,
        .greedy_margin = -1,
        .window = 512,
        .n_tokens = 200,
    };
    const char *isa = getenv("COORDGEN_ISA"), *arguments[ARGUMENTS_MAX] = { NULL }, **rest = arguments + 1;
    size_t verb = 0;
    ErrText err = { 0 };
    int status;

    if (standard_io_secure()) {
        fputs("coordgen-eval: /dev/null cannot be opened in place of a closed standard descriptor\n", stderr);
        return EVAL_OUTSIDE;
    }
    (void)quant_recipe_named(&options.recipe, NULL);
    if (isa && *isa && isa_parse(isa, &options.isa, &err))
        return usage("COORDGEN_ISA: %s", err.text);
    if (!read_words(argc, argv, &options, arguments, &status))
        return status;
    if (!*arguments)
        return usage("%s", "a verb is missing");
    while (verb < ARRAY_LEN(verbs) && strcmp(verbs[verb].name, *arguments))
        verb++;
    if (verb == ARRAY_LEN(verbs))
        return unknown_verb(*arguments);
    if (*rest && verbs[verb].needs_file && !options.file)
        options.file = *rest++;
    if (*rest)
        return usage("unexpected argument '%s'", *rest);
    if (!options.model && !verbs[verb].without_model)
        return usage("%s", "--model is missing");
    if (verbs[verb].needs_file && !options.file)
        return usage("%s needs a file", verbs[verb].name);
    return standard_output_end("coordgen-eval", verbs[verb].fn(&options), EVAL_OUTSIDE);
}
