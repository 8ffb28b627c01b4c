// SPDX-License-Identifier: Apache-2.0
/* Tests the GGUF reader and writer: round trip, every refusal by its code, and mutations that must end in success or an
 * error. */
#define _GNU_SOURCE
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/files/file_io.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_text.h"
#include "model/gguf/gguf_writer.h"
#include "test/unit/fixtures/model_maker.h"

/* --- reading all of a file, as its users do ----------------------------------------------------------------------- */

static void read_everything(const GgufFile *file, const uint8_t *data, size_t len_bytes) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    volatile uint8_t sum = 0;

    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        const GgufTensor *tensor = gguf_tensor_at(file, i);

        assert_ptr_equal(gguf_tensor(file, tensor->name), tensor);
        assert_true(tensor->len_bytes && tensor->data >= data && tensor->data + tensor->len_bytes <= data + len_bytes);
        sum = (uint8_t)(sum + tensor->data[0] + tensor->data[tensor->len_bytes - 1]);
    }
    for (size_t i = 0; i < gguf_n_keys(file); i++) {
        const GgufKey *key = gguf_key_at(file, i);

        if (key->type != GGUF_ARRAY || key->value.array.element_type != GGUF_STRING)
            continue;
        for (uint64_t j = 0; j < key->value.array.n; j++)
            if (key->value.array.strings[j].len_bytes)
                sum = (uint8_t)(sum + key->value.array.strings[j].data[key->value.array.strings[j].len_bytes - 1]);
    }
    gguf_text_write(file, &text);
    assert_false(str_buf_failed(&text));
}

/* Parses; on failure the code is a positive one and the text names the file. */
static int try_parse(const uint8_t *data, size_t len_bytes) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    ErrText err = { 0 };
    int r = gguf_parse(&file, data, len_bytes, "mutant", &err);

    if (r) {
        assert_true(r == GGUF_E_CORRUPT || r == GGUF_E_UNSUPPORTED);
        assert_null(file);
        assert_memory_equal(err.text, "mutant: ", 8);
    } else {
        read_everything(file, data, len_bytes);
    }
    return r;
}

/* Parses a heap block of exactly this length, so that a sanitizer sees a byte too far. */
static int try_parse_copy(const uint8_t *data, size_t len_bytes) {
    uint8_t *copy = malloc(len_bytes ? len_bytes : 1);
    int r;

    assert_non_null(copy);
    memcpy(copy, data, len_bytes);
    r = try_parse(copy, len_bytes);
    free(copy);
    return r;
}

/* --- a small file with a key of every type ------------------------------------------------------------------------ */

typedef struct Small {
    StrBuf file;
    size_t head_bytes;
} Small;

static void small_deinit(Small *small) {
    str_buf_deinit(&small->file);
}

static void small_make(Small *small, uint32_t alignment) {
    static const char *const words[] = { "one", "", "drei" };
    static const int32_t numbers[] = { -1, 2, 3 };
    static const float reals[] = { 0.5f, -2 };
    static const uint8_t bools[] = { 1, 0 };
    const uint64_t shape[] = { 32, 3 }, vector[] = { 5 };
    _cleanup_(gguf_writer_freep) GgufWriter *writer = NULL;

    *small = (Small){ .file = STR_BUF_NULL };
    assert_int_equal(gguf_writer_new(&writer, alignment, NULL), 0);
    gguf_writer_u32(writer, "a.u32", 7);
    gguf_writer_u64(writer, "a.u64", UINT64_MAX);
    gguf_writer_copy(writer, &(GgufKey){ .name = { "a.i32", 5 }, .type = GGUF_I32, .value.i64 = -7 });
    gguf_writer_f32(writer, "a.f32", 1.5f);
    gguf_writer_bool(writer, "a.bool", true);
    gguf_writer_string(writer, "a.string", "text");
    gguf_writer_strings(writer, "a.strings", words, 3);
    gguf_writer_array(writer, "a.numbers", GGUF_I32, numbers, 3);
    gguf_writer_array(writer, "a.reals", GGUF_F32, reals, 2);
    gguf_writer_array(writer, "a.bools", GGUF_BOOL, bools, 2);
    gguf_writer_array(writer, "a.empty", GGUF_F64, NULL, 0);
    gguf_writer_tensor(writer, "first.weight", GGML_Q8_0, 2, shape);
    gguf_writer_tensor(writer, "second.weight", GGML_F32, 1, vector);
    assert_int_equal(gguf_writer_layout(writer, NULL), 0);
    small->head_bytes = gguf_writer_head(writer)->len_bytes;
    test_gguf_image(writer, &small->file);
    memset(small->file.data + gguf_writer_tensor_offset(writer, 0), 0x11, 3 * 34);
    memset(small->file.data + gguf_writer_tensor_offset(writer, 1), 0x11, 20);
    assert_int_equal(small->file.len_bytes, gguf_writer_file_bytes(writer));
}

