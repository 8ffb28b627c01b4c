// SPDX-License-Identifier: Apache-2.0
/* Reads extents with pread() in up to 4 threads. */
#ifndef COORDGEN_BASE_EXTENT_THREADS_H
#define COORDGEN_BASE_EXTENT_THREADS_H

#include "base/files/extent_queue.h"

extern const ExtentWayOps extent_threads_ops;

#endif
