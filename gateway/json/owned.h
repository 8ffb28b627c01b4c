// SPDX-License-Identifier: Apache-2.0
/* Memory that a request makes of its body: texts and lists that live as long as the request. */
#ifndef COORDGEN_GATEWAY_OWNED_H
#define COORDGEN_GATEWAY_OWNED_H

#include <stddef.h>

#include "gateway/json/api_error.h"

typedef struct Owned {
    void **items;
    size_t n, room;
} Owned;

/* Takes memory of malloc() over. Returns it; NULL: out of memory, and the item is freed. An item of NULL gives NULL. */
void *owned_take(Owned *owned, void *item);
/* Makes n elements of zeros. NULL: out of memory. */
void *owned_array(Owned *owned, size_t n, size_t element_bytes);
/* Makes the text of a JSON value. 0 or API_E_REFUSED. */
int owned_json(Owned *owned, const json_t *value, const char **textp, ApiError *error);
void owned_deinit(Owned *owned);

#endif
