// SPDX-License-Identifier: Apache-2.0
/* coordgen-bench: options and verbs. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/standard_io.h"
#include "base/log.h"
#include "base/strings/nearest_word.h"
#include "base/strings/options.h"
#include "engine/generation.h"
#include "quant/format/recipe_spec.h"
#include "tools/bench/bench.h"
#include "tools/bench/machine.h"
#include "tools/bench/speculation/spec_options.h"
#include "tools/eval/eval.h"

static const char help_head[] =
    "coordgen-bench VERB --model MODEL [OPTION...]\n"
    "\n"
    "How fast a model runs here, beside what the machine could do: one engine in this process, without the service.\n"
    "\n"
    "Verbs\n"
    "  pp                     prefill: tokens a second of prompts of -p tokens; floor: the peak of the int8\n"
    "                         instructions over all multiplications of weights\n"
    "  tg                     decode: tokens a second of -n tokens, one after the other, behind -p others; floor: the\n"
    "                         speed of reading memory over the bytes of weights, keys and values\n"
    "  ttft                   first token: the package loaded and a prompt of -p tokens computed, from the disk (its\n"
    "                         pages dropped) and from the page cache; floor: the file's bytes at the disk's own speed\n"
    "                         and the prefill, one after the other, though a load overlaps them\n"
    "  mixed                  -c requests at once, sharing steps as in the service: output tokens a second of\n"
    "                         all, and how long the median one waits for its first token\n"
    "  latency                an interactive request of -p tokens that comes while a background prompt of -b\n"
    "                         tokens is computed: its first token, when it waits for the step that runs and when\n"
    "                         that makes way, and its next ones; floor: alone, and the longest operator of the\n"
    "                         background prompt\n"
    "  spec                   several tokens a step from drafts: answers to the requests of --data in several\n"
    "                         modes of speculation beside plain decoding, in turns, with all tokens and logits\n"
    "                         compared\n"
    "  flash                  a model whose layers are read from the disk, drafted for by a smaller one in memory:\n"
    "                         answers to the requests of --data under several policies beside plain decoding, by\n"
    "                         --budgets of memory and --rates of the flash, with all tokens and logits compared\n"
    "  mobile                 the rules of a phone's NPU: prompts of -p tokens and -n tokens of output on the npu\n"
    "                         device, under every policy of graph switching: what is waited for loads, what is\n"
    "                         hidden, what memory the graphs take; with --data the papers' baselines and the\n"
    "                         steps to all of ours, on real requests, all answers compared\n"
    "  floor                  the machine: peaks of all instruction sets and memory, by one thread and by all; with\n"
    "                         -m, whose file is read for it, the disk\n"
    "\n"
    "Options\n";

static const char help_foot[] = "\n"
                                "The columns of the report line up otherwise. Exit code: 0, 1 failed, 2 wrong usage.\n";

enum {
    HELP_COLUMN = 24,
    SPEC_OUTPUT = 128, /* two windows of the control's bound */
    FLASH_OUTPUT = 32  /* a token may take seconds */
};

enum { /* indices into option_table */
    OPT_MODEL,
    OPT_PROMPT,
    OPT_OUTPUT,
    OPT_BACKGROUND,
    OPT_REQUESTS,
    OPT_REPEAT,
    OPT_THREADS,
    OPT_CHUNK,
    OPT_NO_PIPELINE,
    OPT_GROUP_ROWS,
    OPT_WEIGHTS_MEMORY,
    OPT_FLASH_RATE,
    OPT_FLASH_LATENCY,
    OPT_GRAPH_BLOCKS,
    OPT_MEMORY,
    OPT_TIMELINE,
    OPT_GRAPH_FILES,
    OPT_COLD,
    OPT_ISA,
    OPT_RECIPE,
    OPT_IMAGE,
    OPT_OPERATORS,
    OPT_TRACE,
    OPT_FLOOR,
    OPT_JSON,
    OPT_CSV,
    OPT_MARKDOWN,
    OPT_VERBOSE,
    OPT_HELP,
    OPT_VERSION,
};

