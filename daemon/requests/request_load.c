// SPDX-License-Identifier: Apache-2.0
#include "daemon/requests/request_load.h"

#include "base/clock.h"
#include "daemon/models/model_message.h"
#include "daemon/net/reply.h"
#include "daemon/requests/request_failure.h"

static void send_load_progress(Request *request) {
    Coordgen__V1__Response response;
    Coordgen__V1__ModelLoadProgress progress = COORDGEN__V1__MODEL_LOAD_PROGRESS__INIT;
    const Model *model = request->model;
    uint32_t permille = model->load.permille;
    uint32_t stage = (uint32_t)model->stage;
    uint64_t now_ns = clock_now_ns();

    if (request->peer->connection->output.is_choked ||
        (request->progress.told_ns && request->progress.position == stage &&
         (request->progress.prefilled == permille ||
          now_ns - request->progress.told_ns < REQUEST_PROGRESS_INTERVAL_NS)))
        return;
    request->progress.told_ns = now_ns;
    request->progress.position = stage;
    request->progress.prefilled = permille;
    reply_init(&response, request->id);
    progress.has_state = progress.has_permille = true;
    progress.state = model->stage == MODEL_IMPORTING ? COORDGEN__V1__MODEL_STATE__MODEL_STATE_IMPORTING
                                                     : COORDGEN__V1__MODEL_STATE__MODEL_STATE_LOADING;
    progress.permille = permille;
    response.op_case = COORDGEN__V1__RESPONSE__OP_MODEL_LOAD_PROGRESS;
    response.model_load_progress = &progress;
    connection_send(request->peer->connection, &response);
}

static void finish_load(Request *request) {
    Coordgen__V1__Response response;
    Coordgen__V1__ModelLoadReply reply = COORDGEN__V1__MODEL_LOAD_REPLY__INIT;
    ModelMessage model;

    reply_init(&response, request->id);
    model_describe(&model, request->model, request->peer->may_administer);
    reply.model = &model.model;
    response.op_case = COORDGEN__V1__RESPONSE__OP_MODEL_LOAD;
    response.model_load = &reply;
    connection_send(request->peer->connection, &response);
    request_record(request, "done", TALLY_DONE);
    request_end(request);
}

static void finish_unload(Request *request) {
    Coordgen__V1__Response response;
    Coordgen__V1__ModelUnloadReply reply = COORDGEN__V1__MODEL_UNLOAD_REPLY__INIT;

    reply_init(&response, request->id);
    response.op_case = COORDGEN__V1__RESPONSE__OP_MODEL_UNLOAD;
    response.model_unload = &reply;
    connection_send(request->peer->connection, &response);
    request_record(request, "done", TALLY_DONE);
    request_end(request);
}

void request_load_wait(Request *request) {
    assert_on_loop(request->table->loop);
    request->job.kind = request->message->op_case == COORDGEN__V1__REQUEST__OP_MODEL_LOAD ? JOB_LOAD : JOB_UNLOAD;
    request_set_state(request, REQUEST_LOADING);
    TAILQ_INSERT_TAIL(&request->table->loads, request, queue_link);
    request->table->n_loads++;
    request->table->models_changed = true;
    loop_pump(request->table->loop);
}

static void on_model_change(Request *request) {
    assert_on_loop(request->table->loop);
    if (request->job.kind == JOB_UNLOAD) {
        if (!model_is_unloading(request->model))
            finish_unload(request);
    } else if (model_will_come(request->model)) {
        send_load_progress(request);
    } else if (request->model->stage == MODEL_READY) {
        finish_load(request);
    } else {
        request_fail_by_model(request);
    }
}

void request_load_settle(RequestTable *table) {
    Request *request = table->models_changed ? TAILQ_FIRST(&table->loads) : NULL, *next;

    table->models_changed = false;
    for (; request; request = next) {
        next = TAILQ_NEXT(request, queue_link);
        on_model_change(request);
    }
}
