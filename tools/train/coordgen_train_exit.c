// SPDX-License-Identifier: Apache-2.0
/* coordgen-train-exit trains the early-exit predictor of a model for its draft model. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/files/standard_io.h"
#include "base/strings/command_line.h"
#include "tools/train/exit_training.h"

#define HELP_COLUMN 22

/* The field of ExitTrainingOptions that takes a row's value. */
#define AT(field) .offset = offsetof(ExitTrainingOptions, field)
#define TEXT(field) .set = command_set_text, AT(field)
#define NUMBER(field, least_, most_) .set = command_set_u32, AT(field), .least = (least_), .most = (most_)

static int add_text(const CommandOption *option, const char *value, void *field, ErrText *err) {
    ExitTrainingOptions *options = field;

    if (options->n_texts == EXIT_TEXTS_MAX)
        return err_set(err, OPTIONS_E_USAGE, "--text is taken 16 times, '%s' is one too many", value);
    options->texts[options->n_texts++] = value;
    return 0;
}

/* Sets the number of answers; 1 is refused, because half of the answers tune. */
static int set_answers(const CommandOption *option, const char *value, void *field, ErrText *err) {
    int r = command_set_u32(option, value, field, err);

    return !r && *(uint32_t *)field == 1 ? COMMAND_E_VALUE : r;
}

static const CommandOption option_table[] = {
    { { "draft", 'd', "FILE", "the model that drafts for it: a .gguf or .cgm of the same tokens" }, TEXT(draft) },
    { { "text", 't', "FILE", "a text to learn from, up to 16 times (default: coordgen's own)" },
      .set = add_text,
      .offset = 0 },
    { { "layer", 'l', "M",
        "behind the first M layers (default: what is worth most of half, two thirds,\n"
        "three quarters and five sixths of them)" },
      NUMBER(layer, 1, 65535),
      .accepts = "a number from 1 on" },
    { { "epochs", 'e', "N", "passes of the refinement behind the least squares (default 6; 0: none)" },
      NUMBER(epochs, 0, 1000) },
    { { "windows", 0, "N", "pieces of the text, at most (default 60); every fifth is held out" },
      NUMBER(windows, EXIT_WINDOWS_MIN, 4096) },
    { { "window", 0, "N", "tokens of a piece, 32..1024 (default 256)" },
      NUMBER(window, EXIT_WINDOW_MIN, EXIT_WINDOW_MAX) },
    { { "say", 0, "N", "of them, those that the model says behind the text (default: a quarter)" },
      NUMBER(say, 0, EXIT_WINDOW_MAX) },
    { { "answers", 0, "N",
        "then answer so many of the held out pieces, with it and without (default 0); half of\n"
        "them tune" },
      .set = set_answers,
      AT(answers),
      .most = 1000,
      .accepts = "0 or 2..1000" },
    { { "output", 'o', "FILE", "where the predictor goes (default: PACKAGE.exit, where it is looked for)" },
      TEXT(output) },
    { { "threads", 0, "N", "threads that compute (default: the processors)" }, NUMBER(threads, 1, 1024) },
    { { "isa", 0, "NAME",
        "best (default), scalar, avx2, avx512vnni, amx, neon, neondot, i8mm; also COORDGEN_ISA:\n"
        "what a row costs, which decides what is saved" },
      .set = command_set_choice,
      AT(isa),
      .choices = isa_choices },
    { { "keep-work", 0, NULL, "leave FILE.part and FILE.LAYER.checkpoint there" },
      .set = command_set_flag,
      AT(keeps_work) },
    { { "verbose", 0, NULL, "log to stderr" }, .set = command_set_verbose },
    { .option = { "help", 'h', NULL, "this text" } },
    { .option = { "version", 0, NULL, "the version" } },
};

static const char help_head[] =
    "usage: coordgen-train-exit MODEL --draft DRAFT [--text FILE ...] [options]\n"
    "\n"
    "Trains the early-exit predictor of a model: at a middle layer of a verification it says which drafts will be\n"
    "wrong, so that the layers behind need not compute them. What a model answers does not depend on it. It goes into "
    "a\n"
    "file beside the model's package. A run that was stopped goes on where it was. coordgend does not use the file:\n"
    "early exit is a technique of the laboratory.\n"
    "\n";

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

/* Prints which part of the trees goes on when 95 % of the right drafts stay. */
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

/* Prints the figures of one policy, with the predictor beside without. */
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

int main(int argc, char **argv) {
    ExitTrainingOptions options = { .epochs = 6, .windows = 60, .window = 256, .say = UINT32_MAX, .isa = ISA_BEST };
    CommandLine line = {
        .program = "coordgen-train-exit",
        .see_help = "\nTry 'coordgen-train-exit --help'.",
        .tables = { { help_head, option_table, ARRAY_LEN(option_table) } },
        .help_column = HELP_COLUMN,
        .help_foot = "",
        .options = &options,
    };
    const char *isa = getenv("COORDGEN_ISA");
    ExitTrainingReport report;
    ErrText err = { 0 };
    int status;

    if (standard_io_secure()) {
        fputs("coordgen-train-exit: /dev/null cannot be opened in place of a closed standard descriptor\n", stderr);
        return COMMAND_FAILED;
    }
    if (isa && *isa && isa_parse(isa, &options.isa, &err)) {
        fprintf(stderr, "coordgen-train-exit: environment variable COORDGEN_ISA: %s\n", err.text);
        return COMMAND_USAGE;
    }
    if (!command_line_read(&line, argc, argv, &status))
        return status;
    options.model = line.arguments[0];
    if (!options.model)
        return command_line_refuse(&line, "MODEL is missing");
    if (line.arguments[1])
        return command_line_refuse(&line, "unexpected argument '%s'", line.arguments[1]);
    if (!options.draft)
        return command_line_refuse(&line, "--draft is missing: the model whose drafts are judged");
    if (options.say == UINT32_MAX)
        options.say = options.window / 4;
    if (options.say > options.window / 2)
        return command_line_refuse(&line, "--say is at most half of --window");
    options.progress_fd = isatty(STDERR_FILENO) ? STDERR_FILENO : -1; /* without a terminal, programs read the output */
    if (exit_training_run(&options, &report, &err)) {
        fprintf(stderr, "coordgen-train-exit: %s\n", err.text);
        return COMMAND_FAILED;
    }
    print_report(&report);
    return standard_output_end("coordgen-train-exit", COMMAND_OK, COMMAND_FAILED);
}
