// SPDX-License-Identifier: Apache-2.0
#include "tools/exit/exit_map.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/memory/account_refusal.h"

#define MAGIC "CGMEXIT"
#define VERSION 2
#define HEX_BYTES (SHA256_HEX_BYTES - 1)

static const float most = 100; /* limit of the mixture and tau, above the values of any training */

/* Head of the file. */
typedef struct Head {
    char magic[8];
    uint32_t version, n_embd, n_layers, layer;
    float by_q, by_share, offset, tau;
    float quality[22];
    char package_sha256[HEX_BYTES];
    uint8_t zeros[64];
} Head;

_Static_assert(sizeof(Head) == EXIT_MAP_HEAD_BYTES, "the head has no gaps");
_Static_assert(_EXIT_QUALITY_N <= 22, "there is room for all figures");

static size_t body_bytes(uint32_t n_embd) {
    return n_embd * sizeof(float) + (size_t)n_embd * n_embd * sizeof(uint16_t);
}

void exit_map_deinit(ExitMap *map) {
    accounted_block_deinit(&map->block);
    *map = (ExitMap){ 0 };
}

static int check_head(const Head *head, const char *path, const ExitMapModel *model, ErrText *err) {
    if (memcmp(head->magic, MAGIC, sizeof(head->magic)))
        return err_set(err, EXIT_MAP_E_DAMAGED, "%s is no early-exit predictor", path);
    if (head->version != VERSION)
        return err_set(err, EXIT_MAP_E_FOREIGN, "%s has version %u; this program reads %d: train it again", path,
                       head->version, VERSION);
    if (!head->n_embd || head->n_embd > EXIT_MAP_EMBD_MAX || !head->layer || head->layer >= head->n_layers)
        return err_set(err, EXIT_MAP_E_DAMAGED, "%s is damaged: layer %u of %u, %u values a row", path, head->layer,
                       head->n_layers, head->n_embd);
    if (!(head->by_q >= 0 && head->by_q <= most) || !(head->by_share >= 0 && head->by_share <= most) ||
        !(fabsf(head->offset) <= most) || !(head->tau > 0 && head->tau <= most))
        return err_set(err, EXIT_MAP_E_DAMAGED, "%s is damaged: its mixture or temperature is out of range", path);
    if (head->n_embd != model->n_embd || head->n_layers != model->n_layers ||
        strlen(model->package_sha256) != HEX_BYTES || memcmp(head->package_sha256, model->package_sha256, HEX_BYTES))
        return err_set(err, EXIT_MAP_E_FOREIGN, "%s belongs to another package: train it again", path);
    return 0;
}

static int check_body(const ExitMap *map, const char *path, ErrText *err) {
    for (size_t i = 0; i < map->n_embd; i++)
        if (!isfinite(map->bias[i]))
            return err_set(err, EXIT_MAP_E_DAMAGED, "%s is damaged: bias %zu is not finite", path, i);
    for (size_t i = 0; i < (size_t)map->n_embd * map->n_embd; i++)
        if ((map->map[i] & 0x7c00) == 0x7c00)
            return err_set(err, EXIT_MAP_E_DAMAGED, "%s is damaged: value %zu of its map is not finite", path, i);
    return 0;
}

static int read_body(ExitMap *map, int fd, const char *path, ErrText *err) {
    const size_t len_bytes = EXIT_MAP_HEAD_BYTES + body_bytes(map->n_embd);
    const uint8_t *data = map->block.data;
    char sha256[SHA256_HEX_BYTES];
    int r = file_read_exact(fd, map->block.data, len_bytes + HEX_BYTES, 0);

    if (r)
        return r == FILE_E_SHORT ? err_set(err, EXIT_MAP_E_DAMAGED, "%s was cut short", path)
                                 : err_set(err, r, "%s: %s", path, strerror(-r));
    sha256_hex(data, len_bytes, sha256);
    if (memcmp(sha256, data + len_bytes, HEX_BYTES))
        return err_set(err, EXIT_MAP_E_DAMAGED, "%s is damaged: its checksum is wrong", path);
    map->bias = (const float *)(data + EXIT_MAP_HEAD_BYTES);
    map->map = (const uint16_t *)(data + EXIT_MAP_HEAD_BYTES + map->n_embd * sizeof(float));
    return check_body(map, path, err);
}

