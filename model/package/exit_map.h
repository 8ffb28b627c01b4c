// SPDX-License-Identifier: Apache-2.0
/* An early-exit predictor of a package, in a file of its own beside it: a map that takes the hidden state behind a
 * middle layer to one like the last layer's, from which the model's own head tells shares of candidates.
 *
 * The file is PACKAGE.exit, little-endian: a head of EXIT_MAP_HEAD_BYTES (magic, version, sizes, how the predictor is
 * used, what it was measured to be worth, the package it belongs to), f32[n_embd] bias, f16[n_embd][n_embd] map, output
 * by output, and the SHA-256 of all before it as 64 hex digits. */
#ifndef COORDGEN_MODEL_EXIT_MAP_H
#define COORDGEN_MODEL_EXIT_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/files/file_io.h"
#include "base/memory/account.h"

enum {
    EXIT_MAP_E_NONE = 1,    /* there is no such file */
    EXIT_MAP_E_DAMAGED = 2, /* not such a file, cut short, or its checksum is wrong; the text says which */
    EXIT_MAP_E_FOREIGN = 3, /* of another package or version */
    EXIT_MAP_E_MEMORY = 4,  /* the weights account's limit */
};

#define EXIT_MAP_SUFFIX ".exit"
#define EXIT_MAP_HEAD_BYTES 256
#define EXIT_MAP_EMBD_MAX 16384

/* Measured on text that was held out: shares of all edges that must be kept to keep 95 % and 98 % of the true ones, by
 * the draft's share q, the head on the hidden state as it is (lens), on the mapped one, and by q and map together. */
typedef enum ExitQuality {
    EXIT_KEPT_95_Q,
    EXIT_KEPT_98_Q,
    EXIT_KEPT_95_LENS,
    EXIT_KEPT_98_LENS,
    EXIT_KEPT_95_MAP,
    EXIT_KEPT_98_MAP,
    EXIT_KEPT_95_MIXTURE,
    EXIT_KEPT_98_MIXTURE,
    EXIT_N_EDGES,            /* that this was measured on */
    EXIT_ROWS_SPECINFER,     /* of whole trees as these policies grow them: the share of the rows that went on, */
    EXIT_ACCEPTED_SPECINFER, /* and that of the drafts that stayed of those that were right; 0: not tried */
    EXIT_ROWS_OPT_TREE,
    EXIT_ACCEPTED_OPT_TREE,
    _EXIT_QUALITY_N,
} ExitQuality;

/* Whom a map belongs to. */
typedef struct ExitMapModel {
    const char *package_sha256; /* EngineInfo has it */
    uint32_t n_embd, n_layers;
} ExitMapModel;

/* Embedded. */
typedef struct ExitMap {
    uint32_t n_embd, n_layers;
    uint32_t layer;               /* the state behind the first so many layers */
    float tau;                    /* logits of candidates are divided by it */
    float by_q, by_share, offset; /* of the mixture with the draft's share (spec/tree/tree_pruning.h) */
    float quality[_EXIT_QUALITY_N];
    char package_sha256[SHA256_HEX_BYTES];
    const float *bias;   /* [n_embd], within `block` */
    const uint16_t *map; /* f16[n_embd][n_embd], likewise; its rows are outputs */
    AccountedBlock block;
} ExitMap;

/* Reads and checks all of it, for this model. 0, EXIT_MAP_E_*, -errno, with a text that names the file. */
int exit_map_read(ExitMap *map, AccountTable *accounts, const char *path, const ExitMapModel *model, ErrText *err);
void exit_map_deinit(ExitMap *map); /* of a zero one does nothing */
/* The file appears whole or not at all. 0, -errno. */
int exit_map_write(const ExitMap *map, const char *path, ErrText *err);

#endif
