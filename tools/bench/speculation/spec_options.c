// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/speculation/spec_options.h"

#include "base/strings/decimal.h"

#define OF_BOTH "spec, flash"
#define OF_ALL OF_BOTH ", mobile"

#define AT(field) .offset = offsetof(BenchOptions, field)
#define TEXT(field) .set = command_set_text, AT(field)
#define FLAG(field) .set = command_set_flag, AT(field)
#define NUMBER(type, field, least_, most_) .set = command_set_##type, AT(field), .least = (least_), .most = (most_)

static int add_data(const CommandOption *option, const char *value, void *field, ErrText *err) {
    SpecDataOptions *data = field;

    if (data->n_files == SPEC_FILES_MAX)
        return err_set(err, OPTIONS_E_USAGE, "--data: more than 16 files, from '%s' on", value);
    data->files[data->n_files++] = value;
    return 0;
}

static int set_modes(const CommandOption *option, const char *value, void *field, ErrText *err) {
    return spec_modes_parse(value, field, err) ? OPTIONS_E_USAGE : 0;
}

static int set_policies(const CommandOption *option, const char *value, void *field, ErrText *err) {
    return flash_policies_parse(value, field, err) ? OPTIONS_E_USAGE : 0;
}

static int set_temperature(const CommandOption *option, const char *value, void *field, ErrText *err) {
    SamplerOptions *sampler = field;

    return decimal_parse_float(value, &sampler->temperature) && !sampler_options_check(sampler, err) ? 0
                                                                                                     : COMMAND_E_VALUE;
}

const CommandOption spec_options[] = {
    { { "data", 'd', "FILE",
        "spec, flash, mobile: requests, a JSON object a line with prompt, task, and perhaps id and\n"
        "schema, which the answers fit; more than once for more" },
      .set = add_data,
      AT(data),
      .verbs = OF_ALL },
    { { "modes", 0, "NAME,...",
        "spec: plain, pld, sam, calibration, table, reuse, history, auto (default: these); of rows with\n"
        "schemas no-grammar, grammar, free (plain, without the schemas)" },
      .set = set_modes,
      AT(spec.modes),
      .verbs = "spec" },
    { { "rows", 0, "N", "spec: rows of a step at most, drafts and the last token (default 64)" },
      NUMBER(u32, spec.rows_max, 2, DRAFT_ROWS_MAX),
      .verbs = "spec" },
    { { "chains", 0, NULL, "spec: every mode drafts one chain, no tree" }, FLAG(spec.chains), .verbs = "spec" },
    { { "always", 0, NULL, "spec: every mode drafts as much as it can, whether or not that pays" },
      FLAG(spec.always),
      .verbs = "spec" },
    { { "controlled", 0, NULL, "spec: pld and sam, too, draft only what pays, as the other modes do" },
      FLAG(spec.controlled),
      .verbs = "spec" },
    { { "temperature", 0, "T", "spec, flash, mobile: 0 (default) is greedy" },
      .set = set_temperature,
      AT(sampler),
      .accepts = "0, or above 0 and at most 100",
      .verbs = OF_ALL },
    { { "seed", 0, "N", "spec, flash, mobile: of sampling (default 0)" },
      NUMBER(u64, sampler.seed, 0, UINT64_MAX),
      .accepts = "a whole number",
      .verbs = OF_ALL },
    { { "plot", 0, "FILE.csv",
        "spec, flash: numbers of a plot, which tools/plot draws: speeds by task and mode; tokens a second by\n"
        "the flash's speed" },
      TEXT(plot),
      .least = 1,
      .accepts = "the name of a file",
      .verbs = OF_BOTH },
    { { "draft", 0, "FILE",
        "flash: the model in memory that drafts, a .gguf or a .cgm package; self: those of the\n"
        "target's layers that are in memory" },
      TEXT(flash.draft),
      .verbs = "flash" },
    { { "budgets", 0, "N,...", "flash: per cent of the layers in memory (default 0,25,50,75,100)" },
      .set = number_list_set,
      AT(flash.budgets),
      .most = 100,
      .accepts = "up to 16 numbers from 0 to 100 with commas between",
      .verbs = "flash" },
    { { "rates", 0, "MB/s,...",
        "flash: how fast the others are read at most; 0: as fast as the disk is "
        "(default 250,500,1000,0)" },
      .set = number_list_set,
      AT(flash.rates),
      .most = 1000000,
      .accepts = "up to 16 numbers from 0 to 1000000 MB/s with commas between",
      .verbs = "flash" },
    { { "policies", 0, "NAME,...",
        "flash: flash-ar, chain-sd, edgellm, specinfer, opt-tree, lever, ours, auto, retrieval\n"
        "(default: all)" },
      .set = set_policies,
      AT(flash.policies),
      .verbs = "flash" },
    { { "plain-tokens", 0, "N",
        "flash: tokens of an answer that flash-ar gives (default: all); the others' are then\n"
        "compared with plain decoding in memory, which the target must fit into" },
      NUMBER(size, flash.plain_tokens, 2, 1u << 20),
      .accepts = "2..1048576, for the first token is the prompt's",
      .verbs = "flash" },
};

const size_t n_spec_options = ARRAY_LEN(spec_options);

void spec_options_init(BenchOptions *bench) {
    bench->spec.modes = spec_modes_default();
    bench->sampler = (SamplerOptions)SAMPLER_OPTIONS_GREEDY;
    bench->flash.policies = (1u << FLASH_POLICIES_MAX) - 1;
    (void)number_list_parse("0,25,50,75,100", 0, 100, &bench->flash.budgets);
    (void)number_list_parse("250,500,1000,0", 0, 1000000, &bench->flash.rates);
}
