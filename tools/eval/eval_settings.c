// SPDX-License-Identifier: Apache-2.0
#include "tools/eval/eval_settings.h"

#include <string.h>

#include "base/strings/decimal.h"
#include "quant/format/recipe_spec.h"
#include "tools/eval/eval.h"

int eval_set_weights_memory(const CommandOption *option, const char *value, void *field, ErrText *err) {
    return weights_memory_parse(field, value, err) ? OPTIONS_E_USAGE : 0;
}

int eval_set_bytes(const CommandOption *option, const char *value, void *field, ErrText *err) {
    WeightsMemory memory;

    if (weights_memory_parse(&memory, value, err) || memory.is_percent || !memory.bytes)
        return COMMAND_E_VALUE;
    *(uint64_t *)field = memory.bytes;
    return 0;
}

int eval_set_flash_rate(const CommandOption *option, const char *value, void *field, ErrText *err) {
    ReadLimit *limit = field;
    uint64_t rate;
    int r = command_set_u64(option, value, &rate, err);

    if (!r)
        limit->bytes_per_s = rate * 1000000;
    return r;
}

int eval_set_recipe(const CommandOption *option, const char *value, void *field, ErrText *err) {
    EvalModelOptions *model = field;

    model->recipe_option = "--recipe";
    return recipe_spec_parse(&model->recipe, value, err) ? OPTIONS_E_USAGE : 0;
}

int eval_set_calibration(const CommandOption *option, const char *value, void *field, ErrText *err) {
    EvalModelOptions *model = field;

    model->recipe_option = "--calibration";
    model->calibration = value;
    return 0;
}

int eval_set_json(const CommandOption *option, const char *value, void *field, ErrText *err) {
    const bool is_pretty = !value || !strcmp(value, "pretty");

    if (!is_pretty && strcmp(value, "short") && strcmp(value, "off"))
        return COMMAND_E_VALUE;
    *(EvalJson *)field = (EvalJson){
        .is_wanted = is_pretty || strcmp(value, "off"),
        .flags = (is_pretty ? JSON_INDENT(2) : JSON_COMPACT) | JSON_REAL_PRECISION(option->most),
    };
    return 0;
}
