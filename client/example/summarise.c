// SPDX-License-Identifier: Apache-2.0
/* Summarises a text file with the default language model of the device.
 *
 *   cc summarise.c -pthread $(pkg-config --cflags --libs libcoordgen-client) -o summarise
 *   ./summarise notes.txt
 *
 * Shows the calls that wait: connect, generate with a callback, errors, and a cancel from another thread (Ctrl-C). */
#define _POSIX_C_SOURCE 200809L
#include <coordgen-client.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    TEXT_BYTES_MAX = 1 << 20
};

static char *file_read(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = malloc(TEXT_BYTES_MAX + 1);
    size_t len_bytes;

    if (!file || !text) {
        perror(path);
        if (file)
            fclose(file);
        free(text);
        return NULL;
    }
    len_bytes = fread(text, 1, TEXT_BYTES_MAX, file);
    text[len_bytes] = 0; /* a NUL inside the file would end the text here */
    fclose(file);
    return text;
}

/* Called for each piece of the answer as the model writes it. */
static int on_event(void *arg, const CoordgenEvent *event) {
    (void)arg;
    if (event->kind != COORDGEN_EVENT_DELTA)
        return 0;
    fwrite(event->text, 1, event->text_bytes, stdout);
    return fflush(stdout) ? 1 : 0; /* anything but 0 cancels: nobody reads the answer any more */
}

/* SIGINT is blocked in all threads and waited for here: coordgen_cancel() may be called from any thread, but not from
 * a signal handler. */
static void *on_ctrl_c(void *arg) {
    sigset_t set;
    int number;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    while (!sigwait(&set, &number))
        coordgen_cancel(arg, 0);
    return NULL;
}

static int report(CoordgenClient *client, int code) {
    fprintf(stderr, "\nsummarise: %s: %s\n", coordgen_error_name(code), coordgen_client_message(client));
    if (coordgen_client_retry_after_ms(client))
        fprintf(stderr, "Try again in %u ms.\n", (unsigned)coordgen_client_retry_after_ms(client));
    return 1;
}

static int summarise(CoordgenClient *client, const char *text) {
    const CoordgenMessage messages[] = {
        { .role = COORDGEN_ROLE_SYSTEM, .text = "You summarise texts in at most three sentences." },
        { .role = COORDGEN_ROLE_USER, .text = text },
    };
    CoordgenGenerateOptions options;
    const CoordgenGenerateResult *result;
    CoordgenReply *reply = NULL;
    int code;

    coordgen_generate_options_init(&options);
    options.messages = messages;
    options.n_messages = sizeof(messages) / sizeof(messages[0]);
    options.max_tokens = 200;
    code = coordgen_generate(client, &options, on_event, NULL, &reply);
    if (code) {
        coordgen_reply_unref(reply);
        return report(client, code);
    }
    result = coordgen_reply_generate(reply);
    fprintf(stderr, "\n[%s: %u tokens read, %u written, %s]\n", result->model, (unsigned)result->prompt_tokens,
            (unsigned)result->output_tokens, coordgen_end_reason_name(result->end_reason));
    code = result->end_reason == COORDGEN_END_CANCELLED ? 130 : 0;
    coordgen_reply_unref(reply);
    return code;
}

int main(int argc, char **argv) {
    CoordgenClient *client = NULL;
    pthread_t watcher;
    sigset_t set;
    char *text;
    int code;

    if (argc != 2) {
        fprintf(stderr, "usage: %s FILE\n", argv[0]);
        return 2;
    }
    text = file_read(argv[1]);
    if (!text)
        return 1;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (coordgen_client_new(&client)) {
        fprintf(stderr, "summarise: out of memory\n");
        free(text);
        return 1;
    }
    code = coordgen_client_connect(client, NULL, 5000);
    if (code) {
        code = report(client, code);
    } else if (pthread_create(&watcher, NULL, on_ctrl_c, client)) {
        fprintf(stderr, "summarise: no thread\n");
        code = 1;
    } else {
        code = summarise(client, text);
        pthread_cancel(watcher); /* before the client goes away */
        pthread_join(watcher, NULL);
    }
    coordgen_client_free(client);
    free(text);
    return code;
}
