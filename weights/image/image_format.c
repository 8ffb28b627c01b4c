// SPDX-License-Identifier: Apache-2.0
#include "weights/image/image_format.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int64_t nanoseconds(struct timespec t) {
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int weights_image_key(WeightsImageKey *key, int package_fd, const char *package_path, const char *layout) {
    struct stat st;

    if (fstat(package_fd, &st) < 0)
        return -errno;
    *key = (WeightsImageKey){
        .inode = (uint64_t)st.st_ino,
        .len_bytes = (uint64_t)st.st_size,
        .mtime_ns = nanoseconds(st.st_mtim),
        .ctime_ns = nanoseconds(st.st_ctim),
        .package_path = package_path,
        .layout = layout,
    };
    return 0;
}

void image_head_init(ImageHead *head, const WeightsImageKey *key) {
    memset(head, 0, sizeof(*head)); /* also the padding, which is hashed */
    memcpy(head->magic, IMAGE_MAGIC, sizeof(head->magic));
    head->version = IMAGE_VERSION;
    head->package_inode = key->inode;
    head->package_bytes = key->len_bytes;
    head->package_mtime_ns = key->mtime_ns;
    head->package_ctime_ns = key->ctime_ns;
    snprintf(head->layout, sizeof(head->layout), "%s", key->layout);
    snprintf(head->program, sizeof(head->program), "%s", COORDGEN_VERSION);
}

void image_digest(void *head, size_t n, char sha256[SHA256_HEX_BYTES]) {
    ImageHead *first = head;

    memset(first->sha256, 0, sizeof(first->sha256));
    sha256_hex(head, n, sha256);
}
