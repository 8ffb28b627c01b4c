// SPDX-License-Identifier: Apache-2.0
#include "text/chat/chat_calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/min_max.h"

/* --- finding out -------------------------------------------------------------------------------------------------- */

#define PROBE_TOOLS                                                                                                    \
    "[{\"type\": \"function\", \"function\": {\"name\": \"coordgen_tool\", \"description\": \"d\", \"parameters\": "   \
    "{\"type\": \"object\", \"properties\": {\"" CALL_PROBE_KEY "\": {\"type\": \"string\"}}}}}]"
#define PROBE_ID "coordgen1" /* Mistral's templates want nine letters and digits */
#define PROBE_RESULT "coordgen_result"
#define PROBE_SYSTEM "coordgen_system"

static const ChatToolCall probe_call = { .id = PROBE_ID, .name = CALL_PROBE_NAME, .arguments = CALL_PROBE_ARGUMENTS };
#define PROBE_USER                                                                                                     \
    { .role = CHAT_ROLE_USER, .text = "u", .len_bytes = 1 }
static const ChatMessage probe_messages[] = {
    PROBE_USER,
    { .role = CHAT_ROLE_ASSISTANT, .text = "", .tool_calls = &probe_call, .n_tool_calls = 1 },
    { .role = CHAT_ROLE_TOOL,
      .text = PROBE_RESULT,
      .len_bytes = sizeof(PROBE_RESULT) - 1,
      .tool_call_id = PROBE_ID,
      .name = CALL_PROBE_NAME },
};
static const ChatMessage probe_system[] = {
    { .role = CHAT_ROLE_SYSTEM, .text = PROBE_SYSTEM, .len_bytes = sizeof(PROBE_SYSTEM) - 1 },
    PROBE_USER,
};

typedef struct Prober {
    ChatProbeFn *fn;
    const void *chat;
    int r; /* 0 or a negative errno */
} Prober;

/* Renders messages; false: the template refuses them, and the text is empty. */
static bool render(Prober *prober, const ChatMessage *messages, size_t n, bool has_tools, bool as_text, StrBuf *text) {
    const ChatProbe probe = {
        .messages = messages, .n_messages = n, .tools = has_tools ? PROBE_TOOLS : NULL, .as_text = as_text
    };
    int r;

    str_buf_truncate(text, 0);
    r = prober->fn(prober->chat, &probe, text);
    if (r < 0)
        prober->r = r;
    if (r)
        str_buf_truncate(text, 0);
    return !r && text->data;
}

static bool has(const StrBuf *text, const char *part) {
    return text->len_bytes && strstr(text->data, part);
}

static bool is_same(const StrBuf *a, const StrBuf *b) {
    return a->len_bytes == b->len_bytes && (!a->len_bytes || !memcmp(a->data, b->data, a->len_bytes));
}

/* Renders a call and its result, or the call alone if the template refuses the result or leaves it out. */
static void probe_form(ChatCalls *calls, Prober *prober, bool as_text, StrBuf *text) {
    _cleanup_(str_buf_deinit) StrBuf whole = STR_BUF_NULL;
    const bool is_whole = render(prober, probe_messages, 3, true, as_text, &whole),
               is_call = render(prober, probe_messages, 2, true, as_text, text);

    calls->as_text = as_text;
    calls->drops_results = is_call && (!is_whole || is_same(&whole, text));
    if (!is_call && is_whole) /* a call wants its result */
        str_buf_append(text, whole.data, whole.len_bytes);
}

int chat_calls_probe(ChatCalls *calls, bool reads_tools, ChatProbeFn *fn, const void *chat) {
    Prober prober = { .fn = fn, .chat = chat };
    static const ChatMessage without[] = { PROBE_USER, { .role = CHAT_ROLE_ASSISTANT, .text = "" } };
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL, other = STR_BUF_NULL;
    CallEvidence *evidence = &calls->evidence;

    evidence->takes_tools = reads_tools || calls->tools_in_system;
    if (evidence->takes_tools && !calls->tools_in_system && render(&prober, probe_messages, 1, false, false, &other) &&
        render(&prober, probe_messages, 1, true, false, &text))
        evidence->takes_tools = !is_same(&text, &other);
    if (render(&prober, probe_messages, 1, false, false, &other))
        calls->drops_system = !render(&prober, probe_system, 2, false, false, &text) || is_same(&text, &other);
    /* An object is what transformers gives. The text is for templates that fail with it or write it as Python does. */
    probe_form(calls, &prober, false, &text);
    if (!text.len_bytes || has(&text, "'" CALL_PROBE_KEY "': '")) {
        ChatCalls as_text = *calls;

        probe_form(&as_text, &prober, true, &other);
        if (has(&other, CALL_PROBE_ARGUMENTS)) {
            *calls = as_text;
            str_buf_truncate(&text, 0);
            str_buf_append(&text, other.data, other.len_bytes);
        }
    }
    evidence->written = text.len_bytes ? call_formats_written(text.data) : NULL;
    /* A template that refuses the call has reasons of its own, which it tells. */
    if (text.len_bytes && render(&prober, without, 2, true, false, &other))
        calls->drops_calls = is_same(&text, &other);
    evidence->writes_calls = text.len_bytes && !calls->drops_calls && has(&text, CALL_PROBE_KEY);
    return str_buf_failed(&text) || str_buf_failed(&other) ? err_raise(-ENOMEM) : prober.r;
}

