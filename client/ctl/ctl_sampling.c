// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <string.h>

#include "client/ctl/ctl.h"

static bool take_priority(const Ctl *ctl, CoordgenPriority *priorityp) {
    const char *text = ctl_text(ctl, "priority", NULL);

    if (!text)
        return true;
    for (int priority = COORDGEN_PRIORITY_INTERACTIVE; priority <= COORDGEN_PRIORITY_BACKGROUND; priority++)
        if (!strcmp(text, coordgen_priority_name(priority))) {
            *priorityp = (CoordgenPriority)priority;
            return true;
        }
    ctl_usage_error(ctl, "--priority=%.32s: one of interactive, normal, background", text);
    return false;
}

/* Options of generate and chat into the library's. priority: where none is given; stops: room for the texts' addresses,
 * which are argv's. */
bool ctl_sampling(const Ctl *ctl, CoordgenGenerateOptions *options, CoordgenPriority priority, const char **stops,
                  size_t n_stops_max) {
    uint64_t max_tokens = 0, top_k = 0, window = 64, seed = 0;

    coordgen_generate_options_init(options);
    options->priority = priority;
    if (!ctl_number(ctl, "max-tokens", UINT32_MAX, &max_tokens) || !ctl_number(ctl, "top-k", UINT32_MAX, &top_k) ||
        !ctl_number(ctl, "repetition-window", UINT32_MAX, &window) || !ctl_number(ctl, "seed", UINT64_MAX, &seed) ||
        !ctl_float(ctl, "temperature", &options->temperature) || !ctl_float(ctl, "top-p", &options->top_p) ||
        !ctl_float(ctl, "min-p", &options->min_p) ||
        !ctl_float(ctl, "repetition-penalty", &options->repetition_penalty) || !take_priority(ctl, &options->priority))
        return false;
    for (size_t i = 0; i < ctl->n_values; i++) {
        if (strcmp(ctl->values[i].option->name, "stop"))
            continue;
        if (options->n_stops == n_stops_max) {
            ctl_usage_error(ctl, "--stop: at most %zu of them", n_stops_max);
            return false;
        }
        stops[options->n_stops++] = ctl->values[i].text;
    }
    options->model = ctl_text(ctl, "model", NULL);
    options->max_tokens = (uint32_t)max_tokens;
    options->top_k = (uint32_t)top_k;
    options->repetition_window = (uint32_t)window;
    options->has_seed = ctl_has(ctl, "seed");
    options->seed = seed;
    options->stops = stops;
    options->no_reuse = ctl_has(ctl, "no-reuse");
    options->speculation = ctl_text(ctl, "speculation", NULL);
    options->no_history = ctl_has(ctl, "no-history");
    return true;
}

static double per_second(uint64_t n, uint64_t us) {
    return us ? (double)n * 1e6 / (double)us : 0;
}

/* The first output token comes with the prompt's last step: decode time is that of the others. */
void ctl_print_timings(const Ctl *ctl, const CoordgenGenerateResult *result) {
    char queue[32], prefill[32], decode[32], load[32], accepted[40] = "";
    uint32_t n_computed = result->prompt_tokens - result->cached_tokens;

    if (ctl->quiet || !(ctl->err_tty || ctl_has(ctl, "timings")))
        return;
    if (result->drafted_tokens)
        snprintf(accepted, sizeof(accepted), " (accept length %.2f)",
                 1 + (double)result->accepted_tokens / (result->decode_steps ? result->decode_steps : 1));
    fprintf(stderr,
            "[%s] prompt %u tokens (%u cached: %s) in %s, %.1f/s; output %u tokens in %s, %.1f/s%s; queue %s, load %s; "
            "%s; request %" PRIu64 "\n",
            result->model, result->prompt_tokens, result->cached_tokens, coordgen_reuse_name(result->reuse),
            ctl_duration_text(prefill, sizeof(prefill), result->prefill_us), per_second(n_computed, result->prefill_us),
            result->output_tokens, ctl_duration_text(decode, sizeof(decode), result->decode_us),
            per_second(result->output_tokens, result->decode_us), accepted,
            ctl_duration_text(queue, sizeof(queue), result->queue_us),
            ctl_duration_text(load, sizeof(load), result->load_us), coordgen_end_reason_name(result->end_reason),
            result->request_number);
}
