// SPDX-License-Identifier: Apache-2.0
/* Two questions at once in one thread, with an event loop of the program's own.
 *
 *   cc event_loop.c $(pkg-config --cflags --libs libcoordgen-client) -o event_loop
 *   ./event_loop 'Name a river.' 'Name a mountain.'
 *
 * poll() stands for any loop: hand it coordgen_client_fd() and coordgen_client_timeout_ms(), and call
 * coordgen_client_dispatch() when either says so. */
#include <coordgen-client.h>

#include <poll.h>
#include <stdio.h>

typedef struct Question {
    const char *text;
    int failed;
} Question;

static int on_event(void *arg, const CoordgenEvent *event) {
    Question *question = arg;

    if (event->kind != COORDGEN_EVENT_END)
        return 0; /* pieces and progress: the end has the whole text */
    question->failed = coordgen_reply_error(event->reply);
    if (question->failed)
        fprintf(stderr, "%s: %s\n", question->text, coordgen_reply_message(event->reply));
    else
        printf("%s\n  %s\n", question->text, coordgen_reply_generate(event->reply)->text);
    return 0;
}

static int ask(CoordgenClient *client, Question *question) {
    CoordgenMessage message = { .role = COORDGEN_ROLE_USER, .text = question->text };
    CoordgenGenerateOptions options;

    coordgen_generate_options_init(&options);
    options.messages = &message;
    options.n_messages = 1;
    options.max_tokens = 40;
    options.timeout_ms = 60000;
    return coordgen_generate_start(client, &options, on_event, question, NULL);
}

int main(int argc, char **argv) {
    Question questions[8] = { { 0 } };
    CoordgenClient *client = NULL;
    int n = 0, code;

    if (coordgen_client_new(&client))
        return 1;
    code = coordgen_client_connect_start(client, NULL); /* does not wait for the greeting */
    for (int i = 1; i < argc && n < 8 && !code; i++) {
        questions[n].text = argv[i];
        code = ask(client, &questions[n++]);
    }
    while (!code && coordgen_client_n_in_flight(client)) {
        struct pollfd wait = { .fd = coordgen_client_fd(client), .events = coordgen_client_events(client) };

        poll(&wait, 1, coordgen_client_timeout_ms(client));
        code = coordgen_client_dispatch(client);
    }
    if (code)
        fprintf(stderr, "event_loop: %s\n", coordgen_client_message(client));
    for (int i = 0; i < n; i++)
        code |= questions[i].failed;
    coordgen_client_free(client);
    return code ? 1 : 0;
}
