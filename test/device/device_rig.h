// SPDX-License-Identifier: Apache-2.0
/* Helpers shared by the suite's checks: a device with its surroundings, arrays with guards, rows in any company. */
#ifndef COORDGEN_TEST_DEVICE_DEVICE_RIG_H
#define COORDGEN_TEST_DEVICE_DEVICE_RIG_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "test/device/device_suite.h"
#include "test/unit/fixtures/model_maker.h"

enum {
    RIG_ROWS = 33,    /* rows of a call at most, unless a check wants more */
    RIG_THREADS = 3,  /* threads of the device with several threads */
    RIG_WIDTH = 1024, /* inputs of a product at most */
};

/* A device with its own accounts and threads. */
typedef struct Rig {
    DeviceSuite *suite;
    AccountTable accounts;
    WorkerPool *pool;
    Backend *backend;
    const BackendOps *ops;
} Rig;

/* Opens a rig. shape NULL: room for RIG_ROWS rows of RIG_WIDTH and small heads. */
void rig_open(Rig *rig, DeviceSuite *suite, unsigned int n_threads, const BackendShape *shape);
/* Opens a rig without room for any call. */
void rig_open_bare(Rig *rig, DeviceSuite *suite, unsigned int n_threads);
/* Closes a rig and checks that nothing is left on any account. */
void rig_close(Rig *rig);
uint64_t rig_used_bytes(const Rig *rig, AccountId id);

size_t rig_draw(DeviceSuite *suite, size_t n);         /* below n */
void rig_fill(DeviceSuite *suite, float *x, size_t n); /* about normally distributed */
void rig_digest(DeviceSuite *suite, const void *data, size_t len_bytes);
bool rig_takes(const DeviceSuite *suite, uint32_t takes);

/* Allocates f32[n] with guards on both sides; aligned as a float only. */
float *guarded_new(size_t n);
float *guarded_copy(const float *x, size_t n);
/* Fails if something was written outside the array. */
void guarded_check(const float *x, const char *what);
void guarded_free(float *x);
static inline void guarded_freep(float **xp) {
    guarded_free(*xp);
}
#define GUARDED _cleanup_(guarded_freep) float *

/* An operator on rows. in[i]: rows of its inputs; out f32[rows][out_width]. */
typedef struct RowCase RowCase;
typedef void RowCaseFn(Rig *rig, const RowCase *c, float *const *in, size_t rows, float *out);
struct RowCase {
    const char *what;
    RowCaseFn *run;
    const void *arg;
    size_t rows, out_width, n_in;
    bool has_indices; /* its inputs are indices, not numbers */
    struct {
        const float *rows;
        size_t width;
    } in[3];
};

/* Runs rows index[n] of the case in one call; the caller frees the result. */
float *row_case_run(Rig *rig, const RowCase *c, const size_t *index, size_t n);
/* Runs all rows, on one thread and on several, then some of them row by row, in another order, and beside rows that are
 * not finite. The bits must always be equal. Returns them; the caller frees them. */
float *row_case_check(DeviceSuite *suite, const RowCase *c, Rig rigs[2]);
/* Opens two rigs, of one thread and of several. */
void rig_open_pair(Rig rigs[2], DeviceSuite *suite, const BackendShape *shape);
void rig_close_pair(Rig rigs[2]);

/* Checks |actual - exact| <= room, which fails for NaN. */
void rig_near(const RowCase *c, size_t row, size_t at, double actual, double exact, double room);

#endif
