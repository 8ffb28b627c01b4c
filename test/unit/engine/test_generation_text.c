// SPDX-License-Identifier: Apache-2.0
/* Text of a generation: the space that a tokenizer puts before texts. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/generation.h"
#include "test/unit/fixtures/tiny_engine.h"

enum {
    FIRST_WITH_SPACE = 28, /* one of the tiny model's tokens */
    OUTPUT = 6,
};

typedef struct Answer {
    StrBuf text;
    TokenList tokens;
} Answer;

static void take(void *arg, const GenerationDelta *delta) {
    Answer *answer = arg;

    str_buf_append(&answer->text, delta->text, delta->len_bytes);
    for (size_t i = 0; i < delta->n_tokens; i++)
        assert_int_equal(token_list_add(&answer->tokens, delta->tokens[i]), 0);
}

static void answer_deinit(Answer *answer) {
    str_buf_deinit(&answer->text);
    token_list_deinit(&answer->tokens);
}

static void run(Engine *engine, uint32_t prompt, bool is_answer, Answer *answer) {
    const GenerationOptions options = {
        .max_tokens = OUTPUT, .ignore_end = true, .is_answer = is_answer, .sampler = SAMPLER_OPTIONS_GREEDY
    };
    _cleanup_(generation_freep) Generation *generation = NULL;
    ErrText err = { 0 };

    *answer = (Answer){ 0 };
    if (generation_new(&generation, engine, &prompt, 1, &options, &err))
        fail_msg("%s", err.text);
    while (generation_end(generation) == GENERATION_RUNNING)
        assert_int_equal(generation_step(generation, take, answer, NULL), 0);
    assert_int_equal(answer->tokens.n, OUTPUT);
}

/* Returns the text that a tokenizer made these tokens of: without the space before it. */
static void test_generation_text_of_an_answer(void **state) {
    size_t n_with_space = 0, n_without = 0;
    TinyEngine tiny = { .puts_spaces = true };

    tiny_engine_open(&tiny, ENGINE_DEVICE_REFERENCE, 32);
    for (uint32_t prompt = 3; prompt < TINY_VOCAB; prompt++) {
        _cleanup_(answer_deinit) Answer behind = { 0 }, answer = { 0 };
        size_t n_cut;

        run(tiny.engine, prompt, false, &behind);
        run(tiny.engine, prompt, true, &answer);
        assert_memory_equal(answer.tokens.ids, behind.tokens.ids, OUTPUT * sizeof(uint32_t));
        n_cut = behind.tokens.ids[0] >= FIRST_WITH_SPACE;
        assert_int_equal(behind.text.data[0] == ' ', n_cut);
        assert_string_equal(answer.text.data, behind.text.data + n_cut);
        n_with_space += n_cut;
        n_without += !n_cut;
    }
    assert_true(n_with_space && n_without);
    tiny_engine_close(&tiny);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generation_text_of_an_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
