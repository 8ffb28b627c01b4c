// SPDX-License-Identifier: Apache-2.0
/* Runs the suite (test/device/device_suite.h) on all devices. These are the reference device, the cpu device with every
 * instruction set of the machine (all with the same bits), the npu device, and the toys. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/packed/packed_kernels.h"
#include "backends/cpu/rows/row_ops.h"
#include "base/system/cpu.h"
#include "engine/engine.h"
#include "test/device/allocation_wrap.h"
#include "test/device/toy_device.h"
#include "test/device/toy_graphs.h"
#include "test/device/toy_npu.h"
#include "test/unit/fixtures/patience.h"

static DeviceUnderTest reference_device(uint32_t cpu, const char *name) {
    return (DeviceUnderTest){ .name = name,
                              .device = *engine_device(ENGINE_DEVICE_REFERENCE),
                              .cpu = cpu,
                              .takes = DEVICE_TAKES_SOURCE,
                              .product_error = 2e-6,
                              .row_error = 1e-6,
                              .attention_error = 1e-5,
                              .keeps_source = true };
}

static DeviceUnderTest cpu_device(uint32_t cpu, const char *name) {
    return (DeviceUnderTest){ .name = name,
                              .device = *engine_device(ENGINE_DEVICE_CPU),
                              .cpu = cpu,
                              .takes = DEVICE_TAKES_PACKAGES,
                              .is_int8 = true,
                              .row_error = 1e-6,
                              .attention_error = 0.03,
                              .is_balanced = true };
}

static DeviceUnderTest npu_device(uint32_t cpu, const char *name) {
    DeviceUnderTest dut = cpu_device(cpu, name);

    dut.device = *engine_device(ENGINE_DEVICE_NPU);
    return dut;
}

static int n_failed;

/* Returns the digest of all results. */
static uint64_t run(const DeviceUnderTest *dut, DeviceScope scope) {
    DeviceSuite suite = { .dut = dut };

    n_failed += device_suite_run(&suite, scope);
    return suite.digest;
}

static void same_digest(const char *name, uint64_t actual, uint64_t expected) {
    if (actual == expected)
        return;
    n_failed++;
    fprintf(stderr, "%s gives other bits than the same device with other instructions\n", name);
}

static void run_levels(DeviceUnderTest (*device)(uint32_t cpu, const char *name), const char *prefix) {
    uint64_t expected = 0;

    for (Isa isa = ISA_SCALAR; isa < _ISA_N; isa++) {
        char name[40];
        DeviceUnderTest dut;
        uint64_t digest;

        if (!patience_takes_isa(isa))
            continue;
        snprintf(name, sizeof(name), "%s-%s", prefix, isa_name(isa));
        dut = device(isa_features(isa), name);
        digest = run(&dut, DEVICE_SCOPE_ALL);
        expected = expected ? expected : digest;
        same_digest(name, digest, expected);
    }
}

/* The npu device has the cpu device's kernels and operators; only the use of matrices is its own. */
static void run_npu(void) {
    const DeviceUnderTest scalar = npu_device(isa_features(ISA_SCALAR), "npu-scalar"),
                          best = npu_device(cpu_features(), "npu");

    if (patience_is_short())
        run(&best, DEVICE_SCOPE_WEIGHTS);
    else
        same_digest("npu", run(&best, DEVICE_SCOPE_ALL), run(&scalar, DEVICE_SCOPE_ALL));
}

enum {
    KINDS = 5, /* kinds of kernels */
};

/* Lists the kernels that the cpu device takes with these features. */
static void kernels_of(uint32_t features, const void *kernels[KINDS]) {
    const PackedKernels packed = packed_kernels_select(features);

    kernels[0] = row_ops_select(features);
    kernels[1] = packed.few;
    kernels[2] = packed.unpack;
    kernels[3] = packed.product;
    kernels[4] = attention_select(features);
}

static bool is_new(const void *kernels[KINDS], const uint32_t *runs, size_t n_runs) {
    for (size_t i = 0; i < n_runs; i++) {
        const void *others[KINDS];

        kernels_of(runs[i], others);
        if (!memcmp(others, kernels, sizeof(others)))
            return false;
    }
    return true;
}

/* Kernels are chosen by single features, too: every subset of a machine's features gives the same bits. Runs the
 * subsets that choose kernels of no level, besides the scalar ones. */
static void run_subsets(void) {
    const uint32_t all = cpu_features();
    uint32_t runs[CPU_ALL + 1] = { isa_features(ISA_SCALAR) };
    uint64_t expected = 0;
    size_t n_levels = 1, n_runs;

    for (Isa isa = ISA_SCALAR; isa < _ISA_N; isa++)
        if (isa_present(isa))
            runs[n_levels++] = isa_features(isa) & all;
    n_runs = n_levels;
    for (uint32_t sub = 0;; sub = (sub - all) & all) {
        const void *kernels[KINDS];
        DeviceUnderTest dut;
        char name[40];
        uint64_t digest;

        kernels_of(sub, kernels);
        if (!sub || is_new(kernels, runs, n_runs)) {
            snprintf(name, sizeof(name), "cpu-0x%x", sub);
            dut = cpu_device(sub, name);
            digest = run(&dut, DEVICE_SCOPE_WEIGHTS);
            expected = sub ? expected : digest;
            same_digest(name, digest, expected);
            runs[n_runs++] = sub;
        }
        if (sub == all)
            break;
    }
}

int main(void) {
    const DeviceScope other_toys = patience_is_short() ? DEVICE_SCOPE_WEIGHTS : DEVICE_SCOPE_ALL;

    run(&toy_device, DEVICE_SCOPE_ALL);
    run(&toy_npu_device, other_toys);
    run(&toy_graphs_device, other_toys);
    run_levels(reference_device, "reference");
    run_levels(cpu_device, "cpu");
    run_npu();
    if (!patience_is_short())
        run_subsets();
    return n_failed ? 1 : 0;
}
