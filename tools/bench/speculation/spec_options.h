// SPDX-License-Identifier: Apache-2.0
/* Options of the verbs that answer real requests: `spec`, `flash`, and `mobile` with --data. */
#ifndef COORDGEN_BENCH_SPEC_OPTIONS_H
#define COORDGEN_BENCH_SPEC_OPTIONS_H

#include "tools/bench/bench.h"

/* Rows of BenchOptions. */
extern const CommandOption spec_options[];
extern const size_t n_spec_options;

void spec_options_init(BenchOptions *bench);

#endif