static const Option option_table[] = {
    [OPT_MODEL] = { "model", 'm', "FILE", "a .gguf, or a .cgm package; a .gguf is imported on first use" },
    [OPT_PROMPT] = { "prompt", 'p', "N,...",
                     "tokens of the prompt (default: pp 128,512,1024; tg 0; mobile 1024; others 128)" },
    [OPT_OUTPUT] = { "output", 'n', "N",
                     "tg, mixed, latency, spec, flash, mobile: tokens of the output (default 64; spec and\n"
                     "mobile --data 128; flash 32)" },
    [OPT_BACKGROUND] = { "background", 'b', "N", "latency: tokens of the background prompt (default 4096)" },
    [OPT_REQUESTS] = { "requests", 'c', "N,...",
                       "mixed: how many at once, up to 64 (default 1,2,4,8,16)\n"
                       "spec, flash, mobile: N, the first ones of each task (default: all; flash 1)" },
    [OPT_REPEAT] = { "repeat", 'r', "N",
                     "repetitions; their median counts, their least and most are shown (default 5)" },
    [OPT_THREADS] = { "threads", 't', "N", "threads that compute (default: the processors)" },
    [OPT_CHUNK] = { "chunk", 0, "N", "tokens of a prefill step (default: as the machine does best)" },
    [OPT_NO_PIPELINE] = { "no-pipeline", 0, NULL, "each operator of a step is split over all threads" },
    [OPT_GROUP_ROWS] = { "group-rows", 0, "N",
                         "tokens of a step that go through the layers together, one thread at a time" },
    [OPT_WEIGHTS_MEMORY] = { "weights-memory", 0, "SIZE|N%",
                             "how much of the weights is in memory; the rest is read in every step, from an image in\n"
                             "'images' beside the package (default: all)" },
    [OPT_FLASH_RATE] = { "flash-rate", 0, "MB/s", "how fast that is read at most (default 0: as fast as the disk is)" },
    [OPT_FLASH_LATENCY] = { "flash-latency", 0, "US", "how long each such read takes at least (default 0)" },
    [OPT_GRAPH_BLOCKS] = { "graph-blocks", 0, "N",
                           "mobile: parts of the layers that are loaded by themselves (default 8)" },
    [OPT_MEMORY] = { "memory", 0, "SIZE",
                     "mobile: the requests within so many bytes, K, M, G or T behind, of the process as a whole" },
    [OPT_TIMELINE] = { "timeline", 0, "FILE",
                       "mobile: an SVG of what ran when in the last repetitions: the NPU, the processors, loads;\n"
                       "the same in numbers where its name ends in .json" },
    [OPT_GRAPH_FILES] = { "graph-files", 0, "HOW",
                          "mobile: what graphs are loaded from: auto (default), packed (the package) or materialised" },
    [OPT_COLD] = { "cold", 0, NULL,
                   "mobile: in place of all else from a cold page cache to the first token, all read before it begins\n"
                   "or computed behind the load" },
    [OPT_ISA] = { "isa", 0, "NAME",
                  "best (default), scalar, avx2, avx512vnni, amx, neon, neondot, i8mm; also COORDGEN_ISA" },
    [OPT_RECIPE] = { "recipe", 0, "SPEC",
                     "how a .gguf is imported, as coordgenctl has it: int8 (default), compensated:4, ..." },
    [OPT_IMAGE] = { "image", 0, NULL,
                    "ttft: with an image of the weights, too (coordgend's weights-image); it is made beside\n"
                    "the package and removed" },
    [OPT_OPERATORS] = { "operators", 0, NULL,
                        "pp, tg, spec: on standard error, the time of every operator in the last\n"
                        "repetition (spec: the last request in the last mode);\n"
                        "ttft: what the last one was made of: begin, waits for reads, laying out, computing" },
    [OPT_TRACE] = { "trace", 0, "FILE",
                    "what ran when in the last repetitions, as JSON for chrome://tracing or Perfetto:\n"
                    "operators, what was measured around them, in ttft also reads and the tokenizer" },
    [OPT_FLOOR] = { "floor", 0, NULL, "the columns with floors; they are always there" },
    [OPT_JSON] = { "json", 0, "[HOW]", "report as JSON: pretty (default), short, off" },
    [OPT_CSV] = { "csv", 0, NULL, "report as CSV" },
    [OPT_MARKDOWN] = { "markdown", 0, NULL, "report as a table in Markdown" },
    [OPT_VERBOSE] = { "verbose", 0, NULL, "log to stderr" },
    [OPT_HELP] = { "help", 'h', NULL, "this text" },
    [OPT_VERSION] = { "version", 0, NULL, "the version" },
};

