// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "proto/proto_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/proto/good_request.h"

static char text_empty[] = "";

static void test_proto_check_envelope(void **state) {
    Good good;

    good_init(&good);
    expect(&good, 0, "");
    good.request.request_id = 0;
    expect(&good, PROTO_CHECK_E_ENVELOPE, "request_id");
    good_init(&good);
    good.request.has_request_id = false;
    expect(&good, PROTO_CHECK_E_ENVELOPE, "request_id");
    good_init(&good);
    good.request.op_case = COORDGEN__V1__REQUEST__OP__NOT_SET;
    expect(&good, PROTO_CHECK_E_ENVELOPE, "op");
}

static void test_proto_check_speculation_and_explain(void **state) {
    Coordgen__V1__ExplainRequest explain = COORDGEN__V1__EXPLAIN_REQUEST__INIT;
    Coordgen__V1__RequestCancelRequest cancel = COORDGEN__V1__REQUEST_CANCEL_REQUEST__INIT;
    Coordgen__V1__ModelRemoveRequest remove = COORDGEN__V1__MODEL_REMOVE_REQUEST__INIT;
    Coordgen__V1__RequestListRequest list = COORDGEN__V1__REQUEST_LIST_REQUEST__INIT;
    char longest[PROTO_SPECULATION_BYTES_MAX + 2];
    Good good;

    good_init(&good);
    memset(longest, 'x', sizeof(longest));
    longest[PROTO_SPECULATION_BYTES_MAX] = 0;
    good.generate.speculation = longest; /* the service interprets it */
    expect(&good, 0, "");
    longest[PROTO_SPECULATION_BYTES_MAX] = 'x';
    longest[PROTO_SPECULATION_BYTES_MAX + 1] = 0;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.speculation");
    good.request.op_case = COORDGEN__V1__REQUEST__OP_EXPLAIN;
    good.request.explain = &explain;
    expect(&good, PROTO_CHECK_E_VALUE, "explain.number");
    explain.has_number = true;
    expect(&good, PROTO_CHECK_E_VALUE, "explain.number");
    explain.number = 1;
    expect(&good, 0, "");
    good.request.op_case = COORDGEN__V1__REQUEST__OP_REQUEST_CANCEL;
    good.request.request_cancel = &cancel;
    expect(&good, PROTO_CHECK_E_VALUE, "request_cancel.number");
    cancel.has_number = true;
    expect(&good, PROTO_CHECK_E_VALUE, "request_cancel.number");
    cancel.number = 1;
    expect(&good, 0, "");
    good.request.op_case = COORDGEN__V1__REQUEST__OP_MODEL_REMOVE;
    good.request.model_remove = &remove;
    expect(&good, PROTO_CHECK_E_VALUE, "model_remove.model");
    good.request.op_case = COORDGEN__V1__REQUEST__OP_REQUEST_LIST;
    good.request.request_list = &list;
    expect(&good, 0, "");
}

static void test_proto_check_priority(void **state) {
    Good good;

    good_init(&good);
    good.generate.priority = COORDGEN__V1__PRIORITY__PRIORITY_UNSPECIFIED; /* absent: ignored */
    expect(&good, 0, "");
    good.generate.has_priority = true;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.priority");
    for (int priority = 1; priority <= 3; priority++) {
        good.generate.priority = (Coordgen__V1__Priority)priority;
        expect(&good, 0, "");
    }
    good.generate.priority = (Coordgen__V1__Priority)4;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.priority");
}

static void test_proto_check_input(void **state) {
    Good good;

    good_init(&good);
    good.message.text = text_empty; /* an empty message is valid */
    expect(&good, 0, "");
    good.message.text = NULL;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.messages.message[0].text");
    good.message.role = COORDGEN__V1__ROLE__ROLE_UNSPECIFIED;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.messages.message[0].role");
    good.messages.n_message = 0;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.messages");
    good.messages.n_message = PROTO_MESSAGES_MAX + 1;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.messages");
    good_init(&good);
    good.generate.input_case = COORDGEN__V1__GENERATE_REQUEST__INPUT__NOT_SET;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.messages");
    good.generate.input_case = COORDGEN__V1__GENERATE_REQUEST__INPUT_PROMPT;
    good.generate.prompt = text_empty;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.prompt");
}

