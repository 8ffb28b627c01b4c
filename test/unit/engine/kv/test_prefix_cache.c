// SPDX-License-Identifier: Apache-2.0
/* The tree of kept prefixes: beside a naive model that compares a prompt with every text; its limits, the order of
 * eviction, the separation of users, and its answers when nothing is kept. Every page carries the tokens it stands
 * for. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/memory/page_size.h"
#include "base/min_max.h"
#include "engine/kv/prefix_cache.h"
#include "test/unit/fixtures/model_maker.h"

#define PAGE_BYTES page_size()

enum {
    PAGE = 12, /* positions */
    TEXT_MAX = 7 * PAGE,
    TEXTS = 300,
    PAGES_MAX = TEXT_MAX / PAGE + 1,
};

typedef struct Text {
    uint32_t tokens[TEXT_MAX];
    size_t n;
} Text;

static AccountTable accounts;
static uint64_t seed;

static int setup(void **state) {
    account_table_init(&accounts);
    seed = 20260101;
    return 0;
}

/* Neither pages nor nodes are left. */
static int teardown(void **state) {
    assert_int_equal(accounts.total_bytes, 0);
    return 0;
}

static PrefixCache *make(uint64_t limit_pages) {
    PrefixCache *cache;

    assert_int_equal(prefix_cache_new(&cache, limit_pages * PAGE_BYTES), 0);
    return cache;
}

static PrefixOwner owner(uintptr_t model, uint64_t user) {
    return (PrefixOwner){ (const void *)model, user, PAGE, &accounts };
}

static size_t pages_of(size_t n) {
    return (n + PAGE - 1) / PAGE;
}

/* Makes the pages of a sequence that has computed the text: each holds its tokens. */
static void take_pages(const Text *text, KvPage **pages) {
    for (size_t i = 0; i < pages_of(text->n); i++) {
        const size_t n = MIN(text->n - i * PAGE, PAGE);

        assert_int_equal(kv_page_new(&pages[i], &accounts, PAGE_BYTES), 0);
        memcpy(pages[i]->memory.data, text->tokens + i * PAGE, n * sizeof(*text->tokens));
    }
}

static void leave_pages(const Text *text, KvPage **pages) {
    for (size_t i = 0; i < pages_of(text->n); i++)
        kv_page_unuse(pages[i]);
}

static void put(PrefixCache *cache, PrefixOwner whose, const Text *text, bool grows, PrefixPin *pin) {
    KvPage *pages[PAGES_MAX];

    take_pages(text, pages);
    prefix_cache_put(cache, &whose, text->tokens, text->n, pages, grows, pin);
    leave_pages(text, pages);
}

/* Checks that matched pages are those of the prompt. */
static PrefixMatch match(PrefixCache *cache, PrefixOwner whose, const Text *prompt) {
    static KvPage *pages[PAGES_MAX];
    PrefixMatch found = { .pages = pages };

    prefix_cache_match(cache, &whose, prompt->tokens, prompt->n, false, &found);
    assert_true(found.n_tokens < prompt->n || !prompt->n);
    assert_int_equal(found.n_pages, pages_of(found.n_tokens));
    for (size_t i = 0; i < found.n_pages; i++) {
        const size_t n = MIN(found.n_tokens - i * PAGE, PAGE);

        assert_memory_equal(pages[i]->memory.data, prompt->tokens + i * PAGE, n * sizeof(*prompt->tokens));
    }
    return found;
}

static size_t n_matched(PrefixCache *cache, const Text *prompt) {
    return match(cache, owner(1, 1), prompt).n_tokens;
}

/* Makes n tokens of one kind. */
static Text plain(uint32_t token, size_t n) {
    Text text = { .n = n };

    for (size_t i = 0; i < n; i++)
        text.tokens[i] = token;
    return text;
}

/* Makes the first n tokens of one text, then another kind up to `total`. */
static Text branch(const Text *from, size_t n, uint32_t token, size_t total) {
    Text text = plain(token, total);

    memcpy(text.tokens, from->tokens, n * sizeof(*text.tokens));
    return text;
}

