// SPDX-License-Identifier: Apache-2.0
/* Shows how sure a language model is of each word that it writes.
 *
 *   cc probabilities.c $(pkg-config --cflags --libs libcoordgen-client) -lm -o probabilities
 *   ./probabilities 'The capital of France is'
 *
 * Shows log probabilities, and further ways of sampling: DRY keeps the text from repeating itself. */
#define _POSIX_C_SOURCE 200809L
#include <coordgen-client.h>

#include <math.h>
#include <stdio.h>

static void print_token(const CoordgenLogprob *token) {
    printf("%5.1f %% ", 100 * exp((double)token->logprob));
    fwrite(token->piece, 1, token->piece_bytes, stdout);
}

/* Called for each piece of the answer: a line for each token, with the likeliest ones in its place. */
static int on_event(void *arg, const CoordgenEvent *event) {
    (void)arg;
    if (event->kind != COORDGEN_EVENT_DELTA)
        return 0;
    for (size_t i = 0; i < event->n_logprobs; i++) {
        print_token(&event->logprobs[i].chosen);
        for (size_t j = 0; j < event->logprobs[i].n_top; j++) {
            fputs(j ? ", " : "    of: ", stdout);
            print_token(&event->logprobs[i].top[j]);
        }
        putchar('\n');
    }
    return fflush(stdout) ? 1 : 0;
}

int main(int argc, char **argv) {
    CoordgenGenerateOptions options;
    CoordgenSamplingOptions sampling;
    CoordgenClient *client = NULL;
    CoordgenReply *reply = NULL;
    int code;

    if (argc != 2) {
        fprintf(stderr, "usage: %s TEXT\n", argv[0]);
        return 2;
    }
    if (coordgen_client_new(&client)) {
        fprintf(stderr, "probabilities: out of memory\n");
        return 1;
    }
    coordgen_sampling_options_init(&sampling);
    sampling.dry_multiplier = 0.8f;
    coordgen_generate_options_init(&options);
    options.prompt = argv[1];
    options.max_tokens = 16;
    options.logprobs = 3;
    options.more_sampling = &sampling;
    code = coordgen_client_connect(client, NULL, 5000);
    if (!code)
        code = coordgen_generate(client, &options, on_event, NULL, &reply);
    if (code)
        fprintf(stderr, "probabilities: %s: %s\n", coordgen_error_name(code), coordgen_client_message(client));
    coordgen_reply_unref(reply);
    coordgen_client_free(client);
    return code ? 1 : 0;
}
