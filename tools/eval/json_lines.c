// SPDX-License-Identifier: Apache-2.0
#include "tools/eval/json_lines.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/files/file_io.h"

#define FILE_BYTES_MAX ((size_t)256 << 20)

static int each_line(const char *path, JsonLineFn *fn, void *arg, bool takes_null, ErrText *err) {
    _cleanup_(freep) char *data = NULL;
    size_t len_bytes, number = 0;
    char *line, *next;
    int r;

    r = file_slurp(path, FILE_BYTES_MAX, &data, &len_bytes, err);
    if (r)
        return r;
    for (line = data; line < data + len_bytes; line = next) {
        json_error_t error;
        json_t *object;

        next = memchr(line, '\n', (size_t)(data + len_bytes - line));
        next = next ? next + 1 : data + len_bytes;
        number++;
        if (strspn(line, " \t\r\n") >= (size_t)(next - line))
            continue;
        object = json_loadb(line, (size_t)(next - line), JSON_ALLOW_NUL, &error);
        if (!json_is_object(object) && !(takes_null && !object)) {
            json_decref(object);
            return err_set(err, -EINVAL, "%s:%zu: not a JSON object: %s", path, number, error.text);
        }
        r = fn(arg, object, number, err);
        json_decref(object);
        if (r) {
            err_prefix(err, "%s:%zu", path, number);
            return r;
        }
    }
    if (!number)
        return err_set(err, -EINVAL, "%s: the file is empty", path);
    return 0;
}

int json_lines_each(const char *path, JsonLineFn *fn, void *arg, ErrText *err) {
    return each_line(path, fn, arg, false, err);
}

int json_lines_each_or_null(const char *path, JsonLineFn *fn, void *arg, ErrText *err) {
    return each_line(path, fn, arg, true, err);
}

int json_lines_ids(const json_t *array, uint32_t n_vocab, uint32_t **idsp, size_t *np, ErrText *err) {
    size_t n = json_array_size(array);
    uint32_t *ids;

    if (!json_is_array(array))
        return err_set(err, -EINVAL, "'ids' is not an array of token ids");
    ids = malloc((n ? n : 1) * sizeof(*ids));
    if (!ids)
        return err_no_memory(err);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(array, i);

        if (!json_is_integer(item) || json_integer_value(item) < 0 || json_integer_value(item) >= n_vocab) {
            free(ids);
            return err_set(err, -EINVAL, "token %zu is not an id below %u", i, n_vocab);
        }
        ids[i] = (uint32_t)json_integer_value(item);
    }
    *idsp = ids;
    *np = n;
    return 0;
}