typedef int BenchFn(const BenchRun *run, ErrText *err);

static const struct Verb {
    const char *name;
    BenchFn *fn;         /* NULL: needs no model */
    const char *prompts; /* the default of -p */
    size_t least;        /* tokens of a prompt */
    bool opens_itself, preempts;
} verbs[] = {
    { "pp", bench_prefill, "128,512,1024", 1, false, false },
    { "tg", bench_decode, "0", 0, false, false },
    { "ttft", bench_first_token, "128", 1, true, false },
    { "mixed", bench_mixed, "128", 1, false, false },
    { "latency", bench_latency, "128", 1, false, true },
    { "spec", bench_spec, "0", 0, false, false },
    { "flash", bench_flash, "0", 0, true, false },
    { "mobile", bench_mobile, "1024", 1, true, false },
    { "floor", NULL, "0", 0, false, false },
};

#define OF_MADE_UP "pp, tg, ttft, mixed, latency" /* prompts */
#define OF_MODELS OF_MADE_UP ", spec, flash, mobile"
#define OF_OPENED "pp, tg, mixed, latency, spec"

/* Options that mean nothing to some verbs, which refuse them: no figure that was not measured as asked. NULL: to
 * none. */
static const char *const verbs_of[ARRAY_LEN(option_table)] = {
    [OPT_PROMPT] = OF_MADE_UP ", mobile",
    [OPT_OUTPUT] = "tg, mixed, latency, spec, flash, mobile",
    [OPT_BACKGROUND] = "latency",
    [OPT_REQUESTS] = "mixed, spec, flash, mobile",
    [OPT_REPEAT] = OF_MADE_UP ", mobile",
    [OPT_GRAPH_BLOCKS] = "mobile",
    [OPT_MEMORY] = "mobile",
    [OPT_TIMELINE] = "mobile",
    [OPT_GRAPH_FILES] = "mobile",
    [OPT_COLD] = "mobile",
    [OPT_CHUNK] = OF_MODELS,
    [OPT_NO_PIPELINE] = OF_MODELS,
    [OPT_GROUP_ROWS] = OF_MODELS,
    [OPT_ISA] = OF_MODELS,
    [OPT_WEIGHTS_MEMORY] = OF_OPENED,
    [OPT_FLASH_RATE] = OF_OPENED ", mobile",
    [OPT_FLASH_LATENCY] = OF_OPENED ", flash, mobile",
    [OPT_RECIPE] = OF_MODELS,
    [OPT_IMAGE] = "ttft",
    [OPT_OPERATORS] = "pp, tg, ttft, spec",
    [OPT_TRACE] = OF_MADE_UP ", spec, mobile",
};

typedef struct Command {
    BenchOptions bench;
    EvalOptions model; /* how it is opened */
    const struct Verb *verb;
    const char *prompts, *requests;
    BenchForm form;
    size_t json_flags;
    bool is_given[ARRAY_LEN(option_table)], is_spec_given[SPEC_OPTIONS]; /* on the command line */
} Command;

/* Some minutes of decode; 48 bytes each. */
#define TRACE_EVENTS 1000000

static int usage(const char *format, const char *value) {
    fprintf(stderr, "coordgen-bench: ");
    fprintf(stderr, format, value);
    fprintf(stderr, "; see coordgen-bench --help\n");
    return BENCH_USAGE;
}

static bool parse_json(const char *how, Command *command) {
    command->form = BENCH_FORM_JSON;
    command->json_flags = JSON_INDENT(2) | JSON_REAL_PRECISION(6);
    if (!how || !strcmp(how, "pretty"))
        return true;
    command->json_flags = JSON_COMPACT | JSON_REAL_PRECISION(6);
    if (!strcmp(how, "short"))
        return true;
    command->form = BENCH_FORM_TABLE;
    return !strcmp(how, "off");
}

