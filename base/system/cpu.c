// SPDX-License-Identifier: Apache-2.0
#include "base/system/cpu.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/cleanup.h"

static const struct {
    uint32_t features;
    uint32_t welcome; /* used where the machine has them, too */
} isa_table[_ISA_N] = {
    [ISA_SCALAR] = { 0, 0 },
    [ISA_AVX2] = { CPU_AVX2, 0 },
    [ISA_AVX512VNNI] = { CPU_AVX2 | CPU_AVX512 | CPU_AVX512VNNI, CPU_AVX512VBMI },
    [ISA_AMX] = { CPU_AVX2 | CPU_AVX512 | CPU_AVX512VNNI | CPU_AMX_INT8, CPU_AVX512VBMI },
    [ISA_NEON] = { CPU_NEON, 0 },
    [ISA_NEONDOT] = { CPU_NEON | CPU_NEONDOT, 0 },
    [ISA_I8MM] = { CPU_NEON | CPU_NEONDOT | CPU_I8MM, 0 },
};

const Choice isa_choices[] = {
    { "best", ISA_BEST }, { "scalar", ISA_SCALAR }, { "avx2", ISA_AVX2 },       { "avx512vnni", ISA_AVX512VNNI },
    { "amx", ISA_AMX },   { "neon", ISA_NEON },     { "neondot", ISA_NEONDOT }, { "i8mm", ISA_I8MM },
    { NULL, 0 },
};

static uint32_t features_found, features_limit = UINT32_MAX;
static pthread_once_t features_once = PTHREAD_ONCE_INIT;

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Asks for AMX tile data, which is off until a process asks (Linux 5.16, arch_prctl ARCH_REQ_XCOMP_PERM, XTILEDATA). */
static bool amx_permitted(void) {
    static const long arch_req_xcomp_perm = 0x1023, xfeature_xtiledata = 18;

    return syscall(SYS_arch_prctl, arch_req_xcomp_perm, xfeature_xtiledata) == 0;
}

static void features_read(void) {
    unsigned int a, b, c, d, xcr0_low, xcr0_high;
    bool ymm, zmm, tiles;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return;
    __asm__("xgetbv" : "=a"(xcr0_low), "=d"(xcr0_high) : "c"(0));
    ymm = (xcr0_low & 0x6) == 0x6;
    zmm = ymm && (xcr0_low & 0xe0) == 0xe0;
    tiles = (xcr0_low & 0x60000) == 0x60000;
    if (!ymm || !(c & bit_FMA) || !(c & bit_F16C) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2))
        return;
    features_found |= CPU_AVX2;
    if (!zmm || !(b & bit_AVX512F) || !(b & bit_AVX512BW) || !(b & bit_AVX512DQ) || !(b & bit_AVX512VL))
        return;
    features_found |= CPU_AVX512;
    if (c & bit_AVX512VNNI)
        features_found |= CPU_AVX512VNNI;
    if (c & bit_AVX512VBMI)
        features_found |= CPU_AVX512VBMI;
    if (tiles && (d & (1u << 24)) && (d & (1u << 25)) && amx_permitted())
        features_found |= CPU_AMX_INT8;
}
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

static void features_read(void) {
    const unsigned long hwcap = getauxval(AT_HWCAP), hwcap2 = getauxval(AT_HWCAP2);

    if (!(hwcap & HWCAP_ASIMD))
        return;
    features_found |= CPU_NEON;
    if (!(hwcap & HWCAP_ASIMDDP))
        return;
    features_found |= CPU_NEONDOT;
    if (hwcap2 & HWCAP2_I8MM)
        features_found |= CPU_I8MM;
}
#else
static void features_read(void) {
}
#endif

uint32_t cpu_features(void) {
    pthread_once(&features_once, features_read);
    return features_found & features_limit;
}

void cpu_features_limit(uint32_t features) {
    features_limit = features;
}

const char *isa_name(Isa isa) {
    return choice_name(isa_choices, isa);
}

int isa_parse(const char *name, Isa *isap, ErrText *err) {
    char names[128];

    if (choice_set(isa_choices, name, isap))
        return 0;
    choice_list(isa_choices, " or ", names, sizeof(names));
    return err_set(err, -EINVAL, "unknown instruction set '%.32s': use %s", name, names);
}

uint32_t isa_features(Isa isa) {
    return isa < _ISA_N ? isa_table[isa].features | (isa_table[isa].welcome & cpu_features()) : cpu_features();
}

bool isa_present(Isa isa) {
    return !(isa_features(isa) & ~cpu_features());
}

int isa_select(Isa isa, uint32_t *featuresp, ErrText *err) {
    if (!isa_present(isa))
        return err_set(err, -ENOTSUP, "this machine has no %s instructions: use --isa=best", isa_name(isa));
    *featuresp = isa_features(isa);
    return 0;
}
