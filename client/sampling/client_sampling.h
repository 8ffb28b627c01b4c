// SPDX-License-Identifier: Apache-2.0
/* Sampling options and log probabilities between the public structures and the messages. */
#ifndef COORDGEN_CLIENT_CLIENT_SAMPLING_H
#define COORDGEN_CLIENT_CLIENT_SAMPLING_H

#include "client/client_internal.h"

/* The message of a request's sampling options, with the lists that it points to. */
typedef struct ClientSampling {
    Coordgen__V1__SamplingOptions message;
    Coordgen__V1__LogitBias *biases, **bias_pointers;
} ClientSampling;

/* Fills in the message; its texts stay the caller's. 0, or a CoordgenError that the client has. */
int client_sampling_fill(CoordgenClient *client, ClientSampling *sampling, const CoordgenGenerateOptions *options);
void client_sampling_deinit(ClientSampling *sampling);

/* The public structures of a reply's sampling options. */
typedef struct ClientSamplingReply {
    CoordgenSamplingOptions options;
    CoordgenLogitBias *biases;
} ClientSamplingReply;

/* Fills in the further options in effect; they point into the message. false: out of memory. */
bool client_sampling_reply_fill(ClientSamplingReply *reply, const Coordgen__V1__SamplingOptions *message);
void client_sampling_reply_deinit(ClientSamplingReply *reply);

/* The public structures of a delta's log probabilities, which point into the message. */
typedef struct ClientLogprobs {
    CoordgenTokenLogprobs *tokens;
    CoordgenLogprob *tops;
} ClientLogprobs;

/* Fills in the event's log probabilities. 0; COORDGEN_E_NO_MEMORY; COORDGEN_E_BAD_REPLY: a token without its own. */
int client_logprobs_fill(ClientLogprobs *logprobs, const Coordgen__V1__GenerateDelta *delta, CoordgenEvent *event);
void client_logprobs_deinit(ClientLogprobs *logprobs);

#endif