/* Makes a text that shares a random prefix with an earlier one, of few kinds of tokens. */
static Text random_text(const Text *earlier, size_t n_earlier) {
    Text text = { .n = test_random(&seed) % (TEXT_MAX + 1) };
    const Text *from = n_earlier ? &earlier[test_random(&seed) % n_earlier] : &text;
    size_t same = n_earlier ? test_random(&seed) % (from->n + 1) : 0;

    for (size_t i = 0; i < text.n; i++)
        text.tokens[i] = i < same ? from->tokens[i] : (uint32_t)(test_random(&seed) % 3);
    return text;
}

static size_t in_common(const Text *a, const Text *b, size_t n_max) {
    size_t i = 0;

    while (i < a->n && i < b->n && i < n_max && a->tokens[i] == b->tokens[i])
        i++;
    return i;
}

/* Returns what a cache without a limit must find. */
static size_t naive_match(const Text *kept, size_t n_kept, const bool *grows, const Text *prompt) {
    size_t best = 0;

    for (size_t i = 0; i < n_kept; i++) {
        size_t same = in_common(&kept[i], prompt, prompt->n ? prompt->n - 1 : 0);

        if (grows[i] && same > kept[i].n / PAGE * PAGE)
            same = kept[i].n / PAGE * PAGE;
        best = MAX(same, best);
    }
    return best % PAGE < PREFIX_TOKENS_MIN ? best / PAGE * PAGE : best;
}

static void test_prefix_cache_against_naive(void **state) {
    static Text kept[TEXTS];
    static bool grows[TEXTS];
    PrefixCache *cache = make(1000000);
    size_t n_long = 0;

    for (size_t i = 0; i < TEXTS; i++) {
        for (size_t j = 0; j < 20; j++) {
            const Text prompt = random_text(kept, i);
            const size_t expected = naive_match(kept, i, grows, &prompt);

            assert_int_equal(n_matched(cache, &prompt), expected);
            n_long += expected > 2 * PAGE;
        }
        kept[i] = random_text(kept, i);
        grows[i] = test_random(&seed) % 4 == 0;
        put(cache, owner(1, 1), &kept[i], grows[i], NULL);
    }
    assert_true(n_long > TEXTS);
    prefix_cache_free(cache);
}

/* With a limit a match is right and never too long, the limit holds, and the text that was put last is there. */
static void test_prefix_cache_limited(void **state) {
    static Text kept[TEXTS];
    static bool grows[TEXTS];

    for (uint64_t limit = 1; limit <= 40; limit += limit < 9 ? 1 : 15) {
        PrefixCache *cache = make(limit);

        for (size_t i = 0; i < TEXTS; i++) {
            Text again;

            for (size_t j = 0; j < 5; j++) {
                const Text prompt = random_text(kept, i);

                assert_true(n_matched(cache, &prompt) <= naive_match(kept, i, grows, &prompt));
            }
            kept[i] = random_text(kept, i);
            put(cache, owner(1, 1), &kept[i], false, NULL);
            assert_true(prefix_cache_kept_bytes(cache) <= limit * PAGE_BYTES);
            assert_true(accounts.used_bytes[ACCOUNT_CACHE] >= prefix_cache_kept_bytes(cache));
            assert_int_equal(accounts.used_bytes[ACCOUNT_KV], 0);
            if (pages_of(kept[i].n) > limit || kept[i].n == TEXT_MAX || kept[i].n % PAGE < PREFIX_TOKENS_MIN)
                continue;
            again = branch(&kept[i], kept[i].n, 1, kept[i].n + 1);
            assert_int_equal(n_matched(cache, &again), kept[i].n);
        }
        prefix_cache_free(cache);
    }
}

/* Texts of one page each: the cache has those that a list in the order of use would have. */
static void test_prefix_cache_order(void **state) {
    enum {
        LIMIT = 5,
        KINDS = 12
    };
    PrefixCache *cache = make(LIMIT);
    uint32_t list[KINDS + 1];
    size_t n = 0;

    for (size_t step = 0; step < 2000; step++) {
        const uint32_t kind = (uint32_t)(test_random(&seed) % KINDS);
        const Text text = plain(100 + kind, PAGE), prompt = plain(100 + kind, PAGE + 1);
        size_t place = 0;

        while (place < n && list[place] != kind)
            place++;
        if (test_random(&seed) % 2) {
            const PrefixMatch found = match(cache, owner(1, 1), &prompt);

            assert_int_equal(found.n_tokens, place < n ? PAGE : 0);
            if (place == n)
                continue;
        } else {
            put(cache, owner(1, 1), &text, false, NULL);
        }
        n -= place < n;
        memmove(list + 1, list, place * sizeof(*list));
        list[0] = kind;
        n = MIN(n + 1, LIMIT);
    }
    assert_int_equal(prefix_cache_kept_bytes(cache), LIMIT * PAGE_BYTES);
    prefix_cache_free(cache);
}

