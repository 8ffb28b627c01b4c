// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/report_text.h"

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
