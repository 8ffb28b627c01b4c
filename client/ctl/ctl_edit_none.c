// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/ctl_edit.h"

int ctl_edit_new(CtlEdit **editp, Ctl *ctl) {
    *editp = NULL;
    return 0;
}

CtlEdit *ctl_edit_free(CtlEdit *edit) {
    return NULL;
}

int ctl_edit_read(CtlEdit *edit, const char *prompt, char **textp) {
    return CTL_LINE_END;
}
