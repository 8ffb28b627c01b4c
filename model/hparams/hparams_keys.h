// SPDX-License-Identifier: Apache-2.0
/* Which keys a model's architecture may have, and what becomes of each: none is passed over without a word. */
#ifndef COORDGEN_MODEL_HPARAMS_KEYS_H
#define COORDGEN_MODEL_HPARAMS_KEYS_H

#include "base/err.h"
#include "model/gguf/gguf.h"
#include "model/hparams/arch.h"

typedef enum KeyKind {
    KEY_INTEGER,
    KEY_NUMBER,
    KEY_BOOL,
    KEY_STRING,
    KEY_ANY,
} KeyKind;

/* Gives a key that is known, "ARCH.suffix", by its place in the table: the suffix; NULL behind the last. */
const char *hparams_key_at(size_t index, KeyKind *kindp);
/* Types, and values that ask for something the engine does not do. 0, HPARAMS_E_UNSUPPORTED, HPARAMS_E_CORRUPT. */
int hparams_keys_check(const GgufFile *file, const Arch *arch, ErrText *err);
/* What becomes of a key. */
typedef enum KeyFate {
    KEY_FATE_OTHER, /* it is not under the architecture's name */
    KEY_FATE_READ,
    KEY_FATE_NO_EFFECT, /* with this value the model is what it is without it */
    KEY_FATE_REFUSED,   /* the text says why */
    KEY_FATE_UNKNOWN,   /* it has no effect, and nobody knows whether it should */
} KeyFate;

KeyFate hparams_key_fate(const GgufFile *file, const Arch *arch, const GgufString *name, ErrText *why);
/* Names in the log the keys under the architecture's name that are not known; once where a file is taken in. */
void hparams_keys_warn(const GgufFile *file, const char *arch);

#endif
