// SPDX-License-Identifier: Apache-2.0
#include "tools/eval/text_file.h"

#include <errno.h>
#include <string.h>

#include "base/files/file_io.h"

int text_file_write(const StrBuf *text, const char *path, ErrText *err) {
    _cleanup_(atomic_file_freep) AtomicFile *file = NULL;
    int r;

    if (str_buf_failed(text))
        return err_no_memory(err);
    r = atomic_file_new(&file, path, err);
    if (r)
        return r;
    r = file_write_all(atomic_file_fd(file), text->data, text->len_bytes);
    return r ? err_set(err, r, "%s: cannot write: %s", path, strerror(-r)) : atomic_file_commit(file, err);
}
