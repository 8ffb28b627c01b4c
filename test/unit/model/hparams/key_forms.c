// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/model/hparams/key_forms.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define VALUES_MAX 256

typedef struct Forms {
    const char *name;
    KeyWant want;
    KeyFormFn *fn;
    void *arg;
} Forms;

/* Writes the value as the type's bytes. false: the type has no such value. */
static bool encode(GgufValueType type, double value, uint8_t bytes[8]) {
    static const struct {
        double min, max;
        size_t len_bytes;
    } integers[] = {
        [GGUF_U8] = { 0, 0xff, 1 },          [GGUF_I8] = { -0x80, 0x7f, 1 },
        [GGUF_U16] = { 0, 0xffff, 2 },       [GGUF_I16] = { -0x8000, 0x7fff, 2 },
        [GGUF_U32] = { 0, 0xffffffff, 4 },   [GGUF_I32] = { -0x80000000ll, 0x7fffffff, 4 },
        [GGUF_BOOL] = { 0, 1, 1 },           [GGUF_U64] = { 0, 0x1p53, 8 },
        [GGUF_I64] = { -0x1p53, 0x1p53, 8 },
    };
    const float f32 = (float)value;

    if (type == GGUF_F32)
        return memcpy(bytes, &f32, 4), (double)f32 == value;
    if (type == GGUF_F64)
        return memcpy(bytes, &value, 8), true;
    if (value < integers[type].min || value > integers[type].max || value != trunc(value))
        return false;
    memcpy(bytes, &(int64_t){ (int64_t)value }, integers[type].len_bytes); /* little-endian */
    return true;
}

static size_t bytes_of(GgufValueType type) {
    static const size_t bytes[] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
        [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8
    };

    return bytes[type];
}

static bool is_scalar(GgufValueType type) {
    return type != GGUF_STRING && type != GGUF_ARRAY;
}

static bool is_float(GgufValueType type) {
    return type == GGUF_F32 || type == GGUF_F64;
}

/* Whether a value of this type is accepted, as a scalar or as an element. */
static bool is_wanted(KeyWant want, GgufValueType type) {
    switch (want) {
    case WANT_INTEGER:
    case WANT_NUMBER:
    case WANT_INTEGERS:
    case WANT_NUMBERS:
        return type != GGUF_BOOL;
    case WANT_FLAG:
        return true;
    default:
        return false;
    }
}

static void give(const Forms *forms, GgufKey key, bool fits) {
    const GgufValueType type = key.type == GGUF_ARRAY ? key.value.array.element_type : key.type;

    key.name = (GgufString){ forms->name, strlen(forms->name) };
    forms->fn(forms->arg, &(KeyForm){ .key = key, .fits = fits, .found = gguf_value_type_name(type) });
}

static void give_scalar(const Forms *forms, GgufValueType type, double value, bool fits) {
    GgufKey key = { .type = type };
    uint8_t bytes[8] = { 0 };

    if (!encode(type, value, bytes))
        return;
    if (is_float(type))
        key.value.f64 = value;
    else if (type == GGUF_BOOL)
        key.value.boolean = value != 0;
    else
        key.value.i64 = (int64_t)value;
    give(forms, key, fits);
}

static void give_list(const Forms *forms, GgufValueType type, const double *values, size_t n, bool fits) {
    uint8_t bytes[8 * VALUES_MAX];
    const size_t each = bytes_of(type);
    GgufKey key = { .type = GGUF_ARRAY, .value.array = { .element_type = type, .n = n, .data = n ? bytes : NULL } };

    assert(n <= VALUES_MAX);
    for (size_t i = 0; i < n; i++)
        if (!encode(type, values[i], bytes + i * each))
            return;
    give(forms, key, fits);
}

static void give_strings(const Forms *forms) {
    static const GgufString strings[] = { { "1", 1 }, { "1", 1 } };

    if (forms->want != WANT_STRING)
        give(forms, (GgufKey){ .type = GGUF_STRING, .value.string = strings[0] }, false);
    if (forms->want != WANT_STRINGS)
        give(
            forms,
            (GgufKey){ .type = GGUF_ARRAY, .value.array = { .element_type = GGUF_STRING, .n = 2, .strings = strings } },
            false);
}

static void scalar_forms(const Forms *forms, double value, size_t n_list) {
    const bool whole = forms->want == WANT_INTEGER || forms->want == WANT_FLAG;

    for (GgufValueType type = GGUF_U8; type <= GGUF_F64; type++) {
        double list[VALUES_MAX];

        if (!is_scalar(type))
            continue;
        for (size_t i = 0; i < n_list; i++)
            list[i] = value;
        give_scalar(forms, type, value, is_wanted(forms->want, type));
        give_list(forms, type, list, 1, is_wanted(forms->want, type));
        give_list(forms, type, list, n_list, is_wanted(forms->want, type));
        give_list(forms, type, list, 0, false);
        list[n_list - 1] = value != 0 ? 0 : 1;
        give_list(forms, type, list, n_list, false);
        if (whole && is_float(type))
            give_scalar(forms, type, value + 0.5, false);
    }
    if (forms->want == WANT_FLAG)
        give_scalar(forms, GGUF_U8, 2, false);
}

static void list_forms(const Forms *forms, const double *values, size_t n) {
    for (GgufValueType type = GGUF_U8; type <= GGUF_F64; type++) {
        double list[VALUES_MAX];

        if (!is_scalar(type))
            continue;
        give_scalar(forms, type, 1, false);
        give_list(forms, type, values, n, is_wanted(forms->want, type));
        memcpy(list, values, n * sizeof(*list));
        list[n - 1] += 0.5;
        if (forms->want == WANT_INTEGERS && is_float(type))
            give_list(forms, type, list, n, false);
    }
}

void key_forms(const char *name, KeyWant want, const double *values, size_t n, size_t n_list, KeyFormFn *fn,
               void *arg) {
    const Forms forms = { .name = name, .want = want, .fn = fn, .arg = arg };

    if (want == WANT_INTEGERS || want == WANT_NUMBERS || want == WANT_STRINGS)
        list_forms(&forms, values, n);
    else
        scalar_forms(&forms, values[0], n_list);
    give_strings(&forms);
}
