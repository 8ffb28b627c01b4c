// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"
#include "model/gguf.h"
#include "model/gguf_text.h"

static int error_code(int r) {
    switch (r) {
    case GGUF_E_CORRUPT:
        return COORDGEN_E_MODEL_CORRUPT;
    case -ENOENT:
        return COORDGEN_E_MODEL_NOT_FOUND;
    case -EACCES:
    case -EPERM:
        return COORDGEN_E_DENIED;
    default:
        return COORDGEN_E_INTERNAL;
    }
}

/* Prints what a model file holds, without the service. An exit status. */
int ctl_show_file(Ctl *ctl, const char *path) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    ErrText err = { "" };
    int r;

    r = gguf_open(&file, path, &err);
    if (r) {
        return ctl_failed(ctl, error_code(r), err.text, "", 0);
    }
    if (ctl->json)
        r = gguf_text_json(file, ctl->json == CTL_JSON_PRETTY, &text);
    else
        gguf_text_write(file, &text);
    if (r || str_buf_failed(&text) || !text.len_bytes) {
        fputs("coordgenctl: out of memory\n", stderr);
        return CTL_EXIT_FAILED;
    }
    if (!ctl->json) {
        ctl_put(stdout, text.data, text.len_bytes, ctl->out_tty);
        return CTL_EXIT_OK;
    }
    /* An object that is never empty: "format" goes in as its first member. */
    printf("{\"format\":%d,", CTL_JSON_FORMAT);
    fwrite(text.data + 1, 1, text.len_bytes - 1, stdout);
    if (text.data[text.len_bytes - 1] != '\n')
        putchar('\n');
    return CTL_EXIT_OK;
}
