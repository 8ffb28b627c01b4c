// SPDX-License-Identifier: Apache-2.0
#include "gateway/answers/answer_json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/strings/json_text.h"

json_t *answer_head(const Turn *turn, const char *object) {
    char fingerprint[64];

    /* A version gives the same answers everywhere. llama-server's fingerprints begin with a "b", too. */
    snprintf(fingerprint, sizeof(fingerprint), "b-coordgen-%s", coordgen_client_version());
    return json_pack("{ss, ss, sI, so, ss}", "id", turn->id, "object", object, "created", (json_int_t)turn->created_s,
                     "model", json_text(turn->model), "system_fingerprint", fingerprint);
}

const char *answer_finish_reason(CoordgenEndReason reason) {
    switch (reason) {
    case COORDGEN_END_TOKEN:
    case COORDGEN_END_STOP:
        return "stop";
    case COORDGEN_END_TOOL_CALLS:
        return "tool_calls";
    default:
        return "length";
    }
}

size_t answer_n_choices(const CoordgenGenerateResult *result) {
    return result->n_choices ? result->n_choices : 1;
}

CoordgenChoice answer_choice(const CoordgenGenerateResult *result, size_t choice) {
    if (result->n_choices)
        return result->choices[choice];
    return (CoordgenChoice){
        .text = result->text,
        .text_bytes = result->text_bytes,
        .reasoning = result->reasoning,
        .tool_calls = result->tool_calls,
        .n_tool_calls = result->n_tool_calls,
        .end_reason = result->end_reason,
        .output_tokens = result->output_tokens,
        .reasoning_tokens = result->reasoning_tokens,
        .incomplete_bytes = result->incomplete_bytes,
        .ended_in_time = result->ended_in_time,
        .seed = result->seed,
    };
}

/* ---- usage and times --------------------------------------------------------------------------------------------- */

typedef struct Sums {
    uint64_t prompt, cached, output, reasoning, drafted, accepted;
    uint64_t n_answers;
    uint64_t prefill_us, decode_us;
} Sums;

static void add_sums(Sums *sums, const CoordgenGenerateResult *result) {
    sums->prompt += result->prompt_tokens;
    sums->cached += result->cached_tokens;
    sums->output += result->output_tokens;
    sums->n_answers += answer_n_choices(result);
    sums->reasoning += result->reasoning_tokens;
    sums->drafted += result->drafted_tokens;
    sums->accepted += result->accepted_tokens;
    sums->prefill_us += result->prefill_us;
    sums->decode_us += result->decode_us;
}

static Sums sums_of(const Turn *turn) {
    Sums sums = { 0 };

    for (size_t i = 0; i < turn->n_parts; i++) {
        const CoordgenGenerateResult *result = coordgen_reply_generate(turn->replies[i]);

        if (result)
            add_sums(&sums, result);
    }
    return sums;
}

json_t *answer_usage(const Turn *turn) {
    const Sums sums = sums_of(turn);

    return json_pack("{sI, sI, sI, s{sI}, s{sI}}", "prompt_tokens", (json_int_t)sums.prompt, "completion_tokens",
                     (json_int_t)sums.output, "total_tokens", (json_int_t)(sums.prompt + sums.output),
                     "prompt_tokens_details", "cached_tokens", (json_int_t)sums.cached, "completion_tokens_details",
                     "reasoning_tokens", (json_int_t)sums.reasoning);
}

static double share(double value, double of) {
    return of > 0 ? value / of : 0;
}

static json_t *timings_of(Sums sums) {
    /* The first token of an answer comes with the prompt, and costs no time of its own. */
    const double n_decoded = sums.output > sums.n_answers ? (double)(sums.output - sums.n_answers) : 0;
    const double n_prompt = (double)(sums.prompt - sums.cached), n_output = (double)sums.output,
                 prompt_ms = (double)sums.prefill_us / 1000, output_ms = (double)sums.decode_us / 1000;
    json_t *timings =
        json_pack("{sI, sI, sf, sf, sf, sI, sf, sf, sf}", "cache_n", (json_int_t)sums.cached, "prompt_n",
                  (json_int_t)n_prompt, "prompt_ms", prompt_ms, "prompt_per_token_ms", share(prompt_ms, n_prompt),
                  "prompt_per_second", share(n_prompt * 1000, prompt_ms), "predicted_n", (json_int_t)n_output,
                  "predicted_ms", output_ms, "predicted_per_token_ms", share(output_ms, n_decoded),
                  "predicted_per_second", share(n_decoded * 1000, output_ms));

    if (timings && sums.drafted) {
        json_object_set_new(timings, "draft_n", json_integer((json_int_t)sums.drafted));
        json_object_set_new(timings, "draft_n_accepted", json_integer((json_int_t)sums.accepted));
    }
    return timings;
}

