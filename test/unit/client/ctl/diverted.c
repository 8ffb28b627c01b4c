// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/client/ctl/diverted.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

void divert(Diverted *diverted, FILE *stream) {
    fflush(stream);
    *diverted = (Diverted){ .stream = stream, .file = tmpfile(), .real_fd = dup(fileno(stream)) };
    assert(diverted->file && diverted->real_fd >= 0);
    assert(dup2(fileno(diverted->file), fileno(stream)) >= 0);
}

char *divert_end(Diverted *diverted) {
    long len_bytes;
    char *text;

    fflush(diverted->stream);
    assert(dup2(diverted->real_fd, fileno(diverted->stream)) >= 0);
    close(diverted->real_fd);
    len_bytes = lseek(fileno(diverted->file), 0, SEEK_END);
    text = calloc(1, (size_t)len_bytes + 1);
    assert(text && pread(fileno(diverted->file), text, (size_t)len_bytes, 0) == len_bytes);
    fclose(diverted->file);
    return text;
}
