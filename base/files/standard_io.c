// SPDX-License-Identifier: Apache-2.0
#include "base/files/standard_io.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

/**
 * standard_io_secure() - open descriptors 0, 1 and 2 if the caller has left them closed
 *
 * A file or socket that is opened later would get such a number, and printed text would go into it. Input and output
 * are opened the wrong way round, so that a read or write fails with EBADF as on a closed descriptor. Messages to
 * standard error are discarded.
 */
int standard_io_secure(void) {
    static const int modes[] = { O_WRONLY, O_RDONLY, O_WRONLY };

    signal(SIGPIPE, SIG_IGN);
    for (int fd = 0; fd < (int)ARRAY_LEN(modes); fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        if (errno != EBADF || open("/dev/null", modes[fd]) != fd) /* open() gives the lowest free number */
            return -(errno ? errno : EIO);
    }
    return 0;
}

int standard_output_flush(ErrText *err) {
    int r = fflush(stdout) ? -errno : ferror(stdout) ? -EIO : 0;

    /* After a failed flush the stream knows that it failed, but not why; the next flush succeeds. */
    return r ? err_set(err, r, "cannot write to standard output%s%s", r == -EIO ? "" : ": ",
                       r == -EIO ? "" : strerror(-r))
             : 0;
}

/* Whether the reader of the output has gone, as head(1) or a pager does. The failed write itself may be long past. */
static bool is_reader_gone(void) {
    struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };

    return poll(&out, 1, 0) == 1 && out.revents & (POLLERR | POLLHUP);
}

int standard_output_end(const char *program, int status, int failed_status) {
    ErrText err = { 0 };

    if (!standard_output_flush(&err))
        return status;
    if (is_reader_gone())
        return STANDARD_OUTPUT_EXIT_UNREAD;
    fprintf(stderr, "%s: %s\n", program, err.text);
    return status ? status : failed_status;
}
