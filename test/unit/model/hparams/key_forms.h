// SPDX-License-Identifier: Apache-2.0
/* A value of a GGUF key in every form that a file may have it in, and which of them whoever reads it must take. */
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
    bool fits;         /* it must be taken; else refused */
    const char *found; /* the type that a refusal names */
} KeyForm;

/* Calls fn with each form of the values, of which a scalar has one: of every type that can hold them, as a number and
 * as a list of n_list equal elements, and with what does not fit. Strings are not among them. */
typedef void KeyFormFn(void *arg, const KeyForm *form);
void key_forms(const char *name, KeyWant want, const double *values, size_t n, size_t n_list, KeyFormFn *fn, void *arg);

#endif
