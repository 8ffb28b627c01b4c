// SPDX-License-Identifier: Apache-2.0
#include "daemon/constraint/constraint_errand.h"

#include <stdlib.h>

size_t constraint_errand_bytes(const ConstraintSpec *spec) {
    return sizeof(ConstraintErrand) + constraint_spec_bytes(spec);
}

ConstraintErrand *constraint_errand_new(uint32_t uid, const ConstraintSpec *spec, Engine *engine) {
    _cleanup_(constraint_errand_freep) ConstraintErrand *errand = calloc(1, sizeof(*errand));

    if (!errand)
        return NULL;
    errand->uid = uid;
    errand->engine = engine;
    errand->texts = constraint_spec_copy(&errand->spec, spec);
    return errand->texts ? steal(&errand) : NULL;
}

ConstraintErrand *constraint_errand_free(ConstraintErrand *errand) {
    if (!errand)
        return NULL;
    constraint_unref(errand->constraint);
    bill_settle(&errand->bill);
    free(errand->texts);
    free(errand);
    return NULL;
}
