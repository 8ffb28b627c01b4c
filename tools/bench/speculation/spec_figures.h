// SPDX-License-Identifier: Apache-2.0
/* Figures of a score in the three forms of a report. A figure that is not finite leaves its place empty. */
#ifndef COORDGEN_BENCH_SPEC_FIGURES_H
#define COORDGEN_BENCH_SPEC_FIGURES_H

#include <jansson.h>
#include <stdio.h>

#include "tools/bench/speculation/spec_score.h"

/* Writes the titles as cells of a Markdown table, the keys as further fields of CSV. */
void spec_figures_titles(const SpecFigure *figures, size_t n, FILE *file);
void spec_figures_keys(const SpecFigure *figures, size_t n, FILE *file);
/* Writes the score's figures: as cells, as fields, as members of an object, which may be NULL. */
void spec_figures_cells(const SpecFigure *figures, size_t n, const SpecScore *score, FILE *file);
void spec_figures_fields(const SpecFigure *figures, size_t n, const SpecScore *score, FILE *file);
void spec_figures_json(const SpecFigure *figures, size_t n, const SpecScore *score, json_t *object);

#endif
