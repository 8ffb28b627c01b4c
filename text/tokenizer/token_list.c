// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/token_list.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"

int token_list_add(TokenList *list, uint32_t id) {
    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        uint32_t *ids = realloc(list->ids, room * sizeof(*ids));

        if (!ids)
            return err_raise(-ENOMEM);
        list->ids = ids;
        list->room = room;
    }
    list->ids[list->n++] = id;
    return 0;
}

void token_list_deinit(TokenList *list) {
    free(list->ids);
    *list = (TokenList){ 0 };
}
