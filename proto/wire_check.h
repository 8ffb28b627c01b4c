// SPDX-License-Identifier: Apache-2.0
/* Strict check of packed protobuf bytes against a descriptor, before anything is allocated for them. */
#ifndef COORDGEN_PROTO_WIRE_CHECK_H
#define COORDGEN_PROTO_WIRE_CHECK_H

#include <stdbool.h>

#include "proto/frame.h"

#define WIRE_DEPTH_MAX 8

/* strict: unknown fields and enum values are refused; else they pass. Fills in fault; returns 0 or a FRAME_E_*. */
int wire_check(const uint8_t *body, size_t len_bytes, const ProtobufCMessageDescriptor *descriptor, bool strict,
               FrameFault *fault);

#endif
