// SPDX-License-Identifier: Apache-2.0
/* Checks whether a configuration can work on this machine, as far as a check without a start can tell. */
#ifndef COORDGEN_DAEMON_CONFIG_CHECK_H
#define COORDGEN_DAEMON_CONFIG_CHECK_H

#include "daemon/config/config.h"

/* Checks that settings do not contradict each other; a start checks this too. 0, or CONFIG_E_SETTING with a text. */
int config_check_settings(const Config *config, ErrText *err);
/* Checks everything that a start checks, by the same calls, and that named files and folders exist. Logs what the
 * service would run without. 0, or CONFIG_E_SETTING with a text that names setting, value and remedy. */
int config_check(Config *config, ErrText *err);

#endif
