// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/machine.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/min_max.h"
#include "base/system/cpu.h"

uint64_t machine_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void *machine_alloc(size_t bytes) {
    const size_t huge = (size_t)2 << 20, alignment = bytes < huge ? 64 : huge;
    void *p = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);

    if (!p) {
        fprintf(stderr, "bench: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    if (bytes >= huge)
        madvise(p, bytes, MADV_HUGEPAGE); /* reading 4 KiB pages is slower by a third here */
    return p;
}

#if defined(__x86_64__)
/* Wide loads keep more lines of memory under way than the portable loop. */
static void read_avx2(const uint8_t *buffer, size_t bytes) {
    for (size_t i = 0; i + 256 <= bytes; i += 256)
        __asm__ volatile("vmovups (%0), %%ymm0\n\tvmovups 32(%0), %%ymm1\n\tvmovups 64(%0), %%ymm2\n\t"
                         "vmovups 96(%0), %%ymm3\n\tvmovups 128(%0), %%ymm0\n\tvmovups 160(%0), %%ymm1\n\t"
                         "vmovups 192(%0), %%ymm2\n\tvmovups 224(%0), %%ymm3"
                         :
                         : "r"(buffer + i)
                         : "memory", "xmm0", "xmm1", "xmm2", "xmm3");
}
#else
static void read_avx2(const uint8_t *buffer, size_t bytes) {
}
#endif

static void read_words(const uint8_t *buffer, size_t bytes) {
    uint64_t sums[8] = { 0 };
    uint64_t sum = 0;

    for (size_t i = 0; i + 64 <= bytes; i += 64)
        for (size_t lane = 0; lane < 8; lane++) {
            uint64_t word;

            memcpy(&word, buffer + i + 8 * lane, sizeof(word));
            sums[lane] += word;
        }
    for (size_t lane = 0; lane < 8; lane++)
        sum += sums[lane];
    __asm__ volatile("" : : "r"(sum)); /* or nothing of it is wanted */
}

uint64_t machine_read(const void *buffer, size_t bytes) {
    uint64_t start = machine_ns();

    if (cpu_features() & CPU_AVX2)
        read_avx2(buffer, bytes);
    else
        read_words(buffer, bytes);
    return machine_ns() - start;
}

size_t machine_cache_bytes(void) {
    size_t largest = 0;

    for (int index = 0; index < 8; index++) {
        char path[80];
        unsigned long kib;
        _cleanup_(fclosep) FILE *file = NULL;

        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
        file = fopen(path, "re");
        if (file && fgets(path, sizeof(path), file)) {
            kib = strtoul(path, NULL, 10);
            largest = MAX(kib * 1024, largest);
        }
    }
    return largest;
}

void machine_name(char *name, size_t name_size) {
    _cleanup_(fclosep) FILE *file = fopen("/proc/cpuinfo", "re");
    char line[1024], model[128] = "";
    struct utsname system;
    Isa best = ISA_SCALAR;

    while (!*model && file && fgets(line, sizeof(line), file)) {
        const char *value = strchr(line, ':');

        if (value && !strncmp(line, "model name", 10))
            snprintf(model, sizeof(model), "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
    }
    if (!*model)
        snprintf(model, sizeof(model), "%s", uname(&system) ? "unknown processor" : system.machine);
    for (Isa isa = ISA_SCALAR; isa < _ISA_N; isa++)
        if (isa_present(isa))
            best = isa;
    snprintf(name, name_size, "%s, %s", model, isa_name(best));
}

static int double_compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double machine_median(double *values, size_t n) {
    qsort(values, n, sizeof(*values), double_compare);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

long machine_number(const char *text, long least, long most) {
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    return errno || end == text || *end || value < least || value > most ? -1 : value;
}
