// SPDX-License-Identifier: Apache-2.0
/* A file of layers and slots for them, and a hook where the extent reader takes in the result of a read: there reads
 * fail, stop, and are noted. For programs that are linked with --wrap=extent_finish_piece. */
#ifndef COORDGEN_TEST_UNIT_LAYER_FIXTURE_H
#define COORDGEN_TEST_UNIT_LAYER_FIXTURE_H

#include "weights/ring/layer_reader.h"

#define NOT_SOON UINT64_C(3600000000000) /* longer than any test */

enum {
    PIECE_BYTES = 2 << 20, /* layer_reader.c */
    N_LAYERS = 12,
    SLOT_BYTES = (5 << 20) + 8192
};

typedef struct LayerFixture {
    char folder[256];
    char path[300];
    uint8_t *bytes;
    size_t len_bytes;
    int fd;
    LayerExtent layers[N_LAYERS]; /* 64 bytes to 5 MiB, apart from each other, and aligned to 64 only */
    uint8_t *slots;               /* [LAYER_SLOTS_MAX][SLOT_BYTES] */
} LayerFixture;

extern LayerFixture layer_fixture;
extern const ExtentWay layer_ways[2];

/* Setup and teardown of the group, and teardown of each test: no faults, and the gate is open. */
int layer_fixture_setup(void **state);
int layer_fixture_teardown(void **state);
int layer_fixture_reset(void **state);

LayerReaderOptions layer_fixture_options(ExtentWay way, size_t n_layers, size_t n_slots);
/* Makes a reader. NULL, with a message: this way cannot be had here. */
LayerReader *layer_fixture_open(const LayerReaderOptions *options);
/* Asserts that data is the whole layer. */
void layer_fixture_check(size_t index, const uint8_t *data);
/* Holds a layer, waiting until it is there: 0, or the error. */
int layer_fixture_hold(LayerReader *reader, size_t index, const uint8_t **datap, ErrText *err);
/* Holds a layer, waiting until it is there, and checks its bytes. */
const uint8_t *layer_fixture_hold_whole(LayerReader *reader, size_t index);
size_t layer_fixture_pieces(size_t index);

typedef enum LayerFault {
    FAULT_NONE,
    FAULT_SHORT_READ, /* the read brings less than it should; the rest can be read */
    FAULT_SHORT_FILE,
    FAULT_EIO,
    N_FAULTS
} LayerFault;

void layer_faults_reset(void);
/* Gives one read in so many a fault; 0: none. */
void layer_faults_one_in(unsigned int n);
/* Lets reads that begin in this range fail with EIO. */
void layer_faults_between(uint64_t from, uint64_t to);
/* Returns the number of reads that had this fault, since the last reset. */
size_t layer_faults_seen(LayerFault fault);
/* The gate: reads that begin from there on in the file do not end. UINT64_MAX: all may pass. */
void layer_gate_stop_from(uint64_t offset_bytes);
/* Waits until a read has come to the gate. */
void layer_gate_wait(void);

#endif
