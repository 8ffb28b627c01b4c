// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/gateway/responses/response_checker.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strings/str_buf.h"

typedef enum State {
    START,      /* nothing was told */
    CREATED,    /* response.created */
    IDLE,       /* response.in_progress, or between items */
    ITEM_ADDED, /* an item without its content */
    PART_ADDED, /* an item, or a call, whose text grows */
    TEXT_DONE,  /* the text is whole */
    PART_DONE,
    ENDED,
} State;

typedef struct Checker {
    State state;
    json_t *response_id, *created_at; /* of response.created */
    json_t *item;                     /* as it was added */
    StrBuf text;                      /* of its deltas */
    json_t *logprobs;                 /* of its deltas */
    json_t *output;                   /* items that have ended */
    char fault[256];
} Checker;

static bool fail(Checker *checker, const char *format, ...) {
    va_list args;

    va_start(args, format);
    vsnprintf(checker->fault, sizeof(checker->fault), format, args);
    va_end(args);
    return false;
}

static const char *text_at(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "(none)";
}

static bool is(const json_t *object, const char *name, const char *wanted) {
    return !strcmp(text_at(object, name), wanted);
}

static bool is_int(const json_t *object, const char *name, json_int_t wanted) {
    const json_t *value = json_object_get(object, name);

    return json_is_integer(value) && json_integer_value(value) == wanted;
}

