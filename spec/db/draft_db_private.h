// SPDX-License-Identifier: Apache-2.0
/* The draft database to its own parts; others include spec/db/draft_db.h. */
#ifndef COORDGEN_SPEC_DRAFT_DB_PRIVATE_H
#define COORDGEN_SPEC_DRAFT_DB_PRIVATE_H

#include "spec/db/draft_db_file.h"
#include "spec/db/draft_db_types.h"

struct DraftDb {
    DraftDbFile file;
    DraftDbLimits limits;
    bool has_trimmed;  /* whether documents were checked for their age */
    int64_t trimmed_s; /* when they were, as DraftDbMoment.ran_s */
};

#endif
