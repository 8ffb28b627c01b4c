// SPDX-License-Identifier: Apache-2.0
/* Names of an enumeration's values, as users write them. An enumeration has one list, for settings, options and
 * logs. */
#ifndef COORDGEN_BASE_CHOICE_H
#define COORDGEN_BASE_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Choice {
    const char *name; /* NULL ends a list */
    uint32_t value;
} Choice;

/* Returns the name of a value; NULL: the list has none. */
const char *choice_name(const Choice *choices, uint32_t value);
/* Puts the value of a name into an enumeration or an uint32_t. false: the list has no such name. */
bool choice_set(const Choice *choices, const char *name, void *valuep);
/* Writes the names, in the list's order, with commas between; last: what stands before the last name (" or "). */
void choice_list(const Choice *choices, const char *last, char *text, size_t room_bytes);

#endif
