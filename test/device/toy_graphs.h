// SPDX-License-Identifier: Apache-2.0
/* A minimal port for an NPU of int8 products in static graphs. The device reads packages, computes matrices in graphs
 * of a fixed number of rows, and borrows all other operators from the cpu device (backends/borrowed_ops).
 * docs/porting.md walks through it. */
#ifndef COORDGEN_TEST_DEVICE_TOY_GRAPHS_H
#define COORDGEN_TEST_DEVICE_TOY_GRAPHS_H

#include "test/device/device_suite.h"

extern const DeviceUnderTest toy_graphs_device;

#endif
