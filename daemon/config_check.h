// SPDX-License-Identifier: Apache-2.0
/* Whether what a configuration names can work on this machine, as far as that shows without a start. */
#ifndef COORDGEN_DAEMON_CONFIG_CHECK_H
#define COORDGEN_DAEMON_CONFIG_CHECK_H

#include "daemon/config.h"

/* 0, or CONFIG_E_SETTING with a text that names setting, value and remedy. */
int config_check(const Config *config, ErrText *err);

#endif
