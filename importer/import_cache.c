// SPDX-License-Identifier: Apache-2.0
/* Names of packages in the cache folder, and the memory of which source file has which hash.
 *
 * A source is remembered by device and inode, with size, mtime and ctime to the nanosecond: a write changes the ctime,
 * which no program can set back. A write within the clock's granularity of an earlier one could go unseen, so a file
 * that changed less than a few seconds ago is not remembered. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "importer/import_private.h"

#define NAME_MAX_BYTES 100
#define SETTINGS_BYTES 120 /* with the rest, and the journal's suffix, a name that file systems take */
#define SETTLED_SECONDS 3
#define RECORD_MAX_BYTES 512

static int path_format(char path[PATH_MAX], ErrText *err, const char *format, const char *a, const char *b) {
    int n = snprintf(path, PATH_MAX, format, a, b);

    return n < 0 || n >= PATH_MAX ? err_set(err, -ENAMETOOLONG, "%.100s...: the path is too long", a) : 0;
}

int import_cache_dir(char path[PATH_MAX], const char *cache_dir, ErrText *err) {
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (cache_dir)
        return path_format(path, err, "%s%s", cache_dir, "");
    if (xdg && *xdg == '/') /* the XDG specification: a relative path is to be ignored */
        return path_format(path, err, "%s%s", xdg, "/coordgen/models");
    if (home && *home == '/')
        return path_format(path, err, "%s%s", home, "/.cache/coordgen/models");
    return err_set(err, -ENOENT, "no cache folder: set XDG_CACHE_HOME or HOME, or name the output file");
}

/* FOLDER/NAME[-first 12 of sha256][SETTINGS].cgm; sha256 NULL: none. */
static int package_path(char path[PATH_MAX], const char *folder, const char *source_path, const char *sha256,
                        const QuantRecipe *recipe, const char *calibration_sha256, ErrText *err) {
    const char *base = strrchr(source_path, '/');
    char settings[SETTINGS_BYTES], name[NAME_MAX_BYTES + sizeof(settings) + 64];
    size_t n;

    base = base ? base + 1 : source_path;
    n = strlen(base);
    if (n > 5 && !strcasecmp(base + n - 5, ".gguf"))
        n -= 5;
    if (n > NAME_MAX_BYTES)
        n = NAME_MAX_BYTES;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)base[i];

        name[i] = (char)((c < 0x80 && isalnum(c)) || (c == '.' && i) || c == '_' || c == '-' ? c : '_');
    }
    import_settings_suffix(settings, sizeof(settings), recipe, calibration_sha256);
    snprintf(name + n, sizeof(name) - n, "%s%.12s%s.cgm", sha256 ? "-" : "", sha256 ? sha256 : "", settings);
    return path_format(path, err, "%s/%s", folder, name);
}

int import_default_path(char path[PATH_MAX], const char *source_path, const char *sha256, const QuantRecipe *recipe,
                        const char *calibration_sha256, const char *cache_dir, ErrText *err) {
    char folder[PATH_MAX];
    int r = import_cache_dir(folder, cache_dir, err);

    return r ? r : package_path(path, folder, source_path, sha256, recipe, calibration_sha256, err);
}

int import_model_path(char path[PATH_MAX], const char *source_path, const QuantRecipe *recipe,
                      const char *calibration_sha256, const char *model_dir, ErrText *err) {
    return package_path(path, model_dir, source_path, NULL, recipe, calibration_sha256, err);
}

static int record_path(char path[PATH_MAX], const char *cache_dir, const struct stat *st) {
    char name[64];

    snprintf(name, sizeof(name), "sources/%" PRIx64 "-%" PRIx64, (uint64_t)st->st_dev, (uint64_t)st->st_ino);
    return path_format(path, NULL, "%s/%s", cache_dir, name);
}

/* "1 SIZE MTIME CTIME ": what must be the same; the hash follows. */
static void record_prefix(char *text, size_t room_bytes, const struct stat *st) {
    snprintf(text, room_bytes, "1 %" PRIu64 " %" PRId64 ".%09ld %" PRId64 ".%09ld ", (uint64_t)st->st_size,
             (int64_t)st->st_mtim.tv_sec, st->st_mtim.tv_nsec, (int64_t)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
}

bool import_hash_recall(const char *cache_dir, const struct stat *st, char sha256[SHA256_HEX_BYTES]) {
    _cleanup_(freep) char *text = NULL;
    char path[PATH_MAX], prefix[RECORD_MAX_BYTES];
    size_t len_bytes, prefix_bytes;

    if (record_path(path, cache_dir, st) || file_slurp(path, RECORD_MAX_BYTES, &text, &len_bytes, NULL))
        return false;
    record_prefix(prefix, sizeof(prefix), st);
    prefix_bytes = strlen(prefix);
    if (len_bytes != prefix_bytes + SHA256_HEX_BYTES || memcmp(text, prefix, prefix_bytes) ||
        text[len_bytes - 1] != '\n' || strspn(text + prefix_bytes, "0123456789abcdef") != SHA256_HEX_BYTES - 1)
        return false;
    memcpy(sha256, text + prefix_bytes, SHA256_HEX_BYTES - 1);
    sha256[SHA256_HEX_BYTES - 1] = 0;
    return true;
}

void import_hash_remember(const char *cache_dir, const struct stat *st, const char *sha256) {
    _cleanup_(atomic_file_freep) AtomicFile *file = NULL;
    char path[PATH_MAX], text[RECORD_MAX_BYTES], *slash;
    time_t now = time(NULL);
    size_t n;

    if (st->st_mtim.tv_sec > now - SETTLED_SECONDS || st->st_ctim.tv_sec > now - SETTLED_SECONDS ||
        record_path(path, cache_dir, st))
        return;
    slash = strrchr(path, '/');
    *slash = 0;
    if (file_make_dirs(path, NULL))
        return;
    *slash = '/';
    record_prefix(text, sizeof(text), st);
    n = strlen(text);
    snprintf(text + n, sizeof(text) - n, "%s\n", sha256);
    if (!atomic_file_new(&file, path, NULL) && !file_write_all(atomic_file_fd(file), text, strlen(text)))
        (void)atomic_file_commit(file, NULL);
}
