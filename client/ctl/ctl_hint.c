// SPDX-License-Identifier: Apache-2.0
/* Prints the next command for the user, on standard error. */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/files/paths.h"
#include "base/files/user_dirs.h"
#include "client/ctl/ctl.h"
#include "client/service_socket.h"
#include "model/model_dir.h"

static const char *sudo(void) {
    return geteuid() ? "sudo " : "";
}

void ctl_hint_connect(const Ctl *ctl, int code) {
    const char *path = coordgen_client_socket_path(ctl->client);
    const bool is_system = !strcmp(path, PATH_API_SOCKET) || !strcmp(path, PATH_ADMIN_SOCKET);
    char own[PATH_MAX];

    if (ctl->quiet)
        return;
    if (code == COORDGEN_E_UNREACHABLE && is_system)
        fprintf(stderr, "To start it: %ssystemctl start coordgend.socket%s\n", sudo(),
                geteuid() ? ", or one of your own: coordgend --user" : "");
    else if (code == COORDGEN_E_UNREACHABLE && !user_dir(USER_DIR_RUNTIME, "/api.sock", own, sizeof(own)) &&
             !strcmp(path, own))
        fputs("To start it: coordgend --user, or systemctl --user start coordgend.socket\n", stderr);
    else if (code == COORDGEN_E_UNREACHABLE)
        fprintf(stderr, "To start it: coordgend --listen=%s\n", path);
    else if (code == COORDGEN_E_DENIED && is_system)
        fputs("To be let in: sudo usermod -aG coordgen $USER, then log in again\n", stderr);
}

void ctl_hint_imported(const Ctl *ctl, const char *path, const char *model_dir) {
    const char *name = strrchr(path, '/');

    if (ctl->quiet || !model_dir) /* a user who names another folder needs no hint */
        return;
    name = name ? name + 1 : path;
    fprintf(stderr, "Imported as %.*s: coordgenctl chat %.*s\n", (int)(strlen(name) - strlen(".cgm")), name,
            (int)(strlen(name) - strlen(".cgm")), name);
    /* The system's service reads another folder, and its user may not read a home. */
    if (geteuid() && strcmp(model_dir, PATH_MODEL_DIR) && !access(PATH_API_SOCKET, F_OK))
        fputs("That is for a service of your own: coordgend --user. For the system's: sudo coordgenctl model import "
              "FILE.gguf\n",
              stderr);
}

void ctl_hint_loaded(const Ctl *ctl, const char *name) {
    if (ctl->quiet || !ctl->err_tty)
        return;
    fputs("Next: coordgenctl chat ", stderr);
    ctl_put_text(stderr, name, true);
    fputc('\n', stderr);
}