static void test_gguf_round_trip(void **state) {
    static const uint32_t alignments[] = { 8, 32, 64, 4096 };

    for (size_t i = 0; i < ARRAY_LEN(alignments); i++) {
        _cleanup_(small_deinit) Small small;
        _cleanup_(gguf_freep) GgufFile *file = NULL;
        const GgufTensor *tensor;
        const GgufArray *array;
        GgufString string;
        uint64_t u64;
        uint32_t u32;
        float f32;
        bool flag;
        ErrText err;

        small_make(&small, alignments[i]);
        assert_int_equal(gguf_parse(&file, small.file.data, small.file.len_bytes, "small", &err), 0);
        assert_int_equal(gguf_alignment(file), alignments[i]);
        assert_int_equal(gguf_version(file), 3);
        assert_int_equal(gguf_n_keys(file), alignments[i] == 32 ? 11 : 12);
        assert_int_equal(gguf_get_u32(file, "a.u32", &u32, &err), 0);
        assert_int_equal(u32, 7);
        assert_int_equal(gguf_get_u64(file, "a.u64", &u64, &err), 0);
        assert_true(u64 == UINT64_MAX);
        assert_int_equal(gguf_get_f32(file, "a.f32", &f32, &err), 0);
        assert_true(f32 == 1.5f);
        assert_int_equal(gguf_get_bool(file, "a.bool", &flag, &err), 0);
        assert_true(flag);
        assert_int_equal(gguf_get_string(file, "a.string", &string, &err), 0);
        assert_true(string.len_bytes == 4 && !memcmp(string.data, "text", 4));
        assert_int_equal(gguf_get_array(file, "a.strings", GGUF_STRING, &array, &err), 0);
        assert_true(array->n == 3 && array->strings[1].len_bytes == 0 && !memcmp(array->strings[2].data, "drei", 4));
        assert_int_equal(gguf_get_array(file, "a.numbers", GGUF_I32, &array, &err), 0);
        assert_true(array->n == 3 && gguf_array_i64(array, 0) == -1 && gguf_array_i64(array, 2) == 3);
        assert_int_equal(gguf_get_array(file, "a.reals", GGUF_F32, &array, &err), 0);
        assert_true(array->n == 2 && gguf_array_f32(array, 1) == -2);
        assert_int_equal(gguf_get_array(file, "a.empty", GGUF_F64, &array, &err), 0);
        assert_true(array->n == 0);
        tensor = gguf_tensor(file, "second.weight");
        assert_non_null(tensor);
        assert_true(tensor->len_bytes == 20 && tensor->ne[0] == 5 && tensor->ne[1] == 1 && tensor->type == GGML_F32);
        assert_int_equal(tensor->offset_bytes % alignments[i], 0);
        assert_true(tensor->data[0] == 0x11 && tensor->data[19] == 0x11);
        assert_null(gguf_tensor(file, "third.weight"));
        assert_null(gguf_tensor_at(file, 2));
        assert_null(gguf_key(file, "a.u3"));
        read_everything(file, (const uint8_t *)small.file.data, small.file.len_bytes);
    }
}

