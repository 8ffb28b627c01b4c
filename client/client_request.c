// SPDX-License-Identifier: Apache-2.0
/* Requests: one function an operation. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/strings/printable.h"
#include "base/system/c_library.h"
#include "client/client_internal.h"
#include "client/sampling/client_sampling.h"

typedef struct MessageRoom {
    Coordgen__V1__Messages list;
    Coordgen__V1__Message *messages;
    Coordgen__V1__Message **pointers;
    Coordgen__V1__ToolCall *calls; /* of all messages */
    Coordgen__V1__ToolCall **call_pointers;
    size_t n_calls;
} MessageRoom;

static void message_room_deinit(MessageRoom *room) {
    free(room->messages);
    free(room->pointers);
    free(room->calls);
    free(room->call_pointers);
}

/* Takes the calls of a message; the room has places for them. */
static void calls_fill(MessageRoom *room, Coordgen__V1__Message *to, const CoordgenMessage *from) {
    to->n_tool_calls = from->n_tool_calls;
    to->tool_calls = from->n_tool_calls ? room->call_pointers + room->n_calls : NULL;
    for (size_t i = 0; i < from->n_tool_calls; i++) {
        Coordgen__V1__ToolCall *call = &room->calls[room->n_calls];

        *call = (Coordgen__V1__ToolCall)COORDGEN__V1__TOOL_CALL__INIT;
        call->id = client_text(from->tool_calls[i].id);
        call->name = client_text(from->tool_calls[i].name);
        call->arguments = client_text(from->tool_calls[i].arguments);
        room->call_pointers[room->n_calls++] = call;
    }
}

/* Makes room for the messages and their calls. 0, or a COORDGEN_E_* that the client has. */
static int messages_room(CoordgenClient *client, MessageRoom *room, const CoordgenMessage *messages, size_t n) {
    size_t n_calls = 0;

    for (size_t i = 0; i < n; i++) {
        if (!messages[i].text && !messages[i].n_tool_calls)
            return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "messages", 0, "the text of message %zu is NULL",
                               i);
        if (messages[i].n_tool_calls && !messages[i].tool_calls)
            return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "messages", 0,
                               "message %zu has %zu calls, which are NULL", i, messages[i].n_tool_calls);
        n_calls += messages[i].n_tool_calls;
    }
    room->messages = calloc(n, sizeof(*room->messages));
    room->pointers = calloc(n, sizeof(*room->pointers));
    room->calls = calloc(n_calls + 1, sizeof(*room->calls));
    room->call_pointers = calloc(n_calls + 1, sizeof(*room->call_pointers));
    if (!room->messages || !room->pointers || !room->calls || !room->call_pointers)
        return client_fail(client, COORDGEN_E_NO_MEMORY, "", 0, "out of memory for %zu messages", n);
    return 0;
}

static int messages_fill(CoordgenClient *client, MessageRoom *room, const CoordgenMessage *messages, size_t n) {
    int r;

    room->list = (Coordgen__V1__Messages)COORDGEN__V1__MESSAGES__INIT;
    if (!n)
        return 0;
    if (!messages)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "messages", 0, "%zu messages are given, which are NULL",
                           n);
    r = messages_room(client, room, messages, n);
    if (r)
        return r;
    for (size_t i = 0; i < n; i++) {
        room->messages[i] = (Coordgen__V1__Message)COORDGEN__V1__MESSAGE__INIT;
        room->messages[i].has_role = true;
        room->messages[i].role = (Coordgen__V1__Role)messages[i].role;
        room->messages[i].text = client_text(messages[i].text);
        room->messages[i].tool_call_id = client_text(messages[i].tool_call_id);
        room->messages[i].name = client_text(messages[i].name);
        room->messages[i].reasoning = client_text(messages[i].reasoning);
        calls_fill(room, &room->messages[i], &messages[i]);
        room->pointers[i] = &room->messages[i];
    }
    room->list.n_message = n;
    room->list.message = room->pointers;
    return 0;
}

