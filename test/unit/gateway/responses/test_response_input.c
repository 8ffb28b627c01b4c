// SPDX-License-Identifier: Apache-2.0
/* The input of a response: every kind of item in, messages for the service out, and each refusal with its place. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/strings/str_buf.h"
#include "gateway/responses/response_input.h"

/* Makes JSON of a text with ' for ". */
static json_t *json_of(const char *text) {
    char *copy = strdup(text);
    json_error_t at;
    json_t *made;

    for (char *c = copy; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    made = json_loads(copy, JSON_DECODE_ANY | JSON_ALLOW_NUL, &at);
    if (!made)
        fail_msg("%s: %s", copy, at.text);
    free(copy);
    return made;
}

static const char *or_none(const char *text) {
    return text ? text : "-";
}

/* Writes messages as "role:text|reasoning|id=name(arguments);" with "-" for what is absent. */
static char *written(const MessageList *messages) {
    static const char roles[] = { [COORDGEN_ROLE_SYSTEM] = 's',
                                  [COORDGEN_ROLE_USER] = 'u',
                                  [COORDGEN_ROLE_ASSISTANT] = 'a',
                                  [COORDGEN_ROLE_TOOL] = 't' };
    StrBuf text = STR_BUF_NULL;

    str_buf_add(&text, "");
    for (size_t i = 0; i < messages->n; i++) {
        const CoordgenMessage *message = &messages->list[i];

        str_buf_addf(&text, "%c:%s", roles[message->role], or_none(message->text));
        if (message->reasoning)
            str_buf_addf(&text, "|%s", message->reasoning);
        for (size_t k = 0; k < message->n_tool_calls; k++)
            str_buf_addf(&text, "|%s=%s(%s)", or_none(message->tool_calls[k].id), message->tool_calls[k].name,
                         message->tool_calls[k].arguments);
        if (message->tool_call_id || message->name)
            str_buf_addf(&text, "|%s=%s", or_none(message->tool_call_id), or_none(message->name));
        str_buf_add(&text, ";");
    }
    return str_buf_steal(&text);
}

static void check(const char *instructions, const char *input, const char *wanted) {
    json_t *json = input ? json_of(input) : NULL;
    MessageList messages = { 0 };
    ApiError error;
    char *got;

    if (response_input_read(&messages, instructions, json, &error))
        fail_msg("%s: %s", input, error.message);
    got = written(&messages);
    assert_string_equal(got, wanted);
    free(got);
    messages_deinit(&messages);
    json_decref(json);
}

/* part: of the message. */
static void check_refused(const char *input, const char *param, const char *part) {
    json_t *json = json_of(input);
    MessageList messages = { 0 };
    ApiError error;

    assert_int_equal(response_input_read(&messages, NULL, json, &error), API_E_REFUSED);
    assert_int_equal(error.status, 400);
    assert_string_equal(error.param, param);
    if (!strstr(error.message, part))
        fail_msg("'%s' is not in: %s", part, error.message);
    messages_deinit(&messages);
    json_decref(json);
}

static void test_response_input_text(void **state) {
    check(NULL, "'Hi'", "u:Hi;");
    check("Be brief.", "'Hi'", "s:Be brief.;u:Hi;");
    check("Be brief.", NULL, "s:Be brief.;");
    check(NULL, "''", "u:;");
    check(NULL, "[]", "");
    check_refused("5", "input", "a string or an array of items");
    check_refused("'a\\u0000b'", "input", "NUL");
}

static void test_response_input_messages(void **state) {
    check("I",
          "[{'role':'system','content':'S'},{'type':'message','role':'developer','content':[{'type':'input_text',"
          "'text':'D'}]},{'role':'user','content':[{'type':'input_text','text':'a'},{'type':'input_text','text':'b'}],"
          "'type':null},{'role':'assistant','content':'A','phase':'final_answer'}]",
          "s:I;s:S;s:D;u:a\nb;a:A;");
    check(NULL,
          "[{'id':'msg_1','type':'message','status':'completed','role':'assistant','content':[{'type':'output_text',"
          "'text':'A','annotations':[],'logprobs':[{'token':'A'}]}]},"
          "{'role':'assistant','content':[{'type':'refusal','refusal':'No'}]},{'role':'assistant','content':''}]",
          "a:A;a:No;a:;");
    check_refused("[{'content':'x'}]", "input[0].role", "missing");
    check_refused("[{'role':'user'}]", "input[0].content", "missing");
    check_refused("[{'role':'tool','content':'x'}]", "input[0].role", "function_call_output");
    check_refused("[{'role':'king','content':'x'}]", "input[0].role", "none of");
    check_refused("[{'role':'user','content':'x','extra':1}]", "input[0].extra", "unknown field");
    check_refused("[{'role':'user','content':'x','name':'Bob'}]", "input[0].name", "unknown field");
    check_refused("[{'role':'user','content':5}]", "input[0].content", "string or an array");
    check_refused("[{'role':'user','content':[{'type':'output_text','text':'x'}]}]", "input[0].content[0]",
                  "output_text");
    check_refused("[{'role':'user','content':[{'type':'input_image','image_url':'x'}]}]", "input[0].content[0]",
                  "images");
    check_refused("[{'role':'user','content':[{'type':'input_file','file_id':'x'}]}]", "input[0].content[0]", "files");
    check_refused("[{'role':'user','content':'x'},7]", "input[1]", "object");
}

/* Thinking, text and calls of one turn are one message. */
static void test_response_input_turns(void **state) {
    check(NULL,
          "[{'role':'user','content':'Q'},{'type':'reasoning','id':'rs_1','summary':[],'content':[{'type':"
          "'reasoning_text','text':'Hm'}],'status':'completed','encrypted_content':null},"
          "{'type':'message','role':'assistant','content':[{'type':'output_text','text':'I look.'}]},"
          "{'type':'function_call','id':'fc_1','call_id':'c1','name':'f','arguments':'{}','status':'completed'},"
          "{'type':'function_call','call_id':'c2','name':'g','arguments':'','async_':null,"
          "'caller':null,'namespace':null},"
          "{'type':'function_call_output','call_id':'c1','output':'1'},"
          "{'type':'function_call_output','call_id':'c2','name':'g','output':[{'type':'input_text','text':'2'}]}]",
          "u:Q;a:I look.|Hm|c1=f({})|c2=g({});t:1|c1=-;t:2|c2=g;");
    /* Text behind a call belongs to it, as in a session. */
    check(NULL,
          "[{'role':'assistant','content':'a'},{'type':'function_call','call_id':'c','name':'f','arguments':'{}'},"
          "{'role':'assistant','content':'b'},{'type':'reasoning','summary':[],'content':[{'type':'reasoning_text',"
          "'text':'r'}]},{'role':'user','content':'u'}]",
          "a:ab|r|c=f({});u:u;");
    /* Two turns in a row: text behind text, and thinking behind text. */
    check(NULL,
          "[{'role':'assistant','content':'a'},{'role':'assistant','content':'b'},{'type':'reasoning','summary':[],"
          "'content':[{'type':'reasoning_text','text':'r'}]},{'role':'assistant','content':'c'}]",
          "a:a;a:b;a:c|r;");
    /* Thinking that led to nothing, and thinking of a service that hides it, are no messages. */
    check(NULL,
          "[{'type':'reasoning','summary':[{'type':'summary_text','text':'s'}],'encrypted_content':'x'},"
          "{'type':'reasoning','summary':[],'content':null},{'type':'reasoning','summary':[],'content':[{'type':"
          "'reasoning_text','text':'r'}]},{'role':'user','content':'u'}]",
          "u:u;");
    /* Many calls. */
    check(NULL,
          "[{'type':'function_call','call_id':'1','name':'f','arguments':'{}'},"
          "{'type':'function_call','call_id':'2','name':'f','arguments':'{}'},"
          "{'type':'function_call','call_id':'3','name':'f','arguments':'{}'},"
          "{'type':'function_call','call_id':'4','name':'f','arguments':'{}'},"
          "{'type':'function_call','call_id':'5','name':'f','arguments':'{}'}]",
          "a:-|1=f({})|2=f({})|3=f({})|4=f({})|5=f({});");
}

static void test_response_input_calls_refused(void **state) {
    check_refused("[{'type':'function_call','name':'f','arguments':'{}'}]", "input[0].call_id", "missing");
    check_refused("[{'type':'function_call','call_id':'c','arguments':'{}'}]", "input[0].name", "missing");
    check_refused("[{'type':'function_call','call_id':'c','name':'f'}]", "input[0].arguments", "missing");
    check_refused("[{'type':'function_call','call_id':'c','name':'f','arguments':{}}]", "input[0].arguments", "string");
    check_refused("[{'type':'function_call','call_id':'c','name':'f','arguments':'[1]'}]", "input[0].arguments",
                  "JSON object");
    check_refused("[{'type':'function_call','call_id':'c','name':'f','arguments':'{'}]", "input[0].arguments",
                  "JSON object");
    check_refused("[{'type':'function_call','call_id':'c','name':'f','arguments':'{}','namespace':'n'}]",
                  "input[0].namespace", "leave it out");
    check_refused("[{'type':'function_call_output','call_id':'c','output':'x'}]", "input[0].call_id", "'c'");
    check_refused("[{'type':'function_call_output','output':'x'}]", "input[0].call_id", "missing");
    check_refused("[{'type':'function_call','call_id':'c','name':'f','arguments':'{}'},"
                  "{'type':'function_call_output','call_id':'c'}]",
                  "input[1].output", "missing");
    check_refused("[{'type':'function_call','call_id':'c','name':'f','arguments':'{}'},"
                  "{'type':'function_call_output','call_id':'c','output':[{'type':'input_image'}]}]",
                  "input[1].output[0]", "images");
}

static void test_response_input_kinds_refused(void **state) {
    check_refused("[{'type':'item_reference','id':'msg_1'}]", "input[0].type", "send the item itself");
    check_refused("[{'type':'computer_call','id':'x'}]", "input[0].type", "'computer_call' is not supported");
    check_refused("[{'type':7}]", "input[0].type", "string");
    check_refused("[{'type':'reasoning','content':[{'type':'text','text':'x'}]}]", "input[0].content[0]", "'text'");
    check_refused("[{'type':'reasoning','summary':'x'}]", "input[0].summary", "array");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_response_input_text),          cmocka_unit_test(test_response_input_messages),
        cmocka_unit_test(test_response_input_turns),         cmocka_unit_test(test_response_input_calls_refused),
        cmocka_unit_test(test_response_input_kinds_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
