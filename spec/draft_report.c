// SPDX-License-Identifier: Apache-2.0
#include "spec/draft_report.h"

void draft_report_add(DraftReport *to, const DraftReport *from) {
    to->n_steps += from->n_steps;
    to->n_verifications += from->n_verifications;
    to->n_rows += from->n_rows;
    to->n_rows_idle += from->n_rows_idle;
    to->step_ns += from->step_ns;
    to->head_ns += from->head_ns;
    to->sources |= from->sources;
    for (size_t i = 0; i < _SPECULATION_N; i++) {
        to->drafted[i] += from->drafted[i];
        to->accepted[i] += from->accepted[i];
    }
    to->accepted_of_prompt += from->accepted_of_prompt;
    for (size_t i = 0; i < DRAFT_ROWS_MAX; i++)
        to->lengths[i] += from->lengths[i];
    to->draft_ns += from->draft_ns;
    to->n_model_passes += from->n_model_passes;
    to->n_model_rows += from->n_model_rows;
    to->model_ns += from->model_ns;
    to->n_prompt_rows += from->n_prompt_rows;
    to->prompt_head_ns += from->prompt_head_ns;
}