/* --- rewriting ---------------------------------------------------------------------------------------------------- */

bool chat_calls_rewrites(const ChatCalls *calls, const CallShape *shape, const ChatMessage *messages, size_t n,
                         bool offers_tools) {
    if (offers_tools && (shape == call_formats_generic || calls->tools_in_system))
        return true;
    for (size_t i = 0; i < n; i++)
        if ((calls->drops_calls && messages[i].n_tool_calls) ||
            (calls->drops_results && messages[i].role == CHAT_ROLE_TOOL))
            return true;
    return false;
}

/* Appends a call as the model writes it. */
static void put_call(StrBuf *text, const CallShape *shape, const ChatToolCall *call) {
    const char *arguments = call->arguments && *call->arguments ? call->arguments : "{}";

    if (!shape->name_key) {
        str_buf_addf(text, "%s%s%s", call->name, shape->infix, arguments);
        return;
    }
    if (shape->wrapper)
        str_buf_addf(text, "{\"%s\": ", shape->wrapper);
    str_buf_addf(text, "{\"%s\": \"%s\", \"%s\": %s}", shape->name_key, call->name, shape->arguments_key, arguments);
    if (shape->wrapper)
        str_buf_add(text, "}");
}

static void put_calls(StrBuf *text, const CallShape *shape, const ChatMessage *message) {
    for (size_t i = 0; i < message->n_tool_calls; i++) {
        const bool is_first = !i, is_last = i + 1 == message->n_tool_calls;

        if (i || text->len_bytes)
            str_buf_add(text, i ? shape->joint : "\n");
        if (shape->start && (is_first || !shape->is_list))
            str_buf_addf(text, "%s%s%s", shape->start, shape->pad, shape->is_list ? "[" : "");
        put_call(text, shape, &message->tool_calls[i]);
        if (shape->start && (is_last || !shape->is_list))
            str_buf_addf(text, "%s%s%s", shape->is_list ? "]" : "", shape->is_list ? "" : shape->pad,
                         shape->end ? shape->end : "");
    }
}

/* Adds a message with a text of its own. */
static int add_message(ChatRewriting *to, ChatRole role, const StrBuf *text) {
    const ChatMessage from = { .role = role, .text = text->data ? text->data : "", .len_bytes = text->len_bytes };
    int r = str_buf_failed(text) ? err_raise(-ENOMEM) : chat_message_copy(&to->messages[to->n], &from);

    to->n += !r;
    return r;
}

/* Describes the tools, each as its JSON in a line of its own. 0, CALL_E_TOOLS, -ENOMEM. */
static int describe_tools(StrBuf *text, const char *json, size_t len_bytes, ErrText *err) {
    _cleanup_(call_tools_freep) CallTools *tools = NULL;
    const CallChoice choice = { .mode = CALL_MODE_AUTO };
    int r = call_tools_new(&tools, json, len_bytes, &choice, err);

    if (r)
        return r;
    str_buf_add(text, "You can call these tools:\n");
    for (size_t i = 0; i < tools->n; i++) {
        const json_t *entry = json_array_get(tools->json, i), *function = json_object_get(entry, "function");
        char *line = json_dumps(function ? function : entry, 0);

        if (!line)
            return err_raise(-ENOMEM);
        str_buf_addf(text, "%s\n", line);
        free(line);
    }
    str_buf_add(text, "\nTo call a tool, answer with this JSON object and nothing else:\n"
                      "{\"tool_call\": {\"name\": the name of the tool, \"arguments\": an object that fits its "
                      "parameters}}\n"
                      "Several calls follow each other, each in a line of its own. To answer without a call, write "
                      "plain text.");
    return 0;
}

/* Adds the description: to the system message, or to the user's first one if the template drops system messages, or as
 * a message of its own. *tookp: whether the first message was used up. */
