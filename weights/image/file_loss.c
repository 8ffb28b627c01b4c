// SPDX-License-Identifier: Apache-2.0
#include "weights/image/file_loss.h"

#include <errno.h>

void file_loss_set(FileLoss *loss, WeightsImage *image, const ErrText *why) {
    if (atomic_load(&loss->is_lost))
        return;
    loss->why = *why;
    atomic_store(&loss->is_lost, true);
    if (image)
        weights_image_discard(image);
}

int file_loss_check(const FileLoss *loss, ErrText *err) {
    if (!atomic_load(&loss->is_lost))
        return 0;
    if (err)
        *err = loss->why;
    return -EIO;
}
