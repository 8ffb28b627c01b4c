// SPDX-License-Identifier: Apache-2.0
#include "gateway/endpoints/model_json.h"

#include <stdbool.h>
#include <string.h>

#include "base/strings/json_text.h"

/* Adds a member that is known. */
static void set_known(json_t *object, const char *name, uint64_t value) {
    if (value)
        json_object_set_new(object, name, json_integer((json_int_t)value));
}

/* What only a loaded model tells. */
static json_t *meta_of(const CoordgenModel *model) {
    json_t *meta;

    if (model->state != COORDGEN_MODEL_READY)
        return json_null();
    meta = json_object();
    set_known(meta, "n_vocab", model->vocabulary);
    set_known(meta, "n_ctx_train", model->context_tokens);
    set_known(meta, "n_ctx", model->usable_context_tokens);
    set_known(meta, "n_embd", model->embedding_values);
    set_known(meta, "n_params", model->parameters);
    set_known(meta, "size", model->file_bytes ? model->file_bytes : model->weights_bytes);
    json_object_set_new(meta, "architecture", json_text(model->architecture));
    return meta;
}

static json_t *capabilities_of(const CoordgenModel *model) {
    json_t *list = json_pack("[s, s]", "completion", "embedding");

    if (!strncmp(model->chat_format, "template", strlen("template")))
        json_array_append_new(list, json_string("chat"));
    for (size_t i = 0; i < model->n_chat_takes; i++)
        json_array_append_new(list, json_text(model->chat_takes[i]));
    return list;
}

static json_t *status_of(const CoordgenModel *model) {
    static const char *const values[] = {
        [COORDGEN_MODEL_AVAILABLE] = "unloaded", [COORDGEN_MODEL_IMPORTING] = "loading",
        [COORDGEN_MODEL_LOADING] = "loading",    [COORDGEN_MODEL_READY] = "loaded",
        [COORDGEN_MODEL_FAILED] = "unloaded",
    };
    const size_t n = sizeof(values) / sizeof(values[0]);
    const char *value = (size_t)model->state < n ? values[model->state] : NULL;
    json_t *status = json_pack("{ss}", "value", value ? value : "unknown");

    if (model->state == COORDGEN_MODEL_FAILED)
        json_object_set_new(status, "failed", json_true());
    if (*model->detail)
        json_object_set_new(status, "detail", json_text(model->detail));
    return status;
}

json_t *model_json(const CoordgenModel *model) {
    json_t *object = json_pack("{so, ss, sI, ss, so, so}", "id", json_text(model->name), "object", "model", "created",
                               (json_int_t)model->file_time_s, "owned_by", "coordgen", "meta", meta_of(model), "status",
                               status_of(model));

    json_object_set_new(object, "default", json_boolean(model->is_default));
    if (model->state == COORDGEN_MODEL_READY)
        json_object_set_new(object, "capabilities", capabilities_of(model));
    return object;
}
