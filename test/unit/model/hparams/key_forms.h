// SPDX-License-Identifier: Apache-2.0
/* A value of a GGUF key in every form that a file may have, with the forms that a reader must take. */
#ifndef COORDGEN_TEST_KEY_FORMS_H
#define COORDGEN_TEST_KEY_FORMS_H

#include <stdbool.h>
#include <stddef.h>

#include "model/gguf/gguf.h"

typedef enum KeyWant {
    WANT_INTEGER,
    WANT_NUMBER,
    WANT_FLAG,
    WANT_STRING,
    WANT_INTEGERS,
    WANT_NUMBERS,
    WANT_STRINGS,
} KeyWant;

typedef struct KeyForm {
    GgufKey key;
    bool fits;         /* must be taken; otherwise refused */
    const char *found; /* the type that a refusal names */
} KeyForm;

/* Calls fn with each form of the values; a scalar has one value. Forms are every type that can hold the values, as a
 * number and as a list of n_list equal elements, and values that do not fit. Strings are not among them. */
typedef void KeyFormFn(void *arg, const KeyForm *form);
void key_forms(const char *name, KeyWant want, const double *values, size_t n, size_t n_list, KeyFormFn *fn, void *arg);

#endif
