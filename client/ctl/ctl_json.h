// SPDX-License-Identifier: Apache-2.0
/* JSON output of coordgenctl. Every object on the top level has "format": the version of these names. */
#ifndef COORDGEN_CLIENT_CTL_CTL_JSON_H
#define COORDGEN_CLIENT_CTL_CTL_JSON_H

#include <jansson.h>

#include "client/ctl/ctl.h"

#define CTL_JSON_FORMAT 1

/* Adds "format", prints in the chosen way and releases. An exit status. */
int ctl_json_print(const Ctl *ctl, json_t *object);
/* One compact line at once, whatever the mode (streams). */
int ctl_json_print_line(const Ctl *ctl, json_t *object);
/* Never NULL and never invalid: what is not UTF-8 becomes U+FFFD. */
json_t *ctl_json_text(const char *text, size_t len_bytes);
json_t *ctl_json_model(const CoordgenModel *model);
json_t *ctl_json_pair(const CoordgenModelPair *pair);
json_t *ctl_json_result(const CoordgenGenerateResult *result);
json_t *ctl_json_error(int code, const char *message, const char *field, uint32_t retry_after_ms);
void ctl_json_set(json_t *object, const char *key, json_t *value); /* takes value over */

/* ctl_explain.c */
json_t *ctl_json_explanation(const CoordgenExplanation *explanation);
json_t *ctl_json_request(const CoordgenRequestInfo *request);

#endif
