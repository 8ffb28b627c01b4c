// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/net/connection.h"

#include <event2/buffer.h>
#include <event2/bufferevent_struct.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/min_max.h"
#include "base/strings/printable.h"
#include "daemon/net/reply.h"
#include "proto/frame.h"

enum {
    FRAME_STEP_BYTES = 64 << 10,
    READ_BYTES = 16 << 10, /* read at a time, so that connections are read in turn */
    TURN_WORK = 64,        /* units of work until other connections have their turn */
    WORK_BYTES = 16 << 10, /* bytes in a unit of work */
};

static struct timeval timeval_of(uint32_t ms) {
    return (struct timeval){ .tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000 };
}

int connection_peer(int fd, uid_t *uidp, pid_t *pidp) {
    struct ucred peer;
    socklen_t len_bytes = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len_bytes) < 0)
        return err_raise(-errno);
    *uidp = peer.uid;
    *pidp = peer.pid;
    return 0;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* Ends the connection. Callers up the stack still hold the pointer, so the loop frees the object from its top level. */
static void die(Connection *connection) {
    if (connection->state == CONNECTION_DEAD)
        return;
    connection->state = CONNECTION_DEAD;
    event_del(connection->input.readable);
    bufferevent_disable(connection->output.stream, EV_WRITE);
    evtimer_del(connection->input.frame_timer);
    evtimer_del(connection->hello_timer);
    evtimer_del(connection->turn.event);
    event_active(connection->reap, 0, 0);
}

static void die_of_memory(Connection *connection) {
    log_error_of(connection->user->uid, TOPIC_DAEMON, "connection %" PRIu64 ": out of memory: closing it",
                 connection->serial);
    die(connection);
}

static void on_reap(evutil_socket_t fd, short what, void *arg) {
    Connection *connection = arg;

    connection->ops->on_closed(connection->arg);
}

Connection *connection_free(Connection *connection) {
    if (!connection)
        return NULL;
    assert_on_loop(connection->loop);
    connection->state = CONNECTION_DEAD;
    connection->ops->on_end(connection->arg);
    if (connection->input.readable) /* the event must be freed before its socket is closed */
        event_free(connection->input.readable);
    inlet_deinit(&connection->input.inlet);
    closep(&connection->input.fd);
    if (connection->output.stream)
        bufferevent_free(connection->output.stream);
    if (connection->input.frame_timer)
        event_free(connection->input.frame_timer);
    if (connection->reap)
        event_free(connection->reap);
    if (connection->hello_timer)
        event_free(connection->hello_timer);
    if (connection->turn.event)
        event_free(connection->turn.event);
    bill_settle(&connection->input.bill);
    bill_settle(&connection->output.bill);
    free(connection);
    return NULL;
}

int connection_fd(const Connection *connection) {
    return bufferevent_getfd(connection->output.stream);
}

bool connection_is_quiet(const Connection *connection) {
    return connection->state <= CONNECTION_OPEN && !connection_unsent_bytes(connection) &&
           (connection->state == CONNECTION_HELLO || !evbuffer_get_length(connection->input.inlet.bytes));
}

