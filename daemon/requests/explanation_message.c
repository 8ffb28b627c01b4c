// SPDX-License-Identifier: Apache-2.0
#include "base/min_max.h"
#include "daemon/requests/explanation.h"

Coordgen__V1__Priority explanation_priority(Priority priority) {
    return priority > PRIORITY_NORMAL   ? COORDGEN__V1__PRIORITY__PRIORITY_INTERACTIVE
           : priority < PRIORITY_NORMAL ? COORDGEN__V1__PRIORITY__PRIORITY_BACKGROUND
                                        : COORDGEN__V1__PRIORITY__PRIORITY_NORMAL;
}

static Coordgen__V1__SpeculationOff why_off(const Explanation *explanation) {
    if (!explanation->sources)
        return explanation->by_request ? COORDGEN__V1__SPECULATION_OFF__SPECULATION_OFF_REQUEST
                                       : COORDGEN__V1__SPECULATION_OFF__SPECULATION_OFF_SETTING;
    if (explanation->report && !explanation->report->sources)
        return COORDGEN__V1__SPECULATION_OFF__SPECULATION_OFF_NO_SOURCE;
    return COORDGEN__V1__SPECULATION_OFF__SPECULATION_OFF_UNSPECIFIED;
}

/* Tells whether to leave a source out. Most models have no draft model and most answers no grammar, so their absence
 * under `auto` is no news. */
static bool is_beside_the_point(const Explanation *explanation, SpeculationSource source) {
    return (source == SPECULATION_MODEL || source == SPECULATION_GRAMMAR) && explanation->sources == SPECULATION_AUTO &&
           !(explanation->report && explanation->report->sources >> source & 1);
}

static size_t fill_sources(ExplanationMessage *message, const Explanation *explanation, const DraftReport *report) {
    size_t n = 0;

    for (uint32_t i = 0; i < _SPECULATION_N; i++) {
        Coordgen__V1__DraftSource *source = &message->sources[n];

        if (!(explanation->sources >> i & 1) || is_beside_the_point(explanation, (SpeculationSource)i))
            continue;
        coordgen__v1__draft_source__init(source);
        source->name = (char *)speculation_source_name((SpeculationSource)i);
        source->has_is_on = source->has_drafted_tokens = source->has_accepted_tokens = true;
        source->is_on = !explanation->report || report->sources >> i & 1;
        source->accepted_tokens = report->accepted[i]; /* read first: never above drafted_tokens */
        source->drafted_tokens = report->drafted[i];
        message->source_list[n++] = source;
    }
    return n;
}

static Coordgen__V1__PromptLearning prompt_learning(PromptRuleReason reason) {
    switch (reason) {
    case PROMPT_RULE_NO_SOURCE:
        break;
    case PROMPT_RULE_DECLINED:
        return COORDGEN__V1__PROMPT_LEARNING__PROMPT_LEARNING_DECLINED;
    case PROMPT_RULE_PAYS:
        return COORDGEN__V1__PROMPT_LEARNING__PROMPT_LEARNING_PAYS;
    case PROMPT_RULE_LOSES:
        return COORDGEN__V1__PROMPT_LEARNING__PROMPT_LEARNING_LOSES;
    case PROMPT_RULE_TRIAL:
        return COORDGEN__V1__PROMPT_LEARNING__PROMPT_LEARNING_TRIAL;
    }
    return COORDGEN__V1__PROMPT_LEARNING__PROMPT_LEARNING_UNSPECIFIED;
}

static void fill_explanation(ExplanationMessage *message, const Explanation *explanation, bool with_lengths) {
    static const DraftReport nothing_yet;
    const DraftReport *report = explanation->report ? explanation->report : &nothing_yet;
    Coordgen__V1__Explanation *to = &message->explanation;
    /* Each step yields one token from its last correct row, plus one for each accepted draft. */
    const uint64_t n_valid = (uint64_t)explanation->usage.n_steps + explanation->usage.n_accepted_tokens,
                   n_rows = report->n_rows;

    coordgen__v1__explanation__init(to);
    to->has_off = true;
    to->off = why_off(explanation);
    to->n_sources = fill_sources(message, explanation, report);
    to->sources = message->source_list;
    to->accept_lengths = message->lengths;
    for (size_t i = 0; with_lengths && i < DRAFT_ROWS_MAX; i++) {
        message->lengths[i] = report->lengths[i];
        to->verifications += message->lengths[i]; /* the sum of the lengths, consistent also while steps go on */
        if (message->lengths[i])
            to->n_accept_lengths = i + 1;
    }
    to->has_decode_steps = to->has_verifications = to->has_valid_rows = to->has_wasted_rows = to->has_idle_rows = true;
    to->decode_steps = report->n_steps;
    if (!with_lengths)
        to->verifications = report->n_verifications;
    to->valid_rows = MIN(n_valid, n_rows);
    to->wasted_rows = n_rows - to->valid_rows;
    to->idle_rows = report->n_rows_idle;
    to->has_draft_us = to->has_head_us = to->has_steps_us = to->has_prompt_rows = to->has_prompt_head_us = true;
    to->draft_us = report->draft_ns / 1000;
    to->head_us = report->head_ns / 1000;
    to->steps_us = report->step_ns / 1000;
    to->has_model_passes = to->has_model_rows = to->has_model_us = true;
    to->model_passes = report->n_model_passes;
    to->model_rows = report->n_model_rows;
    to->model_us = report->model_ns / 1000;
    to->has_read_bytes = to->has_read_wait_us = true;
    to->read_bytes = explanation->usage.read_bytes;
    to->read_wait_us = explanation->usage.read_wait_ns / 1000;
    to->prompt_rows = report->n_prompt_rows;
    to->prompt_head_us = report->prompt_head_ns / 1000;
    to->has_prompt_learning = to->has_prompt_cost_us = to->has_prompt_gain_us = true;
    to->prompt_learning = prompt_learning(report->prompt.reason);
    to->prompt_cost_us = (uint64_t)(report->prompt.cost_ms * 1000);
    to->prompt_gain_us = (uint64_t)(report->prompt.gain_ms * 1000);
}

void explanation_message(ExplanationMessage *message, const Explanation *explanation, bool with_lengths) {
    const GenerationUsage *usage = &explanation->usage;
    Coordgen__V1__RequestInfo *info = &message->info;

    fill_explanation(message, explanation, with_lengths);
    coordgen__v1__request_info__init(info);
    info->has_number = info->has_uid = info->has_priority = info->has_state = true;
    info->number = explanation->number;
    info->uid = (uint32_t)explanation->uid;
    info->model = (char *)explanation->model;
    info->priority = explanation_priority(explanation->priority);
    info->state = explanation->state;
    info->outcome = (char *)explanation->outcome;
    info->has_queue_position = explanation->queue_position != 0;
    info->queue_position = explanation->queue_position;
    info->has_prompt_tokens = info->has_read_tokens = info->has_output_tokens = true;
    info->prompt_tokens = usage->n_prompt_tokens;
    info->read_tokens = usage->n_cached_tokens + usage->n_prefilled_tokens;
    info->output_tokens = usage->n_output_tokens;
    info->has_age_us = info->has_prefill_us = info->has_decode_us = true;
    info->age_us = explanation->age_us;
    info->prefill_us = usage->prefill_ns / 1000;
    info->decode_us = usage->decode_ns / 1000;
    info->explanation = &message->explanation;
}
