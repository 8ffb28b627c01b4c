// SPDX-License-Identifier: Apache-2.0
/* Reads extents with io_uring. */
#ifndef COORDGEN_BASE_EXTENT_URING_H
#define COORDGEN_BASE_EXTENT_URING_H

#include "base/files/extent_queue.h"

extern const ExtentWayOps extent_uring_ops;

#endif