static int add_described(const ChatCalls *calls, ChatRewriting *to, const ChatMessage *first, const char *tools,
                         size_t tools_bytes, bool *tookp, ErrText *err) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    const ChatRole role = calls->drops_system ? CHAT_ROLE_USER : CHAT_ROLE_SYSTEM;
    int r;

    *tookp = first->role == role || first->role == CHAT_ROLE_SYSTEM;
    if (*tookp && first->role == CHAT_ROLE_SYSTEM && first->len_bytes) {
        str_buf_append(&text, first->text, first->len_bytes);
        str_buf_add(&text, "\n\n");
    }
    r = describe_tools(&text, tools, tools_bytes, err);
    if (*tookp && first->role == CHAT_ROLE_USER) {
        str_buf_add(&text, "\n\n");
        str_buf_append(&text, first->text, first->len_bytes);
    }
    return r ? r : add_message(to, *tookp ? first->role : role, &text);
}

/* Writes the tools as a list of functions, for the system message. 0, CALL_E_TOOLS, -ENOMEM. */
static int flatten_tools(ChatRewriting *to, const char *json, size_t len_bytes, ErrText *err) {
    json_error_t why;
    json_t *tools = json_loadb(json, len_bytes, 0, &why), *flat = json_array();
    size_t i;
    json_t *entry;

    if (!json_is_array(tools)) {
        json_decref(tools);
        json_decref(flat);
        return err_set(err, CALL_E_TOOLS, "tools: a list of tools is needed");
    }
    json_array_foreach(tools, i, entry)
        json_array_append(flat, json_object_get(entry, "function") ? json_object_get(entry, "function") : entry);
    to->tools = json_dumps(flat, 0);
    json_decref(tools);
    json_decref(flat);
    return to->tools ? 0 : err_raise(-ENOMEM);
}

/* Adds the messages of tools from i on as one message of the user. Returns how many, or a negative errno. */
static ssize_t add_results(ChatRewriting *to, const ChatMessage *messages, size_t n) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    size_t n_results = 0;
    int r;

    for (; n_results < n && messages[n_results].role == CHAT_ROLE_TOOL; n_results++) {
        const ChatMessage *result = &messages[n_results];

        str_buf_addf(&text, "%sThe tool%s%s has answered:\n", n_results ? "\n\n" : "", result->name ? " " : "",
                     result->name ? result->name : "");
        str_buf_append(&text, result->text, result->len_bytes);
    }
    r = add_message(to, CHAT_ROLE_USER, &text);
    return r ? r : (ssize_t)n_results;
}

static int add_caller(ChatRewriting *to, const CallShape *shape, const ChatMessage *from) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    ChatMessage message = *from;
    int r;

    str_buf_append(&text, from->text, from->len_bytes);
    put_calls(&text, shape ? shape : call_formats_generic, from);
    if (str_buf_failed(&text))
        return err_raise(-ENOMEM);
    message.text = text.data;
    message.len_bytes = text.len_bytes;
    message.tool_calls = NULL;
    message.n_tool_calls = 0;
    r = chat_message_copy(&to->messages[to->n], &message);
    to->n += !r;
    return r;
}

int chat_calls_rewrite(const ChatCalls *calls, const CallShape *shape, const ChatMessage *messages, size_t n,
                       const char *tools, size_t tools_bytes, ChatRewriting *to, ErrText *err) {
    bool took = false;
    int r = 0;

    *to = (ChatRewriting){ .messages = calloc(n + 1, sizeof(*to->messages)) };
    if (!to->messages)
        return err_raise(-ENOMEM);
    if (tools && calls->tools_in_system) {
        r = flatten_tools(to, tools, tools_bytes, err);
        if (!r && messages[0].role != CHAT_ROLE_SYSTEM)
            r = add_message(to, CHAT_ROLE_SYSTEM, &STR_BUF_NULL);
    } else if (tools && shape == call_formats_generic) {
        r = add_described(calls, to, &messages[0], tools, tools_bytes, &took, err);
    }
    for (size_t i = took; i < n && !r;) {
        if (calls->drops_results && messages[i].role == CHAT_ROLE_TOOL) {
            ssize_t n_results = add_results(to, &messages[i], n - i);

            r = (int)MIN(n_results, 0);
            i += n_results > 0 ? (size_t)n_results : 0;
            continue;
        }
        if (calls->drops_calls && messages[i].n_tool_calls) {
            r = add_caller(to, shape, &messages[i]);
        } else {
            r = chat_message_copy(&to->messages[to->n], &messages[i]);
            to->n += !r;
        }
        i++;
    }
    return r;
}

void chat_rewriting_deinit(ChatRewriting *rewriting) {
    for (size_t i = 0; i < rewriting->n; i++)
        chat_message_deinit(&rewriting->messages[i]);
    free(rewriting->messages);
    free(rewriting->tools);
    *rewriting = (ChatRewriting){ 0 };
}