/* Sets the input, which is one of three, and what goes with it. */
static int generate_input_fill(CoordgenClient *client, Coordgen__V1__GenerateRequest *generate,
                               Coordgen__V1__TokenIds *tokens, Coordgen__V1__Messages *messages,
                               const CoordgenGenerateOptions *options) {
    if (options->prompt && options->n_messages)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "generate.prompt", 0,
                           "messages and a raw prompt are given: one of them");
    if (options->n_prompt_tokens && (options->prompt || options->n_messages))
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "generate.prompt_tokens", 0,
                           "%s and token ids are given: one of them", options->prompt ? "a raw prompt" : "messages");
    if (options->n_prompt_tokens && !options->prompt_tokens)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "generate.prompt_tokens", 0,
                           "%zu tokens are given, which are NULL", options->n_prompt_tokens);
    if (options->n_prompt_tokens) {
        tokens->n_id = options->n_prompt_tokens;
        tokens->id = (uint32_t *)(uintptr_t)options->prompt_tokens;
        generate->input_case = COORDGEN__V1__GENERATE_REQUEST__INPUT_PROMPT_TOKENS;
        generate->prompt_tokens = tokens;
    } else if (options->prompt) {
        generate->input_case = COORDGEN__V1__GENERATE_REQUEST__INPUT_PROMPT;
        generate->prompt = client_text(options->prompt);
    } else {
        generate->input_case = COORDGEN__V1__GENERATE_REQUEST__INPUT_MESSAGES;
        generate->messages = messages;
    }
    generate->suffix = client_text(options->suffix);
    generate->answer_prefix = client_text(options->answer_prefix);
    generate->has_echo = generate->echo = options->echo;
    generate->has_each_progress = generate->each_progress = options->each_progress;
    generate->has_n = options->n != 0;
    generate->n = options->n;
    return 0;
}

/* Fills in the constraint of the options. Return: the message, NULL: there is none; *rp: 0 or an error. */
static Coordgen__V1__Constraint *constraint_fill(CoordgenClient *client, Coordgen__V1__Constraint *constraint,
                                                 const CoordgenGenerateOptions *options, int *rp) {
    coordgen__v1__constraint__init(constraint);
    *rp = 0;
    if (options->constraint_kind == COORDGEN_CONSTRAINT_NONE) {
        if (options->constraint)
            *rp = client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "generate.constraint", 0,
                              "a constraint is given, but no constraint_kind");
        return NULL;
    }
    if (!options->constraint || options->constraint_kind > COORDGEN_CONSTRAINT_REGEX) {
        *rp = client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "generate.constraint", 0, "constraint_kind is %d: %s",
                          (int)options->constraint_kind,
                          options->constraint ? "none of the CoordgenConstraintKind values"
                                              : "the constraint's text is missing");
        return NULL;
    }
    switch (options->constraint_kind) {
    case COORDGEN_CONSTRAINT_GBNF:
        constraint->form_case = COORDGEN__V1__CONSTRAINT__FORM_GBNF;
        constraint->gbnf = client_text(options->constraint);
        break;
    case COORDGEN_CONSTRAINT_REGEX:
        constraint->form_case = COORDGEN__V1__CONSTRAINT__FORM_REGEX;
        constraint->regex = client_text(options->constraint);
        break;
    default:
        constraint->form_case = COORDGEN__V1__CONSTRAINT__FORM_JSON_SCHEMA;
        constraint->json_schema = client_text(options->constraint);
    }
    constraint->has_compact = options->compact;
    constraint->compact = options->compact;
    constraint->has_any_order = options->any_order;
    constraint->any_order = options->any_order;
    constraint->has_end_in_time = options->no_end_in_time;
    constraint->end_in_time = !options->no_end_in_time;
    return constraint;
}

