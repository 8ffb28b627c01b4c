// SPDX-License-Identifier: Apache-2.0
/* Opens a package: its file, its keys, and the order of the checks. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory/page_size.h"
#include "base/strings/printable.h"
#include "model/package/package.h"
#include "model/package/package_activations.h"
#include "model/package/package_linears.h"

/* --- keys --------------------------------------------------------------------------------------------------------- */

static int get_sha256(const PackageCheck *check, const char *key, char sha256[65]) {
    const GgufFile *file = check->package->file;
    GgufString value;
    int r;

    r = gguf_get_string(file, key, &value, check->err);
    if (r)
        return package_key_error(r);
    if (value.len_bytes != 64 || strspn(memcpy(sha256, value.data, 64), "0123456789abcdef") != 64)
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: key '%s' is not a SHA-256 of 64 hex digits", gguf_path(file),
                       key);
    return 0;
}

/* Gets an average width. */
static int get_bits(const PackageCheck *check, const char *key, float *bitsp) {
    const GgufFile *file = check->package->file;
    int r;

    r = gguf_get_f32(file, key, bitsp, check->err);
    if (r)
        return package_key_error(r);
    if (!(*bitsp >= GRID_BITS_MIN && *bitsp <= GRID_BITS_MAX))
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: key '%s' is %g: 1 to 8 bits are possible", gguf_path(file),
                       key, (double)*bitsp);
    return 0;
}

static int check_recipe(const PackageCheck *check) {
    PackageQuant *quant = &check->package->quant;
    const GgufFile *file = check->package->file;
    const GgufArray *steps;
    GgufString recipe;
    int r;

    if ((r = gguf_get_string(file, PACKAGE_KEY_RECIPE, &recipe, check->err)) ||
        (r = gguf_get_strings(file, PACKAGE_KEY_STEPS, &steps, check->err)) ||
        (r = gguf_get_bool(file, PACKAGE_KEY_ROTATED, &quant->rotated, check->err)) ||
        (r = gguf_get_u32(file, PACKAGE_KEY_EMBEDDING_BITS, &quant->embedding_bits, check->err)))
        return package_key_error(r);
    /* An unknown recipe is no reason to refuse: all integers are used alike. */
    if (!recipe.len_bytes || recipe.len_bytes >= sizeof(quant->recipe) || memchr(recipe.data, 0, recipe.len_bytes))
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: key '%s' has %zu bytes: a name of 1 to %zu is needed",
                       gguf_path(file), PACKAGE_KEY_RECIPE, recipe.len_bytes, sizeof(quant->recipe) - 1);
    memcpy(quant->recipe, recipe.data, recipe.len_bytes);
    quant->steps = steps->strings;
    quant->n_steps = (size_t)steps->n;
    if (quant->embedding_bits < GRID_BITS_MIN || quant->embedding_bits > GRID_BITS_MAX)
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: key '%s' is %u: 1 to 8 bits are possible", gguf_path(file),
                       PACKAGE_KEY_EMBEDDING_BITS, quant->embedding_bits);
    r = get_bits(check, PACKAGE_KEY_BITS, &quant->bits);
    if (!r)
        r = get_bits(check, PACKAGE_KEY_BITS_ASKED, &quant->bits_asked);
    if (!r && gguf_key(file, PACKAGE_KEY_CALIBRATION))
        r = get_sha256(check, PACKAGE_KEY_CALIBRATION, quant->calibration_sha256);
    if (!r && gguf_key(file, PACKAGE_KEY_BUDGET)) {
        r = gguf_get_u64(file, PACKAGE_KEY_BUDGET, &quant->budget_bytes, check->err);
        r = r ? package_key_error(r) : 0;
    }
    if (!r && gguf_key(file, PACKAGE_KEY_IMPORT_REVISION)) {
        r = gguf_get_u32(file, PACKAGE_KEY_IMPORT_REVISION, &quant->import_revision, check->err);
        r = r ? package_key_error(r) : 0;
    }
    return r;
}

