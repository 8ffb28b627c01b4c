// SPDX-License-Identifier: Apache-2.0
/* model verify: whether a package is as it was written. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"
#include "model/package_checksum.h"

static void show_progress(void *arg, uint64_t done_bytes, uint64_t total_bytes) {
    ctl_progress(arg, "verifying", total_bytes ? (double)done_bytes / (double)total_bytes : 1, -1);
}

static int error_code(int r) {
    switch (r) {
    case -EACCES:
    case -EPERM:
        return COORDGEN_E_DENIED;
    case -ENOENT:
        return COORDGEN_E_MODEL_NOT_FOUND;
    case -ENOMEM:
        return COORDGEN_E_NO_MEMORY;
    default:
        return COORDGEN_E_MODEL_CORRUPT;
    }
}

static int verify_run(Ctl *ctl) {
    const char *path = ctl->args[0];
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    ErrText err = { "" };
    json_t *object;
    int r;

    if (fd < 0) {
        r = -errno;
        err_set(&err, r, "%s: %s", path, strerror(errno));
    } else {
        r = package_checksum_verify(fd, path, show_progress, ctl, &err);
    }
    ctl_progress_clear(ctl);
    if (r)
        return ctl_failed(ctl, error_code(r), err.text, "model", 0);
    if (!ctl->json) {
        ctl_put_text(stdout, path, ctl->out_tty);
        puts(": as it was written");
        return CTL_EXIT_OK;
    }
    object = json_object();
    ctl_json_set(object, "verified", ctl_json_text(path, strlen(path)));
    return ctl_json_print(ctl, object);
}

const CtlVerb ctl_verb_model_verify = {
    .group = "model",
    .name = "verify",
    .arguments = "FILE.cgm",
    .summary = "compare a model package with its checksums",
    .more = "Works without the service and reads the whole file. A package that is damaged is named with\n"
            "the layer that is, and has to be imported again.\n"
            "\nExamples\n"
            "  coordgenctl model verify /var/lib/coordgen/models/smollm2-135m.cgm\n",
    .n_args_min = 1,
    .n_args_max = 1,
    .run = verify_run,
};
