// SPDX-License-Identifier: Apache-2.0
/* Keys of rotary positions. */
#ifndef COORDGEN_MODEL_HPARAMS_ROPE_H
#define COORDGEN_MODEL_HPARAMS_ROPE_H

#include "model/hparams/key_reader.h"

/* Reads the rope_ fields; needs n_context and head_size. 0, HPARAMS_E_UNSUPPORTED, HPARAMS_E_CORRUPT, -errno. */
int hparams_read_rope(const KeyReader *reader, Hparams *hparams);

#endif