/* Refuses options that no message can have. */
static int generate_check(CoordgenClient *client, const CoordgenGenerateOptions *options) {
    if (options->repetition < COORDGEN_REPETITION_DEFAULT || options->repetition > COORDGEN_REPETITION_ALLOW)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "generate.end_repetition", 0,
                           "repetition is %d: none of the CoordgenRepetition values", (int)options->repetition);
    if (options->split < COORDGEN_SPLIT_DEFAULT || options->split > COORDGEN_SPLIT_OFF)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "generate.split", 0,
                           "split is %d: none of the CoordgenSplit values", (int)options->split);
    for (size_t i = 0; i < options->n_stops; i++)
        if (!options->stops || !options->stops[i])
            return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "generate.stop", 0, "stop string %zu is NULL", i);
    return 0;
}

/* Sets what the chat template gets beside the messages, and how its answer is divided. */
static void generate_chat_fill(Coordgen__V1__GenerateRequest *generate, Coordgen__V1__ToolChoice *choice,
                               const CoordgenGenerateOptions *options) {
    generate->tools = client_text(options->tools);
    generate->documents = client_text(options->documents);
    if (options->tool_choice != COORDGEN_TOOLS_DEFAULT || options->single_call || options->tool_name) {
        choice->has_mode = options->tool_choice != COORDGEN_TOOLS_DEFAULT;
        choice->mode = (Coordgen__V1__ToolChoiceMode)options->tool_choice;
        choice->name = client_text(options->tool_name);
        choice->has_single = options->single_call;
        choice->single = options->single_call;
        generate->tool_choice = choice;
    }
    generate->has_add_generation_prompt = options->no_generation_prompt;
    generate->add_generation_prompt = !options->no_generation_prompt;
    generate->template_kwargs = client_text(options->template_kwargs);
    generate->has_thinking_tokens = options->thinking_tokens != COORDGEN_UNSET_COUNT;
    generate->thinking_tokens = generate->has_thinking_tokens ? options->thinking_tokens : 0;
    generate->has_split = options->split != COORDGEN_SPLIT_DEFAULT;
    generate->split = options->split == COORDGEN_SPLIT_ON;
}

/* Sets what is said of the request itself: limits, ends, reuse, drafts, priority. */
static void generate_plain_fill(Coordgen__V1__GenerateRequest *generate, const CoordgenGenerateOptions *options) {
    generate->model = client_text(options->model);
    generate->has_logprobs = options->logprobs != COORDGEN_UNSET_COUNT;
    generate->logprobs = options->logprobs;
    generate->has_max_tokens = true;
    generate->max_tokens = options->max_tokens;
    generate->n_stop = options->n_stops;
    generate->stop = (char **)(uintptr_t)options->stops;
    generate->has_want_tokens = options->want_tokens;
    generate->want_tokens = options->want_tokens;
    generate->has_ignore_end = options->ignore_end;
    generate->ignore_end = options->ignore_end;
    generate->has_session = options->session != 0;
    generate->session = options->session;
    generate->has_no_reuse = options->no_reuse;
    generate->no_reuse = options->no_reuse;
    generate->speculation = client_text(options->speculation);
    generate->has_explain = options->explain;
    generate->explain = options->explain;
    generate->has_no_history = options->no_history;
    generate->no_history = options->no_history;
    generate->has_end_repetition = options->repetition != COORDGEN_REPETITION_DEFAULT;
    generate->end_repetition = options->repetition == COORDGEN_REPETITION_END;
    generate->has_priority = options->priority != COORDGEN_PRIORITY_DEFAULT;
    generate->priority = (Coordgen__V1__Priority)options->priority;
}

