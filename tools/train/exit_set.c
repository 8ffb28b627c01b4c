// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "tools/train/exit_set.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/f16.h"

#define MAGIC "CGXPART1"
#define HEAD_BYTES 256
#define HEX_BYTES (SHA256_HEX_BYTES - 1)

struct ExitSet {
    ExitSetShape shape;
    char *path;
    int fd;
    uint32_t n;
    size_t window_bytes;
    uint8_t *bytes; /* bytes of a window with its checksum */
};

typedef struct Head {
    char magic[8];
    ExitSetShape shape;
} Head;

_Static_assert(sizeof(Head) <= HEAD_BYTES, "the head has its place");

size_t exit_set_window_bytes(const ExitSetShape *shape) {
    return shape->window_tokens *
               (sizeof(ExitSample) + (size_t)(shape->n_layers + 1) * shape->n_embd * sizeof(uint16_t)) +
           HEX_BYTES;
}

int exit_window_init(ExitWindow *window, const ExitSetShape *shape) {
    const size_t n = (size_t)shape->window_tokens * shape->n_embd;
    bool ok;

    *window =
        (ExitWindow){ .samples = calloc(shape->window_tokens, sizeof(ExitSample)), .last = calloc(n, sizeof(float)) };
    ok = window->samples && window->last;
    for (uint32_t i = 0; i < shape->n_layers; i++) {
        window->states[i] = calloc(n, sizeof(float));
        ok = ok && window->states[i];
    }
    if (!ok)
        exit_window_deinit(window);
    return ok ? 0 : -ENOMEM;
}

void exit_window_deinit(ExitWindow *window) {
    free(window->samples);
    free(window->last);
    for (uint32_t i = 0; i < EXIT_LAYERS_MAX; i++)
        free(window->states[i]);
    *window = (ExitWindow){ 0 };
}

ExitSet *exit_set_free(ExitSet *set) {
    if (!set)
        return NULL;
    closep(&set->fd);
    free(set->path);
    free(set->bytes);
    free(set);
    return NULL;
}

static uint64_t offset_of(const ExitSet *set, uint32_t index) {
    return HEAD_BYTES + (uint64_t)index * set->window_bytes;
}

/* Reads a window and compares its checksum. Return: 0, FILE_E_SHORT, -errno. */
static int load(ExitSet *set, uint32_t index) {
    char sha256[SHA256_HEX_BYTES];
    int r = file_read_exact(set->fd, set->bytes, set->window_bytes, offset_of(set, index));

    if (r)
        return r;
    sha256_hex(set->bytes, set->window_bytes - HEX_BYTES, sha256);
    return memcmp(sha256, set->bytes + set->window_bytes - HEX_BYTES, HEX_BYTES) ? FILE_E_SHORT : 0;
}

static int begin(ExitSet *set, ErrText *err) {
    uint8_t bytes[HEAD_BYTES] = { 0 };
    Head head;
    int r = 0;

    memset(&head, 0, sizeof(head));
    memcpy(head.magic, MAGIC, sizeof(head.magic));
    head.shape = set->shape;
    memcpy(bytes, &head, sizeof(head));
    if (ftruncate(set->fd, 0))
        r = -errno;
    if (!r)
        r = file_write_at(set->fd, bytes, sizeof(bytes), 0);
    return r ? err_set(err, r, "%s: %s", set->path, strerror(-r)) : 0;
}

/* Keeps the whole windows of this set from the start of the file; drops the rest. */
static int take_up(ExitSet *set, ErrText *err) {
    Head head;

    if (file_read_exact(set->fd, &head, sizeof(head), 0) || memcmp(head.magic, MAGIC, sizeof(head.magic)) ||
        memcmp(&head.shape, &set->shape, sizeof(head.shape)))
        return begin(set, err);
    while (set->n < set->shape.n_windows && !load(set, set->n))
        set->n++;
    if (ftruncate(set->fd, (off_t)offset_of(set, set->n)))
        return err_set(err, -errno, "%s: %s", set->path, strerror(errno));
    return 0;
}

int exit_set_open(ExitSet **setp, const char *path, const ExitSetShape *shape, ErrText *err) {
    _cleanup_(exit_set_freep) ExitSet *set = calloc(1, sizeof(*set));
    int r;

    if (!set)
        return err_no_memory(err);
    set->fd = -1;
    set->shape = *shape;
    set->window_bytes = exit_set_window_bytes(shape);
    set->path = strdup(path);
    set->bytes = malloc(set->window_bytes);
    if (!set->path || !set->bytes)
        return err_no_memory(err);
    set->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (set->fd < 0)
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    r = take_up(set, err);
    if (r)
        return r;
    *setp = steal(&set);
    return 0;
}

const ExitSetShape *exit_set_shape(const ExitSet *set) {
    return &set->shape;
}

uint32_t exit_set_n(const ExitSet *set) {
    return set->n;
}

static uint8_t *put_states(uint8_t *at, const float *states, size_t n) {
    for (size_t i = 0; i < n; i++, at += sizeof(uint16_t)) {
        const uint16_t half = f32_to_f16(states[i]);

        memcpy(at, &half, sizeof(half));
    }
    return at;
}

static const uint8_t *get_states(const uint8_t *at, float *states, size_t n) {
    for (size_t i = 0; i < n; i++, at += sizeof(uint16_t)) {
        uint16_t half;

        memcpy(&half, at, sizeof(half));
        states[i] = f16_to_f32(half);
    }
    return at;
}

int exit_set_append(ExitSet *set, const ExitWindow *window, ErrText *err) {
    const size_t n = (size_t)set->shape.window_tokens * set->shape.n_embd;
    char sha256[SHA256_HEX_BYTES];
    uint8_t *at = set->bytes;
    int r;

    memcpy(at, window->samples, set->shape.window_tokens * sizeof(ExitSample));
    at += set->shape.window_tokens * sizeof(ExitSample);
    for (uint32_t i = 0; i < set->shape.n_layers; i++)
        at = put_states(at, window->states[i], n);
    at = put_states(at, window->last, n);
    sha256_hex(set->bytes, (size_t)(at - set->bytes), sha256);
    memcpy(at, sha256, HEX_BYTES);
    r = file_write_at(set->fd, set->bytes, set->window_bytes, offset_of(set, set->n));
    if (r)
        return err_set(err, r, "%s: %s", set->path, strerror(-r));
    set->n++;
    return 0;
}

int exit_set_read(ExitSet *set, uint32_t index, ExitWindow *window, ErrText *err) {
    const size_t n = (size_t)set->shape.window_tokens * set->shape.n_embd;
    const uint8_t *at = set->bytes;
    int r = load(set, index);

    if (r)
        return err_set(err, r < 0 ? r : -EIO, "%s: window %u cannot be read: remove the file and begin again",
                       set->path, index);
    memcpy(window->samples, at, set->shape.window_tokens * sizeof(ExitSample));
    at += set->shape.window_tokens * sizeof(ExitSample);
    for (uint32_t i = 0; i < set->shape.n_layers; i++)
        at = get_states(at, window->states[i], n);
    get_states(at, window->last, n);
    return 0;
}
