// SPDX-License-Identifier: Apache-2.0
#include "daemon/constraint/constraint_errand.h"

#include <stdlib.h>
#include <string.h>

size_t constraint_errand_bytes(const ConstraintSpec *spec) {
    return sizeof(ConstraintErrand) + spec->n_bytes + 1;
}

ConstraintErrand *constraint_errand_new(uint32_t uid, const ConstraintSpec *spec, Engine *engine) {
    _cleanup_(constraint_errand_freep) ConstraintErrand *errand = calloc(1, sizeof(*errand));

    if (!errand)
        return NULL;
    errand->uid = uid;
    errand->spec = *spec;
    errand->engine = engine;
    errand->text = malloc(spec->n_bytes + 1);
    if (!errand->text)
        return NULL;
    memcpy(errand->text, spec->text, spec->n_bytes);
    errand->text[spec->n_bytes] = '\0';
    errand->spec.text = errand->text;
    return steal(&errand);
}

ConstraintErrand *constraint_errand_free(ConstraintErrand *errand) {
    if (!errand)
        return NULL;
    constraint_unref(errand->constraint);
    bill_settle(&errand->bill);
    free(errand->text);
    free(errand);
    return NULL;
}
