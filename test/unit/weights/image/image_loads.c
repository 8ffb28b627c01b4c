// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#define _GNU_SOURCE
#include "test/unit/weights/image/image_loads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/core/engine_state.h"

bool image_run(Loaded *loaded, const char *package, LoadedFlags flags, Logits logits) {
    ErrText err = { 0 };
    bool is_used;

    loaded_init(loaded, package, flags);
    memset(logits, 0, sizeof(Logits));
    if (loaded_forward(loaded, logits, &err))
        fail_msg("%s", err.text);
    is_used = weights_are_mapped(loaded->engine->weights);
    if (is_used)
        assert_string_equal(weights_way(loaded->engine->weights)->way, "mapped image");
    assert_int_equal(weights_wait_image(engine_weights(loaded->engine), &err), 0);
    loaded_deinit(loaded);
    return is_used;
}

bool image_file_exists(const char *path) {
    return access(path, F_OK) == 0;
}

uint64_t image_file_bytes(const char *path) {
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_size;
}

size_t image_files(const char *image) {
    char command[PATH_MAX + 64], *slash;
    char folder[PATH_MAX];
    FILE *pipe;
    size_t n = 0;

    snprintf(folder, sizeof(folder), "%s", image);
    slash = strrchr(folder, '/');
    *slash = 0;
    snprintf(command, sizeof(command), "ls -A '%s' | wc -l", folder);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%zu", &n), 1);
    pclose(pipe);
    return n;
}
