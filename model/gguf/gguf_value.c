// SPDX-License-Identifier: Apache-2.0
/* Typed getters of a GGUF file's keys. Converters disagree about types: one writes a count as u32, another as i64, as a
 * list with an element for each layer, or as a float. Every form is taken if its value fits the type asked for. Other
 * values are refused by name, type found and type wanted. docs/model-keys.md has the rules for users. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/gguf/gguf.h"
#include "model/gguf/gguf_private.h"

/* Largest whole float that is taken: beyond, the float may stand for its neighbours. */
#define F32_WHOLE_MAX 0x1p24
#define F64_WHOLE_MAX 0x1p53

#define SHOWN_MAX 32

/* --- types -------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    uint8_t bytes; /* 0: variable */
} value_types[] = {
    [GGUF_U8] = { "u8", 1 },       [GGUF_I8] = { "i8", 1 },     [GGUF_U16] = { "u16", 2 },
    [GGUF_I16] = { "i16", 2 },     [GGUF_U32] = { "u32", 4 },   [GGUF_I32] = { "i32", 4 },
    [GGUF_F32] = { "f32", 4 },     [GGUF_BOOL] = { "bool", 1 }, [GGUF_STRING] = { "string", 0 },
    [GGUF_ARRAY] = { "array", 0 }, [GGUF_U64] = { "u64", 8 },   [GGUF_I64] = { "i64", 8 },
    [GGUF_F64] = { "f64", 8 },
};

const char *gguf_value_type_name(uint32_t type) {
    return type < ARRAY_LEN(value_types) ? value_types[type].name : "unknown";
}

uint32_t gguf_value_bytes(uint32_t type) {
    return type < ARRAY_LEN(value_types) ? value_types[type].bytes : 0;
}

void gguf_decode_scalar(GgufKey *key, const uint8_t *data) {
    uint64_t bits = 0;
    double f64;
    float f32;

    memcpy(&bits, data, value_types[key->type].bytes);
    switch (key->type) {
    case GGUF_I8:
        key->value.i64 = (int8_t)bits;
        break;
    case GGUF_I16:
        key->value.i64 = (int16_t)bits;
        break;
    case GGUF_I32:
        key->value.i64 = (int32_t)bits;
        break;
    case GGUF_I64:
        key->value.i64 = (int64_t)bits;
        break;
    case GGUF_F32:
        memcpy(&f32, data, sizeof(f32));
        key->value.f64 = (double)f32;
        break;
    case GGUF_F64:
        memcpy(&f64, data, sizeof(f64));
        key->value.f64 = f64;
        break;
    case GGUF_BOOL:
        key->value.boolean = bits;
        break;
    default:
        key->value.u64 = bits;
    }
}

/* --- one value ---------------------------------------------------------------------------------------------------- */

typedef struct Integer {
    uint64_t magnitude;
    bool is_negative;
} Integer;

/* Reads a scalar as an integer. false: not an integer, or a float that is not whole. */
static bool as_integer(const GgufKey *scalar, Integer *integer) {
    const double real = scalar->value.f64;
    const int64_t i64 = scalar->value.i64;

    switch (scalar->type) {
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64:
        *integer = (Integer){ scalar->value.u64, false };
        return true;
    case GGUF_I8:
    case GGUF_I16:
    case GGUF_I32:
    case GGUF_I64:
        *integer = (Integer){ i64 < 0 ? -(uint64_t)i64 : (uint64_t)i64, i64 < 0 };
        return true;
    case GGUF_F32:
    case GGUF_F64:
        if (!(fabs(real) <= (scalar->type == GGUF_F32 ? F32_WHOLE_MAX : F64_WHOLE_MAX)) || real != trunc(real))
            return false;
        *integer = (Integer){ (uint64_t)fabs(real), real < 0 };
        return true;
    default:
        return false;
    }
}

/* Reads a scalar as an integer of i64. false: not possible. */
static bool as_i64(const GgufKey *scalar, int64_t *valuep) {
    Integer integer = { 0 };

    if (!as_integer(scalar, &integer) || integer.magnitude > (uint64_t)INT64_MAX + integer.is_negative)
        return false;
    *valuep = integer.is_negative ? (int64_t)-integer.magnitude : (int64_t)integer.magnitude;
    return true;
}

