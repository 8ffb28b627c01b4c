// SPDX-License-Identifier: Apache-2.0
#include "daemon/requests/request_choices.h"

Coordgen__V1__EndReason request_end_reason(GenerationEnd end) {
    switch (end) {
    case GENERATION_END_TOKEN:
        return COORDGEN__V1__END_REASON__END_REASON_END_TOKEN;
    case GENERATION_END_STOP:
        return COORDGEN__V1__END_REASON__END_REASON_STOP_STRING;
    case GENERATION_END_MAX:
        return COORDGEN__V1__END_REASON__END_REASON_MAX_TOKENS;
    case GENERATION_END_CONTEXT:
        return COORDGEN__V1__END_REASON__END_REASON_CONTEXT_FULL;
    case GENERATION_END_CANCELLED:
        return COORDGEN__V1__END_REASON__END_REASON_CANCELLED;
    case GENERATION_END_REPETITION:
        return COORDGEN__V1__END_REASON__END_REASON_REPETITION;
    case GENERATION_END_CALLS:
        return COORDGEN__V1__END_REASON__END_REASON_TOOL_CALLS;
    case GENERATION_END_MEMORY:
        return COORDGEN__V1__END_REASON__END_REASON_NO_MEMORY;
    case GENERATION_END_COMPLEX:
        return COORDGEN__V1__END_REASON__END_REASON_TOO_COMPLEX;
    case GENERATION_END_PROMPT: /* of embeddings, which have no such message */
    case GENERATION_RUNNING:
        break;
    }
    return COORDGEN__V1__END_REASON__END_REASON_UNSPECIFIED;
}

static void fill_end(Coordgen__V1__ChoiceEnd *to, uint32_t choice, uint64_t seed, GenerationEnd end,
                     const GenerationUsage *usage) {
    coordgen__v1__choice_end__init(to);
    to->has_choice = to->has_end_reason = to->has_output_tokens = to->has_seed = true;
    to->choice = choice;
    to->end_reason = request_end_reason(end);
    to->output_tokens = usage->n_output_tokens;
    to->seed = seed + choice;
    to->has_reasoning_tokens = usage->n_reasoning_tokens > 0;
    to->reasoning_tokens = usage->n_reasoning_tokens;
    to->has_tool_calls = usage->n_calls > 0;
    to->tool_calls = usage->n_calls;
    to->has_ended_in_time = usage->ended_in_time;
    to->ended_in_time = usage->ended_in_time;
    to->has_incomplete_bytes = usage->n_incomplete_bytes > 0;
    to->incomplete_bytes = usage->n_incomplete_bytes;
}

void request_fill_choices(const Request *request, GenerationEnd end, ChoiceMessages *messages,
                          Coordgen__V1__GenerateDone *done) {
    const JobChoices *choices = request->job.run.choices;
    const uint64_t seed = request->job.generate.sampling.options.seed;
    const GenerationUsage nothing = { 0 };

    if (!request->message->generate->has_n)
        return;
    done->n_choices = request->job.generate.n;
    done->choices = messages->list;
    for (uint32_t i = 0; i < done->n_choices; i++) {
        const JobChoiceEnd *own = choices ? &choices->ends[i] : NULL;

        /* A request that never began has no answers yet: all were cancelled with it. */
        fill_end(&messages->ends[i], i, seed, own ? own->end : end,
                 own ? &own->usage
                 : i ? &nothing
                     : &request->answer.usage);
        messages->list[i] = &messages->ends[i];
    }
}
