// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "importer/import_private.h"
#include "model/hparams_keys.h"

#define HASH_BLOCK_BYTES (1u << 20)

int import_read_error(int error, const char *path, ErrText *err) {
    if (error == FILE_E_SHORT)
        return err_set(err, IMPORT_E_CHANGED, "%s: the file became shorter while it was read: import it again", path);
    return err_set(err, error, "%s: cannot read: %s", path, strerror(-error));
}

void import_source_deinit(ImportSource *source) {
    gguf_free(source->file);
    if (source->fd >= 0)
        close(source->fd);
}

/* The families that text/tokenizer.h builds; quick. Whether it can build this one shows in make_package(). */
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
    r = gguf_get_array(source->file, "tokenizer.ggml.tokens", GGUF_STRING, &tokens, err);
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
    uint32_t n_parts;
    int r;

    if (package_is(source->file))
        return err_set(err, IMPORT_E_UNSUPPORTED, "%s: this is a model package already: load it as it is",
                       source->path);
    if (!gguf_get_u32(source->file, "split.count", &n_parts, NULL) && n_parts > 1)
        return err_set(err, IMPORT_E_UNSUPPORTED,
                       "%s: one part of a model in %u files: merge them first (llama-gguf-split --merge)", source->path,
                       n_parts);
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
    struct stat st;

    if (fstat(source->fd, &st) < 0)
        return err_set(err, -errno, "%s: %s", source->path, strerror(errno));
    if (!same_content(&st, &source->st) || (source->file && gguf_check_whole(source->file, NULL)))
        return err_set(err, IMPORT_E_CHANGED, "%s: the file changed while it was read: import it again", source->path);
    return 0;
}

int import_source_open(ImportSource *source, const char *path, const int *fd, ErrText *err) {
    const char *slash = strrchr(path, '/');
    int r;

    *source = (ImportSource){ .path = path, .name = slash ? slash + 1 : path, .fd = -1 };
    source->fd = fd ? fcntl(*fd, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (source->fd < 0 || fstat(source->fd, &source->st) < 0)
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    r = gguf_open_fd(&source->file, source->fd, path, err);
    if (r > 0 && import_source_unchanged(source, err)) /* what was wrong was not in the file */
        return IMPORT_E_CHANGED;
    if (r)
        return r == GGUF_E_UNSUPPORTED ? IMPORT_E_UNSUPPORTED : r == GGUF_E_CORRUPT ? IMPORT_E_CORRUPT : err_trace(r);
    return source_check(source, err);
}

static int source_hash(const ImportSource *source, const ImportOptions *options, char sha256[SHA256_HEX_BYTES],
                       ErrText *err) {
    _cleanup_(freep) uint8_t *block = malloc(HASH_BLOCK_BYTES);
    uint64_t total_bytes = (uint64_t)source->st.st_size;
    uint8_t digest[SHA256_DIGEST_SIZE];
    struct sha256_ctx context;
    int r;

    if (!block)
        return err_set(err, -ENOMEM, "%s: out of memory", source->path);
    sha256_init(&context);
    (void)posix_fadvise(source->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    for (uint64_t at = 0; at < total_bytes;) {
        size_t n = total_bytes - at < HASH_BLOCK_BYTES ? (size_t)(total_bytes - at) : HASH_BLOCK_BYTES;

        if (import_options_cancelled(options))
            return err_set(err, IMPORT_E_CANCELLED, "%s: the import was cancelled", source->path);
        r = file_read_exact(source->fd, block, n, at);
        if (r)
            return import_read_error(r, source->path, err);
        sha256_update(&context, n, block);
        at += n;
        if (options->progress)
            options->progress(
                options->progress_arg,
                &(ImportProgress){ .stage = IMPORT_STAGE_HASH, .done_bytes = at, .total_bytes = total_bytes });
    }
    sha256_digest(&context, sizeof(digest), digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(sha256 + 2 * i, 3, "%02x", digest[i]);
    return import_source_unchanged(source, err);
}

/* Remembers the hash in the cache folder, if there is one. */
int import_source_identify(const ImportSource *source, const ImportOptions *options, ImportReport *report,
                           ErrText *err) {
    char folder[PATH_MAX];
    bool has_folder = !import_cache_dir(folder, options->cache_dir, NULL);
    int r;

    report->hash_remembered = has_folder && import_hash_recall(folder, &source->st, report->source_sha256);
    if (report->hash_remembered)
        return 0;
    r = source_hash(source, options, report->source_sha256, err);
    if (r)
        return r;
    if (has_folder)
        import_hash_remember(folder, &source->st, report->source_sha256);
    return 0;
}

int import_source_sha256(const char *source_path, const ImportOptions *options, char sha256[SHA256_HEX_BYTES],
                         ErrText *err) {
    _cleanup_(import_source_deinit) ImportSource source;
    _cleanup_(freep) ImportReport *report = calloc(1, sizeof(*report));
    int r = import_source_open(&source, source_path, NULL, err);

    if (!r)
        r = report ? import_source_identify(&source, options, report, err) : err_set(err, -ENOMEM, "out of memory");
    if (!r)
        memcpy(sha256, report->source_sha256, SHA256_HEX_BYTES);
    return r;
}
