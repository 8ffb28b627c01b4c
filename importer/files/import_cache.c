// SPDX-License-Identifier: Apache-2.0
#include "importer/files/import_cache.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file_note.h"
#include "base/files/user_dirs.h"
#include "importer/import_settings.h"
#include "model/gguf/gguf_parts.h"

#define NAME_MAX_BYTES 100
#define SETTINGS_BYTES 120 /* short enough that the whole name with the journal's suffix fits a file system's limit */

static int path_format(char path[PATH_MAX], ErrText *err, const char *format, const char *a, const char *b) {
    int n = snprintf(path, PATH_MAX, format, a, b);

    return n < 0 || n >= PATH_MAX ? err_set(err, -ENAMETOOLONG, "%.100s...: the path is too long", a) : 0;
}

int import_cache_dir(char path[PATH_MAX], const char *cache_dir, ErrText *err) {
    int r;

    if (cache_dir)
        return path_format(path, err, "%s%s", cache_dir, "");
    r = user_dir(USER_DIR_CACHE, "/models", path, PATH_MAX);
    if (r == -ENAMETOOLONG)
        return err_set(err, r, "the path of the cache folder is too long: name the output file");
    return r ? err_set(err, r, "no cache folder: set XDG_CACHE_HOME or HOME, or name the output file") : 0;
}

/* Makes FOLDER/NAME[-first 12 digits of sha256][SETTINGS].cgm; sha256 NULL: without these digits. */
static int package_path(char path[PATH_MAX], const char *folder, const char *source_path, const char *sha256,
                        const QuantRecipe *recipe, const char *calibration_sha256, ErrText *err) {
    const char *base = strrchr(source_path, '/');
    char settings[SETTINGS_BYTES], name[NAME_MAX_BYTES + sizeof(settings) + 64];
    size_t n;

    base = base ? base + 1 : source_path;
    n = strlen(base);
    if (n > 5 && !strcasecmp(base + n - 5, ".gguf"))
        n = gguf_parts_stem_bytes(base);
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

/* FOLDER/sources. */
static int notes_folder(char path[PATH_MAX], const char *cache_dir) {
    return path_format(path, NULL, "%s%s", cache_dir, "/sources");
}

bool import_hash_recall(const char *cache_dir, const struct stat *st, char sha256[SHA256_HEX_BYTES]) {
    char folder[PATH_MAX], text[FILE_NOTE_BYTES_MAX];

    if (notes_folder(folder, cache_dir) || !file_note_recall(folder, st, text, sizeof(text)) ||
        strlen(text) != SHA256_HEX_BYTES - 1 || strspn(text, "0123456789abcdef") != SHA256_HEX_BYTES - 1)
        return false;
    memcpy(sha256, text, SHA256_HEX_BYTES);
    return true;
}

void import_hash_remember(const char *cache_dir, const struct stat *st, const char *sha256) {
    char folder[PATH_MAX];

    if (!notes_folder(folder, cache_dir))
        file_note_remember(folder, st, sha256);
}
