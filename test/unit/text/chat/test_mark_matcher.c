// SPDX-License-Identifier: Apache-2.0
/* Special tokens in text, compared with a plain form of the rule, token by token. */
#undef NDEBUG
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "test/unit/text/tokenizer/tokenizer_fixture.h"
#include "text/chat/mark_matcher.h"

#define TEXT_MAX 80
#define MARKS_MAX 12

typedef struct Marks {
    char texts[MARKS_MAX][16];
    const char *pointers[MARKS_MAX];
    float scores[MARKS_MAX];
    int32_t types[MARKS_MAX];
    size_t n;
} Marks;

static uint64_t next_random(uint64_t *random) {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    return *random ^= *random << 17;
}

static void load_marks(Marks *marks, TokenizerFixture *fixture, Vocab *vocab, MarkMatcher *matcher) {
    TokenizerSpec spec = { .model = "llama",
                           .tokens = marks->pointers,
                           .n_tokens = marks->n,
                           .types = marks->types,
                           .n_types = marks->n,
                           .scores = marks->scores,
                           .n_scores = marks->n };

    for (size_t i = 0; i < marks->n; i++)
        marks->pointers[i] = marks->texts[i];
    if (fixture_init(fixture, &spec) || vocab_init(vocab, fixture->file, false, &(ChatMarks){ 0 }, &fixture->err) ||
        mark_matcher_init(matcher, vocab, 1u << TOKEN_USER_DEFINED, "fixture", &fixture->err))
        fail_msg("%s", fixture->err.text);
}

/* Computes owner[i], the token + 1 that took byte i: tokens by falling length, each from the left in free bytes. */
static void find_plainly(const Marks *marks, const char *text, size_t len_bytes, uint32_t *owner, size_t *starts) {
    memset(owner, 0, len_bytes * sizeof(*owner));
    memset(starts, 0, len_bytes * sizeof(*starts));
    for (size_t length = 15; length; length--)
        for (size_t i = 0; i + length <= len_bytes; i++)
            for (uint32_t id = 0; id < marks->n; id++) {
                bool is_free = true;

                if (marks->types[id] != TOKEN_USER_DEFINED || strlen(marks->texts[id]) != length ||
                    memcmp(marks->texts[id], text + i, length))
                    continue;
                for (size_t k = 0; k < length; k++)
                    is_free = is_free && !owner[i + k];
                if (!is_free)
                    continue;
                for (size_t k = 0; k < length; k++)
                    owner[i + k] = id + 1;
                starts[i] = length;
            }
}

static void test_mark_matcher_equals_rule(void **state) {
    uint64_t random = (uint64_t)time(NULL) * 2654435761u | 1;

    print_message("seed %" PRIu64 "\n", random);
    for (int round = 0; round < 3000; round++) {
        Marks marks = { .n = 1 + next_random(&random) % MARKS_MAX };
        TokenizerFixture fixture;
        MarkMatcher matcher;
        Vocab vocab;

        for (size_t i = 0; i < marks.n; i++) { /* two letters make overlaps everywhere; two marks may have one length */
            size_t length = 1 + next_random(&random) % 9;

            for (size_t k = 0; k < length; k++)
                marks.texts[i][k] = next_random(&random) % 4 ? 'a' : 'b';
            marks.types[i] = next_random(&random) % 5 ? TOKEN_USER_DEFINED : TOKEN_CONTROL;
        }
        load_marks(&marks, &fixture, &vocab, &matcher);
        for (int t = 0; t < 10; t++) {
            _cleanup_(freep) MarkHit *hits = NULL;
            size_t n = next_random(&random) % TEXT_MAX, n_hits = 0, at = 0, starts[TEXT_MAX];
            uint32_t owner[TEXT_MAX];
            char text[TEXT_MAX];

            for (size_t i = 0; i < n; i++)
                text[i] = (char)(next_random(&random) % 8 ? 'a' : 'b' + next_random(&random) % 2);
            find_plainly(&marks, text, n, owner, starts);
            assert_int_equal(mark_matcher_find(&matcher, text, n, NULL, &hits, &n_hits), 0);
            for (size_t i = 0; i < n; i++) {
                if (!starts[i])
                    continue;
                assert_true(at < n_hits);
                assert_int_equal(hits[at].offset, i);
                assert_int_equal(hits[at].id + 1, owner[i]);
                at++;
            }
            assert_int_equal(at, n_hits);
        }
        mark_matcher_deinit(&matcher);
        vocab_deinit(&vocab);
        fixture_deinit(&fixture);
    }
}

