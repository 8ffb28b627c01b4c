// SPDX-License-Identifier: Apache-2.0
/* Texts from outside (paths, names in files) as JSON, which allows only UTF-8. */
#ifndef COORDGEN_BASE_JSON_TEXT_H
#define COORDGEN_BASE_JSON_TEXT_H

#include <jansson.h>
#include <stddef.h>

/* Makes a JSON string; bytes that are not UTF-8 become U+FFFD. NULL when out of memory, like jansson's constructors;
 * packing a NULL fails as a whole. */
json_t *json_text(const char *text);
json_t *json_text_n(const char *data, size_t len_bytes);

#endif
