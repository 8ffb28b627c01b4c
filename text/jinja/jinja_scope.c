// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/jinja_scope.h"

#define BINDINGS_PER_STEP 16

/* Counts one of many bindings that are passed over. */
static void pass_over(JinjaRun *run, uint32_t *n_passedp) {
    if (++*n_passedp % BINDINGS_PER_STEP == 0)
        jinja_spend(run, 1);
}

JinjaScope *jinja_scope_new(JinjaRun *run, JinjaScope *parent) {
    JinjaScope *scope = jinja_take(run, 1, sizeof(*scope));

    scope->parent = parent;
    return scope;
}

JinjaScope *jinja_scope_renew(JinjaRun *run, JinjaScope *scope) {
    uint32_t n_passed = 0;

    if (scope->is_captured)
        return jinja_scope_new(run, scope->parent);
    for (JinjaBinding *binding = scope->bindings; binding; binding = binding->next) {
        pass_over(run, &n_passed);
        binding->value = JINJA_NO_VALUE;
    }
    return scope;
}

void jinja_bind(JinjaRun *run, JinjaScope *scope, uint32_t name, JinjaValue value) {
    JinjaBinding *binding;
    uint32_t n_passed = 0;

    if (!scope->parent) {
        run->globals[name] = value;
        return;
    }
    for (binding = scope->bindings; binding && binding->name != name; binding = binding->next)
        pass_over(run, &n_passed);
    if (!binding) {
        binding = jinja_take(run, 1, sizeof(*binding));
        binding->next = scope->bindings;
        binding->name = name;
        scope->bindings = binding;
    }
    binding->value = value;
}

JinjaValue jinja_lookup(JinjaRun *run, const JinjaScope *scope, uint32_t name) {
    uint32_t n_passed = 0;

    for (; scope->parent; scope = scope->parent)
        for (const JinjaBinding *binding = scope->bindings; binding; binding = binding->next) {
            if (binding->name == name && jinja_given(binding->value))
                return binding->value;
            pass_over(run, &n_passed);
        }
    return run->globals[name];
}
