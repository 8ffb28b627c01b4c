// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/models/state_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/files/file_io.h"
#include "base/log.h"
#include "base/min_max.h"
#include "base/strings/str_buf.h"
#include "base/strings/utf8.h"

static const char seal[] = "sha256 ";

#define SEAL_BYTES (sizeof(seal) - 1 + SHA256_HEX_BYTES) /* with a newline instead of the NUL */
#define ASIDE_MAX 99                                     /* number of damaged files that are kept */

bool state_file_is_name(const char *text) {
    if (!utf8_is_valid(text, strlen(text)))
        return false;
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

/* Returns where the seal begins; NULL if the seal is missing or wrong. */
static char *find_seal(const StateFile *file, char *text, size_t len_bytes) {
    char hex[SHA256_HEX_BYTES], *at = text + len_bytes - SEAL_BYTES;

    if (len_bytes < strlen(file->head) + SEAL_BYTES || strncmp(text, file->head, strlen(file->head)) ||
        strncmp(at, seal, strlen(seal)) || at[-1] != '\n' || text[len_bytes - 1] != '\n')
        return NULL;
    sha256_hex(text, len_bytes - SEAL_BYTES, hex);
    return memcmp(at + strlen(seal), hex, SHA256_HEX_BYTES - 1) ? NULL : at;
}

/* Renames a damaged file. Once there are ASIDE_MAX such files, each new one replaces the last of them. */
static void set_aside(const StateFile *file, const char *lost) {
    char *aside = NULL;

    for (int i = 1; i <= ASIDE_MAX; i++) {
        _cleanup_(freep) char *path = NULL;

        if (asprintf(&path, "%s.corrupt-%d", file->path, i) < 0) {
            path = NULL;
            break;
        }
        if (i == ASIDE_MAX || access(path, F_OK) < 0) {
            aside = steal(&path);
            break;
        }
    }
    if (aside && !rename(file->path, aside))
        log_error(TOPIC_DAEMON, "%s: damaged, and set aside as %s: %s", file->path, aside, lost);
    else
        log_error(TOPIC_DAEMON, "%s: damaged: %s", file->path, lost);
    free(aside);
}

/* Removes temporary files of killed writers. No other process writes here. */
static void remove_leftovers(const char *dir, const char *name) {
    _cleanup_(freep) char *begin = NULL;
    DIR *folder = opendir(dir);
    const struct dirent *entry;

    if (!folder)
        return;
    if (asprintf(&begin, "%s" ATOMIC_FILE_INFIX, name) < 0)
        begin = NULL;
    while (begin && (entry = readdir(folder)))
        if (!strncmp(entry->d_name, begin, strlen(begin)))
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
}

int state_file_init(StateFile *file, const char *dir, const char *name, const char *head) {
    *file = (StateFile){ .head = head };
    if (!*dir)
        return 0;
    if (asprintf(&file->path, "%s/%s", dir, name) < 0) {
        file->path = NULL;
        return err_raise(-ENOMEM);
    }
    remove_leftovers(dir, name);
    return 0;
}

void state_file_deinit(StateFile *file) {
    free(file->path);
    *file = (StateFile){ 0 };
}

int state_file_read(StateFile *file, size_t body_bytes_max, StateFileParseFn *parse, void *arg, const char *lost) {
    _cleanup_(freep) char *text = NULL;
    ErrText err = { 0 };
    size_t len_bytes, max_bytes = strlen(file->head) + body_bytes_max + SEAL_BYTES;
    char *end;
    int r;

    if (!file->path)
        return 0;
    r = file_slurp(file->path, max_bytes, &text, &len_bytes, &err);
    if (r == -ENOENT || r == -ENOMEM)
        return r == -ENOENT ? 0 : r;
    if (r < 0 && r != -EFBIG) {
        file->is_unreadable = true;
        log_error(TOPIC_DAEMON, "%s: it is not written over: %s", err.text, lost);
        return 0;
    }
    end = r ? NULL : find_seal(file, text, len_bytes);
    if (end)
        *end = 0;
    /* A NUL before the seal would hide lines behind it. */
    if (!end || strlen(text) != (size_t)(end - text))
        r = STATE_FILE_E_DAMAGED;
    else
        r = parse(arg, text + strlen(file->head));
    if (r > 0)
        set_aside(file, lost);
    return MIN(r, 0);
}

int state_file_write(const StateFile *file, const char *body, const char *what, ErrText *err) {
    _cleanup_(atomic_file_freep) AtomicFile *made = NULL;
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    _cleanup_(freep) char *dir = NULL;
    char hex[SHA256_HEX_BYTES];
    int r;

    if (!file->path)
        return err_set(err, STATE_FILE_E_STORE,
                       "there is no folder to keep %s in: set state-dir, or XDG_STATE_HOME or HOME", what);
    if (file->is_unreadable)
        return err_set(err, STATE_FILE_E_STORE,
                       "%.512s could not be read, and is not written over: the service's log says why", file->path);
    str_buf_add(&text, file->head);
    str_buf_add(&text, body);
    if (str_buf_failed(&text))
        return err_raise(-ENOMEM);
    sha256_hex(text.data, text.len_bytes, hex);
    str_buf_addf(&text, "%s%s\n", seal, hex);
    dir = strndup(file->path, (size_t)(strrchr(file->path, '/') - file->path));
    if (!dir || str_buf_failed(&text))
        return err_raise(-ENOMEM);
    r = file_make_dirs(dir, err);
    if (!r)
        r = atomic_file_new(&made, file->path, err);
    if (!r) {
        r = file_write_all(atomic_file_fd(made), text.data, text.len_bytes);
        if (r)
            err_set(err, r, "%s: %s", file->path, strerror(-r));
    }
    if (!r)
        r = atomic_file_commit(made, err);
    return !r || r == -ENOMEM ? r : STATE_FILE_E_STORE;
}
