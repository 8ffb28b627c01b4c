// SPDX-License-Identifier: Apache-2.0
/* A port of the least size for an NPU of int8 products in static graphs: it reads packages, computes matrices in graphs
 * of fixed rows, and borrows all else of the cpu device (backends/borrowed_ops). docs/porting.md walks through it. */
#ifndef COORDGEN_TEST_DEVICE_TOY_GRAPHS_H
#define COORDGEN_TEST_DEVICE_TOY_GRAPHS_H

#include "test/device/device_suite.h"

extern const DeviceUnderTest toy_graphs_device;

#endif