json_t *answer_timings(const Turn *turn) {
    return timings_of(sums_of(turn));
}

json_t *answer_timings_of(const CoordgenGenerateResult *result) {
    Sums sums = { 0 };

    add_sums(&sums, result);
    return timings_of(sums);
}

/* ---- explanations ------------------------------------------------------------------------------------------------ */

static json_t *ms_of(uint64_t us) {
    return json_real((double)us / 1000);
}

static json_t *sources_of(const CoordgenExplanation *explanation) {
    json_t *list = json_array();

    for (size_t i = 0; i < explanation->n_sources; i++) {
        const CoordgenDraftSource *source = explanation->sources[i];

        json_array_append_new(list, json_pack("{so, sb, sI, sI}", "name", json_text(source->name), "is_on",
                                              source->is_on, "drafted_tokens", (json_int_t)source->drafted_tokens,
                                              "accepted_tokens", (json_int_t)source->accepted_tokens));
    }
    return list;
}

static json_t *explanation_of(const CoordgenExplanation *explanation) {
    json_t *lengths = json_array();

    for (size_t i = 0; i < explanation->n_accept_lengths; i++)
        json_array_append_new(lengths, json_integer((json_int_t)explanation->accept_lengths[i]));
    return json_pack("{ss, so, so, sI, sI, sI, sI, sI, so, so, so, sI, so, ss}", "speculation",
                     coordgen_speculation_off_name((int)explanation->off), "sources", sources_of(explanation),
                     "accept_lengths", lengths, "decode_steps", (json_int_t)explanation->decode_steps, "verifications",
                     (json_int_t)explanation->verifications, "valid_rows", (json_int_t)explanation->valid_rows,
                     "wasted_rows", (json_int_t)explanation->wasted_rows, "idle_rows",
                     (json_int_t)explanation->idle_rows, "draft_ms", ms_of(explanation->draft_us), "head_ms",
                     ms_of(explanation->head_us), "steps_ms", ms_of(explanation->steps_us), "model_rows",
                     (json_int_t)explanation->model_rows, "model_ms", ms_of(explanation->model_us), "prompt_learning",
                     coordgen_prompt_learning_name((int)explanation->prompt_learning));
}

void answer_add_explanation(json_t *body, const CoordgenReply *reply) {
    const CoordgenExplanation *explanation = coordgen_reply_explanation(reply);
    const CoordgenGenerateResult *result = coordgen_reply_generate(reply);
    char seed[24];

    if (!explanation || !result)
        return;
    snprintf(seed, sizeof(seed), "%" PRIu64, result->seed); /* a string: readers of doubles would lose bits */
    json_object_set_new(
        body, "coordgen",
        json_pack("{sI, ss, ss, ss, ss, so, so, so, sI, sb, so}", "request_number", (json_int_t)result->request_number,
                  "end_reason", coordgen_end_reason_name((int)result->end_reason), "priority",
                  coordgen_priority_name((int)result->priority), "reuse", coordgen_reuse_name((int)result->reuse),
                  "seed", seed, "queue_ms", ms_of(result->queue_us), "load_ms", ms_of(result->load_us), "total_ms",
                  ms_of(result->total_us), "decode_steps", (json_int_t)result->decode_steps, "ended_in_time",
                  result->ended_in_time, "explanation", explanation_of(explanation)));
}

/* ---- calls and tokens -------------------------------------------------------------------------------------------- */

json_t *answer_calls(const CoordgenToolCall *calls, size_t n) {
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{so, ss, s{so, so}}", "id", json_text(calls[i].id), "type", "function",
                                              "function", "name", json_text(calls[i].name), "arguments",
                                              json_text(calls[i].arguments)));
    return list;
}

json_t *answer_logprob(float logprob) {
    return json_real(isfinite(logprob) ? (double)logprob : -9999.0);
}

static json_t *token_of(const CoordgenLogprob *one) {
    json_t *bytes = json_array();

    /* A token may hold a part of a character, which its text cannot show. */
    for (size_t i = 0; i < one->piece_bytes; i++)
        json_array_append_new(bytes, json_integer((unsigned char)one->piece[i]));
    return json_pack("{sI, so, so, so}", "id", (json_int_t)one->token, "token",
                     json_text_n(one->piece, one->piece_bytes), "bytes", bytes, "logprob",
                     answer_logprob(one->logprob));
}

json_t *answer_token(const CoordgenTokenLogprobs *token) {
    json_t *object = token_of(&token->chosen), *tops = json_array();

    for (size_t i = 0; i < token->n_top; i++)
        json_array_append_new(tops, token_of(&token->top[i]));
    if (object)
        json_object_set_new(object, "top_logprobs", tops);
    else
        json_decref(tops);
    return object;
}
