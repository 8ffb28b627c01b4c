// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/ctl_files.h"

#include <inttypes.h>
#include <string.h>

static json_t *json_file(const CoordgenFile *file) {
    json_t *object = json_object();

    ctl_json_set(object, "path", ctl_json_text(file->path, strlen(file->path)));
    ctl_json_set(object, "kind", json_string(coordgen_file_kind_name((int)file->kind)));
    ctl_json_set(object, "model", *file->model ? ctl_json_text(file->model, strlen(file->model)) : json_null());
    ctl_json_set(object, "bytes", json_integer((json_int_t)file->bytes));
    ctl_json_set(object, "note", ctl_json_text(file->note, strlen(file->note)));
    return object;
}

json_t *ctl_json_files(const CoordgenReply *reply) {
    json_t *files = json_array();

    for (size_t i = 0; i < coordgen_reply_n_files(reply); i++)
        json_array_append_new(files, json_file(coordgen_reply_file(reply, i)));
    return files;
}

size_t ctl_files_count(const CoordgenReply *reply, uint64_t *bytesp) {
    uint32_t n_more;

    *bytesp = coordgen_reply_files_bytes(reply, &n_more);
    return coordgen_reply_n_files(reply) + n_more;
}

void ctl_put_files(const Ctl *ctl, FILE *out, const CoordgenReply *reply) {
    const bool tty = out == stdout ? ctl->out_tty : ctl->err_tty;
    uint32_t n_more;
    char size[32];

    for (size_t i = 0; i < coordgen_reply_n_files(reply); i++) {
        const CoordgenFile *file = coordgen_reply_file(reply, i);

        fprintf(out, "%10s  %-14s  ", ctl_bytes_text(size, sizeof(size), file->bytes),
                coordgen_file_kind_name((int)file->kind));
        ctl_put_text(out, file->path, tty);
        if (*file->note) {
            fputs("  (", out);
            ctl_put_text(out, file->note, tty);
            fputc(')', out);
        }
        fputc('\n', out);
    }
    (void)coordgen_reply_files_bytes(reply, &n_more);
    if (n_more)
        fprintf(out, "and %" PRIu32 " files more\n", n_more);
}
