// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#define _GNU_SOURCE
#include "test/unit/text/tokenizer/tokenizer_golden.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

const char *golden_model_path(const char *model, char *path, size_t path_bytes) {
    const char *file = getenv("COORDGEN_MODEL"), *folder = getenv("COORDGEN_MODELS_DIR"),
               *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");

    if (file && *file && !strcmp(model, GOLDEN_DEFAULT_MODEL))
        snprintf(path, path_bytes, "%s", file);
    else if (folder && *folder)
        snprintf(path, path_bytes, "%s/%s.gguf", folder, model);
    else if (cache && *cache)
        snprintf(path, path_bytes, "%s/coordgen/fetched/%s.gguf", cache, model);
    else
        snprintf(path, path_bytes, "%s/.cache/coordgen/fetched/%s.gguf", home ? home : "", model);
    return path;
}

void golden_model_deinit(GoldenModel *golden) {
    tokenizer_free(golden->tokenizer);
    gguf_free(golden->file);
    *golden = (GoldenModel){ 0 };
}

bool golden_model_open(GoldenModel *golden, const char *model) {
    char path[1024];
    ErrText err = { 0 };

    *golden = (GoldenModel){ 0 };
    golden_model_path(model, path, sizeof(path));
    if (access(path, R_OK) && strcmp(model, GOLDEN_DEFAULT_MODEL)) {
        print_message("%s is absent (%s): tools/fetch-model %s\n", model, path, model);
        return false;
    }
    if (gguf_open(&golden->file, path, &err) || tokenizer_new(&golden->tokenizer, golden->file, &err))
        fail_msg("%s", err.text);
    return true;
}

static FILE *golden_open(const char *name) {
    char path[512];
    FILE *file;

    snprintf(path, sizeof(path), "test/golden/tokens/%s", name);
    file = fopen(path, "re");
    if (!file)
        fail_msg("%s: run the test in the root of the repository", path);
    return file;
}

/* The next line's object, NULL at the end; the caller's to json_decref(). */
static json_t *golden_next(FILE *file) {
    _cleanup_(freep) char *line = NULL;
    size_t room_bytes = 0;
    json_error_t error;
    json_t *object;

    if (getline(&line, &room_bytes, file) <= 0)
        return NULL;
    object = json_loads(line, JSON_ALLOW_NUL, &error);
    if (!object)
        fail_msg("golden line: %s", error.text);
    return object;
}

void golden_check_ids(const TokenList *list, const json_t *ids, const char *what, const char *text) {
    size_t n = json_array_size(ids);

    for (size_t i = 0; i < n || i < list->n; i++) {
        json_int_t wanted = i < n ? json_integer_value(json_array_get(ids, i)) : -1;
        json_int_t got = i < list->n ? (json_int_t)list->ids[i] : -1;

        if (wanted != got)
            fail_msg("%s: token %zu is %" PRId64 ", not %" PRId64 ", in \"%.80s\"", what, i, (int64_t)got,
                     (int64_t)wanted, text);
    }
}

void golden_each(const char *model, const char *kind, size_t n_least, GoldenCheck *check) {
    GoldenModel golden;
    char name[128];
    size_t n = 0;
    json_t *line;
    FILE *file;

    if (!golden_model_open(&golden, model))
        skip();
    snprintf(name, sizeof(name), "%s.%s.jsonl", model, kind);
    file = golden_open(name);
    for (; (line = golden_next(file)); n++) {
        check(&golden, line);
        json_decref(line);
    }
    fclose(file);
    golden_model_deinit(&golden);
    print_message("%s: %zu lines of %s\n", model, n, kind);
    assert_true(n >= n_least);
}
