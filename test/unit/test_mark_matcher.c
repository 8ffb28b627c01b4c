/* Special tokens in text: against the rule as it is stated, token by token. */
#undef NDEBUG
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "engine/mark_matcher.h"
#include "test/unit/tokenizer_fixture.h"

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
    if (fixture_init(fixture, &spec) || vocab_init(vocab, fixture->file, false, &fixture->err) ||
        mark_matcher_init(matcher, vocab, 1u << TOKEN_USER_DEFINED, "fixture", &fixture->err))
        fail_msg("%s", fixture->err.text);
}

/* owner[i]: the token that took position i (plus one), by falling length, each from the left in what is free. */
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

        for (size_t i = 0; i < marks.n; i++) { /* two letters: overlaps everywhere; a length may be there twice */
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
            assert_int_equal(mark_matcher_find(&matcher, text, n, &hits, &n_hits), 0);
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

/* Gemma's runs of spaces: the longest first, the rest by what is left. */
static void test_mark_matcher_runs(void **state) {
    Marks marks = { .n = 4, .texts = { "\n", "\n\n", "\n\n\n", "</a>" }, .types = { 4, 4, 4, 4 } };
    _cleanup_(freep) MarkHit *hits = NULL;
    TokenizerFixture fixture;
    MarkMatcher matcher;
    size_t n_hits = 0;
    Vocab vocab;

    load_marks(&marks, &fixture, &vocab, &matcher);
    assert_int_equal(mark_matcher_find(&matcher, "\n\n\n\n\n</a>\n", 10, &hits, &n_hits), 0);
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
    assert_int_equal(mark_matcher_find(&matcher, "aaa", 3, &hits, &n_hits), 0);
    assert_int_equal(n_hits, 0);
    assert_null(hits);
    mark_matcher_deinit(&matcher);
    vocab_deinit(&vocab);
    fixture_deinit(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mark_matcher_equals_rule),
        cmocka_unit_test(test_mark_matcher_runs),
        cmocka_unit_test(test_mark_matcher_without_marks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
