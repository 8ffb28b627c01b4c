// SPDX-License-Identifier: Apache-2.0
#include "daemon/models/model_message.h"

#include <string.h>

#include "weights/weights_report.h"

static Coordgen__V1__ModelPairState pair_state(const Model *target, const Model *draft) {
    if (!target || !draft)
        return COORDGEN__V1__MODEL_PAIR_STATE__MODEL_PAIR_STATE_ABSENT;
    if (!model_is_loaded(target))
        return COORDGEN__V1__MODEL_PAIR_STATE__MODEL_PAIR_STATE_IDLE;
    if (target->draft.model == draft && target->draft.state == MODEL_DRAFT_JOINED)
        return COORDGEN__V1__MODEL_PAIR_STATE__MODEL_PAIR_STATE_READY;
    if (target->draft.state == MODEL_DRAFT_UNFIT)
        return COORDGEN__V1__MODEL_PAIR_STATE__MODEL_PAIR_STATE_MISMATCH;
    if (draft->stage == MODEL_FAILED)
        return COORDGEN__V1__MODEL_PAIR_STATE__MODEL_PAIR_STATE_FAILED;
    return COORDGEN__V1__MODEL_PAIR_STATE__MODEL_PAIR_STATE_LOADING;
}

void model_describe_pair(Coordgen__V1__ModelPair *message, ModelRegistry *registry, const ModelPairEntry *pair,
                         bool with_paths) {
    const Model *target = model_registry_find(registry, pair->target);
    const Model *draft = *pair->draft ? model_registry_find(registry, pair->draft) : NULL;

    coordgen__v1__model_pair__init(message);
    message->target = (char *)(uintptr_t)pair->target;
    message->draft = (char *)(uintptr_t)pair->draft;
    message->has_is_stored = true;
    message->is_stored = pair->is_stored;
    if (!*pair->draft)
        return;
    message->has_state = true;
    message->state = pair_state(target, draft);
    if (message->state == COORDGEN__V1__MODEL_PAIR_STATE__MODEL_PAIR_STATE_MISMATCH)
        message->detail = target->draft.mismatch;
    else if (message->state == COORDGEN__V1__MODEL_PAIR_STATE__MODEL_PAIR_STATE_FAILED)
        message->detail = (char *)(uintptr_t)model_failure(draft, with_paths);
}

/* Fills in the draft model of a target and the targets of a draft model, by path or by name. */
static void describe_pairs(ModelMessage *message, const Model *model, bool with_paths) {
    const ModelPairs *pairs = model->registry->pairs;
    ModelPairEntry pair;

    if (model_pairs_find(pairs, model->name, &pair) && *pair.draft) {
        model_describe_pair(&message->draft, model->registry, &pair, with_paths);
        message->model.draft = &message->draft;
    }
    message->model.draft_of = (char **)(uintptr_t)message->draft_of; /* packing only reads the strings */
    message->model.n_draft_of = model_pairs_targets_of(pairs, model->name, message->draft_of, MODEL_DRAFT_OF_MAX);
}

static void describe_detail(const Model *model, bool with_paths, char *detail, size_t detail_room_bytes) {
    *detail = 0;
    if (model->stage == MODEL_FAILED)
        snprintf(detail, detail_room_bytes, "%s", model_failure(model, with_paths));
    else if (model->stage == MODEL_IMPORTING)
        snprintf(detail, detail_room_bytes, "import %u.%u %%", model->load.permille / 10, model->load.permille % 10);
    else if (model->stage == MODEL_LOADING && model->engine)
        snprintf(detail, detail_room_bytes, "weights %u.%u %%", model->load.permille / 10, model->load.permille % 10);
    else if (model_is_unloading(model))
        snprintf(detail, detail_room_bytes, "being unloaded");
}

/* Describes the reading of layers that are not in memory. */
static void describe_streaming(Coordgen__V1__Model *message, const Engine *engine) {
    const EngineInfo *info = engine_info(engine);
    const WeightsRingCounts counts = weights_flash_counts(engine_weights(engine));

    if (!info->weights.n_streamed_layers)
        return;
    message->has_layers = message->has_streamed_layers = message->has_pinned_bytes = message->has_sweep_bytes = true;
    message->layers = info->n_layers;
    message->streamed_layers = info->weights.n_streamed_layers;
    message->pinned_bytes = info->weights.resident_bytes - info->weights.ring_bytes;
    message->sweep_bytes = info->weights.sweep_bytes;
    message->has_read_bytes_per_s = counts.reading_ns > 0;
    if (counts.reading_ns)
        message->read_bytes_per_s = (uint64_t)((double)counts.read_bytes * 1e9 / (double)counts.reading_ns);
}

