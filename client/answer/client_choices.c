// SPDX-License-Identifier: Apache-2.0
#include "client/answer/client_choices.h"

#include <stdlib.h>
#include <string.h>

ClientAnswer *client_choices_get(ClientChoices *choices, ClientAnswer *first, uint32_t choice) {
    ClientAnswer *more;

    if (!choice)
        return first;
    if (choice <= choices->n_further)
        return &choices->further[choice - 1];
    more = reallocarray(choices->further, choice, sizeof(*more));
    if (!more)
        return NULL;
    memset(more + choices->n_further, 0, (choice - choices->n_further) * sizeof(*more));
    choices->further = more;
    choices->n_further = choice;
    return &more[choice - 1];
}

static void choice_fill(CoordgenChoice *to, const ClientAnswer *answer, const Coordgen__V1__ChoiceEnd *end) {
    *to = (CoordgenChoice){
        .text = answer->text.data ? answer->text.data : "",
        .text_bytes = answer->text.len_bytes,
        .reasoning = answer->reasoning.data ? answer->reasoning.data : "",
        .n_tool_calls = answer->calls.n,
        .end_reason = (CoordgenEndReason)end->end_reason,
        .output_tokens = end->output_tokens,
        .reasoning_tokens = end->reasoning_tokens,
        .incomplete_bytes = end->incomplete_bytes,
        .ended_in_time = end->ended_in_time,
        .seed = end->seed,
    };
}

bool client_choices_list(const ClientChoices *choices, const ClientAnswer *first, const CoordgenToolCall *first_calls,
                         const Coordgen__V1__GenerateDone *done, CoordgenChoice **listp) {
    static const ClientAnswer nothing;
    CoordgenChoice *list = calloc(done->n_choices + 1, sizeof(*list));

    *listp = list;
    for (size_t i = 0; list && i < done->n_choices; i++) {
        const ClientAnswer *answer = !i ? first : i <= choices->n_further ? &choices->further[i - 1] : &nothing;
        bool failed = false;

        choice_fill(&list[i], answer, done->choices[i]);
        list[i].tool_calls = i ? client_answer_calls(answer, &failed) : first_calls;
        if (failed) {
            client_choices_list_free(list, i);
            *listp = NULL;
            return false;
        }
    }
    return list != NULL;
}

void client_choices_list_free(CoordgenChoice *list, size_t n) {
    for (size_t i = 1; list && i < n; i++)
        free((CoordgenToolCall *)(uintptr_t)list[i].tool_calls);
    free(list);
}

void client_choices_deinit(ClientChoices *choices) {
    for (size_t i = 0; i < choices->n_further; i++)
        client_answer_deinit(&choices->further[i]);
    free(choices->further);
    *choices = (ClientChoices){ 0 };
}
