// SPDX-License-Identifier: Apache-2.0
#include "model/package/package_checksum.h"

#include <errno.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file_io.h"
#include "base/min_max.h"
#include "base/strings/printable.h"

_Static_assert(PACKAGE_CHECKSUM_BYTES == SHA256_DIGEST_SIZE, "one digest a part");

enum {
    BLOCK_BYTES = 1 << 20,
};

typedef struct Part {
    uint64_t end_bytes; /* end in the file; a part begins at the end of the one before */
    const char *first;  /* name of its first tensor, the file's; NULL: the head */
} Part;

struct PackageChecksum {
    int fd;
    const char *name;
    Part *parts; /* [n_parts] */
    size_t n_parts;
    uint8_t *digests; /* [n_parts][SHA256_DIGEST_SIZE], of the key: a copy, because others may write to the file */
    uint64_t digests_at;
    bool seals;     /* the digests are computed, not compared */
    uint8_t *block; /* [BLOCK_BYTES] */
    size_t part;    /* part that is hashed; n_parts: none is left */
    struct sha256_ctx context;
    uint64_t at_bytes; /* offset up to which bytes are hashed */
    int result;
    ErrText failure;
};

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* Length of "blk.12." in a name, or 0: tells layers apart. */
static size_t layer_prefix(const char *name) {
    size_t n = 4;

    if (strncmp(name, "blk.", 4))
        return 0;
    while (name[n] >= '0' && name[n] <= '9')
        n++;
    return name[n] == '.' ? n + 1 : 0;
}

static bool is_same_layer(const char *a, const char *b) {
    const size_t n = layer_prefix(a);

    return n == layer_prefix(b) && !memcmp(a, b, n);
}

static int list_parts(PackageChecksum *self, const GgufFile *file, ErrText *err) {
    const size_t n = gguf_n_tensors(file);
    const char *before = NULL;

    self->parts = calloc(n + 1, sizeof(*self->parts));
    if (!self->parts)
        return err_no_memory(err);
    self->n_parts = 1;
    for (size_t i = 0; i < n; i++) {
        const GgufTensor *tensor = gguf_tensor_at(file, i);

        if (!before || !is_same_layer(before, tensor->name)) {
            self->parts[self->n_parts - 1].end_bytes = tensor->offset_bytes;
            self->parts[self->n_parts++].first = tensor->name;
        }
        before = tensor->name;
    }
    self->parts[self->n_parts - 1].end_bytes = gguf_len_bytes(file);
    for (size_t i = 1; i < self->n_parts; i++)
        if (self->parts[i].end_bytes < self->parts[i - 1].end_bytes)
            return err_set(err, PACKAGE_CHECKSUM_E_DAMAGED,
                           "%.*s is damaged: its tensors do not lie in their order; import the model again",
                           UTF8_PREFIX(self->name, 512));
    return 0;
}

static size_t part_of(const PackageChecksum *self, uint64_t at_bytes) {
    size_t i = 0;

    while (i < self->n_parts && self->parts[i].end_bytes <= at_bytes)
        i++;
    return i;
}

static int damaged(const PackageChecksum *self, const Part *part, ErrText *err) {
    const size_t n = part->first ? layer_prefix(part->first) : 0;

    if (!part->first)
        return err_set(err, PACKAGE_CHECKSUM_E_DAMAGED,
                       "%.*s is damaged: its head is not as it was written; remove it and import the model again",
                       UTF8_PREFIX(self->name, 512));
    if (n)
        return err_set(err, PACKAGE_CHECKSUM_E_DAMAGED,
                       "%.*s is damaged: layer %.*s is not as it was written; remove it and import the model again",
                       UTF8_PREFIX(self->name, 512), (int)(n - 5), part->first + 4);
    return err_set(err, PACKAGE_CHECKSUM_E_DAMAGED,
                   "%.*s is damaged: what begins with %s is not as it was written; remove it and import the model "
                   "again",
                   UTF8_PREFIX(self->name, 512), part->first);
}

