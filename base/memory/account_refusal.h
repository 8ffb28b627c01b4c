// SPDX-License-Identifier: Apache-2.0
/* Why there was no memory: which limit was met, what holds it, in words that name what to change. What is held is for
 * administrators; the rest anybody may read. */
#ifndef COORDGEN_BASE_ACCOUNT_REFUSAL_H
#define COORDGEN_BASE_ACCOUNT_REFUSAL_H

#include "base/err.h"
#include "base/memory/account.h"

/* The error of a charge, or of memory, that failed: "no memory for WHAT (224.3 MiB): LIMIT (400.0 MiB) is reached".
 * r is what account_charge() or accounted_block_init() returned; table may be NULL where r is negative. Returns r where
 * it is negative, else code. */
int account_refused(ErrText *err, int code, int r, const AccountTable *table, AccountId id, uint64_t len_bytes,
                    const char *format, ...) __attribute__((format(printf, 7, 8)));
/* Adds to an error of -ENOMEM which limit of the system was met. Returns -ENOMEM. */
int account_refused_by_system(ErrText *err);
/* "weights 1.2 GiB, kv 300.0 MiB of 2.0 GiB": the accounts that hold most, the largest first. */
void account_holders(const AccountTable *table, char *text, size_t room_bytes);

#endif
