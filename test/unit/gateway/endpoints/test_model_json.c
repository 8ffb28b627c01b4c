// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "gateway/endpoints/model_json.h"

static CoordgenModel model_of(CoordgenModelState state) {
    return (CoordgenModel){ .struct_bytes = sizeof(CoordgenModel),
                            .name = "small",
                            .path = "",
                            .state = state,
                            .detail = "",
                            .architecture = "llama",
                            .kv_type = "",
                            .kernel = "",
                            .source_sha256 = "",
                            .chat_format = "",
                            .image = "" };
}

static void expect(const CoordgenModel *model, const char *text) {
    json_t *told = model_json(model);
    json_t *expected = json_loads(text, 0, NULL);
    _cleanup_(freep) char *dump = json_dumps(told, JSON_COMPACT);

    assert_non_null(expected);
    if (!json_equal(told, expected))
        fail_msg("%s instead of %s", dump, text);
    json_decref(told);
    json_decref(expected);
}

static void test_model_json_ready(void **state) {
    static const char *const takes[] = { "tools" };
    CoordgenModel model = model_of(COORDGEN_MODEL_READY);

    model.chat_format = "template (takes tools)";
    model.n_chat_takes = 1;
    model.chat_takes = takes;
    model.vocabulary = 49152;
    model.context_tokens = 8192;
    model.usable_context_tokens = 4096;
    model.embedding_values = 576;
    model.parameters = 134515008;
    model.file_bytes = 1000;
    model.weights_bytes = 900;
    model.file_time_s = 1764000000;
    model.is_default = true;
    expect(&model, "{\"id\":\"small\",\"object\":\"model\",\"created\":1764000000,\"owned_by\":\"coordgen\","
                   "\"default\":true,\"status\":{\"value\":\"loaded\"},"
                   "\"capabilities\":[\"completion\",\"embedding\",\"chat\",\"tools\"],"
                   "\"meta\":{\"n_vocab\":49152,\"n_ctx_train\":8192,\"n_ctx\":4096,\"n_embd\":576,"
                   "\"n_params\":134515008,\"size\":1000,\"architecture\":\"llama\"}}");
    model.file_bytes = 0;
    model.chat_format = "refused: line 3";
    model.n_chat_takes = 0;
    expect(&model, "{\"id\":\"small\",\"object\":\"model\",\"created\":1764000000,\"owned_by\":\"coordgen\","
                   "\"default\":true,\"status\":{\"value\":\"loaded\"},\"capabilities\":[\"completion\",\"embedding\"],"
                   "\"meta\":{\"n_vocab\":49152,\"n_ctx_train\":8192,\"n_ctx\":4096,\"n_embd\":576,"
                   "\"n_params\":134515008,\"size\":900,\"architecture\":\"llama\"}}");
}

static void test_model_json_not_loaded(void **state) {
    static const struct {
        int state;
        const char *status;
    } rows[] = {
        { COORDGEN_MODEL_AVAILABLE, "{\"value\":\"unloaded\"}" },
        { COORDGEN_MODEL_IMPORTING, "{\"value\":\"loading\"}" },
        { COORDGEN_MODEL_LOADING, "{\"value\":\"loading\"}" },
        { COORDGEN_MODEL_FAILED, "{\"value\":\"unloaded\",\"failed\":true,\"detail\":\"no room\"}" },
        { 0, "{\"value\":\"unknown\"}" },
        { 99, "{\"value\":\"unknown\"}" },
    };
    char text[256];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CoordgenModel model = model_of((CoordgenModelState)rows[i].state);

        model.detail = rows[i].state == COORDGEN_MODEL_FAILED ? "no room" : "";
        snprintf(text, sizeof(text),
                 "{\"id\":\"small\",\"object\":\"model\",\"created\":0,\"owned_by\":\"coordgen\",\"default\":false,"
                 "\"meta\":null,\"status\":%s}",
                 rows[i].status);
        expect(&model, text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_model_json_ready),
                                        cmocka_unit_test(test_model_json_not_loaded) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