/* --- hashing ------------------------------------------------------------------------------------------------------ */

/* Ends the current part and compares its digest. */
static int end_part(PackageChecksum *self) {
    uint8_t digest[SHA256_DIGEST_SIZE], *held = self->digests + self->part * SHA256_DIGEST_SIZE;

    sha256_digest(&self->context, sizeof(digest), digest); /* the hash begins anew */
    if (self->seals)
        memcpy(held, digest, sizeof(digest));
    else if (memcmp(digest, held, sizeof(digest)))
        return damaged(self, &self->parts[self->part], &self->failure);
    self->part++;
    return 0;
}

/* Hashes zeros in place of the digests' own bytes. */
static void blank(const PackageChecksum *self, size_t n) {
    const uint64_t at = self->at_bytes, begin = self->digests_at, end = begin + self->n_parts * SHA256_DIGEST_SIZE;

    for (uint64_t i = MAX(at, begin); i < end && i < at + n; i++)
        self->block[i - at] = 0;
}

/* Hashes the next n bytes of the part, n at most BLOCK_BYTES. */
static int read_block(PackageChecksum *self, size_t n) {
    const int r = file_read_exact(self->fd, self->block, n, self->at_bytes);

    if (r)
        return err_set(&self->failure, r < 0 ? r : PACKAGE_CHECKSUM_E_FILE, "%.*s: cannot be read: %s",
                       UTF8_PREFIX(self->name, 512), r < 0 ? strerror(-r) : "it was cut short while it was read");
    blank(self, n);
    sha256_update(&self->context, n, self->block);
    return 0;
}

/* Hashes up to end_bytes; bytes from at_bytes on are taken from data, if it is given. */
static void hash(PackageChecksum *self, uint64_t end_bytes, const uint8_t *data) {
    while (!self->result && self->part < self->n_parts && self->at_bytes <= end_bytes) {
        const uint64_t part_end_bytes = self->parts[self->part].end_bytes, to_bytes = MIN(end_bytes, part_end_bytes);
        const uint64_t left_bytes = to_bytes - self->at_bytes;
        const size_t n = left_bytes < BLOCK_BYTES ? (size_t)left_bytes : BLOCK_BYTES;

        if (data) {
            sha256_update(&self->context, n, data);
            data += n;
        } else if (n) {
            self->result = read_block(self, n);
        }
        self->at_bytes += n;
        if (!self->result && self->at_bytes == part_end_bytes)
            self->result = end_part(self);
        else if (!n)
            return;
    }
}

/* --- object ------------------------------------------------------------------------------------------------------- */

PackageChecksum *package_checksum_free(PackageChecksum *self) {
    if (!self)
        return NULL;
    free(self->parts);
    free(self->digests);
    free(self->block);
    free(self);
    return NULL;
}

/**
 * package_checksum_new() - find the parts of a package and their digests
 * @fd, @file: the same file
 *
 * Return: 0; PACKAGE_CHECKSUM_E_NONE; PACKAGE_CHECKSUM_E_DAMAGED: the key has not one digest a part; -ENOMEM.
 */
