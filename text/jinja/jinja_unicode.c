// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/jinja_unicode.h"

#include "base/cleanup.h"

typedef struct UnicodeRange {
    uint32_t first, last, stride;
} UnicodeRange;

typedef struct UnicodeMap {
    uint32_t first, last, stride;
    int32_t difference;
} UnicodeMap;

typedef struct UnicodeMany {
    uint32_t code_point;
    uint32_t made[3];
} UnicodeMany;

#include "text/jinja/jinja_unicode.inc"

static bool is_in(const UnicodeRange *ranges, size_t n, uint32_t code_point) {
    while (n) {
        const UnicodeRange *middle = &ranges[n / 2];

        if (code_point < middle->first) {
            n /= 2;
        } else if (code_point > middle->last) {
            ranges = middle + 1;
            n -= n / 2 + 1;
        } else {
            return (code_point - middle->first) % middle->stride == 0;
        }
    }
    return false;
}

#define UNICODE_CLASS(name)                                                                                            \
    bool jinja_unicode_is_##name(uint32_t code_point) {                                                                \
        return is_in(unicode_##name, ARRAY_LEN(unicode_##name), code_point);                                           \
    }

UNICODE_CLASS(space)
UNICODE_CLASS(alpha)
UNICODE_CLASS(decimal)
UNICODE_CLASS(digit)
UNICODE_CLASS(numeric)
UNICODE_CLASS(upper)
UNICODE_CLASS(lower)
UNICODE_CLASS(title)
UNICODE_CLASS(case_ignorable)

bool jinja_unicode_is_printable(uint32_t code_point) {
    return !is_in(unicode_not_printable, ARRAY_LEN(unicode_not_printable), code_point);
}

static uint32_t mapped(const UnicodeMap *maps, size_t n, uint32_t code_point) {
    while (n) {
        const UnicodeMap *middle = &maps[n / 2];

        if (code_point < middle->first) {
            n /= 2;
        } else if (code_point > middle->last) {
            maps = middle + 1;
            n -= n / 2 + 1;
        } else {
            return (code_point - middle->first) % middle->stride ? code_point
                                                                 : (uint32_t)((int64_t)code_point + middle->difference);
        }
    }
    return code_point;
}

size_t jinja_unicode_convert(uint32_t code_point, JinjaCase to, uint32_t made[3]) {
    static const struct {
        const UnicodeMap *maps;
        size_t n_maps;
        const UnicodeMany *many;
        size_t n_many;
    } tables[] = {
        [JINJA_CASE_UPPER] = { unicode_to_upper, ARRAY_LEN(unicode_to_upper), unicode_to_upper_many,
                               ARRAY_LEN(unicode_to_upper_many) },
        [JINJA_CASE_LOWER] = { unicode_to_lower, ARRAY_LEN(unicode_to_lower), unicode_to_lower_many,
                               ARRAY_LEN(unicode_to_lower_many) },
        [JINJA_CASE_TITLE] = { unicode_to_title, ARRAY_LEN(unicode_to_title), unicode_to_title_many,
                               ARRAY_LEN(unicode_to_title_many) },
    };

    for (size_t i = 0; code_point >= 0x80 && i < tables[to].n_many; i++)
        if (tables[to].many[i].code_point == code_point) {
            size_t n = 0;

            for (; n < 3 && tables[to].many[i].made[n]; n++)
                made[n] = tables[to].many[i].made[n];
            return n;
        }
    made[0] = mapped(tables[to].maps, tables[to].n_maps, code_point);
    return 1;
}
