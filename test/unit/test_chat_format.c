// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/unit/tokenizer_fixture.h"
#include "text/chat_format.h"

static void test_chat_format_of_text(void **state) {
    static const struct {
        const char *text;
        ChatFormat format;
    } cases[] = {
        { "", CHAT_FORMAT_NONE },
        { "{{ messages }}", CHAT_FORMAT_NONE },
        { "x<|im_start|>y", CHAT_FORMAT_CHATML },
        { "<|im_start|>user<|im_sep|>", CHAT_FORMAT_NONE },
        { "<|im_start|><end_of_utterance>", CHAT_FORMAT_NONE },
        { "<|start_header_id|><|end_header_id|>", CHAT_FORMAT_LLAMA3 },
        { "<|start_header_id|>", CHAT_FORMAT_NONE },
        { "[INST]", CHAT_FORMAT_MISTRAL },
        { "[INST] <<SYS>>", CHAT_FORMAT_NONE },
        { "<start_of_turn>", CHAT_FORMAT_GEMMA },
        { "<start_of_turn", CHAT_FORMAT_NONE },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(chat_format_of(cases[i].text, strlen(cases[i].text)), cases[i].format);
    assert_int_equal(chat_format_of("<|im_start|>", 11), CHAT_FORMAT_NONE); /* by its length, not its NUL */
}

static void test_chat_format_of_file(void **state) {
    static const char *const sources[] = { NULL, "", "<|im_start|>" };
    static const ChatFormat wanted[] = { CHAT_FORMAT_NONE, CHAT_FORMAT_NONE, CHAT_FORMAT_CHATML };

    for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
        TokenizerSpec spec = fixture_bpe_spec("qwen2");
        TokenizerFixture fixture;

        spec.chat_template = sources[i];
        assert_int_equal(fixture_init(&fixture, &spec), 0);
        assert_int_equal(chat_format_of_file(fixture.file), wanted[i]);
        fixture_deinit(&fixture);
    }
}

/* Marks end as vocab.c expects it of all: other texts are not compared with them. */
static void test_chat_format_marks(void **state) {
    static const char *const names[] = { "none", "chatml", "llama3", "mistral", "gemma" };

    for (int format = CHAT_FORMAT_NONE; format <= CHAT_FORMAT_GEMMA; format++) {
        const char *const *marks = chat_format_marks((ChatFormat)format);
        size_t n = 0;

        for (; marks[n]; n++) {
            char last = marks[n][strlen(marks[n]) - 1];

            assert_true(last == '>' || last == ']');
        }
        assert_true((n > 0) == (format != CHAT_FORMAT_NONE));
        assert_string_equal(chat_format_name((ChatFormat)format), names[format]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat_format_of_text),
        cmocka_unit_test(test_chat_format_of_file),
        cmocka_unit_test(test_chat_format_marks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
