// SPDX-License-Identifier: Apache-2.0
/* Golden vectors of real models: where the models are, lines of JSON, comparison of ids. */
#ifndef COORDGEN_TEST_UNIT_TOKENIZER_GOLDEN_H
#define COORDGEN_TEST_UNIT_TOKENIZER_GOLDEN_H

#include <jansson.h>

#include "text/tokenizer/tokenizer.h"

#define GOLDEN_DEFAULT_MODEL "smollm2-135m"

/* The model's file; the default model may be named by COORDGEN_MODEL, the others lie in COORDGEN_MODELS_DIR. */
const char *golden_model_path(const char *model, char *path, size_t path_bytes);

typedef struct GoldenModel {
    GgufFile *file;
    Tokenizer *tokenizer;
} GoldenModel;

/* False if the file is absent and the model is not the default one: the test prints that and is skipped. */
bool golden_model_open(GoldenModel *golden, const char *model);
void golden_model_deinit(GoldenModel *golden);

/* Calls check for every line of test/golden/tokens/MODEL.KIND.jsonl, which has at least n_least. */
typedef void GoldenCheck(const GoldenModel *golden, const json_t *line);
void golden_each(const char *model, const char *kind, size_t n_least, GoldenCheck *check);

void golden_check_ids(const TokenList *list, const json_t *ids, const char *what, const char *text);

#endif