int package_checksum_new(PackageChecksum **checksump, int fd, const GgufFile *file, ErrText *err) {
    _cleanup_(package_checksum_freep) PackageChecksum *self = calloc(1, sizeof(*self));
    const GgufArray *digests;
    int r;

    if (!self)
        return err_no_memory(err);
    self->fd = fd;
    self->name = gguf_path(file);
    if (gguf_get_array(file, PACKAGE_KEY_CHECKSUMS, GGUF_U8, &digests, NULL))
        return err_set(
            err, PACKAGE_CHECKSUM_E_NONE,
            "%.*s has no checksums: it was made by an older coordgenctl; import the model again to have some",
            UTF8_PREFIX(self->name, 512));
    r = list_parts(self, file, err);
    if (r)
        return r;
    if (digests->n != self->n_parts * SHA256_DIGEST_SIZE)
        return err_set(err, PACKAGE_CHECKSUM_E_DAMAGED,
                       "%.*s is damaged: %s has not one checksum for each of its parts; import the model again",
                       UTF8_PREFIX(self->name, 512), PACKAGE_KEY_CHECKSUMS);
    self->digests_at = (uint64_t)(digests->data - (const uint8_t *)gguf_data(file));
    self->digests = malloc((size_t)digests->n);
    self->block = malloc(BLOCK_BYTES);
    if (!self->digests || !self->block)
        return err_no_memory(err);
    memcpy(self->digests, digests->data, (size_t)digests->n);
    sha256_init(&self->context);
    *checksump = steal(&self);
    return 0;
}

void package_checksum_take(PackageChecksum *self, uint64_t offset_bytes, const void *data, size_t len_bytes) {
    const uint64_t end_bytes = offset_bytes + len_bytes;

    if (end_bytes <= self->at_bytes)
        return;
    if (data && offset_bytes > self->at_bytes)
        hash(self, offset_bytes, NULL);
    if (self->result)
        return;
    hash(self, end_bytes, data ? (const uint8_t *)data + (self->at_bytes - offset_bytes) : NULL);
}

int package_checksum_compare(PackageChecksum *self, uint64_t end_bytes, ErrText *err) {
    const size_t part = end_bytes ? part_of(self, end_bytes - 1) : 0;

    hash(self, self->parts[part < self->n_parts ? part : self->n_parts - 1].end_bytes, NULL);
    if (self->result && err)
        *err = self->failure;
    return self->result;
}

bool package_checksum_same_part(const PackageChecksum *self, uint64_t a_bytes, uint64_t b_bytes) {
    return part_of(self, a_bytes) == part_of(self, b_bytes);
}

uint64_t package_checksum_done_bytes(const PackageChecksum *self) {
    return self->part ? self->parts[self->part - 1].end_bytes : 0;
}

/* --- whole files -------------------------------------------------------------------------------------------------- */

static int open_parts(PackageChecksum **selfp, GgufFile **filep, int fd, const char *name, ErrText *err) {
    const int r = gguf_open_fd(filep, fd, name, err);

    if (r)
        return r < 0 ? r : PACKAGE_CHECKSUM_E_FILE;
    return package_checksum_new(selfp, fd, *filep, err);
}

int package_checksum_seal(int fd, const char *name, ErrText *err) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    _cleanup_(package_checksum_freep) PackageChecksum *self = NULL;
    int r;

    r = open_parts(&self, &file, fd, name, err);
    if (r)
        return r == PACKAGE_CHECKSUM_E_NONE || r == PACKAGE_CHECKSUM_E_DAMAGED ? PACKAGE_CHECKSUM_E_FILE : r;
    self->seals = true;
    r = package_checksum_compare(self, UINT64_MAX, err);
    if (r)
        return r;
    r = file_write_at(fd, self->digests, self->n_parts * SHA256_DIGEST_SIZE, self->digests_at);
    return r ? err_set(err, r, "%.*s: cannot write: %s", UTF8_PREFIX(name, 512), strerror(-r)) : 0;
}

int package_checksum_verify(int fd, const char *name, PackageChecksumFn *fn, void *arg, ErrText *err) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    _cleanup_(package_checksum_freep) PackageChecksum *self = NULL;
    int r;

    r = open_parts(&self, &file, fd, name, err);
    if (r)
        return r;
    do {
        if (fn)
            fn(arg, self->at_bytes, gguf_len_bytes(file));
        r = package_checksum_compare(self, self->at_bytes + 1, err);
    } while (!r && self->part < self->n_parts);
    if (!r && fn)
        fn(arg, gguf_len_bytes(file), gguf_len_bytes(file));
    return r;
}
