// SPDX-License-Identifier: Apache-2.0
/* Reads the fields of a JSON object by tables. A field that no table has is refused by its name. */
#ifndef COORDGEN_GATEWAY_FIELD_H
#define COORDGEN_GATEWAY_FIELD_H

#include <jansson.h>
#include <stddef.h>

#include "gateway/json/api_error.h"

typedef struct Field Field;
/* Puts a value, never null, into the target of the field. path: the field's own, for errors. 0 or API_E_REFUSED. */
typedef int FieldSet(const Field *field, const json_t *value, void *target, const char *path, ApiError *error);

struct Field {
    const char *name;
    FieldSet *set;      /* NULL: the field is accepted and has no effect */
    size_t offset;      /* of the value in the target, in bytes */
    double least, most; /* of a number */
};

typedef struct FieldTable {
    const Field *fields;
    size_t n;
} FieldTable;

/* Reads every field of the object; null counts as absent. path: the object's own, "" for a body. Texts that are set
 * live as long as the object. 0 or API_E_REFUSED. */
int fields_read(const json_t *object, const FieldTable *tables, size_t n_tables, void *target, const char *path,
                ApiError *error);

/* Setters, by the type of the value in the target. */
FieldSet field_set_text;   /* const char *, without a NUL inside */
FieldSet field_set_bool;   /* bool */
FieldSet field_set_u32;    /* uint32_t */
FieldSet field_set_i32;    /* int32_t */
FieldSet field_set_float;  /* float */
FieldSet field_set_object; /* const json_t *, an object */
FieldSet field_set_array;  /* const json_t *, an array */
FieldSet field_set_any;    /* const json_t * */

/* Setters of fields with one value that means what happens anyway; every other value is refused. */
FieldSet field_only_false;
FieldSet field_only_number; /* least */

/* Writes the path of a member, "messages[0].role", into path. Returns path. */
typedef struct FieldPath {
    char text[sizeof(((ApiError *)0)->param)];
} FieldPath;
const char *field_path(FieldPath *path, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