static void test_gguf_getters_refuse(void **state) {
    _cleanup_(small_deinit) Small small;
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    const GgufArray *array = NULL;
    GgufString string;
    uint64_t u64 = 99;
    uint32_t u32 = 99;
    float f32;
    bool flag;
    ErrText err;

    small_make(&small, 32);
    assert_int_equal(gguf_parse(&file, small.file.data, small.file.len_bytes, "small", &err), 0);
    assert_int_equal(gguf_get_u32(file, "none", &u32, &err), GGUF_E_MISSING);
    assert_string_equal(err.text, "small: the key 'none' is missing");
    assert_int_equal(gguf_get_u32(file, "a.i32", &u32, &err), GGUF_E_RANGE);
    assert_string_equal(err.text, "small: key 'a.i32' is -7 of type i32, expected an integer from 0 to 4294967295");
    assert_int_equal(gguf_get_u32(file, "a.u64", &u32, &err), GGUF_E_RANGE);
    assert_int_equal(gguf_get_u64(file, "a.string", &u64, &err), GGUF_E_TYPE);
    assert_string_equal(err.text,
                        "small: key 'a.string' is of type string, expected an integer from 0 to 18446744073709551615");
    assert_int_equal(gguf_get_f32(file, "a.bool", &f32, &err), GGUF_E_TYPE);
    assert_int_equal(gguf_get_bool(file, "a.u32", &flag, &err), GGUF_E_RANGE);
    assert_int_equal(gguf_get_string(file, "a.strings", &string, &err), GGUF_E_TYPE);
    assert_int_equal(gguf_get_array(file, "a.strings", GGUF_I32, &array, &err), GGUF_E_TYPE);
    assert_string_equal(err.text, "small: key 'a.strings' is an array of string, expected an array of i32");
    assert_int_equal(gguf_get_array(file, "a.u32", GGUF_U32, &array, &err), GGUF_E_TYPE);
    assert_true(u32 == 99 && u64 == 99 && !array);
}

/* --- refusals: bytes by hand -------------------------------------------------------------------------------------- */

static void put_u32(StrBuf *buf, uint32_t value) {
    str_buf_append(buf, &value, 4);
}

static void put_u64(StrBuf *buf, uint64_t value) {
    str_buf_append(buf, &value, 8);
}

static void put_string(StrBuf *buf, const char *text) {
    put_u64(buf, strlen(text));
    str_buf_add(buf, text);
}

static void put_header(StrBuf *buf, uint32_t version, uint64_t n_tensors, uint64_t n_keys) {
    str_buf_add(buf, "GGUF");
    put_u32(buf, version);
    put_u64(buf, n_tensors);
    put_u64(buf, n_keys);
}

static void put_tensor(StrBuf *buf, const char *name, uint32_t n_dims, uint64_t ne0, uint64_t ne1, uint32_t type,
                       uint64_t offset) {
    put_string(buf, name);
    put_u32(buf, n_dims);
    for (uint32_t d = 0; d < n_dims && d < 8; d++)
        put_u64(buf, d == 0 ? ne0 : d == 1 ? ne1 : 1);
    put_u32(buf, type);
    put_u64(buf, offset);
}

static void put_data(StrBuf *buf, size_t len_bytes) {
    while (buf->len_bytes % 32)
        str_buf_append(buf, "", 1);
    while (len_bytes--)
        str_buf_append(buf, "", 1);
}

static void expect(StrBuf *buf, int code, const char *text) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    ErrText err = { 0 };
    int r = gguf_parse(&file, buf->data, buf->len_bytes, "f", &err);

    if (r != code || !strstr(err.text, text))
        fail_msg("code %d, expected %d; text '%s', expected '%s'", r, code, err.text, text);
    str_buf_deinit(buf);
}

static void test_gguf_refuses_headers(void **state) {
    StrBuf b = STR_BUF_NULL;

    str_buf_append(&b, "", 0);
    expect(&b, GGUF_E_CORRUPT, "the file is empty");
    str_buf_add(&b, "GG");
    expect(&b, GGUF_E_CORRUPT, "the magic needs 4 bytes");
    str_buf_add(&b, "PK\3\4 and so on");
    expect(&b, GGUF_E_CORRUPT, "not a GGUF file: it starts with 'PK\\x03\\x04'");
    put_header(&b, 1, 0, 0);
    expect(&b, GGUF_E_UNSUPPORTED, "GGUF version 1");
    put_header(&b, 0, 0, 0);
    expect(&b, GGUF_E_UNSUPPORTED, "GGUF version 0");
    put_header(&b, 4, 0, 0);
    expect(&b, GGUF_E_UNSUPPORTED, "GGUF version 4");
    put_header(&b, 0x03000000, 0, 0);
    expect(&b, GGUF_E_UNSUPPORTED, "big-endian");
    put_header(&b, 3, UINT64_MAX, 0);
    expect(&b, GGUF_E_CORRUPT, "18446744073709551615 tensors");
    put_header(&b, 3, 0, 1ull << 60);
    expect(&b, GGUF_E_CORRUPT, "1152921504606846976 keys");
    put_header(&b, 3, 3, 0);
    put_data(&b, 40);
    expect(&b, GGUF_E_CORRUPT, "3 tensors");
    put_header(&b, 3, 0, 0);
    expect(&b, 0, "");
    put_header(&b, 2, 0, 0);
    expect(&b, 0, "");
}