int coordgen_generate_start(CoordgenClient *client, const CoordgenGenerateOptions *given, CoordgenEventFn *fn,
                            void *arg, uint64_t *request_idp) {
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;
    Coordgen__V1__GenerateRequest generate = COORDGEN__V1__GENERATE_REQUEST__INIT;
    Coordgen__V1__ToolChoice choice = COORDGEN__V1__TOOL_CHOICE__INIT;
    _cleanup_(client_sampling_deinit) ClientSampling sampling = { 0 };
    Coordgen__V1__TokenIds tokens = COORDGEN__V1__TOKEN_IDS__INIT;
    Coordgen__V1__Constraint constraint;
    _cleanup_(message_room_deinit) MessageRoom room = { 0 };
    CoordgenGenerateOptions options;
    int r;

    coordgen_generate_options_init(&options);
    r = client_options_copy(client, &options, sizeof(options), given, offsetof(CoordgenGenerateOptions, priority));
    if (!r)
        r = messages_fill(client, &room, options.messages, options.n_messages);
    if (!r)
        r = client_sampling_fill(client, &sampling, &options);
    if (!r)
        r = generate_input_fill(client, &generate, &tokens, &room.list, &options);
    if (!r)
        r = generate_check(client, &options);
    if (r)
        return r;
    generate.constraint = constraint_fill(client, &constraint, &options, &r);
    if (r)
        return r;
    generate.sampling = &sampling.message;
    generate_plain_fill(&generate, &options);
    generate_chat_fill(&generate, &choice, &options);
    message.op_case = COORDGEN__V1__REQUEST__OP_GENERATE;
    message.generate = &generate;
    return client_start(client, REQUEST_GENERATE, &message, options.timeout_ms, fn, arg, request_idp);
}

int coordgen_session_open_start(CoordgenClient *client, const CoordgenSessionOptions *given, CoordgenEventFn *fn,
                                void *arg, uint64_t *request_idp) {
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;
    Coordgen__V1__SessionOpenRequest open = COORDGEN__V1__SESSION_OPEN_REQUEST__INIT;
    _cleanup_(message_room_deinit) MessageRoom room = { 0 };
    CoordgenSessionOptions options;
    int r;

    coordgen_session_options_init(&options);
    r = client_options_copy(client, &options, sizeof(options), given, sizeof(options));
    if (!r)
        r = messages_fill(client, &room, options.messages, options.n_messages);
    if (r)
        return r;
    if (options.prompt && options.n_messages)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "session_open.prompt", 0,
                           "messages and a raw prompt are given: one of them");
    if (options.prompt) {
        open.input_case = COORDGEN__V1__SESSION_OPEN_REQUEST__INPUT_PROMPT;
        open.prompt = client_text(options.prompt);
    } else if (options.n_messages) {
        open.input_case = COORDGEN__V1__SESSION_OPEN_REQUEST__INPUT_MESSAGES;
        open.messages = &room.list;
    }
    open.model = client_text(options.model);
    message.op_case = COORDGEN__V1__REQUEST__OP_SESSION_OPEN;
    message.session_open = &open;
    return client_start(client, REQUEST_SESSION_OPEN, &message, options.timeout_ms, fn, arg, request_idp);
}

int coordgen_session_fork_start(CoordgenClient *client, uint64_t session, uint32_t n_messages, int timeout_ms,
                                CoordgenEventFn *fn, void *arg, uint64_t *request_idp) {
    Coordgen__V1__SessionForkRequest fork = COORDGEN__V1__SESSION_FORK_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;

    fork.has_session = true;
    fork.session = session;
    fork.has_keep_messages = n_messages != COORDGEN_ALL_MESSAGES;
    fork.keep_messages = fork.has_keep_messages ? n_messages : 0;
    message.op_case = COORDGEN__V1__REQUEST__OP_SESSION_FORK;
    message.session_fork = &fork;
    return client_start(client, REQUEST_SESSION_FORK, &message, timeout_ms, fn, arg, request_idp);
}

int coordgen_session_close_start(CoordgenClient *client, uint64_t session, int timeout_ms, CoordgenEventFn *fn,
                                 void *arg, uint64_t *request_idp) {
    Coordgen__V1__SessionCloseRequest close = COORDGEN__V1__SESSION_CLOSE_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;

    close.has_session = true;
    close.session = session;
    message.op_case = COORDGEN__V1__REQUEST__OP_SESSION_CLOSE;
    message.session_close = &close;
    return client_start(client, REQUEST_SESSION_CLOSE, &message, timeout_ms, fn, arg, request_idp);
}

