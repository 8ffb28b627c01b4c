// SPDX-License-Identifier: Apache-2.0
/* Checks that a package is as it was written, while its weights come, by bytes that the load reads anyway. */
#ifndef COORDGEN_WEIGHTS_WEIGHTS_CHECK_H
#define COORDGEN_WEIGHTS_WEIGHTS_CHECK_H

#include "model/package/package.h"
#include "model/package/package_checksum.h"
#include "weights/image/weights_image.h"

enum {
    WEIGHTS_CHECK_E_PACKAGE =
        1, /* the package is damaged, or lacks checksums that must be compared; the text says which */
};

typedef enum WeightsChecking {
    WEIGHTS_CHECKING_NOTHING,
    WEIGHTS_CHECKING_NEW, /* the head, and the layers of a package that was not compared in this state yet */
    WEIGHTS_CHECKING_ALL, /* head and layers, always; an image of the weights is not used */
} WeightsChecking;

typedef struct WeightsCheck WeightsCheck;

/* Compares the head. cache_dir: where comparisons are noted; NULL: nowhere. *checkp: NULL: nothing is to be compared.
 * The package outlives the check. 0, WEIGHTS_CHECK_E_PACKAGE, -errno. */
int weights_check_new(WeightsCheck **checkp, const Package *package, WeightsChecking checking, const char *cache_dir,
                      ErrText *err);
WeightsCheck *weights_check_free(WeightsCheck *check);
DEFINE_CLEANUP(WeightsCheck, weights_check_free)

/* Returns the checksums that the load hands its bytes to; NULL: the layers need not be compared. check may be NULL. */
PackageChecksum *weights_check_layers(const WeightsCheck *check);
/* Has parts first..end - 1 of an image compared with their digests: in every load, or if the image was not compared in
 * this state yet. check may be NULL: nothing is compared. 0 or -errno. */
int weights_check_image(const WeightsCheck *check, WeightsImage *image, size_t first, size_t end, ErrText *err);
/* Notes for the next load that everything was compared, and that the package is in use. */
void weights_check_passed(const WeightsCheck *check);
/* Returns the number of bytes compared so far. */
uint64_t weights_check_compared_bytes(const WeightsCheck *check);

#endif
