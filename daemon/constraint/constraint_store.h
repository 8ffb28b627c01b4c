// SPDX-License-Identifier: Apache-2.0
/* The thread that compiles constraints, so that no schema delays the loop or the engine thread. Users take turns by
 * the time that their errands have taken. The thread starts with the first errand. */
#ifndef COORDGEN_DAEMON_CONSTRAINT_STORE_H
#define COORDGEN_DAEMON_CONSTRAINT_STORE_H

#include "daemon/constraint/constraint_errand.h"

typedef struct ConstraintStore ConstraintStore; /* functions without a mark: loop */

int constraint_store_new(ConstraintStore **storep, AccountTable *accounts); /* 0 or -errno */
/* Stops the thread after the errand at work. 0, or -ETIMEDOUT: it still runs. */
int constraint_store_stop(ConstraintStore *store, uint64_t timeout_ms);
ConstraintStore *constraint_store_free(ConstraintStore *store); /* after constraint_store_stop(); no errand is left */
DEFINE_CLEANUP(ConstraintStore, constraint_store_free)

/* Queues an errand, which must not move until it is taken back. 0, or -errno: the thread cannot be started. */
int constraint_store_submit(ConstraintStore *store, ConstraintErrand *errand);
/* Takes an errand back whose result nobody wants. false: the thread works on it, and it comes with the answers. */
bool constraint_store_withdraw(ConstraintStore *store, ConstraintErrand *errand);
/* The descriptor is readable when errands are done. */
int constraint_store_fd(const ConstraintStore *store);
/* Takes an errand back that is done; NULL: there is none. */
ConstraintErrand *constraint_store_take(ConstraintStore *store);
/* Drops the constraint that was kept longest without use, or all that no request has, because memory is short. false:
 * there was none. Any thread. */
bool constraint_store_drop_one(ConstraintStore *store);
bool constraint_store_drop(ConstraintStore *store);
/* Lets the thread drop what it keeps of models that were unloaded. */
void constraint_store_sweep(ConstraintStore *store);

#endif
