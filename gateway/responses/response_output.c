// SPDX-License-Identifier: Apache-2.0
#include "gateway/responses/response_output.h"

#include <stdio.h>
#include <string.h>

#include "base/strings/json_text.h"
#include "base/strings/str_buf.h"
#include "gateway/answers/answer_json.h"

/* The item that grows. */
typedef struct OpenItem {
    CoordgenPart part; /* 0: no item is open */
    char id[64];
    StrBuf text;      /* text, thinking or arguments */
    json_t *logprobs; /* a message: of its tokens, an array */
    /* a call: */
    char *call_id, *name;
    uint32_t call_index;
} OpenItem;

struct ResponseOutput {
    ResponseEvents *events;
    char key[40];
    json_t *items; /* that have ended */
    OpenItem open;
    json_t *new_logprobs; /* of tokens of a message that no event has told, an array */
    json_t *no_logprobs;  /* an empty array */
    json_t *attached;     /* fields of the next event of a piece; NULL: none */
    bool failed;          /* memory was short */
};

static const struct {
    const char *prefix; /* of ids */
    const char *delta, *done;
} kinds[] = {
    [COORDGEN_PART_TEXT] = { "msg_", "response.output_text.delta", "response.output_text.done" },
    [COORDGEN_PART_REASONING] = { "rs_", "response.reasoning_text.delta", "response.reasoning_text.done" },
    [COORDGEN_PART_CALL] = { "fc_", "response.function_call_arguments.delta", "response.function_call_arguments.done" },
};

ResponseOutput *response_output_new(const char *key, ResponseEvents *events) {
    ResponseOutput *output = calloc(1, sizeof(*output));

    if (!output)
        return NULL;
    output->events = events;
    snprintf(output->key, sizeof(output->key), "%s", key);
    output->items = json_array();
    output->new_logprobs = json_array();
    output->no_logprobs = json_array();
    if (!output->items || !output->new_logprobs || !output->no_logprobs)
        return response_output_free(output);
    return output;
}

static void clear(OpenItem *item) {
    str_buf_deinit(&item->text);
    json_decref(item->logprobs);
    free(item->call_id);
    free(item->name);
    *item = (OpenItem){ 0 };
}

ResponseOutput *response_output_free(ResponseOutput *output) {
    if (!output)
        return NULL;
    clear(&output->open);
    json_decref(output->attached);
    json_decref(output->new_logprobs);
    json_decref(output->no_logprobs);
    json_decref(output->items);
    free(output);
    return NULL;
}

/* ---- the item as JSON -------------------------------------------------------------------------------------------- */

static json_t *text_of(const OpenItem *item) {
    return json_text_n(item->text.data ? item->text.data : "", item->text.len_bytes);
}

/* Makes the part of the content of a message, or of thinking. Releases the text. */
static json_t *part_of(const OpenItem *item, json_t *text, json_t *logprobs) {
    if (item->part == COORDGEN_PART_TEXT)
        return json_pack("{ss, s[], sO, so}", "type", "output_text", "annotations", "logprobs", logprobs, "text", text);
    return json_pack("{ss, so}", "type", "reasoning_text", "text", text);
}

/* Makes the item with a content, or with arguments, which are released. */
static json_t *item_of(const OpenItem *item, const char *status, json_t *value) {
    switch (item->part) {
    case COORDGEN_PART_TEXT:
        return json_pack("{ss, ss, ss, ss, so}", "id", item->id, "type", "message", "status", status, "role",
                         "assistant", "content", value);
    case COORDGEN_PART_REASONING:
        return json_pack("{ss, ss, ss, s[], so}", "id", item->id, "type", "reasoning", "status", status, "summary",
                         "content", value);
    default:
        return json_pack("{ss, ss, ss, so, so, so}", "id", item->id, "type", "function_call", "status", status,
                         "arguments", value, "call_id", json_text(item->call_id), "name", json_text(item->name));
    }
}

static json_t *empty_item_of(const OpenItem *item) {
    return item_of(item, "in_progress", item->part == COORDGEN_PART_CALL ? json_string("") : json_array());
}

