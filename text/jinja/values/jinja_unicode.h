// SPDX-License-Identifier: Apache-2.0
/* Properties of characters that Python's str methods ask for, by libutf8proc. docs/chat-templates.md lists the
 * characters for which Python answers otherwise. */
#ifndef COORDGEN_TEXT_JINJA_UNICODE_H
#define COORDGEN_TEXT_JINJA_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool jinja_unicode_is_space(uint32_t code_point);
bool jinja_unicode_is_printable(uint32_t code_point);
bool jinja_unicode_is_alpha(uint32_t code_point);
bool jinja_unicode_is_alnum(uint32_t code_point);
bool jinja_unicode_is_digit(uint32_t code_point);
bool jinja_unicode_is_upper(uint32_t code_point);
bool jinja_unicode_is_lower(uint32_t code_point);
/* Whether the character is of upper, lower or title case. */
bool jinja_unicode_is_cased(uint32_t code_point);

typedef enum JinjaCase {
    JINJA_CASE_UPPER,
    JINJA_CASE_LOWER,
    JINJA_CASE_TITLE,
} JinjaCase;

/* Converts a character by Unicode's full case mapping. Returns how many characters were made, 1 to 3. */
size_t jinja_unicode_convert(uint32_t code_point, JinjaCase to, uint32_t made[3]);

#endif
