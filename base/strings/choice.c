// SPDX-License-Identifier: Apache-2.0
#include "base/strings/choice.h"

#include <stdio.h>
#include <string.h>

/* Choices are written through uint32_t. */
typedef enum AnyChoice {
    ANY_CHOICE
} AnyChoice;
_Static_assert(sizeof(AnyChoice) == sizeof(uint32_t), "enumerations have 32 bits");

const char *choice_name(const Choice *choices, uint32_t value) {
    while (choices->name && choices->value != value)
        choices++;
    return choices->name;
}

bool choice_set(const Choice *choices, const char *name, void *valuep) {
    while (choices->name && strcmp(choices->name, name))
        choices++;
    if (choices->name)
        *(uint32_t *)valuep = choices->value;
    return choices->name;
}

void choice_list(const Choice *choices, const char *last, char *text, size_t room_bytes) {
    size_t len_bytes = 0;

    *text = 0;
    for (const Choice *choice = choices; choice->name && len_bytes < room_bytes; choice++)
        len_bytes += (size_t)snprintf(text + len_bytes, room_bytes - len_bytes, "%s%s",
                                      choice == choices ? ""
                                      : choice[1].name  ? ", "
                                                        : last,
                                      choice->name);
}
