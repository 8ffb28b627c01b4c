// SPDX-License-Identifier: Apache-2.0
/* coordgenctl: coordgend from the command line. */
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/standard_io.h"
#include "client/ctl/ctl.h"

static const CtlVerb *const verbs[] = {
    &ctl_verb_generate,       &ctl_verb_chat,           &ctl_verb_tokenize,
    &ctl_verb_embed,          &ctl_verb_status,         &ctl_verb_top,
    &ctl_verb_explain,        &ctl_verb_cancel,         &ctl_verb_ping,
    &ctl_verb_wait_ready,     &ctl_verb_model_list,     &ctl_verb_model_show,
    &ctl_verb_model_load,     &ctl_verb_model_unload,   &ctl_verb_model_default,
    &ctl_verb_model_pair,     &ctl_verb_model_pull,     &ctl_verb_model_rm,
    &ctl_verb_disk,           &ctl_verb_prune,          &ctl_verb_model_import,
    &ctl_verb_model_verify,   &ctl_verb_draftdb_stats,  &ctl_verb_draftdb_forget,
    &ctl_verb_draftdb_export, &ctl_verb_draftdb_import, &ctl_verb_draftdb_freeze,
    &ctl_verb_draftdb_thaw,
};

/* Takes the locale of characters for editing lines; numbers stay in the C locale. All text is UTF-8: a locale of
 * another encoding, such as C, would reject letters of several bytes. */
static void take_locale(void) {
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8"))
        setlocale(LC_CTYPE, "C.UTF-8");
}

int main(int argc, char **argv) {
    Ctl ctl = { .signal_fd = -1 };
    bool help = false, version = false;
    int status;

    if (standard_io_secure()) {
        fputs("coordgenctl: /dev/null cannot be opened in place of a closed standard descriptor\n", stderr);
        return CTL_EXIT_FAILED;
    }
    ctl.out_tty = isatty(STDOUT_FILENO);
    ctl.err_tty = isatty(STDERR_FILENO);
    take_locale();
    status = ctl_parse(&ctl, argc, argv, verbs, ARRAY_LEN(verbs), &help, &version);
    if (!status && version)
        printf("coordgenctl %s\n", COORDGEN_VERSION);
    else if (!status && help && ctl.verb)
        ctl_help_verb(stdout, ctl.verb);
    else if (!status && help)
        ctl_help_all(stdout, verbs, ARRAY_LEN(verbs));
    else if (!status)
        status = ctl.verb->run(&ctl);
    status = standard_output_end("coordgenctl", status, CTL_EXIT_FAILED);
    coordgen_client_free(ctl.client);
    if (ctl.signal_fd >= 0)
        close(ctl.signal_fd);
    free(ctl.values);
    free(ctl.args);
    return status;
}
