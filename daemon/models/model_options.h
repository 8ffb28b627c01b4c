// SPDX-License-Identifier: Apache-2.0
/* Options of a model's load: from the settings, with the place of the weights' image and the chat template that may
 * replace the model's own. Owned by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_OPTIONS_H
#define COORDGEN_DAEMON_MODEL_OPTIONS_H

#include "daemon/models/model.h"

/* Fills the options of the load that comes next; some point into the model and the configuration. */
void model_choose_options(Model *model, EngineOptions *options);
/* Reads the chat template of the configuration, if it names one. 0, -EINVAL, -errno, with a text. */
int model_registry_read_chat_template(ModelRegistry *registry, ErrText *err);
/* Checks that the chat template of the configuration can be used. CONFIG_E_SETTING if it does not parse. */
int model_check_chat_template(const Config *config, ErrText *err);

#endif
