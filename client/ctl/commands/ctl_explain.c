// SPDX-License-Identifier: Apache-2.0
/* explain: shows what drafts brought a generation, as text or JSON. */
#include <inttypes.h>
#include <string.h>

#include "base/strings/decimal.h"
#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"

enum {
    EXPLAIN_TIMEOUT_MS = 10000,
};

double ctl_accept_length(const CoordgenExplanation *explanation) {
    return explanation->decode_steps ? (double)explanation->valid_rows / (double)explanation->decode_steps : 0;
}

static double percent(uint64_t part, uint64_t whole) {
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static const char *off_text(int off) {
    switch (off) {
    case COORDGEN_SPECULATION_SETTING:
        return "none: the service's setting; --speculation=auto asks for some";
    case COORDGEN_SPECULATION_REQUEST:
        return "none: the request wants none";
    default:
        return "none: none of the sources is there, or found memory";
    }
}

static void print_sources(FILE *out, const CoordgenExplanation *explanation) {
    fprintf(out, "%-12s %10s %10s\n", "SOURCE", "DRAFTED", "ACCEPTED");
    for (size_t i = 0; i < explanation->n_sources; i++) {
        const CoordgenDraftSource *source = explanation->sources[i];

        ctl_put_text(out, source->name, true);
        fprintf(out, "%*s %10" PRIu64 " %10" PRIu64, strlen(source->name) < 12 ? (int)(12 - strlen(source->name)) : 0,
                "", source->drafted_tokens, source->accepted_tokens);
        if (source->drafted_tokens)
            fprintf(out, "  %.0f %%", percent(source->accepted_tokens, source->drafted_tokens));
        fputs(source->is_on ? "\n" : "  not there\n", out);
    }
}

static void print_lengths(FILE *out, const CoordgenExplanation *explanation) {
    if (!explanation->n_accept_lengths)
        return;
    fputs("Accepted    ", out);
    for (size_t i = 0; i < explanation->n_accept_lengths; i++)
        if (explanation->accept_lengths[i])
            fprintf(out, " %zu: %" PRIu64 ",", i, explanation->accept_lengths[i]);
    fputs(" as drafts a verification: how often\n", out);
}

static void print_prompt(FILE *out, const CoordgenExplanation *explanation) {
    char head[32], cost[32], gain[32];

    ctl_duration_text(cost, sizeof(cost), explanation->prompt_cost_us);
    ctl_duration_text(gain, sizeof(gain), explanation->prompt_gain_us);
    if (explanation->prompt_rows)
        fprintf(out, "Prompt       %" PRIu64 " rows learned from, head %s\n", explanation->prompt_rows,
                ctl_duration_text(head, sizeof(head), explanation->prompt_head_us));
    if (explanation->prompt_learning == COORDGEN_PROMPT_LEARNING_PAYS)
        fprintf(out, "             because it brings about %s for %s\n", gain, cost);
    if (explanation->prompt_learning == COORDGEN_PROMPT_LEARNING_LOSES)
        fprintf(out, "Prompt       not learned from: it would bring about %s for %s\n", gain, cost);
    if (explanation->prompt_learning == COORDGEN_PROMPT_LEARNING_TRIAL && explanation->prompt_rows)
        fputs("             on trial: what it brings is not known yet, or it did not pay and is tried again\n", out);
}

static void print_model(FILE *out, const CoordgenExplanation *explanation) {
    char time[32];

    if (explanation->model_us)
        fprintf(out, "Draft model  %" PRIu64 " passes, %" PRIu64 " rows, %s with its reading of the text\n",
                explanation->model_passes, explanation->model_rows,
                ctl_duration_text(time, sizeof(time), explanation->model_us));
}

static void print_reads(FILE *out, const CoordgenExplanation *explanation) {
    char bytes[32], time[32];

    if (explanation->read_bytes)
        fprintf(out, "Disk         %s read, steps waited %s for it\n",
                ctl_bytes_text(bytes, sizeof(bytes), explanation->read_bytes),
                ctl_duration_text(time, sizeof(time), explanation->read_wait_us));
}

/* Prints the sources only, if no token was decoded yet. */
void ctl_print_explanation(FILE *out, const CoordgenExplanation *explanation) {
    const uint64_t n_rows = explanation->valid_rows + explanation->wasted_rows,
                   n_computed = n_rows + explanation->idle_rows;
    char steps[32], drafts[32], head[32];

    if (explanation->off)
        fprintf(out, "Drafts       %s\n", off_text((int)explanation->off));
    else if (explanation->n_sources)
        print_sources(out, explanation);
    print_prompt(out, explanation);
    if (!explanation->decode_steps)
        return;
    print_lengths(out, explanation);
    fprintf(out, "Steps        %" PRIu64 " (%" PRIu64 " with drafts), accept length %.2f, %.1f rows each\n",
            explanation->decode_steps, explanation->verifications, ctl_accept_length(explanation),
            (double)n_rows / (double)explanation->decode_steps);
    fprintf(out, "Rows         %" PRIu64 " valid (%.0f %%), %" PRIu64 " wasted (%.0f %%), %" PRIu64 " idle (%.0f %%)\n",
            explanation->valid_rows, percent(explanation->valid_rows, n_computed), explanation->wasted_rows,
            percent(explanation->wasted_rows, n_computed), explanation->idle_rows,
            percent(explanation->idle_rows, n_computed));
    fprintf(out, "Time         steps %s, of that the head %s; drafts %s\n",
            ctl_duration_text(steps, sizeof(steps), explanation->steps_us),
            ctl_duration_text(head, sizeof(head), explanation->head_us),
            ctl_duration_text(drafts, sizeof(drafts), explanation->draft_us));
    print_model(out, explanation);
    print_reads(out, explanation);
}

static json_t *json_count(uint64_t count) {
    return json_integer((json_int_t)count);
}

json_t *ctl_json_explanation(const CoordgenExplanation *explanation) {
    json_t *object = json_object(), *sources = json_array(), *lengths = json_array();

    for (size_t i = 0; i < explanation->n_sources; i++) {
        const CoordgenDraftSource *source = explanation->sources[i];
        json_t *one = json_object();

        ctl_json_set(one, "name", ctl_json_text(source->name, strlen(source->name)));
        ctl_json_set(one, "on", json_boolean(source->is_on));
        ctl_json_set(one, "drafted_tokens", json_count(source->drafted_tokens));
        ctl_json_set(one, "accepted_tokens", json_count(source->accepted_tokens));
        json_array_append_new(sources, one);
    }
    for (size_t i = 0; i < explanation->n_accept_lengths; i++)
        json_array_append_new(lengths, json_count(explanation->accept_lengths[i]));
    ctl_json_set(object, "off_by",
                 explanation->off ? json_string(coordgen_speculation_off_name((int)explanation->off)) : json_null());
    ctl_json_set(object, "sources", sources);
    ctl_json_set(object, "accept_length", json_real(ctl_accept_length(explanation)));
    ctl_json_set(object, "accept_lengths", lengths);
    ctl_json_set(object, "decode_steps", json_count(explanation->decode_steps));
    ctl_json_set(object, "verifications", json_count(explanation->verifications));
    ctl_json_set(object, "valid_rows", json_count(explanation->valid_rows));
    ctl_json_set(object, "wasted_rows", json_count(explanation->wasted_rows));
    ctl_json_set(object, "idle_rows", json_count(explanation->idle_rows));
    ctl_json_set(object, "draft_us", json_count(explanation->draft_us));
    ctl_json_set(object, "head_us", json_count(explanation->head_us));
    ctl_json_set(object, "steps_us", json_count(explanation->steps_us));
    ctl_json_set(object, "prompt_rows", json_count(explanation->prompt_rows));
    ctl_json_set(object, "prompt_head_us", json_count(explanation->prompt_head_us));
    ctl_json_set(object, "prompt_learning",
                 json_string(coordgen_prompt_learning_name((int)explanation->prompt_learning)));
    ctl_json_set(object, "prompt_cost_us", json_count(explanation->prompt_cost_us));
    ctl_json_set(object, "prompt_gain_us", json_count(explanation->prompt_gain_us));
    ctl_json_set(object, "model_passes", json_count(explanation->model_passes));
    ctl_json_set(object, "model_rows", json_count(explanation->model_rows));
    ctl_json_set(object, "model_us", json_count(explanation->model_us));
    ctl_json_set(object, "read_bytes", json_count(explanation->read_bytes));
    ctl_json_set(object, "read_wait_us", json_count(explanation->read_wait_us));
    return object;
}

json_t *ctl_json_request(const CoordgenRequestInfo *request) {
    json_t *object = json_object();

    ctl_json_set(object, "number", json_count(request->number));
    ctl_json_set(object, "uid", json_integer(request->uid));
    ctl_json_set(object, "model", ctl_json_text(request->model, strlen(request->model)));
    ctl_json_set(object, "priority", json_string(coordgen_priority_name((int)request->priority)));
    ctl_json_set(object, "state", json_string(coordgen_request_state_name((int)request->state)));
    ctl_json_set(object, "outcome", ctl_json_text(request->outcome, strlen(request->outcome)));
    ctl_json_set(object, "queue_position", json_integer(request->queue_position));
    ctl_json_set(object, "prompt_tokens", json_integer(request->prompt_tokens));
    ctl_json_set(object, "read_tokens", json_integer(request->read_tokens));
    ctl_json_set(object, "output_tokens", json_integer(request->output_tokens));
    ctl_json_set(object, "age_us", json_count(request->age_us));
    ctl_json_set(object, "prefill_us", json_count(request->prefill_us));
    ctl_json_set(object, "decode_us", json_count(request->decode_us));
    ctl_json_set(object, "explanation", ctl_json_explanation(request->explanation));
    return object;
}

static void print_request(const Ctl *ctl, const CoordgenRequestInfo *request) {
    char age[32];

    printf("Request      %" PRIu64 ", uid %" PRIu32 ", model ", request->number, request->uid);
    ctl_put_text(stdout, request->model, ctl->out_tty);
    printf(", %s: %s", coordgen_priority_name((int)request->priority),
           coordgen_request_state_name((int)request->state));
    if (*request->outcome)
        fputs(", ", stdout);
    ctl_put_text(stdout, request->outcome, ctl->out_tty);
    printf("; %" PRIu32 " + %" PRIu32 " tokens in %s\n", request->prompt_tokens, request->output_tokens,
           ctl_duration_text(age, sizeof(age), request->age_us));
    ctl_print_explanation(stdout, request->explanation);
}

static int explain_run(Ctl *ctl) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    const CoordgenRequestInfo *request;
    const char *rest;
    uint64_t number;
    int r;

    rest = decimal_read_u64(ctl->args[0], &number);
    if (!rest || *rest || !number)
        return ctl_usage_error(ctl, "'%.32s' is no request: a number that generate --timings or top shows",
                               ctl->args[0]);
    r = ctl_connect(ctl);
    if (!r)
        r = ctl_wait(ctl, &wait,
                     coordgen_explain_start(ctl->client, number, EXPLAIN_TIMEOUT_MS, ctl_wait_event, &wait, NULL));
    if (r)
        return r;
    if (coordgen_reply_error(wait.reply))
        return ctl_failed_reply(ctl, &wait);
    request = coordgen_reply_request(wait.reply, 0);
    if (!request)
        return ctl_failed(ctl, COORDGEN_E_BAD_REPLY, "the service's answer has no request", "", 0);
    if (ctl->json)
        return ctl_json_print(ctl, ctl_json_request(request));
    print_request(ctl, request);
    return CTL_EXIT_OK;
}

const CtlVerb ctl_verb_explain = {
    .name = "explain",
    .arguments = "REQUEST",
    .summary = "show what drafts have brought a generation",
    .more = "REQUEST is the number that generate --timings, top and the service's log show. One that runs\n"
            "is shown as it is now; of your apps' requests the last 64 are there after their end.\n"
            "Administrators see everybody's.\n"
            "\nExamples\n"
            "  coordgenctl explain 17\n"
            "  coordgenctl explain 17 --json=short | jq .explanation.accept_length\n",
    .n_args_min = 1,
    .n_args_max = 1,
    .run = explain_run,
};
