// SPDX-License-Identifier: Apache-2.0
/* The rule of how much of a disk images of weights may take. */
#ifndef COORDGEN_WEIGHTS_IMAGE_ROOM_H
#define COORDGEN_WEIGHTS_IMAGE_ROOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ImageRoom {
    uint64_t len_bytes;    /* of the new image */
    uint64_t others_bytes; /* that the images in its folder take already */
    uint64_t free_bytes;   /* of the disk, for this user */
    bool is_known;         /* the file system tells free_bytes; if not, writing will show */
    bool is_memory;        /* the folder's files are in memory, not on a disk */
} ImageRoom;

/* Looks at the folder as it is. Fields that cannot be found out stay zero. */
void image_room_find(ImageRoom *room, const char *folder, uint64_t len_bytes);
/* Whether there is room for the image. is_optional: nobody has asked for it, and nothing needs it. */
bool image_room_suffices(const ImageRoom *room, bool is_optional);

#endif
