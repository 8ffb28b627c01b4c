// SPDX-License-Identifier: Apache-2.0
/* A run of the npu device within a memory budget: what each account had at most, and the process. */
#ifndef COORDGEN_BENCH_MOBILE_MEMORY_H
#define COORDGEN_BENCH_MOBILE_MEMORY_H

#include "base/memory/account.h"
#include "tools/bench/report.h"

/* Memory that no account has, beside what the process began with: small allocations of its own and of libraries,
 * stacks, pages of mapped files. */
#define MOBILE_MEMORY_REST ((uint64_t)24 << 20)

typedef struct MobileMemory {
    uint64_t budget_bytes;
    uint64_t base_bytes;                 /* the process before the model */
    uint64_t accounts_bytes;             /* what is left for the accounts together */
    uint64_t peak_bytes[_ACCOUNT_N];     /* of each, at different times */
    uint64_t process_bytes;              /* the process at most (VmHWM); 0: the system does not say */
    size_t prompt_tokens, output_tokens; /* of the longest request */
    size_t n_requests;
    double prefill_ms, decode_ms; /* of that one */
} MobileMemory;

/* What a budget must be for these peaks, at different times or not. */
uint64_t mobile_memory_needed(uint64_t base_bytes, const AccountTable *accounts);

extern const BenchFindings mobile_memory_findings; /* whose struct a MobileMemory is */

#endif
