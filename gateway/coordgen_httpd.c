// SPDX-License-Identifier: Apache-2.0
/* main() of coordgen-httpd, which serves clients of HTTP as a client of coordgend. */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "base/files/standard_io.h"
#include "gateway/process/httpd.h"
#include "gateway/process/httpd_log.h"

enum { /* exit codes of systemd.exec(5) */
    EXIT_NO_PERMISSION = 4,
    EXIT_WRONG_CONFIG = 78, /* EX_CONFIG of sysexits.h */
};

static int exit_code(int r) {
    return r == -EACCES || r == -EPERM ? EXIT_NO_PERMISSION : r > 0 || r == -EINVAL ? EXIT_WRONG_CONFIG : EXIT_FAILURE;
}

int main(int argc, char *argv[]) {
    HttpdSettings settings;
    ErrText err = { 0 };
    int status, r;

    if (standard_io_secure()) /* first of all, so that no socket takes the place of a standard stream */
        return EXIT_FAILURE;
    signal(SIGPIPE, SIG_IGN);
    if (!httpd_settings_read(&settings, argc, argv, &status))
        return status;
    httpd_log_open((LogLevel)settings.log_level);
    /* The memory holds prompts and answers. */
    if (!settings.core_dumps && prctl(PR_SET_DUMPABLE, 0) < 0)
        log_warn(TOPIC_HTTP, "core dumps stay possible");
    r = httpd_run(&settings, &err);
    if (!r)
        return EXIT_SUCCESS;
    log_error(TOPIC_HTTP, "%s", err.text);
    return exit_code(r);
}
