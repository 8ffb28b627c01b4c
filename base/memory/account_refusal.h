// SPDX-License-Identifier: Apache-2.0
/* Explains why memory was refused: which limit is reached, and what to change. Who holds the memory is told to
 * administrators only. */
#ifndef COORDGEN_BASE_ACCOUNT_REFUSAL_H
#define COORDGEN_BASE_ACCOUNT_REFUSAL_H

#include "base/err.h"
#include "base/memory/account.h"

/* Sets the text "no memory for WHAT (224.3 MiB): LIMIT (400.0 MiB) is reached", and err->limit. r: the result of
 * account_charge() or accounted_block_init(). table may be NULL if r is negative. Returns r if it is negative, else
 * code. */
int account_refused(ErrText *err, int code, int r, const AccountTable *table, AccountId id, uint64_t len_bytes,
                    const char *format, ...) __attribute__((format(printf, 7, 8)));
/* Adds to the text of an -ENOMEM which limit of the system is reached. Returns -ENOMEM. */
int account_refused_by_system(ErrText *err);
/* Writes the accounts that hold most, the largest first: "weights 1.2 GiB, kv 300.0 MiB of 2.0 GiB". */
void account_holders(const AccountTable *table, char *text, size_t room_bytes);

#endif
