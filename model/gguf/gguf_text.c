// SPDX-License-Identifier: Apache-2.0
#include "model/gguf/gguf_text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/min_max.h"
#include "base/strings/printable.h"
#include "base/strings/json_text.h"

#define STRING_SHOWN_BYTES 72
#define JSON_STRING_MAX (1u << 20) /* a chat template has some kilobytes; a longer text is cut */

/* Gives an element of an array as a key with a scalar value. */
static GgufKey array_element(const GgufArray *array, uint64_t index) {
    GgufKey key = { .type = array->element_type };
    const uint8_t *data = array->data;
    double f64;
    float f32;

    switch (array->element_type) {
    case GGUF_U8:
        key.value.u64 = data[index];
        break;
    case GGUF_I8:
        key.value.i64 = (int8_t)data[index];
        break;
    case GGUF_BOOL:
        key.value.boolean = data[index];
        break;
#define ELEMENT(type, field)                                                                                           \
    {                                                                                                                  \
        type element;                                                                                                  \
        memcpy(&element, data + index * sizeof(element), sizeof(element));                                             \
        key.value.field = element;                                                                                     \
        break;                                                                                                         \
    }
    case GGUF_U16:
        ELEMENT(uint16_t, u64)
    case GGUF_I16:
        ELEMENT(int16_t, i64)
    case GGUF_U32:
        ELEMENT(uint32_t, u64)
    case GGUF_I32:
        ELEMENT(int32_t, i64)
    case GGUF_U64:
        ELEMENT(uint64_t, u64)
    case GGUF_I64:
        ELEMENT(int64_t, i64)
#undef ELEMENT
    case GGUF_F32:
        memcpy(&f32, data + index * sizeof(f32), sizeof(f32));
        key.value.f64 = (double)f32;
        break;
    case GGUF_F64:
        memcpy(&f64, data + index * sizeof(f64), sizeof(f64));
        key.value.f64 = f64;
        break;
    case GGUF_STRING:
        key.value.string = array->strings[index];
        break;
    case GGUF_ARRAY: /* the reader refuses such arrays */
        break;
    }
    return key;
}

static uint64_t tensor_values(const GgufTensor *tensor) {
    return tensor->ne[0] * tensor->ne[1] * tensor->ne[2] * tensor->ne[3]; /* checked by the reader */
}

static uint64_t count_parameters(const GgufFile *file) {
    uint64_t n = 0;

    for (size_t i = 0; i < gguf_n_tensors(file); i++)
        n += tensor_values(gguf_tensor_at(file, i));
    return n;
}

/* --- text --------------------------------------------------------------------------------------------------------- */

static void write_value(const GgufKey *key, StrBuf *text) {
    const GgufArray *array;
    GgufString string;
    Printable shown;

    switch (key->type) {
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64:
        str_buf_addf(text, "%" PRIu64, key->value.u64);
        break;
    case GGUF_I8:
    case GGUF_I16:
    case GGUF_I32:
    case GGUF_I64:
        str_buf_addf(text, "%" PRId64, key->value.i64);
        break;
    case GGUF_F32:
    case GGUF_F64:
        str_buf_addf(text, "%.9g", key->value.f64);
        break;
    case GGUF_BOOL:
        str_buf_add(text, key->value.boolean ? "true" : "false");
        break;
    case GGUF_STRING:
        string = key->value.string;
        if (string.len_bytes > STRING_SHOWN_BYTES)
            str_buf_addf(text, "\"%s\"... (%zu bytes)", printable(&shown, string.data, STRING_SHOWN_BYTES),
                         string.len_bytes);
        else
            str_buf_addf(text, "\"%s\"", printable(&shown, string.data, string.len_bytes));
        break;
    case GGUF_ARRAY:
        array = &key->value.array;
        str_buf_addf(text, "%" PRIu64 " %s: [", array->n, gguf_value_type_name(array->element_type));
        for (uint64_t i = 0; i < array->n && i < GGUF_TEXT_ARRAY_SHOWN; i++) {
            GgufKey element = array_element(array, i);

            str_buf_add(text, i ? ", " : "");
            write_value(&element, text);
        }
        str_buf_add(text, array->n > GGUF_TEXT_ARRAY_SHOWN ? ", ...]" : "]");
        break;
    }
}

static void write_keys(const GgufFile *file, StrBuf *text) {
    int width = 0;

    for (size_t i = 0; i < gguf_n_keys(file); i++) {
        size_t len_bytes = gguf_key_at(file, i)->name.len_bytes;

        if (len_bytes < 48 && (int)len_bytes > width)
            width = (int)len_bytes;
    }
    str_buf_addf(text, "\n%zu keys\n", gguf_n_keys(file));
    for (size_t i = 0; i < gguf_n_keys(file); i++) {
        const GgufKey *key = gguf_key_at(file, i);
        Printable shown;

        str_buf_addf(text, "  %-*s  %-6s  ", width, printable(&shown, key->name.data, key->name.len_bytes),
                     gguf_value_type_name(key->type));
        write_value(key, text);
        str_buf_add(text, "\n");
    }
}

