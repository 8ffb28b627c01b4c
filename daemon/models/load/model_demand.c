// SPDX-License-Identifier: Apache-2.0
#include "daemon/models/load/model_demand.h"

#include "base/strings/printable.h"
#include "daemon/models/load/model_load.h"

/* Tells whether the setting lets the request load the model; if not, *whyp says whose requests may load models. */
static bool is_allowed(const Model *model, ModelDemand demand, const char **whyp) {
    switch (model->registry->config->models.on_demand) {
    case CONFIG_DEMAND_ALL:
        return true;
    case CONFIG_DEMAND_ADMINS:
        *whyp = "load-on-demand = admins lets only requests of administrators load it";
        return demand.is_admin;
    case CONFIG_DEMAND_DEFAULT_ONLY:
        *whyp = "load-on-demand = default-only lets requests load the default model alone";
        return model_is_default(model);
    case CONFIG_DEMAND_NO:
        break;
    }
    *whyp = "load-on-demand = no lets no request load it";
    return false;
}

/* Tells whether a load may help: a load that lacked memory may succeed now, any other failure would repeat. */
static bool is_absent(const Model *model) {
    return model->stage == MODEL_AVAILABLE || model->stage == MODEL_UNLOADING ||
           (model_lacked_memory(model) && !model->engine);
}

int model_demand(Model *model, ModelDemand demand, ErrText *err) {
    const char *why = "";

    assert_on_loop(model->registry->loop);
    if (!is_absent(model))
        return 0;
    if (!is_allowed(model, demand, &why))
        return err_set(err, MODEL_DEMAND_E_DENIED,
                       "model %.*s is not loaded, and %s: an administrator can (coordgenctl model load %.*s)",
                       UTF8_PREFIX(model->name, 64), why, UTF8_PREFIX(model->name, 64));
    /* Somebody unloaded the model for its memory; apps that name no model would load it again at once. */
    if (model->load.mode == MODEL_LOAD_NAMED && !demand.is_named)
        return err_set(err, MODEL_DEMAND_E_DENIED,
                       "the default model %.*s was unloaded by a command: a request that names it loads it again, "
                       "or coordgenctl model load %.*s",
                       UTF8_PREFIX(model->name, 64), UTF8_PREFIX(model->name, 64));
    /* No request could reload an evicted model that an administrator had loaded. */
    if (!model_load_with_room(model, err) && model->registry->config->models.on_demand == CONFIG_DEMAND_DEFAULT_ONLY &&
        model->load.mode == MODEL_LOAD_EVICTS)
        model_set_load_mode(model, MODEL_LOAD_FITS);
    return 0;
}
