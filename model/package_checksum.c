// SPDX-License-Identifier: Apache-2.0
#include "model/package_checksum.h"

#include <errno.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file_io.h"
#include "base/printable.h"
#include "model/gguf.h"

_Static_assert(PACKAGE_CHECKSUM_BYTES == SHA256_DIGEST_SIZE, "one digest a part");

enum {
    BLOCK_BYTES = 1 << 20,
};

typedef struct Part {
    uint64_t begin, end; /* in the file */
    const char *first;   /* its first tensor; NULL: the head */
} Part;

typedef struct Checksums {
    int fd;
    const char *name;
    const GgufFile *file;
    const GgufArray *digests; /* of the key */
    uint64_t digests_at;      /* in the file */
    uint8_t *block;           /* [BLOCK_BYTES] */
    size_t at;                /* the tensor that the next part begins with; the head comes first */
    bool has_begun;
} Checksums;

/* "blk.12." of a name, or nothing: what tells layers apart. */
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

/* Return: whether there is another part. */
static bool next_part(Checksums *self, Part *part) {
    const size_t n = gguf_n_tensors(self->file);
    const GgufTensor *first = self->at < n ? gguf_tensor_at(self->file, self->at) : NULL;

    if (!self->has_begun) {
        self->has_begun = true;
        *part = (Part){ 0, first ? first->offset_bytes : gguf_len_bytes(self->file), NULL };
        return true;
    }
    if (!first)
        return false;
    while (++self->at < n && is_same_layer(gguf_tensor_at(self->file, self->at)->name, first->name))
        ;
    *part = (Part){ first->offset_bytes,
                    self->at < n ? gguf_tensor_at(self->file, self->at)->offset_bytes : gguf_len_bytes(self->file),
                    first->name };
    return true;
}

static size_t count_parts(Checksums self) {
    size_t n = 0;
    Part part;

    self.at = 0;
    self.has_begun = false;
    while (next_part(&self, &part))
        n++;
    return n;
}

/* The digests' own bytes count as zeros. */
static void blank(const Checksums *self, uint64_t at, size_t n) {
    const uint64_t begin = self->digests_at, end = begin + self->digests->n;

    for (uint64_t i = at > begin ? at : begin; i < end && i < at + n; i++)
        self->block[i - at] = 0;
}

static int hash(const Checksums *self, const Part *part, uint8_t digest[SHA256_DIGEST_SIZE], ErrText *err) {
    struct sha256_ctx context;

    sha256_init(&context);
    for (uint64_t at = part->begin; at < part->end;) {
        const size_t n = part->end - at < BLOCK_BYTES ? (size_t)(part->end - at) : BLOCK_BYTES;
        const int r = file_read_exact(self->fd, self->block, n, at);

        if (r)
            return err_set(err, r < 0 ? r : -EIO, "%.*s: cannot be read: %s", UTF8_PREFIX(self->name, 512),
                           r < 0 ? strerror(-r) : "the file is shorter than it was");
        blank(self, at, n);
        sha256_update(&context, n, self->block);
        at += n;
    }
    sha256_digest(&context, SHA256_DIGEST_SIZE, digest);
    return 0;
}

/* The key must have a digest a part. */
static int checksums_begin(Checksums *self, ErrText *err) {
    if (gguf_get_array(self->file, PACKAGE_KEY_CHECKSUMS, GGUF_U8, &self->digests, NULL))
        return err_set(
            err, PACKAGE_CHECKSUM_E_NONE,
            "%.*s has no checksums: it was made by an older coordgenctl; import the model again to have some",
            UTF8_PREFIX(self->name, 512));
    self->digests_at = (uint64_t)(self->digests->data - (const uint8_t *)gguf_data(self->file));
    if (self->digests->n != count_parts(*self) * SHA256_DIGEST_SIZE)
        return err_set(err, PACKAGE_CHECKSUM_E_DAMAGED,
                       "%.*s is damaged: %s has not one checksum for each of its parts; import the model again",
                       UTF8_PREFIX(self->name, 512), PACKAGE_KEY_CHECKSUMS);
    self->block = malloc(BLOCK_BYTES);
    return self->block ? 0 : err_set(err, -ENOMEM, "out of memory");
}

static int open_parts(Checksums *self, GgufFile **filep, ErrText *err) {
    const int r = gguf_open_fd(filep, self->fd, self->name, err);

    if (r)
        return r < 0 ? r : PACKAGE_CHECKSUM_E_FILE;
    self->file = *filep;
    return checksums_begin(self, err);
}

int package_checksum_seal(int fd, const char *name, ErrText *err) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    Checksums self = { .fd = fd, .name = name };
    _cleanup_(freep) uint8_t *block = NULL, *digests = NULL;
    size_t n = 0;
    Part part;
    int r;

    r = open_parts(&self, &file, err);
    block = self.block;
    if (r)
        return r == PACKAGE_CHECKSUM_E_NONE || r == PACKAGE_CHECKSUM_E_DAMAGED ? PACKAGE_CHECKSUM_E_FILE : r;
    digests = malloc(self.digests->n);
    if (!digests)
        return err_set(err, -ENOMEM, "out of memory");
    while (!r && next_part(&self, &part))
        r = hash(&self, &part, digests + n++ * SHA256_DIGEST_SIZE, err);
    if (r)
        return r;
    r = file_write_at(fd, digests, self.digests->n, self.digests_at);
    return r ? err_set(err, r, "%.*s: cannot write: %s", UTF8_PREFIX(name, 512), strerror(-r)) : 0;
}

static int damaged(const Checksums *self, const Part *part, ErrText *err) {
    const size_t n = part->first ? layer_prefix(part->first) : 0;

    if (!part->first)
        return err_set(err, PACKAGE_CHECKSUM_E_DAMAGED,
                       "%.*s is damaged: its head is not as it was written; import the model again",
                       UTF8_PREFIX(self->name, 512));
    if (n)
        return err_set(err, PACKAGE_CHECKSUM_E_DAMAGED,
                       "%.*s is damaged: layer %.*s is not as it was written; import the model again",
                       UTF8_PREFIX(self->name, 512), (int)(n - 5), part->first + 4);
    return err_set(err, PACKAGE_CHECKSUM_E_DAMAGED,
                   "%.*s is damaged: what begins with %s is not as it was written; import the model again",
                   UTF8_PREFIX(self->name, 512), part->first);
}

int package_checksum_verify(int fd, const char *name, PackageChecksumFn *fn, void *arg, ErrText *err) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    Checksums self = { .fd = fd, .name = name };
    _cleanup_(freep) uint8_t *block = NULL;
    uint8_t digest[SHA256_DIGEST_SIZE];
    size_t n = 0;
    Part part;
    int r;

    r = open_parts(&self, &file, err);
    block = self.block;
    while (!r && next_part(&self, &part)) {
        if (fn)
            fn(arg, part.begin, gguf_len_bytes(file));
        r = hash(&self, &part, digest, err);
        if (!r && memcmp(digest, self.digests->data + n++ * SHA256_DIGEST_SIZE, sizeof(digest)))
            r = damaged(&self, &part, err);
    }
    if (!r && fn)
        fn(arg, gguf_len_bytes(file), gguf_len_bytes(file));
    return r;
}
