// SPDX-License-Identifier: Apache-2.0
/* Prints replies about files, for the verbs rm, disk and prune. */
#ifndef COORDGEN_CLIENT_CTL_CTL_FILES_H
#define COORDGEN_CLIENT_CTL_CTL_FILES_H

#include "client/ctl/ctl_json.h"

json_t *ctl_json_files(const CoordgenReply *reply);
/* Prints a line for each file: size, kind, path, note. */
void ctl_put_files(const Ctl *ctl, FILE *out, const CoordgenReply *reply);
/* Counts the files and their bytes, those included that the reply had no room for. */
size_t ctl_files_count(const CoordgenReply *reply, uint64_t *bytesp);

#endif
