// SPDX-License-Identifier: Apache-2.0
/* Keys that a model's architecture may have, and the fate of each: none is skipped without a word. */
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

/* Gives a known key, "ARCH.suffix", by its place in the table: the suffix; NULL behind the last. */
const char *hparams_key_at(size_t index, KeyKind *kindp);
/* Checks types, and refuses values that ask for unsupported features. 0, HPARAMS_E_UNSUPPORTED, HPARAMS_E_CORRUPT. */
int hparams_keys_check(const GgufFile *file, const Arch *arch, ErrText *err);
/* Fate of a key. */
typedef enum KeyFate {
    KEY_FATE_OTHER, /* not under the architecture's name */
    KEY_FATE_READ,
    KEY_FATE_NO_EFFECT, /* with this value the model is the same as without the key */
    KEY_FATE_REFUSED,   /* refused; the text gives the reason */
    KEY_FATE_UNKNOWN,   /* without effect here, and unknown whether it should have one */
} KeyFate;

KeyFate hparams_key_fate(const GgufFile *file, const Arch *arch, const GgufString *name, ErrText *why);
/* Logs the unknown keys under the architecture's name; called once when a file is taken in. */
void hparams_keys_warn(const GgufFile *file, const char *arch);

#endif