static void write_tensors(const GgufFile *file, StrBuf *text) {
    int width = 0;

    for (size_t i = 0; i < gguf_n_tensors(file); i++)
        if ((int)strlen(gguf_tensor_at(file, i)->name) > width)
            width = (int)strlen(gguf_tensor_at(file, i)->name);
    str_buf_addf(text, "\n%zu tensors\n", gguf_n_tensors(file));
    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        const GgufTensor *tensor = gguf_tensor_at(file, i);
        char shape[96];
        int at = 0;

        for (uint32_t d = 0; d < tensor->n_dims; d++)
            at += snprintf(shape + at, sizeof(shape) - (size_t)at, "%s%" PRIu64, d ? " x " : "", tensor->ne[d]);
        str_buf_addf(text, "  %-*s  %-5s  %-14s  %12" PRIu64 " bytes at %" PRIu64 "\n", width, tensor->name,
                     ggml_type_name(tensor->type), shape, tensor->len_bytes, tensor->offset_bytes);
    }
}

void gguf_text_write(const GgufFile *file, StrBuf *text) {
    Printable shown;

    str_buf_addf(text, "%s: GGUF version %u, %" PRIu64 " bytes, alignment %u, %.2f million parameters\n",
                 printable(&shown, gguf_path(file), strlen(gguf_path(file))), gguf_version(file), gguf_len_bytes(file),
                 gguf_alignment(file), (double)count_parameters(file) / 1e6);
    if (gguf_n_parts(file) > 1)
        str_buf_addf(text, "in %zu files, up to %s\n", gguf_n_parts(file),
                     printable(&shown, gguf_part_path(file, gguf_n_parts(file) - 1),
                               strlen(gguf_part_path(file, gguf_n_parts(file) - 1))));
    write_keys(file, text);
    write_tensors(file, text);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static json_t *json_value(const GgufKey *key) {
    char digits[32];

    switch (key->type) {
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64:
        if (key->value.u64 <= INT64_MAX)
            return json_integer((json_int_t)key->value.u64);
        snprintf(digits, sizeof(digits), "%" PRIu64, key->value.u64); /* JSON integers of jansson end at 2^63 */
        return json_string(digits);
    case GGUF_I8:
    case GGUF_I16:
    case GGUF_I32:
    case GGUF_I64:
        return json_integer(key->value.i64);
    case GGUF_F32:
    case GGUF_F64:
        return isfinite(key->value.f64) ? json_real(key->value.f64) : json_null();
    case GGUF_BOOL:
        return json_boolean(key->value.boolean);
    case GGUF_STRING:
        return json_text_n(key->value.string.data, MIN(key->value.string.len_bytes, JSON_STRING_MAX));
    case GGUF_ARRAY:
        break;
    }
    {
        const GgufArray *array = &key->value.array;
        json_t *first = json_array();

        for (uint64_t i = 0; first && i < array->n && i < GGUF_TEXT_ARRAY_SHOWN; i++) {
            GgufKey element = array_element(array, i);

            if (json_array_append_new(first, json_value(&element)) < 0) {
                json_decref(first);
                first = NULL;
            }
        }
        return json_pack("{s:s, s:I, s:o}", "element_type", gguf_value_type_name(array->element_type), "n",
                         (json_int_t)array->n, "first", first);
    }
}

static json_t *json_keys(const GgufFile *file) {
    json_t *keys = json_array();

    for (size_t i = 0; keys && i < gguf_n_keys(file); i++) {
        const GgufKey *key = gguf_key_at(file, i);

        if (json_array_append_new(keys,
                                  json_pack("{s:o, s:s, s:o}", "name", json_text_n(key->name.data, key->name.len_bytes),
                                            "type", gguf_value_type_name(key->type), "value", json_value(key))) < 0) {
            json_decref(keys);
            keys = NULL;
        }
    }
    return keys;
}

static json_t *json_tensors(const GgufFile *file) {
    json_t *tensors = json_array();

    for (size_t i = 0; tensors && i < gguf_n_tensors(file); i++) {
        const GgufTensor *tensor = gguf_tensor_at(file, i);
        json_t *shape = json_array();

        for (uint32_t d = 0; shape && d < tensor->n_dims; d++)
            (void)json_array_append_new(shape, json_integer((json_int_t)tensor->ne[d]));
        if (json_array_append_new(tensors, json_pack("{s:s, s:s, s:o, s:I, s:I}", "name", tensor->name, "type",
                                                     ggml_type_name(tensor->type), "shape", shape, "offset",
                                                     (json_int_t)tensor->offset_bytes, "bytes",
                                                     (json_int_t)tensor->len_bytes)) < 0) {
            json_decref(tensors);
            tensors = NULL;
        }
    }
    return tensors;
}

static int append_part(const char *data, size_t len_bytes, void *arg) {
    StrBuf *text = arg;

    str_buf_append(text, data, len_bytes);
    return str_buf_failed(text) ? -1 : 0;
}

int gguf_text_json(const GgufFile *file, bool pretty, StrBuf *text) {
    json_t *root =
        json_pack("{s:o, s:I, s:i, s:i, s:i, s:I, s:o, s:o}", "file", json_text(gguf_path(file)), "file_bytes",
                  (json_int_t)gguf_len_bytes(file), "parts", (int)gguf_n_parts(file), "version",
                  (int)gguf_version(file), "alignment", (int)gguf_alignment(file), "parameters",
                  (json_int_t)count_parameters(file), "keys", json_keys(file), "tensors", json_tensors(file));
    int r;

    if (!root)
        return err_raise(-ENOMEM);
    r = json_dump_callback(root, append_part, text, (pretty ? JSON_INDENT(2) : JSON_COMPACT) | JSON_REAL_PRECISION(9));
    json_decref(root);
    return r ? err_raise(-ENOMEM) : 0;
}
