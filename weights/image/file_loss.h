// SPDX-License-Identifier: Apache-2.0
/* The file that layers or graphs are read from is another one than it was, or is damaged, and is not used any more. */
#ifndef COORDGEN_WEIGHTS_FILE_LOSS_H
#define COORDGEN_WEIGHTS_FILE_LOSS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "weights/image/weights_image.h"

/* Zero: the file is good. */
typedef struct FileLoss {
    _Atomic bool is_lost; /* whoever sets it has written the text */
    ErrText why;
} FileLoss;

/* Notes the first loss; an image that is lost is discarded, so that the next load makes it anew. image: NULL: the file
 * is the package. Thread: one. */
void file_loss_set(FileLoss *loss, WeightsImage *image, const ErrText *why);
/* 0, or -EIO with the text. Any thread. */
int file_loss_check(const FileLoss *loss, ErrText *err);

#endif
