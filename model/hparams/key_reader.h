// SPDX-License-Identifier: Apache-2.0
/* Reads keys "ARCH.suffix", under the architecture's name. */
#ifndef COORDGEN_MODEL_KEY_READER_H
#define COORDGEN_MODEL_KEY_READER_H

#include "model/hparams/hparams.h"

#define KEY_READER_NAME_MAX 128

typedef struct KeyReader {
    const GgufFile *file;
    const char *arch;
    uint32_t n_layers; /* 0: not known yet */
    ErrText *err;
} KeyReader;

/* Gives the whole key. Returns name. */
const char *key_reader_name(const KeyReader *reader, const char *suffix, char name[KEY_READER_NAME_MAX]);
/* Gets a number of any type, also as a list with an equal element for each layer. fallback: used without such a key;
 * NULL: the key must be there. 0; HPARAMS_E_CORRUPT or HPARAMS_E_UNSUPPORTED with key and value; -errno. */
int key_reader_u32(const KeyReader *reader, const char *suffix, uint32_t min, uint32_t max, const uint32_t *fallback,
                   uint32_t *valuep);
int key_reader_f32(const KeyReader *reader, const char *suffix, double min, double max, const double *fallback,
                   double *valuep);

#endif
