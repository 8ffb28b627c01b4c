// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/models/files/stored_files.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/file_note.h"
#include "base/strings/printable.h"
#include "importer/files/import_cache.h"
#include "importer/files/import_part.h"
#include "importer/importer.h"
#include "model/gguf/gguf_parts.h"
#include "proto/proto_check.h"
#include "weights/image/weights_image.h"

#define PART ".part"
#define JOURNAL ".part.journal"
#define HASH_DIGITS 12 /* digits of the source's hash in the name of a package that the service made */

static bool ends_with(const char *text, const char *end) {
    const size_t text_bytes = strlen(text), end_bytes = strlen(end);

    return text_bytes > end_bytes && !strcmp(text + text_bytes - end_bytes, end);
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

void stored_files_deinit(StoredFiles *files) {
    for (size_t i = 0; i < files->n; i++) {
        free(files->files[i].path);
        free(files->files[i].model);
        free(files->files[i].owner);
    }
    free(files->files);
    *files = (StoredFiles){ 0 };
}

/* Adds an entry. Return: the entry; NULL: too many files, or out of memory. */
static StoredFile *add(StoredFiles *files, const char *folder, const char *name, Coordgen__V1__FileKind kind) {
    const size_t room = files->room ? 2 * files->room : 64;
    StoredFile *grown, *file;

    if (files->n == files->room) {
        grown = files->n < STORED_FILES_MAX ? realloc(files->files, room * sizeof(*grown)) : NULL;
        if (!grown)
            return NULL;
        files->files = grown;
        files->room = room;
    }
    file = &files->files[files->n];
    *file = (StoredFile){ .kind = kind };
    if (asprintf(&file->path, "%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/", name) < 0)
        return NULL;
    files->n++;
    return file;
}

/* Returns the bytes on disk of a folder's content, down to @depth levels of subfolders. */
static uint64_t folder_bytes(int parent_fd, const char *name, unsigned int depth) {
    const int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    uint64_t bytes = 0;
    struct stat st;

    while (entries && (entry = readdir(entries))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
            fstatat(dirfd(entries), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        bytes += (uint64_t)st.st_blocks * 512;
        if (S_ISDIR(st.st_mode) && depth)
            bytes += folder_bytes(dirfd(entries), entry->d_name, depth - 1);
    }
    if (entries)
        closedir(entries);
    else if (fd >= 0)
        close(fd);
    return bytes;
}

typedef void ClassifyFn(StoredFile *file, const StoredFiles *files, int folder_fd);

/* Collects a folder's files; with @with_folders each subfolder is one entry, too. */
static void collect_folder(StoredFiles *files, const char *folder, bool with_folders, ClassifyFn *classify) {
    DIR *entries = *folder ? opendir(folder) : NULL;
    const struct dirent *entry;
    StoredFile *file;
    struct stat st;

    while (entries && (entry = readdir(entries))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
            fstatat(dirfd(entries), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            (S_ISDIR(st.st_mode) && !with_folders))
            continue;
        file = add(files, folder, entry->d_name, COORDGEN__V1__FILE_KIND__FILE_KIND_OTHER);
        if (!file)
            break;
        file->bytes = (uint64_t)st.st_blocks * 512;
        if (S_ISDIR(st.st_mode))
            file->bytes += folder_bytes(dirfd(entries), entry->d_name, 3);
        else
            classify(file, files, dirfd(entries));
        if (S_ISLNK(st.st_mode))
            file->note = "a link";
    }
    if (entries)
        closedir(entries);
}

/* --- kinds of files ----------------------------------------------------------------------------------------------- */

/* Classifies the working files of an import: in use, resumable, or useless. */
static void judge_import(StoredFile *file, const char *suffix) {
    _cleanup_(freep) char *package = strndup(file->path, strlen(file->path) - strlen(suffix));

    file->kind = COORDGEN__V1__FILE_KIND__FILE_KIND_IMPORT_WORK;
    switch (package ? import_left(package) : IMPORT_LEFT_BUSY) {
    case IMPORT_LEFT_RESUMABLE:
        file->fate = STORED_RESUMABLE;
        file->note = "of an import that can be gone on with";
        break;
    case IMPORT_LEFT_USELESS:
        file->fate = STORED_USELESS;
        file->note = "left over";
        break;
    case IMPORT_LEFT_BUSY:
        file->note = "in use";
        break;
    }
}

/* Makes a model's name of the first @len_bytes of its file's name. The caller frees the name; NULL: out of memory. */
static char *model_name(const char *file_name, size_t len_bytes) {
    _cleanup_(freep) char *stem = strndup(file_name, len_bytes);

    return stem ? printable_dup(stem, PROTO_MODEL_NAME_BYTES_MAX) : NULL;
}

static void classify_model(StoredFile *file, const StoredFiles *files, int folder_fd) {
    static const struct {
        const char *suffix;
        Coordgen__V1__FileKind kind;
    } kinds[] = {
        { ".gguf", COORDGEN__V1__FILE_KIND__FILE_KIND_SOURCE },
        { ".cgm", COORDGEN__V1__FILE_KIND__FILE_KIND_PACKAGE },
        { ".cgm" PART, COORDGEN__V1__FILE_KIND__FILE_KIND_IMPORT_WORK },
        { ".cgm" JOURNAL, COORDGEN__V1__FILE_KIND__FILE_KIND_IMPORT_WORK },
    };
    const char *name = base_name(file->path);

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (ends_with(name, kinds[i].suffix)) {
            file->kind = kinds[i].kind;
            file->model = model_name(name, i ? strlen(name) - strlen(kinds[i].suffix) : gguf_parts_stem_bytes(name));
            if (file->kind == COORDGEN__V1__FILE_KIND__FILE_KIND_IMPORT_WORK)
                judge_import(file, kinds[i].suffix + strlen(".cgm"));
            return;
        }
}

/* Returns the bytes before "-<hash of the source>" in the name of a package that the service made; 0: no such hash. */
static size_t imported_stem_bytes(const char *name) {
    for (size_t i = 1; name[i]; i++)
        if (name[i] == '-' && strspn(name + i + 1, "0123456789abcdef") == HASH_DIGITS &&
            !isalnum((unsigned char)name[i + 1 + HASH_DIGITS]))
            return i;
    return 0;
}

static void classify_imported(StoredFile *file, const StoredFiles *files, int folder_fd) {
    const char *name = base_name(file->path);
    const size_t stem_bytes = imported_stem_bytes(name);

    if (ends_with(name, ".cgm" PART))
        judge_import(file, PART);
    else if (ends_with(name, ".cgm" JOURNAL))
        judge_import(file, JOURNAL);
    else if (ends_with(name, ".cgm"))
        file->kind = COORDGEN__V1__FILE_KIND__FILE_KIND_IMPORTED;
    else
        return;
    file->model = stem_bytes ? model_name(name, stem_bytes) : NULL;
    file->is_guess = true;
}

static bool is_mapped(const StoredFiles *files, const char *image_path) {
    const Model *model;

    TAILQ_FOREACH (model, &files->registry->models, link)
        if (model->load.image_path && (model->engine || model->job) && !strcmp(model->load.image_path, image_path))
            return true;
    return false;
}

static void classify_image(StoredFile *file, const StoredFiles *files, int folder_fd) {
    char owner[PATH_MAX + 1] = "";
    const WeightsImageUse use = weights_image_use(folder_fd, base_name(file->path), owner);

    if (use == WEIGHTS_IMAGE_IS_NONE)
        return;
    file->kind = COORDGEN__V1__FILE_KIND__FILE_KIND_IMAGE;
    file->owner = *owner ? strdup(owner) : NULL;
    if (is_mapped(files, file->path)) {
        file->note = "in use";
        return;
    }
    if (use == WEIGHTS_IMAGE_IS_CURRENT)
        return;
    file->fate = STORED_USELESS;
    file->note = use == WEIGHTS_IMAGE_IS_LEFT_OVER ? "left over" : "its package is gone or has changed";
}

static void classify_draft_db(StoredFile *file, const StoredFiles *files, int folder_fd) {
    file->kind = COORDGEN__V1__FILE_KIND__FILE_KIND_DRAFT_DB;
    if (!strstr(base_name(file->path), ".corrupt-"))
        return;
    file->kind = COORDGEN__V1__FILE_KIND__FILE_KIND_SET_ASIDE;
    file->fate = STORED_SET_ASIDE;
    file->note = "damaged";
}

static void classify_state(StoredFile *file, const StoredFiles *files, int folder_fd) {
    if (strstr(base_name(file->path), ".corrupt-"))
        classify_draft_db(file, files, folder_fd);
}

/* --- owners of files ---------------------------------------------------------------------------------------------- */

/* Finds the package that the service made from a model's source. Return: false if only a read of the source could tell
 * the package's name. */
static bool imported_path(const Model *model, char path[PATH_MAX]) {
    const ImportOptions options = import_options_default();
    char folder[PATH_MAX], notes[PATH_MAX + 16], sha256[FILE_NOTE_BYTES_MAX];
    struct stat st;

    if (!ends_with(model->source.path, ".gguf"))
        return false;
    if (model->load.package_path && strcmp(model->load.package_path, model->source.path))
        return snprintf(path, PATH_MAX, "%s", model->load.package_path) < PATH_MAX;
    if (snprintf(folder, sizeof(folder), "%s/models", model->registry->config->cache_dir) >= (int)sizeof(folder))
        return false;
    snprintf(notes, sizeof(notes), "%s/sources", folder);
    return !stat(model->source.path, &st) && file_note_recall(notes, &st, sha256, sizeof(sha256)) &&
           strlen(sha256) == SHA256_HEX_BYTES - 1 &&
           !import_default_path(path, model->source.path, sha256, &options.recipe, NULL, folder, NULL);
}

static StoredFile *find(const StoredFiles *files, const char *path) {
    for (size_t i = 0; i < files->n; i++)
        if (!strcmp(files->files[i].path, path))
            return &files->files[i];
    return NULL;
}

static int name_owners(StoredFiles *files) {
    char path[PATH_MAX];
    const Model *model;

    TAILQ_FOREACH (model, &files->registry->models, link) {
        StoredFile *file = imported_path(model, path) ? find(files, path) : NULL;
        char *name = file ? strdup(model->name) : NULL;

        if (file && !name)
            return err_raise(-ENOMEM);
        if (!file)
            continue;
        free(file->model);
        file->model = name;
        file->is_guess = false;
    }
    for (size_t i = 0; i < files->n; i++) {
        const StoredFile *package = files->files[i].owner ? find(files, files->files[i].owner) : NULL;

        if (package && package->model && !(files->files[i].model = strdup(package->model)))
            return err_raise(-ENOMEM);
    }
    return 0;
}

int stored_files_collect(StoredFiles *files, ModelRegistry *registry) {
    const Config *config = registry->config;
    char folder[PATH_MAX];
    int r;

    assert_on_loop(registry->loop);
    *files = (StoredFiles){ .registry = registry };
    collect_folder(files, config->models.dir, false, classify_model);
    if (snprintf(folder, sizeof(folder), "%s/models", config->cache_dir) < (int)sizeof(folder))
        collect_folder(files, folder, true, classify_imported);
    if (snprintf(folder, sizeof(folder), "%s/images", config->cache_dir) < (int)sizeof(folder))
        collect_folder(files, folder, true, classify_image);
    collect_folder(files, config->draft_db.dir, false, classify_draft_db);
    collect_folder(files, config->state_dir, false, classify_state);
    r = name_owners(files);
    if (r)
        stored_files_deinit(files);
    return r;
}

/* --- removal ------------------------------------------------------------------------------------------------------ */

/* Tells whether a loaded or loading model other than @than uses the package. */
static bool is_shared(const StoredFiles *files, const char *package_path, const Model *than) {
    const Model *model;

    TAILQ_FOREACH (model, &files->registry->models, link)
        if (model != than && model->load.package_path && (model->engine || model->job) &&
            !strcmp(model->load.package_path, package_path))
            return true;
    return false;
}

/* Tells whether the path is one of the model's files: the first one or another part. */
static bool is_file_of(const Model *model, const char *path) {
    const size_t n = gguf_parts_stem_bytes(model->source.path);
    uint32_t part, own_n, n_parts;

    if (!strcmp(model->source.path, path))
        return true;
    return gguf_parts_of_name(model->source.path, &part, &own_n) && gguf_parts_of_name(path, &part, &n_parts) &&
           own_n == n_parts && gguf_parts_stem_bytes(path) == n && !strncmp(model->source.path, path, n);
}

static bool is_imported_of(const StoredFiles *files, const StoredFile *file, const Model *model) {
    uint32_t part, n;

    if (!file->model || strcmp(file->model, model->name) || is_shared(files, file->path, model))
        return false;
    /* No note has the hash of a source in several files, so the name decides for such a model. */
    return !file->is_guess || gguf_parts_of_name(model->source.path, &part, &n);
}

bool stored_file_goes_with(const StoredFiles *files, const StoredFile *file, const Model *model) {
    const size_t n = strlen(model->source.path);
    const StoredFile *package;

    switch (file->kind) {
    case COORDGEN__V1__FILE_KIND__FILE_KIND_SOURCE:
    case COORDGEN__V1__FILE_KIND__FILE_KIND_PACKAGE:
        return is_file_of(model, file->path);
    case COORDGEN__V1__FILE_KIND__FILE_KIND_IMPORT_WORK:
        return !strncmp(file->path, model->source.path, n) && file->path[n] == '.' && file->fate != STORED_NEEDED;
    case COORDGEN__V1__FILE_KIND__FILE_KIND_IMPORTED:
        return is_imported_of(files, file, model);
    case COORDGEN__V1__FILE_KIND__FILE_KIND_IMAGE:
        if (!file->owner || is_mapped(files, file->path))
            return false;
        package = find(files, file->owner);
        return !strcmp(file->owner, model->source.path) ||
               (package && is_imported_of(files, package, model) &&
                package->kind == COORDGEN__V1__FILE_KIND__FILE_KIND_IMPORTED);
    default:
        return false;
    }
}

/* Removes both working files of an import together, under the import's lock. */
static int remove_import(const StoredFile *file, ErrText *err) {
    const char *suffix = ends_with(file->path, JOURNAL) ? JOURNAL : PART;
    _cleanup_(freep) char *package = strndup(file->path, strlen(file->path) - strlen(suffix));
    bool found;

    return package ? import_left_discard(package, &found, err) : err_raise(-ENOMEM);
}

int stored_file_remove(const StoredFile *file, ErrText *err) {
    if (file->kind == COORDGEN__V1__FILE_KIND__FILE_KIND_IMPORT_WORK)
        return remove_import(file, err);
    if (unlink(file->path) < 0 && errno != ENOENT)
        return err_set(err, -errno, "%.512s: cannot be removed: %s", file->path, strerror(errno));
    return 0;
}