/* Reads a scalar as the nearest number of f32. false: not a number. */
static bool as_f32(const GgufKey *scalar, float *valuep) {
    Integer integer = { 0 };

    if (scalar->type == GGUF_F32 || scalar->type == GGUF_F64)
        *valuep = (float)scalar->value.f64;
    else if (as_integer(scalar, &integer))
        *valuep = integer.is_negative ? -(float)integer.magnitude : (float)integer.magnitude;
    else
        return false;
    return true;
}

/* Whether a value of this type may be a number. */
static bool is_number(GgufValueType type) {
    return type != GGUF_BOOL && type != GGUF_STRING && type != GGUF_ARRAY;
}

/* Formats a number or flag for a text. Returns shown. */
static const char *show(const GgufKey *scalar, char shown[SHOWN_MAX]) {
    Integer integer = { 0 };

    if (scalar->type == GGUF_BOOL)
        snprintf(shown, SHOWN_MAX, "%s", scalar->value.boolean ? "true" : "false");
    else if (as_integer(scalar, &integer))
        snprintf(shown, SHOWN_MAX, "%s%" PRIu64, integer.is_negative ? "-" : "", integer.magnitude);
    else
        snprintf(shown, SHOWN_MAX, "%.9g", scalar->value.f64);
    return shown;
}

