// SPDX-License-Identifier: Apache-2.0
/* Options and verbs of coordgen-bench. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/standard_io.h"
#include "base/strings/command_line.h"
#include "engine/generation.h"
#include "tools/bench/bench.h"
#include "tools/bench/machine.h"
#include "tools/bench/speculation/spec_options.h"
#include "tools/eval/eval_settings.h"

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

#define REQUESTS_DEFAULT "1,2,4,8,16"

enum {
    HELP_COLUMN = 24,
    SPEC_OUTPUT = 128, /* two windows of the speculation control's bound */
    FLASH_OUTPUT = 32, /* tokens; each may take seconds */
    FLASH_PER_TASK = 1 /* requests */
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

typedef struct Command {
    BenchOptions bench; /* the first, for rows of spec_options are of BenchOptions */
    EvalModelOptions model;
    const struct Verb *verb;
    const char *prompts, *requests; /* lists whose meaning depends on the verb */
    EvalJson json;
    bool csv, markdown;
} Command;

_Static_assert(offsetof(Command, bench) == 0, "offsets of spec_options count from the command");

#define OF_MADE_UP "pp, tg, ttft, mixed, latency" /* prompts */
#define OF_MODELS OF_MADE_UP ", spec, flash, mobile"
#define OF_OPENED "pp, tg, mixed, latency, spec"

/* The field of Command that takes a row's value. A verb refuses options that it has no use for, so that no figure was
 * measured otherwise than asked. */
#define AT(field) .offset = offsetof(Command, field)
#define TEXT(field) .set = command_set_text, AT(field)
#define FLAG(field) .set = command_set_flag, AT(field)
#define NUMBER(type, field, least_, most_) .set = command_set_##type, AT(field), .least = (least_), .most = (most_)
#define TYPED(setter, field, accepts_) .set = (setter), AT(field), .accepts = (accepts_)
#define CHOICE(choices_, field) .set = command_set_choice, AT(field), .choices = (choices_)
#define NAMES_FILE .least = 1, .accepts = "the name of a file"

