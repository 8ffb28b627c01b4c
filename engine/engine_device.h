// SPDX-License-Identifier: Apache-2.0
/* The devices that a model can be loaded onto. */
#ifndef COORDGEN_ENGINE_DEVICE_H
#define COORDGEN_ENGINE_DEVICE_H

#include "backends/backend.h"
#include "base/strings/choice.h"

/* ENGINE_DEVICE_REFERENCE: float32 loops on a GGUF source; ENGINE_DEVICE_CPU: int8 products on a .cgm package;
 * ENGINE_DEVICE_NPU: int8 products on static graphs, of packages with static activations. */
typedef enum EngineDevice {
#define DEVICE(enumerator, name, reads_packages, has_graphs, make) ENGINE_DEVICE_##enumerator,
#include "engine/engine_device.inc"
#undef DEVICE
} EngineDevice;

const BackendDevice *engine_device(EngineDevice device);
extern const Choice engine_device_choices[]; /* EngineDevice */

#endif