/* One option; NULL when it is fine, else what is wrong with its value. */
static const char *take_option(int option, const char *value, Command *command, ErrText *err) {
    WeightsMemory memory;
    size_t number = 0;

    switch (option) {
    case OPT_MODEL:
        command->model.model = value;
        return NULL;
    case OPT_PROMPT:
        command->prompts = value;
        return NULL;
    case OPT_OUTPUT:
        return number_parse(value, 1, 1u << 20, &command->bench.output_tokens) ? NULL
                                                                               : "--output is 1..1048576, not '%s'";
    case OPT_REQUESTS:
        command->requests = value;
        return NULL;
    case OPT_BACKGROUND:
        return number_parse(value, 1, 1u << 20, &command->bench.background_tokens)
                   ? NULL
                   : "--background is 1..1048576, not '%s'";
    case OPT_REPEAT:
        return number_parse(value, 1, 1000, &command->bench.repeats) ? NULL : "--repeat is 1..1000, not '%s'";
    case OPT_THREADS:
        if (!number_parse(value, 1, 1024, &number))
            return "--threads is 1..1024, not '%s'";
        command->model.threads = (unsigned int)number;
        return NULL;
    case OPT_CHUNK:
        if (!number_parse(value, 1, ENGINE_CHUNK_MAX, &number))
            return "--chunk is 1..4096, not '%s'";
        command->model.chunk_tokens = (uint32_t)number;
        return NULL;
    case OPT_NO_PIPELINE:
        command->model.no_pipeline = true;
        return NULL;
    case OPT_GROUP_ROWS:
        if (!number_parse(value, 1, ENGINE_CHUNK_MAX, &number))
            return "--group-rows is 1..4096, not '%s'";
        command->model.group_rows = (uint32_t)number;
        return NULL;
    case OPT_WEIGHTS_MEMORY:
        return weights_memory_parse(&command->model.weights_memory, value, err) ? err->text : NULL;
    case OPT_FLASH_RATE:
        if (!number_parse(value, 0, 1000000, &number))
            return "--flash-rate is 0..1000000 MB/s, not '%s'";
        command->model.flash_limit.bytes_per_s = (uint64_t)number * 1000000;
        return NULL;
    case OPT_FLASH_LATENCY:
        if (!number_parse(value, 0, 10000000, &number))
            return "--flash-latency is 0..10000000 microseconds, not '%s'";
        command->model.flash_limit.latency_us = (uint32_t)number;
        return NULL;
    case OPT_GRAPH_BLOCKS:
        if (!number_parse(value, 1, GRAPH_BLOCKS_MAX, &number))
            return "--graph-blocks is 1..64, not '%s'";
        command->model.graphs.n_blocks = (uint32_t)number;
        return NULL;
    case OPT_MEMORY:
        if (weights_memory_parse(&memory, value, err) || memory.is_percent || !memory.bytes)
            return "--memory is a number of bytes, with K, M, G or T behind it, not '%s'";
        command->bench.memory_bytes = memory.bytes;
        return NULL;
    case OPT_TIMELINE:
        command->bench.timeline = value;
        return *value ? NULL : "--timeline is the name of a file, not '%s'";
    case OPT_GRAPH_FILES:
        return graph_form_named(value, &command->model.graphs.form)
                   ? NULL
                   : "--graph-files is auto, packed or materialised, not '%s'";
    case OPT_COLD:
        command->bench.cold = true;
        return NULL;
    case OPT_ISA:
        return isa_parse(value, &command->model.isa, err)
                   ? "--isa is best, scalar, avx2, avx512vnni, amx, neon, neondot or i8mm, not '%s'"
                   : NULL;
    case OPT_RECIPE:
        command->model.recipe_option = "--recipe";
        return recipe_spec_parse(&command->model.recipe, value, err) ? err->text : NULL;
    case OPT_IMAGE:
        command->bench.image = true;
        return NULL;
    case OPT_OPERATORS:
        command->bench.operators = true;
        return NULL;
    case OPT_TRACE:
        command->bench.trace = value;
        return *value ? NULL : "--trace is the name of a file, not '%s'";
    case OPT_FLOOR:
        return NULL;
    case OPT_JSON:
        return parse_json(value, command) ? NULL : "--json is pretty, short or off, not '%s'";
    case OPT_CSV:
        command->form = BENCH_FORM_CSV;
        return NULL;
    case OPT_MARKDOWN:
        command->form = BENCH_FORM_MARKDOWN;
        return NULL;
    case OPT_VERBOSE:
        log_set_level(LOG_LEVEL_DEBUG);
        return NULL;
    }
    return NULL;
}

static bool is_in_list(const char *list, const char *word) {
    const size_t n = strlen(word);

    for (const char *at = list; at; at = strchr(at, ','), at += at ? 2 : 0)
        if (!strncmp(at, word, n) && (!at[n] || at[n] == ','))
            return true;
    return false;
}

