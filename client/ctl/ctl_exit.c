// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/ctl.h"

/* The exit status of each error, as coordgenctl(1) lists them; others are CTL_EXIT_FAILED. CTL_EXIT_BUSY promises that
 * a later try can succeed by itself. later: the status if the service says when to try again; 0: the same status. */
static const struct {
    int code, status, later;
} exits[] = {
    { COORDGEN_OK, CTL_EXIT_OK, 0 },
    { COORDGEN_E_INVALID_ARGUMENT, CTL_EXIT_USAGE, 0 },
    { COORDGEN_E_UNKNOWN_OPTION, CTL_EXIT_USAGE, 0 },
    { COORDGEN_E_UNREACHABLE, CTL_EXIT_UNREACHABLE, 0 },
    { COORDGEN_E_DISCONNECTED, CTL_EXIT_UNREACHABLE, 0 },
    { COORDGEN_E_DENIED, CTL_EXIT_DENIED, 0 },
    { COORDGEN_E_MODEL_IN_USE, CTL_EXIT_BUSY, 0 },
    { COORDGEN_E_SHUTTING_DOWN, CTL_EXIT_BUSY, 0 },
    { COORDGEN_E_TIMEOUT, CTL_EXIT_BUSY, 0 },
    { COORDGEN_E_QUOTA_EXCEEDED, CTL_EXIT_FAILED, CTL_EXIT_BUSY },  /* else the request is too large for this user */
    { COORDGEN_E_BUSY, CTL_EXIT_FAILED, CTL_EXIT_BUSY },            /* else the request is too large for this service */
    { COORDGEN_E_MODEL_NOT_READY, CTL_EXIT_FAILED, CTL_EXIT_BUSY }, /* else somebody has to load or mend it */
};

int ctl_exit_status(int code, uint32_t retry_after_ms) {
    for (size_t i = 0; i < ARRAY_LEN(exits); i++)
        if (exits[i].code == code)
            return retry_after_ms && exits[i].later ? exits[i].later : exits[i].status;
    return CTL_EXIT_FAILED;
}
