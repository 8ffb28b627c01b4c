// SPDX-License-Identifier: Apache-2.0
/* Fields of a body become options for the service, or a refusal that names the field. */
#undef NDEBUG
#include "gateway/request/generation_fields.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/request/sampling_fields.h"

#define ALL (GENERATION_FIELDS_COMMON | GENERATION_FIELDS_CONSTRAINT | GENERATION_FIELDS_CHAT)
#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"

static json_t *parse(const char *text) {
    json_error_t why;
    json_t *body = json_loads(text, JSON_ALLOW_NUL, &why);

    if (!body)
        fail_msg("%s: %s", text, why.text);
    return body;
}

/* Reads a chat with more fields, "name": value, ... */
static GenerationRequest *read_chat(const char *more, int *rp, ApiError *error) {
    char text[4096];
    GenerationRequest *request;

    snprintf(text, sizeof(text), "{" MESSAGES "%s%s}", *more ? "," : "", more);
    request = generation_request_new(sizeof(*request), parse(text));
    assert_non_null(request);
    *rp = generation_fields_read(request, ALL, NULL, 0, error);
    return request;
}

static GenerationRequest *good(const char *more) {
    ApiError error;
    int r;
    GenerationRequest *request = read_chat(more, &r, &error);

    if (r)
        fail_msg("%s: %s", more, error.message);
    return request;
}

typedef enum ValueType {
    IS_FLOAT,
    IS_U32,
    IS_BOOL,
} ValueType;

#define PLACE(member)                                                                                                  \
    offsetof(GenerationRequest, member), _Generic(((GenerationRequest *)0)->member, float                              \
                                                  : IS_FLOAT, bool                                                     \
                                                  : IS_BOOL, default                                                   \
                                                  : IS_U32)
#define OPTION(member) PLACE(options.member)
#define SAMPLING(member) PLACE(sampling.member)
#define WISH(member) PLACE(wishes.member)

