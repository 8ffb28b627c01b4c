// SPDX-License-Identifier: Apache-2.0
#include "gateway/json/field.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/strings/nearest_word.h"
#include "base/strings/utf8.h"

static const Field *find(const FieldTable *tables, size_t n_tables, const char *name) {
    for (size_t i = 0; i < n_tables; i++)
        for (size_t j = 0; j < tables[i].n; j++)
            if (!strcmp(tables[i].fields[j].name, name))
                return &tables[i].fields[j];
    return NULL;
}

static int refuse_unknown(const FieldTable *tables, size_t n_tables, const char *name, const char *path,
                          ApiError *error) {
    for (size_t i = 0; i < n_tables; i++) {
        const char *near = nearest_word_in(name, &tables[i].fields[0].name, sizeof(Field), tables[i].n);

        if (near)
            return api_error_field(error, path, "unknown field '%.*s': did you mean '%s'?", UTF8_PREFIX(name, 64),
                                   near);
    }
    return api_error_field(error, path, "unknown field '%.*s'", UTF8_PREFIX(name, 64));
}

int fields_read(const json_t *object, const FieldTable *tables, size_t n_tables, void *target, const char *path,
                ApiError *error) {
    char at[sizeof(error->param)];
    const char *name;
    json_t *value;
    int r = 0;

    json_object_foreach((json_t *)object, name, value) {
        const Field *field = find(tables, n_tables, name);

        snprintf(at, sizeof(at), "%s%s%s", path, *path ? "." : "", name);
        if (!field)
            return refuse_unknown(tables, n_tables, name, at, error);
        if (field->set && !json_is_null(value))
            r = field->set(field, value, (char *)target + field->offset, at, error);
        if (r)
            return r;
    }
    return 0;
}

int field_set_text(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    if (!json_is_string(value))
        return api_error_field(error, path, "%s must be a string", path);
    if (strlen(json_string_value(value)) != json_string_length(value))
        return api_error_field(error, path, "%s must not have a NUL character", path);
    *(const char **)target = json_string_value(value);
    return 0;
}

int field_set_bool(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    if (!json_is_boolean(value))
        return api_error_field(error, path, "%s must be true or false", path);
    *(bool *)target = json_is_true(value);
    return 0;
}

/* Checks that a number is within the field's bounds. */
static int check_range(const Field *field, double number, const char *path, ApiError *error) {
    if (number >= field->least && number <= field->most)
        return 0;
    return api_error_field(error, path, "%s must be from %.15g to %.15g", path, field->least, field->most);
}

/* Checks that a value is an integer within the field's bounds. */
static int check_integer(const Field *field, const json_t *value, const char *path, ApiError *error) {
    /* Programs without integers write 100.0. */
    if (!json_is_number(value) || json_number_value(value) != floor(json_number_value(value)))
        return api_error_field(error, path, "%s must be an integer", path);
    return check_range(field, json_number_value(value), path, error);
}

int field_set_u32(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    int r = check_integer(field, value, path, error);

    if (!r)
        *(uint32_t *)target = (uint32_t)json_number_value(value);
    return r;
}

int field_set_i32(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    int r = check_integer(field, value, path, error);

    if (!r)
        *(int32_t *)target = (int32_t)json_number_value(value);
    return r;
}

int field_set_float(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    int r;

    if (!json_is_number(value))
        return api_error_field(error, path, "%s must be a number", path);
    r = check_range(field, json_number_value(value), path, error);
    if (!r)
        *(float *)target = (float)json_number_value(value);
    return r;
}

static int set_typed(bool fits, const char *what, const json_t *value, void *target, const char *path,
                     ApiError *error) {
    if (!fits)
        return api_error_field(error, path, "%s must be %s", path, what);
    *(const json_t **)target = value;
    return 0;
}

int field_set_object(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    return set_typed(json_is_object(value), "an object", value, target, path, error);
}

int field_set_array(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    return set_typed(json_is_array(value), "an array", value, target, path, error);
}

int field_set_any(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    return set_typed(true, "", value, target, path, error);
}

int field_only_false(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    if (json_is_false(value))
        return 0;
    return api_error_field(error, path, "%s is not supported: leave it out, or set it to false", path);
}

int field_only_number(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    if (json_is_number(value) && json_number_value(value) >= field->least && json_number_value(value) <= field->least)
        return 0;
    return api_error_field(error, path, "%s is not supported: leave it out, or set it to %.15g", path, field->least);
}

const char *field_path(FieldPath *path, const char *format, ...) {
    va_list args;

    va_start(args, format);
    vsnprintf(path->text, sizeof(path->text), format, args);
    va_end(args);
    return path->text;
}
