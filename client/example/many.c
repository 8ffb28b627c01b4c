// SPDX-License-Identifier: Apache-2.0
/* Prints three answers to one question: the service computes the question once.
 *
 *   cc many.c $(pkg-config --cflags --libs libcoordgen-client) -o many
 *   ./many 'Suggest a name for a grey cat.' */
#include <coordgen-client.h>

#include <stdio.h>

enum {
    ANSWERS = 3
};

/* Called for each piece of text; pieces of the answers come in turns. */
static int on_event(void *arg, const CoordgenEvent *event) {
    size_t *n_bytes = arg;

    if (event->kind == COORDGEN_EVENT_DELTA)
        n_bytes[event->choice] += event->text_bytes;
    return 0;
}

static void print_answers(const CoordgenGenerateResult *result, const size_t *n_bytes) {
    for (size_t i = 0; i < result->n_choices; i++)
        printf("%u. %s\n   (%u tokens, %u bytes, seed %llu, %s)\n", (unsigned)i + 1, result->choices[i].text,
               (unsigned)result->choices[i].output_tokens, (unsigned)n_bytes[i],
               (unsigned long long)result->choices[i].seed, coordgen_end_reason_name(result->choices[i].end_reason));
}

int main(int argc, char **argv) {
    CoordgenMessage message = { .role = COORDGEN_ROLE_USER };
    CoordgenGenerateOptions options;
    CoordgenReply *reply = NULL;
    CoordgenClient *client = NULL;
    size_t n_bytes[ANSWERS] = { 0 };
    int code;

    if (argc != 2) {
        fprintf(stderr, "usage: %s QUESTION\n", argv[0]);
        return 2;
    }
    message.text = argv[1];
    coordgen_generate_options_init(&options);
    options.messages = &message;
    options.n_messages = 1;
    options.n = ANSWERS;
    options.temperature = 1; /* greedy answers would all be the same */
    options.max_tokens = 60;
    if (coordgen_client_new(&client)) {
        fprintf(stderr, "many: out of memory\n");
        return 1;
    }
    code = coordgen_client_connect(client, NULL, 5000);
    if (!code)
        code = coordgen_generate(client, &options, on_event, n_bytes, &reply);
    if (code)
        fprintf(stderr, "many: %s: %s\n", coordgen_error_name(code), coordgen_client_message(client));
    else
        print_answers(coordgen_reply_generate(reply), n_bytes);
    coordgen_reply_unref(reply);
    coordgen_client_free(client);
    return code ? 1 : 0;
}
