// SPDX-License-Identifier: Apache-2.0
/* Settings of the daemon: built-in values < files < drop-ins < flags. One table (config_table.c) drives all of them. */
#ifndef COORDGEN_DAEMON_CONFIG_H
#define COORDGEN_DAEMON_CONFIG_H

#include <stdbool.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "daemon/config/config_model.h"
#include "daemon/config/config_values.h"

typedef enum ConfigAction { /* what the flags ask for */
    CONFIG_RUN,
    CONFIG_CHECK,
    CONFIG_PRINT,
    CONFIG_HELP,
    CONFIG_VERSION,
} ConfigAction;

int config_new(Config **configp, bool is_users, ErrText *err); /* built-in values */
Config *config_free(Config *config);
DEFINE_CLEANUP(Config, config_free)

/* Reads files, then flags, for main() and reloads. root: "" or a folder that stands for / (tests). */
int config_load(Config **configp, const char *root, int argc, char *const argv[], ConfigAction *actionp, ErrText *err);
int config_set(Config *config, const char *name, const char *value, ErrText *err);
int config_read_file(Config *config, const char *path, bool must_exist, ErrText *err);
/* Where memory-limit comes from: "set", "80 % of the machine's memory", of a cgroup's file, or "none". */
void config_memory_limit_source(const Config *config, char *text, size_t room_bytes);
void config_print(const Config *config, FILE *to);
void config_print_help(FILE *to);

/* Calls fn for every setting that differs. */
void config_compare(const Config *from, const Config *to, ConfigChangeFn *fn, void *arg);
/* Copies the settings that take effect without a restart. */
int config_take_live(Config *config, const Config *from);

#endif
