// SPDX-License-Identifier: Apache-2.0
/* Options of the verbs that answer real requests: `spec`, `flash`, and `mobile` with --data. */
#ifndef COORDGEN_BENCH_SPEC_OPTIONS_H
#define COORDGEN_BENCH_SPEC_OPTIONS_H

#include "base/strings/options.h"
#include "tools/bench/bench.h"

enum { /* indices into the table */
    SPEC_OPT_DATA,
    SPEC_OPT_MODES,
    SPEC_OPT_ROWS,
    SPEC_OPT_CHAINS,
    SPEC_OPT_ALWAYS,
    SPEC_OPT_CONTROLLED,
    SPEC_OPT_TEMPERATURE,
    SPEC_OPT_SEED,
    SPEC_OPT_PLOT,
    SPEC_OPT_DRAFT,
    SPEC_OPT_BUDGETS,
    SPEC_OPT_RATES,
    SPEC_OPT_POLICIES,
    SPEC_OPT_PLAIN_TOKENS,
    SPEC_OPTIONS
};

extern const Option spec_options[SPEC_OPTIONS];
extern const char *const spec_options_verbs[SPEC_OPTIONS]; /* that have use for them */

void spec_options_init(BenchOptions *bench);
/* NULL when it is fine, else what is wrong with its value, a format for that; or err->text. */
const char *spec_options_take(int option, const char *value, BenchOptions *bench, ErrText *err);

#endif
