// SPDX-License-Identifier: Apache-2.0
/* Which parts of a source GGUF are used, ignored or refused here, with the reasons. The review is for users whose model
 * does not load, or answers differently than elsewhere. */
#ifndef COORDGEN_IMPORTER_SOURCE_REVIEW_H
#define COORDGEN_IMPORTER_SOURCE_REVIEW_H

#include "base/err.h"
#include "model/gguf/gguf.h"

typedef enum SourceFate {
    SOURCE_USED,
    SOURCE_IGNORED,
    SOURCE_REFUSED, /* the model is refused because of it */
} SourceFate;

const char *source_fate_name(SourceFate fate); /* "used", "ignored", "refused" */

/* Receives one finding. kind: "architecture", "key", "tensor", "tokenizer", "chat template". why: "" if a used thing
 * needs no explanation. name and why may hold text of the file; valid during the call. */
typedef void SourceReviewFn(void *arg, SourceFate fate, const char *kind, const char *name, const char *why);

/* Calls fn for each key and tensor in the order of the file, then for the file as a whole. Returns whether the model
 * can be imported; false for a package, without a finding. Writes nothing. */
bool source_review(const GgufFile *file, SourceReviewFn *fn, void *arg);

#endif
