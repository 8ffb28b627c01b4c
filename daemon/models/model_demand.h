// SPDX-License-Identifier: Apache-2.0
/* Models that are loaded because a request names them: the setting load-on-demand says whose requests may. Owned by the
 * loop. */
#ifndef COORDGEN_DAEMON_MODEL_DEMAND_H
#define COORDGEN_DAEMON_MODEL_DEMAND_H

#include "daemon/models/model_registry.h"

enum {
    MODEL_DEMAND_E_DENIED = 1, /* it is not loaded, and this request may not load it: the text says what to do */
};

typedef struct ModelDemand {
    bool is_admin; /* who asks is an administrator */
    bool is_named; /* the request names the model; else it is the default */
} ModelDemand;

/* Loads the model, unless it is there or on its way. 0: requests may wait for it, or learn why its load failed;
 * MODEL_DEMAND_E_DENIED. */
int model_demand(Model *model, ModelDemand demand, ErrText *err);

#endif
