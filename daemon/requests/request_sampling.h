// SPDX-License-Identifier: Apache-2.0
/* Sampling options between a request's message and the engine, and back into the reply. */
#ifndef COORDGEN_DAEMON_REQUEST_SAMPLING_H
#define COORDGEN_DAEMON_REQUEST_SAMPLING_H

#include "engine/sampling/sampling_defaults.h"
#include "proto/frame.h"

/* Takes the options of a request, with the service's values for those that it leaves out, except for the seed. biases:
 * room for n_logit_bias of them. Texts stay in the message. Return: bits 1 << SamplingField of those that the request
 * sets. */
uint32_t request_sampling_take(const Coordgen__V1__SamplingOptions *message, SamplerBias *biases,
                               SamplerOptions *options);
/* Fills in the options in effect. Options that few requests use are there only if they are on. asked: the request's, or
 * NULL; the reply shows its lists. */
void request_sampling_fill(const SamplerOptions *options, const Coordgen__V1__SamplingOptions *asked,
                           Coordgen__V1__SamplingOptions *message);
void request_sampling_fill_origins(const SamplingChoice *choice, Coordgen__V1__SamplingOrigins *message);

#endif
