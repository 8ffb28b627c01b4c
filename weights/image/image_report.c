// SPDX-License-Identifier: Apache-2.0
#include "weights/image/image_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t megabytes(uint64_t len_bytes) {
    return (len_bytes + 500000) / 1000000;
}

void image_report_text(const ImageReport *report, bool with_disk, char *text, size_t room_bytes) {
    const ImageRoom *room = &report->room;
    const uint64_t mb = megabytes(report->len_bytes);

    *text = 0;
    switch (report->state) {
    case IMAGE_NONE:
        break;
    case IMAGE_MAPPED:
        snprintf(text, room_bytes, "mapped, %" PRIu64 " MB", mb);
        break;
    case IMAGE_STREAMED:
        snprintf(text, room_bytes, "layers are read from it");
        break;
    case IMAGE_WRITING:
        snprintf(text, room_bytes, "being written, %" PRIu64 " of %" PRIu64 " MB", megabytes(report->written_bytes),
                 mb);
        break;
    case IMAGE_WRITTEN:
        snprintf(text, room_bytes, "written, %" PRIu64 " MB: the next load maps it", mb);
        break;
    case IMAGE_NO_ROOM:
        if (!with_disk)
            snprintf(text, room_bytes, "none: the disk has no room for it");
        else if (room->is_memory)
            snprintf(text, room_bytes, "none: the cache folder is in memory, no disk");
        else
            snprintf(text, room_bytes,
                     "none: it needs %" PRIu64 " MB, and the disk has %" PRIu64 " MB free beside %" PRIu64
                     " MB of images, which take half at most",
                     mb, megabytes(room->free_bytes), megabytes(room->others_bytes));
        break;
    case IMAGE_FAILED:
        snprintf(text, room_bytes, "none: it could not be written: %s", strerror(-report->result));
        break;
    }
}
