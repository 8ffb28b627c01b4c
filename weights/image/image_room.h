// SPDX-License-Identifier: Apache-2.0
/* How much of a disk images of weights may take: the one rule. */
#ifndef COORDGEN_WEIGHTS_IMAGE_ROOM_H
#define COORDGEN_WEIGHTS_IMAGE_ROOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ImageRoom {
    uint64_t len_bytes;    /* of the new image */
    uint64_t others_bytes; /* that the images in its folder take already */
    uint64_t free_bytes;   /* of the disk, for this user */
    bool is_known;         /* the file system says so; else writing will */
    bool is_memory;        /* no disk: the folder's files are in memory themselves */
} ImageRoom;

/* Of the folder as it is. Fields of what cannot be found out stay zero. */
void image_room_find(ImageRoom *room, const char *folder, uint64_t len_bytes);
/* is_optional: nobody has asked for the image, and nothing needs it. */
bool image_room_suffices(const ImageRoom *room, bool is_optional);

#endif