/* Whether the verb makes use of all options of a table that were given. */
static int check_table(const Command *command, const Option *options, const char *const *verbs_of_options,
                       const bool *is_given, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!is_given[i] || !verbs_of_options[i] || is_in_list(verbs_of_options[i], command->verb->name))
            continue;
        fprintf(stderr, "coordgen-bench: --%s is for %s, not for '%s'; see coordgen-bench --help\n", options[i].name,
                verbs_of_options[i], command->verb->name);
        return BENCH_USAGE;
    }
    return BENCH_OK;
}

static bool answers_requests(const Command *command) {
    const struct Verb *verb = command->verb;

    return verb->fn == bench_spec || verb->fn == bench_flash || (verb->fn == bench_mobile && command->bench.n_data);
}

/* `mobile` has made-up prompts, or the requests of --data. */
static int check_mobile(const Command *command) {
    static const int of_made_up[] = { OPT_PROMPT, OPT_REPEAT }, of_data[] = { SPEC_OPT_TEMPERATURE, SPEC_OPT_SEED };

    if (command->bench.n_data && command->bench.memory_bytes)
        return usage("%s", "--memory is for prompts that are made up, not for those of --data");
    if (command->bench.timeline && (command->bench.n_data || command->bench.memory_bytes))
        return usage("%s", "--timeline is for the switching of graphs, not for --data or --memory");
    for (size_t i = 0; i < ARRAY_LEN(of_made_up); i++)
        if (command->bench.n_data && command->is_given[of_made_up[i]])
            return usage("--%s is for prompts that are made up, not for those of --data",
                         option_table[of_made_up[i]].name);
    for (size_t i = 0; i < ARRAY_LEN(of_data); i++)
        if (!command->bench.n_data && command->is_spec_given[of_data[i]])
            return usage("--%s is for the requests of --data", spec_options[of_data[i]].name);
    return !command->bench.n_data && command->is_given[OPT_REQUESTS]
               ? usage("%s", "--requests is for the requests of --data")
               : BENCH_OK;
}

/* Whether all that the verb needs was given, and nothing else. */
static int check_options(const Command *command) {
    if (check_table(command, option_table, verbs_of, command->is_given, ARRAY_LEN(option_table)) ||
        check_table(command, spec_options, spec_options_verbs, command->is_spec_given, SPEC_OPTIONS))
        return BENCH_USAGE;
    if (command->bench.spec.always && command->bench.spec.controlled)
        return usage("%s", "--always and --controlled contradict each other: choose one");
    if (command->verb->fn == bench_mobile && check_mobile(command))
        return BENCH_USAGE;
    if (answers_requests(command) && !command->bench.n_data)
        return usage("%s", "--data is missing: a file of requests");
    if (command->verb->fn == bench_flash && !command->bench.draft)
        return usage("%s", "--draft is missing: the model that drafts");
    return command->is_given[OPT_JSON] + command->is_given[OPT_CSV] + command->is_given[OPT_MARKDOWN] > 1
               ? usage("%s", "--json, --csv and --markdown are forms of one report: choose one")
               : BENCH_OK;
}

/* The engine of most verbs, and the machine's floors. */
static int open_engine(BenchRun *run, EvalModel *model, const Command *command, ErrText *err) {
    int r = eval_model_open(model, &command->model, err);

    if (r)
        return r;
    run->engine = model->engine;
    run->pool = model->pool;
    return floors_measure(run->floors, engine_info(model->engine)->kernel, model->pool);
}

/* Of `mobile` the npu device's, whose own thread wants a processor too. */
static unsigned int threads_of(const Command *command) {
    const EngineDevice device = command->verb->fn == bench_mobile ? ENGINE_DEVICE_NPU : command->model.device;

    return command->model.threads ? command->model.threads : engine_device_threads(device);
}

/* For a verb that loads the package itself: only the workers. */
static int open_pool(BenchRun *run, EvalModel *model, EngineOptions *engine, const Command *command, char **packagep,
                     ErrText *err) {
    unsigned int n_threads = threads_of(command);
    int r = eval_package_path(&command->model, packagep, err);

    if (!r && worker_pool_new(&model->pool, n_threads))
        r = err_set(err, -EAGAIN, "cannot start %u threads", n_threads);
    if (r)
        return r;
    *engine = (EngineOptions){
        .path = *packagep,
        .device = ENGINE_DEVICE_CPU,
        .isa = command->model.isa,
        .chunk_tokens = command->model.chunk_tokens,
        .no_pipeline = command->model.no_pipeline,
        .group_rows = command->model.group_rows,
        .pool = model->pool,
    };
    run->engine_options = engine;
    run->pool = model->pool;
    return 0;
}

