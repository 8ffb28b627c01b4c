// SPDX-License-Identifier: Apache-2.0
/* Pre-tokenizers: pieces of known texts, classes of characters, ill-formed text, runs that backtrack. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/files/file_io.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/pretokenizer_table.h"

static Pretokenizer *new_pretokenizer(const char *name) {
    Pretokenizer *pretokenizer = NULL;
    ErrText err = { 0 };

    if (pretokenizer_new(&pretokenizer, name, strlen(name), &err))
        fail_msg("%s", err.text);
    return pretokenizer;
}

/* pieces: the text with '|' between its pieces */
static void check_pieces(const char *name, const char *pieces) {
    _cleanup_(pretokenizer_freep) Pretokenizer *pretokenizer = new_pretokenizer(name);
    _cleanup_(piece_list_deinit) PieceList list = { 0 };
    char text[256], got[512];
    size_t n = 0, n_got = 0;
    const char *at = text;
    ErrText err;

    for (const char *c = pieces; *c; c++)
        if (*c != '|')
            text[n++] = *c;
    assert_int_equal(pretokenizer_split(pretokenizer, text, n, &list, &err), 0);
    for (size_t i = 0; i < list.n; at += list.len_bytes[i++]) {
        if (i)
            got[n_got++] = '|';
        memcpy(got + n_got, at, list.len_bytes[i]);
        n_got += list.len_bytes[i];
    }
    got[n_got] = 0;
    assert_string_equal(got, pieces);
}

#define NBSP "\xc2\xa0"
#define NEL "\xc2\x85"
#define EM_SPACE "\xe2\x80\x83"
#define ACUTE "\xcc\x81" /* combining: neither letter nor number */
#define HALF "\xc2\xbd"  /* a number that is no digit */
#define ROMAN_FOUR "\xe2\x85\xa3"
#define HAN "\xe4\xb8\xad"
#define LONG_S "\xc5\xbf"
#define EXTENSION_H "\xf0\xb1\x8d\x90" /* U+31350, a letter since Unicode 15 */
#define VOWEL_SEPARATOR "\xe1\xa0\x8e" /* U+180E, no White_Space since Unicode 6.3 */

static void test_pretokenizer_gpt2(void **state) {
    check_pieces("gpt-2", "");
    check_pieces("gpt-2", "Hello| world");
    check_pieces("gpt-2", " | Hello");
    check_pieces("gpt-2", "   | Hello");
    check_pieces("gpt-2", "\n\n\n");
    check_pieces("gpt-2", "\n\n|\n|x");
    check_pieces("gpt-2", "I|'m| you|'re| it|'|S");
    check_pieces("gpt-2", "3333| 33");
}

static void test_pretokenizer_gpt2_runs(void **state) {
    check_pieces("gpt-2", "!!!!!!");
    check_pieces("gpt-2", "x|  ");
    check_pieces("gpt-2", "e|" ACUTE "|x");
    check_pieces("gpt-2", "a|" NBSP "|b");
    check_pieces("gpt-2", "a|" NEL EM_SPACE "|" NBSP "|b");
    check_pieces("gpt-2", "a|" VOWEL_SEPARATOR "|b| " VOWEL_SEPARATOR);
    check_pieces("gpt-2", "a" EXTENSION_H "b");
    check_pieces("gpt-2", " " HALF ROMAN_FOUR "1");
}

static void test_pretokenizer_smollm(void **state) {
    check_pieces("smollm", "Hello| world|!| |1|2|3");
    check_pieces("smollm", "  |1"); /* the digit ends the piece, so the look-ahead sees the end of a text */
    check_pieces("smollm", "  |" HALF "|" ROMAN_FOUR);
    check_pieces("smollm", "A|1|B|2");
    check_pieces("starcoder", "x|1|0");
}

static void test_pretokenizer_qwen2(void **state) {
    check_pieces("qwen2", "Hello| world");
    check_pieces("qwen2", " | Hello");
    check_pieces("qwen2", "   | Hello");
    check_pieces("qwen2", "\n\n\n");
    check_pieces("qwen2", "3|3|3|3");
    check_pieces("qwen2", "!!!!!!");
    check_pieces("qwen2", " discards");
    check_pieces("qwen2", "C\xe1\xbb\xad"
                          "a| Vi\xe1\xbb\x87t");
    check_pieces("qwen2", "x|'S|'t|'RE|'Ve|y");
    check_pieces("qwen2", "x|'" LONG_S); /* no contraction: U+017F folds to s, but only ASCII letters count */
    check_pieces("qwen2", "a|();\r\n\r\n|b");
    check_pieces("qwen2", "a| \n \n| | b|\r\n");
    check_pieces("qwen2", "\t\t|\tb");
    check_pieces("qwen2", "</|s|>");
    check_pieces("qwen2", "a|" NBSP "b");
    check_pieces("qwen2", "e|" ACUTE "x");
}

