// SPDX-License-Identifier: Apache-2.0
/* Whether what a configuration names can work on this machine, as far as that shows without a start. */
#ifndef COORDGEN_DAEMON_CONFIG_CHECK_H
#define COORDGEN_DAEMON_CONFIG_CHECK_H

#include "daemon/config.h"

/* Whether settings contradict each other. A start asks this too. 0, or CONFIG_E_SETTING with a text. */
int config_check_settings(const Config *config, ErrText *err);
/* All that a start looks at, by the same calls, and that named files and folders are there. Logs what the service would
 * go on without. 0, or CONFIG_E_SETTING with a text that names setting, value and remedy. */
int config_check(Config *config, ErrText *err);

#endif
