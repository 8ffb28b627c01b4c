// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "weights/image/image_room.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include "weights/image/weights_image_private.h"

/**
 * image_room_suffices() - whether an image may be written
 *
 * Images take at most half of what would be free without them. For an image that somebody has asked for, or that layers
 * are read from, the rule counts that image alone, and it must fit into what is free. An image that only makes later
 * loads faster shares the half with all other images. Such an image is not written to a folder in memory, for its bytes
 * would be in memory twice.
 */
bool image_room_suffices(const ImageRoom *room, bool is_optional) {
    const uint64_t half_bytes = room->others_bytes / 2 + room->free_bytes / 2;

    if (is_optional && room->is_memory)
        return false;
    if (!room->is_known)
        return true;
    if (room->len_bytes > half_bytes || room->len_bytes > room->free_bytes)
        return false;
    return !is_optional || room->others_bytes <= half_bytes - room->len_bytes;
}

/* Returns the bytes of all images in a folder, also of those that are being written. */
static uint64_t images_bytes(const char *folder) {
    const struct dirent *entry;
    DIR *entries = opendir(folder);
    uint64_t bytes = 0;
    struct stat st;

    while (entries && (entry = readdir(entries)))
        if (strstr(entry->d_name, IMAGE_SUFFIX) && !fstatat(dirfd(entries), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
            S_ISREG(st.st_mode))
            bytes += (uint64_t)st.st_blocks * 512;
    if (entries)
        closedir(entries);
    return bytes;
}

void image_room_find(ImageRoom *room, const char *folder, uint64_t len_bytes) {
    struct statvfs vfs;
    struct statfs fs;

    *room = (ImageRoom){ .len_bytes = len_bytes, .others_bytes = images_bytes(folder) };
    room->is_memory = !statfs(folder, &fs) && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
    if (statvfs(folder, &vfs) < 0 || !vfs.f_blocks)
        return;
    room->is_known = true;
    room->free_bytes = (uint64_t)vfs.f_bavail * vfs.f_frsize;
}
