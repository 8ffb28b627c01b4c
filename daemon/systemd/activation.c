// SPDX-License-Identifier: Apache-2.0
#include "daemon/systemd/activation.h"

#include "base/cleanup.h"
#include "base/service/inherited_sockets.h"

enum { /* purposes */
    FOR_APPS,
    FOR_ADMINISTRATORS,
};

static const InheritedName systemd_names[] = {
    { "api", FOR_APPS },
    { "coordgend.socket", FOR_APPS },
    { "admin", FOR_ADMINISTRATORS },
    { "coordgend-admin.socket", FOR_ADMINISTRATORS },
};

/* android init: "socket coordgend stream+listen 0660 ..."; other characters than letters and digits become '_'. */
static const InheritedName android_variables[] = {
    { "ANDROID_SOCKET_coordgend", FOR_APPS },
    { "ANDROID_SOCKET_coordgend_admin", FOR_ADMINISTRATORS },
};

static const InheritedNames names = {
    .systemd = systemd_names,
    .n_systemd = ARRAY_LEN(systemd_names),
    .android = android_variables,
    .n_android = ARRAY_LEN(android_variables),
    .known = "api or admin",
    .single_purpose = FOR_APPS,
};

int activation_look(ActivationSet *set, ErrText *err) {
    InheritedSet given;
    const int r = inherited_sockets_look(&names, &given, err);

    *set = (ActivationSet){ .n = given.n, .fds_end = given.fds_end };
    for (size_t i = 0; i < given.n; i++)
        set->sockets[i] =
            (ActivationSocket){ .fd = given.sockets[i].fd, .is_admin = given.sockets[i].purpose == FOR_ADMINISTRATORS };
    return r;
}

void activation_forget(void) {
    inherited_sockets_forget(&names);
}
