// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <string.h>

#include "client/ctl/ctl.h"

bool ctl_priority(const Ctl *ctl, CoordgenPriority *priorityp) {
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

/* Takes a number of 0 or more, because COORDGEN_UNSET is negative; the service checks the range of each option. */
static bool take_float(const Ctl *ctl, const char *option, float *valuep) {
    if (!ctl_float(ctl, option, valuep))
        return false;
    if (!ctl_has(ctl, option) || *valuep >= 0)
        return true;
    ctl_usage_error(ctl, "--%s=%.32s: a number from 0 on is needed", option, ctl_text(ctl, option, ""));
    return false;
}

/* Sets the library's options from those of generate and chat. priority: the default. stops: room for pointers to the
 * texts, which stay in argv. */
bool ctl_sampling(const Ctl *ctl, CoordgenGenerateOptions *options, CoordgenPriority priority, const char **stops,
                  size_t n_stops_max) {
    uint64_t max_tokens = 0, top_k = COORDGEN_UNSET_COUNT, window = COORDGEN_UNSET_COUNT, seed = 0;

    coordgen_generate_options_init(options);
    options->priority = priority;
    if (!ctl_number(ctl, "max-tokens", UINT32_MAX, &max_tokens) ||
        !ctl_number(ctl, "top-k", COORDGEN_UNSET_COUNT - 1, &top_k) ||
        !ctl_number(ctl, "repetition-window", COORDGEN_UNSET_COUNT - 1, &window) ||
        !ctl_number(ctl, "seed", UINT64_MAX, &seed) || !take_float(ctl, "temperature", &options->temperature) ||
        !take_float(ctl, "top-p", &options->top_p) || !take_float(ctl, "min-p", &options->min_p) ||
        !take_float(ctl, "repetition-penalty", &options->repetition_penalty) || !ctl_priority(ctl, &options->priority))
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
    if (ctl_has(ctl, "allow-repetition"))
        options->repetition = COORDGEN_REPETITION_ALLOW;
    options->no_reuse = ctl_has(ctl, "no-reuse");
    options->speculation = ctl_text(ctl, "speculation", NULL);
    options->no_history = ctl_has(ctl, "no-history");
    return ctl_thinking(ctl, options) && ctl_tool_choice(ctl, options);
}

static double per_second(uint64_t n, uint64_t us) {
    return us ? (double)n * 1e6 / (double)us : 0;
}

/* Writes "name value (origin)", unless the value turns the option off. */
static void print_option(const char *name, float value, float off, CoordgenSamplingOrigin origin, const char *family) {
    const bool is_family = origin == COORDGEN_SAMPLING_FAMILY && *family;

    if (value != off)
        fprintf(stderr, "%s %g (%s%s%s), ", name, (double)value, coordgen_sampling_origin_name((int)origin),
                is_family ? " " : "", is_family ? family : "");
}

/* Tells how the answer was sampled. */
static void print_sampling(const CoordgenGenerateResult *result) {
    const CoordgenSamplingOrigins *from = result->sampling_origins;

    if (!from)
        return;
    fputs("sampling: ", stderr);
    print_option("temperature", result->temperature, -1, from->temperature, from->family);
    print_option("top-k", (float)result->top_k, 0, from->top_k, from->family);
    print_option("top-p", result->top_p, 1, from->top_p, from->family);
    print_option("min-p", result->min_p, 0, from->min_p, from->family);
    print_option("repetition-penalty", result->repetition_penalty, 1, from->repetition_penalty, from->family);
    if (result->more_sampling)
        ctl_print_more_sampling(result->more_sampling);
    fprintf(stderr, "seed %" PRIu64 "; at most %u tokens; repetition %s\n", result->seed, result->max_tokens,
            result->ends_repetition ? "ends it" : "is allowed");
}

/* Prints why an incomplete answer ends, between begin and end. */
void ctl_print_cut(const CoordgenGenerateResult *result, const char *begin, const char *end) {
    if (result->ended_in_time)
        fprintf(stderr, "%sthe answer was made whole in time: --max-tokens is %u, more would let it go on%s", begin,
                result->max_tokens, end);
    else if (result->end_reason == COORDGEN_END_MAX_TOKENS)
        fprintf(stderr, "%sthe answer is cut here: --max-tokens is %u, 0 lets it go on%s", begin, result->max_tokens,
                end);
    if (result->end_reason == COORDGEN_END_REPETITION)
        fprintf(stderr, "%sthe answer repeats itself and ends here: --allow-repetition lets it go on%s", begin, end);
}

/* Prints timings. The prompt's last step gives the first output token, so decode time counts the other tokens. */
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
    if (ctl_has(ctl, "timings"))
        print_sampling(result);
}
