// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "test/unit/daemon/config/config_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <limits.h>

#include "base/files/file_io.h"

int config_root_setup(void **state) {
    ConfigRoot *root = calloc(1, sizeof(*root));

    assert_non_null(root);
    snprintf(root->path, sizeof(root->path), "/tmp/coordgen-config-XXXXXX");
    assert_non_null(mkdtemp(root->path));
    *state = root;
    return 0;
}

int config_root_teardown(void **state) {
    ConfigRoot *root = *state;
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", root->path);
    assert_int_equal(system(command), 0);
    free(root);
    return 0;
}

void config_root_write(const ConfigRoot *root, const char *path, const char *text) {
    char full[PATH_MAX], *slash;
    FILE *file;

    snprintf(full, sizeof(full), "%s%s", root->path, path);
    slash = strrchr(full, '/');
    *slash = 0;
    assert_int_equal(file_make_dirs(full, NULL), 0);
    *slash = '/';
    file = fopen(full, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

Config *config_root_load(const ConfigRoot *root, int expected, ErrText *err, int argc, const char *const argv[]) {
    ConfigAction action;
    Config *config = NULL;

    assert_int_equal(config_load(&config, root->path, argc, (char *const *)argv, &action, err), expected);
    assert_int_equal(config == NULL, expected != 0);
    return config;
}

void config_count_change(void *arg, const char *name, const char *from, const char *to, bool is_live) {
    ConfigChanges *changes = arg;

    assert_string_not_equal(from, to);
    if (is_live)
        changes->n_live++;
    else
        changes->n_restart++;
}
