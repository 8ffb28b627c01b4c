// SPDX-License-Identifier: Apache-2.0
#include "daemon/requests/request_state.h"

#include <assert.h>

#include "engine/constraint/engine_vocabulary.h"

#define TO(state) (1u << REQUEST_##state)

/* The states that may follow each state. Every state may end. */
static const unsigned int next_states[_REQUEST_STATE_N] = {
    [REQUEST_NEW] = TO(WAITING) | TO(RUNNING) | TO(LOADING) | TO(ENDED),
    [REQUEST_WAITING] = TO(RUNNING) | TO(ENDED),
    [REQUEST_WAITING_FOR_MEMORY] = TO(RUNNING) | TO(ENDED),
    [REQUEST_LOADING] = TO(ENDED),
    [REQUEST_RUNNING] = TO(PAUSED) | TO(RESTING) | TO(STALLED) | TO(WAITING_FOR_MEMORY) | TO(ENDED),
    [REQUEST_PAUSED] = TO(RUNNING),
    [REQUEST_RESTING] = TO(RUNNING) | TO(RESTING_PAUSED),
    [REQUEST_RESTING_PAUSED] = TO(RESTING),
    [REQUEST_STALLED] = TO(ENDED),
    [REQUEST_ENDED] = 0,
};

bool request_can_run(const Request *request) {
    const RequestConstraint *constraint = &request->input.constraint;

    if (!model_can_serve(request->model))
        return false;
    if (constraint_spec_is_empty(&constraint->spec))
        return true;
    /* A model that was loaded anew has another vocabulary. */
    return constraint->it && constraint_vocabulary(constraint->it) == engine_vocabulary_made(request->model->engine);
}

void request_set_state(Request *request, RequestState state) {
    assert(next_states[request->state] & 1u << state);
    request->state = state;
}