static void put_key(StrBuf *b, const char *name, uint32_t type) {
    put_string(b, name);
    put_u32(b, type);
}

static void test_gguf_refuses_keys(void **state) {
    StrBuf b = STR_BUF_NULL;

    put_header(&b, 3, 0, 1);
    put_u64(&b, UINT64_MAX);
    str_buf_add(&b, "name and more");
    expect(&b, GGUF_E_CORRUPT, "the name has length 18446744073709551615");
    put_header(&b, 3, 0, 1);
    put_key(&b, "", GGUF_U8);
    put_u64(&b, 0);
    expect(&b, GGUF_E_CORRUPT, "has 0 bytes");
    put_header(&b, 3, 0, 1);
    put_key(&b,
            "a\xff"
            "b",
            GGUF_U32);
    put_u32(&b, 0);
    expect(&b, GGUF_E_CORRUPT, "byte 0xff at 1");
    put_header(&b, 3, 0, 1);
    put_key(&b, "a\033[31mb", GGUF_U32);
    put_u32(&b, 0);
    expect(&b, GGUF_E_CORRUPT, "'a\\x1b[31mb' holds byte 0x1b at 1");
    put_header(&b, 3, 0, 1);
    put_key(&b, "key", 13);
    put_u32(&b, 0);
    expect(&b, GGUF_E_CORRUPT, "key 'key' has value type 13");
    put_header(&b, 3, 0, 2);
    put_key(&b, "key", GGUF_U32);
    put_u32(&b, 0);
    put_key(&b, "key", GGUF_U32);
    put_u32(&b, 0);
    expect(&b, GGUF_E_CORRUPT, "key 'key' is there twice (keys 1 and 2)");
    put_header(&b, 3, 0, 1);
    put_key(&b, "key", GGUF_BOOL);
    str_buf_append(&b, "\2", 1);
    expect(&b, GGUF_E_CORRUPT, "a bool of value 2");
    put_header(&b, 3, 0, 1);
    put_key(&b, "key", GGUF_F64);
    put_u32(&b, 0);
    expect(&b, GGUF_E_CORRUPT, "key 'key': the value needs 8 bytes");
    put_header(&b, 3, 0, 1);
    put_key(&b, "key", GGUF_STRING);
    put_u64(&b, 1ull << 40);
    expect(&b, GGUF_E_CORRUPT, "the value has length 1099511627776, 0 bytes are left");
    put_header(&b, 3, 0, 1);
    put_key(&b, "key", GGUF_ARRAY);
    put_u32(&b, GGUF_ARRAY);
    put_u64(&b, 0);
    expect(&b, GGUF_E_UNSUPPORTED, "an array of arrays");
    put_header(&b, 3, 0, 1);
    put_key(&b, "key", GGUF_ARRAY);
    put_u32(&b, 77);
    put_u64(&b, 0);
    expect(&b, GGUF_E_CORRUPT, "array element type 77");
    put_header(&b, 3, 0, 1);
    put_key(&b, "key", GGUF_ARRAY);
    put_u32(&b, GGUF_STRING);
    put_u64(&b, 1ull << 61); /* times 8 wraps to 0 */
    put_data(&b, 100);
    expect(&b, GGUF_E_CORRUPT, "an array of 2305843009213693952 string");
    put_header(&b, 3, 0, 1);
    put_key(&b, "key", GGUF_ARRAY);
    put_u32(&b, GGUF_BOOL);
    put_u64(&b, 2);
    str_buf_append(&b, "\1\7", 2);
    expect(&b, GGUF_E_CORRUPT, "element 1 is a bool of value 7");
}

