// SPDX-License-Identifier: Apache-2.0
#include "tools/eval/matrix/matrix_output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file_io.h"

int matrix_output_init(MatrixOutput *output, size_t room, size_t n_vocab) {
    *output = (MatrixOutput){ .room = room, .n_vocab = n_vocab };
    output->tokens = calloc(room, sizeof(*output->tokens));
    output->logits = malloc(room * n_vocab * sizeof(*output->logits));
    if (output->tokens && output->logits)
        return 0;
    matrix_output_deinit(output);
    return -ENOMEM;
}

void matrix_output_deinit(MatrixOutput *output) {
    free(output->tokens);
    free(output->logits);
    *output = (MatrixOutput){ 0 };
}

void matrix_output_take_logits(void *arg, const float *logits) {
    MatrixOutput *output = arg;

    if (output->n_logits < output->room)
        memcpy(output->logits + output->n_logits++ * output->n_vocab, logits, output->n_vocab * sizeof(*logits));
}

void matrix_output_take(void *arg, const GenerationDelta *delta) {
    MatrixOutput *output = arg;

    for (size_t i = 0; i < delta->n_tokens && output->n < output->room; i++)
        output->tokens[output->n++] = delta->tokens[i];
}

bool matrix_output_differs(const MatrixOutput *output, const MatrixOutput *golden, char *where, size_t where_bytes) {
    size_t row_bytes = golden->n_vocab * sizeof(float);

    for (size_t i = 0; i < golden->n || i < output->n; i++) {
        if (i >= output->n || i >= golden->n || i >= output->n_logits || output->tokens[i] != golden->tokens[i] ||
            memcmp(output->logits + i * golden->n_vocab, golden->logits + i * golden->n_vocab, row_bytes)) {
            snprintf(where, where_bytes, "step %zu of %zu: token %" PRIu32 ", first cell %" PRIu32, i, golden->n,
                     i < output->n ? output->tokens[i] : UINT32_MAX, i < golden->n ? golden->tokens[i] : UINT32_MAX);
            return true;
        }
    }
    return false;
}

int matrix_outputs_dump(const char *path, const MatrixOutput *outputs, size_t n, ErrText *err) {
    _cleanup_(atomic_file_freep) AtomicFile *file = NULL;
    int r = atomic_file_new(&file, path, err);

    for (size_t i = 0; i < n && !r; i++) {
        r = file_write_all(atomic_file_fd(file), outputs[i].tokens, outputs[i].n * sizeof(uint32_t));
        if (!r)
            r = file_write_all(atomic_file_fd(file), outputs[i].logits,
                               outputs[i].n * outputs[i].n_vocab * sizeof(float));
        if (r)
            err_set(err, r, "%s: %s", path, strerror(-r));
    }
    return r ? r : atomic_file_commit(file, err);
}

int matrix_outputs_load(const char *path, MatrixOutput *outputs, size_t n, ErrText *err) {
    _cleanup_(mapped_file_deinit) MappedFile file = { 0 };
    const uint8_t *at;
    int r = mapped_file_open(&file, path, err);

    if (r)
        return r;
    at = file.data;
    for (size_t i = 0; i < n; i++) {
        size_t tokens_bytes = outputs[i].room * sizeof(uint32_t), row_bytes = outputs[i].n_vocab * sizeof(float);

        if ((size_t)(file.data + file.len_bytes - at) < tokens_bytes + outputs[i].room * row_bytes)
            return err_set(err, -EPROTO, "%s: the other process gave fewer tokens", path);
        memcpy(outputs[i].tokens, at, tokens_bytes);
        memcpy(outputs[i].logits, at + tokens_bytes, outputs[i].room * row_bytes);
        outputs[i].n = outputs[i].n_logits = outputs[i].room;
        at += tokens_bytes + outputs[i].room * row_bytes;
    }
    return 0;
}
