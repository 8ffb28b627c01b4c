// SPDX-License-Identifier: Apache-2.0
/* Static activations (llm.npu 3.3): the profile of every operator's inputs. */
#ifndef COORDGEN_IMPORTER_CALIBRATED_PROFILE_H
#define COORDGEN_IMPORTER_CALIBRATED_PROFILE_H

#include "importer/methods/calibrated.h"

/* Fills model->operators: scale, importance, shadow, hot channels. */
int calibrated_profile(Calibrated *calibrated, ErrText *err);

#endif