static const CommandOption option_table[] = {
    { { "model", 'm', "FILE", "a .gguf, or a .cgm package; a .gguf is imported on first use" }, TEXT(model.path) },
    { { "prompt", 'p', "N,...", "tokens of the prompt (default: pp 128,512,1024; tg 0; mobile 1024; others 128)" },
      TEXT(prompts),
      .verbs = OF_MADE_UP ", mobile" },
    { { "output", 'n', "N",
        "tg, mixed, latency, spec, flash, mobile: tokens of the output (default 64; spec and\n"
        "mobile --data 128; flash 32)" },
      NUMBER(size, bench.output_tokens, 1, 1u << 20),
      .verbs = "tg, mixed, latency, spec, flash, mobile" },
    { { "background", 'b', "N", "latency: tokens of the background prompt (default 4096)" },
      NUMBER(size, bench.background_tokens, 1, 1u << 20),
      .verbs = "latency" },
    { { "requests", 'c', "N,...",
        "mixed: how many at once, up to 64 (default 1,2,4,8,16)\n"
        "spec, flash, mobile: N, the first ones of each task (default: all; flash 1)" },
      TEXT(requests),
      .verbs = "mixed, spec, flash, mobile" },
    { { "repeat", 'r', "N", "repetitions; their median counts, their least and most are shown (default 5)" },
      NUMBER(size, bench.repeats, 1, 1000),
      .verbs = OF_MADE_UP ", mobile" },
    { { "threads", 't', "N", "threads that compute (default: the processors)" },
      NUMBER(u32, model.engine.load.threads, 1, 1024) },
    { { "chunk", 0, "N", "tokens of a prefill step (default: as the machine does best)" },
      NUMBER(u32, model.engine.load.chunk_tokens, 1, ENGINE_CHUNK_MAX),
      .verbs = OF_MODELS },
    { { "no-pipeline", 0, NULL, "each operator of a step is split over all threads" },
      FLAG(model.engine.load.no_pipeline),
      .verbs = OF_MODELS },
    { { "group-rows", 0, "N", "tokens of a step that go through the layers together, one thread at a time" },
      NUMBER(u32, model.engine.load.group_rows, 1, ENGINE_CHUNK_MAX),
      .verbs = OF_MODELS },
    { { "weights-memory", 0, "SIZE|N%",
        "how much of the weights is in memory; the rest is read in every step, from an image in\n"
        "'images' beside the package (default: all)" },
      TYPED(eval_set_weights_memory, model.engine.load.weights.memory, NULL),
      .verbs = OF_OPENED },
    { { "flash-rate", 0, "MB/s", "how fast that is read at most (default 0: as fast as the disk is)" },
      TYPED(eval_set_flash_rate, model.engine.load.weights.flash_limit, "0..1000000 MB/s"),
      .most = 1000000,
      .verbs = OF_OPENED ", mobile" },
    { { "flash-latency", 0, "US", "how long each such read takes at least (default 0)" },
      NUMBER(u32, model.engine.load.weights.flash_limit.latency_us, 0, 10000000),
      .accepts = "0..10000000 microseconds",
      .verbs = OF_OPENED ", flash, mobile" },
    { { "graph-blocks", 0, "N", "mobile: parts of the layers that are loaded by themselves (default 8)" },
      NUMBER(u32, model.engine.load.weights.graphs.n_blocks, 1, GRAPH_BLOCKS_MAX),
      .verbs = "mobile" },
    { { "memory", 0, "SIZE",
        "mobile: the requests within so many bytes, K, M, G or T behind, of the process as a whole" },
      TYPED(eval_set_bytes, bench.mobile.memory_bytes, EVAL_BYTES_ACCEPTS),
      .verbs = "mobile" },
    { { "timeline", 0, "FILE",
        "mobile: what ran when in the last repetitions: the NPU, the processors, loads; CSV, which\n"
        "tools/plot draws" },
      TEXT(bench.mobile.timeline),
      NAMES_FILE,
      .verbs = "mobile" },
    { { "graph-files", 0, "HOW",
        "mobile: what graphs are loaded from: auto (default), packed (the package) or materialised" },
      CHOICE(graph_form_choices, model.engine.load.weights.graphs.form),
      .verbs = "mobile" },
    { { "cold", 0, NULL,
        "mobile: in place of all else from a cold page cache to the first token, all read before it begins\n"
        "or computed behind the load" },
      FLAG(bench.mobile.cold),
      .verbs = "mobile" },
    { { "isa", 0, "NAME", "best (default), scalar, avx2, avx512vnni, amx, neon, neondot, i8mm; also COORDGEN_ISA" },
      CHOICE(isa_choices, model.engine.load.isa),
      .verbs = OF_MODELS },
    { { "recipe", 0, "SPEC", "how a .gguf is imported, as coordgenctl has it: int8 (default), compensated:4, ..." },
      TYPED(eval_set_recipe, model, NULL),
      .verbs = OF_MODELS },
    { { "image", 0, NULL,
        "ttft: with an image of the weights, too (coordgend's weights-image); it is made beside\n"
        "the package and removed" },
      FLAG(bench.image),
      .verbs = "ttft" },
    { { "operators", 0, NULL,
        "pp, tg, spec: on standard error, the time of every operator in the last\n"
        "repetition (spec: the last request in the last mode);\n"
        "ttft: what the last one was made of: begin, waits for reads, laying out, computing" },
      FLAG(bench.operators),
      .verbs = "pp, tg, ttft, spec" },
    { { "trace", 0, "FILE",
        "what ran when in the last repetitions, as JSON for chrome://tracing or Perfetto:\n"
        "operators, what was measured around them, in ttft also reads and the tokenizer" },
      TEXT(bench.trace),
      NAMES_FILE,
      .verbs = OF_MADE_UP ", spec, mobile" },
    { { "json", 0, "[HOW]", "report as JSON: pretty (default), short, off" },
      TYPED(eval_set_json, json, EVAL_JSON_ACCEPTS),
      .most = 6 },
    { { "csv", 0, NULL, "report as CSV" }, FLAG(csv) },
    { { "markdown", 0, NULL, "report as a table in Markdown" }, FLAG(markdown) },
    { { "verbose", 0, NULL, "log to stderr" }, .set = command_set_verbose },
    { .option = { "help", 'h', NULL, "this text" } },
    { .option = { "version", 0, NULL, "the version" } },
};

/* Events of the trace, 48 bytes each: some minutes of decode. */
#define TRACE_EVENTS 1000000

