// SPDX-License-Identifier: Apache-2.0
/* Rows of the source's matrices: reading and rounding them on all threads. */
#ifndef COORDGEN_IMPORTER_IMPORT_ROWS_H
#define COORDGEN_IMPORTER_IMPORT_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "importer/import_model.h"

/* Takes one row of a linear as float32, rotated when the linear is; may overwrite w. false: not a finite number. */
typedef bool ImportRowFn(void *arg, size_t row, float *w, unsigned int worker);

/* Calls fn for rows [begin, end) on all threads, in any order. 0, IMPORT_E_CORRUPT, IMPORT_E_CHANGED,
 * IMPORT_E_CANCELLED, -errno. */
int import_each_row(const ImportModel *model, const ImportLinear *linear, size_t begin, size_t end, ImportRowFn *fn,
                    void *arg, ErrText *err);
/* Dequantizes a whole linear into f32 w[n][k], rotated when the linear is. Errors of import_each_row(). */
int import_read_linear(const ImportModel *model, const ImportLinear *linear, float *w, ErrText *err);
/* Dequantizes a norm, bias or rope_freqs into vector->values, f32[n]. Errors of import_each_row(). */
int import_read_vector(const ImportModel *model, const ImportVector *vector, ErrText *err);

/* Rounds a row to the levels of its width; false when a value is not finite. */
bool import_round_row(const QuantRecipe *recipe, const float *w, size_t k, int bits, int8_t *q, float *scalep);
/* Rounds rows [begin, end) of the source to the linear's widths: q int8[end - begin][k], scales[row] of f32[n]. Errors
 * of import_each_row(). */
int import_round_rows(const ImportModel *model, const ImportLinear *linear, size_t begin, size_t end, int8_t *q,
                      float *scales, ErrText *err);
/* Makes a copy of the linear's q by columns, int8[k][n], to be freed by the caller; all threads. 0, -ENOMEM. */
int import_linear_columns(const ImportModel *model, const ImportLinear *linear, int8_t **columnsp, ErrText *err);

#endif
