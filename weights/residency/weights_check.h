// SPDX-License-Identifier: Apache-2.0
/* Whether a package is as it was written: looked at while its weights come, of bytes that the load reads anyway. */
#ifndef COORDGEN_WEIGHTS_WEIGHTS_CHECK_H
#define COORDGEN_WEIGHTS_WEIGHTS_CHECK_H

#include "model/package/package.h"
#include "model/package/package_checksum.h"
#include "weights/image/weights_image.h"

enum {
    WEIGHTS_CHECK_E_PACKAGE =
        1, /* it is damaged, or has no checksums where they must be compared; the text says which */
};

typedef enum WeightsChecking {
    WEIGHTS_CHECKING_NOTHING,
    WEIGHTS_CHECKING_NEW, /* the head; of a package that was not compared in this state yet, the layers too */
    WEIGHTS_CHECKING_ALL, /* head and layers, always; an image of the weights is not used */
} WeightsChecking;

typedef struct WeightsCheck WeightsCheck;

/* Compares the head. cache_dir: where it is noted what was compared; NULL: nowhere. *checkp is NULL where
 * nothing is to be compared. The package outlives it. 0, WEIGHTS_CHECK_E_PACKAGE, -errno. */
int weights_check_new(WeightsCheck **checkp, const Package *package, WeightsChecking checking, const char *cache_dir,
                      ErrText *err);
WeightsCheck *weights_check_free(WeightsCheck *check);
DEFINE_CLEANUP(WeightsCheck, weights_check_free)

/* That the load hands its bytes to, and has all compared by; NULL: the layers need not be. check may be NULL. */
PackageChecksum *weights_check_layers(const WeightsCheck *check);
/* Parts first..end - 1 of an image of the package's weights are to be compared with their digests, too: all in every
 * load, or those of an image that was not compared in this state yet. check may be NULL: they are not. 0 or -errno. */
int weights_check_image(const WeightsCheck *check, WeightsImage *image, size_t first, size_t end, ErrText *err);
/* Everything was compared, and the package is in use: noted for the next load. */
void weights_check_passed(const WeightsCheck *check);
/* So far. */
uint64_t weights_check_compared_bytes(const WeightsCheck *check);

#endif