static GgufKey element_at(const GgufArray *array, uint64_t index) {
    GgufKey element = { .type = array->element_type };

    gguf_decode_scalar(&element, array->data + index * gguf_value_bytes(array->element_type));
    return element;
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */

static int wrong_type(const GgufFile *file, const GgufKey *key, const char *name, const char *expected, ErrText *err) {
    if (key->type == GGUF_ARRAY)
        return err_set(err, GGUF_E_TYPE, "%s: key '%s' is an array of %s, expected %s", file->path, name,
                       gguf_value_type_name(key->value.array.element_type), expected);
    return err_set(err, GGUF_E_TYPE, "%s: key '%s' is of type %s, expected %s", file->path, name,
                   gguf_value_type_name(key->type), expected);
}

static int wrong_value(const GgufFile *file, const GgufKey *scalar, const char *name, const char *expected, int code,
                       ErrText *err) {
    char shown[SHOWN_MAX];

    return err_set(err, code, "%s: key '%s' is %s of type %s, expected %s", file->path, name, show(scalar, shown),
                   gguf_value_type_name(scalar->type), expected);
}

static int wrong_element(const GgufFile *file, const GgufArray *array, uint64_t index, const char *name,
                         const char *expected, int code, ErrText *err) {
    const GgufKey element = element_at(array, index);
    char shown[SHOWN_MAX];

    return err_set(err, code, "%s: key '%s': element %" PRIu64 " is %s of type %s, expected %s", file->path, name,
                   index, show(&element, shown), gguf_value_type_name(array->element_type), expected);
}

/* Finds the key. 0 or GGUF_E_MISSING. */
static int find(const GgufFile *file, const char *name, const GgufKey **keyp, ErrText *err) {
    *keyp = gguf_key(file, name);
    return *keyp ? 0 : err_set(err, GGUF_E_MISSING, "%s: the key '%s' is missing", file->path, name);
}

/* --- scalars ------------------------------------------------------------------------------------------------------ */

/* Takes the common value of a list whose elements are all equal. */
static int same_element(const GgufFile *file, const GgufKey *key, const char *name, const char *expected,
                        GgufKey *scalar, ErrText *err) {
    const GgufArray *array = &key->value.array;
    const size_t element_bytes = gguf_value_bytes(array->element_type);
    char first[SHOWN_MAX], other[SHOWN_MAX];

    if (!element_bytes)
        return wrong_type(file, key, name, expected, err);
    if (!array->n)
        return err_set(err, GGUF_E_TYPE, "%s: key '%s' is an empty array of %s, expected %s", file->path, name,
                       gguf_value_type_name(array->element_type), expected);
    *scalar = element_at(array, 0);
    for (uint64_t i = 1; i < array->n; i++) {
        const GgufKey element = element_at(array, i);

        if (memcmp(array->data + i * element_bytes, array->data, element_bytes))
            return err_set(err, GGUF_E_TYPE,
                           "%s: key '%s' is an array of %s that differ (element 0 is %s, element %" PRIu64
                           " is %s), expected %s, or an array of equal ones",
                           file->path, name, gguf_value_type_name(array->element_type), show(scalar, first), i,
                           show(&element, other), expected);
    }
    return 0;
}

/* Finds the key's number or flag, which may be in a list. */
static int find_scalar(const GgufFile *file, const char *name, const char *expected, GgufKey *scalar, ErrText *err) {
    const GgufKey *key;
    int r = find(file, name, &key, err);

    if (r)
        return r;
    if (key->type == GGUF_STRING)
        return wrong_type(file, key, name, expected, err);
    if (key->type == GGUF_ARRAY)
        return same_element(file, key, name, expected, scalar, err);
    *scalar = *key;
    return 0;
}

static int get_integer(const GgufFile *file, const char *name, const char *expected, GgufKey *scalar, Integer *integer,
                       ErrText *err) {
    int r = find_scalar(file, name, expected, scalar, err);

    if (r || as_integer(scalar, integer))
        return r;
    return is_number(scalar->type) ? wrong_value(file, scalar, name, expected, GGUF_E_TYPE, err)
                                   : wrong_type(file, scalar, name, expected, err);
}

/* Gets an integer from 0 to max. */
static int get_unsigned(const GgufFile *file, const char *name, uint64_t max, uint64_t *valuep, ErrText *err) {
    Integer integer = { 0 };
    GgufKey scalar;
    char expected[64];
    int r;

    snprintf(expected, sizeof(expected), "an integer from 0 to %" PRIu64, max);
    r = get_integer(file, name, expected, &scalar, &integer, err);
    if (r)
        return r;
    if (integer.magnitude > max || (integer.is_negative && integer.magnitude))
        return wrong_value(file, &scalar, name, expected, GGUF_E_RANGE, err);
    *valuep = integer.magnitude;
    return 0;
}

int gguf_get_u64(const GgufFile *file, const char *name, uint64_t *valuep, ErrText *err) {
    return get_unsigned(file, name, UINT64_MAX, valuep, err);
}

int gguf_get_u32(const GgufFile *file, const char *name, uint32_t *valuep, ErrText *err) {
    uint64_t value = 0;
    int r = get_unsigned(file, name, UINT32_MAX, &value, err);

    if (!r)
        *valuep = (uint32_t)value;
    return r;
}

int gguf_get_i64(const GgufFile *file, const char *name, int64_t *valuep, ErrText *err) {
    Integer integer = { 0 };
    GgufKey scalar;
    int r = get_integer(file, name, "an integer", &scalar, &integer, err);

    if (!r && !as_i64(&scalar, valuep))
        r = wrong_value(file, &scalar, name, "an integer of 64 bits with a sign", GGUF_E_RANGE, err);
    return r;
}

int gguf_get_f32(const GgufFile *file, const char *name, float *valuep, ErrText *err) {
    static const char expected[] = "a number";
    GgufKey scalar;
    float value;
    int r = find_scalar(file, name, expected, &scalar, err);

    if (r)
        return r;
    if (!as_f32(&scalar, &value))
        return wrong_type(file, &scalar, name, expected, err);
    if (!isfinite(value))
        return wrong_value(file, &scalar, name, "a finite number of 32 bits", GGUF_E_RANGE, err);
    *valuep = value;
    return 0;
}

/**
 * gguf_get_bool() - get a flag: a bool, or a number that is 0 or 1
 */
int gguf_get_bool(const GgufFile *file, const char *name, bool *valuep, ErrText *err) {
    static const char expected[] = "a bool, or 0 or 1";
    Integer integer = { 0 };
    GgufKey scalar;
    int r = find_scalar(file, name, expected, &scalar, err);

    if (r)
        return r;
    if (scalar.type == GGUF_BOOL)
        integer = (Integer){ scalar.value.boolean, false };
    else if (!as_integer(&scalar, &integer))
        return wrong_value(file, &scalar, name, expected, GGUF_E_TYPE, err);
    if (integer.magnitude > 1 || (integer.is_negative && integer.magnitude))
        return wrong_value(file, &scalar, name, expected, GGUF_E_RANGE, err);
    *valuep = integer.magnitude;
    return 0;
}

int gguf_get_string(const GgufFile *file, const char *name, GgufString *valuep, ErrText *err) {
    const GgufKey *key;
    int r = find(file, name, &key, err);

    if (!r && key->type != GGUF_STRING)
        r = wrong_type(file, key, name, "a string", err);
    if (!r)
        *valuep = key->value.string;
    return r;
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

/* Finds the key, which must be an array. */
static int find_array(const GgufFile *file, const char *name, const char *expected, const GgufKey **keyp,
                      ErrText *err) {
    int r = find(file, name, keyp, err);

    return r || (*keyp)->type == GGUF_ARRAY ? r : wrong_type(file, *keyp, name, expected, err);
}

int gguf_get_array(const GgufFile *file, const char *name, GgufValueType element_type, const GgufArray **arrayp,
                   ErrText *err) {
    const GgufKey *key;
    char expected[32];
    int r;

    snprintf(expected, sizeof(expected), "an array of %s", gguf_value_type_name(element_type));
    r = find_array(file, name, expected, &key, err);
    if (r)
        return r;
    if (key->value.array.element_type != element_type && key->value.array.n)
        return wrong_type(file, key, name, expected, err);
    *arrayp = &key->value.array;
    return 0;
}

int gguf_get_strings(const GgufFile *file, const char *name, const GgufArray **arrayp, ErrText *err) {
    return gguf_get_array(file, name, GGUF_STRING, arrayp, err);
}

/**
 * gguf_get_integers() - get a list of integers, each from @min to @max
 *
 * Flags are taken if the range is 0 to 1. An error names the first bad element.
 */
int gguf_get_integers(const GgufFile *file, const char *name, int64_t min, int64_t max, const GgufArray **arrayp,
                      ErrText *err) {
    const GgufArray *array;
    const GgufKey *key;
    char expected[80];
    int r;

    snprintf(expected, sizeof(expected), "an array of integers");
    if (min != INT64_MIN || max != INT64_MAX)
        snprintf(expected, sizeof(expected), "an array of integers from %" PRId64 " to %" PRId64, min, max);
    r = find_array(file, name, expected, &key, err);
    if (r)
        return r;
    array = &key->value.array;
    if (array->n && !is_number(array->element_type) && !(array->element_type == GGUF_BOOL && min == 0 && max == 1))
        return wrong_type(file, key, name, expected, err);
    for (uint64_t i = 0; i < array->n && array->element_type != GGUF_BOOL; i++) {
        const GgufKey element = element_at(array, i);
        int64_t value;

        if (!as_i64(&element, &value) || value < min || value > max)
            return wrong_element(file, array, i, name, expected + strlen("an array of "), GGUF_E_RANGE, err);
    }
    *arrayp = array;
    return 0;
}

int gguf_get_numbers(const GgufFile *file, const char *name, const GgufArray **arrayp, ErrText *err) {
    static const char expected[] = "an array of numbers";
    const GgufKey *key;
    int r = find_array(file, name, expected, &key, err);

    if (r)
        return r;
    if (key->value.array.n && !is_number(key->value.array.element_type))
        return wrong_type(file, key, name, expected, err);
    *arrayp = &key->value.array;
    return 0;
}

int64_t gguf_array_i64(const GgufArray *array, uint64_t index) {
    const GgufKey element = element_at(array, index);
    int64_t value = 0;

    if (element.type == GGUF_BOOL)
        return element.value.boolean;
    (void)as_i64(&element, &value);
    return value;
}

float gguf_array_f32(const GgufArray *array, uint64_t index) {
    const GgufKey element = element_at(array, index);
    float value = 0;

    (void)as_f32(&element, &value);
    return value;
}