/* Gemma's runs of spaces: the longest first, shorter ones in the remaining spaces. */
static void test_mark_matcher_runs(void **state) {
    Marks marks = { .n = 4, .texts = { "\n", "\n\n", "\n\n\n", "</a>" }, .types = { 4, 4, 4, 4 } };
    _cleanup_(freep) MarkHit *hits = NULL;
    TokenizerFixture fixture;
    MarkMatcher matcher;
    size_t n_hits = 0;
    Vocab vocab;

    load_marks(&marks, &fixture, &vocab, &matcher);
    assert_int_equal(mark_matcher_find(&matcher, "\n\n\n\n\n</a>\n", 10, NULL, &hits, &n_hits), 0);
    assert_int_equal(n_hits, 4);
    assert_int_equal(hits[0].id, 2);
    assert_int_equal(hits[1].id, 1);
    assert_int_equal(hits[1].offset, 3);
    assert_int_equal(hits[2].id, 3);
    assert_int_equal(hits[3].id, 0);
    assert_int_equal(hits[3].offset, 9);
    assert_true(mark_matcher_memory_bytes(&matcher) > 0);
    mark_matcher_deinit(&matcher);
    vocab_deinit(&vocab);
    fixture_deinit(&fixture);
}

static void test_mark_matcher_without_marks(void **state) {
    Marks marks = { .n = 1, .texts = { "a" }, .types = { 1 } };
    TokenizerFixture fixture;
    MarkHit *hits = NULL;
    MarkMatcher matcher;
    size_t n_hits = 1;
    Vocab vocab;

    load_marks(&marks, &fixture, &vocab, &matcher);
    assert_int_equal(mark_matcher_find(&matcher, "aaa", 3, NULL, &hits, &n_hits), 0);
    assert_int_equal(n_hits, 0);
    assert_null(hits);
    mark_matcher_deinit(&matcher);
    vocab_deinit(&vocab);
    fixture_deinit(&fixture);
}

/* --- marks that are made to harm ---------------------------------------------------------------------------------- */

#define LONG_BYTES 4096 /* longest mark */
#define N_LONG 256      /* this many longest marks reach the limit of all together */

/* Makes marks of given lengths, in a vocabulary behind the ordinary token "a". */
typedef struct LongMarks {
    char (*texts)[LONG_BYTES + 2];
    const char *pointers[N_LONG + 2];
    float scores[N_LONG + 2];
    int32_t types[N_LONG + 2];
    TokenizerFixture fixture;
    Vocab vocab;
} LongMarks;

/* Two marks share their last byte and no other node, because a mark is read from its end. */
static void long_marks_init(LongMarks *marks, size_t n) {
    *marks = (LongMarks){ .pointers = { "a" }, .types = { TOKEN_NORMAL } };
    marks->texts = calloc(n, sizeof(*marks->texts));
    assert_non_null(marks->texts);
    for (size_t i = 0; i < n; i++) {
        memset(marks->texts[i], 'x', LONG_BYTES);
        marks->texts[i][LONG_BYTES - 2] = i & 0x80 ? '1' : '0';
        marks->texts[i][LONG_BYTES - 1] = (char)(0x80 | i);
        marks->pointers[i + 1] = marks->texts[i];
        marks->types[i + 1] = TOKEN_USER_DEFINED;
    }
}

static int load_long_marks(LongMarks *marks, size_t n, MarkMatcher *matcher, ErrText *err) {
    TokenizerSpec spec = { .model = "llama",
                           .tokens = marks->pointers,
                           .n_tokens = n + 1,
                           .types = marks->types,
                           .n_types = n + 1,
                           .scores = marks->scores,
                           .n_scores = n + 1 };

    if (fixture_init(&marks->fixture, &spec) ||
        vocab_init(&marks->vocab, marks->fixture.file, false, &(ChatMarks){ 0 }, err))
        fail_msg("%s%s", marks->fixture.err.text, err->text);
    return mark_matcher_init(matcher, &marks->vocab, 1u << TOKEN_USER_DEFINED, "fixture", err);
}

