// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "model/gguf/gguf_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/gguf/gguf_private.h"

/* "-00001-of-00003.gguf" */
#define SUFFIX "-%05zu-of-%05zu.gguf"
#define SUFFIX_BYTES 20

int gguf_parts_count(const GgufFile *file, size_t *np, ErrText *err) {
    uint32_t n = 1;
    int r = gguf_get_u32(file, "split.count", &n, err);

    if (r && r != GGUF_E_MISSING)
        return r < 0 ? r : GGUF_E_CORRUPT;
    if (n > GGUF_PARTS_MAX)
        return err_set(err, GGUF_E_UNSUPPORTED, "%s: key 'split.count' is %u: models in up to %d files are supported",
                       file->path, n, GGUF_PARTS_MAX);
    *np = n ? n : 1;
    return 0;
}

/* --- names -------------------------------------------------------------------------------------------------------- */

/* Reads five digits as a number; -1: they are none. */
static int five_digits(const char *text) {
    int value = 0;

    for (size_t i = 0; i < 5; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

bool gguf_parts_of_name(const char *name, uint32_t *partp, uint32_t *np) {
    const size_t len_bytes = strlen(name);
    const char *suffix = name + len_bytes - SUFFIX_BYTES;
    int part, n;

    if (len_bytes <= SUFFIX_BYTES || suffix[0] != '-' || strncmp(suffix + 6, "-of-", 4) || strcmp(suffix + 15, ".gguf"))
        return false;
    part = five_digits(suffix + 1);
    n = five_digits(suffix + 10);
    if (part < 1 || part > n)
        return false;
    *partp = (uint32_t)part;
    *np = (uint32_t)n;
    return true;
}

size_t gguf_parts_stem_bytes(const char *name) {
    const char *dot = strrchr(name, '.');
    uint32_t part, n;

    if (gguf_parts_of_name(name, &part, &n))
        return strlen(name) - SUFFIX_BYTES;
    return dot ? (size_t)(dot - name) : strlen(name);
}

char *gguf_parts_sibling(const char *path, size_t part) {
    uint32_t own, n;
    char *made;

    if (!gguf_parts_of_name(path, &own, &n) ||
        asprintf(&made, "%.*s" SUFFIX, (int)(strlen(path) - SUFFIX_BYTES), path, part + 1, (size_t)n) < 0)
        return NULL;
    return made;
}

char *gguf_parts_path(const char *path, size_t part, size_t n) {
    uint32_t own, of;

    return gguf_parts_of_name(path, &own, &of) && own == 1 && of == n ? gguf_parts_sibling(path, part) : NULL;
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */

static size_t n_all_tensors(const GgufFile *file) {
    size_t n = file->n_tensors;

    for (size_t i = 0; i < file->n_others; i++)
        n += file->others[i]->n_tensors;
    return n;
}

static int check_total(const GgufFile *file, size_t n, ErrText *err) {
    uint64_t expected = n;
    int r = gguf_get_u64(file, "split.tensors.count", &expected, err);

    if (r && r != GGUF_E_MISSING)
        return r < 0 ? r : GGUF_E_CORRUPT;
    if (expected == n)
        return 0;
    return err_set(err, GGUF_E_CORRUPT,
                   "%s: key 'split.tensors.count' is %" PRIu64 ", but its %zu parts have %zu tensors: they are not of "
                   "one model, download it again",
                   file->path, expected, gguf_n_parts(file), n);
}

/* Adds the tensors of all parts to those of the first one. */
static int join_tensors(GgufFile *file, ErrText *err) {
    const size_t n = n_all_tensors(file);
    GgufTensor *tensors;
    int r = check_total(file, n, err);

    if (r)
        return r;
    if (n > GGUF_TENSORS_MAX)
        return err_set(err, GGUF_E_UNSUPPORTED, "%s: its parts have %zu tensors: at most %d are supported", file->path,
                       n, GGUF_TENSORS_MAX);
    tensors = realloc(file->tensors, (n + 1) * sizeof(*tensors));
    if (tensors)
        file->tensors = tensors;
    if (!tensors || gguf_index_tensors(file, n))
        return err_set(err, -ENOMEM, "%s: out of memory", file->path);
    for (uint32_t i = 0; i < file->n_tensors && !r; i++)
        r = text_index_add(&file->tensor_index, i);
    for (size_t part = 1; part <= file->n_others && !r; part++) {
        const GgufFile *other = file->others[part - 1];

        for (size_t i = 0; i < other->n_tensors && !r; i++) {
            GgufTensor *tensor = &file->tensors[file->n_tensors];
            uint32_t twin;

            *tensor = other->tensors[i];
            tensor->part = (uint32_t)part;
            twin = text_index_find(&file->tensor_index, tensor->name, strlen(tensor->name));
            if (twin != UINT32_MAX)
                return err_set(err, GGUF_E_CORRUPT, "%s: tensor '%s' is in %s too", other->path, tensor->name,
                               gguf_part_path(file, file->tensors[twin].part));
            r = text_index_add(&file->tensor_index, (uint32_t)file->n_tensors++);
        }
    }
    return !r ? 0
              : err_set(err, GGUF_E_CORRUPT, "%s: thousands of names of tensors were made to collide: refused",
                        file->path);
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* Checks that a part's keys agree with its name. */
static int check_part(const GgufFile *part, size_t index, size_t n, ErrText *err) {
    uint32_t no, count;
    int r = gguf_get_u32(part, "split.no", &no, err);

    if (!r)
        r = gguf_get_u32(part, "split.count", &count, err);
    if (r)
        return r < 0 ? r : GGUF_E_CORRUPT;
    if (no == index && count == n)
        return 0;
    return err_set(err, GGUF_E_CORRUPT, "%s: is part %" PRIu64 " of %u by its keys, not part %zu of %zu by its name",
                   part->path, (uint64_t)no + 1, count, index + 1, n);
}

/* Checks that the first part is first by its keys, and by its name. */
static int check_first(const GgufFile *file, size_t n, ErrText *err) {
    _cleanup_(freep) char *path = gguf_parts_path(file->path, 0, n);
    uint32_t no = 0;
    int r = gguf_get_u32(file, "split.no", &no, err);

    if (r)
        return r < 0 ? r : GGUF_E_CORRUPT;
    if (no)
        return err_set(err, GGUF_E_UNSUPPORTED,
                       "%s: part %" PRIu64 " of a model in %zu files: name the first one, which ends in " SUFFIX,
                       file->path, (uint64_t)no + 1, n, (size_t)1, n);
    if (!path)
        return err_set(err, GGUF_E_UNSUPPORTED,
                       "%s: the first of %zu files of a model, whose name must end in " SUFFIX
                       ": give all of them their names back",
                       file->path, n, (size_t)1, n);
    return 0;
}

/* Opens a part under its own name, which follows from the first part's name. */
static int add_part(GgufFile *file, int fd, size_t index, size_t n, ErrText *err) {
    _cleanup_(freep) char *path = gguf_parts_path(file->path, index, n);
    int r;

    if (!path)
        return err_set(err, -ENOMEM, "%s: out of memory", file->path);
    r = gguf_open_fd(&file->others[file->n_others], fd, path, err);
    if (r)
        return r;
    return check_part(file->others[file->n_others++], index, n, err);
}

static int begin(GgufFile *file, size_t n, ErrText *err) {
    int r = check_first(file, n, err);

    if (r)
        return r;
    file->others = calloc(n, sizeof(*file->others));
    return file->others ? 0 : err_set(err, -ENOMEM, "%s: out of memory", file->path);
}

int gguf_parts_add(GgufFile *file, const int *fds, size_t n, ErrText *err) {
    int r = begin(file, n, err);

    for (size_t i = 1; i < n && !r; i++)
        r = add_part(file, fds[i - 1], i, n, err);
    return r ? r : join_tensors(file, err);
}

static int open_part(const GgufFile *file, size_t index, size_t n, int *fdp, ErrText *err) {
    _cleanup_(freep) char *path = gguf_parts_path(file->path, index, n);
    int fd;

    if (!path)
        return err_set(err, -ENOMEM, "%s: out of memory", file->path);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return err_set(err, errno == ENOENT ? GGUF_E_CORRUPT : -errno, "%s: part %zu of %zu of the model: %s", path,
                       index + 1, n, errno == ENOENT ? "is missing: download it too" : strerror(errno));
    *fdp = fd;
    return 0;
}

/* Adds the further parts of a file that was opened by its path, if it has any: they lie beside it. */
static int open_parts(GgufFile *file, ErrText *err) {
    size_t n = 1;
    int r = gguf_parts_count(file, &n, err);

    if (r || n == 1)
        return r;
    r = begin(file, n, err);
    for (size_t i = 1; i < n && !r; i++) {
        _cleanup_(closep) int fd = -1;

        r = open_part(file, i, n, &fd, err);
        if (!r)
            r = add_part(file, fd, i, n, err);
    }
    return r ? r : join_tensors(file, err);
}

/**
 * gguf_open() - map a GGUF file read-only and check its whole structure
 *
 * The data of tensors is not touched. If another process cuts the file short while it is mapped, reading the lost part
 * ends the process with SIGBUS, or gives zeros after map_guard_install(). A caller therefore reads keys or tensors
 * first, then asks gguf_check_whole(), and only then relies on them: strings of the metadata are in the map too.
 * Tensors are best read with read calls (as the importer and loads of packages do).
 *
 * Thread: any; the object is immutable afterwards and may be shared.
 * Return: 0, GGUF_E_CORRUPT, GGUF_E_UNSUPPORTED, or -errno of the file system; the text names file, field and value.
 */
int gguf_open(GgufFile **filep, const char *path, ErrText *err) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    int r = gguf_open_one(&file, path, err);

    if (!r)
        r = open_parts(file, err);
    if (!r)
        *filep = steal(&file);
    return r;
}
