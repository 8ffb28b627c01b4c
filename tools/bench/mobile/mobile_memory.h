// SPDX-License-Identifier: Apache-2.0
/* A run of the npu device within a memory budget: the peak of each account and of the process. */
#ifndef COORDGEN_BENCH_MOBILE_MEMORY_H
#define COORDGEN_BENCH_MOBILE_MEMORY_H

#include "base/memory/account.h"
#include "tools/bench/report.h"

/* Memory without an account, beyond what the process began with: small allocations, libraries, stacks, pages of mapped
 * files. */
#define MOBILE_MEMORY_REST ((uint64_t)24 << 20)

typedef struct MobileMemory {
    uint64_t budget_bytes;
    uint64_t base_bytes;                 /* resident bytes of the process before the model was loaded */
    uint64_t accounts_bytes;             /* limit of all accounts together */
    uint64_t peak_bytes[_ACCOUNT_N];     /* peak of each account, reached at different times */
    uint64_t process_bytes;              /* peak of the process (VmHWM); 0: unknown */
    size_t prompt_tokens, output_tokens; /* tokens of the longest request */
    size_t n_requests;
    double prefill_ms, decode_ms;
} MobileMemory;

/* Returns the budget that suffices for these peaks even if they coincide. */
uint64_t mobile_memory_needed(uint64_t base_bytes, const AccountTable *accounts);

extern const BenchFindings mobile_memory_findings; /* findings are a MobileMemory */

#endif
