// SPDX-License-Identifier: Apache-2.0
/* Marks of thinking: which ones public templates and vocabularies have, where prompts end, and what switches thinking
 * off and on. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/unit/text/chat/parts_check.h"

#define SOURCE_BYTES_MAX (1u << 20)
#define FOLDER "test/golden/templates/public/"

enum {
    MARKS_NONE = 0,
    MARKS_ALL = PARTS_VOCAB - PARTS_OPEN
};

static const ChatMessage question[] = { { .role = CHAT_ROLE_USER, .text = "Why?", .len_bytes = 4 } };

static void read_template(ChatTemplate *chat, const char *name) {
    char path[200], *text = malloc(SOURCE_BYTES_MAX);
    size_t len_bytes;
    FILE *file;

    snprintf(path, sizeof(path), FOLDER "%s.jinja", name);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(text);
    len_bytes = fread(text, 1, SOURCE_BYTES_MAX, file);
    assert_in_range(len_bytes, 1, SOURCE_BYTES_MAX - 1);
    fclose(file);
    assert_int_equal(chat_template_parse(chat, text, len_bytes), 0);
    free(text);
}

typedef struct Case {
    const char *name;   /* template */
    const char *kwargs; /* NULL: none */
    ChatThinking thinking;
    unsigned int n_marks; /* that the vocabulary has as tokens */
    const char *open;     /* NULL: no thinking */
    ThinkingPlace place;
    const char *end; /* of the prompt; NULL: not compared */
} Case;

static void expect(const Case *wanted) {
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    _cleanup_(chat_template_deinit) ChatTemplate chat = { 0 };
    _cleanup_(str_buf_deinit) StrBuf prompt = STR_BUF_NULL;
    ThinkingPlace place = _THINKING_PLACE_N;
    ThinkingMarks marks;
    PartsVocab vocab;
    ErrText err = { 0 };
    ChatInput input = { .messages = question,
                        .n_messages = 1,
                        .kwargs = wanted->kwargs,
                        .kwargs_bytes = wanted->kwargs ? strlen(wanted->kwargs) : 0,
                        .thinking = wanted->thinking,
                        .placep = &place };

    parts_vocab_init(&vocab, wanted->n_marks, NULL);
    read_template(&chat, wanted->name);
    marks = chat_template_thinking(&chat, vocab.tokenizer);
    if (!wanted->open != !marks.open || (marks.open && strcmp(marks.open, wanted->open)))
        fail_msg("%s: marks %s", wanted->name, marks.open ? marks.open : "none");
    assert_int_equal(marks.open && thinking_marks_are_tokens(&marks), wanted->open && wanted->n_marks);
    if (chat_template_encode(&chat, vocab.tokenizer, &input, &list, &err))
        fail_msg("%s: %s", wanted->name, err.text);
    for (size_t i = 0; i < list.n; i++)
        assert_int_equal(tokenizer_piece(vocab.tokenizer, list.ids[i], true, &prompt), 0);
    if (place != wanted->place)
        fail_msg("%s: place %d: ...%s", wanted->name, (int)place, prompt.data + prompt.len_bytes - 40);
    if (wanted->end && (prompt.len_bytes < strlen(wanted->end) ||
                        strcmp(prompt.data + prompt.len_bytes - strlen(wanted->end), wanted->end)))
        fail_msg("%s: the prompt ends otherwise: %s", wanted->name, prompt.data);
    parts_vocab_deinit(&vocab);
}

