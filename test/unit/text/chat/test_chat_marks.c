// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strings/str_buf.h"
#include "text/chat/chat_marks.h"

static bool has(const char *source, const char *mark) {
    ChatMarks marks;
    bool found;

    assert_int_equal(chat_marks_init(&marks, source, strlen(source)), 0);
    found = chat_marks_has(&marks, mark, strlen(mark));
    chat_marks_deinit(&marks);
    return found;
}

/* Marks are found in literals, escapes resolved, and in text, but not in comments, names and subscripts. */
static void test_chat_marks_of_literals(void **state) {
    assert_true(has("<|im_start|>{{ x }}", "<|im_start|>"));
    assert_true(has("{{ '<|im_start|>user' }}", "<|im_start|>"));
    assert_true(has("{% set x = \"[INST]\" %}", "[INST]"));
    assert_true(has("{{ '\\u003c|a|>' }}", "<|a|>"));
    assert_true(has("{{ '<<SYS>>' }}", "<<SYS>>"));
    assert_true(has("{% raw %}<|a|>{% endraw %}", "<|a|>"));
    assert_false(has("{# <|a|> #}", "<|a|>"));
    assert_false(has("{{ x[INST] }}", "[INST]"));
    assert_false(has("<|a|>", "<|a"));
    assert_false(has("<|a|>", "a|>"));
    assert_false(has("", ""));
    assert_true(has("<|a|>{{ 'open", "<|a|>")); /* marks end where the template does not parse */
}

/* Two literals and a role make a mark, because a role is no text from outside. */
static void test_chat_marks_with_roles(void **state) {
    static const char *const sources[] = { "{{ '<|' + message['role'] + '|>' }}", "<|{{ message.role }}|>\n",
                                           "{{ '<|' ~ m.role ~ '|>' ~ m['content'] }}" };

    for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
        assert_true(has(sources[i], "<|user|>"));
        assert_true(has(sources[i], "<|assistant|>"));
        assert_true(has(sources[i], "<|tool|>"));
        assert_false(has(sources[i], "<|other|>"));
    }
    assert_true(has("{{ '[|' + message['role'] + '|]' }}", "[|system|]"));
}

static void test_chat_marks_kinds(void **state) {
    static const char *const control[] = { "<|im_start|>",
                                           "<|turn>",
                                           "<turn|>",
                                           "[INST]",
                                           "[/INST]",
                                           "[SYSTEM_PROMPT]",
                                           "<start_of_turn>",
                                           "</s>",
                                           "<bos>",
                                           "[|user|]",
                                           "<\xef\xbd\x9cUser\xef\xbd\x9c>",
                                           "<extra_id_1>" };
    static const char *const shown[] = { "<think>", "</think>", "<tool_call>", "[a]", "[1:]", "<b>", "[]", "user" };

    for (size_t i = 0; i < ARRAY_LEN(control); i++)
        assert_true(chat_mark_is_control(control[i], strlen(control[i])));
    for (size_t i = 0; i < ARRAY_LEN(shown); i++)
        assert_false(chat_mark_is_control(shown[i], strlen(shown[i])));
}

/* The time is linear in the template, and the number of marks is bounded. */
static void test_chat_marks_hostile(void **state) {
    _cleanup_(str_buf_deinit) StrBuf source = STR_BUF_NULL;

    for (int i = 0; i < 200000; i++)
        str_buf_append(&source, i % 7 ? "<>" : "[]", 2);
    str_buf_add(&source, "<|last|>");
    assert_false(has(source.data, "<|first|>"));
    assert_true(has(source.data, "<|last|>"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat_marks_of_literals),
        cmocka_unit_test(test_chat_marks_with_roles),
        cmocka_unit_test(test_chat_marks_kinds),
        cmocka_unit_test(test_chat_marks_hostile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