static bool answers_requests(const Command *command) {
    const struct Verb *verb = command->verb;

    return verb->fn == bench_spec || verb->fn == bench_flash ||
           (verb->fn == bench_mobile && command->bench.data.n_files);
}

/* Checks the options of `mobile`, which uses either made-up prompts or the requests of --data. */
static int check_mobile(const Command *command, const CommandLine *line) {
    static const char *const of_made_up[] = { "prompt", "repeat" }, *const of_data[] = { "temperature", "seed" };
    const bool has_data = command->bench.data.n_files;

    if (has_data && command->bench.mobile.memory_bytes)
        return command_line_refuse(line, "--memory is for prompts that are made up, not for those of --data");
    if (command->bench.mobile.timeline && (has_data || command->bench.mobile.memory_bytes))
        return command_line_refuse(line, "--timeline is for the switching of graphs, not for --data or --memory");
    for (size_t i = 0; i < ARRAY_LEN(of_made_up); i++)
        if (has_data && command_line_has(line, of_made_up[i]))
            return command_line_refuse(line, "--%s is for prompts that are made up, not for those of --data",
                                       of_made_up[i]);
    for (size_t i = 0; i < ARRAY_LEN(of_data); i++)
        if (!has_data && command_line_has(line, of_data[i]))
            return command_line_refuse(line, "--%s is for the requests of --data", of_data[i]);
    return !has_data && command->requests ? command_line_refuse(line, "--requests is for the requests of --data")
                                          : BENCH_OK;
}

/* Checks that the verb has all options it needs, and no others. */
static int check_options(const Command *command, const CommandLine *line) {
    if (command_line_check_verb(line, command->verb->name))
        return BENCH_USAGE;
    if (command->bench.spec.always && command->bench.spec.controlled)
        return command_line_refuse(line, "--always and --controlled contradict each other: choose one");
    if (command->verb->fn == bench_mobile && check_mobile(command, line))
        return BENCH_USAGE;
    if (answers_requests(command) && !command->bench.data.n_files)
        return command_line_refuse(line, "--data is missing: a file of requests");
    if (command->verb->fn == bench_flash && !command->bench.flash.draft)
        return command_line_refuse(line, "--draft is missing: the model that drafts");
    return command_line_has(line, "json") + command->csv + command->markdown > 1
               ? command_line_refuse(line, "--json, --csv and --markdown are forms of one report: choose one")
               : BENCH_OK;
}

/* Opens the engine and measures the machine's floors, as most verbs need. */
static int open_engine(BenchRun *run, EvalModel *model, const Command *command, ErrText *err) {
    int r = eval_model_open(model, &command->model, err);

    if (r)
        return r;
    run->engine = model->engine;
    run->pool = model->pool;
    return floors_measure(run->floors, engine_info(model->engine)->kernel, model->pool);
}

/* Returns the number of threads. The npu device of `mobile` leaves a processor to the NPU's own thread. */
static unsigned int threads_of(const Command *command) {
    LoadOptions load = command->model.engine.load;

    if (command->verb->fn == bench_mobile)
        load.device = ENGINE_DEVICE_NPU;
    return load_options_threads(&load);
}

/* Prepares a verb that loads the package itself: starts only the workers. */
static int open_pool(BenchRun *run, EvalModel *model, EngineOptions *engine, const Command *command, char **packagep,
                     ErrText *err) {
    unsigned int n_threads = threads_of(command);
    int r = eval_package_path(&command->model, packagep, err);

    if (!r && worker_pool_new(&model->pool, n_threads))
        r = err_set(err, -EAGAIN, "cannot start %u threads", n_threads);
    if (r)
        return r;
    *engine = command->model.engine;
    engine->path = *packagep;
    engine->pool = model->pool;
    run->engine_options = engine;
    run->pool = model->pool;
    return 0;
}

static int finish_trace(const Command *command, const Trace *trace, ErrText *err) {
    if (command->bench.operators && command->verb->fn != bench_first_token) /* which prints its own parts */
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
    if (command->model.path)
        return floor_report_disk(report, command->model.path, err);
    fprintf(stderr, "coordgen-bench: the disk is not among the floors: --model names the file that is read for it\n");
    return 0;
}

