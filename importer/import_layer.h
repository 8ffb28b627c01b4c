// SPDX-License-Identifier: Apache-2.0
/* One layer of the package: its memory, and its way into the file. */
#ifndef COORDGEN_IMPORTER_IMPORT_LAYER_H
#define COORDGEN_IMPORTER_IMPORT_LAYER_H

#include "importer/import.h"

int import_layer_begin(Import *import, size_t index, ErrText *err);
void import_layer_end(Import *import, size_t index);
/* Rounds, packs and writes embedding and head, by panels. */
int import_outside_write(Import *import, ErrText *err);
/* Packs and writes what the method has made; of layer 0 the vectors only. */
int import_layer_write(Import *import, size_t index, ErrText *err);
int import_layer_read_integers(Import *import, size_t index, ErrText *err);
int import_layer_read_floats(Import *import, size_t index, ErrText *err);

#endif