static int finish_trace(const Command *command, const Trace *trace, ErrText *err) {
    if (command->bench.operators && command->verb->fn != bench_first_token) /* which has told its parts */
        bench_trace_print(trace);
    if (trace_n_lost(trace))
        fprintf(stderr, "coordgen-bench: the trace had no room for the last %" PRIu64 " operators\n",
                trace_n_lost(trace));
    return command->bench.trace ? trace_write(trace, command->bench.trace, err) : 0;
}

static int report_floors(BenchReport *report, const Command *command, unsigned int n_threads, ErrText *err) {
    int r = floors_report(report, n_threads);

    if (r)
        return r;
    if (command->model.model)
        return floor_report_disk(report, command->model.model, err);
    fprintf(stderr, "coordgen-bench: the disk is not among the floors: --model names the file that is read for it\n");
    return 0;
}

static int run_verb(Command *command) {
    _cleanup_(bench_report_deinit) BenchReport report = { 0 };
    _cleanup_(freep) char *package = NULL;
    _cleanup_(trace_freep) Trace *trace = NULL;
    EvalModel model = { 0 };
    EngineOptions engine;
    _cleanup_(floors_deinit) Floors floors = { 0 };
    BenchRun run = { .options = &command->bench, .model = &command->model, .floors = &floors, .report = &report };
    unsigned int n_threads = threads_of(command);
    ErrText err = { 0 };
    int r;

    if (!command->verb->fn)
        r = report_floors(&report, command, n_threads, &err);
    else if (command->verb->opens_itself)
        r = open_pool(&run, &model, &engine, command, &package, &err);
    else
        r = open_engine(&run, &model, command, &err);
    if (!r && run.pool)
        (void)worker_pool_pin(run.pool); /* where the system allows it, as in the service */
    if (!r && (command->bench.trace || command->bench.operators || command->bench.timeline)) {
        r = trace_new(&trace, TRACE_EVENTS);
        run.trace = trace;
    }
    if (!r && command->verb->fn)
        r = command->verb->fn(&run, &err);
    if (!r && trace)
        r = finish_trace(command, trace, &err);
    if (r)
        fprintf(stderr, "coordgen-bench: %s\n", *err.text ? err.text : strerror(r < 0 ? -r : EINVAL));
    else
        r = bench_print(&run, command->form, command->json_flags, n_threads);
    eval_model_close(&model);
    return r ? BENCH_FAILED : BENCH_OK;
}

static int help(void) {
    fputs(help_head, stdout);
    options_print(stdout, option_table, ARRAY_LEN(option_table), HELP_COLUMN);
    fputs("\nOptions of real requests\n", stdout);
    options_print(stdout, spec_options, SPEC_OPTIONS, HELP_COLUMN);
    fputs(help_foot, stdout);
    return standard_output_end("coordgen-bench", BENCH_OK, BENCH_FAILED);
}

static int version(void) {
    puts("coordgen-bench " COORDGEN_VERSION);
    return standard_output_end("coordgen-bench", BENCH_OK, BENCH_FAILED);
}

#define ARGUMENTS_MAX 2 /* the verb, and one too many */

/* One option of whichever table; as take_option(). */
static const char *take_word(const OptionWord *word, Command *command, ErrText *err) {
    if (word->option >= spec_options && word->option < spec_options + SPEC_OPTIONS) {
        const int option = (int)(word->option - spec_options);

        command->is_spec_given[option] = true;
        return spec_options_take(option, word->text, &command->bench, err);
    }
    command->is_given[word->option - option_table] = true;
    return take_option((int)(word->option - option_table), word->text, command, err);
}

