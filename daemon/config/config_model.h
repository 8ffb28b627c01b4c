// SPDX-License-Identifier: Apache-2.0
/* Settings of single models: sections [model NAME] of the configuration's files. */
#ifndef COORDGEN_DAEMON_CONFIG_MODEL_H
#define COORDGEN_DAEMON_CONFIG_MODEL_H

#include <stdio.h>

#include "base/err.h"
#include "daemon/config/config_values.h"

void config_models_free(ConfigModel *models);
/* Begins the section of a line "[model NAME]", which may exist already. 0, CONFIG_E_SETTING or -ENOMEM. */
int config_model_begin(Config *config, char *line, ConfigModel **modelp, ErrText *err);
int config_model_set(ConfigModel *model, const char *name, const char *value, ErrText *err);
void config_models_print(const Config *config, FILE *to);
void config_models_compare(const Config *from, const Config *to, ConfigChangeFn *fn, void *arg);
int config_models_take_live(Config *config, const Config *from);

/* Return the values in the section of the model, and those for all models where the section has none. */
uint32_t config_context_tokens(const Config *config, const char *model);
LoadOptions config_load_options(const Config *config, const char *model);
/* Returns the model of the next section; after: NULL for the first section. */
const char *config_next_section(const Config *config, const char *after);

#endif
