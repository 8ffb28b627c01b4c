// SPDX-License-Identifier: Apache-2.0
/* Settings of single models: sections [model NAME] of the configuration's files. What they say: config.h. */
#ifndef COORDGEN_DAEMON_CONFIG_MODEL_H
#define COORDGEN_DAEMON_CONFIG_MODEL_H

#include "daemon/config.h"

void config_models_free(ConfigModel *models);
/* A line "[model NAME]": the section, which may be there already. 0, CONFIG_E_SETTING, -ENOMEM. */
int config_model_begin(Config *config, char *line, ConfigModel **modelp, ErrText *err);
int config_model_set(ConfigModel *model, const char *name, const char *value, ErrText *err);
void config_models_print(const Config *config, FILE *to);
void config_models_compare(const Config *from, const Config *to, ConfigChangeFn *fn, void *arg);
int config_models_take_live(Config *config, const Config *from);

#endif