/* The command line; false: the program ends with *statusp. */
static bool read_words(int argc, char **argv, Command *command, const char *arguments[ARGUMENTS_MAX], int *statusp) {
    OptionReader reader;
    OptionWord word;
    const char *wrong;
    size_t n = 0;
    ErrText err;
    int r;

    option_reader_init(&reader, argc, argv);
    option_reader_add(&reader, option_table, ARRAY_LEN(option_table));
    option_reader_add(&reader, spec_options, SPEC_OPTIONS);
    while (!(r = option_reader_next(&reader, &word, &err))) {
        if (!word.option) {
            arguments[n] = word.text;
            n += n + 1 < ARGUMENTS_MAX;
            continue;
        }
        if (word.option == &option_table[OPT_HELP] || word.option == &option_table[OPT_VERSION]) {
            *statusp = word.option == &option_table[OPT_HELP] ? help() : version();
            return false;
        }
        wrong = take_word(&word, command, &err);
        if (!wrong)
            continue;
        *statusp = wrong == err.text ? usage("%s", err.text) : usage(wrong, word.text);
        return false;
    }
    *statusp = BENCH_USAGE;
    if (r == OPTIONS_E_USAGE)
        fprintf(stderr, "coordgen-bench: %s\n", err.text);
    return r == OPTIONS_E_END;
}

/* Says that there is no such verb, and which one may be meant. */
static int unknown_verb(const char *name) {
    const char *near = nearest_word_in(name, &verbs[0].name, sizeof(*verbs), ARRAY_LEN(verbs));

    if (!near)
        return usage("unknown verb '%.64s'", name);
    fprintf(stderr, "coordgen-bench: unknown verb '%.64s': did you mean '%s'?\n", name, near);
    return BENCH_USAGE;
}

int main(int argc, char **argv) {
    Command command = {
        .requests = "1,2,4,8,16",
        .bench = { .output_tokens = 64, .background_tokens = 4096, .repeats = 5 },
        .model = { .device = ENGINE_DEVICE_CPU, .isa = ISA_BEST },
    };
    const char *isa = getenv("COORDGEN_ISA"), *arguments[ARGUMENTS_MAX] = { NULL };
    ErrText err = { 0 };
    int status;

    if (standard_io_secure()) {
        fputs("coordgen-bench: /dev/null cannot be opened in place of a closed standard descriptor\n", stderr);
        return BENCH_FAILED;
    }
    spec_options_init(&command.bench);
    (void)quant_recipe_named(&command.model.recipe, NULL);
    if (isa && *isa && isa_parse(isa, &command.model.isa, &err))
        return usage("COORDGEN_ISA: %s", err.text);
    if (!read_words(argc, argv, &command, arguments, &status))
        return status;
    if (!arguments[0])
        return usage("%s", "a verb is missing");
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        if (!strcmp(verbs[i].name, arguments[0]))
            command.verb = &verbs[i];
    if (!command.verb)
        return unknown_verb(arguments[0]);
    if (arguments[1])
        return usage("unexpected argument '%s'", arguments[1]);
    if (command.verb->fn && !command.model.model)
        return usage("%s", "--model is missing");
    if (check_options(&command))
        return BENCH_USAGE;
    if (!command.prompts)
        command.prompts = command.verb->prompts;
    if (!number_list_parse(command.prompts, command.verb->least, 1u << 20, command.bench.prompt_tokens,
                           &command.bench.n_prompts))
        return usage("--prompt is up to 16 numbers of tokens with commas between, not '%s'", command.prompts);
    if (answers_requests(&command)) {
        if (command.is_given[OPT_REQUESTS] && !number_parse(command.requests, 1, 1u << 20, &command.bench.per_task))
            return usage("--requests is 1..1048576 of each task, not '%s'", command.requests);
    } else if (!number_list_parse(command.requests, 1, GENERATION_TURNS_MAX, command.bench.requests,
                                  &command.bench.n_requests))
        return usage("--requests is up to 16 numbers from 1 to 64 with commas between, not '%s'", command.requests);
    if (answers_requests(&command) && !command.is_given[OPT_OUTPUT])
        command.bench.output_tokens = command.verb->fn == bench_flash ? FLASH_OUTPUT : SPEC_OUTPUT;
    /* A .gguf becomes a package with static activations, unless a recipe says what it becomes. */
    if (command.verb->fn == bench_mobile && !command.model.recipe_option)
        (void)quant_recipe_set_profile(&command.model.recipe, "mobile");
    command.bench.model = command.model.model;
    command.model.preemption = command.verb->preempts;
    return standard_output_end("coordgen-bench", run_verb(&command), BENCH_FAILED);
}
