// SPDX-License-Identifier: Apache-2.0
#include "tools/eval/tables/plot_numbers.h"

#include <string.h>

/* Appends a field of CSV, in quotes where it needs them. */
static void put_field(StrBuf *text, const char *field) {
    if (!field[strcspn(field, ",\"\r\n")]) {
        str_buf_addf(text, ",%s", field);
        return;
    }
    str_buf_add(text, ",\"");
    for (; *field; field++)
        str_buf_addf(text, *field == '"' ? "\"%c" : "%c", *field);
    str_buf_add(text, "\"");
}

void plot_numbers_begin(StrBuf *text, const char *title, const char *x, bool is_x_logarithmic, const char *y) {
    str_buf_add(text, "title");
    put_field(text, title);
    if (x) {
        str_buf_add(text, "\nx");
        put_field(text, x);
        str_buf_add(text, is_x_logarithmic ? ",log" : "");
    }
    str_buf_add(text, "\ny");
    put_field(text, y);
    str_buf_add(text, "\n");
}

void plot_numbers_level(StrBuf *text, const char *name, double y) {
    str_buf_addf(text, "level,%s,%.6g\n", name, y);
}

void plot_numbers_point(StrBuf *text, const char *series, double x, double y, const char *label) {
    str_buf_add(text, "point");
    put_field(text, series);
    str_buf_addf(text, ",%.6g,%.6g%s%s\n", x, y, label ? "," : "", label ? label : "");
}

void plot_numbers_bar(StrBuf *text, const char *series, const char *group, double y) {
    str_buf_add(text, "bar");
    put_field(text, series);
    put_field(text, group);
    str_buf_addf(text, ",%.6g\n", y);
}
