// SPDX-License-Identifier: Apache-2.0
/* An exchange in every order of what its handler does, what its client does, and the end of the server. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test/unit/gateway/http/http_fixture.h"

enum {
    STEPS = 6,
};

typedef enum Action {
    ACT_BEGIN,
    ACT_ADD,
    ACT_END,
    ACT_REPLY,
    ACT_HALF_CLOSE,
    ACT_CLOSE,
    ACT_RUN, /* the loop */
    _ACT_N,
} Action;

typedef struct Play {
    HttpFixture fixture;
    Action steps[STEPS];
    size_t n_inside, at; /* steps that run within the handler; the next step */
    bool is_legal, is_http_1_0;
    int fd;
    bool is_streaming, is_ended, was_refused, is_half_closed, is_closed;
    unsigned int n_gone, n_added;
} Play;

static void on_gone(void *arg) {
    Play *play = arg;

    assert_false(play->is_ended);
    assert_false(play->was_refused);
    play->n_gone++;
}

/* Whether the handler may still use the exchange. */
static bool has_exchange(const Play *play) {
    return play->fixture.exchange && !play->is_ended && !play->was_refused && !play->n_gone;
}

static bool is_allowed(const Play *play, Action action) {
    switch (action) {
    case ACT_BEGIN:
    case ACT_REPLY:
        return has_exchange(play) && !play->is_streaming;
    case ACT_ADD:
    case ACT_END:
        return has_exchange(play) && play->is_streaming;
    case ACT_HALF_CLOSE:
        return !play->is_half_closed && !play->is_closed;
    case ACT_CLOSE:
        return !play->is_closed;
    default:
        return play->at >= play->n_inside;
    }
}

static void act(Play *play, Action action) {
    switch (action) {
    case ACT_BEGIN:
        exchange_stream_begin(play->fixture.exchange, "text/plain");
        play->is_streaming = true;
        break;
    case ACT_ADD:
        play->was_refused = !exchange_stream_add(play->fixture.exchange, "piece;", 6);
        play->n_added += !play->was_refused;
        break;
    case ACT_END:
        exchange_stream_end(play->fixture.exchange);
        play->is_ended = true;
        break;
    case ACT_REPLY:
        exchange_reply(play->fixture.exchange, 200, "text/plain", "whole", 5);
        play->is_ended = true;
        break;
    case ACT_HALF_CLOSE:
        shutdown(play->fd, SHUT_WR);
        play->is_half_closed = true;
        break;
    case ACT_CLOSE:
        close(play->fd);
        play->is_closed = true;
        break;
    default:
        http_fixture_pump(&play->fixture);
        break;
    }
}

/* Makes the steps up to an index; stops at one that is not allowed. */
static void act_until(Play *play, size_t end) {
    for (; play->is_legal && play->at < end; play->at++) {
        play->is_legal = is_allowed(play, play->steps[play->at]);
        if (play->is_legal)
            act(play, play->steps[play->at]);
    }
}

static void handle(HttpFixture *fixture, Exchange *exchange) {
    Play *play = fixture->arg;

    exchange_on_gone(exchange, on_gone, play);
    act_until(play, play->n_inside);
}

/* Checks that the client has all that the handler has sent. */
static void check_reply(Play *play) {
    StrBuf text = STR_BUF_NULL;
    const char *at;
    unsigned int n = 0;

    http_fixture_pump(&play->fixture);
    http_fixture_read(play->fd, &text);
    assert_non_null(text.data);
    assert_non_null(strstr(text.data, " 200 OK\r\n"));
    if (!play->is_streaming)
        assert_string_equal(text.data + text.len_bytes - 5, "whole");
    for (at = text.data; (at = strstr(at, "piece;")); at++)
        n++;
    assert_int_equal(n, play->n_added);
    if (play->is_streaming && !play->is_http_1_0)
        assert_string_equal(text.data + text.len_bytes - 5, "0\r\n\r\n");
    str_buf_deinit(&text);
}

/* Plays one order. Returns the number of steps that were made. */
static size_t play_order(const Action *steps, size_t n_inside, bool is_http_1_0) {
    Play play = { .n_inside = n_inside, .is_legal = true, .is_http_1_0 = is_http_1_0 };

    memcpy(play.steps, steps, sizeof(play.steps));
    play.fixture.handle = handle;
    play.fixture.arg = &play;
    http_fixture_init(&play.fixture, &http_fixture_limits);
    play.fd = http_fixture_connect(&play.fixture);
    http_fixture_send(&play.fixture, play.fd,
                      is_http_1_0 ? "GET /x HTTP/1.0\r\n\r\n" : "GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(play.fixture.n_handled, 1);
    act_until(&play, STEPS);
    if (play.is_ended && !play.is_closed && !play.is_half_closed)
        check_reply(&play);
    http_fixture_deinit(&play.fixture);
    /* Each exchange ends in one way: by its handler, or by a client that goes, as the end of the server counts. */
    assert_int_equal(play.n_gone + play.is_ended + play.was_refused, 1);
    if (!play.is_closed)
        close(play.fd);
    return play.is_legal ? STEPS : play.at;
}

/* Steps to the next order, past all that begin with the first n steps. false: there is none. */
static bool next_order(Action *steps, size_t n) {
    for (size_t i = n; i < STEPS; i++)
        steps[i] = ACT_BEGIN;
    while (n--) {
        if (++steps[n] < _ACT_N)
            return true;
        steps[n] = ACT_BEGIN;
    }
    return false;
}

/* Plays all orders whose first n_inside steps run within the handler. */
static unsigned int play_all(size_t n_inside, bool is_http_1_0) {
    Action steps[STEPS] = { 0 };
    unsigned int n_whole = 0;
    size_t n;

    do {
        n = play_order(steps, n_inside, is_http_1_0);
        n_whole += n == STEPS;
        n = n < STEPS ? n + 1 : n;
    } while (next_order(steps, n));
    return n_whole;
}

static void test_exchange_every_order_after_the_handler(void **state) {
    assert_true(play_all(0, false) > 100);
}

static void test_exchange_every_order_within_the_handler(void **state) {
    for (size_t n_inside = 1; n_inside <= 4; n_inside++)
        assert_true(play_all(n_inside, false) > 10);
}

static void test_exchange_every_order_http_1_0(void **state) {
    assert_true(play_all(1, true) > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exchange_every_order_after_the_handler),
        cmocka_unit_test(test_exchange_every_order_within_the_handler),
        cmocka_unit_test(test_exchange_every_order_http_1_0),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