/* Fields that set one value, and the value. */
static const struct {
    const char *more;
    size_t offset;
    ValueType type;
    double value;
} values[] = {
    { "\"temperature\":0.5", OPTION(temperature), 0.5f },
    { "\"temperature\":null", OPTION(temperature), COORDGEN_UNSET },
    { "\"top_p\":0.25", OPTION(top_p), 0.25f },
    { "\"top_p\":0", OPTION(top_p), FLT_MIN },
    { "\"top_k\":40", OPTION(top_k), 40 },
    { "\"top_k\":-1", OPTION(top_k), 0 },
    { "\"min_p\":0.125", OPTION(min_p), 0.125f },
    { "\"repeat_penalty\":1.5", OPTION(repetition_penalty), 1.5f },
    { "\"repeat_penalty\":1.5,\"repeat_last_n\":0", OPTION(repetition_penalty), 1 },
    { "\"repeat_last_n\":0,\"repeat_penalty\":1.5", OPTION(repetition_penalty), 1 },
    { "\"repeat_last_n\":-1", OPTION(repetition_window), 0 },
    { "\"repeat_last_n\":64", OPTION(repetition_window), 64 },
    { "\"presence_penalty\":-2", SAMPLING(presence_penalty), -2 },
    { "\"frequency_penalty\":2", SAMPLING(frequency_penalty), 2 },
    { "\"typical_p\":0.5", SAMPLING(typical_p), 0.5f },
    { "\"xtc_probability\":0.5", SAMPLING(xtc_probability), 0.5f },
    { "\"xtc_threshold\":0.25", SAMPLING(xtc_threshold), 0.25f },
    { "\"xtc_threshold\":0.75,\"xtc_probability\":1", SAMPLING(xtc_probability), 0 },
    { "\"dry_multiplier\":0.5", SAMPLING(dry_multiplier), 0.5f },
    { "\"dry_multiplier\":0.5,\"dry_penalty_last_n\":0", SAMPLING(dry_multiplier), 0 },
    { "\"dry_base\":2", SAMPLING(dry_base), 2 },
    { "\"dry_allowed_length\":3", SAMPLING(dry_allowed_length), 3 },
    { "\"dry_penalty_last_n\":-1", SAMPLING(dry_window), 0 },
    { "\"dry_penalty_last_n\":9", SAMPLING(dry_window), 9 },
    { "\"max_tokens\":7", OPTION(max_tokens), 7 },
    { "\"max_completion_tokens\":7", OPTION(max_tokens), 7 },
    { "\"n_predict\":7", OPTION(max_tokens), 7 },
    { "\"n_predict\":-1", OPTION(max_tokens), 0 },
    { "\"max_tokens\":7,\"n_predict\":7.0", OPTION(max_tokens), 7 },
    { "\"n\":1", OPTION(n), 0 },
    { "\"n\":16", OPTION(n), 16 },
    { "\"logprobs\":true", OPTION(logprobs), 0 },
    { "\"logprobs\":true,\"top_logprobs\":5", OPTION(logprobs), 5 },
    { "\"logprobs\":false", OPTION(logprobs), COORDGEN_UNSET_COUNT },
    { "\"n_probs\":4", OPTION(logprobs), 4 },
    { "\"n_probs\":0", OPTION(logprobs), COORDGEN_UNSET_COUNT },
    { "\"cache_prompt\":false", OPTION(no_reuse), true },
    { "\"no_reuse\":true", OPTION(no_reuse), true },
    { "\"ignore_eos\":true", OPTION(ignore_end), true },
    { "\"no_history\":true", OPTION(no_history), true },
    { "\"explain\":true", OPTION(explain), true },
    { "\"compact\":true", OPTION(compact), true },
    { "\"any_order\":true", OPTION(any_order), true },
    { "\"end_in_time\":false", OPTION(no_end_in_time), true },
    { "\"add_generation_prompt\":false", OPTION(no_generation_prompt), true },
    { "\"priority\":\"background\"", OPTION(priority), COORDGEN_PRIORITY_BACKGROUND },
    { "\"end_repetition\":false", OPTION(repetition), COORDGEN_REPETITION_ALLOW },
    { "\"end_repetition\":true", OPTION(repetition), COORDGEN_REPETITION_END },
    { "\"split\":false", OPTION(split), COORDGEN_SPLIT_OFF },
    { "\"reasoning_format\":\"none\"", OPTION(split), COORDGEN_SPLIT_OFF },
    { "\"reasoning_format\":\"auto\"", OPTION(split), COORDGEN_SPLIT_DEFAULT },
    { "\"thinking_tokens\":9", OPTION(thinking_tokens), 9 },
    { "\"reasoning_budget_tokens\":-1", OPTION(thinking_tokens), COORDGEN_UNSET_COUNT },
    { "\"reasoning_effort\":\"none\"", OPTION(thinking_tokens), 0 },
    { "\"reasoning_effort\":\"medium\"", OPTION(thinking_tokens), COORDGEN_UNSET_COUNT },
    { "\"stream\":true", WISH(is_stream), true },
    { "\"stream\":true,\"stream_options\":{\"include_usage\":true}", WISH(with_usage), true },
    { "\"stream\":true,\"return_progress\":true", OPTION(each_progress), true },
    { "\"return_progress\":true", OPTION(each_progress), false },
    { "\"timings_per_token\":true", OPTION(want_tokens), true },
    { "\"return_tokens\":true", WISH(with_tokens), true },
    { "\"sse_ping_interval\":-1", WISH(ping_s), 0 },
    { "\"sse_ping_interval\":3", WISH(ping_s), 3 },
};

static double value_of(const GenerationRequest *request, size_t offset, ValueType type) {
    const void *at = (const char *)request + offset;

    return type == IS_FLOAT ? (double)*(const float *)at
           : type == IS_U32 ? (double)*(const uint32_t *)at
                            : (double)*(const bool *)at;
}

static void test_generation_fields_values(void **state) {
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        GenerationRequest *request = good(values[i].more);
        const double value = value_of(request, values[i].offset, values[i].type);

        if (value < values[i].value || value > values[i].value)
            fail_msg("%s: %g", values[i].more, value);
        generation_request_free(request);
    }
}

static void test_generation_fields_seed(void **state) {
    static const struct {
        const char *more;
        bool has;
        uint64_t seed;
    } cases[] = {
        { "", false, 0 },
        { "\"seed\":0", true, 0 },
        { "\"seed\":9223372036854775807", true, INT64_MAX },
        { "\"seed\":-1", false, 0 },
        { "\"seed\":4294967295", false, 0 },
        { "\"seed\":-2", true, UINT64_MAX - 1 },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        GenerationRequest *request = good(cases[i].more);

        assert_int_equal(request->options.has_seed, cases[i].has);
        assert_int_equal(request->options.seed, cases[i].seed);
        generation_request_free(request);
    }
}

