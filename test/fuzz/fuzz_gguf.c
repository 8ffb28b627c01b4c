// SPDX-License-Identifier: Apache-2.0
/* Fuzzes the GGUF reader and its users that need no weights: hyper-parameters, package checks, the printed form. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model/gguf/gguf.h"
#include "model/gguf/gguf_kind.h"
#include "model/gguf/gguf_text.h"
#include "model/hparams/hparams.h"
#include "model/package/package.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

/* A file that the reader accepted must hold for all its users; abort() is the fuzzer's sign. */
static void check_tensors(const GgufFile *file, const uint8_t *data, size_t len_bytes) {
    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        const GgufTensor *tensor = gguf_tensor_at(file, i);
        uint32_t block_values, block_bytes;

        if (tensor->data < data || tensor->offset_bytes > len_bytes ||
            tensor->len_bytes > len_bytes - tensor->offset_bytes || gguf_tensor(file, tensor->name) != tensor ||
            !ggml_type_block(tensor->type, &block_values, &block_bytes))
            abort();
        if (ggml_type_dequantizable(tensor->type)) {
            float values[256];

            ggml_dequantize(tensor->type, tensor->data, values, block_values);
            ggml_dequantize(tensor->type, tensor->data + tensor->len_bytes - block_bytes, values, block_values);
        }
    }
}

static void check_strings(const GgufFile *file) {
    volatile uint8_t sum = 0;

    for (size_t i = 0; i < gguf_n_keys(file); i++) {
        const GgufKey *key = gguf_key_at(file, i);

        if (key->type != GGUF_ARRAY || key->value.array.element_type != GGUF_STRING)
            continue;
        for (uint64_t j = 0; j < key->value.array.n; j++)
            for (size_t k = 0; k < key->value.array.strings[j].len_bytes; k++)
                sum = (uint8_t)(sum + key->value.array.strings[j].data[k]);
    }
}

static void check_printed(const GgufFile *file) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL, json = STR_BUF_NULL;

    gguf_text_write(file, &text);
    if (str_buf_failed(&text) || gguf_text_json(file, false, &json))
        abort();
    for (const char *c = text.data; *c; c++)
        if ((*c > 0 && *c < 0x20 && *c != '\n') || *c == 0x7f)
            abort(); /* a name that moves the terminal's cursor */
}

/* The kind that a scan of the models' folder finds must fit the reader's verdict. */
static void check_kind(const uint8_t *data, size_t len_bytes, bool is_read) {
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    GgufKindInfo info;

    if (fd < 0)
        return;
    if (write(fd, data, len_bytes) == (ssize_t)len_bytes) {
        gguf_kind_find(&info, "fuzz", fd);
        if (info.kind > GGUF_KIND_LOST || (is_read && (info.kind == GGUF_KIND_CUT || info.kind == GGUF_KIND_LOST)))
            abort();
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    _cleanup_(package_freep) Package *package = NULL;
    void *aligned = NULL;
    Hparams hparams;
    ErrText err = { 0 };
    int r;

    r = gguf_parse(&file, data, len_bytes, "fuzz", &err);
    check_kind(data, len_bytes, !r);
    if (r) {
        if ((r != GGUF_E_CORRUPT && r != GGUF_E_UNSUPPORTED) || strncmp(err.text, "fuzz: ", 6))
            abort();
        return 0;
    }
    check_tensors(file, data, len_bytes);
    check_strings(file);
    check_printed(file);
    if (!hparams_read(&hparams, file, &err))
        (void)hparams_check_tensors(&hparams, file, &err);
    if (package_is(file) && !posix_memalign(&aligned, PACKAGE_ALIGNMENT, len_bytes)) {
        memcpy(aligned, data, len_bytes);
        (void)package_parse(&package, aligned, len_bytes, "fuzz", &err);
        package = package_free(package);
        free(aligned);
    }
    return 0;
}