static void close_when_written(Connection *connection) {
    if (connection->state >= CONNECTION_CLOSING)
        return;
    connection->state = CONNECTION_CLOSING;
    evtimer_del(connection->input.frame_timer);
    evtimer_del(connection->hello_timer);
    evtimer_del(connection->turn.event);
    bill_settle(&connection->input.bill);
    event_del(connection->input.readable);
    bufferevent_setwatermark(connection->output.stream, EV_WRITE, 0, 0);
    connection->ops->on_end(connection->arg);
    if (!connection_unsent_bytes(connection))
        die(connection);
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

size_t connection_unsent_bytes(const Connection *connection) {
    return evbuffer_get_length(bufferevent_get_output(connection->output.stream));
}

/* Enables reads only while frames can be served, so that at most one read's bytes wait. */
static void update_reading(Connection *connection) {
    if (connection->state >= CONNECTION_CLOSING)
        return;
    if (connection->output.is_choked || connection->turn.waits)
        event_del(connection->input.readable);
    else if (event_add(connection->input.readable, NULL))
        die_of_memory(connection);
}

/* Notes whether the client has read output. Unread output may sit in the socket's buffer long before the connection's
 * own buffer has any. The kernel does not report reads: a smaller or empty socket buffer shows them. */
static void note_reading(Connection *connection) {
    const int before_bytes = connection->output.queued_bytes;

    if (ioctl(bufferevent_getfd(connection->output.stream), SIOCOUTQ, &connection->output.queued_bytes) < 0)
        connection->output.queued_bytes = 0;
    if (connection->output.queued_bytes < before_bytes ||
        (!connection->output.queued_bytes && !connection_unsent_bytes(connection)))
        connection->output.accepted_ns = clock_now_ns();
}

bool connection_is_stalled(Connection *connection, uint64_t limit_ns) {
    note_reading(connection);
    return clock_now_ns() - connection->output.accepted_ns >= limit_ns;
}

static void choke(Connection *connection, bool choked) {
    if (connection->output.is_choked == choked)
        return;
    connection->output.is_choked = choked;
    connection->ops->on_choke(connection->arg, choked);
    if (connection->state >= CONNECTION_CLOSING)
        return;
    if (choked)
        evtimer_del(connection->input.frame_timer);
    update_reading(connection);
    log_debug(TOPIC_DAEMON, "connection %" PRIu64 ": %s, %zu bytes unread", connection->serial,
              choked ? "paused" : "goes on", connection_unsent_bytes(connection));
}

/* Charges output beyond the output buffer, which the connection has already paid for. Return: 0 or ACCOUNT_E_LIMIT. */
static int charge_output(Connection *connection, size_t len_bytes) {
    const uint64_t unsent_bytes = connection_unsent_bytes(connection) + len_bytes,
                   paid_bytes = connection->config->limits.output_buffer_bytes + connection->output.bill.bytes;

    return unsent_bytes <= paid_bytes ? 0
                                      : user_charge(connection->user, connection->is_admin, &connection->output.bill,
                                                    unsent_bytes - paid_bytes);
}

/* Ends a connection that has no memory to keep a reply until the client reads it. */
static void refuse_output(Connection *connection, const Coordgen__V1__Response *response) {
    const char *limit = user_memory_limit(connection->user, connection->is_admin);

    if (response->op_case == COORDGEN__V1__RESPONSE__OP_TOKENIZE ||
        response->op_case == COORDGEN__V1__RESPONSE__OP_DETOKENIZE) {
        connection_send_error(connection, response->request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY,
                              connection->ops->retry_ms(connection->arg), "", "no memory for the answer: %s is reached",
                              limit);
        return;
    }
    log_warn_of(connection->user->uid, TOPIC_DAEMON,
                "connection %" PRIu64 ", uid %u: closed: no memory for a reply: %s is reached", connection->serial,
                (unsigned int)connection->user->uid, limit);
    die(connection);
}

/* Tells whether queued output will be written. Without memory to wait for the socket, libevent would never write it and
 * reports no error. */
static bool will_be_written(Connection *connection) {
    return !connection_unsent_bytes(connection) ||
           event_pending(&connection->output.stream->ev_write, EV_WRITE, NULL) ||
           !bufferevent_enable(connection->output.stream, EV_WRITE);
}

void connection_send(Connection *connection, const Coordgen__V1__Response *response) {
    const Config *config = connection->config;
    uint8_t *frame;
    size_t len_bytes;
    ErrText err;
    int r;

    assert_on_loop(connection->loop);
    if (connection->state >= CONNECTION_CLOSING)
        return;
    r = frame_encode(&response->base, &frame, &len_bytes, &err);
    if (r == FRAME_E_TOO_LARGE && response->op_case != COORDGEN__V1__RESPONSE__OP_ERROR) {
        connection_send_error(connection, response->request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT,
                              0, "", "the answer does not fit: %s: ask for less at a time", err.text);
        return;
    }
    if (!r && charge_output(connection, len_bytes)) {
        free(frame);
        refuse_output(connection, response);
        return;
    }
    if (!r) {
        note_reading(connection);
        r = bufferevent_write(connection->output.stream, frame, len_bytes);
        free(frame);
    }
    if (r || !will_be_written(connection)) {
        die_of_memory(connection);
        return;
    }
    if (connection_unsent_bytes(connection) > config->limits.output_buffer_bytes)
        choke(connection, true);
}

void connection_send_error(Connection *connection, uint64_t request_id, Coordgen__V1__ErrorCode code,
                           uint32_t retry_after_ms, const char *field, const char *format, ...) {
    Coordgen__V1__Response response;
    Coordgen__V1__Error error;
    char text[1024];
    va_list args;

    va_start(args, format);
    printable_format(text, sizeof(text), format, args);
    va_end(args);
    reply_init_error(&response, &error, request_id, code, retry_after_ms, field, text);
    connection_send(connection, &response);
}

void connection_fail(Connection *connection, Coordgen__V1__ErrorCode code, uint32_t retry_after_ms, const char *format,
                     ...) {
    char text[768];
    va_list args;

    if (connection->state >= CONNECTION_CLOSING)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    log_write(LOG_LEVEL_INFO, TOPIC_DAEMON, connection->user->uid,
              strcmp(format, "%s") ? format : reply_code_name(code), "connection %" PRIu64 ", uid %u: closed: %s",
              connection->serial, (unsigned int)connection->user->uid, text);
    connection_send_error(connection, 0, code, retry_after_ms, "", "%s", text);
    close_when_written(connection);
}

/* ---- input ------------------------------------------------------------------------------------------------------- */

/* Charges a frame in steps, just ahead of its bytes, since a header may announce more than the client sends. Return: 0
 * or ACCOUNT_E_LIMIT. */
static int charge_frame(Connection *connection, size_t have_bytes, size_t needed_bytes) {
    const size_t ahead_bytes = (have_bytes / FRAME_STEP_BYTES + 1) * FRAME_STEP_BYTES,
                 wanted_bytes = MIN(ahead_bytes, needed_bytes);

    if (needed_bytes <= FRAME_HEADER_BYTES || wanted_bytes <= connection->input.bill.bytes)
        return 0;
    return user_charge(connection->user, connection->is_admin, &connection->input.bill,
                       wanted_bytes - connection->input.bill.bytes);
}

/* Serves the next frame if it is complete. Return: whether there may be another frame. */
static bool take_input(Connection *connection) {
    struct evbuffer *input = connection->input.inlet.bytes;
    size_t have_bytes = evbuffer_get_length(input), body_bytes, needed_bytes;
    uint8_t header[FRAME_HEADER_BYTES];
    struct timeval timeout;
    const uint8_t *frame;
    ErrText err;
    int r;

    if (!have_bytes)
        return false;
    /* The header alone decides whether the frame is accepted; before that nothing is moved or reserved. */
    evbuffer_copyout(input, header, sizeof(header));
    body_bytes = 0;
    needed_bytes = 0;
    r = frame_peek(header, MIN(have_bytes, sizeof(header)), connection->input.frame_max_bytes, &body_bytes,
                   &needed_bytes, &err);
    if (r && r != FRAME_E_MORE) {
        connection_fail(connection, frame_error_code(r), 0, "%s", err.text);
        return false;
    }
    if (charge_frame(connection, have_bytes, needed_bytes)) {
        connection_fail(connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY,
                        connection->ops->retry_ms(connection->arg), "no memory for a frame of %zu bytes: %s is reached",
                        needed_bytes, user_memory_limit(connection->user, connection->is_admin));
        return false;
    }
    if (have_bytes < needed_bytes) {
        timeout = timeval_of(connection->config->timeouts.frame_ms);
        if (!evtimer_pending(connection->input.frame_timer, NULL) &&
            evtimer_add(connection->input.frame_timer, &timeout))
            die_of_memory(connection);
        return false;
    }
    evtimer_del(connection->input.frame_timer);
    frame = evbuffer_pullup(input, (ev_ssize_t)needed_bytes);
    if (!frame) {
        die_of_memory(connection);
        return false;
    }
    connection_spend(connection, 1 + needed_bytes / WORK_BYTES);
    connection->turn.served_ns = clock_now_ns();
    if (connection->input.fd < 0)
        connection->input.fd = inlet_take_fd(&connection->input.inlet, needed_bytes);
    connection->ops->on_frame(connection->arg, frame + FRAME_HEADER_BYTES, needed_bytes - FRAME_HEADER_BYTES);
    if (connection->turn.waits) /* the frame is served again later, with its file */
        return false;
    closep(&connection->input.fd); /* the message takes no file, or was refused */
    connection->input.fd = -1;
    bill_settle(&connection->input.bill);
    evbuffer_drain(input, needed_bytes);
    return true;
}

void connection_spend(Connection *connection, uint64_t work) {
    connection->turn.work_left -= work < connection->turn.work_left ? (uint32_t)work : connection->turn.work_left;
}

/* Waits for the next turn by a timer. An event that is activated directly would run before sockets are polled again. */
static void wait_for_turn(Connection *connection) {
    static const struct timeval at_once = { 0 };

    connection->turn.waits = true;
    if (evtimer_add(connection->turn.event, &at_once))
        die_of_memory(connection);
}

/**
 * read_frames() - serve the frames that have arrived, as far as one turn allows
 *
 * A client may have sent thousands of requests at once. The rest of them waits until the loop has served all other
 * connections, and meanwhile nothing more is read. Between two turns a connection waits, and no other callback takes
 * its frames.
 */
static void read_frames(Connection *connection) {
    if (connection->turn.waits)
        return;
    connection->turn.work_left = TURN_WORK;
    while (connection->state < CONNECTION_CLOSING && !connection->output.is_choked && connection->turn.work_left &&
           take_input(connection))
        ;
    if (connection->state >= CONNECTION_CLOSING)
        return;
    if (!connection->turn.waits && !connection->turn.work_left && !connection->output.is_choked &&
        evbuffer_get_length(connection->input.inlet.bytes))
        wait_for_turn(connection);
    if (connection->turn.waits)
        update_reading(connection);
}

static void on_turn(evutil_socket_t fd, short what, void *arg) {
    Connection *connection = arg;

    assert_on_loop(connection->loop);
    connection->turn.waits = false;
    read_frames(connection);
    if (!connection->turn.waits)
        update_reading(connection);
}

void connection_put_off(Connection *connection) {
    connection->turn.waits = true;
}

void connection_go_on(Connection *connection) {
    if (connection->state == CONNECTION_OPEN)
        wait_for_turn(connection);
}

static void client_left(Connection *connection) {
    log_debug(TOPIC_DAEMON, "connection %" PRIu64 ": the client left", connection->serial);
    die(connection);
}

static void on_readable(evutil_socket_t fd, short what, void *arg) {
    Connection *connection = arg;
    size_t room_for_bytes;
    int r;

    assert_on_loop(connection->loop);
    /* There is always room for a byte, since each complete frame leaves the buffer at once. */
    room_for_bytes =
        connection->input.frame_max_bytes + FRAME_HEADER_BYTES - evbuffer_get_length(connection->input.inlet.bytes);
    r = inlet_read(&connection->input.inlet, fd, MIN(room_for_bytes, READ_BYTES), connection->input.takes_files);
    if (r == INLET_E_DESCRIPTORS)
        connection_fail(connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_PROTOCOL, 0,
                        "more than one open file came (or one that there is no room for): one message brings one");
    else if (r)
        client_left(connection);
    else
        read_frames(connection);
}

/* Runs when the unsent output has fallen to the low mark, or to nothing while the connection closes. */
static void on_written(struct bufferevent *stream, void *arg) {
    Connection *connection = arg;

    assert_on_loop(connection->loop);
    if (connection->state == CONNECTION_DEAD)
        return;
    if (connection->state == CONNECTION_CLOSING) {
        if (!connection_unsent_bytes(connection))
            die(connection);
        return;
    }
    bill_settle(&connection->output.bill);
    if (!connection->output.is_choked)
        return;
    choke(connection, false);
    read_frames(connection);
}

static void on_stream_event(struct bufferevent *stream, short what, void *arg) {
    Connection *connection = arg;

    assert_on_loop(connection->loop);
    if (connection->state == CONNECTION_DEAD)
        return;
    if (what & BEV_EVENT_TIMEOUT)
        log_info_of(connection->user->uid, TOPIC_DAEMON,
                    "connection %" PRIu64 ", uid %u: closed: the client has read nothing for %" PRIu32 " ms",
                    connection->serial, (unsigned int)connection->user->uid, connection->config->timeouts.stall_ms);
    else
        log_debug(TOPIC_DAEMON, "connection %" PRIu64 ": the client takes nothing any more", connection->serial);
    die(connection);
}

static void on_frame_timeout(evutil_socket_t fd, short what, void *arg) {
    Connection *connection = arg;

    connection_fail(connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_PROTOCOL, 0,
                    "a frame did not arrive whole within %" PRIu32 " ms", connection->config->timeouts.frame_ms);
}

static void on_hello_timeout(evutil_socket_t fd, short what, void *arg) {
    Connection *connection = arg;

    connection_fail(connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_PROTOCOL, 0, "no Hello within %" PRIu32 " ms",
                    connection->config->timeouts.hello_ms);
}

/* ---- the beginning ----------------------------------------------------------------------------------------------- */

void connection_open(Connection *connection) {
    connection->state = CONNECTION_OPEN;
    evtimer_del(connection->hello_timer);
}

/* Sends an error without a wait. The socket's buffer is empty, so the error is written at once or never. */
static void send_at_once(int fd, Coordgen__V1__ErrorCode code, uint32_t retry_after_ms, const char *text) {
    Coordgen__V1__Response response;
    Coordgen__V1__Error error;
    uint8_t *frame;
    size_t len_bytes;

    reply_init_error(&response, &error, 0, code, retry_after_ms, "", text);
    if (!frame_encode(&response.base, &frame, &len_bytes, NULL)) {
        (void)!send(fd, frame, len_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        free(frame);
    }
}

void connection_refuse(int fd, Coordgen__V1__ErrorCode code, uint32_t retry_after_ms, const char *text) {
    send_at_once(fd, code, retry_after_ms, text);
    close(fd);
}

void connection_dismiss(Connection *connection, Coordgen__V1__ErrorCode code, const char *text) {
    if (connection->state == CONNECTION_OPEN)
        send_at_once(connection_fd(connection), code, connection->ops->retry_ms(connection->arg), text);
    connection->ops->on_closed(connection->arg);
}

/* Sets up events and timers. The bufferevent only writes; the inlet reads. Return: 0 or -ENOMEM. */
static int start_stream(Connection *connection, int fd) {
    const Config *config = connection->config;
    struct event_base *base = connection->loop->base;
    struct timeval stall = timeval_of(config->timeouts.stall_ms), hello = timeval_of(config->timeouts.hello_ms);

    connection->input.frame_timer = evtimer_new(base, on_frame_timeout, connection);
    connection->hello_timer = evtimer_new(base, on_hello_timeout, connection);
    connection->reap = event_new(base, -1, 0, on_reap, connection);
    connection->turn.event = evtimer_new(base, on_turn, connection);
    connection->input.readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, connection);
    if (!connection->input.frame_timer || !connection->hello_timer || !connection->reap || !connection->turn.event ||
        !connection->input.readable || inlet_init(&connection->input.inlet))
        return err_raise(-ENOMEM);
    bufferevent_setcb(connection->output.stream, NULL, on_written, on_stream_event, connection);
    bufferevent_setwatermark(connection->output.stream, EV_WRITE, config->limits.output_buffer_bytes / 4, 0);
    if (bufferevent_set_timeouts(connection->output.stream, NULL, &stall) ||
        evtimer_add(connection->hello_timer, &hello) || bufferevent_enable(connection->output.stream, EV_WRITE) ||
        event_add(connection->input.readable, NULL))
        return err_raise(-ENOMEM);
    return 0;
}

int connection_new(Connection **connectionp, User *user, bool is_admin, int fd, const ConnectionOps *ops, void *arg) {
    _cleanup_(connection_freep) Connection *connection = NULL;
    _cleanup_(closep) int owned_fd = fd;
    UserTable *users = user->table;
    int r;

    assert_on_loop(users->loop);
    connection = calloc(1, sizeof(*connection));
    if (!connection)
        return err_raise(-ENOMEM);
    connection->ops = ops;
    connection->arg = arg;
    connection->loop = users->loop;
    connection->config = users->config;
    connection->user = user;
    connection->is_admin = is_admin;
    connection->input.fd = connection->input.inlet.fd = -1;
    connection->serial = ++users->last_connection;
    connection->input.frame_max_bytes = (uint32_t)users->config->limits.frame_max_bytes;
    connection->output.accepted_ns = connection->turn.served_ns = clock_now_ns();
    connection->output.stream = bufferevent_socket_new(connection->loop->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (!connection->output.stream)
        return err_raise(-ENOMEM);
    (void)steal_fd(&owned_fd);
    r = start_stream(connection, fd);
    if (r)
        return r;
    *connectionp = steal(&connection);
    return 0;
}
