// SPDX-License-Identifier: Apache-2.0
/* Checks packed protobuf bytes strictly against a descriptor, before anything is allocated for them. */
#ifndef COORDGEN_PROTO_WIRE_CHECK_H
#define COORDGEN_PROTO_WIRE_CHECK_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "proto/frame_fault.h"

#define WIRE_DEPTH_MAX 8

/* strict: refuse unknown fields and enum values. Fills in fault. Returns 0 or a FRAME_E_*. */
int wire_check(const uint8_t *body, size_t len_bytes, const ProtobufCMessageDescriptor *descriptor, bool strict,
               FrameFault *fault);

#endif
