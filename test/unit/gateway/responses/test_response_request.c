// SPDX-License-Identifier: Apache-2.0
/* The body of a response: each field into options for the service, what is repeated, and each refusal by its name. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/responses/response_request.h"

/* Makes a body of members, JSON with ' for ". */
static json_t *body_of(const char *members) {
    char text[4096];
    json_error_t at;
    json_t *body;

    snprintf(text, sizeof(text), "{%s}", members);
    for (char *c = text; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    body = json_loads(text, JSON_REJECT_DUPLICATES, &at);
    if (!body)
        fail_msg("%s: %s", text, at.text);
    return body;
}

static ResponseRequest *request_of(const char *members) {
    ResponseRequest *request = NULL;
    ApiError error;

    if (response_request_new(&request, body_of(members), &error))
        fail_msg("%s: %s", members, error.message);
    return request;
}

static void drop(ResponseRequest *request) {
    generation_request_free(&request->generation);
}

/* part: of the message. */
static void refused(const char *members, const char *param, const char *part) {
    ResponseRequest *request = NULL;
    ApiError error;

    if (!response_request_new(&request, body_of(members), &error))
        fail_msg("not refused: %s", members);
    assert_null(request);
    assert_int_equal(error.status, 400);
    assert_string_equal(error.param, param);
    if (!strstr(error.message, part))
        fail_msg("'%s' is not in: %s", part, error.message);
}

static void test_response_request_options(void **state) {
    ResponseRequest *request = request_of("'input':'Hi','instructions':'Be brief.','model':'m','max_output_tokens':7,"
                                          "'temperature':0.5,'top_p':0.25,'stream':true,'seed':3,'top_k':5,"
                                          "'priority':'background','parallel_tool_calls':false,"
                                          "'include':['message.output_text.logprobs','reasoning.encrypted_content'],"
                                          "'top_logprobs':2,'user':'u','store':false,'background':false,"
                                          "'truncation':'disabled','max_tool_calls':3,'service_tier':'auto',"
                                          "'metadata':{'a':'b'},'conversation':null,'safety_identifier':'s',"
                                          "'prompt_cache_key':'k','stream_options':{'include_obfuscation':false}");
    const CoordgenGenerateOptions *options = &request->generation.options;

    assert_int_equal(options->n_messages, 2);
    assert_int_equal(options->messages[0].role, COORDGEN_ROLE_SYSTEM);
    assert_string_equal(options->messages[0].text, "Be brief.");
    assert_int_equal(options->messages[1].role, COORDGEN_ROLE_USER);
    assert_string_equal(options->messages[1].text, "Hi");
    assert_string_equal(options->model, "m");
    assert_int_equal(options->max_tokens, 7);
    assert_float_equal(options->temperature, 0.5, 0);
    assert_float_equal(options->top_p, 0.25, 0);
    assert_true(request->generation.wishes.is_stream);
    assert_true(options->has_seed);
    assert_int_equal(options->seed, 3);
    assert_int_equal(options->top_k, 5);
    assert_int_equal(options->priority, COORDGEN_PRIORITY_BACKGROUND);
    assert_int_equal(options->logprobs, 2);
    assert_false(options->single_call); /* there are no tools */
    assert_null(options->answer_prefix);
    drop(request);
}

/* Options that are left out stay the service's; fields may come in any order. */
static void test_response_request_defaults(void **state) {
    ResponseRequest *request =
        request_of("'input':[{'role':'assistant','content':'A'}],'tools':[],'tool_choice':'auto',"
                   "'text':{'format':{'type':'text'},'verbosity':'medium'},"
                   "'reasoning':{'effort':'medium','summary':'auto'},'top_logprobs':0,"
                   "'instructions':'I'");
    const CoordgenGenerateOptions *options = &request->generation.options;

    assert_int_equal(options->n_messages, 2);
    assert_string_equal(options->messages[0].text, "I");
    assert_null(options->answer_prefix); /* a response begins a new answer */
    assert_null(options->tools);
    assert_int_equal(options->tool_choice, COORDGEN_TOOLS_DEFAULT);
    assert_int_equal(options->constraint_kind, COORDGEN_CONSTRAINT_NONE);
    assert_int_equal(options->max_tokens, 0);
    assert_int_equal(options->logprobs, COORDGEN_UNSET_COUNT);
    assert_int_equal(options->thinking_tokens, COORDGEN_UNSET_COUNT);
    assert_null(options->template_kwargs);
    assert_false(request->generation.wishes.is_stream);
    drop(request);
}

static void test_response_request_logprobs(void **state) {
    ResponseRequest *request = request_of("'input':'Hi','include':['message.output_text.logprobs']");

    assert_int_equal(request->generation.options.logprobs, 0);
    drop(request);
    refused("'input':'Hi','top_logprobs':2", "top_logprobs", "include");
    refused("'input':'Hi','top_logprobs':21", "top_logprobs", "20");
    refused("'input':'Hi','include':['file_search_call.results']", "include[0]", "not supported");
    refused("'input':'Hi','include':[1]", "include[0]", "string");
    refused("'input':'Hi','include':'x'", "include", "array");
}

static void test_response_request_formats(void **state) {
    ResponseRequest *request =
        request_of("'input':'Hi','text':{'format':{'type':'json_schema','name':'n','description':'d','strict':true,"
                   "'schema':{'type':'object','properties':{}}}}");

    assert_int_equal(request->generation.options.constraint_kind, COORDGEN_CONSTRAINT_JSON_SCHEMA);
    assert_string_equal(request->generation.options.constraint, "{\"type\":\"object\",\"properties\":{}}");
    assert_string_equal(request->generation.names.constraint, "text.format.schema");
    drop(request);
    request = request_of("'input':'Hi','text':{'format':{'type':'json_object'}}");
    assert_int_equal(request->generation.options.constraint_kind, COORDGEN_CONSTRAINT_JSON_SCHEMA);
    assert_string_equal(request->generation.options.constraint, "{\"type\":\"object\"}");
    drop(request);
    request = request_of("'input':'Hi','grammar':'root ::= \\'a\\''");
    assert_int_equal(request->generation.options.constraint_kind, COORDGEN_CONSTRAINT_GBNF);
    drop(request);
    refused("'input':'Hi','text':'x'", "text", "object");
    refused("'input':'Hi','text':{'form':1}", "text.form", "unknown field");
    refused("'input':'Hi','text':{'format':'x'}", "text.format", "object");
    refused("'input':'Hi','text':{'format':{}}", "text.format.type", "json_schema");
    refused("'input':'Hi','text':{'format':{'type':'json_schema','name':'n'}}", "text.format.schema", "missing");
    refused("'input':'Hi','text':{'format':{'type':'json_schema','schema':5}}", "text.format.schema", "schema");
    refused("'input':'Hi','text':{'format':{'type':'text','schema':{}}}", "text.format.type", "json_schema");
    refused("'input':'Hi','text':{'verbosity':'low'}", "text.verbosity", "medium");
    refused("'input':'Hi','text':{'format':{'type':'json_object'}},'regex':'a'", "regex", "stands beside text.format");
}

#define TOOL(name)                                                                                                     \
    "{'type':'function','name':'" name "','description':'D','parameters':{'type':'object'},'strict':true}"

static void test_response_request_tools(void **state) {
    ResponseRequest *request =
        request_of("'tool_choice':'required','parallel_tool_calls':false,'input':'Hi','tools':[" TOOL(
            "f") ",{'type':"
                 "'function','name':'g','parameters':null,'strict':null,'defer_loading':false,'allowed_callers':["
                 "'direct']}]");
    const CoordgenGenerateOptions *options = &request->generation.options;

    assert_string_equal(options->tools, "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"D\","
                                        "\"parameters\":{\"type\":\"object\"}}},{\"type\":\"function\",\"function\":{"
                                        "\"name\":\"g\"}}]");
    assert_int_equal(options->tool_choice, COORDGEN_TOOLS_REQUIRED);
    assert_true(options->single_call);
    drop(request);
    request = request_of("'input':'Hi','tools':[" TOOL("f") "],'tool_choice':{'type':'function','name':'f'}");
    assert_int_equal(request->generation.options.tool_choice, COORDGEN_TOOLS_NAMED);
    assert_string_equal(request->generation.options.tool_name, "f");
    assert_false(request->generation.options.single_call);
    drop(request);
    request = request_of("'input':'Hi','tool_choice':{'type':'allowed_tools','mode':'required','tools':[{'type':"
                         "'function','name':'g'}]},'tools':[" TOOL("f") "," TOOL("g") "]");
    assert_string_equal(request->generation.options.tools,
                        "[{\"type\":\"function\",\"function\":{\"name\":\"g\",\"description\":\"D\",\"parameters\":{"
                        "\"type\":\"object\"}}}]");
    assert_int_equal(request->generation.options.tool_choice, COORDGEN_TOOLS_REQUIRED);
    drop(request);
    request = request_of("'input':'Hi','tool_choice':'none'");
    assert_null(request->generation.options.tools);
    drop(request);
}

static void test_response_request_tools_refused(void **state) {
    refused("'input':'Hi','tools':{}", "tools", "array");
    refused("'input':'Hi','tools':[5]", "tools[0]", "object");
    refused("'input':'Hi','tools':[{'name':'f'}]", "tools[0].type", "missing");
    refused("'input':'Hi','tools':[{'type':'web_search'}]", "tools[0].type", "'web_search' is not supported");
    refused("'input':'Hi','tools':[{'type':'function'}]", "tools[0].name", "missing");
    refused("'input':'Hi','tools':[{'type':'function','name':'f','x':1}]", "tools[0].x", "unknown field");
    refused("'input':'Hi','tools':[{'type':'function','function':{'name':'f'}}]", "tools[0].function", "unknown");
    refused("'input':'Hi','tools':[{'type':'function','name':'f','parameters':'x'}]", "tools[0].parameters", "object");
    refused("'input':'Hi','tools':[{'type':'function','name':'f','defer_loading':true}]", "tools[0].defer_loading",
            "false");
    refused("'input':'Hi','tools':[{'type':'function','name':'f','allowed_callers':['programmatic']}]",
            "tools[0].allowed_callers[0]", "direct");
    refused("'input':'Hi','tool_choice':'required'", "tool_choice", "no tools");
    refused("'input':'Hi','tool_choice':'some','tools':[" TOOL("f") "]", "tool_choice", "'some'");
    refused("'input':'Hi','tool_choice':5", "tool_choice", "string or an object");
    refused("'input':'Hi','tool_choice':{'type':'function'}", "tool_choice.name", "missing");
    refused("'input':'Hi','tool_choice':{'type':'function','name':'f'}", "tool_choice", "no tools");
    refused("'input':'Hi','tool_choice':{'type':'mcp'}", "tool_choice.type", "'mcp'");
    refused("'input':'Hi','tool_choice':{'type':'allowed_tools','tools':[]}", "tool_choice.mode", "auto");
    refused("'input':'Hi','tool_choice':{'type':'allowed_tools','mode':'auto','tools':[]}", "tool_choice.tools",
            "at least one");
    refused("'input':'Hi','tools':[" TOOL("f") "],'tool_choice':{'type':'allowed_tools','mode':'auto','tools':[{"
                                               "'type':'function','name':'g'}]}",
            "tool_choice.tools[0]", "'g'");
    refused("'input':'Hi','tools':[" TOOL("f") "],'tool_choice':{'type':'allowed_tools','mode':'auto','tools':[{"
                                               "'type':'mcp'}]}",
            "tool_choice.tools[0].type", "'mcp'");
}

static void test_response_request_reasoning(void **state) {
    ResponseRequest *request = request_of("'input':'Hi','reasoning':{'effort':'none'}");

    assert_int_equal(request->generation.options.thinking_tokens, 0);
    assert_string_equal(request->generation.names.thinking, "reasoning.effort");
    drop(request);
    request = request_of("'input':'Hi','reasoning':{'effort':'low','summary':null,'mode':'standard','context':'auto'}");
    assert_string_equal(request->generation.options.template_kwargs, "{\"reasoning_effort\":\"low\"}");
    assert_string_equal(request->generation.names.kwargs, "reasoning.effort");
    drop(request);
    request = request_of("'input':'Hi','thinking_tokens':9");
    assert_int_equal(request->generation.options.thinking_tokens, 9);
    assert_string_equal(request->generation.names.thinking, "thinking_tokens");
    drop(request);
    refused("'input':'Hi','reasoning':'low'", "reasoning", "object");
    refused("'input':'Hi','reasoning':{'effort':'most'}", "reasoning.effort", "minimal");
    refused("'input':'Hi','reasoning':{'summary':'detailed'}", "reasoning.summary", "auto");
    refused("'input':'Hi','reasoning':{'generate_summary':'concise'}", "reasoning.generate_summary", "auto");
    refused("'input':'Hi','reasoning':{'context':'all_turns'}", "reasoning.context", "auto");
    refused("'input':'Hi','reasoning':{'mode':'pro'}", "reasoning.mode", "standard");
}

static void test_response_request_refused_by_name(void **state) {
    static const char *const names[] = { "previous_response_id",
                                         "conversation",
                                         "prompt",
                                         "context_management",
                                         "moderation",
                                         "image",
                                         "prompt_cache_options",
                                         "messages",
                                         "max_tokens",
                                         "n_predict",
                                         "response_format",
                                         "verbosity",
                                         "reasoning_effort",
                                         "logprobs",
                                         "n",
                                         "return_tokens",
                                         "reasoning_format",
                                         "continue_final_message" };
    char members[128];

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(members, sizeof(members), "'input':'Hi','%s':1", names[i]);
        refused(members, names[i], "is not supported: ");
    }
    refused("'model':'m'", "input", "missing");
    refused("'input':null", "input", "missing");
    refused("'input':[]", "input", "at least one item");
    refused("'instructions':['x'],'input':'Hi'", "instructions", "string");
    refused("'input':'Hi','instructions':['x']", "instructions", "string");
    refused("'input':'Hi','inputs':1", "inputs", "did you mean 'input'?");
    refused("'input':'Hi','store':true", "store", "false");
    refused("'input':'Hi','background':true", "background", "false");
    refused("'input':'Hi','truncation':'auto'", "truncation", "disabled");
    refused("'input':'Hi','max_output_tokens':0", "max_output_tokens", "from 1");
    refused("'input':'Hi','stream_options':{'include_obfuscation':true}", "stream_options.include_obfuscation", "");
    refused("'input':'Hi','metadata':[]", "metadata", "object");
    refused("'input':'Hi','metadata':{'a':1}", "metadata.a", "string");
    refused("'input':'Hi','service_tier':'flex'", "service_tier", "auto");
}

