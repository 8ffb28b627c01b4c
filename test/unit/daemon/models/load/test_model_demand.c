// SPDX-License-Identifier: Apache-2.0
/* The setting load-on-demand, and the effect of an unload on later requests. test_demand.py tests real loads. */
#define _GNU_SOURCE
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "daemon/models/load/model_demand.h"

typedef struct Fixture {
    Config config;
    Loop loop;
    ModelDefault def;
    ModelRegistry registry;
    Model *model, *other;
} Fixture;

static void on_change(void *arg, Model *model) {
}

static int setup(void **state) {
    Fixture *fixture = calloc(1, sizeof(*fixture));
    ErrText err;

    assert_non_null(fixture);
    fixture->config.load.device = ENGINE_DEVICE_CPU;
    fixture->loop.thread = pthread_self();
    model_registry_init(&fixture->registry, &fixture->loop, &fixture->config, NULL, on_change, NULL);
    fixture->registry.def = &fixture->def;
    assert_int_equal(model_registry_add(&fixture->registry, "/nowhere/model.cgm", &fixture->model, &err), 0);
    assert_int_equal(model_registry_add(&fixture->registry, "/nowhere/other.cgm", &fixture->other, &err), 0);
    assert_int_equal(model_default_take_setting(&fixture->def, "model"), 0);
    *state = fixture;
    return 0;
}

static int teardown(void **state) {
    Fixture *fixture = *state;

    model_registry_deinit(&fixture->registry);
    model_default_deinit(&fixture->def);
    free(fixture);
    return 0;
}

/* Tells whether a request may load the model. The model is being unloaded, so that the request only marks it for a
 * later load, and no load begins in this test. */
static bool is_allowed(Model *model, ModelDemand demand, ErrText *err) {
    int r;

    model->stage = MODEL_UNLOADING;
    r = model_demand(model, demand, err);
    assert_int_equal(model->stage == MODEL_RELOADING, !r);
    assert_int_equal(model_will_come(model), !r);
    model->stage = MODEL_AVAILABLE;
    return !r;
}

static void test_model_demand_setting(void **state) {
    static const struct {
        ConfigDemand setting;
        bool is_allowed[2][2]; /* [is the default][is an administrator] */
    } cases[] = {
        { CONFIG_DEMAND_ALL, { { true, true }, { true, true } } },
        { CONFIG_DEMAND_ADMINS, { { false, true }, { false, true } } },
        { CONFIG_DEMAND_DEFAULT_ONLY, { { false, false }, { true, true } } },
        { CONFIG_DEMAND_NO, { { false, false }, { false, false } } },
    };
    Fixture *fixture = *state;
    ErrText err;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        fixture->config.models.on_demand = cases[i].setting;
        for (int is_default = 0; is_default < 2; is_default++)
            for (int is_admin = 0; is_admin < 2; is_admin++) {
                Model *model = is_default ? fixture->model : fixture->other;
                const bool is = is_allowed(model, (ModelDemand){ .is_admin = is_admin, .is_named = true }, &err);

                assert_int_equal(is, cases[i].is_allowed[is_default][is_admin]);
                if (!is)
                    assert_non_null(strstr(err.text, "load-on-demand = "));
            }
    }
}

/* A request that names no model does not load an unloaded model again, since somebody wanted its memory back. */
static void test_model_demand_unloaded(void **state) {
    Fixture *fixture = *state;
    ErrText err;

    assert_true(is_allowed(fixture->model, (ModelDemand){ .is_named = false }, &err));
    model_set_load_mode(fixture->model, MODEL_LOAD_NAMED);
    assert_false(is_allowed(fixture->model, (ModelDemand){ .is_named = false }, &err));
    assert_non_null(strstr(err.text, "was unloaded by a command"));
    assert_true(is_allowed(fixture->model, (ModelDemand){ .is_named = true }, &err));
}

/* A failed load is repeated only if memory was short; a model that is loaded needs no load. */
static void test_model_demand_stages(void **state) {
    Fixture *fixture = *state;
    Model *model = fixture->model;
    const ModelDemand demand = { .is_named = true };
    ErrText err;

    fixture->config.models.on_demand = CONFIG_DEMAND_NO; /* a refusal shows that a load was needed */
    for (ModelStage stage = MODEL_AVAILABLE; stage <= MODEL_FAILED; stage++) {
        model->stage = stage;
        assert_int_equal(model_demand(model, demand, &err),
                         stage == MODEL_AVAILABLE || stage == MODEL_UNLOADING ? MODEL_DEMAND_E_DENIED : 0);
    }
    model->failure = MODEL_FAILURE_MEMORY;
    assert_int_equal(model_demand(model, demand, &err), MODEL_DEMAND_E_DENIED);
    model->stage = MODEL_AVAILABLE;
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_model_demand_setting),
        TEST(test_model_demand_unloaded),
        TEST(test_model_demand_stages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
