// SPDX-License-Identifier: Apache-2.0
/* A schema, grammar or pattern to be compiled, with the result. An errand belongs to the loop, except while the
 * store's thread works on it. */
#ifndef COORDGEN_DAEMON_CONSTRAINT_ERRAND_H
#define COORDGEN_DAEMON_CONSTRAINT_ERRAND_H

#include <stdatomic.h>

#include "base/memory/account.h"
#include "base/queue.h"
#include "engine/constraint/constraint_spec.h"

typedef enum ConstraintErrandStage {
    CONSTRAINT_ERRAND_QUEUED,
    CONSTRAINT_ERRAND_RUNNING, /* the thread has it */
    CONSTRAINT_ERRAND_DONE,    /* waits for the loop */
} ConstraintErrandStage;

typedef struct ConstraintErrandOwner { /* loop */
    void *request;                     /* NULL: nobody waits for the result any more */
    void *model;                       /* held while the errand is; NULL: none */
    void *user;                        /* held: pays for the text */
} ConstraintErrandOwner;

typedef struct ConstraintErrand {
    uint32_t uid;
    ConstraintSpec spec; /* its texts are the errand's copies */
    char *texts;         /* all of them */
    Engine *engine;      /* the constraint is made for it, which lives as long as the errand; NULL: the spec is only
                          * checked, because the model is not loaded yet */
    int r;               /* out: 0, CONSTRAINT_SPEC_E_*, -errno, with a text */
    ErrText err;
    Constraint *constraint; /* out: with an engine */
    Bill bill;              /* of the text; loop */
    ConstraintErrandOwner owner;
    ConstraintErrandStage stage;        /* lock of the store */
    TAILQ_ENTRY(ConstraintErrand) link; /* lock of the store */
} ConstraintErrand;

TAILQ_HEAD(ConstraintErrandList, ConstraintErrand);
typedef struct ConstraintErrandList ConstraintErrandList;

/* Makes an errand with copies of the spec's texts. NULL: no memory. */
ConstraintErrand *constraint_errand_new(uint32_t uid, const ConstraintSpec *spec, Engine *engine);
ConstraintErrand *constraint_errand_free(ConstraintErrand *errand); /* what the owner holds is the owner's to release */
DEFINE_CLEANUP(ConstraintErrand, constraint_errand_free)
/* Returns the bytes of an errand. */
size_t constraint_errand_bytes(const ConstraintSpec *spec);

#endif
