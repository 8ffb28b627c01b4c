// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/values/jinja_unicode.h"

#include <utf8proc.h>

#define CATEGORY(name) (1u << UTF8PROC_CATEGORY_##name)

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
            jinja_unicode_convert(code_point, JINJA_CASE_LOWER) != code_point);
}

bool jinja_unicode_is_lower(uint32_t code_point) {
    return has_category(code_point, CATEGORY(LL)) ||
           (!has_category(code_point, CATEGORY(LT)) &&
            jinja_unicode_convert(code_point, JINJA_CASE_UPPER) != code_point);
}

bool jinja_unicode_is_cased(uint32_t code_point) {
    return jinja_unicode_is_upper(code_point) || jinja_unicode_is_lower(code_point) ||
           has_category(code_point, CATEGORY(LT));
}

uint32_t jinja_unicode_convert(uint32_t code_point, JinjaCase to) {
    const utf8proc_int32_t from = (utf8proc_int32_t)code_point;

    return (uint32_t)(to == JINJA_CASE_UPPER   ? utf8proc_toupper(from)
                      : to == JINJA_CASE_LOWER ? utf8proc_tolower(from)
                                               : utf8proc_totitle(from));
}
