// SPDX-License-Identifier: Apache-2.0
/* Devices that are right but for one fault each: a suite that lets one pass shows nothing about others. */
#ifndef COORDGEN_TEST_DEVICE_PLANTED_FAULTS_H
#define COORDGEN_TEST_DEVICE_PLANTED_FAULTS_H

#include "test/device/device_suite.h"

#define FIELD_NONE SIZE_MAX

typedef struct PlantedFault {
    const char *name;
    bool on_cpu;  /* the cpu device is at fault; else the toy */
    size_t field; /* of the table, that has another function; FIELD_NONE: it is the memory that is at fault */
    void (*function)(void);
    const char *check; /* that must fail, and what it says then */
    const char *says;
} PlantedFault;

extern const PlantedFault planted_faults[];
extern const size_t planted_faults_n;

/* The device with the fault; one at a time in a process. sound: its promises, and how it is made. */
DeviceUnderTest planted_device(const DeviceUnderTest *sound, const PlantedFault *fault);

#endif
