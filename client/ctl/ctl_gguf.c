#include <inttypes.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"
#include "model/gguf.h"

enum {
    ELEMENTS_SHOWN = 8,    /* of an array */
    TEXT_BYTES_SHOWN = 120 /* of a string, on a line */
};

/* Little-endian bytes of one number, wherever they lie. */
static uint64_t bits_at(const uint8_t *at, size_t len_bytes) {
    uint64_t bits = 0;

    for (size_t i = 0; i < len_bytes; i++)
        bits |= (uint64_t)at[i] << 8 * i;
    return bits;
}

static size_t number_bytes(GgufValueType type) {
    switch (type) {
    case GGUF_U8:
    case GGUF_I8:
    case GGUF_BOOL:
        return 1;
    case GGUF_U16:
    case GGUF_I16:
        return 2;
    case GGUF_U64:
    case GGUF_I64:
    case GGUF_F64:
        return 8;
    default:
        return 4;
    }
}

static double real_of(GgufValueType type, uint64_t bits) {
    uint32_t half = (uint32_t)bits;
    double f64;
    float f32;

    if (type == GGUF_F64) {
        memcpy(&f64, &bits, sizeof(f64));
        return f64;
    }
    memcpy(&f32, &half, sizeof(f32));
    return (double)f32;
}

/* One element of an array that is not of strings, as JSON; a number that JSON lacks (infinity, NaN) as text. */
static json_t *element_json(const GgufArray *array, uint64_t index) {
    size_t len_bytes = number_bytes(array->element_type), shift = 64 - 8 * len_bytes;
    uint64_t bits = bits_at(array->data + index * len_bytes, len_bytes);
    json_t *real;
    char text[32];

    switch (array->element_type) {
    case GGUF_F32:
    case GGUF_F64:
        real = json_real(real_of(array->element_type, bits));
        if (real)
            return real;
        snprintf(text, sizeof(text), "%g", real_of(array->element_type, bits));
        return json_string(text);
    case GGUF_BOOL:
        return json_boolean(bits);
    case GGUF_I8:
    case GGUF_I16:
    case GGUF_I32:
    case GGUF_I64:
        return json_integer((json_int_t)((int64_t)(bits << shift) >> shift));
    default:
        return json_integer((json_int_t)bits);
    }
}

static json_t *array_json(const GgufArray *array) {
    json_t *object = json_object(), *elements = json_array();
    uint64_t n = array->n < ELEMENTS_SHOWN ? array->n : ELEMENTS_SHOWN;

    for (uint64_t i = 0; i < n; i++)
        json_array_append_new(elements, array->element_type == GGUF_STRING
                                            ? ctl_json_text(array->strings[i].data, array->strings[i].len_bytes)
                                            : element_json(array, i));
    ctl_json_set(object, "type", json_string(gguf_value_type_name(array->element_type)));
    ctl_json_set(object, "count", json_integer((json_int_t)array->n));
    ctl_json_set(object, "first", elements);
    return object;
}

static json_t *value_json(const GgufKey *key) {
    json_t *real;
    char text[32];

    switch (key->type) {
    case GGUF_STRING:
        return ctl_json_text(key->value.string.data, key->value.string.len_bytes);
    case GGUF_ARRAY:
        return array_json(&key->value.array);
    case GGUF_BOOL:
        return json_boolean(key->value.boolean);
    case GGUF_F32:
    case GGUF_F64:
        real = json_real(key->value.f64);
        if (real)
            return real;
        snprintf(text, sizeof(text), "%g", key->value.f64);
        return json_string(text);
    case GGUF_I8:
    case GGUF_I16:
    case GGUF_I32:
    case GGUF_I64:
        return json_integer((json_int_t)key->value.i64);
    default:
        return json_integer((json_int_t)key->value.u64);
    }
}

static int show_json(Ctl *ctl, const GgufFile *file) {
    json_t *object = json_object(), *metadata = json_object(), *tensors = json_array();
    char name[128];

    for (size_t i = 0; i < gguf_n_keys(file); i++) {
        const GgufKey *key = gguf_key_at(file, i);
        json_t *value = value_json(key);

        snprintf(name, sizeof(name), "%.*s", (int)key->name.len_bytes, key->name.data);
        if (json_object_set(metadata, name, value)) /* a name that is no UTF-8 */
            json_object_set(metadata, "(not UTF-8)", value);
        json_decref(value);
    }
    for (size_t i = 0; i < gguf_n_tensors(file) && !ctl_has(ctl, "no-tensors"); i++) {
        const GgufTensor *tensor = gguf_tensor_at(file, i);
        const char *type = ggml_type_name(tensor->type);
        json_t *one = json_object(), *shape = json_array();

        for (uint32_t d = 0; d < tensor->n_dims; d++)
            json_array_append_new(shape, json_integer((json_int_t)tensor->ne[d]));
        ctl_json_set(one, "name", ctl_json_text(tensor->name, strlen(tensor->name)));
        ctl_json_set(one, "type", json_string(type ? type : "?"));
        ctl_json_set(one, "shape", shape);
        ctl_json_set(one, "offset_bytes", json_integer((json_int_t)tensor->offset_bytes));
        ctl_json_set(one, "bytes", json_integer((json_int_t)tensor->len_bytes));
        json_array_append_new(tensors, one);
    }
    ctl_json_set(object, "path", ctl_json_text(gguf_path(file), strlen(gguf_path(file))));
    ctl_json_set(object, "file_bytes", json_integer((json_int_t)gguf_len_bytes(file)));
    ctl_json_set(object, "gguf_version", json_integer(gguf_version(file)));
    ctl_json_set(object, "alignment", json_integer(gguf_alignment(file)));
    ctl_json_set(object, "metadata", metadata);
    if (!ctl_has(ctl, "no-tensors"))
        ctl_json_set(object, "tensors", tensors);
    else
        json_decref(tensors);
    return ctl_json_print(ctl, object);
}

