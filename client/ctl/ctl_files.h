// SPDX-License-Identifier: Apache-2.0
/* Replies of the service that tell of files, as the verbs rm, disk and prune print them. */
#ifndef COORDGEN_CLIENT_CTL_CTL_FILES_H
#define COORDGEN_CLIENT_CTL_CTL_FILES_H

#include "client/ctl/ctl_json.h"

json_t *ctl_json_files(const CoordgenReply *reply);
/* A line for each file: size, kind, path, note. */
void ctl_put_files(const Ctl *ctl, FILE *out, const CoordgenReply *reply);
/* How many files, their bytes together, and how many of them the reply had no room for. */
size_t ctl_files_count(const CoordgenReply *reply, uint64_t *bytesp);

#endif
