// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"

enum {
    BATCH = 64, /* texts of one request: vectors of any model fit its reply */
};

typedef struct Texts {
    const char **list; /* [n]: of the command line, or in `lines` */
    size_t n;
    char *lines; /* of standard input */
} Texts;

static void texts_deinit(Texts *texts) {
    free(texts->list);
    free(texts->lines);
}

/* Splits standard input into lines. 0 or an exit status. */
static int read_lines(Ctl *ctl, Texts *texts) {
    size_t n_max = 1;

    texts->lines = ctl_slurp(ctl, "-");
    if (!texts->lines)
        return CTL_EXIT_FAILED;
    for (const char *at = texts->lines; (at = strchr(at, '\n')); at++)
        n_max++;
    texts->list = calloc(n_max, sizeof(*texts->list));
    if (!texts->list)
        return ctl_failed(ctl, COORDGEN_E_NO_MEMORY, "out of memory for the texts", "", 0);
    for (char *line = texts->lines, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = 0;
        if (!*line) {
            fprintf(stderr, "coordgenctl: line %zu of standard input is empty: each line is a text\n", texts->n + 1);
            return CTL_EXIT_FAILED;
        }
        texts->list[texts->n++] = line;
    }
    if (texts->n)
        return 0;
    fputs("coordgenctl: standard input is empty\n", stderr);
    return CTL_EXIT_FAILED;
}

/* Takes the texts of the command line, or the lines of standard input. 0 or an exit status. */
static int take_texts(Ctl *ctl, Texts *texts) {
    if (!ctl->n_args || (ctl->n_args == 1 && !strcmp(ctl->args[0], "-")))
        return read_lines(ctl, texts);
    texts->list = calloc((size_t)ctl->n_args, sizeof(*texts->list));
    if (!texts->list)
        return ctl_failed(ctl, COORDGEN_E_NO_MEMORY, "out of memory for the texts", "", 0);
    for (int i = 0; i < ctl->n_args; i++) {
        if (!*ctl->args[i])
            return ctl_usage_error(ctl, "text %d is empty", i + 1);
        texts->list[texts->n++] = ctl->args[i];
    }
    return 0;
}

static bool take_pooling(const Ctl *ctl, CoordgenPooling *poolingp) {
    const char *text = ctl_text(ctl, "pooling", NULL);

    if (!text)
        return true;
    for (int pooling = COORDGEN_POOLING_MEAN; pooling <= COORDGEN_POOLING_CLS; pooling++)
        if (!strcmp(text, coordgen_pooling_name(pooling))) {
            *poolingp = (CoordgenPooling)pooling;
            return true;
        }
    ctl_usage_error(ctl, "--pooling=%.32s: one of mean, last, cls", text);
    return false;
}

static json_t *vector_json(const CoordgenReply *reply, size_t index) {
    json_t *object = json_object(), *values = json_array();
    size_t n_values;
    const float *vector = coordgen_reply_embedding(reply, index, &n_values);

    for (size_t i = 0; i < n_values; i++)
        json_array_append_new(values, json_real((double)vector[i]));
    ctl_json_set(object, "tokens", json_integer(coordgen_reply_embedding_tokens(reply, index)));
    ctl_json_set(object, "embedding", values);
    return object;
}

static void print_vector(const CoordgenReply *reply, size_t index) {
    size_t n_values;
    const float *vector = coordgen_reply_embedding(reply, index, &n_values);

    for (size_t i = 0; i < n_values; i++)
        printf("%s%.9g", i ? " " : "", (double)vector[i]); /* 9 digits tell floats apart */
    putchar('\n');
}

/* Asks for the vectors of some texts, and prints them or appends them to the list. 0 or an exit status. */
static int embed_some(Ctl *ctl, const CoordgenEmbedOptions *options, json_t *list, int *poolingp) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    int r;

    r = ctl_wait(ctl, &wait, coordgen_embed_start(ctl->client, options, ctl_wait_event, &wait, NULL));
    if (r)
        return r;
    if (coordgen_reply_error(wait.reply))
        return ctl_failed_reply(ctl, &wait);
    *poolingp = coordgen_reply_pooling(wait.reply);
    for (size_t i = 0; i < coordgen_reply_n_embeddings(wait.reply); i++)
        if (ctl->json)
            json_array_append_new(list, vector_json(wait.reply, i));
        else
            print_vector(wait.reply, i);
    return CTL_EXIT_OK;
}

static int embed_all(Ctl *ctl, const Texts *texts, CoordgenEmbedOptions *options) {
    json_t *object = json_object(), *list = json_array();
    int pooling = 0, r = ctl_connect(ctl);

    for (size_t at = 0; at < texts->n && !r; at += options->n_texts) {
        options->texts = texts->list + at;
        options->n_texts = MIN(texts->n - at, BATCH);
        r = embed_some(ctl, options, list, &pooling);
    }
    if (r || !ctl->json) {
        json_decref(object);
        json_decref(list);
        return r;
    }
    ctl_json_set(object, "pooling", json_string(coordgen_pooling_name(pooling)));
    ctl_json_set(object, "embeddings", list);
    return ctl_json_print(ctl, object);
}

static int embed_run(Ctl *ctl) {
    _cleanup_(texts_deinit) Texts texts = { 0 };
    CoordgenEmbedOptions options;
    int r;

    coordgen_embed_options_init(&options);
    options.model = ctl_text(ctl, "model", NULL);
    options.raw = ctl_has(ctl, "raw");
    options.priority = COORDGEN_PRIORITY_NORMAL;
    if (!take_pooling(ctl, &options.pooling) || !ctl_priority(ctl, &options.priority))
        return CTL_EXIT_USAGE;
    r = take_texts(ctl, &texts);
    return r ? r : embed_all(ctl, &texts, &options);
}

static const Option embed_options[] = {
    { "model", 'm', "NAME", "the model (default: the service's default)" },
    { "raw", 0, NULL, "vectors of any length (default: of length 1)" },
    { "pooling", 0, "HOW", "mean, last or cls (default: the model's, mean if it has none)" },
    { "priority", 'p', "CLASS", "interactive, normal (default) or background" },
};

const CtlVerb ctl_verb_embed = {
    .name = "embed",
    .arguments = "[TEXT...|-]",
    .summary = "show the vectors of texts",
    .more = "Prints a line of numbers for each text. With -, or without text, each line of standard input is a text.\n"
            "\nExamples\n"
            "  coordgenctl embed 'The ship sailed.' 'A boat put to sea.'\n"
            "  coordgenctl embed --json=short - < questions.txt\n",
    .options = embed_options,
    .n_options = ARRAY_LEN(embed_options),
    .n_args_max = -1,
    .run = embed_run,
};
