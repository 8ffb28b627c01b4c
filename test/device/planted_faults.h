// SPDX-License-Identifier: Apache-2.0
/* Correct devices with one planted fault each. The suite must detect every fault. */
#ifndef COORDGEN_TEST_DEVICE_PLANTED_FAULTS_H
#define COORDGEN_TEST_DEVICE_PLANTED_FAULTS_H

#include "test/device/device_suite.h"

#define FIELD_NONE SIZE_MAX

typedef struct PlantedFault {
    const char *name;
    bool on_cpu;  /* the cpu device has the fault; false: the toy has it */
    size_t field; /* table entry that is replaced; FIELD_NONE: the memory is at fault */
    void (*function)(void);
    const char *check; /* check that must fail, and its message */
    const char *says;
} PlantedFault;

extern const PlantedFault planted_faults[];
extern const size_t planted_faults_n;

/* Makes the device with the fault; one at a time in a process. sound: the device without it. */
DeviceUnderTest planted_device(const DeviceUnderTest *sound, const PlantedFault *fault);

#endif
