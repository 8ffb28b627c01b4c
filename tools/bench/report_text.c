// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/report_text.h"

#include <math.h>

void report_put_cell(const char *text, FILE *file) {
    for (; *text; text++)
        putc(*text == '|' || (unsigned char)*text < 0x20 ? '?' : *text, file);
}

void report_put_field(const char *text, FILE *file) {
    putc('"', file);
    for (; *text; text++) {
        if (*text == '"')
            putc('"', file);
        putc(*text, file);
    }
    putc('"', file);
}

void report_put_rule(size_t n, FILE *file) {
    putc('|', file);
    for (size_t i = 0; i < n; i++)
        fprintf(file, " --- |");
    putc('\n', file);
}

void report_put_number(double value, int digits, FILE *file) {
    if (isfinite(value))
        fprintf(file, " %.*f |", digits, value);
    else
        fprintf(file, " |");
}

void report_put_value(double value, FILE *file) {
    putc(',', file);
    if (isfinite(value))
        fprintf(file, "%.6g", value);
}
