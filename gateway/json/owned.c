// SPDX-License-Identifier: Apache-2.0
#include "gateway/json/owned.h"

#include <stdlib.h>

#include "base/min_max.h"

void *owned_take(Owned *owned, void *item) {
    if (item && owned->n == owned->room) {
        const size_t room = MAX(owned->room * 2, (size_t)8);
        void **more = realloc(owned->items, room * sizeof(*more));

        if (!more) {
            free(item);
            return NULL;
        }
        owned->items = more;
        owned->room = room;
    }
    if (item)
        owned->items[owned->n++] = item;
    return item;
}

void *owned_array(Owned *owned, size_t n, size_t element_bytes) {
    return owned_take(owned, calloc(MAX(n, (size_t)1), element_bytes));
}

int owned_json(Owned *owned, const json_t *value, const char **textp, ApiError *error) {
    const char *text = owned_take(owned, json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY));

    if (!text)
        return api_error_no_memory(error);
    *textp = text;
    return 0;
}

void owned_deinit(Owned *owned) {
    for (size_t i = 0; i < owned->n; i++)
        free(owned->items[i]);
    free(owned->items);
    *owned = (Owned){ 0 };
}
