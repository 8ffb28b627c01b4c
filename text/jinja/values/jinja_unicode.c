// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/values/jinja_unicode.h"

#include <utf8proc.h>

#define CATEGORY(name) (1u << UTF8PROC_CATEGORY_##name)
#define SHARP_S 0xdf
#define APOSTROPHE 0x2bc
#define IOTA 0x3b9
#define IOTA_BELOW 0x345

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

bool jinja_unicode_is_digit(uint32_t code_point) {
    return has_category(code_point, CATEGORY(ND));
}

bool jinja_unicode_is_alnum(uint32_t code_point) {
    return jinja_unicode_is_alpha(code_point) || has_category(code_point, CATEGORY(ND) | CATEGORY(NL) | CATEGORY(NO));
}

bool jinja_unicode_is_upper(uint32_t code_point) {
    return has_category(code_point, CATEGORY(LU)) ||
           (!has_category(code_point, CATEGORY(LT)) &&
            utf8proc_tolower((utf8proc_int32_t)code_point) != (utf8proc_int32_t)code_point);
}

bool jinja_unicode_is_lower(uint32_t code_point) {
    return has_category(code_point, CATEGORY(LL)) ||
           (!has_category(code_point, CATEGORY(LT)) &&
            utf8proc_toupper((utf8proc_int32_t)code_point) != (utf8proc_int32_t)code_point);
}

bool jinja_unicode_is_cased(uint32_t code_point) {
    return jinja_unicode_is_upper(code_point) || jinja_unicode_is_lower(code_point) ||
           has_category(code_point, CATEGORY(LT));
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