static void long_marks_deinit(LongMarks *marks) {
    vocab_deinit(&marks->vocab);
    fixture_deinit(&marks->fixture);
    free(marks->texts);
}

static void check_refused(LongMarks *marks, size_t n, const char *text) {
    ErrText err = { 0 };
    MarkMatcher matcher;

    assert_int_equal(load_long_marks(marks, n, &matcher, &err), VOCAB_E_CORRUPT);
    assert_non_null(strstr(err.text, text));
    mark_matcher_deinit(&matcher);
    vocab_deinit(&marks->vocab);
    fixture_deinit(&marks->fixture);
}

static void test_mark_matcher_bounds_its_marks(void **state) {
    ErrText err = { 0 };
    MarkMatcher matcher;
    LongMarks marks;

    long_marks_init(&marks, N_LONG);
    assert_int_equal(load_long_marks(&marks, N_LONG, &matcher, &err), 0);
    assert_in_range(mark_matcher_memory_bytes(&matcher), N_LONG * LONG_BYTES, 64 * N_LONG * LONG_BYTES);
    mark_matcher_deinit(&matcher);
    vocab_deinit(&marks.vocab);
    fixture_deinit(&marks.fixture);

    marks.pointers[N_LONG + 1] = "<mark>"; /* one byte over the limit of all together */
    marks.types[N_LONG + 1] = TOKEN_USER_DEFINED;
    check_refused(&marks, N_LONG + 1, "with token 257 the special tokens pass 1048576 bytes together: convert");
    marks.texts[1][LONG_BYTES] = 'x';
    check_refused(&marks, 2, "special token 2 has 4097 bytes; at most 4096 can be used: convert");
    marks.types[2] = TOKEN_NORMAL; /* ordinary tokens may be long */
    assert_int_equal(load_long_marks(&marks, 2, &matcher, &err), 0);
    mark_matcher_deinit(&matcher);
    long_marks_deinit(&marks);
}

/* The bytes were chosen so that all edges fall into the first slots of a table without a secret, which takes a
 * quadratic time to build. With a secret the edges lie anywhere. */
static void test_mark_matcher_slots_cannot_be_chosen(void **state) {
    const size_t n = 8;
    uint32_t mask = 2 * (uint32_t)n * LONG_BYTES - 1, random = 1;
    _cleanup_(freep) MarkHit *hits = NULL;
    MarkMatcher matcher;
    LongMarks marks;
    ErrText err = { 0 };
    size_t n_hits = 0;

    long_marks_init(&marks, n);
    for (uint32_t i = 0; i < n; i++) {
        char *text = marks.texts[i];

        text[LONG_BYTES - 1] = (char)('0' + i);
        for (uint32_t from = i * LONG_BYTES + 1, at = LONG_BYTES - 1; at-- > 0; from++) {
            uint32_t lowest = UINT32_MAX;

            text[at] = (char)('A' + (random = random * 1664525u + 1013904223u) / 4 % 26);
            for (uint32_t byte = 0x21; byte < 0x7f; byte++) {
                uint32_t slot = (((from << 8 | byte) + 1) * 0x9e3779b1u) >> 7 & mask;

                if (slot < lowest) {
                    lowest = slot;
                    text[at] = (char)byte;
                }
            }
        }
    }
    assert_int_equal(load_long_marks(&marks, n, &matcher, &err), 0);
    assert_in_range(matcher.table.n_probes_max, 0, 1000);
    assert_int_equal(mark_matcher_find(&matcher, marks.texts[0], LONG_BYTES, NULL, &hits, &n_hits), 0);
    assert_int_equal(n_hits, 1);
    mark_matcher_deinit(&matcher);
    long_marks_deinit(&marks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mark_matcher_equals_rule),
        cmocka_unit_test(test_mark_matcher_runs),
        cmocka_unit_test(test_mark_matcher_without_marks),
        cmocka_unit_test(test_mark_matcher_bounds_its_marks),
        cmocka_unit_test(test_mark_matcher_slots_cannot_be_chosen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
