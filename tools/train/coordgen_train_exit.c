// SPDX-License-Identifier: Apache-2.0
/* coordgen-train-exit: trains the early-exit predictor of a model for its draft model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/standard_io.h"
#include "base/log.h"
#include "base/strings/decimal.h"
#include "base/strings/options.h"
#include "tools/train/exit_training.h"

enum { /* exit statuses */
    TRAIN_OK = 0,
    TRAIN_FAILED = 1,
    TRAIN_USAGE = 2,
};

#define HELP_COLUMN 22

enum {
    OPT_DRAFT,
    OPT_TEXT,
    OPT_LAYER,
    OPT_EPOCHS,
    OPT_WINDOWS,
    OPT_WINDOW,
    OPT_SAY,
    OPT_ANSWERS,
    OPT_OUTPUT,
    OPT_THREADS,
    OPT_ISA,
    OPT_KEEP_WORK,
    OPT_VERBOSE,
    OPT_HELP,
    OPT_VERSION,
};

static const Option option_table[] = {
    [OPT_DRAFT] = { "draft", 'd', "FILE", "the model that drafts for it: a .gguf or .cgm of the same tokens" },
    [OPT_TEXT] = { "text", 't', "FILE", "a text to learn from, up to 16 times (default: coordgen's own)" },
    [OPT_LAYER] = { "layer", 'l', "M",
                    "behind the first M layers (default: what is worth most of half, two thirds,\n"
                    "three quarters and five sixths of them)" },
    [OPT_EPOCHS] = { "epochs", 'e', "N", "passes of the refinement behind the least squares (default 6; 0: none)" },
    [OPT_WINDOWS] = { "windows", 0, "N", "pieces of the text, at most (default 60); every fifth is held out" },
    [OPT_WINDOW] = { "window", 0, "N", "tokens of a piece, 32..1024 (default 256)" },
    [OPT_SAY] = { "say", 0, "N", "of them, those that the model says behind the text (default: a quarter)" },
    [OPT_ANSWERS] = { "answers", 0, "N",
                      "then answer so many of the held out pieces, with it and without (default 0); half of\n"
                      "them tune" },
    [OPT_OUTPUT] = { "output", 'o', "FILE",
                     "where the predictor goes (default: PACKAGE.exit, where it is looked for)" },
    [OPT_THREADS] = { "threads", 0, "N", "threads that compute (default: the processors)" },
    [OPT_ISA] = { "isa", 0, "NAME",
                  "best (default), scalar, avx2, avx512vnni, amx, neon, neondot, i8mm; also COORDGEN_ISA:\n"
                  "what a row costs, which decides what is saved" },
    [OPT_KEEP_WORK] = { "keep-work", 0, NULL, "leave FILE.part and FILE.LAYER.checkpoint there" },
    [OPT_VERBOSE] = { "verbose", 0, NULL, "log to stderr" },
    [OPT_HELP] = { "help", 'h', NULL, "this text" },
    [OPT_VERSION] = { "version", 0, NULL, "the version" },
};

static const char help_head[] =
    "usage: coordgen-train-exit MODEL --draft DRAFT [--text FILE ...] [options]\n"
    "\n"
    "Trains the early-exit predictor of a model: at a middle layer of a verification it says which drafts will be\n"
    "wrong, so that the layers behind need not compute them. What a model answers does not depend on it. It goes into "
    "a\n"
    "file beside the model's package. A run that was stopped goes on where it was.\n"
    "\n";

static int usage(const char *format, const char *value) {
    fputs("coordgen-train-exit: ", stderr);
    fprintf(stderr, format, value);
    fputs("\nTry 'coordgen-train-exit --help'.\n", stderr);
    return TRAIN_USAGE;
}

static bool parse_number(const char *text, uint64_t least, uint64_t most, uint32_t *valuep) {
    uint64_t value;

    if (!decimal_parse_u64(text, &value) || value < least || value > most)
        return false;
    *valuep = (uint32_t)value;
    return true;
}