static void test_gguf_refuses_alignments(void **state) {
    static const uint32_t bad[] = { 0, 3, 24, 1u << 21, UINT32_MAX };
    StrBuf b = STR_BUF_NULL;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        put_header(&b, 3, 0, 1);
        put_key(&b, "general.alignment", GGUF_U32);
        put_u32(&b, bad[i]);
        expect(&b, GGUF_E_CORRUPT, "'general.alignment' is ");
    }
    put_header(&b, 3, 0, 1);
    put_key(&b, "general.alignment", GGUF_STRING);
    put_string(&b, "32");
    expect(&b, GGUF_E_CORRUPT, "'general.alignment' is of type string");
}

static void test_gguf_refuses_tensors(void **state) {
    const struct {
        const char *name;
        uint32_t n_dims;
        uint64_t ne0, ne1;
        uint32_t type;
        uint64_t offset;
        int code;
        const char *text;
    } cases[] = {
        { "t", 1, 8, 0, GGML_F32, 0, 0, "" },
        { "", 1, 8, 0, GGML_F32, 0, GGUF_E_CORRUPT, "has 0 bytes" },
        { "a name of sixty-four bytes, which is one more than there may be..", 1, 8, 0, GGML_F32, 0, GGUF_E_CORRUPT,
          "1 to 63" },
        { "t", 0, 0, 0, GGML_F32, 0, GGUF_E_CORRUPT, "0 dimensions" },
        { "t", 5, 1, 1, GGML_F32, 0, GGUF_E_CORRUPT, "5 dimensions" },
        { "t", 2, 8, 0, GGML_F32, 0, GGUF_E_CORRUPT, "dimension 1 is 0" },
        { "t", 1, UINT64_MAX, 0, GGML_F32, 0, GGUF_E_CORRUPT, "dimension 0 is 18446744073709551615" },
        { "t", 2, 1ull << 32, 1ull << 32, GGML_F32, 0, GGUF_E_CORRUPT, "passes 2^63" },
        { "t", 1, INT64_MAX, 0, GGML_F64, 0, GGUF_E_CORRUPT, "pass 2^64 bytes" },
        { "t", 1, 1ull << 62, 0, GGML_F32, 0, GGUF_E_CORRUPT, "pass 2^64 bytes" },
        { "t", 1, 33, 0, GGML_Q8_0, 0, GGUF_E_CORRUPT, "not a multiple of Q8_0's block of 32" },
        { "t", 1, 128, 0, GGML_Q6_K, 0, GGUF_E_CORRUPT, "block of 256" },
        { "t", 1, 8, 0, 4, 0, GGUF_E_UNSUPPORTED, "type Q4_2 (number 4)" },
        { "t", 1, 8, 0, 1234, 0, GGUF_E_UNSUPPORTED, "type number 1234" },
        { "t", 1, 8, 0, GGML_F32, 8, GGUF_E_CORRUPT, "offset 8 is not a multiple of the alignment 32" },
        { "t", 1, 8, 0, GGML_F32, 32, GGUF_E_CORRUPT, "offset 32, the tensors before it end at 0" },
        { "t", 1, 8, 0, GGML_F32, UINT64_MAX - 31, GGUF_E_CORRUPT, "the tensors before it end at 0" },
        { "t", 1, 9, 0, GGML_F32, 0, GGUF_E_CORRUPT, "36 bytes at offset 0 of the data section, which has 32" },
    };
    StrBuf b = STR_BUF_NULL;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        put_header(&b, 3, 1, 0);
        put_tensor(&b, cases[i].name, cases[i].n_dims, cases[i].ne0, cases[i].ne1, cases[i].type, cases[i].offset);
        put_data(&b, 32);
        expect(&b, cases[i].code, cases[i].text);
    }
    put_header(&b, 3, 2, 0);
    put_tensor(&b, "t", 1, 8, 0, GGML_F32, 0);
    put_tensor(&b, "t", 1, 8, 0, GGML_F32, 32);
    put_data(&b, 64);
    expect(&b, GGUF_E_CORRUPT, "tensor 't' is there twice (tensors 1 and 2)");
    put_header(&b, 3, 2, 0); /* overlap: both at 0 */
    put_tensor(&b, "t", 1, 8, 0, GGML_F32, 0);
    put_tensor(&b, "u", 1, 8, 0, GGML_F32, 0);
    put_data(&b, 64);
    expect(&b, GGUF_E_CORRUPT, "tensor 'u': offset 0, the tensors before it end at 32");
    put_header(&b, 3, 1, 0); /* no data section at all */
    put_tensor(&b, "t", 1, 8, 0, GGML_F32, 0);
    expect(&b, GGUF_E_CORRUPT, "the data section starts at byte");
}

