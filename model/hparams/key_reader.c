// SPDX-License-Identifier: Apache-2.0
#include "model/hparams/key_reader.h"

#include <inttypes.h>
#include <stdio.h>

const char *key_reader_name(const KeyReader *reader, const char *suffix, char name[KEY_READER_NAME_MAX]) {
    snprintf(name, KEY_READER_NAME_MAX, "%s.%s", reader->arch, suffix);
    return name;
}

/* Checks the length of a list of equal elements that stands for a number: 1, or the number of layers. */
static int check_list(const KeyReader *reader, const char *name) {
    const GgufKey *key = gguf_key(reader->file, name);
    const uint64_t n = key && key->type == GGUF_ARRAY ? key->value.array.n : 1;

    if (n == 1 || !reader->n_layers || n == reader->n_layers)
        return 0;
    return err_set(reader->err, HPARAMS_E_CORRUPT,
                   "%s: key '%s' is an array of %" PRIu64 " elements for %" PRIu32
                   " layers; they must be as many: convert the model again",
                   gguf_path(reader->file), name, n, reader->n_layers);
}

/* Turns an error of a number's getter into a condition of HPARAMS_E_*. */
static int number_error(const KeyReader *reader, const char *name, int r) {
    const GgufKey *key = gguf_key(reader->file, name);

    if (r < 0)
        return r;
    /* Layers that differ are an unsupported kind of model, not a damaged file. */
    return key && key->type == GGUF_ARRAY && key->value.array.n > 1 && key->value.array.element_type != GGUF_STRING
               ? HPARAMS_E_UNSUPPORTED
               : HPARAMS_E_CORRUPT;
}

int key_reader_u32(const KeyReader *reader, const char *suffix, uint32_t min, uint32_t max, const uint32_t *fallback,
                   uint32_t *valuep) {
    uint32_t value;
    char name[KEY_READER_NAME_MAX];
    int r;

    r = gguf_get_u32(reader->file, key_reader_name(reader, suffix, name), &value, reader->err);
    if (r == GGUF_E_MISSING && fallback) {
        *valuep = *fallback;
        return 0;
    }
    if (r)
        return number_error(reader, name, r);
    r = check_list(reader, name);
    if (r)
        return r;
    if (value < min || value > max)
        return err_set(reader->err, HPARAMS_E_CORRUPT,
                       "%s: key '%s' is %" PRIu32 ", which is outside %" PRIu32 "..%" PRIu32, gguf_path(reader->file),
                       name, value, min, max);
    *valuep = value;
    return 0;
}

int key_reader_f32(const KeyReader *reader, const char *suffix, double min, double max, const double *fallback,
                   double *valuep) {
    float value;
    char name[KEY_READER_NAME_MAX];
    int r;

    r = gguf_get_f32(reader->file, key_reader_name(reader, suffix, name), &value, reader->err);
    if (r == GGUF_E_MISSING && fallback) {
        *valuep = *fallback;
        return 0;
    }
    if (r)
        return number_error(reader, name, r);
    r = check_list(reader, name);
    if (r)
        return r;
    if (!(value >= min && value <= max))
        return err_set(reader->err, HPARAMS_E_CORRUPT, "%s: key '%s' is %g, which is outside %g..%g",
                       gguf_path(reader->file), name, (double)value, min, max);
    *valuep = value;
    return 0;
}
