// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/requests/request_failure.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/strings/printable.h"
#include "daemon/models/load/model_memory.h"
#include "daemon/net/reply.h"
#include "daemon/requests/request_constraint.h"

void request_fail(Request *request, Coordgen__V1__ErrorCode code, uint32_t retry_after_ms, const char *field,
                  const char *format, ...) {
    char text[768];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (request->peer)
        connection_send_error(request->peer->connection, request->id, code, retry_after_ms, field, "%s", text);
    request_record(request, reply_code_name(code),
                   code == COORDGEN__V1__ERROR_CODE__ERROR_CODE_CANCELLED ? TALLY_CANCELLED : TALLY_FAILED);
    request_end(request);
}

/* Answers a generation whose prompt is too long, with both counts, and ends it. */
static void fail_too_long(Request *request, const JobNews *news, const char *text) {
    Coordgen__V1__Response response;
    Coordgen__V1__Error error;

    if (request->peer) {
        reply_init_error(&response, &error, request->id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_CONTEXT_FULL, 0, "",
                         text);
        error.has_prompt_tokens = error.has_context_tokens = true;
        error.prompt_tokens = news->too_long.n_tokens;
        error.context_tokens = news->too_long.limit_tokens;
        connection_send(request->peer->connection, &response);
    }
    request_record(request, reply_code_name(COORDGEN__V1__ERROR_CODE__ERROR_CODE_CONTEXT_FULL), TALLY_FAILED);
    request_end(request);
}

void request_fail_by_model(Request *request) {
    const Model *model = request->model;

    switch (model->stage) {
    case MODEL_FAILED:
        request_fail(request,
                     model->failure == MODEL_FAILURE_CORRUPT ? COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_CORRUPT
                                                             : COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_NOT_READY,
                     model->failure == MODEL_FAILURE_MEMORY_IN_USE ? admission_retry_ms(&request->table->admission) : 0,
                     "", "model %.*s could not be loaded: %s", UTF8_PREFIX(model->name, 64),
                     model_failure(model, request->peer && request->peer->may_administer));
        return;
    case MODEL_UNLOADING:
    case MODEL_RELOADING:
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_NOT_READY, 0, "",
                     "model %.*s is being unloaded", UTF8_PREFIX(model->name, 64));
        return;
    default:
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_NOT_READY, 0, "",
                     "model %.*s is not loaded: an administrator can load it (coordgenctl model load %.*s)",
                     UTF8_PREFIX(model->name, 64), UTF8_PREFIX(model->name, 64));
    }
}

/* Returns the field that a chat template does not take. */
static const char *template_field(int result) {
    return result == JOB_E_TOOLS       ? "tools"
           : result == JOB_E_DOCUMENTS ? "documents"
           : result == JOB_E_KWARGS    ? "template_kwargs"
                                       : "thinking_tokens";
}