static void test_gguf_open_errors(void **state) {
    GgufFile *file = NULL;
    ErrText err;

    assert_int_equal(gguf_open(&file, "/nonexistent/model.gguf", &err), -ENOENT);
    assert_string_equal(err.text, "/nonexistent/model.gguf: No such file or directory");
    assert_int_equal(gguf_open(&file, "/dev/null", &err), -EINVAL);
    assert_null(file);
}

/* --- mutations ---------------------------------------------------------------------------------------------------- */

static const uint64_t extremes[] = { 0,          1,          0x7fffffff, 0x80000000, 0xffffffff,
                                     1ull << 32, 1ull << 61, INT64_MAX,  1ull << 63, UINT64_MAX };

/* Tries every truncation of the small file, every extreme value at every place of its head, every bit of its head. */
static void test_gguf_mutations_small(void **state) {
    _cleanup_(small_deinit) Small small;
    _cleanup_(freep) uint8_t *copy = NULL;
    size_t n_refused = 0;
    uint8_t *data;

    small_make(&small, 64);
    data = (uint8_t *)small.file.data;
    assert_int_equal(try_parse_copy(data, small.file.len_bytes), 0);
    for (size_t n = 0; n < small.head_bytes; n++)
        assert_int_equal(try_parse_copy(data, n), GGUF_E_CORRUPT);
    copy = malloc(small.file.len_bytes);
    assert_non_null(copy);
    for (size_t at = 0; at + 8 <= small.head_bytes; at++)
        for (size_t i = 0; i < ARRAY_LEN(extremes); i++) {
            memcpy(copy, data, small.file.len_bytes);
            memcpy(copy + at, &extremes[i], 8);
            n_refused += try_parse(copy, small.file.len_bytes) != 0;
        }
    memcpy(copy, data, small.file.len_bytes);
    for (size_t bit = 0; bit < 8 * small.head_bytes; bit++) {
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        n_refused += try_parse(copy, small.file.len_bytes) != 0;
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_true(n_refused > small.head_bytes); /* the mutations do reach the checks */
}

/* Borders of the structure: starts of keys and of tensor infos. */
static size_t find_borders(const GgufFile *file, size_t *borders, size_t room) {
    const uint8_t *data = gguf_data(file), *at = data;
    size_t n = 0;

    for (size_t i = 0; i < gguf_n_keys(file) && n < room; i++) {
        at = (const uint8_t *)gguf_key_at(file, i)->name.data;
        borders[n++] = (size_t)(at - data) - 8;
    }
    for (size_t i = 0; i < gguf_n_tensors(file) && n < room; i++) {
        const GgufTensor *tensor = gguf_tensor_at(file, i);

        at = memmem(at, (size_t)(data + tensor->offset_bytes - at), tensor->name, strlen(tensor->name));
        assert_non_null(at);
        borders[n++] = (size_t)(at - data) - 8;
        at += strlen(tensor->name);
    }
    return n;
}

/* 200 mutations of the head of the real model: bytes flipped, extreme values at borders, truncations at borders. */
static void test_gguf_mutations_real(void **state) {
    const char *path = test_default_model();
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    _cleanup_(closep) int fd = -1;
    size_t borders[512], n_borders, len_bytes, n_refused = 0;
    uint64_t random = 2026;
    uint8_t *data;

    if (!path)
        skip();
    assert_int_equal(gguf_open(&file, path, NULL), 0);
    n_borders = find_borders(file, borders, ARRAY_LEN(borders));
    len_bytes = gguf_len_bytes(file);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    data = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    assert_true(data != MAP_FAILED);
    assert_int_equal(try_parse(data, len_bytes), 0);
    for (size_t i = 0; i < 200; i++) {
        size_t at = borders[test_random(&random) % n_borders];
        uint8_t saved[8];

        if (i % 4 == 0) { /* cuts at a border, or within two bytes of one */
            size_t cut = at + test_random(&random) % 5 - 2;

            assert_int_equal(try_parse_copy(data, cut), GGUF_E_CORRUPT);
            n_refused++;
            continue;
        }
        if (i % 4 == 1) /* any byte of the head */
            at = (size_t)(test_random(&random) % gguf_tensor_at(file, 0)->offset_bytes) & ~(size_t)7;
        if (i % 4 == 2) /* a field a little after the border */
            at += test_random(&random) % 40;
        memcpy(saved, data + at, 8);
        if (i % 4 == 1)
            data[at] ^= (uint8_t)(1 + test_random(&random) % 255);
        else
            memcpy(data + at, &extremes[test_random(&random) % ARRAY_LEN(extremes)], 8);
        n_refused += try_parse(data, len_bytes) != 0;
        memcpy(data + at, saved, 8);
    }
    assert_int_equal(try_parse(data, len_bytes), 0);
    assert_true(n_refused > 100);
    munmap(data, len_bytes);
}

/* --- text --------------------------------------------------------------------------------------------------------- */

static void test_gguf_text(void **state) {
    _cleanup_(small_deinit) Small small;
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL, json = STR_BUF_NULL;

    small_make(&small, 32);
    assert_int_equal(gguf_parse(&file, small.file.data, small.file.len_bytes, "small", NULL), 0);
    gguf_text_write(file, &text);
    assert_non_null(strstr(text.data, "a.strings  array   3 string: [\"one\", \"\", \"drei\"]\n"));
    assert_non_null(strstr(text.data, "a.i32      i32     -7\n"));
    assert_non_null(strstr(text.data, "first.weight   Q8_0   32 x 3                   102 bytes at "));
    assert_int_equal(gguf_text_json(file, false, &json), 0);
    assert_non_null(strstr(json.data, "{\"name\":\"a.u64\",\"type\":\"u64\",\"value\":\"18446744073709551615\"}"));
    assert_non_null(strstr(
        json.data,
        "{\"name\":\"a.numbers\",\"type\":\"array\",\"value\":{\"element_type\":\"i32\",\"n\":3,\"first\":[-1,2,3]}}"));
    assert_non_null(strstr(json.data, "{\"name\":\"first.weight\",\"type\":\"Q8_0\",\"shape\":[32,3],"));
}

static void test_gguf_writer_refuses(void **state) {
    const uint64_t odd[] = { 33 }, huge[] = { 1ull << 40, 1ull << 40 }, none[] = { 0 };
    const struct {
        const char *name;
        uint32_t type, n_dims;
        const uint64_t *ne;
    } cases[] = {
        { "t", GGML_Q8_0, 1, odd },
        { "t", GGML_F32, 2, huge },
        { "t", GGML_F32, 1, none },
        { "t", 4, 1, odd },
        { "", GGML_F32, 1, odd },
        { "t", GGML_F32, 0, odd },
        { "a name that is longer than the sixty-three bytes that are allowed.", GGML_F32, 1, odd },
    };
    GgufWriter *writer = NULL;
    ErrText err;

    assert_int_equal(gguf_writer_new(&writer, 48, &err), GGUF_WRITER_E_INVALID);
    assert_int_equal(gguf_writer_new(&writer, 0, &err), GGUF_WRITER_E_INVALID);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(gguf_writer_new(&writer, 32, &err), 0);
        gguf_writer_tensor(writer, cases[i].name, cases[i].type, cases[i].n_dims, cases[i].ne);
        assert_int_equal(gguf_writer_layout(writer, &err), GGUF_WRITER_E_INVALID);
        writer = gguf_writer_free(writer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf_round_trip),         cmocka_unit_test(test_gguf_getters_refuse),
        cmocka_unit_test(test_gguf_refuses_headers),    cmocka_unit_test(test_gguf_refuses_keys),
        cmocka_unit_test(test_gguf_refuses_alignments), cmocka_unit_test(test_gguf_refuses_tensors),
        cmocka_unit_test(test_gguf_open_errors),        cmocka_unit_test(test_gguf_mutations_small),
        cmocka_unit_test(test_gguf_mutations_real),     cmocka_unit_test(test_gguf_text),
        cmocka_unit_test(test_gguf_writer_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
