// SPDX-License-Identifier: Apache-2.0
/* Tells people what has become of the image of a model's weights. */
#ifndef COORDGEN_WEIGHTS_IMAGE_REPORT_H
#define COORDGEN_WEIGHTS_IMAGE_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "weights/image/image_room.h"

typedef enum ImageState {
    IMAGE_NONE,     /* none was wanted */
    IMAGE_MAPPED,   /* the weights are in it */
    IMAGE_STREAMED, /* layers are read from it in every step */
    IMAGE_WRITING,
    IMAGE_WRITTEN, /* for the next load */
    IMAGE_NO_ROOM,
    IMAGE_FAILED,
} ImageState;

typedef struct ImageReport {
    ImageState state;
    uint64_t len_bytes;
    uint64_t written_bytes; /* IMAGE_WRITING: how many of len_bytes */
    ImageRoom room;         /* IMAGE_NO_ROOM */
    int result;             /* IMAGE_FAILED: -errno */
} ImageReport;

/* Writes one line: "mapped, 1704 MB"; "" for IMAGE_NONE. with_disk: also says how much is free. */
void image_report_text(const ImageReport *report, bool with_disk, char *text, size_t room_bytes);

#endif