/* Many texts of one user evict what another keeps beyond an equal share, and no page more, with or without sessions. */
static void test_prefix_cache_shares(void **state) {
    PrefixCache *cache = make(8);
    PrefixPin pins[20] = { 0 };
    Text text = plain(7, 6 * PAGE), prompt = plain(7, 6 * PAGE + 1);

    put(cache, owner(1, 1), &text, false, NULL);
    for (uint32_t i = 0; i < 20; i++) {
        text = plain(100 + i, PAGE);
        put(cache, owner(1 + i % 2, 2), &text, false,
            i < 10 ? NULL : &pins[i]); /* texts of two models, then of sessions */
        assert_true(n_matched(cache, &prompt) >= 4 * PAGE);
    }
    assert_int_equal(n_matched(cache, &prompt), 4 * PAGE);
    assert_int_equal(prefix_cache_kept_bytes(cache), 8 * PAGE_BYTES);
    /* Both other users make room for a third one's share; a user alone may have all. */
    text = plain(9, 7 * PAGE);
    put(cache, owner(1, 3), &text, false, NULL);
    assert_in_range(n_matched(cache, &prompt), 2 * PAGE, 3 * PAGE);
    for (uint32_t i = 0; i < 20; i++)
        prefix_pin_release(cache, &pins[i]);
    prefix_cache_drop_all(cache);
    put(cache, owner(1, 3), &text, false, NULL);
    assert_int_equal(prefix_cache_kept_bytes(cache), 7 * PAGE_BYTES);
    prefix_cache_free(cache);
}

static void test_prefix_cache_owners(void **state) {
    PrefixCache *cache = make(100);
    const Text text = plain(7, 30), prompt = plain(7, 40);

    put(cache, owner(1, 1000), &text, false, NULL);
    assert_int_equal(match(cache, owner(1, 1000), &prompt).n_tokens, 30 / PAGE * PAGE); /* 6 pages more are too few */
    assert_int_equal(match(cache, owner(1, 1001), &prompt).n_tokens, 0);
    assert_int_equal(match(cache, owner(1, 1001), &prompt).outcome, PREFIX_FIRST_USE);
    assert_int_equal(match(cache, owner(2, 1000), &prompt).outcome, PREFIX_FIRST_USE);
    put(cache, owner(2, 1000), &text, false, NULL);
    prefix_cache_drop_model(cache, (const void *)1);
    assert_int_equal(match(cache, owner(1, 1000), &prompt).outcome, PREFIX_FIRST_USE);
    assert_int_equal(match(cache, owner(2, 1000), &prompt).n_tokens, 24);
    prefix_cache_free(cache);
}

static void test_prefix_cache_outcomes(void **state) {
    PrefixCache *cache = make(4);
    const Text text = plain(7, 34);
    Text prompt = plain(7, 1);

    assert_int_equal(match(cache, owner(1, 1), &prompt).outcome, PREFIX_TOO_SHORT);
    prompt = plain(7, 34);
    assert_int_equal(match(cache, owner(1, 1), &prompt).outcome, PREFIX_FIRST_USE);
    put(cache, owner(1, 1), &text, false, NULL);
    assert_int_equal(match(cache, owner(1, 1), &prompt).outcome, PREFIX_WHOLE);
    assert_int_equal(match(cache, owner(1, 1), &prompt).n_tokens, 33);
    prompt = plain(7, 50);
    assert_int_equal(match(cache, owner(1, 1), &prompt).outcome, PREFIX_NEW_TEXT);
    assert_int_equal(match(cache, owner(1, 1), &prompt).n_tokens, 34);
    prompt = branch(&text, 33, 8, 50);
    assert_int_equal(match(cache, owner(1, 1), &prompt).outcome, PREFIX_DIFFERENT);
    assert_int_equal(match(cache, owner(1, 1), &prompt).n_tokens, 33);
    prompt = branch(&text, PREFIX_TOKENS_MIN - 1, 8, 50);
    assert_int_equal(match(cache, owner(1, 1), &prompt).outcome, PREFIX_TOO_SHORT);
    assert_int_equal(match(cache, owner(1, 1), &prompt).n_tokens, 0);
    prompt = plain(9, 50);
    assert_int_equal(match(cache, owner(1, 1), &prompt).outcome, PREFIX_DIFFERENT);
    /* The third page goes first, then the second. */
    prompt = plain(9, 2 * PAGE);
    put(cache, owner(1, 1), &prompt, false, NULL);
    prompt = plain(7, 50);
    assert_int_equal(match(cache, owner(1, 1), &prompt).outcome, PREFIX_EVICTED);
    assert_int_equal(match(cache, owner(1, 1), &prompt).n_tokens, 2 * PAGE);
    prompt = plain(7, 2 * PAGE + 5); /* less than the evicted page, whose hash covers the whole page */
    assert_int_equal(match(cache, owner(1, 1), &prompt).outcome, PREFIX_NEW_TEXT);
    assert_true(prefix_cache_give_back(cache, 4 * PAGE_BYTES));
    prompt = plain(7, 50);
    assert_int_equal(match(cache, owner(1, 1), &prompt).outcome, PREFIX_EVICTED);
    prefix_cache_free(cache);
}

