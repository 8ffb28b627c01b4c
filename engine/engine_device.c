// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_device.h"

static const BackendDevice engine_devices[] = {
#define DEVICE(enumerator, name, reads_packages, has_graphs, make) { name, reads_packages, make, has_graphs },
#include "engine/engine_device.inc"
#undef DEVICE
};

const BackendDevice *engine_device(EngineDevice device) {
    return &engine_devices[device];
}

const Choice engine_device_choices[] = {
#define DEVICE(enumerator, name, reads_packages, has_graphs, make) { name, ENGINE_DEVICE_##enumerator },
#include "engine/engine_device.inc"
#undef DEVICE
    { NULL, 0 },
};