/* Describes the image of the weights. */
static void describe_image(ModelMessage *message, const Model *model, bool with_disk) {
    const ImageReport report = weights_image_report(engine_weights(model->engine));

    image_report_text(&report, with_disk, message->image, sizeof(message->image));
    if (report.state == IMAGE_NONE && model->load.no_image)
        snprintf(message->image, sizeof(message->image), "none: %s", model->load.no_image);
    message->model.image = message->image;
}

/* Describes the chat templates: which exist, and which kinds of messages they accept. */
static void describe_chat(ModelMessage *message, const ChatTemplate *chat) {
    const unsigned int takes = chat_template_takes(chat);

    chat_template_describe(chat, message->chat_format, sizeof(message->chat_format));
    message->model.chat_format = message->chat_format;
    message->model.chat_takes = (char **)(uintptr_t)message->chat_takes; /* packing only reads the strings */
    if (takes & CHAT_TAKES_TOOLS)
        message->chat_takes[message->model.n_chat_takes++] = "tools";
    if (takes & CHAT_TAKES_DOCUMENTS)
        message->chat_takes[message->model.n_chat_takes++] = "documents";
}

Coordgen__V1__ModelState model_wire_state(const Model *model) {
    static const Coordgen__V1__ModelState states[] = {
        [MODEL_AVAILABLE] = COORDGEN__V1__MODEL_STATE__MODEL_STATE_AVAILABLE,
        [MODEL_IMPORTING] = COORDGEN__V1__MODEL_STATE__MODEL_STATE_IMPORTING,
        [MODEL_LOADING] = COORDGEN__V1__MODEL_STATE__MODEL_STATE_LOADING,
        [MODEL_READY] = COORDGEN__V1__MODEL_STATE__MODEL_STATE_READY,
        [MODEL_UNLOADING] = COORDGEN__V1__MODEL_STATE__MODEL_STATE_READY,
        [MODEL_RELOADING] = COORDGEN__V1__MODEL_STATE__MODEL_STATE_READY,
        [MODEL_FAILED] = COORDGEN__V1__MODEL_STATE__MODEL_STATE_FAILED,
    };

    return states[model->stage];
}

void model_describe(ModelMessage *room, const Model *model, bool with_paths) {
    Coordgen__V1__Model *message = &room->model;

    assert_on_loop(model->registry->loop);
    coordgen__v1__model__init(message);
    message->name = model->name;
    message->path = with_paths ? model->source.shown_path : NULL;
    message->has_state = true;
    message->state = model_wire_state(model);
    message->has_is_default = true;
    message->is_default = model_is_default(model);
    message->has_default_by = message->is_default;
    if (message->is_default)
        message->default_by = (Coordgen__V1__ModelDefaultBy)model_registry_default_by(model->registry);
    describe_detail(model, with_paths, room->detail, sizeof(room->detail));
    message->detail = room->detail;
    message->has_file_bytes = model->source.bytes > 0;
    message->file_bytes = model->source.bytes;
    message->has_file_time_s = model->source.time_s > 0;
    message->file_time_s = model->source.time_s;
    message->has_setting_context_tokens = true;
    message->setting_context_tokens = config_context_tokens(model->registry->config, model->name);
    describe_pairs(room, model, with_paths);
    if (model->stage == MODEL_READY) {
        const EngineInfo *engine = engine_info(model->engine);

        message->architecture = (char *)engine->architecture;
        message->has_context_tokens = message->has_vocabulary = message->has_parameters = true;
        message->context_tokens = engine->n_context;
        message->has_usable_context_tokens = true;
        message->usable_context_tokens = model_context_tokens(model);
        message->vocabulary = engine->n_vocab;
        message->has_embedding_values = true;
        message->embedding_values = engine->n_embd;
        message->parameters = engine->n_parameters;
        message->has_weights_bytes = message->has_kv_bytes_per_token = true;
        message->weights_bytes = engine->weights.resident_bytes;
        message->kv_bytes_per_token = engine->kv_bytes_per_token;
        message->kv_type = (char *)engine->kv_type;
        message->kernel = (char *)engine->kernel;
        message->source_sha256 = (char *)engine->source_sha256;
        describe_streaming(message, model->engine);
        describe_image(room, model, with_paths);
        describe_chat(room, engine_chat_template(model->engine));
    }
}