static void test_generation_fields_lists(void **state) {
    GenerationRequest *request =
        good("\"stop\":[\"a\",\"b\"],\"logit_bias\":[[5,-1.5],[6,false]],\"dry_sequence_breakers\":[\"x\"]");

    assert_int_equal(request->options.n_stops, 2);
    assert_string_equal(request->options.stops[1], "b");
    assert_int_equal(request->sampling.n_logit_bias, 2);
    assert_int_equal(request->sampling.logit_bias[0].token, 5);
    assert_true(request->sampling.logit_bias[0].bias == -1.5f);
    assert_int_equal(request->sampling.logit_bias[1].token, 6);
    assert_true(request->sampling.logit_bias[1].bias == -INFINITY);
    assert_string_equal(request->sampling.dry_breakers[0], "x");
    generation_request_free(request);
    request = good("\"stop\":\"end\",\"logit_bias\":{\"17\":100}");
    assert_int_equal(request->options.n_stops, 1);
    assert_string_equal(request->options.stops[0], "end");
    assert_int_equal(request->sampling.logit_bias[0].token, 17);
    assert_true(request->sampling.logit_bias[0].bias == 100);
    assert_ptr_equal(request->options.more_sampling, &request->sampling);
    generation_request_free(request);
}

/* Biases of texts: every token of a text gets the bias, once the service has told the tokens. */
static void test_generation_fields_bias_texts(void **state) {
    GenerationRequest *request = good("\"logit_bias\":[[\" the\",-2],[9,1],[\"x\",false]]");
    ApiError error;

    assert_int_equal(request->texts.n, 2);
    assert_string_equal(request->texts.list[0].text, " the");
    assert_string_equal(request->texts.list[1].path, "logit_bias[2]");
    assert_false(request->texts.list[0].add_special);
    assert_int_equal(token_text_set(&request->texts.list[0], &request->owned, (uint32_t[]){ 4, 5 }, 2, &error), 0);
    assert_int_equal(token_text_set(&request->texts.list[1], &request->owned, (uint32_t[]){ 6 }, 1, &error), 0);
    assert_int_equal(sampling_fields_join(request, &error), 0);
    assert_int_equal(request->sampling.n_logit_bias, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(request->sampling.logit_bias[i].token, ((uint32_t[]){ 9, 4, 5, 6 })[i]);
    assert_true(request->sampling.logit_bias[0].bias == 1 && request->sampling.logit_bias[2].bias == -2);
    assert_true(request->sampling.logit_bias[3].bias == -INFINITY);
    generation_request_free(request);
    request = good("\"logit_bias\":{\" the\":-2,\"5\":1}");
    assert_int_equal(request->texts.n, 1);
    assert_int_equal(request->sampling.n_logit_bias, 1);
    generation_request_free(request);
}

static void test_generation_fields_constraints(void **state) {
    static const struct {
        const char *more;
        CoordgenConstraintKind kind;
        const char *text;
    } cases[] = {
        { "\"response_format\":{\"type\":\"text\"}", COORDGEN_CONSTRAINT_NONE, NULL },
        { "\"response_format\":{\"type\":\"json_object\"}", COORDGEN_CONSTRAINT_JSON_SCHEMA, "{\"type\":\"object\"}" },
        { "\"response_format\":{\"type\":\"json_object\",\"schema\":{\"const\":1}}", COORDGEN_CONSTRAINT_JSON_SCHEMA,
          "{\"const\":1}" },
        { "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\",\"strict\":true,"
          "\"description\":\"b\",\"schema\":{\"const\":2}}}",
          COORDGEN_CONSTRAINT_JSON_SCHEMA, "{\"const\":2}" },
        { "\"json_schema\":{}", COORDGEN_CONSTRAINT_JSON_SCHEMA, "{\"type\":\"object\"}" },
        { "\"json_schema\":{\"const\":3}", COORDGEN_CONSTRAINT_JSON_SCHEMA, "{\"const\":3}" },
        { "\"grammar\":\"\"", COORDGEN_CONSTRAINT_NONE, NULL },
        { "\"grammar\":\"root ::= x\"", COORDGEN_CONSTRAINT_GBNF, "root ::= x" },
        { "\"regex\":\"a+\"", COORDGEN_CONSTRAINT_REGEX, "a+" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        GenerationRequest *request = good(cases[i].more);

        assert_int_equal(request->options.constraint_kind, cases[i].kind);
        if (cases[i].text)
            assert_string_equal(request->options.constraint, cases[i].text);
        else
            assert_null(request->options.constraint);
        generation_request_free(request);
    }
}

#define TOOL(name) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"

static void test_generation_fields_tools(void **state) {
    static const struct {
        const char *more;
        CoordgenToolChoice choice;
        const char *name, *tools;
        bool is_single;
    } cases[] = {
        { "\"tools\":[],\"tool_choice\":\"none\",\"parallel_tool_calls\":false", COORDGEN_TOOLS_DEFAULT, NULL, NULL,
          false },
        { "\"tools\":[" TOOL("a") "]", COORDGEN_TOOLS_DEFAULT, NULL, "[" TOOL("a") "]", false },
        { "\"parallel_tool_calls\":false,\"tools\":[" TOOL("a") "]", COORDGEN_TOOLS_DEFAULT, NULL, "[" TOOL("a") "]",
          true },
        { "\"tool_choice\":\"none\",\"tools\":[" TOOL("a") "]", COORDGEN_TOOLS_NONE, NULL, "[" TOOL("a") "]", false },
        { "\"tool_choice\":\"required\",\"tools\":[" TOOL("a") "]", COORDGEN_TOOLS_REQUIRED, NULL, "[" TOOL("a") "]",
          false },
        { "\"tool_choice\":" TOOL("a") ",\"tools\":[" TOOL("a") "]", COORDGEN_TOOLS_NAMED, "a", "[" TOOL("a") "]",
          false },
        { "\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\",\"tools\":[" TOOL(
              "b") "]}}"
                   ",\"tools\":[" TOOL("a") "," TOOL("b") "]",
          COORDGEN_TOOLS_AUTO, NULL, "[" TOOL("b") "]", false },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        GenerationRequest *request = good(cases[i].more);

        assert_int_equal(request->options.tool_choice, cases[i].choice);
        assert_int_equal(request->options.single_call, cases[i].is_single);
        if (cases[i].name)
            assert_string_equal(request->options.tool_name, cases[i].name);
        if (cases[i].tools)
            assert_string_equal(request->options.tools, cases[i].tools);
        else
            assert_null(request->options.tools);
        generation_request_free(request);
    }
}

static void test_generation_fields_thinking(void **state) {
    GenerationRequest *request =
        good("\"chat_template_kwargs\":{\"enable_thinking\":false},\"reasoning_effort\":\"low\"");

    assert_string_equal(request->options.template_kwargs, "{\"enable_thinking\":false,\"reasoning_effort\":\"low\"}");
    /* The request's own value stays as it was. */
    assert_int_equal(json_object_size(request->json.template_kwargs), 1);
    generation_request_free(request);
}

/* Whether an assistant's message at the end is continued. */
static void test_generation_fields_continuation(void **state) {
    static const struct {
        const char *answer, *more, *prefix;
        size_t n_messages;
        bool is_bare;
    } cases[] = {
        { "\"content\":\"The\"", "", "The", 1, false },
        { "\"content\":\"The\"", ",\"continue_final_message\":true", "The", 1, false },
        { "\"content\":\"The\"", ",\"continue_final_message\":true,\"add_generation_prompt\":false", "The", 1, false },
        { "\"content\":\"The\"", ",\"continue_final_message\":false", NULL, 2, false },
        { "\"content\":\"The\"", ",\"continue_final_message\":false,\"add_generation_prompt\":false", NULL, 2, true },
        { "\"content\":\"\"", "", NULL, 1, false },
        { "\"tool_calls\":[" TOOL("a") "]", "", NULL, 2, false },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[1024];
        GenerationRequest *request;
        ApiError error;

        snprintf(text, sizeof(text),
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",%s}]%s}",
                 cases[i].answer, cases[i].more);
        request = generation_request_new(sizeof(*request), parse(text));
        assert_int_equal(generation_fields_read(request, ALL, NULL, 0, &error), 0);
        assert_int_equal(request->options.n_messages, cases[i].n_messages);
        assert_int_equal(request->options.no_generation_prompt, cases[i].is_bare);
        if (cases[i].prefix)
            assert_string_equal(request->options.answer_prefix, cases[i].prefix);
        else
            assert_null(request->options.answer_prefix);
        generation_request_free(request);
    }
}

/* Fields that have no effect are accepted, with the values that mean what happens anyway. */
static void test_generation_fields_without_effect(void **state) {
    generation_request_free(good(
        "\"user\":\"u\",\"metadata\":{\"a\":\"b\"},\"store\":false,\"service_tier\":\"auto\",\"modalities\":[\"text\"],"
        "\"verbosity\":\"medium\",\"mirostat\":0,\"mirostat_tau\":5,\"dynatemp_range\":0,\"top_n_sigma\":-1,"
        "\"samplers\":\"edskypmxt\",\"min_keep\":0,\"lora\":[],\"n_keep\":4,\"post_sampling_probs\":false,"
        "\"prompt_cache_key\":\"k\",\"safety_identifier\":\"s\",\"n_indent\":0,\"t_max_predict_ms\":-1,"
        "\"functions\":null,\"backend_sampling\":true,\"verbose\":false,\"parse_tool_calls\":true,"
        "\"samplers\":[\"penalties\",\"dry\",\"top_n_sigma\",\"top_k\",\"typ_p\",\"top_p\",\"min_p\",\"xtc\","
        "\"temperature\"]"));
}

/* More fields of a chat, and the one that is refused. */
static const struct {
    const char *more, *param;
} refusals[] = {
    { "\"nothing\":1", "nothing" },
    { "\"temperature\":\"a\"", "temperature" },
    { "\"temperature\":-0.5", "temperature" },
    { "\"temperature\":1e300", "temperature" },
    { "\"top_k\":1.5", "top_k" },
    { "\"top_k\":-2", "top_k" },
    { "\"max_tokens\":0", "max_tokens" },
    { "\"max_tokens\":-2", "max_tokens" },
    { "\"max_tokens\":4294967296", "max_tokens" },
    { "\"max_tokens\":1,\"max_completion_tokens\":2", "max_completion_tokens" },
    { "\"n\":0", "n" },
    { "\"seed\":1.5", "seed" },
    { "\"stop\":5", "stop" },
    { "\"stop\":[\"a\",5]", "stop[1]" },
    { "\"stop\":\"a\\u0000b\"", "stop" },
    { "\"logit_bias\":5", "logit_bias" },
    { "\"logit_bias\":{\"\":1}", "logit_bias" },
    { "\"logit_bias\":{\" the\":null}", "logit_bias. the" },
    { "\"logit_bias\":{\"5\":true}", "logit_bias.5" },
    { "\"logit_bias\":[[1]]", "logit_bias[0]" },
    { "\"logit_bias\":[[1,2],[\"\",2]]", "logit_bias[1]" },
    { "\"logit_bias\":[[-1,2]]", "logit_bias[0]" },
    { "\"dry_sequence_breakers\":[\"\"]", "dry_sequence_breakers[0]" },
    { "\"samplers\":[\"top_k\"]", "samplers" },
    { "\"mirostat\":2", "mirostat" },
    { "\"lora\":[{\"id\":0}]", "lora" },
    { "\"deadline_ms\":100", "deadline_ms" },
    { "\"id_slot\":0", "id_slot" },
    { "\"speculative.n_max\":3", "speculative.n_max" },
    { "\"store\":true", "store" },
    { "\"service_tier\":\"flex\"", "service_tier" },
    { "\"modalities\":[\"text\",\"audio\"]", "modalities" },
    { "\"audio\":{}", "audio" },
    { "\"prediction\":{}", "prediction" },
    { "\"functions\":[]", "functions" },
    { "\"verbose\":true", "verbose" },
    { "\"priority\":\"high\"", "priority" },
    { "\"stream_options\":{\"include_usage\":true}", "stream_options" },
    { "\"stream\":true,\"stream_options\":{\"a\":1}", "stream_options.a" },
    { "\"stream\":1", "stream" },
    { "\"top_logprobs\":2", "top_logprobs" },
    { "\"logprobs\":true,\"top_logprobs\":21", "top_logprobs" },
    { "\"response_format\":{}", "response_format.type" },
    { "\"response_format\":{\"type\":\"json_schema\"}", "response_format.json_schema" },
    { "\"response_format\":{\"type\":\"text\",\"schema\":{}}", "response_format.type" },
    { "\"response_format\":{\"type\":\"json_object\",\"schema\":5}", "response_format.schema" },
    { "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"more\":1}}",
      "response_format.json_schema.more" },
    { "\"json_schema\":5", "json_schema" },
    { "\"grammar\":\"root ::= a\",\"json_schema\":{\"const\":1}", "grammar" },
    { "\"tools\":{}", "tools" },
    { "\"tools\":[5]", "tools[0]" },
    { "\"tools\":[{\"type\":\"web_search\"}]", "tools[0].type" },
    { "\"tools\":[{\"type\":\"function\"}]", "tools[0].function" },
    { "\"tools\":[{\"type\":\"function\",\"function\":{\"more\":1}}]", "tools[0].function.more" },
    { "\"tool_choice\":\"required\"", "tool_choice" },
    { "\"tool_choice\":\"always\"", "tool_choice" },
    { "\"tool_choice\":" TOOL("a"), "tool_choice" },
    { "\"tools\":[" TOOL("a") "],\"tool_choice\":{\"type\":\"custom\"}", "tool_choice" },
    { "\"tools\":[{\"type\":\"function\",\"function\":{}}],\"tool_choice\":{\"type\":\"allowed_tools\","
      "\"allowed_tools\":{\"mode\":\"auto\",\"tools\":[" TOOL("a") "]}}",
      "tool_choice.allowed_tools" }, /* a tool without a name */
    { ("\"tools\":[" TOOL("a") "],\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\","
                               "\"tools\":[" TOOL("b") "]}}"),
      "tool_choice.allowed_tools" },
    { "\"tools\":[" TOOL("a") "],\"reasoning_format\":\"none\"", "reasoning_format" },
    { "\"reasoning_effort\":\"most\"", "reasoning_effort" },
    { "\"reasoning_effort\":\"none\",\"thinking_tokens\":5", "reasoning_effort" },
    { "\"reasoning_effort\":\"low\",\"chat_template_kwargs\":{\"reasoning_effort\":\"high\"}", "reasoning_effort" },
    { "\"continue_final_message\":true", "continue_final_message" },
    { "\"continue_final_message\":true,\"add_generation_prompt\":true", "add_generation_prompt" },
};

static void test_generation_fields_refusals(void **state) {
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        ApiError error;
        int r;
        GenerationRequest *request = read_chat(refusals[i].more, &r, &error);

        if (r != API_E_REFUSED || error.status != 400 || strcmp(error.param, refusals[i].param) || !*error.message)
            fail_msg("%s: %d, '%s'", refusals[i].more, r, r ? error.param : "");
        generation_request_free(request);
    }
}

static void test_generation_fields_need_messages(void **state) {
    static const char *const bodies[] = {
        "{}",
        "{\"messages\":null}",
        "{\"messages\":[{\"role\":\"assistant\",\"content\":\"alone\"}]}",
        ("{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"a\"},"
         "{\"role\":\"assistant\",\"content\":\"b\"}]}"),
    };

    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        GenerationRequest *request = generation_request_new(sizeof(*request), parse(bodies[i]));
        ApiError error;

        assert_int_equal(generation_fields_read(request, ALL, NULL, 0, &error), API_E_REFUSED);
        assert_string_equal(error.param, "messages");
        generation_request_free(request);
    }
}

