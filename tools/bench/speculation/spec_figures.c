// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/speculation/spec_figures.h"

#include <math.h>

#include "tools/bench/report_text.h"

void spec_figures_titles(const SpecFigure *figures, size_t n, FILE *file) {
    for (size_t i = 0; i < n; i++)
        fprintf(file, " %s |", figures[i].title);
}

void spec_figures_keys(const SpecFigure *figures, size_t n, FILE *file) {
    for (size_t i = 0; i < n; i++)
        fprintf(file, ",%s", figures[i].key);
}

void spec_figures_cells(const SpecFigure *figures, size_t n, const SpecScore *score, FILE *file) {
    for (size_t i = 0; i < n; i++)
        report_put_number(figures[i].value(score), figures[i].digits, file);
}

void spec_figures_fields(const SpecFigure *figures, size_t n, const SpecScore *score, FILE *file) {
    for (size_t i = 0; i < n; i++)
        report_put_value(figures[i].value(score), file);
}

void spec_figures_json(const SpecFigure *figures, size_t n, const SpecScore *score, json_t *object) {
    for (size_t i = 0; i < n && object; i++) {
        const double value = figures[i].value(score);

        if (isfinite(value))
            json_object_set_new(object, figures[i].key, json_real(value));
    }
}