static void test_pretokenizer_llama_bpe(void **state) {
    check_pieces("llama-bpe", "333|3");
    check_pieces("llama-bpe", "333|333|33| |1");
    check_pieces("llama-bpe", "Hello| world");
    check_pieces("llama-bpe", "\n\n\n");
    check_pieces("llama-bpe", "\n \n\n|  | x|  ");
    check_pieces("llama3", "2|.|5" HALF);
}

static void test_pretokenizer_default(void **state) {
    check_pieces("default", "a|+|b|,...|c");
    check_pieces("default", "x| |123|456|78");
    check_pieces("", "it|'|s"); /* punctuation is cut first */
    check_pieces("default", "a| `|b");
}

/* Both halves of a word take letters beyond ASCII, and a contraction stays with its word. */
static void test_pretokenizer_gpt4o(void **state) {
    check_pieces("gpt-4o", "Hello| World|HELLOworld");
    check_pieces("gpt-4o", "hello|World's| Don't| I'M|'x");
    check_pieces("gpt-4o", "123|4|,/\n//\n|x");
    check_pieces("gpt-4o", HAN "|AB| " HAN "b|B" HAN "|C");
    check_pieces("llama4", "A\xc3\x89"
                           "a|B\xc3\xa9|A");
    check_pieces("gpt-4o", "e|" ACUTE "x");
    check_pieces("tekken", "hello|World|'s|1|2| \n| x");
}

static void test_pretokenizer_deepseek(void **state) {
    check_pieces("deepseek-llm", "Hello| world|!|\n|\n|x");
    check_pieces("deepseek-llm", "a|   | b|   ");
    check_pieces("deepseek-llm", " |12|" HAN HAN "|3|\xc3\xa9|a");
    check_pieces("deepseek-llm", " |1"); /* spaces before a character that no expression takes */
    check_pieces("deepseek-coder", "Hello| world|!|\n| |1|2|" HAN HAN "|$|a");
    check_pieces("deepseek-v3", "123|4|" HAN HAN "|.abc| ,|x| e" ACUTE "x");
    check_pieces("deepseek-v3", "a|()\r\n|  | b|\n \n");
    check_pieces("spark2_5", "a|()|\n|\n|  | b|1|2|3");
}

/* Checks what only one family does. */
static void test_pretokenizer_others(void **state) {
    check_pieces("falcon", "a|`|b|123|45| it|'|s");
    check_pieces("bloom", "Hello| world|, (|x|).|" HAN "|\xe3\x80\x82");
    check_pieces("viking", "a| |1|2|b|,| c");
    check_pieces("chameleon", "<|sentinel|:|1|2|>|a|    |b|  |c|\t|IMGIMGAZ|+|1| d");
    check_pieces("bailingmoe", "\n\n| x|'T");
    check_pieces("seed-coder", "!|\n\n|a|1|2");
    check_pieces("exaone-moe", "it|'s| a b c|1|!//\n|x");
    check_pieces("ufakzeka", "Ankara|'dan|1|2");
    check_pieces("laguna", "a|\n\n|b| |\n|  | c");
    check_pieces("minicpm5", "123|45|x| |6");
    check_pieces("youtu", "AB" ACUTE "'s|1|2|\xef\xbc\x81\xe3\x80\x81|a|\xed\x95\x9c|b");
    check_pieces("qwen35", "e" ACUTE "x" ACUTE "|1|1");
}

/* PCRE2 may know an older Unicode than the models: a newer character is taken for an older one of its class. */
static void test_pretokenizer_newer_unicode(void **state) {
    check_pieces("qwen35", "a" EXTENSION_H "\xe0\xb3\xb3x"); /* U+0CF3, a mark since Unicode 15 */
    check_pieces("deepseek-v3", "a|\xf0\x9f\xab\xa8!|\xf0\x91\xbd\x90|\xf0\x91\xbd\x83"); /* symbol, number, sign */
    check_pieces("qwen2", "\xf0\x91\xbd\x90|\xf0\x91\xbd\x99|\xe2\xbf\xbc");
}

static void check_family(const char *name, const char *family, bool whole_words_first, bool adds_bos) {
    _cleanup_(pretokenizer_freep) Pretokenizer *pretokenizer = new_pretokenizer(name);

    assert_string_equal(pretokenizer_name(pretokenizer), family);
    assert_int_equal(pretokenizer_whole_words_first(pretokenizer), whole_words_first);
    assert_int_equal(pretokenizer_adds_bos(pretokenizer), adds_bos);
    assert_true(pretokenizer_memory_bytes(pretokenizer) > 100);
}

