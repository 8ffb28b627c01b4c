// SPDX-License-Identifier: Apache-2.0
/* A port of the least size, in a hundred lines: an NPU has products of its own and the embedding, and borrows all else
 * of the reference device (backends/borrowed_ops). */
#ifndef COORDGEN_TEST_DEVICE_TOY_NPU_H
#define COORDGEN_TEST_DEVICE_TOY_NPU_H

#include "test/device/device_suite.h"

extern const DeviceUnderTest toy_npu_device;

#endif