void request_fail_by_result(Request *request, const JobNews *news) {
    const char *field = "", *text = *news->err.text ? news->err.text : "no reason was given";
    const char *op = request_operation_name(request), *remedy = "";
    char path[64], model[96];
    Coordgen__V1__ErrorCode code;
    uint32_t retry_ms = 0;
    ErrText told;

    switch (news->result) {
    case JOB_E_EMPTY:
    case JOB_E_OPTIONS:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT;
        field = op;
        break;
    case JOB_E_ROLE:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT;
        snprintf(path, sizeof(path), "%s.messages", op);
        field = path;
        break;
    case JOB_E_TOOLS:
    case JOB_E_DOCUMENTS:
    case JOB_E_KWARGS:
    case JOB_E_THINKING:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT;
        snprintf(path, sizeof(path), "%s.%s", op, template_field(news->result));
        field = path;
        snprintf(model, sizeof(model), " (model %.*s)", UTF8_PREFIX(request->model->name, 64));
        remedy = model;
        break;
    case JOB_E_ANSWER:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT;
        field = request->job.texts.n ? op : field;
        break;
    case JOB_E_TOKEN:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT;
        field = request->job.texts.n             ? "embed.tokens"
                : request_is_generation(request) ? "generate.prompt_tokens"
                                                 : "detokenize.tokens";
        break;
    case JOB_E_NO_INFILL:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT;
        field = "generate.suffix";
        break;
    case JOB_E_COMPLEX:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_SCHEMA_TOO_COMPLEX;
        field = request_constraint_field(request);
        break;
    case JOB_E_DEAD_END:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_SCHEMA;
        field = request_constraint_field(request);
        break;
    case JOB_E_SHORT:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT;
        field = "generate.max_tokens";
        break;
    case JOB_E_PREFIX:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT;
        field = "generate.answer_prefix";
        break;
    case JOB_E_TOO_LONG:
        if (news->too_long.n_tokens) {
            fail_too_long(request, news, text);
            return;
        }
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_CONTEXT_FULL;
        break;
    case JOB_E_NO_TEMPLATE:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_NO_TEMPLATE;
        break;
    case JOB_E_CANCELLED:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_CANCELLED;
        text = "cancelled";
        break;
    case JOB_E_MODEL: /* the model's file changed after its load */
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_CORRUPT;
        log_error_of(request->user->uid, TOPIC_DAEMON, "request %" PRIu64 ": %s", request->serial, text);
        if (!request->peer || !request->peer->may_administer)
            text = "its file is damaged: the service's log says where"; /* only the log has the path */
        break;
    case JOB_E_MEMORY:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY;
        /* A wait frees no memory if no other request holds any. */
        if (request->table->admission.n_active > (request_is_generation(request) ? 1u : 0u)) {
            retry_ms = admission_retry_ms(&request->table->admission);
            remedy = ": try again later, or with less";
        } else {
            remedy = ", also when nothing else runs: ask for less";
        }
        if (request->peer && request->peer->may_administer) {
            err_set(&told, 0, "%s%s", text, remedy);
            told.limit = news->err.limit;
            model_explain_memory(request->model->registry, &told);
            text = told.text;
            remedy = "";
        }
        break;
    case JOB_E_SHARE:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_QUOTA_EXCEEDED;
        if (user_n_active(request->user) > 1) {
            retry_ms = admission_retry_ms(&request->table->admission);
            remedy = ": try again later, or with less";
        } else {
            remedy = ", also when nothing else of this user runs: ask for less";
        }
        break;
    default:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INTERNAL;
        log_error_of(request->user->uid, TOPIC_DAEMON, "request %" PRIu64 ": %s", request->serial, text);
    }
    request_fail(request, code, retry_ms, field, "%s%s", text, remedy);
}

void request_fail_by_constraint(Request *request, int r, const ErrText *err) {
    const char *field = request_constraint_field(request);
    Coordgen__V1__ErrorCode code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY;
    uint32_t retry_ms = 0;

    switch (r) {
    case CONSTRAINT_SPEC_E_INVALID:
    case CONSTRAINT_SPEC_E_PARAMETERS:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_SCHEMA;
        break;
    case CONSTRAINT_SPEC_E_CHOICE:
        field = "generate.tool_choice";
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT;
        break;
    case CONSTRAINT_SPEC_E_TOOLS:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT;
        break;
    case CONSTRAINT_SPEC_E_TOO_COMPLEX:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_SCHEMA_TOO_COMPLEX;
        break;
    case -ENOMEM:
    case CONSTRAINT_SPEC_E_MEMORY:
        retry_ms = admission_retry_ms(&request->table->admission);
        break;
    default:
        code = COORDGEN__V1__ERROR_CODE__ERROR_CODE_INTERNAL;
    }
    request_fail(request, code, retry_ms, field, "%s: %s", field, *err->text ? err->text : "no reason was given");
}

void request_fail_by_shutdown(Request *request) {
    request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_SHUTTING_DOWN, request->table->config->timeouts.drain_ms,
                 "", "the service is shutting down: the request ends before its time, after %" PRIu32 " tokens",
                 request->answer.usage.n_output_tokens);
}