/* What is wrong with it, with %s for the value; NULL: nothing. */
static const char *take_option(int option, const char *value, ExitTrainingOptions *options) {
    ErrText err;

    switch (option) {
    case OPT_DRAFT:
        options->draft = value;
        return NULL;
    case OPT_TEXT:
        if (options->n_texts == EXIT_TEXTS_MAX)
            return "--text is taken 16 times, '%s' is one too many";
        options->texts[options->n_texts++] = value;
        return NULL;
    case OPT_LAYER:
        return parse_number(value, 1, 65535, &options->layer) ? NULL : "--layer is a number from 1 on, not '%s'";
    case OPT_EPOCHS:
        return parse_number(value, 0, 1000, &options->epochs) ? NULL : "--epochs is 0..1000, not '%s'";
    case OPT_WINDOWS:
        return parse_number(value, EXIT_WINDOWS_MIN, 4096, &options->windows) ? NULL
                                                                              : "--windows is 10..4096, not '%s'";
    case OPT_WINDOW:
        return parse_number(value, EXIT_WINDOW_MIN, EXIT_WINDOW_MAX, &options->window)
                   ? NULL
                   : "--window is 32..1024, not '%s'";
    case OPT_SAY:
        return parse_number(value, 0, EXIT_WINDOW_MAX, &options->say) ? NULL : "--say is 0..1024, not '%s'";
    case OPT_ANSWERS:
        return parse_number(value, 0, 1000, &options->answers) && options->answers != 1
                   ? NULL
                   : "--answers is 0 or 2..1000, not '%s'";
    case OPT_OUTPUT:
        options->output = value;
        return NULL;
    case OPT_THREADS:
        return parse_number(value, 1, 1024, &options->threads) ? NULL : "--threads is 1..1024, not '%s'";
    case OPT_ISA:
        return isa_parse(value, &options->isa, &err)
                   ? "--isa is best, scalar, avx2, avx512vnni, amx, neon, neondot or i8mm, not '%s'"
                   : NULL;
    case OPT_KEEP_WORK:
        options->keeps_work = true;
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
    return standard_output_end("coordgen-train-exit", TRAIN_OK, TRAIN_FAILED);
}

static int version(void) {
    puts("coordgen-train-exit " COORDGEN_VERSION);
    return standard_output_end("coordgen-train-exit", TRAIN_OK, TRAIN_FAILED);
}

static void print_figures(const char *name, const ExitFigures *figures) {
    const float *quality = figures->quality;

    printf("%-9s %5u  %.2f / %.2f  %.2f / %.2f  %.2f / %.2f  %.2f / %.2f  %.2f %.2f %5.2f  %6.3f\n", name,
           figures->layer, (double)quality[EXIT_KEPT_95_Q], (double)quality[EXIT_KEPT_98_Q],
           (double)quality[EXIT_KEPT_95_LENS], (double)quality[EXIT_KEPT_98_LENS], (double)quality[EXIT_KEPT_95_MAP],
           (double)quality[EXIT_KEPT_98_MAP], (double)quality[EXIT_KEPT_95_MIXTURE],
           (double)quality[EXIT_KEPT_98_MIXTURE], (double)figures->mix.by_q, (double)figures->mix.by_share,
           (double)figures->mix.offset, (double)figures->worth);
}

static const char *name_of(const DraftPolicyOps *policy) {
    return policy ? policy->name : "ours";
}

/* Which part of the trees goes on, at 95 % of the drafts that were right. */
static void print_kept(const ExitTrainingReport *report) {
    printf("%-10s %-13s  %6s  %8s  %8s  %8s  %6s\n", "trees", "by", "rows %", "tiles %", "drafts %", "tokens %", "at");
    for (uint32_t i = 0; i < report->n_trees; i++)
        for (size_t way = 0; way < _EXIT_TREES_WAYS; way++) {
            const ExitKept *kept = &report->trees[i].kept[way];

            printf("%-10s %-13s  %6.1f  %8.1f  %8.1f  %8.1f  %6.2f\n", name_of(report->policies[i]),
                   exit_trees_ways[way], 100 * kept->rows, 100 * kept->tiles, 100 * kept->drafts, 100 * kept->tokens,
                   (double)kept->threshold);
        }
}

/* Of one policy, with the predictor beside without. */
static void print_trees(const ExitTrainingReport *report, uint32_t i) {
    const ExitTreesRun *without = &report->trees[i].without, *with = &report->trees[i].with;
    const double before = (double)without->verify_ns / 1e6 / (double)without->n_steps,
                 behind = (double)with->verify_ns / 1e6 / (double)with->n_steps;

    printf("%-10s %6.1f  %6.1f  %5.2f  %5.2f  %8.1f  %8.1f  %6.1f  %5.1f\n", name_of(report->policies[i]),
           (double)without->n_rows / (double)without->n_steps, 100 - 100 * (double)with->n_gone / (double)with->n_rows,
           (double)without->n_tokens / (double)without->n_steps, (double)with->n_tokens / (double)with->n_steps, before,
           behind, 100 - 100 * behind / before, (double)with->exit_ns / 1e6 / (double)with->n_steps);
}

static void print_report(const ExitTrainingReport *report) {
    const ExitFigures *refined = &report->refined;

    printf("%u windows of %u tokens, %u held out; shares of edges that keep 95 / 98 %% of the true ones, of %.0f:\n",
           report->n_windows, report->window, report->n_held_out, (double)refined->quality[EXIT_N_EDGES]);
    printf("%-9s %5s  %-11s  %-11s  %-11s  %-11s  %-15s  %6s\n", "map", "layer", "draft q", "lens", "map alone",
           "mixture", "of q, map, 1", "worth");
    for (uint32_t i = 0; i < report->n_measured; i++)
        print_figures("ridge", &report->layers[i]);
    for (uint32_t i = 0; i < report->n_measured; i++)
        if (report->refined_layers[i].layer)
            print_figures("refined", &report->refined_layers[i]);
    print_figures("in file", refined);
    printf("without shadow candidates: %.2f at 95 %%\n", (double)refined->kept_95_without_shadows);
    printf("beside the draft's own share the predictor saves %.1f %% of the edges at 95 %%, behind layer %u of %u\n",
           100 * (double)(refined->quality[EXIT_KEPT_95_Q] - refined->quality[EXIT_KEPT_95_MIXTURE]), refined->layer,
           report->n_layers);
    if (report->n_trees) {
        print_kept(report);
        printf("%-10s %6s  %6s  %12s  %18s  %6s  %5s\n%-10s %6s  %6s  %5s  %5s  %8s  %8s\n", "trees", "rows", "kept %",
               "tokens a step", "verifying, ms/step", "less %", "asked", "", "", "", "all", "kept", "all", "kept");
    }
    for (uint32_t i = 0; i < report->n_trees; i++)
        print_trees(report, i);
    printf("%s\n", report->path);
}

/* The command line; false: the program ends with *statusp. */
static bool read_words(int argc, char **argv, ExitTrainingOptions *options, int *statusp) {
    OptionReader reader;
    OptionWord word;
    ErrText err;
    int r;

    option_reader_init(&reader, argc, argv);
    option_reader_add(&reader, option_table, ARRAY_LEN(option_table));
    while (!(r = option_reader_next(&reader, &word, &err))) {
        const int option = word.option ? (int)(word.option - option_table) : -1;
        const char *wrong = NULL;

        if (option == OPT_HELP || option == OPT_VERSION) {
            *statusp = option == OPT_HELP ? help() : version();
            return false;
        }
        if (option >= 0)
            wrong = take_option(option, word.text, options);
        else if (options->model)
            wrong = "unexpected argument '%s'";
        else
            options->model = word.text;
        if (!wrong)
            continue;
        *statusp = usage(wrong, word.text);
        return false;
    }
    *statusp = TRAIN_USAGE;
    if (r == OPTIONS_E_USAGE)
        fprintf(stderr, "coordgen-train-exit: %s\n", err.text);
    return r == OPTIONS_E_END;
}

int main(int argc, char **argv) {
    ExitTrainingOptions options = { .epochs = 6, .windows = 60, .window = 256, .say = UINT32_MAX, .isa = ISA_BEST };
    const char *isa = getenv("COORDGEN_ISA");
    ExitTrainingReport report;
    ErrText err = { 0 };
    int status;

    if (standard_io_secure()) {
        fputs("coordgen-train-exit: /dev/null cannot be opened in place of a closed standard descriptor\n", stderr);
        return TRAIN_FAILED;
    }
    if (isa && *isa && isa_parse(isa, &options.isa, &err)) {
        fprintf(stderr, "coordgen-train-exit: environment variable COORDGEN_ISA: %s\n", err.text);
        return TRAIN_USAGE;
    }
    if (!read_words(argc, argv, &options, &status))
        return status;
    if (!options.model)
        return usage("%s", "MODEL is missing");
    if (!options.draft)
        return usage("%s", "--draft is missing: the model whose drafts are judged");
    if (options.say == UINT32_MAX)
        options.say = options.window / 4;
    if (options.say > options.window / 2)
        return usage("%s", "--say is at most half of --window");
    options.progress_fd = isatty(STDERR_FILENO) ? STDERR_FILENO : -1; /* elsewhere the results are read by programs */
    if (exit_training_run(&options, &report, &err)) {
        fprintf(stderr, "coordgen-train-exit: %s\n", err.text);
        return TRAIN_FAILED;
    }
    print_report(&report);
    return standard_output_end("coordgen-train-exit", TRAIN_OK, TRAIN_FAILED);
}
