// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/values/jinja_unicode.h"

#include <utf8proc.h>

#include "base/cleanup.h"

#define CATEGORY(name) (1u << UTF8PROC_CATEGORY_##name)
#define SHARP_S 0xdf
#define APOSTROPHE 0x2bc
#define IOTA 0x3b9
#define IOTA_BELOW 0x345

typedef struct CodeRange {
    uint32_t first, last;
} CodeRange;

static bool is_in(const CodeRange *ranges, size_t n, uint32_t code_point) {
    for (size_t i = 0; i < n; i++)
        if (code_point >= ranges[i].first && code_point <= ranges[i].last)
            return true;
    return false;
}

static bool has_category(uint32_t code_point, uint32_t categories) {
    return categories >> utf8proc_category((utf8proc_int32_t)code_point) & 1;
}

bool jinja_unicode_is_space(uint32_t code_point) {
    return (code_point >= 9 && code_point <= 0xd) || (code_point >= 0x1c && code_point <= 0x20) || code_point == 0x85 ||
           code_point == 0x2028 || code_point == 0x2029 ||
           (code_point > 0x20 && has_category(code_point, CATEGORY(ZS)));
}

bool jinja_unicode_is_printable(uint32_t code_point) {
    return code_point == ' ' ||
           !has_category(code_point, CATEGORY(CC) | CATEGORY(CF) | CATEGORY(CS) | CATEGORY(CO) | CATEGORY(CN) |
                                         CATEGORY(ZL) | CATEGORY(ZP) | CATEGORY(ZS));
}

bool jinja_unicode_is_alpha(uint32_t code_point) {
    return has_category(code_point, CATEGORY(LU) | CATEGORY(LL) | CATEGORY(LT) | CATEGORY(LM) | CATEGORY(LO));
}

bool jinja_unicode_is_decimal(uint32_t code_point) {
    return has_category(code_point, CATEGORY(ND));
}

bool jinja_unicode_is_digit(uint32_t code_point) {
    /* Superscripts, subscripts and circled digits, which have no category of their own. */
    static const CodeRange digits[] = {
        { 0xb2, 0xb3 },     { 0xb9, 0xb9 },       { 0x1369, 0x1371 },   { 0x19da, 0x19da },   { 0x2070, 0x2070 },
        { 0x2074, 0x2079 }, { 0x2080, 0x2089 },   { 0x2460, 0x2468 },   { 0x2474, 0x247c },   { 0x2488, 0x2490 },
        { 0x24ea, 0x24ea }, { 0x24f5, 0x24fd },   { 0x24ff, 0x24ff },   { 0x2776, 0x277e },   { 0x2780, 0x2788 },
        { 0x278a, 0x2792 }, { 0x10a40, 0x10a43 }, { 0x10e60, 0x10e68 }, { 0x11052, 0x1105a }, { 0x1f100, 0x1f10a }
    };

    return jinja_unicode_is_decimal(code_point) || is_in(digits, ARRAY_LEN(digits), code_point);
}

bool jinja_unicode_is_numeric(uint32_t code_point) {
    return has_category(code_point, CATEGORY(ND) | CATEGORY(NL) | CATEGORY(NO));
}

bool jinja_unicode_is_upper(uint32_t code_point) {
    return has_category(code_point, CATEGORY(LU)) ||
           (!jinja_unicode_is_title(code_point) &&
            utf8proc_tolower((utf8proc_int32_t)code_point) != (utf8proc_int32_t)code_point);
}

bool jinja_unicode_is_lower(uint32_t code_point) {
    return has_category(code_point, CATEGORY(LL)) ||
           (!jinja_unicode_is_title(code_point) &&
            utf8proc_toupper((utf8proc_int32_t)code_point) != (utf8proc_int32_t)code_point);
}

bool jinja_unicode_is_title(uint32_t code_point) {
    return has_category(code_point, CATEGORY(LT));
}

bool jinja_unicode_is_case_ignorable(uint32_t code_point) {
    /* Marks that stand within words, as apostrophes do. */
    static const CodeRange marks[] = { { '\'', '\'' },     { '.', '.' },       { ':', ':' },       { 0xb7, 0xb7 },
                                       { 0x387, 0x387 },   { 0x55f, 0x55f },   { 0x5f4, 0x5f4 },   { 0x2018, 0x2019 },
                                       { 0x2024, 0x2024 }, { 0x2027, 0x2027 }, { 0xfe13, 0xfe13 }, { 0xfe52, 0xfe52 },
                                       { 0xfe55, 0xfe55 }, { 0xff07, 0xff07 }, { 0xff0e, 0xff0e }, { 0xff1a, 0xff1a } };

    return has_category(code_point, CATEGORY(MN) | CATEGORY(ME) | CATEGORY(CF) | CATEGORY(LM) | CATEGORY(SK)) ||
           is_in(marks, ARRAY_LEN(marks), code_point);
}

/* A character whose case folding has several characters becomes several in upper case too: each of them in upper case.
 * 0: it has one only. */
static size_t convert_to_many(uint32_t code_point, JinjaCase to, uint32_t made[3]) {
    utf8proc_int32_t folded[4];
    utf8proc_ssize_t n;
    int boundary = 0;

    n = utf8proc_decompose_char((utf8proc_int32_t)code_point, folded, 4, UTF8PROC_CASEFOLD, &boundary);
    if (n < 2 || n > 3 || has_category(code_point, CATEGORY(LU)) ||
        (to == JINJA_CASE_TITLE && has_category(code_point, CATEGORY(LT))))
        return 0;
    /* In title case only the first letter is raised; the apostrophe of U+0149 is none. */
    for (utf8proc_ssize_t i = 0; i < n; i++)
        made[i] = (uint32_t)(to == JINJA_CASE_UPPER || i == 0 || folded[0] == APOSTROPHE ? utf8proc_toupper(folded[i])
                                                                                         : folded[i]);
    if (to == JINJA_CASE_TITLE && folded[n - 1] == IOTA)
        made[n - 1] = IOTA_BELOW;
    return (size_t)n;
}

size_t jinja_unicode_convert(uint32_t code_point, JinjaCase to, uint32_t made[3]) {
    const utf8proc_int32_t from = (utf8proc_int32_t)code_point;
    size_t n = 0;

    if (to == JINJA_CASE_LOWER) {
        made[0] = (uint32_t)utf8proc_tolower(from);
        made[1] = 0x307;
        return code_point == 0x130 ? made[0] = 'i', 2 : 1; /* "İ" keeps its dot */
    }
    made[0] = (uint32_t)(to == JINJA_CASE_UPPER ? utf8proc_toupper(from) : utf8proc_totitle(from));
    if (code_point >= 0x80 && (to == JINJA_CASE_UPPER || made[0] == code_point || code_point == SHARP_S))
        n = convert_to_many(code_point, to, made);
    return n ? n : 1;
}
