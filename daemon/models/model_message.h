// SPDX-License-Identifier: Apache-2.0
/* Messages that describe models and pairs. The strings belong to the models and pairs, and are valid until the next
 * change. */
#ifndef COORDGEN_DAEMON_MODEL_MESSAGE_H
#define COORDGEN_DAEMON_MODEL_MESSAGE_H

#include "daemon/models/model_registry.h"
#include "proto/coordgen.pb-c.h"

#define MODEL_DRAFT_OF_MAX 4 /* most targets that a draft model's message names; further targets are left out */

typedef struct ModelMessage {
    Coordgen__V1__Model model;
    char detail[sizeof(ErrText)];
    char chat_format[sizeof(ErrText)];
    char image[256];
    Coordgen__V1__ModelPair draft;
    const char *draft_of[MODEL_DRAFT_OF_MAX];
    const char *chat_takes[2];
} ModelMessage;
Coordgen__V1__ModelState model_wire_state(const Model *model);
void model_describe(ModelMessage *message, const Model *model, bool with_paths);
void model_describe_pair(Coordgen__V1__ModelPair *message, ModelRegistry *registry, const ModelPairEntry *pair,
                         bool with_paths);

#endif