static bool is_type(const Checker *checker, const char *type) {
    return is(checker->item, "type", type);
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

static bool add_item(Checker *checker, const json_t *event) {
    json_t *item = json_object_get(event, "item");
    const char *id = text_at(item, "id");
    const char *const wanted[][2] = { { "message", "msg_" }, { "reasoning", "rs_" }, { "function_call", "fc_" } };
    bool known = false;

    if (checker->state != IDLE)
        return fail(checker, "an item within another one");
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        known |= is(item, "type", wanted[i][0]) && !strncmp(id, wanted[i][1], strlen(wanted[i][1]));
    if (!known || !is(item, "status", "in_progress"))
        return fail(checker, "an item of no known type, id or status");
    if (is(item, "type", "function_call") ? !is(item, "arguments", "") || !json_object_get(item, "call_id")
                                          : json_array_size(json_object_get(item, "content")))
        return fail(checker, "a new item that has content, or a call without an id");
    checker->item = json_incref(item);
    checker->logprobs = json_array();
    checker->state = is(item, "type", "function_call") ? PART_ADDED : ITEM_ADDED;
    return true;
}

/* Checks a part, with the text that it must have. */
static bool check_part(Checker *checker, const json_t *part, const char *text, const json_t *logprobs) {
    const char *type = is_type(checker, "message") ? "output_text" : "reasoning_text";

    if (!is(part, "type", type) || !is(part, "text", text))
        return fail(checker, "a part of another type or text");
    if (is_type(checker, "message") && (!json_is_array(json_object_get(part, "annotations")) ||
                                        !json_equal(json_object_get(part, "logprobs"), logprobs)))
        return fail(checker, "a part without annotations, or with other log probabilities");
    return true;
}

static const char *text_of(const Checker *checker) {
    return checker->text.data ? checker->text.data : "";
}

static bool add_part(Checker *checker, const json_t *event) {
    json_t *none = json_array();
    bool ok;

    if (checker->state != ITEM_ADDED)
        return json_decref(none), fail(checker, "a part outside of a new item");
    ok = check_part(checker, json_object_get(event, "part"), "", none);
    json_decref(none);
    checker->state = PART_ADDED;
    return ok;
}

static bool add_delta(Checker *checker, const json_t *event, const char *type) {
    const json_t *logprobs = json_object_get(event, "logprobs");

    if (checker->state != PART_ADDED || !is_type(checker, type))
        return fail(checker, "a delta of %s outside of one", type);
    if (!json_is_string(json_object_get(event, "delta")))
        return fail(checker, "a delta without text");
    if (is_type(checker, "message") != json_is_array(logprobs))
        return fail(checker, "a delta without log probabilities, or with some");
    str_buf_add(&checker->text, text_at(event, "delta"));
    if (logprobs)
        json_array_extend(checker->logprobs, (json_t *)logprobs);
    return true;
}

static bool end_text(Checker *checker, const json_t *event, const char *type) {
    const bool is_call = !strcmp(type, "function_call");

    if (checker->state != PART_ADDED || !is_type(checker, type))
        return fail(checker, "the end of %s outside of one", type);
    if (!is(event, is_call ? "arguments" : "text", text_of(checker)))
        return fail(checker, "the text is not that of its deltas");
    if (is_type(checker, "message") && !json_equal(json_object_get(event, "logprobs"), checker->logprobs))
        return fail(checker, "the log probabilities are not those of the deltas");
    if (is_call && !is(event, "name", text_at(checker->item, "name")))
        return fail(checker, "another name");
    checker->state = is_call ? PART_DONE : TEXT_DONE;
    return true;
}

static bool end_part(Checker *checker, const json_t *event) {
    if (checker->state != TEXT_DONE)
        return fail(checker, "the end of a part whose text has not ended");
    checker->state = PART_DONE;
    return check_part(checker, json_object_get(event, "part"), text_of(checker), checker->logprobs);
}

static bool end_item(Checker *checker, const json_t *event) {
    json_t *item = json_object_get(event, "item");
    const json_t *content = json_object_get(item, "content");

    if (checker->state != PART_DONE)
        return fail(checker, "the end of an item that has not ended");
    if (!is(item, "id", text_at(checker->item, "id")) || !is(item, "type", text_at(checker->item, "type")))
        return fail(checker, "the end of another item");
    if (!is(item, "status", "completed") && !is(item, "status", "incomplete"))
        return fail(checker, "an item with the status '%s'", text_at(item, "status"));
    if (is_type(checker, "function_call")) {
        if (!is(item, "arguments", text_of(checker)) || !is(item, "call_id", text_at(checker->item, "call_id")) ||
            !is(item, "name", text_at(checker->item, "name")))
            return fail(checker, "a call that has changed");
    } else if (json_array_size(content) != 1 ||
               !check_part(checker, json_array_get(content, 0), text_of(checker), checker->logprobs)) {
        return fail(checker, "an item with another content");
    }
    json_array_append(checker->output, item);
    str_buf_deinit(&checker->text);
    json_decref(checker->logprobs);
    json_decref(checker->item);
    checker->logprobs = checker->item = NULL;
    checker->state = IDLE;
    return true;
}

/* ---- the response ------------------------------------------------------------------------------------------------ */

static bool take_response(Checker *checker, const json_t *event, State before, const char *status, State after) {
    const json_t *response = json_object_get(event, "response");

    if (checker->state != before)
        return fail(checker, "%s at a wrong place", text_at(event, "type"));
    if (!is(response, "object", "response") || !is(response, "status", status))
        return fail(checker, "no response of the status %s", status);
    if (before == START) {
        checker->response_id = json_incref(json_object_get(response, "id"));
        checker->created_at = json_incref(json_object_get(response, "created_at"));
    }
    if (!json_equal(json_object_get(response, "id"), checker->response_id) ||
        !json_equal(json_object_get(response, "created_at"), checker->created_at))
        return fail(checker, "another response");
    if (after == ENDED ? !json_equal(json_object_get(response, "output"), checker->output)
                       : json_array_size(json_object_get(response, "output")))
        return fail(checker, "the output is not what was told");
    if (after == ENDED && strcmp(status, "failed") && !json_is_object(json_object_get(response, "usage")))
        return fail(checker, "no usage");
    checker->state = after;
    return true;
}

/* Checks what events about an item have in common. */
static bool check_place(Checker *checker, const json_t *event) {
    const char *type = text_at(event, "type");

    if (!is_int(event, "output_index", (json_int_t)json_array_size(checker->output)))
        return fail(checker, "%s: a wrong output_index", type);
    if (strstr(type, "output_item."))
        return true;
    if (!checker->item || !is(event, "item_id", text_at(checker->item, "id")))
        return fail(checker, "%s: a wrong item_id", type);
    if (!is_type(checker, "function_call") && !is_int(event, "content_index", 0))
        return fail(checker, "%s: a wrong content_index", type);
    return true;
}

static bool take(Checker *checker, const json_t *event) {
    const char *type = text_at(event, "type");

    if (!strcmp(type, "response.created"))
        return take_response(checker, event, START, "in_progress", CREATED);
    if (!strcmp(type, "response.in_progress"))
        return take_response(checker, event, checker->state == CREATED ? CREATED : IDLE, "in_progress", IDLE);
    if (!strcmp(type, "response.completed"))
        return take_response(checker, event, IDLE, "completed", ENDED);
    if (!strcmp(type, "response.incomplete"))
        return take_response(checker, event, IDLE, "incomplete", ENDED);
    if (!strcmp(type, "response.failed"))
        return take_response(checker, event, IDLE, "failed", ENDED);
    if (!strcmp(type, "error"))
        return checker->state == IDLE && json_is_string(json_object_get(event, "message")) ? true
                                                                                           : fail(checker, "an error");
    if (!check_place(checker, event))
        return false;
    if (!strcmp(type, "response.output_item.added"))
        return add_item(checker, event);
    if (!strcmp(type, "response.content_part.added"))
        return add_part(checker, event);
    if (!strcmp(type, "response.output_text.delta"))
        return add_delta(checker, event, "message");
    if (!strcmp(type, "response.reasoning_text.delta"))
        return add_delta(checker, event, "reasoning");
    if (!strcmp(type, "response.function_call_arguments.delta"))
        return add_delta(checker, event, "function_call");
    if (!strcmp(type, "response.output_text.done"))
        return end_text(checker, event, "message");
    if (!strcmp(type, "response.reasoning_text.done"))
        return end_text(checker, event, "reasoning");
    if (!strcmp(type, "response.function_call_arguments.done"))
        return end_text(checker, event, "function_call");
    if (!strcmp(type, "response.content_part.done"))
        return end_part(checker, event);
    if (!strcmp(type, "response.output_item.done"))
        return end_item(checker, event);
    return fail(checker, "'%s' is no event", type);
}

const char *response_checker_follow(const json_t *events, json_t **outputp) {
    static char fault[sizeof(((Checker *)0)->fault) + 32];
    Checker checker = { .output = json_array() };
    bool ok = true;
    size_t i = 0;

    for (; ok && i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);

        ok = is_int(event, "sequence_number", (json_int_t)i) || fail(&checker, "a wrong sequence_number");
        ok = ok && take(&checker, event);
    }
    if (ok && checker.state != ENDED)
        ok = fail(&checker, "no end");
    snprintf(fault, sizeof(fault), "event %zu: %s", i, checker.fault);
    if (ok && outputp)
        *outputp = json_incref(checker.output);
    str_buf_deinit(&checker.text);
    json_decref(checker.response_id);
    json_decref(checker.created_at);
    json_decref(checker.item);
    json_decref(checker.logprobs);
    json_decref(checker.output);
    return ok ? NULL : fault;
}
