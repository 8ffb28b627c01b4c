// SPDX-License-Identifier: Apache-2.0
/* How much a test that repeats itself does. Under a sanitizer and under an emulator (COORDGEN_SMALL) all takes ten
 * times as long: there a test of whole steps runs with one instruction set, and kernels have tests of their own. */
#ifndef COORDGEN_TEST_UNIT_PATIENCE_H
#define COORDGEN_TEST_UNIT_PATIENCE_H

#include <stdbool.h>
#include <stdlib.h>

#include "base/system/cpu.h"

/* COORDGEN_LONG has patience with everything. */
static inline bool patience_is_long(void) {
    const char *is_long = getenv("COORDGEN_LONG");

    return is_long && *is_long;
}

static inline bool patience_is_short(void) {
    bool is_slow = getenv("COORDGEN_SMALL");

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    is_slow = true;
#endif
    return is_slow && !patience_is_long();
}

/* Of those that the machine has: all, or the best. */
static inline bool patience_takes_isa(Isa isa) {
    if (!isa_present(isa))
        return false;
    for (int better = (int)isa + 1; patience_is_short() && better < _ISA_N; better++)
        if (isa_present((Isa)better))
            return false;
    return true;
}

#endif