/* Memory is given back only if there is enough of it, and never from under a sequence. */
static void test_prefix_cache_give_back(void **state) {
    PrefixCache *cache = make(100);
    const Text text = plain(7, 5 * PAGE), prompt = plain(7, 5 * PAGE + 1);
    PrefixMatch found;

    put(cache, owner(1, 1), &text, false, NULL);
    found = match(cache, owner(1, 1), &prompt);
    assert_int_equal(kv_page_use(found.pages[0]), 0);
    assert_int_equal(accounts.used_bytes[ACCOUNT_KV], PAGE_BYTES);
    assert_false(prefix_cache_give_back(cache, 5 * PAGE_BYTES));
    assert_int_equal(prefix_cache_kept_bytes(cache), 5 * PAGE_BYTES);
    assert_true(prefix_cache_give_back(cache, 2 * PAGE_BYTES));
    assert_int_equal(n_matched(cache, &prompt), 3 * PAGE);
    assert_true(prefix_cache_give_back(cache, 2 * PAGE_BYTES));
    assert_int_equal(n_matched(cache, &prompt), PAGE);
    assert_int_equal(accounts.used_bytes[ACCOUNT_KV], PAGE_BYTES);
    found = match(cache, owner(1, 1), &prompt);
    prefix_cache_drop_all(cache);
    assert_int_equal(accounts.used_bytes[ACCOUNT_CACHE], 0);
    assert_memory_equal(found.pages[0]->memory.data, text.tokens, PAGE * sizeof(*text.tokens));
    kv_page_unuse(found.pages[0]);
    /* A full account keeps a sequence from using kept pages. */
    put(cache, owner(1, 1), &text, false, NULL);
    found = match(cache, owner(1, 1), &prompt);
    accounts.limit_bytes[ACCOUNT_KV] = PAGE_BYTES;
    assert_int_equal(kv_page_use(found.pages[0]), 0);
    assert_int_equal(kv_page_use(found.pages[1]), ACCOUNT_E_LIMIT);
    accounts.limit_bytes[ACCOUNT_KV] = UINT64_MAX;
    kv_page_unuse(found.pages[0]);
    prefix_cache_free(cache);
}

/* A text that grows gives whole pages; a longer end replaces a shorter one. */
static void test_prefix_cache_growing(void **state) {
    PrefixCache *cache = make(100);
    Text text = plain(7, PAGE + 9), prompt = plain(7, 6 * PAGE);

    put(cache, owner(1, 1), &text, true, NULL);
    assert_int_equal(n_matched(cache, &prompt), PAGE);
    put(cache, owner(1, 1), &text, false, NULL);
    assert_int_equal(n_matched(cache, &prompt), PAGE + 9);
    assert_int_equal(prefix_cache_kept_bytes(cache), 2 * PAGE_BYTES);
    text = plain(7, PAGE + 10);
    put(cache, owner(1, 1), &text, false, NULL);
    assert_int_equal(prefix_cache_kept_bytes(cache), 2 * PAGE_BYTES);
    text = plain(7, PAGE + 8); /* no new page */
    put(cache, owner(1, 1), &text, false, NULL);
    assert_int_equal(n_matched(cache, &prompt), PAGE + 10);
    text = plain(7, 3 * PAGE);
    put(cache, owner(1, 1), &text, false, NULL);
    assert_int_equal(n_matched(cache, &prompt), 3 * PAGE);
    assert_int_equal(prefix_cache_kept_bytes(cache), 3 * PAGE_BYTES);
    prefix_cache_free(cache);
}

