// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "importer/files/import_source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strings/printable.h"
#include "importer/files/import_cache.h"
#include "model/gguf/gguf_kind.h"
#include "model/gguf/gguf_parts.h"
#include "model/hparams/hparams_keys.h"
#include "model/package/package.h"

#define HASH_BLOCK_BYTES (1u << 20)

int import_read_error(int error, const char *path, ErrText *err) {
    if (error == FILE_E_SHORT)
        return err_set(err, IMPORT_E_CHANGED, "%s: the file became shorter while it was read: import it again", path);
    return err_set(err, error, "%s: cannot read: %s", path, strerror(-error));
}

void import_source_deinit(ImportSource *source) {
    gguf_free(source->file);
    for (size_t i = 0; i < source->n_parts; i++)
        if (source->fds[i] >= 0)
            close(source->fds[i]);
    free(source->fds);
    free(source->sts);
}

uint64_t import_source_len_bytes(const ImportSource *source) {
    uint64_t len_bytes = 0;

    for (size_t i = 0; i < source->n_parts; i++)
        len_bytes += (uint64_t)source->sts[i].st_size;
    return len_bytes;
}

/* Checks quickly that text/tokenizer/tokenizer.h knows the tokenizer's family. make_package() checks that this
 * tokenizer can be built. */
static int check_tokenizer(const ImportSource *source, ErrText *err) {
    const GgufArray *tokens;
    GgufString model;
    Printable shown;
    int r;

    r = gguf_get_string(source->file, "tokenizer.ggml.model", &model, err);
    if (r)
        return r < 0 ? r : IMPORT_E_CORRUPT;
    if (!(model.len_bytes == 4 && !memcmp(model.data, "gpt2", 4)) &&
        !(model.len_bytes == 5 && !memcmp(model.data, "llama", 5)))
        return err_set(err, IMPORT_E_UNSUPPORTED,
                       "%s: tokenizer '%s' is not supported: gpt2 (byte-level BPE) and llama (SentencePiece) are",
                       source->path, printable(&shown, model.data, model.len_bytes));
    r = gguf_get_strings(source->file, "tokenizer.ggml.tokens", &tokens, err);
    if (r)
        return r < 0 ? r : IMPORT_E_CORRUPT;
    if (tokens->n > source->hparams.n_vocab)
        return err_set(err, IMPORT_E_CORRUPT,
                       "%s: %" PRIu64 " tokens in the tokenizer, but the embedding has %u rows: the file is damaged or "
                       "was converted wrongly",
                       source->path, tokens->n, source->hparams.n_vocab);
    return 0;
}

static int source_check(ImportSource *source, ErrText *err) {
    int r;

    if (package_is(source->file))
        return err_set(err, IMPORT_E_UNSUPPORTED, "%s: this is a model package already: load it as it is",
                       source->path);
    r = hparams_read(&source->hparams, source->file, err);
    if (!r)
        r = hparams_check_tensors(&source->hparams, source->file, err);
    if (r)
        return r == HPARAMS_E_UNSUPPORTED ? IMPORT_E_UNSUPPORTED
               : r == HPARAMS_E_CORRUPT   ? IMPORT_E_CORRUPT
                                          : err_fold(r);
    hparams_keys_warn(source->file, source->hparams.arch->name);
    return check_tokenizer(source, err);
}

