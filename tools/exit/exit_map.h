// SPDX-License-Identifier: Apache-2.0
/* An early-exit predictor of a package, in a file beside it. Its map turns the hidden state behind a middle layer into
 * one like the last layer's, from which the model's own head computes shares of candidates.
 *
 * The file is PACKAGE.exit, little-endian:
 *   head[EXIT_MAP_HEAD_BYTES]  magic, version, sizes, use of the predictor, its measured worth, its package
 *   bias   f32[n_embd]
 *   map    f16[n_embd][n_embd], output by output
 *   SHA-256 of all bytes before it, 64 hex digits */
#ifndef COORDGEN_EXIT_MAP_H
#define COORDGEN_EXIT_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/files/file_io.h"
#include "base/memory/account.h"

enum {
    EXIT_MAP_E_NONE = 1,    /* no such file */
    EXIT_MAP_E_DAMAGED = 2, /* another kind of file, cut short, or with a wrong checksum; the text tells which */
    EXIT_MAP_E_FOREIGN = 3, /* the file belongs to another package or version */
    EXIT_MAP_E_MEMORY = 4,  /* the limit of the weights account is reached */
};

#define EXIT_MAP_SUFFIX ".exit"
#define EXIT_MAP_HEAD_BYTES 256
#define EXIT_MAP_EMBD_MAX 16384

/* Measurements on held-out text: the share of all edges to keep in order to keep 95 % and 98 % of the true ones. Edges
 * are ranked by the draft's share q, by the head on the raw hidden state (lens), by the head on the mapped state, and
 * by q and map together. */
typedef enum ExitQuality {
    EXIT_KEPT_95_Q,
    EXIT_KEPT_98_Q,
    EXIT_KEPT_95_LENS,
    EXIT_KEPT_98_LENS,
    EXIT_KEPT_95_MAP,
    EXIT_KEPT_98_MAP,
    EXIT_KEPT_95_MIXTURE,
    EXIT_KEPT_98_MIXTURE,
    EXIT_N_EDGES,            /* number of edges that were measured */
    EXIT_ROWS_SPECINFER,     /* whole trees as these policies grow them: the share of rows that went on, */
    EXIT_ACCEPTED_SPECINFER, /* and the share of right drafts that stayed; 0: not measured */
    EXIT_ROWS_OPT_TREE,
    EXIT_ACCEPTED_OPT_TREE,
    _EXIT_QUALITY_N,
} ExitQuality;

/* The package that a map belongs to. */
typedef struct ExitMapModel {
    const char *package_sha256; /* as in EngineInfo */
    uint32_t n_embd, n_layers;
} ExitMapModel;

/* Embedded. */
typedef struct ExitMap {
    uint32_t n_embd, n_layers;
    uint32_t layer;               /* number of layers before the mapped hidden state */
    float tau;                    /* divisor of the candidates' logits */
    float by_q, by_share, offset; /* weight of the mixture with the draft's share (tree_pruning.h) */
    float quality[_EXIT_QUALITY_N];
    char package_sha256[SHA256_HEX_BYTES];
    const float *bias;   /* [n_embd], within `block` */
    const uint16_t *map; /* f16[n_embd][n_embd], within `block`; rows are outputs */
    AccountedBlock block;
} ExitMap;

/* Reads and checks the whole file, for this model. 0, EXIT_MAP_E_*, -errno, with a text that names the file. */
int exit_map_read(ExitMap *map, AccountTable *accounts, const char *path, const ExitMapModel *model, ErrText *err);
void exit_map_deinit(ExitMap *map); /* does nothing to a zero struct */
/* Writes the file, which appears whole or not at all. 0, -errno. */
int exit_map_write(const ExitMap *map, const char *path, ErrText *err);

#endif
