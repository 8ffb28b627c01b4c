// SPDX-License-Identifier: Apache-2.0
/* Runs a fuzz target on files and on all files of folders: corpora are replayed with any compiler and sanitizer. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file_io.h"

#define INPUT_MAX_BYTES (64u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

static size_t n_run;

static int run_file(const char *path) {
    _cleanup_(freep) char *text = NULL;
    _cleanup_(freep) uint8_t *exact = NULL;
    size_t len_bytes;
    ErrText err;

    if (file_slurp(path, INPUT_MAX_BYTES, &text, &len_bytes, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    /* A copy of exactly this length: a sanitizer sees a read past its end, where the slurped one has a NUL. */
    exact = malloc(len_bytes ? len_bytes : 1);
    if (!exact)
        return -1;
    memcpy(exact, text, len_bytes);
    LLVMFuzzerTestOneInput(exact, len_bytes);
    n_run++;
    return 0;
}

static int run_folder(const char *path) {
    DIR *folder = opendir(path);
    const struct dirent *entry;
    int r = 0;

    if (!folder) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    while (!r && (entry = readdir(folder))) {
        char file[PATH_MAX];

        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
        r = run_file(file);
    }
    closedir(folder);
    return r;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        struct stat status;
        int r;

        if (stat(argv[i], &status)) {
            fprintf(stderr, "%s: %s\n", argv[i], strerror(errno));
            return 1;
        }
        r = S_ISDIR(status.st_mode) ? run_folder(argv[i]) : run_file(argv[i]);
        if (r)
            return 1;
    }
    printf("%zu inputs\n", n_run);
    if (!n_run) {
        fprintf(stderr, "no input: a replay of nothing shows nothing\n");
        return 1;
    }
    return 0;
}
