// SPDX-License-Identifier: Apache-2.0
#include "base/strings/byte_text.h"

#include <stdio.h>

#include "base/cleanup.h"

const char *byte_text(ByteText *text, uint64_t len_bytes) {
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double value = (double)len_bytes;
    size_t unit = 0;

    for (; value >= 1023.95 && unit + 1 < ARRAY_LEN(units); unit++)
        value /= 1024;
    snprintf(text->text, sizeof(text->text), unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text->text;
}
