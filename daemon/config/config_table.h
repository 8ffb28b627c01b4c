// SPDX-License-Identifier: Apache-2.0
/* The table of settings: name, type, range, help. Files, flags, --help, --print-config and reloads go by it. */
#ifndef COORDGEN_DAEMON_CONFIG_TABLE_H
#define COORDGEN_DAEMON_CONFIG_TABLE_H

#include "daemon/config/config_setting.h"

/* Settings that are gone: files and flags that have them get a warning, and the service starts. */
typedef struct GoneSetting {
    const char *name;
    const char *instead; /* what replaces it */
} GoneSetting;

extern const GoneSetting gone_settings[];
extern const size_t n_gone_settings;
const GoneSetting *config_table_find_gone(const char *name); /* NULL: none of this name is gone */

extern const Setting config_settings[];
extern const size_t n_config_settings;

const Setting *config_table_find(const char *name);
int config_table_unknown(const char *name, ErrText *err); /* says so with a likely name; returns CONFIG_E_SETTING */

#endif
