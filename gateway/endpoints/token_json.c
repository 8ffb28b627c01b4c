// SPDX-License-Identifier: Apache-2.0
#include "gateway/endpoints/token_json.h"

#include "base/cleanup.h"
#include "base/strings/utf8.h"

int token_ids_read(const json_t *list, const char *path, uint32_t **tokensp, size_t *n_tokensp, ApiError *error) {
    const size_t n = json_array_size(list);
    _cleanup_(freep) uint32_t *tokens = calloc(n + 1, sizeof(*tokens));

    if (!tokens)
        return api_error_no_memory(error);
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(list, i);
        const json_int_t id = json_integer_value(value);

        if (!json_is_integer(value) || id < 0 || id > UINT32_MAX)
            return api_error_field(error, path, "%s[%zu] must be a token id: an integer from 0 on", path, i);
        tokens[i] = (uint32_t)id;
    }
    *tokensp = steal(&tokens);
    *n_tokensp = n;
    return 0;
}

json_t *token_piece_json(const char *piece, size_t len_bytes) {
    json_t *list;

    if (utf8_is_valid(piece, len_bytes))
        return json_stringn(piece, len_bytes);
    list = json_array();
    for (size_t i = 0; i < len_bytes; i++)
        if (json_array_append_new(list, json_integer((unsigned char)piece[i]))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

json_t *token_list_json(const CoordgenReply *reply, bool with_pieces) {
    size_t n_tokens, len_bytes;
    const uint32_t *ids = coordgen_reply_tokens(reply, &n_tokens);
    json_t *list = json_array();

    for (size_t i = 0; i < n_tokens; i++) {
        const char *piece = coordgen_reply_piece(reply, i, &len_bytes);
        json_t *one = with_pieces ? json_pack("{sI, so}", "id", (json_int_t)ids[i], "piece",
                                              token_piece_json(piece ? piece : "", len_bytes))
                                  : json_integer(ids[i]);

        if (json_array_append_new(list, one)) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}