static void test_response_request_metadata_limits(void **state) {
    json_t *body = body_of("'input':'Hi'"), *metadata = json_object();
    ResponseRequest *request = NULL;
    char name[300];
    ApiError error;

    json_object_set_new(body, "metadata", metadata);
    for (int i = 0; i < 17; i++) {
        snprintf(name, sizeof(name), "key %d", i);
        json_object_set_new(metadata, name, json_string("value"));
    }
    assert_int_equal(response_request_new(&request, json_incref(body), &error), API_E_REFUSED);
    assert_non_null(strstr(error.message, "16 pairs"));
    json_object_clear(metadata);
    memset(name, 'k', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    json_object_set_new(metadata, name, json_string("value"));
    assert_int_equal(response_request_new(&request, json_incref(body), &error), API_E_REFUSED);
    assert_non_null(strstr(error.message, "64 characters"));
    json_decref(body);
}

static void check_echo(const char *members, const char *wanted) {
    ResponseRequest *request = request_of(members);
    json_t *echo = response_request_echo(request), *expected = body_of(wanted);

    if (!json_equal(echo, expected))
        fail_msg("%s", json_dumps(echo, 0));
    json_decref(expected);
    json_decref(echo);
    drop(request);
}

static void test_response_request_echo(void **state) {
    check_echo("'input':'Hi','seed':1",
               "'background':false,'instructions':null,'max_output_tokens':null,'max_tool_calls':null,'metadata':{},"
               "'parallel_tool_calls':true,'previous_response_id':null,'prompt_cache_key':null,'reasoning':{'effort':"
               "null,'summary':null},'safety_identifier':null,'service_tier':'default','store':false,'temperature':"
               "null,'text':{'format':{'type':'text'},'verbosity':'medium'},'tool_choice':'auto','tools':[],"
               "'top_logprobs':0,'top_p':null,'truncation':'disabled','user':null");
    check_echo("'input':'Hi','instructions':'I','max_output_tokens':7,'metadata':{'a':'b'},'parallel_tool_calls':false,"
               "'reasoning':{'effort':'low'},'service_tier':'auto','temperature':0.5,'text':{'format':{'type':"
               "'json_object'}},'tool_choice':'none','tools':[{'type':'function','name':'f'}],'top_logprobs':0,'top_p':"
               "1,'user':'u','max_tool_calls':2,'prompt_cache_key':'k','safety_identifier':'s'",
               "'background':false,'instructions':'I','max_output_tokens':7,'max_tool_calls':2,'metadata':{'a':'b'},"
               "'parallel_tool_calls':false,'previous_response_id':null,'prompt_cache_key':'k','reasoning':{'effort':"
               "'low','summary':null},'safety_identifier':'s','service_tier':'default','store':false,'temperature':0.5,"
               "'text':{'format':{'type':'json_object'},'verbosity':'medium'},'tool_choice':'none','tools':[{'type':"
               "'function','name':'f'}],'top_logprobs':0,'top_p':1,'truncation':'disabled','user':'u'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_response_request_options),
        cmocka_unit_test(test_response_request_defaults),
        cmocka_unit_test(test_response_request_logprobs),
        cmocka_unit_test(test_response_request_formats),
        cmocka_unit_test(test_response_request_tools),
        cmocka_unit_test(test_response_request_tools_refused),
        cmocka_unit_test(test_response_request_reasoning),
        cmocka_unit_test(test_response_request_refused_by_name),
        cmocka_unit_test(test_response_request_metadata_limits),
        cmocka_unit_test(test_response_request_echo),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