static void test_thinking_marks_of_templates(void **state) {
    static const Case cases[] = {
        { "qwen3", NULL, 0, MARKS_ALL, "<think>", THINKING_BEFORE, "<|im_start|>assistant\n" },
        { "qwen3", NULL, 0, MARKS_NONE, "<think>", THINKING_BEFORE, "<|im_start|>assistant\n" },
        { "qwen3", "{\"enable_thinking\": false}", 0, MARKS_ALL, "<think>", THINKING_BEHIND,
          "<think>\n\n</think>\n\n" },
        { "smollm3", NULL, 0, MARKS_ALL, "<think>", THINKING_BEFORE, "<|im_start|>assistant\n" },
        { "smollm3", "{\"enable_thinking\": false}", 0, MARKS_ALL, "<think>", THINKING_BEHIND, "</think>\n" },
        { "qwq", NULL, 0, MARKS_ALL, "<think>", THINKING_BEHIND, "<think>\n</think>" },
        { "qwq", "{\"enable_thinking\": true}", 0, MARKS_ALL, "<think>", THINKING_INSIDE, "<think>\n" },
        { "deepseek-r1-distill", NULL, 0, MARKS_ALL, "<think>", THINKING_INSIDE, "<think>\n" },
        { "deepseek-v3.1", NULL, 0, MARKS_NONE, "<think>", THINKING_BEHIND, "<think></think>" },
        { "deepseek-v3.1", "{\"thinking\": true}", 0, MARKS_NONE, "<think>", THINKING_INSIDE, "<think>" },
        { "glm-4.5", NULL, 0, MARKS_ALL, "<think>", THINKING_BEFORE, NULL },
        { "seed-oss", "{\"thinking_budget\": 0}", 0, MARKS_NONE, "<seed:think>", THINKING_BEHIND, NULL },
        /* Templates without marks: the vocabulary alone can have them, as tokens. */
        { "smollm2", NULL, 0, MARKS_NONE, NULL, THINKING_BEFORE, NULL },
        { "qwen2.5", NULL, 0, MARKS_NONE, NULL, THINKING_BEFORE, NULL },
        { "qwen3-instruct-2507", NULL, 0, MARKS_ALL, "<think>", THINKING_BEFORE, NULL },
        { "smollm2", NULL, 0, MARKS_ALL, "<think>", THINKING_BEFORE, NULL },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        expect(&cases[i]);
}

static void test_thinking_marks_off_and_on(void **state) {
    static const Case cases[] = {
        { "qwen3", NULL, CHAT_THINKING_OFF, MARKS_ALL, "<think>", THINKING_BEHIND,
          "assistant\n<think>\n\n</think>\n\n" },
        { "smollm3", NULL, CHAT_THINKING_OFF, MARKS_ALL, "<think>", THINKING_BEHIND,
          "assistant\n<think>\n\n</think>\n" },
        { "deepseek-r1-distill", NULL, CHAT_THINKING_OFF, MARKS_ALL, "<think>", THINKING_BEHIND,
          "<think>\n\n</think>\n\n" },
        { "deepseek-v3.1", NULL, CHAT_THINKING_OFF, MARKS_NONE, "<think>", THINKING_BEHIND, "<think></think>" },
        { "qwen3-instruct-2507", NULL, CHAT_THINKING_OFF, MARKS_ALL, "<think>", THINKING_BEHIND,
          "assistant\n<think>\n\n</think>\n\n" },
        { "smollm2", NULL, CHAT_THINKING_OFF, MARKS_NONE, NULL, THINKING_BEFORE, "assistant\n" },
        { "qwen3", NULL, CHAT_THINKING_ON, MARKS_ALL, "<think>", THINKING_BEFORE, "assistant\n" },
        { "qwen3", NULL, CHAT_THINKING_ON, MARKS_NONE, "<think>", THINKING_INSIDE, "assistant\n<think>\n" },
        { "qwq", NULL, CHAT_THINKING_ON, MARKS_ALL, "<think>", THINKING_INSIDE, "<think>\n" },
        { "deepseek-v3.1", NULL, CHAT_THINKING_ON, MARKS_NONE, "<think>", THINKING_INSIDE, "<think>" },
        /* What the request's own variables say goes before. */
        { "qwen3", "{\"enable_thinking\": true}", CHAT_THINKING_OFF, MARKS_ALL, "<think>", THINKING_BEFORE, NULL },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        expect(&cases[i]);
}

/* A question never decides where the prompt ends: only bytes of the template are marks. */
static void test_thinking_marks_in_messages(void **state) {
    static const uint8_t own[] = { 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1 };
    const ThinkingMarks marks = { "<think>", "</think>", TOKEN_NONE, TOKEN_NONE };

    assert_int_equal(thinking_place_of(&marks, "<think>\n</think>\n", own, 17), THINKING_INSIDE);
    assert_int_equal(thinking_place_of(&marks, "xxxxxxxx <think>\n", own, 17), THINKING_BEFORE);
    assert_int_equal(thinking_place_of(&marks, "<think>", own, 7), THINKING_INSIDE);
    assert_int_equal(thinking_place_of(&marks, "think>", own, 6), THINKING_BEFORE);
    assert_int_equal(thinking_place_of(&marks, "", own, 0), THINKING_BEFORE);
}

static int encode(const char *source, const char *kwargs, ErrText *err) {
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    _cleanup_(chat_template_deinit) ChatTemplate chat = { 0 };
    const ChatInput input = { .messages = question, .n_messages = 1, .kwargs = kwargs, .kwargs_bytes = strlen(kwargs) };
    PartsVocab vocab;
    int r;

    parts_vocab_init(&vocab, MARKS_NONE, NULL);
    assert_int_equal(chat_template_parse(&chat, source, strlen(source)), 0);
    r = chat_template_encode(&chat, vocab.tokenizer, &input, &list, err);
    parts_vocab_deinit(&vocab);
    return r;
}

static void test_thinking_marks_kwargs_refused(void **state) {
    static const char template[] = "{{ messages[0].content }}{{ flag }}{{ tools }}";
    ErrText err;

    assert_int_equal(encode(template, "{\"flag\": [1, {\"a\": null}]}", &err), 0);
    assert_int_equal(encode(template, " {} ", &err), 0);
    assert_int_equal(encode(template, "{\"flga\": 1}", &err), CHAT_E_KWARGS);
    assert_non_null(strstr(err.text, "template_kwargs: the model's chat template never reads 'flga'"));
    assert_int_equal(encode(template, "{\"tools\": 1}", &err), CHAT_E_KWARGS);
    assert_non_null(strstr(err.text, "template_kwargs: the service itself sets 'tools'"));
    assert_int_equal(encode(template, "[1]", &err), CHAT_E_KWARGS);
    assert_non_null(strstr(err.text, "template_kwargs is no JSON object"));
    assert_int_equal(encode(template, "{", &err), CHAT_E_KWARGS);
    assert_non_null(strstr(err.text, "template_kwargs is no JSON"));
}

/* The thinking of earlier turns reaches templates under each name that they have for it. */
static void test_thinking_marks_reasoning_of_messages(void **state) {
    static const ChatMessage turns[] = {
        { .role = CHAT_ROLE_USER, .text = "Why?", .len_bytes = 4 },
        { .role = CHAT_ROLE_ASSISTANT, .text = "So.", .len_bytes = 3, .reasoning = "Hm." }
    };
    static const struct {
        const char *name, *wanted;
    } cases[] = {
        { "qwen3", "<think>\nHm.\n</think>\n\nSo." },
        { "gpt-oss", "<|channel|>analysis<|message|>Hm.<|end|>" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(chat_template_deinit) ChatTemplate chat = { 0 };
        _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
        const ChatInput input = { .messages = turns, .n_messages = 2, .no_generation_prompt = true };
        PartsVocab vocab;
        ErrText err;

        parts_vocab_init(&vocab, MARKS_NONE, NULL);
        read_template(&chat, cases[i].name);
        assert_int_equal(chat_template_render(&chat, vocab.tokenizer, &input, &text, &err), 0);
        if (!strstr(text.data, cases[i].wanted))
            fail_msg("%s: %s", cases[i].name, text.data);
        parts_vocab_deinit(&vocab);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thinking_marks_of_templates),
        cmocka_unit_test(test_thinking_marks_off_and_on),
        cmocka_unit_test(test_thinking_marks_in_messages),
        cmocka_unit_test(test_thinking_marks_kwargs_refused),
        cmocka_unit_test(test_thinking_marks_reasoning_of_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
