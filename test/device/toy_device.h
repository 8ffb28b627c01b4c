// SPDX-License-Identifier: Apache-2.0
/* The smallest device: every required operator in plain scalar loops on one thread, without optional operators. A port
 * can start from it (docs/porting.md). */
#ifndef COORDGEN_TEST_DEVICE_TOY_DEVICE_H
#define COORDGEN_TEST_DEVICE_TOY_DEVICE_H

#include "test/device/device_suite.h"

int toy_device_new(Backend **backendp, uint32_t cpu, WorkerPool *pool, AccountTable *accounts, ErrText *err);

const BackendOps *toy_ops(void);

/* The toy device and its promises. */
extern const DeviceUnderTest toy_device;

#endif