int coordgen_tokenize_start(CoordgenClient *client, const CoordgenTokenizeOptions *given, CoordgenEventFn *fn,
                            void *arg, uint64_t *request_idp) {
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;
    Coordgen__V1__TokenizeRequest tokenize = COORDGEN__V1__TOKENIZE_REQUEST__INIT;
    _cleanup_(message_room_deinit) MessageRoom room = { 0 };
    CoordgenTokenizeOptions options;
    int r;

    coordgen_tokenize_options_init(&options);
    r = client_options_copy(client, &options, sizeof(options), given, offsetof(CoordgenTokenizeOptions, count_only));
    if (!r)
        r = messages_fill(client, &room, options.messages, options.n_messages);
    if (r)
        return r;
    if (options.text && options.n_messages)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "tokenize.text", 0,
                           "messages and a text are given: one of them");
    if (options.text) {
        tokenize.input_case = COORDGEN__V1__TOKENIZE_REQUEST__INPUT_TEXT;
        tokenize.text = client_text(options.text);
    } else if (options.n_messages) {
        tokenize.input_case = COORDGEN__V1__TOKENIZE_REQUEST__INPUT_MESSAGES;
        tokenize.messages = &room.list;
    }
    tokenize.model = client_text(options.model);
    tokenize.has_add_special = options.add_special;
    tokenize.add_special = options.add_special;
    tokenize.has_parse_special = options.parse_special;
    tokenize.parse_special = options.parse_special;
    tokenize.has_count_only = options.count_only;
    tokenize.count_only = options.count_only;
    tokenize.tools = client_text(options.tools);
    tokenize.documents = client_text(options.documents);
    tokenize.template_kwargs = client_text(options.template_kwargs);
    tokenize.answer_prefix = client_text(options.answer_prefix);
    tokenize.has_thinking_tokens = options.thinking_tokens != COORDGEN_UNSET_COUNT;
    tokenize.thinking_tokens = tokenize.has_thinking_tokens ? options.thinking_tokens : 0;
    tokenize.has_render_only = options.render_only;
    tokenize.render_only = options.render_only;
    tokenize.has_add_generation_prompt = options.no_generation_prompt;
    tokenize.add_generation_prompt = !options.no_generation_prompt;
    message.op_case = COORDGEN__V1__REQUEST__OP_TOKENIZE;
    message.tokenize = &tokenize;
    return client_start(client, REQUEST_TOKENIZE, &message, options.timeout_ms, fn, arg, request_idp);
}

int coordgen_detokenize_start(CoordgenClient *client, const CoordgenDetokenizeOptions *given, CoordgenEventFn *fn,
                              void *arg, uint64_t *request_idp) {
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;
    Coordgen__V1__DetokenizeRequest detokenize = COORDGEN__V1__DETOKENIZE_REQUEST__INIT;
    CoordgenDetokenizeOptions options;
    int r;

    coordgen_detokenize_options_init(&options);
    r = client_options_copy(client, &options, sizeof(options), given, sizeof(options));
    if (r)
        return r;
    if (options.n_tokens && !options.tokens)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "detokenize.tokens", 0,
                           "%zu tokens are given, which are NULL", options.n_tokens);
    detokenize.model = client_text(options.model);
    detokenize.n_tokens = options.n_tokens;
    detokenize.tokens = (uint32_t *)(uintptr_t)options.tokens;
    detokenize.has_with_special = options.with_special;
    detokenize.with_special = options.with_special;
    message.op_case = COORDGEN__V1__REQUEST__OP_DETOKENIZE;
    message.detokenize = &detokenize;
    return client_start(client, REQUEST_DETOKENIZE, &message, options.timeout_ms, fn, arg, request_idp);
}

