// SPDX-License-Identifier: Apache-2.0
/* Makes the JSON output of coordgenctl. Every top-level object has "format", the version of the names in it. */
#ifndef COORDGEN_CLIENT_CTL_CTL_JSON_H
#define COORDGEN_CLIENT_CTL_CTL_JSON_H

#include <jansson.h>

#include "client/ctl/ctl.h"

#define CTL_JSON_FORMAT 1

/* Adds "format", prints the object in the chosen layout and releases it. Returns an exit status. */
int ctl_json_print(const Ctl *ctl, json_t *object);
/* Prints one compact line at once, in every layout, for streams. */
int ctl_json_print_line(const Ctl *ctl, json_t *object);
/* Makes a JSON string, never NULL; bytes that are not UTF-8 become U+FFFD. */
/* Sets "text", "part" and "call" of a delta. */
void ctl_json_set_part(json_t *line, const CoordgenEvent *event);
json_t *ctl_json_text(const char *text, size_t len_bytes);
json_t *ctl_json_model(const CoordgenModel *model);
json_t *ctl_json_pair(const CoordgenModelPair *pair);
json_t *ctl_json_result(const CoordgenGenerateResult *result);
json_t *ctl_json_error(int code, const char *message, const char *field, uint32_t retry_after_ms);
void ctl_json_set(json_t *object, const char *key, json_t *value); /* takes value over */

/* ctl_more_sampling.c */
void ctl_json_more_sampling(json_t *sampling, const CoordgenSamplingOptions *more); /* adds those that are on */
/* ctl_logprobs.c */
void ctl_json_add_logprobs(json_t *list, const CoordgenEvent *event); /* appends an object for each token */

/* ctl_explain.c */
json_t *ctl_json_explanation(const CoordgenExplanation *explanation);
json_t *ctl_json_request(const CoordgenRequestInfo *request);

#endif