static json_t *whole_item_of(const OpenItem *item, const char *status) {
    if (item->part == COORDGEN_PART_CALL)
        return item_of(item, status, text_of(item));
    return item_of(item, status, json_pack("[o]", part_of(item, text_of(item), item->logprobs)));
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static json_int_t index_of(const ResponseOutput *output) {
    return (json_int_t)json_array_size(output->items);
}

static void tell_item(ResponseOutput *output, const char *type, json_t *item) {
    response_events_send(output->events, type, json_pack("{sI, so}", "output_index", index_of(output), "item", item));
}

/* Sends an event about the open item's content or arguments. Releases the fields. */
static void tell_content(ResponseOutput *output, const char *type, json_t *fields) {
    const OpenItem *item = &output->open;
    json_t *event = json_pack("{ss, sI}", "item_id", item->id, "output_index", index_of(output));
    int r = event && fields ? 0 : -1;

    if (!r && item->part != COORDGEN_PART_CALL)
        r = json_object_set_new(event, "content_index", json_integer(0));
    if (r || json_object_update(event, fields)) {
        json_decref(event);
        event = NULL;
    }
    json_decref(fields);
    response_events_send(output->events, type, event);
}

static void tell_begin(ResponseOutput *output) {
    const OpenItem *item = &output->open;

    if (!output->events->send)
        return;
    tell_item(output, "response.output_item.added", empty_item_of(item));
    if (item->part != COORDGEN_PART_CALL)
        tell_content(output, "response.content_part.added",
                     json_pack("{so}", "part", part_of(item, json_string(""), output->no_logprobs)));
}

static void tell_more(ResponseOutput *output, const char *text, size_t len_bytes) {
    const OpenItem *item = &output->open;
    json_t *fields;

    if (!output->events->send)
        return;
    fields = json_pack("{so}", "delta", json_text_n(text, len_bytes));
    if (fields && item->part == COORDGEN_PART_TEXT)
        json_object_set_new(fields, "logprobs", json_copy(output->new_logprobs));
    if (fields && output->attached)
        json_object_update(fields, output->attached);
    json_decref(output->attached);
    output->attached = NULL;
    tell_content(output, kinds[item->part].delta, fields);
}

static void tell_end(ResponseOutput *output, json_t *item_json) {
    const OpenItem *item = &output->open;
    const char *type = kinds[item->part].done;

    if (!output->events->send)
        return;
    if (item->part == COORDGEN_PART_CALL) {
        tell_content(output, type, json_pack("{so, so}", "arguments", text_of(item), "name", json_text(item->name)));
    } else {
        tell_content(output, type,
                     item->part == COORDGEN_PART_TEXT
                         ? json_pack("{so, sO}", "text", text_of(item), "logprobs", item->logprobs)
                         : json_pack("{so}", "text", text_of(item)));
        tell_content(output, "response.content_part.done",
                     json_pack("{so}", "part", part_of(item, text_of(item), item->logprobs)));
    }
    tell_item(output, "response.output_item.done", json_incref(item_json));
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

static void end_item(ResponseOutput *output, const char *status) {
    json_t *item;

    if (!output->open.part)
        return;
    item = whole_item_of(&output->open, status);
    tell_end(output, item);
    if (str_buf_failed(&output->open.text) || json_array_append_new(output->items, item))
        output->failed = true;
    clear(&output->open);
}

/* Begins an item. call: its first piece; NULL: no call. */
static void begin_item(ResponseOutput *output, CoordgenPart part, const CoordgenCallDelta *call) {
    OpenItem *item = &output->open;

    end_item(output, "completed");
    item->part = part;
    snprintf(item->id, sizeof(item->id), "%s%s%02zx", kinds[part].prefix, output->key, json_array_size(output->items));
    item->logprobs = json_array();
    if (call) {
        item->call_id = strdup(call->id ? call->id : "");
        item->name = strdup(call->name ? call->name : "");
        item->call_index = call->index;
    }
    if (!item->logprobs || (call && (!item->call_id || !item->name)))
        output->failed = true;
    /* Tokens whose text did not come are no part of a later message. */
    if (part != COORDGEN_PART_TEXT)
        json_array_clear(output->new_logprobs);
    tell_begin(output);
}

static void add_call(ResponseOutput *output, const CoordgenCallDelta *call) {
    OpenItem *item = &output->open;

    if (item->part != COORDGEN_PART_CALL || item->call_index != call->index)
        begin_item(output, COORDGEN_PART_CALL, call);
    if (!call->arguments_bytes)
        return;
    str_buf_append(&item->text, call->arguments, call->arguments_bytes);
    tell_more(output, call->arguments, call->arguments_bytes);
}

/* Adds text or thinking. A token may come ahead of its text: an item begins with text. */
static void add_text(ResponseOutput *output, CoordgenPart part, const CoordgenEvent *piece) {
    OpenItem *item = &output->open;

    if (part == COORDGEN_PART_TEXT)
        for (size_t i = 0; i < piece->n_logprobs; i++)
            if (json_array_append_new(output->new_logprobs, answer_token(&piece->logprobs[i])))
                output->failed = true;
    if (piece->text_bytes && item->part != part)
        begin_item(output, part, NULL);
    if (!piece->text_bytes && (item->part != part || !json_array_size(output->new_logprobs)))
        return;
    str_buf_append(&item->text, piece->text, piece->text_bytes);
    if (json_array_extend(item->logprobs, output->new_logprobs))
        output->failed = true;
    tell_more(output, piece->text, piece->text_bytes);
    json_array_clear(output->new_logprobs);
}

void response_output_add(ResponseOutput *output, const CoordgenEvent *piece) {
    if (piece->part == COORDGEN_PART_CALL && piece->call)
        add_call(output, piece->call);
    else
        add_text(output, piece->part == COORDGEN_PART_REASONING ? COORDGEN_PART_REASONING : COORDGEN_PART_TEXT, piece);
}

void response_output_attach(ResponseOutput *output, json_t *fields) {
    json_decref(output->attached);
    output->attached = fields;
}

void response_output_end(ResponseOutput *output, bool is_cut) {
    if (!output->open.part)
        begin_item(output, COORDGEN_PART_TEXT, NULL);
    end_item(output, is_cut ? "incomplete" : "completed");
}

json_t *response_output_items(const ResponseOutput *output) {
    return output->failed ? NULL : json_incref(output->items);
}