/* Tools, documents and answers of tools need a chat template. */
static void test_proto_check_tools(void **state) {
    Coordgen__V1__TokenizeRequest tokenize = COORDGEN__V1__TOKENIZE_REQUEST__INIT;
    Good good;

    good_init(&good);
    good.generate.tools = good.generate.documents = (char *)(uintptr_t) "[]";
    good.message.role = COORDGEN__V1__ROLE__ROLE_TOOL;
    expect(&good, 0, "");
    good.generate.input_case = COORDGEN__V1__GENERATE_REQUEST__INPUT_PROMPT;
    good.generate.prompt = (char *)(uintptr_t) "raw";
    expect(&good, PROTO_CHECK_E_VALUE, "generate.tools");
    good.generate.tools = NULL;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.documents");
    good.generate.documents = NULL;
    good.generate.has_add_generation_prompt = true;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.add_generation_prompt");
    good_init(&good);
    good.generate.has_add_generation_prompt = true;
    expect(&good, 0, "");
    good_init(&good);
    good.request.op_case = COORDGEN__V1__REQUEST__OP_TOKENIZE;
    good.request.tokenize = &tokenize;
    tokenize.input_case = COORDGEN__V1__TOKENIZE_REQUEST__INPUT_TEXT;
    tokenize.text = (char *)(uintptr_t) "text";
    expect(&good, 0, "");
    tokenize.documents = (char *)(uintptr_t) "[]";
    expect(&good, PROTO_CHECK_E_VALUE, "tokenize.documents");
    tokenize.documents = NULL;
    tokenize.has_add_generation_prompt = tokenize.add_generation_prompt = true;
    expect(&good, PROTO_CHECK_E_VALUE, "tokenize.add_generation_prompt");
}

/* Suffix, beginning of an answer, echo, ids and n: each with the inputs that it goes with. */
static void test_proto_check_completions(void **state) {
    static uint32_t ids[] = { 1, 2 };
    Coordgen__V1__TokenIds tokens = COORDGEN__V1__TOKEN_IDS__INIT;
    Coordgen__V1__Constraint constraint = COORDGEN__V1__CONSTRAINT__INIT;
    Good good;

    good_init(&good);
    good.generate.answer_prefix = text_x;
    good.generate.has_n = true;
    good.generate.n = PROTO_CHOICES_MAX;
    expect(&good, 0, "");
    good.generate.n = PROTO_CHOICES_MAX + 1;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.n");
    good.generate.n = 0;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.n");
    good.generate.n = 1;
    good.generate.has_session = true;
    good.generate.session = 5;
    expect(&good, 0, "");
    good.generate.n = 2;
    expect(&good, 0, "");
    good.generate.has_n = good.generate.has_session = false;
    good.generate.answer_prefix = text_empty;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.answer_prefix");
    good.generate.answer_prefix = text_x;
    good.generate.has_add_generation_prompt = true;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.answer_prefix");
    good.generate.add_generation_prompt = true;
    expect(&good, 0, "");
    constraint.form_case = COORDGEN__V1__CONSTRAINT__FORM_REGEX;
    constraint.regex = text_x;
    good.generate.constraint = &constraint;
    expect(&good, 0, "");
    good.generate.constraint = NULL;
    good.generate.suffix = text_empty;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.suffix");
    good_init(&good);
    good.generate.echo = true;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.echo");

    good.generate.input_case = COORDGEN__V1__GENERATE_REQUEST__INPUT_PROMPT;
    good.generate.prompt = text_x;
    good.generate.suffix = text_empty;
    expect(&good, 0, "");
    good.generate.has_session = true;
    good.generate.session = 5;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.suffix");
    good.generate.suffix = NULL;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.echo");
    good.generate.has_session = false;
    good.generate.answer_prefix = text_x;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.answer_prefix");
    good.generate.answer_prefix = NULL;

    good.generate.input_case = COORDGEN__V1__GENERATE_REQUEST__INPUT_PROMPT_TOKENS;
    good.generate.prompt_tokens = &tokens;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.prompt_tokens");
    tokens.id = ids;
    tokens.n_id = ARRAY_LEN(ids);
    expect(&good, 0, "");
    good.generate.suffix = text_x;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.suffix");
    good.generate.suffix = NULL;
    good.generate.documents = text_x;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.documents");
    good.generate.documents = NULL;
    good.generate.echo = false;
    good.generate.has_session = true;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.prompt_tokens");
    good.generate.has_session = false;
    tokens.n_id = PROTO_TOKENS_MAX + 1;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.prompt_tokens");
}