/* Texts that a session holds are evicted last; when its pin is released, texts that only sessions used are dropped. */
static void test_prefix_cache_pins(void **state) {
    PrefixCache *cache = make(4);
    const Text shared = plain(7, PAGE), mine = branch(&shared, PAGE, 8, 2 * PAGE), other = plain(9, PAGE);
    const Text my_prompt = branch(&shared, PAGE, 8, 2 * PAGE + 1), shared_prompt = plain(7, PAGE + 1);
    PrefixPin pin = { 0 }, fork = { 0 }, gone = { 0 };

    put(cache, owner(1, 1), &shared, false, NULL);
    put(cache, owner(1, 1), &mine, false, &pin);
    for (uint32_t i = 0; i < 10; i++) {
        const Text text = plain(20 + i, PAGE);

        put(cache, owner(1, 1), &text, false, NULL);
    }
    assert_int_equal(n_matched(cache, &my_prompt), 2 * PAGE);
    prefix_pin_copy(&fork, &pin);
    prefix_pin_release(cache, &pin);
    put(cache, owner(1, 1), &mine, false, &fork);
    assert_int_equal(prefix_cache_kept_bytes(cache), 4 * PAGE_BYTES);
    prefix_pin_release(cache, &fork);
    /* A request without a session has read the text. */
    assert_int_equal(n_matched(cache, &my_prompt), 2 * PAGE);
    prefix_cache_drop_all(cache);
    put(cache, owner(1, 1), &shared, false, NULL);
    put(cache, owner(1, 1), &mine, false, &pin);
    prefix_pin_copy(&fork, &pin);
    prefix_pin_release(cache, &pin);
    assert_int_equal(prefix_cache_kept_bytes(cache), 2 * PAGE_BYTES);
    prefix_pin_release(cache, &fork);
    assert_int_equal(prefix_cache_kept_bytes(cache), PAGE_BYTES);
    assert_int_equal(n_matched(cache, &shared_prompt), PAGE);
    /* Pinned texts are evicted if there are no others; pins may live on. */
    put(cache, owner(1, 1), &mine, false, &pin);
    put(cache, owner(1, 1), &other, false, &gone);
    assert_true(prefix_cache_give_back(cache, 2 * PAGE_BYTES));
    assert_int_equal(prefix_cache_kept_bytes(cache), PAGE_BYTES);
    assert_true(prefix_cache_give_back(cache, PAGE_BYTES));
    assert_true(!pin.node && !gone.node);
    prefix_pin_release(cache, &pin);
    put(cache, owner(1, 1), &other, false, &gone);
    prefix_cache_free(cache);
    assert_null(gone.node);
}

/* A fork that was asked for earlier is made only now, behind the first answer in the new session: the pin stays in one
 * place. */
static void test_prefix_cache_pin_late_copy(void **state) {
    PrefixCache *cache = make(4);
    const Text early = plain(7, PAGE), late = branch(&early, PAGE, 8, 2 * PAGE);
    PrefixPin pin = { 0 }, fork = { 0 };

    put(cache, owner(1, 1), &early, false, &pin);
    put(cache, owner(1, 1), &late, false, &fork);
    prefix_pin_copy(&fork, &pin);
    prefix_pin_release(cache, &pin);
    assert_int_equal(prefix_cache_kept_bytes(cache), 2 * PAGE_BYTES);
    prefix_pin_release(cache, &fork);
    memset(&fork, 0xff, sizeof(fork)); /* no pin leads to it any more */
    assert_int_equal(prefix_cache_kept_bytes(cache), 0);
    prefix_cache_free(cache);
}

#define FRESH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        FRESH(test_prefix_cache_against_naive), FRESH(test_prefix_cache_limited), FRESH(test_prefix_cache_order),
        FRESH(test_prefix_cache_shares),        FRESH(test_prefix_cache_owners),  FRESH(test_prefix_cache_outcomes),
        FRESH(test_prefix_cache_give_back),     FRESH(test_prefix_cache_growing), FRESH(test_prefix_cache_pins),
        FRESH(test_prefix_cache_pin_late_copy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
