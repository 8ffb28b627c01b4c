// SPDX-License-Identifier: Apache-2.0
/* Configurations for tests: files below a temporary root folder, loads with flags, and counts of a reload's changes. */
#ifndef COORDGEN_TEST_CONFIG_FIXTURE_H
#define COORDGEN_TEST_CONFIG_FIXTURE_H

#include "daemon/config/config.h"

typedef struct ConfigRoot { /* a temporary folder in place of / */
    char path[64];
} ConfigRoot;

int config_root_setup(void **state); /* cmocka setup; the test's state is a ConfigRoot */
int config_root_teardown(void **state);
/* Writes a file and creates the folders above it. @path: below the root, with a slash first. */
void config_root_write(const ConfigRoot *root, const char *path, const char *text);

/* Asserts the result of config_load(). Return: the configuration, which the caller frees; NULL if a failure was
 * expected. */
Config *config_root_load(const ConfigRoot *root, int expected, ErrText *err, int argc, const char *const argv[]);
/* Loads with the flags that follow. */
#define CONFIG_LOAD(root, expected, err, ...)                                                                          \
    ({                                                                                                                 \
        const char *const argv_[] = { "coordgend", ##__VA_ARGS__, NULL };                                              \
        config_root_load((root), (expected), (err), (int)ARRAY_LEN(argv_) - 1, argv_);                                 \
    })

typedef struct ConfigChanges {
    size_t n_live;
    size_t n_restart;
} ConfigChanges;

/* Counts the changes of a reload: a ConfigChangeFn with a ConfigChanges as @arg. */
void config_count_change(void *arg, const char *name, const char *from, const char *to, bool is_live);

#endif