static bool same_content(const struct stat *a, const struct stat *b) {
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

int import_source_unchanged(const ImportSource *source, ErrText *err) {
    for (size_t i = 0; i < source->n_parts; i++) {
        struct stat st;

        if (fstat(source->fds[i], &st) < 0)
            return err_set(err, -errno, "%s: %s", source->path, strerror(errno));
        if (!same_content(&st, &source->sts[i]))
            return err_set(err, IMPORT_E_CHANGED, "%s: the file changed while it was read: import it again",
                           source->path);
    }
    if (source->file && gguf_check_whole(source->file, NULL))
        return err_set(err, IMPORT_E_CHANGED, "%s: the file changed while it was read: import it again", source->path);
    return 0;
}

/* Refuses a file that is no language model, or not all of one. Other faults are left to the reader of the file. */
static int check_kind(const ImportSource *source, const char *path, ErrText *err) {
    GgufKindInfo info;

    gguf_kind_find(&info, path, source->fds[source->n_parts - 1]);
    switch (info.kind) {
    case GGUF_KIND_MODEL:
    case GGUF_KIND_OTHER:
    case GGUF_KIND_LOST:
        return 0;
    case GGUF_KIND_PART:
        if (source->n_parts > 1)
            return 0;
        break;
    case GGUF_KIND_CUT:
        if (!info.whole_bytes)
            return 0;
        break;
    default:
        break;
    }
    gguf_kind_tell(&info, path, err);
    return info.kind == GGUF_KIND_CUT || info.kind == GGUF_KIND_DOWNLOAD ? GGUF_E_CORRUPT : GGUF_E_UNSUPPORTED;
}

/* Opens the file at path, or takes the one that is open already, as the next part of the source. */
static int open_part(ImportSource *source, const char *path, const int *fd, ErrText *err) {
    const size_t i = source->n_parts;

    source->fds[i] = fd ? fcntl(*fd, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (source->fds[i] < 0)
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    source->n_parts++;
    if (fstat(source->fds[i], &source->sts[i]) < 0)
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    return check_kind(source, path, err);
}

/* Opens the other parts, which lie beside the first one; the first one must be known by its path. */
static int open_other_parts(ImportSource *source, size_t n, bool is_opened, ErrText *err) {
    if (is_opened)
        return err_set(err, GGUF_E_UNSUPPORTED,
                       "%s: one part of a model in %zu files: import it with coordgenctl model import, or merge them "
                       "first (llama-gguf-split --merge)",
                       source->path, n);
    for (size_t i = 1; i < n; i++) {
        _cleanup_(freep) char *path = gguf_parts_path(source->path, i, n);
        int r;

        if (!path) /* gguf_parts_add() reports a bad name of the first part before it looks at the others */
            break;
        r = open_part(source, path, NULL, err);
        if (r)
            return r == -ENOENT ? err_set(err, GGUF_E_CORRUPT,
                                          "%s: part %zu of %zu of the model is missing: download it "
                                          "too",
                                          path, i + 1, n)
                                : r;
    }
    return gguf_parts_add(source->file, source->fds + 1, n, err);
}

static int open_parts(ImportSource *source, const int *fd, ErrText *err) {
    size_t n;
    int r = open_part(source, source->path, fd, err);

    if (!r)
        r = gguf_open_fd(&source->file, source->fds[0], source->path, err);
    if (!r && !package_is(source->file))
        r = gguf_parts_count(source->file, &n, err);
    else
        n = 1;
    return r || n == 1 ? r : open_other_parts(source, n, fd, err);
}

int import_source_open(ImportSource *source, const char *path, const int *fd, ErrText *err) {
    const char *slash = strrchr(path, '/');
    int r;

    *source = (ImportSource){ .path = path, .name = slash ? slash + 1 : path };
    source->fds = calloc(GGUF_PARTS_MAX, sizeof(*source->fds));
    source->sts = calloc(GGUF_PARTS_MAX, sizeof(*source->sts));
    if (!source->fds || !source->sts)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    r = open_parts(source, fd, err);
    if (r > 0 && import_source_unchanged(source, err)) /* the fault came from the change, not from the file */
        return IMPORT_E_CHANGED;
    if (r)
        return r == GGUF_E_UNSUPPORTED ? IMPORT_E_UNSUPPORTED : r == GGUF_E_CORRUPT ? IMPORT_E_CORRUPT : err_trace(r);
    return source_check(source, err);
}

/* Hashes all parts, one behind the other. */
static int source_hash(const ImportSource *source, ImportMonitor *monitor, char sha256[SHA256_HEX_BYTES],
                       ErrText *err) {
    _cleanup_(freep) uint8_t *block = malloc(HASH_BLOCK_BYTES);
    const uint64_t total_bytes = import_source_len_bytes(source);
    uint8_t digest[SHA256_DIGEST_SIZE];
    struct sha256_ctx context;
    uint64_t done_bytes = 0;
    int r;

    if (!block)
        return err_set(err, -ENOMEM, "%s: out of memory", source->path);
    monitor->progress = (ImportProgress){ .stage = IMPORT_STAGE_HASH, .total_bytes = total_bytes };
    sha256_init(&context);
    for (size_t part = 0; part < source->n_parts; part++) {
        const uint64_t part_bytes = (uint64_t)source->sts[part].st_size;

        (void)posix_fadvise(source->fds[part], 0, 0, POSIX_FADV_SEQUENTIAL);
        for (uint64_t at = 0; at < part_bytes;) {
            size_t n = part_bytes - at < HASH_BLOCK_BYTES ? (size_t)(part_bytes - at) : HASH_BLOCK_BYTES;

            r = import_monitor_check(monitor, err);
            if (r)
                return r;
            r = file_read_exact(source->fds[part], block, n, at);
            if (r)
                return import_read_error(r, gguf_part_path(source->file, part), err);
            sha256_update(&context, n, block);
            at += n;
            done_bytes += n;
            monitor->progress.done_bytes = done_bytes;
            import_monitor_tell(monitor);
        }
    }
    sha256_digest(&context, sizeof(digest), digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(sha256 + 2 * i, 3, "%02x", digest[i]);
    return import_source_unchanged(source, err);
}

/* Remembers the hash of a single file in the cache folder, if there is one; a hash of several files is not
 * remembered. */
int import_source_identify(const ImportSource *source, const char *cache_dir, ImportMonitor *monitor,
                           char sha256[SHA256_HEX_BYTES], bool *rememberedp, ErrText *err) {
    char folder[PATH_MAX];
    bool has_folder = source->n_parts == 1 && !import_cache_dir(folder, cache_dir, NULL);
    int r;

    *rememberedp = has_folder && import_hash_recall(folder, &source->sts[0], sha256);
    if (*rememberedp)
        return 0;
    r = source_hash(source, monitor, sha256, err);
    if (r)
        return r;
    if (has_folder)
        import_hash_remember(folder, &source->sts[0], sha256);
    return 0;
}
