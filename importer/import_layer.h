// SPDX-License-Identifier: Apache-2.0
/* A layer of the package: its memory, and how it is written to the file and read back. */
#ifndef COORDGEN_IMPORTER_IMPORT_LAYER_H
#define COORDGEN_IMPORTER_IMPORT_LAYER_H

#include "importer/import.h"

int import_layer_begin(Import *import, size_t index, ErrText *err);
void import_layer_end(Import *import, size_t index);
/* Rounds, packs and writes embedding and head, panel by panel. */
int import_outside_write(Import *import, ErrText *err);
/* Packs and writes the results of the method; for layer 0 the vectors only. */
int import_layer_write(Import *import, size_t index, ErrText *err);
int import_layer_read_integers(Import *import, size_t index, ErrText *err);
int import_layer_read_floats(Import *import, size_t index, ErrText *err);

#endif