static BenchForm form_of(const Command *command) {
    return command->json.is_wanted ? BENCH_FORM_JSON
           : command->csv          ? BENCH_FORM_CSV
           : command->markdown     ? BENCH_FORM_MARKDOWN
                                   : BENCH_FORM_TABLE;
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
        (void)worker_pool_pin(run.pool); /* pinning may fail, as in the service */
    if (!r && (command->bench.trace || command->bench.operators || command->bench.mobile.timeline)) {
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
        r = bench_print(&run, form_of(command), command->json.flags, n_threads);
    eval_model_close(&model);
    return r ? BENCH_FAILED : BENCH_OK;
}

/* Parses the numbers whose defaults and bounds depend on the verb. */
static int take_numbers(Command *command, const CommandLine *line) {
    const bool has_data = answers_requests(command);
    const CommandOption per_task = { .least = 1, .most = 1u << 20 };
    ErrText err;

    if (!command->prompts)
        command->prompts = command->verb->prompts;
    if (!number_list_parse(command->prompts, command->verb->least, 1u << 20, &command->bench.prompts))
        return command_line_refuse(line, "--prompt is up to 16 numbers of tokens with commas between, not '%s'",
                                   command->prompts);
    if (has_data && command->requests &&
        command_set_size(&per_task, command->requests, &command->bench.data.per_task, &err))
        return command_line_refuse(line, "--requests is 1..1048576 of each task, not '%s'", command->requests);
    if (!has_data && !number_list_parse(command->requests ? command->requests : REQUESTS_DEFAULT, 1,
                                        GENERATION_TURNS_MAX, &command->bench.requests))
        return command_line_refuse(line, "--requests is up to 16 numbers from 1 to 64 with commas between, not '%s'",
                                   command->requests);
    if (has_data && !command->requests && command->verb->fn == bench_flash)
        command->bench.data.per_task = FLASH_PER_TASK;
    if (has_data && !command_line_has(line, "output"))
        command->bench.output_tokens = command->verb->fn == bench_flash ? FLASH_OUTPUT : SPEC_OUTPUT;
    command->bench.data.max_tokens = command->bench.output_tokens;
    return BENCH_OK;
}

int main(int argc, char **argv) {
    Command command = {
        .bench = { .output_tokens = 64, .background_tokens = 4096, .repeats = 5 },
        .model.engine = { .load.device = ENGINE_DEVICE_CPU, .load.isa = ISA_BEST },
    };
    CommandLine line = {
        .program = "coordgen-bench",
        .see_help = "; see coordgen-bench --help",
        .tables = { { help_head, option_table, ARRAY_LEN(option_table) },
                    { "\nOptions of real requests\n", spec_options, n_spec_options } },
        .help_column = HELP_COLUMN,
        .help_foot = help_foot,
        .options = &command,
    };
    const char *isa = getenv("COORDGEN_ISA");
    ErrText err = { 0 };
    int status;

    if (standard_io_secure()) {
        fputs("coordgen-bench: /dev/null cannot be opened in place of a closed standard descriptor\n", stderr);
        return BENCH_FAILED;
    }
    spec_options_init(&command.bench);
    (void)quant_recipe_named(&command.model.recipe, NULL);
    if (isa && *isa && isa_parse(isa, &command.model.engine.load.isa, &err))
        return command_line_refuse(&line, "COORDGEN_ISA: %s", err.text);
    if (!command_line_read(&line, argc, argv, &status))
        return status;
    if (!line.arguments[0])
        return command_line_refuse(&line, "a verb is missing");
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        if (!strcmp(verbs[i].name, line.arguments[0]))
            command.verb = &verbs[i];
    if (!command.verb)
        return command_line_refuse_verb(&line, line.arguments[0], &verbs[0].name, sizeof(*verbs), ARRAY_LEN(verbs));
    if (line.arguments[1])
        return command_line_refuse(&line, "unexpected argument '%s'", line.arguments[1]);
    if (command.verb->fn && !command.model.path)
        return command_line_refuse(&line, "--model is missing");
    if (check_options(&command, &line) || take_numbers(&command, &line))
        return BENCH_USAGE;
    /* A .gguf becomes a package with static activations, unless a recipe says what it becomes. */
    if (command.verb->fn == bench_mobile && !command.model.recipe_option)
        (void)quant_recipe_set_profile(&command.model.recipe, "mobile");
    command.bench.model = command.model.path;
    command.model.engine.load.preemption = command.verb->preempts;
    return standard_output_end("coordgen-bench", run_verb(&command), BENCH_FAILED);
}
