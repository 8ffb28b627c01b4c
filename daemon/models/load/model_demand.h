// SPDX-License-Identifier: Apache-2.0
/* Loads models because requests name them; the setting load-on-demand says whose requests may. Owned by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_DEMAND_H
#define COORDGEN_DAEMON_MODEL_DEMAND_H

#include "daemon/models/model_registry.h"

enum {
    MODEL_DEMAND_E_DENIED = 1, /* the model is not loaded, and the request may not load it; the text has the remedy */
};

typedef struct ModelDemand {
    bool is_admin; /* the request is an administrator's */
    bool is_named; /* the request names the model; else it is the default */
} ModelDemand;

/* Loads the model, unless it is loaded or on its way. 0: requests may wait for the model, or learn why its load failed;
 * MODEL_DEMAND_E_DENIED. */
int model_demand(Model *model, ModelDemand demand, ErrText *err);

#endif