int coordgen_status_start(CoordgenClient *client, int timeout_ms, CoordgenEventFn *fn, void *arg,
                          uint64_t *request_idp) {
    Coordgen__V1__StatusRequest status = COORDGEN__V1__STATUS_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;

    message.op_case = COORDGEN__V1__REQUEST__OP_STATUS;
    message.status = &status;
    return client_start(client, REQUEST_STATUS, &message, timeout_ms, fn, arg, request_idp);
}

int coordgen_request_list_start(CoordgenClient *client, int timeout_ms, CoordgenEventFn *fn, void *arg,
                                uint64_t *request_idp) {
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;
    Coordgen__V1__RequestListRequest list = COORDGEN__V1__REQUEST_LIST_REQUEST__INIT;

    message.op_case = COORDGEN__V1__REQUEST__OP_REQUEST_LIST;
    message.request_list = &list;
    return client_start(client, REQUEST_LIST, &message, timeout_ms, fn, arg, request_idp);
}

int coordgen_request_cancel_start(CoordgenClient *client, uint64_t number, int timeout_ms, CoordgenEventFn *fn,
                                  void *arg, uint64_t *request_idp) {
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;
    Coordgen__V1__RequestCancelRequest cancel = COORDGEN__V1__REQUEST_CANCEL_REQUEST__INIT;

    cancel.has_number = true;
    cancel.number = number;
    message.op_case = COORDGEN__V1__REQUEST__OP_REQUEST_CANCEL;
    message.request_cancel = &cancel;
    return client_start(client, REQUEST_CANCEL_NUMBER, &message, timeout_ms, fn, arg, request_idp);
}

int coordgen_explain_start(CoordgenClient *client, uint64_t number, int timeout_ms, CoordgenEventFn *fn, void *arg,
                           uint64_t *request_idp) {
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;
    Coordgen__V1__ExplainRequest explain = COORDGEN__V1__EXPLAIN_REQUEST__INIT;

    explain.has_number = true;
    explain.number = number;
    message.op_case = COORDGEN__V1__REQUEST__OP_EXPLAIN;
    message.explain = &explain;
    return client_start(client, REQUEST_EXPLAIN, &message, timeout_ms, fn, arg, request_idp);
}

int coordgen_model_list_start(CoordgenClient *client, int timeout_ms, CoordgenEventFn *fn, void *arg,
                              uint64_t *request_idp) {
    Coordgen__V1__ModelListRequest list = COORDGEN__V1__MODEL_LIST_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;

    message.op_case = COORDGEN__V1__REQUEST__OP_MODEL_LIST;
    message.model_list = &list;
    return client_start(client, REQUEST_MODEL_LIST, &message, timeout_ms, fn, arg, request_idp);
}

int coordgen_model_show_start(CoordgenClient *client, const char *model, int timeout_ms, CoordgenEventFn *fn, void *arg,
                              uint64_t *request_idp) {
    Coordgen__V1__ModelShowRequest show = COORDGEN__V1__MODEL_SHOW_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;

    show.model = client_text(model);
    message.op_case = COORDGEN__V1__REQUEST__OP_MODEL_SHOW;
    message.model_show = &show;
    return client_start(client, REQUEST_MODEL_SHOW, &message, timeout_ms, fn, arg, request_idp);
}

static int load_start(CoordgenClient *client, const char *model, bool on_demand, int timeout_ms, CoordgenEventFn *fn,
                      void *arg, uint64_t *request_idp) {
    Coordgen__V1__ModelLoadRequest load = COORDGEN__V1__MODEL_LOAD_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;

    load.model = client_text(model);
    load.has_on_demand = load.on_demand = on_demand;
    message.op_case = COORDGEN__V1__REQUEST__OP_MODEL_LOAD;
    message.model_load = &load;
    return client_start(client, REQUEST_MODEL_LOAD, &message, timeout_ms, fn, arg, request_idp);
}