static int read_all(ExitMap *map, AccountTable *accounts, int fd, const char *path, const ExitMapModel *model,
                    ErrText *err) {
    struct stat st;
    Head head;
    int r;

    if (fstat(fd, &st))
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode) || (size_t)st.st_size < sizeof(head))
        return err_set(err, EXIT_MAP_E_DAMAGED, "%s is no early-exit predictor", path);
    r = file_read_exact(fd, &head, sizeof(head), 0);
    if (r)
        return err_set(err, r < 0 ? r : EXIT_MAP_E_DAMAGED, "%s cannot be read", path);
    r = check_head(&head, path, model, err);
    if (r)
        return r;
    if ((uint64_t)st.st_size != EXIT_MAP_HEAD_BYTES + body_bytes(head.n_embd) + HEX_BYTES)
        return err_set(err, EXIT_MAP_E_DAMAGED, "%s is damaged: it has %lld bytes", path, (long long)st.st_size);
    map->n_embd = head.n_embd;
    map->n_layers = head.n_layers;
    map->layer = head.layer;
    map->by_q = head.by_q;
    map->by_share = head.by_share;
    map->offset = head.offset;
    map->tau = head.tau;
    memcpy(map->quality, head.quality, sizeof(map->quality));
    memcpy(map->package_sha256, head.package_sha256, HEX_BYTES);
    r = accounted_block_init(&map->block, accounts, ACCOUNT_WEIGHTS, (size_t)st.st_size);
    if (r)
        return account_refused(err, EXIT_MAP_E_MEMORY, r, accounts, ACCOUNT_WEIGHTS, (uint64_t)st.st_size, "%s", path);
    return read_body(map, fd, path, err);
}

int exit_map_read(ExitMap *map, AccountTable *accounts, const char *path, const ExitMapModel *model, ErrText *err) {
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int r;

    *map = (ExitMap){ 0 };
    if (fd < 0)
        return errno == ENOENT ? err_set(err, EXIT_MAP_E_NONE, "%s is not there", path)
                               : err_set(err, -errno, "%s: %s", path, strerror(errno));
    r = read_all(map, accounts, fd, path, model, err);
    if (r)
        exit_map_deinit(map);
    return r;
}

int exit_map_write(const ExitMap *map, const char *path, ErrText *err) {
    const size_t len_bytes = EXIT_MAP_HEAD_BYTES + body_bytes(map->n_embd);
    _cleanup_(atomic_file_freep) AtomicFile *file = NULL;
    _cleanup_(freep) uint8_t *data = calloc(1, len_bytes + SHA256_HEX_BYTES);
    Head head = {
        .magic = MAGIC,
        .version = VERSION,
        .n_embd = map->n_embd,
        .n_layers = map->n_layers,
        .layer = map->layer,
        .by_q = map->by_q,
        .by_share = map->by_share,
        .offset = map->offset,
        .tau = map->tau,
    };
    int r;

    if (!data)
        return err_no_memory(err);
    memcpy(head.quality, map->quality, sizeof(map->quality));
    memcpy(head.package_sha256, map->package_sha256, HEX_BYTES);
    memcpy(data, &head, sizeof(head));
    memcpy(data + EXIT_MAP_HEAD_BYTES, map->bias, map->n_embd * sizeof(float));
    memcpy(data + EXIT_MAP_HEAD_BYTES + map->n_embd * sizeof(float), map->map,
           (size_t)map->n_embd * map->n_embd * sizeof(uint16_t));
    sha256_hex(data, len_bytes, (char *)data + len_bytes);
    r = atomic_file_new(&file, path, err);
    if (r)
        return r;
    r = file_write_all(atomic_file_fd(file), data, len_bytes + HEX_BYTES);
    if (r)
        return err_set(err, r, "%s: %s", path, strerror(-r));
    return atomic_file_commit(file, err);
}
