// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/speculation/spec_options.h"

#include "base/strings/decimal.h"

const Option spec_options[SPEC_OPTIONS] = {
    [SPEC_OPT_DATA] = { "data", 'd', "FILE",
                        "spec, flash, mobile: requests, a JSON object a line with prompt, task and id; more than once\n"
                        "for more" },
    [SPEC_OPT_MODES] = { "modes", 0, "NAME,...",
                         "spec: plain, pld, sam, calibration, table, reuse, history, auto (default: all)" },
    [SPEC_OPT_ROWS] = { "rows", 0, "N", "spec: rows of a step at most, drafts and the last token (default 64)" },
    [SPEC_OPT_CHAINS] = { "chains", 0, NULL, "spec: every mode drafts one chain, no tree" },
    [SPEC_OPT_ALWAYS] = { "always", 0, NULL, "spec: every mode drafts as much as it can, whether or not that pays" },
    [SPEC_OPT_CONTROLLED] = { "controlled", 0, NULL,
                              "spec: pld and sam, too, draft only what pays, as the other modes do" },
    [SPEC_OPT_TEMPERATURE] = { "temperature", 0, "T", "spec, flash, mobile: 0 (default) is greedy" },
    [SPEC_OPT_SEED] = { "seed", 0, "N", "spec, flash, mobile: of sampling (default 0)" },
    [SPEC_OPT_PLOT] = { "plot", 0, "FILE",
                        "spec: speeds by task and mode as SVG; flash: tokens a second by the flash's speed" },
    [SPEC_OPT_DRAFT] = { "draft", 0, "FILE",
                         "flash: the model in memory that drafts, a .gguf or a .cgm package; self: those of the\n"
                         "target's layers that are in memory" },
    [SPEC_OPT_BUDGETS] = { "budgets", 0, "N,...", "flash: per cent of the layers in memory (default 0,25,50,75,100)" },
    [SPEC_OPT_RATES] = { "rates", 0, "MB/s,...",
                         "flash: how fast the others are read at most; 0: as fast as the disk is "
                         "(default 250,500,1000,0)" },
    [SPEC_OPT_POLICIES] = { "policies", 0, "NAME,...",
                            "flash: flash-ar, chain-sd, edgellm, specinfer, opt-tree, lever, ours, auto, retrieval\n"
                            "(default: all)" },
    [SPEC_OPT_PLAIN_TOKENS] = { "plain-tokens", 0, "N",
                                "flash: tokens of an answer that flash-ar gives (default: all); the others' are then\n"
                                "compared with plain decoding in memory, which the target must fit into" },
};

#define OF_BOTH "spec, flash"
#define OF_ALL OF_BOTH ", mobile"

const char *const spec_options_verbs[SPEC_OPTIONS] = {
    [SPEC_OPT_DATA] = OF_ALL,      [SPEC_OPT_MODES] = "spec",         [SPEC_OPT_ROWS] = "spec",
    [SPEC_OPT_CHAINS] = "spec",    [SPEC_OPT_ALWAYS] = "spec",        [SPEC_OPT_CONTROLLED] = "spec",
    [SPEC_OPT_SEED] = OF_ALL,      [SPEC_OPT_TEMPERATURE] = OF_ALL,   [SPEC_OPT_PLOT] = OF_BOTH,
    [SPEC_OPT_DRAFT] = "flash",    [SPEC_OPT_BUDGETS] = "flash",      [SPEC_OPT_RATES] = "flash",
    [SPEC_OPT_POLICIES] = "flash", [SPEC_OPT_PLAIN_TOKENS] = "flash",
};

void spec_options_init(BenchOptions *bench) {
    bench->spec.modes = (1u << SPEC_MODES_MAX) - 1;
    bench->sampler = (SamplerOptions)SAMPLER_OPTIONS_GREEDY;
    bench->policies = (1u << FLASH_POLICIES_MAX) - 1;
    (void)number_list_parse("0,25,50,75,100", 0, 100, bench->budgets, &bench->n_budgets);
    (void)number_list_parse("250,500,1000,0", 0, 1000000, bench->rates, &bench->n_rates);
}

static const char *take_flash(int option, const char *value, BenchOptions *bench, ErrText *err) {
    switch (option) {
    case SPEC_OPT_DRAFT:
        bench->draft = value;
        return NULL;
    case SPEC_OPT_BUDGETS:
        return number_list_parse(value, 0, 100, bench->budgets, &bench->n_budgets)
                   ? NULL
                   : "--budgets is up to 16 numbers from 0 to 100 with commas between, not '%s'";
    case SPEC_OPT_RATES:
        return number_list_parse(value, 0, 1000000, bench->rates, &bench->n_rates)
                   ? NULL
                   : "--rates is up to 16 numbers from 0 to 1000000 MB/s with commas between, not '%s'";
    case SPEC_OPT_POLICIES:
        return flash_policies_parse(value, &bench->policies, err) ? err->text : NULL;
    case SPEC_OPT_PLAIN_TOKENS:
        return number_parse(value, 2, 1u << 20, &bench->plain_tokens)
                   ? NULL
                   : "--plain-tokens is 2..1048576, for the first token is the prompt's, not '%s'";
    }
    return NULL;
}

const char *spec_options_take(int option, const char *value, BenchOptions *bench, ErrText *err) {
    size_t number = 0;

    switch (option) {
    case SPEC_OPT_DATA:
        if (bench->n_data == BENCH_LIST_MAX)
            return "--data: more than 16 files, from '%s' on";
        bench->data[bench->n_data++] = value;
        return NULL;
    case SPEC_OPT_MODES:
        return spec_modes_parse(value, &bench->spec.modes, err) ? err->text : NULL;
    case SPEC_OPT_ROWS:
        if (!number_parse(value, 2, DRAFT_ROWS_MAX, &number))
            return "--rows is 2..64, not '%s'";
        bench->spec.rows_max = (uint32_t)number;
        return NULL;
    case SPEC_OPT_CHAINS:
        bench->spec.chains = true;
        return NULL;
    case SPEC_OPT_ALWAYS:
        bench->spec.always = true;
        return NULL;
    case SPEC_OPT_CONTROLLED:
        bench->spec.controlled = true;
        return NULL;
    case SPEC_OPT_TEMPERATURE:
        return decimal_parse_float(value, &bench->sampler.temperature) && !sampler_options_check(&bench->sampler, err)
                   ? NULL
                   : "--temperature is 0, or above 0 and at most 100, not '%s'";
    case SPEC_OPT_SEED:
        return decimal_parse_u64(value, &bench->sampler.seed) ? NULL : "--seed is a whole number, not '%s'";
    case SPEC_OPT_PLOT:
        bench->plot = value;
        return *value ? NULL : "--plot is the name of a file, not '%s'";
    default:
        return take_flash(option, value, bench, err);
    }
}