int coordgen_model_load_start(CoordgenClient *client, const char *model, int timeout_ms, CoordgenEventFn *fn, void *arg,
                              uint64_t *request_idp) {
    return load_start(client, model, false, timeout_ms, fn, arg, request_idp);
}

int coordgen_model_want_start(CoordgenClient *client, const char *model, int timeout_ms, CoordgenEventFn *fn, void *arg,
                              uint64_t *request_idp) {
    return load_start(client, model ? model : "", true, timeout_ms, fn, arg, request_idp);
}

int coordgen_model_default_start(CoordgenClient *client, const char *model, int timeout_ms, CoordgenEventFn *fn,
                                 void *arg, uint64_t *request_idp) {
    Coordgen__V1__ModelDefaultRequest choice = COORDGEN__V1__MODEL_DEFAULT_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;

    choice.model = client_text(model);
    message.op_case = COORDGEN__V1__REQUEST__OP_MODEL_DEFAULT;
    message.model_default = &choice;
    return client_start(client, REQUEST_MODEL_DEFAULT, &message, timeout_ms, fn, arg, request_idp);
}

/* Opens a model file with the rights of this process; the service may see less of the file system. */
static int open_model(CoordgenClient *client, const char *path, int *fdp) {
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat file;

    if (fd < 0)
        return client_fail(client, errno == EACCES || errno == EPERM ? COORDGEN_E_DENIED : COORDGEN_E_MODEL_NOT_FOUND,
                           "model_load.model", 0, "%.*s: %s", UTF8_PREFIX(path, 512), strerror(errno));
    if (fstat(fd, &file) < 0 || !S_ISREG(file.st_mode))
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "model_load.model", 0, "%.*s: not a regular file",
                           UTF8_PREFIX(path, 512));
    *fdp = steal_fd(&fd);
    return 0;
}

int coordgen_model_load_file_start(CoordgenClient *client, const char *path, int timeout_ms, CoordgenEventFn *fn,
                                   void *arg, uint64_t *request_idp) {
    Coordgen__V1__ModelLoadRequest load = COORDGEN__V1__MODEL_LOAD_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;
    _cleanup_(freep) char *absolute = NULL;
    _cleanup_(freep) char *cwd = NULL;
    _cleanup_(closep) int fd = -1;
    int r;

    if (!client)
        return COORDGEN_E_INVALID_ARGUMENT;
    if (!path)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "model_load.model", 0, "the path is NULL");
    r = open_model(client, path, &fd);
    if (r)
        return r;
    /* The name is that of a symbolic link, which the user knows, not that of its target. */
    if (*path != '/' && (!(cwd = c_library_current_folder()) || asprintf(&absolute, "%s/%s", cwd, path) < 0)) {
        absolute = NULL;
        return client_fail(client, COORDGEN_E_NO_MEMORY, "", 0, "%.*s: cannot find the current folder",
                           UTF8_PREFIX(path, 512));
    }
    load.model = absolute ? absolute : client_text(path);
    load.has_with_file = load.with_file = true;
    message.op_case = COORDGEN__V1__REQUEST__OP_MODEL_LOAD;
    message.model_load = &load;
    return client_start_file(client, REQUEST_MODEL_LOAD, &message, fd, timeout_ms, fn, arg, request_idp);
}

int coordgen_model_unload_start(CoordgenClient *client, const char *model, int timeout_ms, CoordgenEventFn *fn,
                                void *arg, uint64_t *request_idp) {
    Coordgen__V1__ModelUnloadRequest unload = COORDGEN__V1__MODEL_UNLOAD_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;

    unload.model = client_text(model);
    message.op_case = COORDGEN__V1__REQUEST__OP_MODEL_UNLOAD;
    message.model_unload = &unload;
    return client_start(client, REQUEST_MODEL_UNLOAD, &message, timeout_ms, fn, arg, request_idp);
}
