// SPDX-License-Identifier: Apache-2.0
#include "daemon/requests/request_constraint.h"

#include "daemon/models/load/model_unload.h"

/* Frees an errand of the loop's, with what its owner holds. */
static void release(ConstraintErrand *errand) {
    User *user = errand->owner.user;

    if (errand->owner.model)
        model_leave(errand->owner.model);
    constraint_errand_free(errand); /* its bill counts for the user */
    user_unref(user);
}

int request_constraint_settle(Request *request, ConstraintStore *store) {
    RequestConstraint *constraint = &request->input.constraint;
    const bool has_model = model_can_serve(request->model);
    ConstraintErrand *errand;
    int r;

    if (request_can_run(request) || constraint->errand || constraint_spec_is_empty(&constraint->spec) ||
        (!has_model && constraint->is_checked))
        return 0;
    errand = constraint_errand_new((uint32_t)request->user->uid, &constraint->spec,
                                   has_model ? request->model->engine : NULL);
    if (!errand)
        return err_raise(-ENOMEM);
    errand->owner.user = user_ref(request->user);
    r = user_charge(request->user, request->is_admin, &errand->bill, constraint_errand_bytes(&constraint->spec));
    if (!r)
        r = constraint_store_submit(store, errand);
    if (r) {
        release(errand);
        return r;
    }
    errand->owner.request = request;
    if (has_model) {
        errand->owner.model = request->model;
        request->model->n_users++;
    }
    constraint->store = store;
    constraint->errand = errand;
    constraint->is_checked = true;
    return 0;
}

void request_constraint_end(Request *request) {
    RequestConstraint *constraint = &request->input.constraint;
    ConstraintErrand *errand = constraint->errand;

    constraint->it = constraint_unref(constraint->it);
    constraint->errand = NULL;
    if (!errand)
        return;
    errand->owner.request = NULL;
    if (constraint_store_withdraw(constraint->store, errand))
        release(errand);
}

bool request_constraint_take(ConstraintStore *store, Request **requestp, int *rp, ErrText *err) {
    ConstraintErrand *errand = constraint_store_take(store);
    RequestConstraint *constraint;

    if (!errand)
        return false;
    *requestp = errand->owner.request;
    *rp = errand->r;
    *err = errand->err;
    if (*requestp) {
        constraint = &(*requestp)->input.constraint;
        constraint->errand = NULL;
        constraint_unref(constraint->it);
        constraint->it = steal(&errand->constraint);
    }
    release(errand);
    return true;
}

const char *request_constraint_field(const Request *request) {
    static const char *const fields[] = {
        [CONSTRAINT_FORM_NONE] = "generate.thinking_tokens",
        [CONSTRAINT_FORM_JSON_SCHEMA] = "generate.constraint.json_schema",
        [CONSTRAINT_FORM_GBNF] = "generate.constraint.gbnf",
        [CONSTRAINT_FORM_REGEX] = "generate.constraint.regex",
    };

    return request->input.constraint.spec.tools ? "generate.tools" : fields[request->input.constraint.spec.form];
}