/* What may be done with tools, and calls in messages. */
static void test_proto_check_calls(void **state) {
    Coordgen__V1__ToolChoice choice = COORDGEN__V1__TOOL_CHOICE__INIT;
    Coordgen__V1__Constraint constraint = COORDGEN__V1__CONSTRAINT__INIT;
    Coordgen__V1__ToolCall call = COORDGEN__V1__TOOL_CALL__INIT, *calls[PROTO_CALLS_MAX + 1];
    char long_name[PROTO_CALL_ID_BYTES_MAX + 2];
    Good good;

    memset(long_name, 'x', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = 0;
    good_init(&good);
    good.generate.tool_choice = &choice;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.tool_choice");
    good.generate.tools = (char *)(uintptr_t) "[]";
    expect(&good, 0, "");
    choice.mode = (Coordgen__V1__ToolChoiceMode)5;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.tool_choice.mode");
    choice.mode = COORDGEN__V1__TOOL_CHOICE_MODE__TOOL_CHOICE_MODE_NAMED;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.tool_choice.name");
    choice.name = long_name;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.tool_choice.name");
    choice.name = text_x;
    expect(&good, 0, "");
    choice.mode = COORDGEN__V1__TOOL_CHOICE_MODE__TOOL_CHOICE_MODE_AUTO;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.tool_choice.name");
    choice.name = NULL;
    good.generate.ignore_end = true;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.ignore_end");
    good.generate.ignore_end = false;
    constraint.form_case = COORDGEN__V1__CONSTRAINT__FORM_REGEX;
    constraint.regex = text_x;
    good.generate.constraint = &constraint;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.constraint");
    choice.mode = COORDGEN__V1__TOOL_CHOICE_MODE__TOOL_CHOICE_MODE_NONE;
    expect(&good, 0, "");

    good_init(&good);
    for (size_t i = 0; i < ARRAY_LEN(calls); i++)
        calls[i] = &call;
    good.message.tool_calls = calls;
    good.message.n_tool_calls = 1;
    call.name = text_x;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.messages.message[0].tool_calls");
    good.message.role = COORDGEN__V1__ROLE__ROLE_ASSISTANT;
    expect(&good, 0, "");
    good.message.text = NULL;
    expect(&good, 0, "");
    good.message.n_tool_calls = ARRAY_LEN(calls);
    expect(&good, PROTO_CHECK_E_VALUE, "generate.messages.message[0].tool_calls");
    good.message.n_tool_calls = 1;
    call.name = text_empty;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.messages.message[0].tool_calls[0].name");
    call.name = long_name;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.messages.message[0].tool_calls[0].name");
    call.name = text_x;
    call.id = long_name;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.messages.message[0].tool_calls[0].id");
    good.message.n_tool_calls = 0;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.messages.message[0].text");
    good.message.text = text_x;
    good.message.tool_call_id = text_x;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.messages.message[0].tool_call_id");
    good.message.role = COORDGEN__V1__ROLE__ROLE_TOOL;
    expect(&good, 0, "");
    good.message.tool_call_id = long_name;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.messages.message[0].tool_call_id");
    good.message.tool_call_id = NULL;
    good.message.name = long_name;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.messages.message[0].name");
}

/* Thinking and variables of the template need messages; a session of raw prompts keeps answers whole. */
static void test_proto_check_parts(void **state) {
    static char kwargs[PROTO_KWARGS_BYTES_MAX + 2];
    Coordgen__V1__TokenizeRequest tokenize = COORDGEN__V1__TOKENIZE_REQUEST__INIT;
    Good good;

    good_init(&good);
    memset(kwargs, ' ', PROTO_KWARGS_BYTES_MAX);
    good.generate.template_kwargs = kwargs;
    good.generate.has_thinking_tokens = true;
    good.generate.has_split = good.generate.split = true;
    good.message.role = COORDGEN__V1__ROLE__ROLE_ASSISTANT;
    good.message.reasoning = (char *)(uintptr_t) "Hm.";
    expect(&good, 0, "");
    good.generate.has_ignore_end = good.generate.ignore_end = true;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.ignore_end");
    good.generate.ignore_end = false;
    good.generate.has_add_generation_prompt = true;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.add_generation_prompt");
    good.generate.add_generation_prompt = true;
    expect(&good, 0, "");
    good.generate.has_add_generation_prompt = false;
    good.message.role = COORDGEN__V1__ROLE__ROLE_USER;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.messages.message[0].reasoning");
    good.message.reasoning = NULL;
    kwargs[PROTO_KWARGS_BYTES_MAX] = ' ';
    expect(&good, PROTO_CHECK_E_VALUE, "generate.template_kwargs");
    good.generate.input_case = COORDGEN__V1__GENERATE_REQUEST__INPUT_PROMPT;
    good.generate.prompt = (char *)(uintptr_t) "raw";
    good.generate.template_kwargs = (char *)(uintptr_t) "{}";
    expect(&good, PROTO_CHECK_E_VALUE, "generate.template_kwargs");
    good.generate.template_kwargs = NULL;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.thinking_tokens");
    good.generate.has_thinking_tokens = false;
    expect(&good, 0, "");
    good.generate.has_session = true;
    good.generate.session = 1;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.split");
    good.generate.split = false;
    expect(&good, 0, "");
    good_init(&good);
    good.request.op_case = COORDGEN__V1__REQUEST__OP_TOKENIZE;
    good.request.tokenize = &tokenize;
    tokenize.input_case = COORDGEN__V1__TOKENIZE_REQUEST__INPUT_TEXT;
    tokenize.text = (char *)(uintptr_t) "text";
    tokenize.template_kwargs = (char *)(uintptr_t) "{}";
    expect(&good, PROTO_CHECK_E_VALUE, "tokenize.template_kwargs");
    tokenize.has_render_only = tokenize.render_only = true;
    expect(&good, PROTO_CHECK_E_VALUE, "tokenize.render_only");
    tokenize.input_case = COORDGEN__V1__TOKENIZE_REQUEST__INPUT_MESSAGES;
    tokenize.messages = &good.messages;
    expect(&good, 0, "");
    tokenize.has_count_only = tokenize.count_only = true;
    expect(&good, PROTO_CHECK_E_VALUE, "tokenize.render_only");
}

static void test_proto_check_lengths(void **state) {
    static char stop[PROTO_STOP_BYTES_MAX + 2], name[PROTO_MODEL_NAME_BYTES_MAX + 2];
    Good good;

    good_init(&good);
    good.generate.n_stop = PROTO_STOPS_MAX;
    expect(&good, 0, "");
    good.generate.n_stop = PROTO_STOPS_MAX + 1;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.stop");
    good.generate.n_stop = PROTO_STOPS_MAX;
    good.stops[3] = text_empty;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.stop[3]");
    memset(stop, 'x', PROTO_STOP_BYTES_MAX);
    good.stops[3] = stop;
    expect(&good, 0, "");
    stop[PROTO_STOP_BYTES_MAX] = 'x';
    expect(&good, PROTO_CHECK_E_VALUE, "generate.stop[3]");
    good_init(&good);
    memset(name, 'x', PROTO_MODEL_NAME_BYTES_MAX);
    good.generate.model = name;
    expect(&good, 0, "");
    name[PROTO_MODEL_NAME_BYTES_MAX] = 'x';
    expect(&good, PROTO_CHECK_E_VALUE, "generate.model");
}

static void test_proto_check_other_requests(void **state) {
    Coordgen__V1__TokenizeRequest tokenize = COORDGEN__V1__TOKENIZE_REQUEST__INIT;
    Coordgen__V1__DetokenizeRequest detokenize = COORDGEN__V1__DETOKENIZE_REQUEST__INIT;
    Coordgen__V1__CancelRequest cancel = COORDGEN__V1__CANCEL_REQUEST__INIT;
    Coordgen__V1__ModelLoadRequest load = COORDGEN__V1__MODEL_LOAD_REQUEST__INIT;
    Good good;

    good_init(&good);
    good.request.op_case = COORDGEN__V1__REQUEST__OP_TOKENIZE;
    good.request.tokenize = &tokenize;
    expect(&good, PROTO_CHECK_E_VALUE, "tokenize.text");
    tokenize.input_case = COORDGEN__V1__TOKENIZE_REQUEST__INPUT_MESSAGES;
    tokenize.messages = &good.messages;
    expect(&good, 0, "");
    tokenize.has_parse_special = true;
    expect(&good, PROTO_CHECK_E_VALUE, "tokenize.parse_special");
    good.request.op_case = COORDGEN__V1__REQUEST__OP_DETOKENIZE;
    good.request.detokenize = &detokenize;
    expect(&good, 0, ""); /* no tokens: no text */
    detokenize.n_tokens = PROTO_TOKENS_MAX + 1;
    expect(&good, PROTO_CHECK_E_VALUE, "detokenize.tokens");
    good.request.op_case = COORDGEN__V1__REQUEST__OP_CANCEL;
    good.request.cancel = &cancel;
    expect(&good, PROTO_CHECK_E_VALUE, "cancel.target_request_id");
    good.request.op_case = COORDGEN__V1__REQUEST__OP_MODEL_LOAD;
    good.request.model_load = &load;
    expect(&good, PROTO_CHECK_E_VALUE, "model_load.model");
    load.has_with_file = load.with_file = true;
    load.model = (char *)"name";
    expect(&good, PROTO_CHECK_E_VALUE, "model_load.with_file");
}

static void test_proto_check_pairs(void **state) {
    static char name[PROTO_MODEL_NAME_BYTES_MAX + 2];
    Coordgen__V1__ModelPairRequest pair = COORDGEN__V1__MODEL_PAIR_REQUEST__INIT;
    Coordgen__V1__ModelPairListRequest list = COORDGEN__V1__MODEL_PAIR_LIST_REQUEST__INIT;
    Good good;

    good_init(&good);
    good.request.op_case = COORDGEN__V1__REQUEST__OP_MODEL_PAIR;
    good.request.model_pair = &pair;
    expect(&good, PROTO_CHECK_E_VALUE, "model_pair.target");
    pair.target = (char *)"";
    expect(&good, PROTO_CHECK_E_VALUE, "model_pair.target");
    pair.target = (char *)"big";
    expect(&good, PROTO_CHECK_E_VALUE, "model_pair.draft");
    pair.draft = (char *)""; /* no longer any */
    expect(&good, 0, "");
    memset(name, 'x', PROTO_MODEL_NAME_BYTES_MAX);
    pair.draft = name;
    expect(&good, 0, "");
    pair.target = name;
    expect(&good, 0, "");
    name[PROTO_MODEL_NAME_BYTES_MAX] = 'x';
    expect(&good, PROTO_CHECK_E_VALUE, "model_pair.target");
    pair.target = (char *)"big";
    expect(&good, PROTO_CHECK_E_VALUE, "model_pair.draft");
    good.request.op_case = COORDGEN__V1__REQUEST__OP_MODEL_PAIR_LIST;
    good.request.model_pair_list = &list;
    expect(&good, 0, "");
}

static void test_proto_check_default(void **state) {
    Coordgen__V1__ModelDefaultRequest choice = COORDGEN__V1__MODEL_DEFAULT_REQUEST__INIT;
    Coordgen__V1__ModelLoadRequest load = COORDGEN__V1__MODEL_LOAD_REQUEST__INIT;
    char name[PROTO_MODEL_NAME_BYTES_MAX + 2] = "";
    Good good;

    good_init(&good);
    good.request.op_case = COORDGEN__V1__REQUEST__OP_MODEL_DEFAULT;
    good.request.model_default = &choice;
    expect(&good, 0, ""); /* a query */
    choice.model = (char *)"";
    expect(&good, PROTO_CHECK_E_VALUE, "model_default.model");
    memset(name, 'x', PROTO_MODEL_NAME_BYTES_MAX);
    choice.model = name;
    expect(&good, 0, "");
    name[PROTO_MODEL_NAME_BYTES_MAX] = 'x';
    expect(&good, PROTO_CHECK_E_VALUE, "model_default.model");

    good.request.op_case = COORDGEN__V1__REQUEST__OP_MODEL_LOAD;
    good.request.model_load = &load;
    expect(&good, PROTO_CHECK_E_VALUE, "model_load.model");
    load.has_on_demand = load.on_demand = true;
    expect(&good, 0, ""); /* the default model */
    load.model = (char *)"/a/b.cgm";
    expect(&good, PROTO_CHECK_E_VALUE, "model_load.model");
    load.model = (char *)"b";
    expect(&good, 0, "");
    load.has_with_file = load.with_file = true;
    expect(&good, PROTO_CHECK_E_VALUE, "model_load.with_file");
}

static void test_proto_check_sessions(void **state) {
    Coordgen__V1__SessionOpenRequest open = COORDGEN__V1__SESSION_OPEN_REQUEST__INIT;
    Coordgen__V1__SessionForkRequest fork = COORDGEN__V1__SESSION_FORK_REQUEST__INIT;
    Coordgen__V1__SessionCloseRequest close = COORDGEN__V1__SESSION_CLOSE_REQUEST__INIT;
    Coordgen__V1__Messages none = COORDGEN__V1__MESSAGES__INIT;
    Good good;

    good_init(&good);
    good.request.generate->has_session = true;
    expect(&good, PROTO_CHECK_E_VALUE, "generate.session");
    good.request.generate->session = 1;
    expect(&good, 0, "");
    good.request.op_case = COORDGEN__V1__REQUEST__OP_SESSION_OPEN;
    good.request.session_open = &open;
    expect(&good, 0, ""); /* an empty session */
    open.input_case = COORDGEN__V1__SESSION_OPEN_REQUEST__INPUT_MESSAGES;
    open.messages = &none;
    expect(&good, PROTO_CHECK_E_VALUE, "session_open.messages");
    open.messages = &good.messages;
    expect(&good, 0, "");
    open.input_case = COORDGEN__V1__SESSION_OPEN_REQUEST__INPUT_PROMPT;
    open.prompt = (char *)"";
    expect(&good, PROTO_CHECK_E_VALUE, "session_open.prompt");
    open.prompt = (char *)"x";
    expect(&good, 0, "");
    good.request.op_case = COORDGEN__V1__REQUEST__OP_SESSION_FORK;
    good.request.session_fork = &fork;
    expect(&good, PROTO_CHECK_E_VALUE, "session_fork.session");
    fork.has_session = true;
    expect(&good, PROTO_CHECK_E_VALUE, "session_fork.session");
    fork.session = 1;
    fork.has_keep_messages = true; /* the service knows how many there are */
    expect(&good, 0, "");
    good.request.op_case = COORDGEN__V1__REQUEST__OP_SESSION_CLOSE;
    good.request.session_close = &close;
    expect(&good, PROTO_CHECK_E_VALUE, "session_close.session");
    close.has_session = true;
    close.session = UINT64_MAX;
    expect(&good, 0, "");
}

static void test_proto_check_hello_and_version(void **state) {
    static char name[PROTO_CLIENT_NAME_BYTES_MAX + 2];
    Coordgen__V1__HelloRequest hello = COORDGEN__V1__HELLO_REQUEST__INIT;
    uint32_t version = 99;
    ErrText err = { 0 };
    Good good;

    good_init(&good);
    good.request.op_case = COORDGEN__V1__REQUEST__OP_HELLO;
    good.request.hello = &hello;
    expect(&good, PROTO_CHECK_E_VALUE, "hello.version_min");
    hello.has_version_min = hello.has_version_max = true;
    hello.version_min = 3;
    hello.version_max = 2;
    expect(&good, PROTO_CHECK_E_VALUE, "hello.version_max");
    hello.version_max = UINT32_MAX;
    expect(&good, 0, "");
    assert_int_equal(proto_version_choose(&hello, &version, &err), PROTO_CHECK_E_VALUE);
    assert_int_equal(version, 99);
    assert_non_null(strstr(err.text, "3..4294967295"));
    hello.version_min = 1;
    assert_int_equal(proto_version_choose(&hello, &version, &err), 0);
    assert_int_equal(version, PROTO_VERSION_MAX);
    memset(name, 'x', PROTO_CLIENT_NAME_BYTES_MAX + 1);
    hello.client_name = name;
    expect(&good, PROTO_CHECK_E_VALUE, "hello.client_name");
}

static void test_proto_check_tokenize(void **state) {
    Coordgen__V1__TokenizeRequest tokenize = COORDGEN__V1__TOKENIZE_REQUEST__INIT;
    Good good;

    good_init(&good);
    good.request.op_case = COORDGEN__V1__REQUEST__OP_TOKENIZE;
    good.request.tokenize = &tokenize;
    tokenize.input_case = COORDGEN__V1__TOKENIZE_REQUEST__INPUT_TEXT;
    tokenize.text = text_x;
    tokenize.answer_prefix = text_x;
    expect(&good, PROTO_CHECK_E_VALUE, "tokenize.answer_prefix");
    tokenize.answer_prefix = NULL;
    tokenize.has_thinking_tokens = true;
    expect(&good, PROTO_CHECK_E_VALUE, "tokenize.thinking_tokens");
    tokenize.input_case = COORDGEN__V1__TOKENIZE_REQUEST__INPUT_MESSAGES;
    tokenize.messages = &good.messages;
    expect(&good, 0, "");
    tokenize.has_add_generation_prompt = true;
    expect(&good, PROTO_CHECK_E_VALUE, "tokenize.add_generation_prompt");
    tokenize.add_generation_prompt = true;
    expect(&good, 0, "");
    tokenize.answer_prefix = text_empty;
    expect(&good, PROTO_CHECK_E_VALUE, "tokenize.answer_prefix");
    tokenize.answer_prefix = text_x;
    expect(&good, 0, "");
    tokenize.add_generation_prompt = tokenize.has_thinking_tokens = false;
    expect(&good, PROTO_CHECK_E_VALUE, "tokenize.add_generation_prompt");
}

static void test_proto_check_embed(void **state) {
    char *texts[] = { text_x, text_empty };
    Coordgen__V1__TokenIds ids = COORDGEN__V1__TOKEN_IDS__INIT, *lists[] = { &ids };
    Coordgen__V1__EmbedRequest embed = COORDGEN__V1__EMBED_REQUEST__INIT;
    Good good;

    good_init(&good);
    good.request.op_case = COORDGEN__V1__REQUEST__OP_EMBED;
    good.request.embed = &embed;
    expect(&good, PROTO_CHECK_E_VALUE, "embed.text");
    embed.text = texts;
    embed.n_text = 1;
    expect(&good, 0, "");
    embed.has_pooling = true;
    embed.pooling = COORDGEN__V1__POOLING__POOLING_CLS;
    expect(&good, 0, "");
    embed.pooling = (Coordgen__V1__Pooling)4;
    expect(&good, PROTO_CHECK_E_VALUE, "embed.pooling");
    embed.has_pooling = false;
    embed.has_priority = true;
    embed.priority = (Coordgen__V1__Priority)4;
    expect(&good, PROTO_CHECK_E_VALUE, "embed.priority");
    embed.has_priority = false;
    embed.n_text = PROTO_TEXTS_MAX + 1;
    expect(&good, PROTO_CHECK_E_VALUE, "embed.text");
    embed.n_text = 2;
    expect(&good, PROTO_CHECK_E_VALUE, "embed.text[1]");
    embed.n_text = 1;
    embed.n_tokens = 1;
    embed.tokens = lists;
    expect(&good, PROTO_CHECK_E_VALUE, "embed.tokens");
    embed.n_text = 0;
    expect(&good, PROTO_CHECK_E_VALUE, "embed.tokens[0]");
    ids.n_id = PROTO_TOKENS_MAX;
    expect(&good, 0, "");
    ids.n_id++;
    expect(&good, PROTO_CHECK_E_VALUE, "embed.tokens[0]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proto_check_embed),          cmocka_unit_test(test_proto_check_tokenize),
        cmocka_unit_test(test_proto_check_envelope),       cmocka_unit_test(test_proto_check_speculation_and_explain),
        cmocka_unit_test(test_proto_check_priority),       cmocka_unit_test(test_proto_check_default),
        cmocka_unit_test(test_proto_check_sessions),       cmocka_unit_test(test_proto_check_pairs),
        cmocka_unit_test(test_proto_check_input),          cmocka_unit_test(test_proto_check_tools),
        cmocka_unit_test(test_proto_check_calls),          cmocka_unit_test(test_proto_check_parts),
        cmocka_unit_test(test_proto_check_lengths),        cmocka_unit_test(test_proto_check_completions),
        cmocka_unit_test(test_proto_check_other_requests), cmocka_unit_test(test_proto_check_hello_and_version),
    };

    return cmocka_run_group_tests_name("proto_check", tests, NULL, NULL);
}
