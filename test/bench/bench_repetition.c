// SPDX-License-Identifier: Apache-2.0
/* Checks that the rule on loops (engine/repetition_check) leaves good texts alone. Every long string in files with a
 * JSON object per line (.jsonl), and each other file as a whole, is treated as an answer.
 *
 * build/bin/bench-repetition --model FILE.gguf FILE.jsonl ... FILE.txt ...
 *
 * Prints texts, tokens and loops of each file, and the place of each loop; exits with 1 if there is one. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "engine/repetition_check.h"
#include "text/tokenizer/tokenizer.h"

enum {
    TEXT_BYTES_MIN = 256
}; /* a shorter text cannot loop */

typedef struct Count {
    const Tokenizer *tokenizer;
    const char *path;
    size_t line, n_texts, n_tokens, n_loops;
} Count;

static int check_text(Count *count, const char *name, const char *text, size_t len_bytes) {
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    RepetitionCheck check = { 0 };
    ErrText err;

    if (len_bytes < TEXT_BYTES_MIN)
        return 0;
    if (tokenizer_encode(count->tokenizer, text, len_bytes, 0, &list, &err)) {
        fprintf(stderr, "bench-repetition: %s:%zu: %s: %s\n", count->path, count->line, name, err.text);
        return -1;
    }
    count->n_texts++;
    count->n_tokens += list.n;
    for (size_t i = 1; i <= list.n; i++)
        if (repetition_check_push(&check, list.ids, i)) {
            printf("%s:%zu: %s: a loop at token %zu of %zu\n", count->path, count->line, name, i, list.n);
            count->n_loops++;
            return 0;
        }
    return 0;
}

static int check_value(Count *count, const char *name, const json_t *value) {
    const char *key;
    json_t *item;
    size_t i;
    int r = 0;

    if (json_is_string(value))
        return check_text(count, name, json_string_value(value), json_string_length(value));
    if (json_is_array(value))
        json_array_foreach(value, i, item) r = r ? r : check_value(count, name, item);
    if (json_is_object(value))
        json_object_foreach((json_t *)(uintptr_t)value, key, item) r = r ? r : check_value(count, key, item);
    return r;
}

static int check_row(Count *count, const char *line, size_t len_bytes) {
    json_error_t error;
    json_t *row = json_loadb(line, len_bytes, 0, &error);
    int r;

    if (!row) {
        fprintf(stderr, "bench-repetition: %s:%zu: %s: left out\n", count->path, count->line, error.text);
        return 0;
    }
    r = check_value(count, "text", row);
    json_decref(row);
    return r;
}

static int check_file(Count *count) {
    const char *end = strrchr(count->path, '.');
    const bool has_rows = end && !strcmp(end, ".jsonl");
    _cleanup_(freep) char *text = NULL;
    FILE *file = fopen(count->path, "re");
    size_t room = 0;
    ssize_t n;
    int r = 0;

    if (!file) {
        perror(count->path);
        return -1;
    }
    while (!r && (n = has_rows ? getline(&text, &room, file) : getdelim(&text, &room, '\0', file)) > 0) {
        count->line++;
        r = has_rows ? check_row(count, text, (size_t)n) : check_text(count, "text", text, (size_t)n);
    }
    fclose(file);
    if (!r)
        printf("%s: %zu texts, %zu tokens, %zu loops\n", count->path, count->n_texts, count->n_tokens, count->n_loops);
    return r;
}

int main(int argc, char **argv) {
    static const struct option options[] = { { "model", required_argument, NULL, 'm' }, { 0 } };
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    _cleanup_(tokenizer_freep) Tokenizer *tokenizer = NULL;
    const char *model = NULL;
    size_t n_loops = 0;
    ErrText err;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) == 'm')
        model = optarg;
    if (option != -1 || !model || optind == argc) {
        fputs("usage: bench-repetition --model FILE.gguf FILE.jsonl ...\n", stderr);
        return 2;
    }
    if (gguf_open(&file, model, &err) || tokenizer_new(&tokenizer, file, &err)) {
        fprintf(stderr, "bench-repetition: %s\n", err.text);
        return 1;
    }
    for (int i = optind; i < argc; i++) {
        Count count = { .tokenizer = tokenizer, .path = argv[i] };

        if (check_file(&count))
            return 1;
        n_loops += count.n_loops;
    }
    return n_loops != 0;
}
