// SPDX-License-Identifier: Apache-2.0
/* Which keys a model's architecture may have, and what becomes of each: none is passed over without a word. */
#ifndef COORDGEN_MODEL_HPARAMS_KEYS_H
#define COORDGEN_MODEL_HPARAMS_KEYS_H

#include "base/err.h"
#include "model/arch.h"
#include "model/gguf.h"

/* Types, and values that ask for something the engine does not do. 0, HPARAMS_E_UNSUPPORTED, HPARAMS_E_CORRUPT. */
int hparams_keys_check(const GgufFile *file, const Arch *arch, ErrText *err);
/* Names in the log the keys under the architecture's name that are not known; once where a file is taken in. */
void hparams_keys_warn(const GgufFile *file, const char *arch);

#endif
