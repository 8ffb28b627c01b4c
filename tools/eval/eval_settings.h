// SPDX-License-Identifier: Apache-2.0
/* Setters of options that coordgen-eval and coordgen-bench share: the model, how it is opened, the form of a report.
 * Each is a CommandSet (base/strings/command_line.h); the comment names the type of the field. */
#ifndef COORDGEN_EVAL_SETTINGS_H
#define COORDGEN_EVAL_SETTINGS_H

#include "base/strings/command_line.h"

CommandSet eval_set_weights_memory; /* WeightsMemory */
CommandSet eval_set_bytes;          /* uint64_t, above 0 */
CommandSet eval_set_flash_rate;     /* ReadLimit, from MB/s */
CommandSet eval_set_recipe;         /* EvalModelOptions */
CommandSet eval_set_calibration;    /* EvalModelOptions */
CommandSet eval_set_json;           /* EvalJson; the row's `most`: digits of a number */

#define EVAL_JSON_ACCEPTS "pretty, short or off"
#define EVAL_BYTES_ACCEPTS "a number of bytes, with K, M, G or T behind it"

#endif
