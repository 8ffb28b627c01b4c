// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_device.h"

#include <string.h>

static const BackendDevice engine_devices[] = {
#define DEVICE(enumerator, name, reads_packages, has_graphs, make) { name, reads_packages, make, has_graphs },
#include "engine/engine_device.inc"
#undef DEVICE
};

const BackendDevice *engine_device(EngineDevice device) {
    return &engine_devices[device];
}

const BackendDevice *engine_device_named(const char *name, EngineDevice *devicep) {
    for (size_t i = 0; i < ARRAY_LEN(engine_devices); i++)
        if (!strcmp(engine_devices[i].name, name)) {
            *devicep = (EngineDevice)i;
            return &engine_devices[i];
        }
    return NULL;
}
