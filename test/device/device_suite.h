// SPDX-License-Identifier: Apache-2.0
/* Checks of every statement in backends/backend.h, independent of the device; docs/porting.md describes how to run them
 * on a new one. Results are compared with plain loops in double written here. A device is also compared with itself:
 * row by row, beside any other rows, on any number of threads, and for every way of loading weights. */
#ifndef COORDGEN_TEST_DEVICE_DEVICE_SUITE_H
#define COORDGEN_TEST_DEVICE_DEVICE_SUITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/backend.h"

/* Forms of weights; a device refuses the others. */
enum {
    DEVICE_TAKES_SOURCE = 1 << 0,  /* float types and blocks of a source GGUF */
    DEVICE_TAKES_INT8 = 1 << 1,    /* int8 rows with scales */
    DEVICE_TAKES_PACKED = 1 << 2,  /* quant/format/pack.h */
    DEVICE_TAKES_ROTATED = 1 << 3, /* int8 or packed, with rotated inputs */
    DEVICE_TAKES_STATIC = 1 << 4,  /* static-tensor activations, clipped */
    DEVICE_TAKES_SHADOW = 1 << 5,  /* static-tensor activations with shadow outliers */
    /* All forms that a package may hold. */
    DEVICE_TAKES_PACKAGES =
        DEVICE_TAKES_INT8 | DEVICE_TAKES_PACKED | DEVICE_TAKES_ROTATED | DEVICE_TAKES_STATIC | DEVICE_TAKES_SHADOW,
};

/* A device with its promises. */
typedef struct DeviceUnderTest {
    const char *name; /* name in tests: "cpu-avx2" */
    BackendDevice device;
    uint32_t cpu;   /* CPU_* bits that the device may use */
    uint32_t takes; /* DEVICE_TAKES_* */
    /* Products quantize rows to int8 first, as backend.h describes, with an exact sum; false: products of float rows.
     * product_error bounds the distance from the sum in double, relative to the sum of all |addends|. 0, with int8: the
     * bits must equal float(sum) * (row scale * output scale) + bias. */
    bool is_int8;
    double product_error;
    double row_error;       /* norm, rope, gated, add, embed: relative to the magnitude of a value's inputs */
    double attention_error; /* relative to the greatest |value| that a row reads; with the rounding to the KV type */
    bool is_balanced;       /* the KV type has few bits, so that attention uses the balance */
    bool keeps_source;      /* the device keeps reading the source's data, and charges nothing for it */
} DeviceUnderTest;

/* State of a run of checks. */
typedef struct DeviceSuite {
    const DeviceUnderTest *dut;
    uint64_t random; /* restarts with every check */
    uint64_t digest; /* digest of all results: devices with the same bits have the same */
} DeviceSuite;

typedef struct DeviceCheck {
    const char *name;            /* "products" */
    void (*check)(void **state); /* cmocka; *state: the DeviceSuite */
    bool is_of_weights;          /* the result depends on the product kernel, of which a device may have many */
} DeviceCheck;

extern const DeviceCheck device_checks[];
extern const size_t device_checks_n;

enum {
    DEVICE_CHECKS_MAX = 40
};

/* Runs all checks, or those of weights, or the named one, as one cmocka group. Returns the number of failures. */
typedef enum DeviceScope {
    DEVICE_SCOPE_ALL,
    DEVICE_SCOPE_WEIGHTS,
} DeviceScope;
int device_suite_run(DeviceSuite *suite, DeviceScope scope);
int device_suite_run_one(DeviceSuite *suite, const char *name);

/* Declarations of the checks. */
#define DEVICE_CHECK(name, is_of_weights) void test_device_##name(void **state);
#include "test/device/device_checks.inc"
#undef DEVICE_CHECK

#endif