static void string_print(const GgufString *string) {
    bool cut = string->len_bytes > TEXT_BYTES_SHOWN;
    size_t len_bytes = cut ? TEXT_BYTES_SHOWN : string->len_bytes;

    while (cut && len_bytes && ((unsigned char)string->data[len_bytes] & 0xc0) == 0x80)
        len_bytes--; /* not in the middle of a character */
    putchar('"');
    ctl_put_escaped(stdout, string->data, len_bytes);
    putchar('"');
    if (cut)
        printf("... (%zu bytes)", string->len_bytes);
}

static void element_print(const GgufArray *array, uint64_t index) {
    size_t len_bytes = number_bytes(array->element_type), shift = 64 - 8 * len_bytes;
    uint64_t bits;

    if (array->element_type == GGUF_STRING) {
        string_print(&array->strings[index]);
        return;
    }
    bits = bits_at(array->data + index * len_bytes, len_bytes);
    if (array->element_type == GGUF_F32 || array->element_type == GGUF_F64)
        printf("%g", real_of(array->element_type, bits));
    else if (array->element_type == GGUF_BOOL)
        fputs(bits ? "true" : "false", stdout);
    else if (array->element_type == GGUF_I8 || array->element_type == GGUF_I16 || array->element_type == GGUF_I32 ||
             array->element_type == GGUF_I64)
        printf("%" PRId64, (int64_t)(bits << shift) >> shift);
    else
        printf("%" PRIu64, bits);
}

static void value_print(const GgufKey *key) {
    const GgufArray *array = &key->value.array;

    switch (key->type) {
    case GGUF_STRING:
        string_print(&key->value.string);
        break;
    case GGUF_ARRAY:
        printf("[%" PRIu64 "] ", array->n);
        for (uint64_t i = 0; i < array->n && i < ELEMENTS_SHOWN; i++) {
            fputs(i ? ", " : "", stdout);
            element_print(array, i);
        }
        fputs(array->n > ELEMENTS_SHOWN ? ", ..." : "", stdout);
        break;
    case GGUF_BOOL:
        fputs(key->value.boolean ? "true" : "false", stdout);
        break;
    case GGUF_F32:
    case GGUF_F64:
        printf("%g", key->value.f64);
        break;
    case GGUF_I8:
    case GGUF_I16:
    case GGUF_I32:
    case GGUF_I64:
        printf("%" PRId64, key->value.i64);
        break;
    default:
        printf("%" PRIu64, key->value.u64);
        break;
    }
}

static void tensors_print(const GgufFile *file) {
    char size[32], shape[96];

    printf("\n%-44s %-6s %-26s %12s\n", "TENSOR", "TYPE", "SHAPE", "SIZE");
    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        const GgufTensor *tensor = gguf_tensor_at(file, i);
        const char *type = ggml_type_name(tensor->type);
        size_t n = 0;

        shape[0] = 0;
        for (uint32_t d = 0; d < tensor->n_dims && d < GGUF_DIMS_MAX; d++)
            n += (size_t)snprintf(shape + n, sizeof(shape) - n, "%s%" PRIu64, d ? " x " : "", tensor->ne[d]);
        ctl_put_escaped(stdout, tensor->name, strlen(tensor->name));
        printf("%*s %-6s %-26s %12s\n", (int)(strlen(tensor->name) < 44 ? 44 - strlen(tensor->name) : 0), "",
               type ? type : "?", shape, ctl_bytes_text(size, sizeof(size), tensor->len_bytes));
    }
}

int ctl_show_file(Ctl *ctl, const char *path) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    ErrText err = { "" };
    char size[32];
    int r;

    r = gguf_open(&file, path, &err);
    if (r) {
        (void)ctl_failed(ctl, r == GGUF_E_CORRUPT ? COORDGEN_E_MODEL_CORRUPT : COORDGEN_E_INTERNAL, err.text, "", 0);
        return CTL_EXIT_FAILED;
    }
    if (ctl->json)
        return show_json(ctl, file);
    ctl_put_text(stdout, path, ctl->out_tty);
    printf(": GGUF version %" PRIu32 ", %s, %zu keys, %zu tensors, alignment %" PRIu32 "\n\n", gguf_version(file),
           ctl_bytes_text(size, sizeof(size), gguf_len_bytes(file)), gguf_n_keys(file), gguf_n_tensors(file),
           gguf_alignment(file));
    for (size_t i = 0; i < gguf_n_keys(file); i++) {
        const GgufKey *key = gguf_key_at(file, i);
        size_t len_bytes = key->name.len_bytes;

        ctl_put_escaped(stdout, key->name.data, len_bytes);
        printf("%*s %-6s ", (int)(len_bytes < 44 ? 44 - len_bytes : 0), "", gguf_value_type_name(key->type));
        value_print(key);
        putchar('\n');
    }
    if (!ctl_has(ctl, "no-tensors"))
        tensors_print(file);
    return CTL_EXIT_OK;
}
