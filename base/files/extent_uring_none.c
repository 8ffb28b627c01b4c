// SPDX-License-Identifier: Apache-2.0
/* A build without liburing (WITH_URING=no) refuses io_uring as a sandbox does, so that threads read. */
#include "base/files/extent_uring.h"

static int uring_init(ExtentReader *reader, ErrText *err) {
    return err_set(err, EXTENT_E_REFUSED,
                   "io_uring cannot be had here: this program was built without liburing (WITH_URING=no)");
}

const ExtentWayOps extent_uring_ops = { .names = { "io_uring", "io_uring, direct" }, .init = uring_init };
