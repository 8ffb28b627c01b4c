// SPDX-License-Identifier: Apache-2.0
/* A minimal port in a hundred lines: the NPU has its own products and embedding, and borrows all other operators from
 * the reference device (backends/borrowed_ops). */
#ifndef COORDGEN_TEST_DEVICE_TOY_NPU_H
#define COORDGEN_TEST_DEVICE_TOY_NPU_H

#include "test/device/device_suite.h"

extern const DeviceUnderTest toy_npu_device;

#endif
