// SPDX-License-Identifier: Apache-2.0
/* What every device must keep (backends/backend.h), as tests that know no device: docs/porting.md says how to run them
 * on a new one. Results are compared with plain loops in double written here, and a device with itself: row by row, in
 * any company, on any number of threads, however its weights came. */
#ifndef COORDGEN_TEST_DEVICE_DEVICE_SUITE_H
#define COORDGEN_TEST_DEVICE_DEVICE_SUITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/backend.h"

/* Forms of weights; a device refuses those that it does not take. */
enum {
    DEVICE_TAKES_SOURCE = 1 << 0,  /* float types and blocks of a source GGUF */
    DEVICE_TAKES_INT8 = 1 << 1,    /* int8 rows with scales */
    DEVICE_TAKES_PACKED = 1 << 2,  /* quant/format/pack.h */
    DEVICE_TAKES_ROTATED = 1 << 3, /* int8 or packed whose inputs are rotated */
    DEVICE_TAKES_STATIC = 1 << 4,  /* static-tensor activations, clipped */
    DEVICE_TAKES_SHADOW = 1 << 5,  /* and with shadow outliers */
    /* All that a package may hold. */
    DEVICE_TAKES_PACKAGES =
        DEVICE_TAKES_INT8 | DEVICE_TAKES_PACKED | DEVICE_TAKES_ROTATED | DEVICE_TAKES_STATIC | DEVICE_TAKES_SHADOW,
};

/* A device and what it promises. */
typedef struct DeviceUnderTest {
    const char *name; /* of the tests: "cpu-avx2" */
    BackendDevice device;
    uint32_t cpu;   /* CPU_* bits that it may use */
    uint32_t takes; /* DEVICE_TAKES_* */
    /* Products: of rows that are int8 first, as backend.h says it, with an exact sum; else of float rows. How far a
     * value may be from the sum in double, as a part of the sum of all |addends|; 0, with int8: not even a bit from
     * float(sum) * (row scale * output scale) + bias. */
    bool is_int8;
    double product_error;
    double row_error;       /* norm, rope, gated, add, embed: as a part of what goes into a value */
    double attention_error; /* as a part of the greatest |value| that a row reads, beside the rounding to the KV type */
    bool keeps_source;      /* it goes on reading the source's data, and charges nothing for it */
} DeviceUnderTest;

/* One run of checks. */
typedef struct DeviceSuite {
    const DeviceUnderTest *dut;
    uint64_t random; /* begins anew with every check */
    uint64_t digest; /* of all results: two devices of the same bits have the same */
} DeviceSuite;

typedef struct DeviceCheck {
    const char *name;            /* "products" */
    void (*check)(void **state); /* cmocka; *state: the DeviceSuite */
    bool is_of_weights;          /* what differs between product kernels: of these a device may have many */
} DeviceCheck;

extern const DeviceCheck device_checks[];
extern const size_t device_checks_n;

enum {
    DEVICE_CHECKS_MAX = 40
};

/* Runs all checks, or those of weights, or the one of that name, as one group of cmocka. How many have failed. */
typedef enum DeviceScope {
    DEVICE_SCOPE_ALL,
    DEVICE_SCOPE_WEIGHTS,
} DeviceScope;
int device_suite_run(DeviceSuite *suite, DeviceScope scope);
int device_suite_run_one(DeviceSuite *suite, const char *name);

/* The checks. */
#define DEVICE_CHECK(name, is_of_weights) void test_device_##name(void **state);
#include "test/device/device_checks.inc"
#undef DEVICE_CHECK

#endif