static int check_keys(PackageCheck *check) {
    Package *package = check->package;
    const GgufFile *file = package->file;
    uint32_t version;
    int r;

    if (!package_is(file))
        return err_set(check->err, PACKAGE_E_NOT_PACKAGE,
                       "%s: a GGUF file, but not a model package: import it first (coordgenctl "
                       "model import)",
                       gguf_path(file));
    r = gguf_get_u32(file, PACKAGE_KEY_FORMAT_VERSION, &version, check->err);
    if (r)
        return package_key_error(r);
    if (version != PACKAGE_FORMAT_VERSION)
        return err_set(
            check->err, PACKAGE_E_UNSUPPORTED,
            "%s: package format version %u, this program reads %d: import the model again (coordgenctl model import)",
            gguf_path(file), version, PACKAGE_FORMAT_VERSION);
    if (gguf_alignment(file) != PACKAGE_ALIGNMENT)
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: key 'general.alignment' is %u, a package has %d",
                       gguf_path(file), gguf_alignment(file), PACKAGE_ALIGNMENT);
    r = get_sha256(check, PACKAGE_KEY_SOURCE_SHA256, package->source_sha256);
    if (!r)
        r = check_recipe(check);
    return r ? r : package_check_activation_mode(check);
}

static int check_arrays(PackageCheck *check) {
    const struct {
        const char *key;
        PackageList type;
        const GgufArray **arrayp;
    } arrays[] = {
        { PACKAGE_KEY_LINEAR_NAMES, PACKAGE_LIST_STRINGS, &check->names },
        { PACKAGE_KEY_LINEAR_LAYOUTS, PACKAGE_LIST_STRINGS, &check->layouts },
        { PACKAGE_KEY_LINEAR_ROTATIONS, PACKAGE_LIST_COUNTS, &check->rotation_blocks },
        { PACKAGE_KEY_LINEAR_ACTIVATIONS, PACKAGE_LIST_STRINGS, &check->activations },
    };
    int r;

    for (size_t i = 0; i < ARRAY_LEN(arrays); i++) {
        r = package_get_list(check, arrays[i].key, arrays[i].type, arrays[i].arrayp);
        if (r)
            return r;
    }
    if (check->names->n > gguf_n_tensors(check->package->file))
        return err_set(check->err, PACKAGE_E_CORRUPT,
                       "%s: key '%s' names %" PRIu64 " linears, the file has %zu tensors",
                       gguf_path(check->package->file), PACKAGE_KEY_LINEAR_NAMES, check->names->n,
                       gguf_n_tensors(check->package->file));
    return check->package->quant.static_activations ? package_check_activation_arrays(check) : 0;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* Whether the checks read the tensor: scales, widths and vectors, but not weights and columns. */
static bool is_checked(const GgufTensor *tensor) {
    const char *last_part = strrchr(tensor->name, '.');

    return tensor->type == GGML_F32 || (last_part && !strcmp(last_part, ".bits"));
}

/* Asks at once for the pages that the checks read, a few per cent of the file, here and there. Other pages that are
 * touched bring no neighbours, which are mostly weights: those are not read through the map. Both are advice; nothing
 * depends on it. */
static void ask_for_small_tensors(const Package *package) {
    const GgufFile *file = package->file;
    const size_t n = gguf_n_tensors(file);
    uint64_t begin = 0, end = 0, data_begin = gguf_len_bytes(file);

    for (size_t i = 0; i < n; i++)
        if (gguf_tensor_at(file, i)->offset_bytes < data_begin)
            data_begin = gguf_tensor_at(file, i)->offset_bytes;
    data_begin = page_round_down(data_begin);
    if (data_begin < gguf_len_bytes(file))
        (void)madvise((uint8_t *)gguf_data(file) + data_begin, (size_t)(gguf_len_bytes(file) - data_begin),
                      MADV_RANDOM);
    (void)posix_fadvise(package->fd, 0, 0,
                        POSIX_FADV_RANDOM); /* columns and page_cache_holds() read at random places */
    for (size_t i = 0; i <= n; i++) {
        const GgufTensor *tensor = i < n ? gguf_tensor_at(file, i) : NULL;
        const bool is_small = tensor && is_checked(tensor);

        if (is_small && begin < end && tensor->offset_bytes >= end && tensor->offset_bytes - end < PACKAGE_ALIGNMENT) {
            end = tensor->offset_bytes + tensor->len_bytes;
            continue;
        }
        if (begin < end)
            (void)posix_fadvise(package->fd, (off_t)begin, (off_t)(end - begin), POSIX_FADV_WILLNEED);
        begin = is_small ? tensor->offset_bytes : 0;
        end = is_small ? tensor->offset_bytes + tensor->len_bytes : 0;
    }
}

/* --- object ------------------------------------------------------------------------------------------------------- */

static int check(Package *package, ErrText *err) {
    PackageCheck check = { .package = package, .err = err };
    int r;

    r = check_keys(&check);
    if (r)
        return r;
    r = hparams_read(&package->hparams, package->file, err);
    if (r)
        return r == HPARAMS_E_UNSUPPORTED ? PACKAGE_E_UNSUPPORTED
               : r == HPARAMS_E_CORRUPT   ? PACKAGE_E_CORRUPT
                                          : err_fold(r);
    r = check_arrays(&check);
    return r ? r : package_check_tensors(&check);
}

/* Makes a package of file and fd, and takes them over, also when it fails. */
static int package_new(Package **packagep, GgufFile *file, int fd, ErrText *err) {
    _cleanup_(gguf_freep) GgufFile *owned = file;
    _cleanup_(closep) int owned_fd = fd;
    _cleanup_(package_freep) Package *package = calloc(1, sizeof(*package));
    int r;

    if (!package)
        return err_set(err, -ENOMEM, "%s: out of memory", gguf_path(file));
    package->file = steal(&owned);
    package->fd = owned_fd;
    owned_fd = -1;
    if (package->fd >= 0)
        ask_for_small_tensors(package);
    r = check(package, err);
    if (gguf_check_whole(file, err)) /* the error came from the cut, not from the content */
        return PACKAGE_E_CORRUPT;
    if (r)
        return r;
    *packagep = steal(&package);
    return 0;
}

static int gguf_error(int r) {
    return r == GGUF_E_UNSUPPORTED ? PACKAGE_E_UNSUPPORTED : r == GGUF_E_CORRUPT ? PACKAGE_E_CORRUPT : err_fold(r);
}

/* Opens a package of fd, and takes it over, also when it fails. */
static int open_taken(Package **packagep, int fd, const char *name, ErrText *err) {
    _cleanup_(closep) int owned_fd = fd;
    GgufFile *file = NULL;
    int r;

    r = gguf_open_fd(&file, fd, name, err);
    return r ? gguf_error(r) : package_new(packagep, file, steal_fd(&owned_fd), err);
}

/**
 * package_open() - map a package and check it
 *
 * Everything except the integers of the weights is checked. The checks cover keys, parallel arrays, scales, widths and
 * their average, vectors, and the length of the weights. The architecture gives every tensor's presence, type and
 * shape. Some per cent of the file are read at most.
 *
 * Thread: any. Return: 0, PACKAGE_E_*, or -errno; the text names the file and what is wrong.
 */
int package_open(Package **packagep, const char *path, ErrText *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    return fd < 0 ? err_set(err, -errno, "%s: %s", path, strerror(errno)) : open_taken(packagep, fd, path, err);
}

int package_open_fd(Package **packagep, int fd, const char *name, ErrText *err) {
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    return own < 0 ? err_set(err, -errno, "%s: %s", name, strerror(errno)) : open_taken(packagep, own, name, err);
}

int package_parse(Package **packagep, const void *data, size_t len_bytes, const char *name, ErrText *err) {
    GgufFile *file = NULL;
    int r;

    if ((uintptr_t)data % PACKAGE_ALIGNMENT)
        return err_set(err, -EINVAL, "%s: package memory must be aligned to %d", name, PACKAGE_ALIGNMENT);
    r = gguf_parse(&file, data, len_bytes, name, err);
    return r ? gguf_error(r) : package_new(packagep, file, -1, err);
}