/* An endpoint's own fields go before the shared ones, into its own structure. */
static void test_generation_fields_of_an_endpoint(void **state) {
    typedef struct Own {
        GenerationRequest request;
        uint32_t number;
    } Own;
    static const Field fields[] = {
        { "logprobs", field_set_u32, offsetof(Own, number), 0, 9 },
    };
    static const FieldTable table = { fields, ARRAY_LEN(fields) };
    GenerationRequest *request = generation_request_new(sizeof(Own), parse("{\"logprobs\":4}"));
    ApiError error;

    assert_int_equal(generation_fields_read(request, GENERATION_FIELDS_COMMON, &table, 1, &error), 0);
    assert_int_equal(((Own *)request)->number, 4);
    generation_request_free(request);
    request = generation_request_new(sizeof(Own), parse("{\"tools\":[]}"));
    assert_int_equal(generation_fields_read(request, GENERATION_FIELDS_COMMON, &table, 1, &error), API_E_REFUSED);
    assert_string_equal(error.param, "tools");
    generation_request_free(request);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generation_fields_values),
        cmocka_unit_test(test_generation_fields_seed),
        cmocka_unit_test(test_generation_fields_lists),
        cmocka_unit_test(test_generation_fields_bias_texts),
        cmocka_unit_test(test_generation_fields_constraints),
        cmocka_unit_test(test_generation_fields_tools),
        cmocka_unit_test(test_generation_fields_thinking),
        cmocka_unit_test(test_generation_fields_continuation),
        cmocka_unit_test(test_generation_fields_without_effect),
        cmocka_unit_test(test_generation_fields_refusals),
        cmocka_unit_test(test_generation_fields_need_messages),
        cmocka_unit_test(test_generation_fields_of_an_endpoint),
    };

    return cmocka_run_group_tests_name("generation_fields", tests, NULL, NULL);
}