static void test_pretokenizer_names(void **state) {
    Pretokenizer *pretokenizer = NULL;
    ErrText err;

    check_family("phi-2", "gpt2", false, false);
    check_family("smollm", "smollm", false, false);
    check_family("deepseek-r1-qwen", "qwen2", false, false);
    check_family("llama-v3", "llama-bpe", true, true);
    check_family("glm4", "glm4", true, false);
    check_family("llama4", "gpt-4o", false, false);
    check_family("tekken", "tekken", true, true);
    check_family("dbrx", "dbrx", false, false);
    assert_int_equal(pretokenizer_new(&pretokenizer, "qwen", 4, &err), PRETOKENIZER_E_UNKNOWN);
    assert_non_null(strstr(err.text, "\"qwen\""));
    for (size_t i = 0; pretokenizer_family_at(i); i++)
        assert_non_null(strstr(err.text, pretokenizer_family_at(i)->name));
    assert_non_null(strstr(err.text, "use a model with one of these"));
    for (size_t i = 0; pretokenizer_known(i); i++)
        pretokenizer_free(new_pretokenizer(pretokenizer_known(i)));
    assert_int_equal(pretokenizer_new(&pretokenizer, "qwen2\0", 6, &err), PRETOKENIZER_E_UNKNOWN);
    assert_null(pretokenizer);
}

/* docs/tokenizers.md lists all families and names. */
static void test_pretokenizer_names_are_documented(void **state) {
    _cleanup_(freep) char *page = NULL;
    size_t len_bytes;
    const char *name;
    ErrText err;

    assert_int_equal(file_slurp("docs/tokenizers.md", 1 << 20, &page, &len_bytes, &err), 0);
    for (size_t i = 0; (name = pretokenizer_known(i)); i++) {
        char quoted[64];

        snprintf(quoted, sizeof(quoted), "`%s`", name);
        if (*name && !strstr(page, quoted))
            fail_msg("docs/tokenizers.md does not have %s", quoted);
    }
}

/* A byte that is no UTF-8 is a character, and neither letter nor number nor space. Its neighbours do not change. */
static void test_pretokenizer_ill_formed(void **state) {
    check_pieces("qwen2", "a|\xff"
                          "b| \xff\xfe|c");
    check_pieces("gpt-2", "a|\xff|b|\xe2\x82");
    check_pieces("gpt-2", "\xed\xa0\x80|a|\xc0\x80|1|\xf5\x80\x80\x80");
    check_pieces("default", "a|\xff|.");
}

/* The expressions backtrack over runs of spaces; a limit or a small stack must not lose text. */
static void test_pretokenizer_long_runs(void **state) {
    static const char *const names[] = { "gpt-2",  "smollm",       "qwen2",       "llama-bpe", "default",
                                         "gpt-4o", "deepseek-llm", "deepseek-v3", "exaone-moe" };
    static const char *const units[] = { " ", "\n",   "\r",   " \n", "a",     "1",   "!",          NBSP, "\xe6\x97\xa5",
                                         "'", "\xff", "a a ", "aA",  HAN "A", ACUTE, "e" ACUTE " " };
    static const size_t n_bytes = 1 << 20;
    _cleanup_(freep) char *text = malloc(n_bytes + 1);

    assert_non_null(text);
    for (size_t u = 0; u < ARRAY_LEN(units); u++) {
        size_t unit_bytes = strlen(units[u]), n = n_bytes / unit_bytes * unit_bytes;

        for (size_t i = 0; i < n; i++)
            text[i] = units[u][i % unit_bytes];
        text[n] = 'x'; /* the expressions look behind the run */
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
            _cleanup_(pretokenizer_freep) Pretokenizer *pretokenizer = new_pretokenizer(names[i]);
            _cleanup_(piece_list_deinit) PieceList list = { 0 };
            size_t sum_bytes = 0;
            ErrText err = { 0 };

            if (pretokenizer_split(pretokenizer, text, n + 1, &list, &err))
                fail_msg("%s: %s", names[i], err.text);
            for (size_t k = 0; k < list.n; k++) {
                assert_true(list.len_bytes[k] > 0);
                sum_bytes += list.len_bytes[k];
            }
            assert_int_equal(sum_bytes, n + 1);
            if (u == 0) /* all spaces but one (or all before a word that takes none) are one piece */
                assert_in_range(list.n, 2, 3);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pretokenizer_gpt2),       cmocka_unit_test(test_pretokenizer_gpt2_runs),
        cmocka_unit_test(test_pretokenizer_smollm),     cmocka_unit_test(test_pretokenizer_qwen2),
        cmocka_unit_test(test_pretokenizer_llama_bpe),  cmocka_unit_test(test_pretokenizer_default),
        cmocka_unit_test(test_pretokenizer_gpt4o),      cmocka_unit_test(test_pretokenizer_deepseek),
        cmocka_unit_test(test_pretokenizer_others),     cmocka_unit_test(test_pretokenizer_newer_unicode),
        cmocka_unit_test(test_pretokenizer_names),      cmocka_unit_test(test_pretokenizer_names_are_documented),
        cmocka_unit_test(test_pretokenizer_ill_formed), cmocka_unit_test(test_pretokenizer_long_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
