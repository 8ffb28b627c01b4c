// SPDX-License-Identifier: Apache-2.0
/* Parts of a GGUF file: keys with typed values, and tensors. */
#ifndef COORDGEN_MODEL_GGUF_TYPES_H
#define COORDGEN_MODEL_GGUF_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GGUF_E_CORRUPT = 1,     /* not a GGUF v3 file, or one that contradicts itself; the text names field and value */
    GGUF_E_UNSUPPORTED = 2, /* a valid file with something that this program refuses by name */
    GGUF_E_MISSING = 3,     /* no such key */
    GGUF_E_TYPE = 4,        /* the value cannot be read as the type that the caller asks for */
    GGUF_E_RANGE = 5,       /* the value has the type, but is outside the caller's range */
};

typedef enum GgufValueType { /* the numbers are the file format's */
    GGUF_U8 = 0,
    GGUF_I8 = 1,
    GGUF_U16 = 2,
    GGUF_I16 = 3,
    GGUF_U32 = 4,
    GGUF_I32 = 5,
    GGUF_F32 = 6,
    GGUF_BOOL = 7,
    GGUF_STRING = 8,
    GGUF_ARRAY = 9,
    GGUF_U64 = 10,
    GGUF_I64 = 11,
    GGUF_F64 = 12,
} GgufValueType;

/* Bytes inside the mapped file (or the writer's memory); not NUL-terminated. */
typedef struct GgufString {
    const char *data;
    size_t len_bytes;
} GgufString;

typedef struct GgufArray {
    GgufValueType element_type;
    uint64_t n;
    const uint8_t *data;       /* packed little-endian elements, possibly unaligned; NULL for strings */
    const GgufString *strings; /* [n] when element_type is GGUF_STRING */
} GgufArray;

typedef struct GgufKey {
    GgufString name;
    GgufValueType type;
    union {
        uint64_t u64; /* U8 U16 U32 U64 */
        int64_t i64;  /* I8 I16 I32 I64 */
        double f64;   /* F32 F64 */
        bool boolean;
        GgufString string;
        GgufArray array;
    } value;
} GgufKey;

#define GGUF_DIMS_MAX 4
#define GGUF_TENSOR_NAME_MAX 64 /* with the NUL */

typedef struct GgufTensor {
    char name[GGUF_TENSOR_NAME_MAX];
    uint32_t type; /* GgmlType; its block layout is known */
    uint32_t n_dims;
    uint64_t ne[GGUF_DIMS_MAX]; /* ne[0] fastest; 1 past n_dims */
    uint64_t offset_bytes;      /* in the file */
    uint64_t len_bytes;
    const uint8_t *data; /* in the map; all len_bytes are inside the file */
    uint32_t part;       /* index of the file with its data, for a model in several; else 0 */
} GgufTensor;

typedef struct GgufFile GgufFile;

#endif
