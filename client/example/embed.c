// SPDX-License-Identifier: Apache-2.0
/* Prints how like texts are to the first one: the cosine of their vectors.
 *
 *   cc embed.c $(pkg-config --cflags --libs libcoordgen-client) -o embed
 *   ./embed 'A cat sleeps.' 'The kitten naps.' 'Prices rise.' */
#include <coordgen-client.h>

#include <stdio.h>

/* Returns the cosine of two vectors of length 1, which is their product. */
static double cosine(const float *a, const float *b, size_t n) {
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static void print_likeness(const CoordgenReply *reply, char **texts) {
    size_t n_values;
    const float *first = coordgen_reply_embedding(reply, 0, &n_values);

    for (size_t i = 1; i < coordgen_reply_n_embeddings(reply); i++)
        printf("%.4f %s\n", cosine(first, coordgen_reply_embedding(reply, i, NULL), n_values), texts[i]);
}

int main(int argc, char **argv) {
    CoordgenEmbedOptions options;
    CoordgenReply *reply = NULL;
    CoordgenClient *client = NULL;
    int code;

    if (argc < 3) {
        fprintf(stderr, "usage: %s TEXT OTHER...\n", argv[0]);
        return 2;
    }
    coordgen_embed_options_init(&options);
    options.texts = (const char *const *)(argv + 1);
    options.n_texts = (size_t)argc - 1;
    if (coordgen_client_new(&client)) {
        fprintf(stderr, "embed: out of memory\n");
        return 1;
    }
    code = coordgen_client_connect(client, NULL, 5000);
    if (!code)
        code = coordgen_embed(client, &options, &reply);
    if (code)
        fprintf(stderr, "embed: %s: %s\n", coordgen_error_name(code), coordgen_client_message(client));
    else
        print_likeness(reply, argv + 1);
    coordgen_reply_unref(reply);
    coordgen_client_free(client);
    return code ? 1 : 0;
}
