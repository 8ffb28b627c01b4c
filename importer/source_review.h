// SPDX-License-Identifier: Apache-2.0
/* What of a source GGUF is used here, what is passed over and what is refused, with the reasons: for people who wonder
 * why a model does not load, or says other things than elsewhere. */
#ifndef COORDGEN_IMPORTER_SOURCE_REVIEW_H
#define COORDGEN_IMPORTER_SOURCE_REVIEW_H

#include "base/err.h"
#include "model/gguf/gguf.h"

typedef enum SourceFate {
    SOURCE_USED,
    SOURCE_IGNORED,
    SOURCE_REFUSED, /* the model is, because of it */
} SourceFate;

const char *source_fate_name(SourceFate fate); /* "used", "ignored", "refused" */

/* kind: "architecture", "key", "tensor", "tokenizer", "chat template". why: "" of what is used without more to say.
 * Both texts may hold what the file has; valid during the call. */
typedef void SourceReviewFn(void *arg, SourceFate fate, const char *kind, const char *name, const char *why);

/* Calls fn for each key and tensor, in the order of the file, and for what they are together. Whether the model can be
 * imported; false for a package, of which nothing is told. Nothing is written. */
bool source_review(const GgufFile *file, SourceReviewFn *fn, void *arg);

#endif
