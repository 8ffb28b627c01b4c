// SPDX-License-Identifier: Apache-2.0
#include "daemon/models/model_options.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file_io.h"
#include "base/log.h"
#include "weights/image/weights_image.h"

/* Returns the open file if a client has handed over the package itself; NULL: the package has a path. */
static const int *package_fd_of(const Model *model) {
    return model->source.fd >= 0 && !strcmp(model->source.path, model->load.package_path) ? &model->source.fd : NULL;
}

/* Tells whether some of the model's weights may stay on disk. A draft model must be fast, so all of its weights are in
 * memory. */
static bool may_stream(const Model *model) {
    const char *targets[1];

    return config_load_options(model->registry->config, model->name).weights.memory.is_set &&
           model_device(model)->reads_packages &&
           !model_pairs_targets_of(model->registry->pairs, model->name, targets, ARRAY_LEN(targets));
}

/* Tells whether the load needs an image: layers on disk and static graphs are read from one. */
static bool needs_image(const Model *model) {
    return may_stream(model) || model_device(model)->has_graphs;
}

/* Returns why a model that needs no image gets none; NULL: it may have one. */
static const char *no_image(const Model *model) {
    const Config *config = model->registry->config;

    if (config->load.weights.image == WEIGHTS_IMAGE_OFF)
        return "weights-image is off";
    if (!model_device(model)->reads_packages)
        return "this device reads the source";
    if (model->load.image == MODEL_IMAGE_FAILED)
        return "a load with one has failed";
    if (config->load.weights.checking == WEIGHTS_CHECKING_ALL)
        return "verify-packages is on";
    if (package_fd_of(model))
        return "an open file was handed over, which may have no path here";
    return NULL;
}

/* Chooses the path of the image. If all weights fit into memory, a load without an image is only slower. */
static void choose_image_path(Model *model) {
    const Config *config = model->registry->config;
    char path[PATH_MAX];

    free(model->load.image_path);
    model->load.image_path = NULL;
    model->load.no_image = needs_image(model) ? NULL : no_image(model);
    if (model->load.no_image) {
        log_info(TOPIC_DAEMON, "model %s: no image of the weights: %s", model->name, model->load.no_image);
        return;
    }
    if (!weights_image_path(path, sizeof(path), config->cache_dir, model->load.package_path))
        model->load.image_path = strdup(path);
    if (model->load.image_path)
        return;
    model->load.no_image = "the path of cache-dir is too long";
    log_warn(TOPIC_DAEMON, "model %s: no image of the weights: %s", model->name, model->load.no_image);
}

/* Notes whether the load may use an image, unless a load with one has failed. */
static void note_image(Model *model) {
    const char *path = model->load.image_path;

    if (model->load.image != MODEL_IMAGE_FAILED)
        model_set_image(model,
                        path && (needs_image(model) || !access(path, F_OK)) ? MODEL_IMAGE_USED : MODEL_IMAGE_UNUSED);
}

void model_choose_options(Model *model, EngineOptions *options) {
    const Config *config = model->registry->config;

    choose_image_path(model);
    note_image(model);
    *options = (EngineOptions){
        .load = config_load_options(config, model->name),
        .path = model->load.package_path,
        .fd = package_fd_of(model),
        .accounts = model->registry->accounts,
        .prefix_cache = model->registry->prefix_cache,
        .cache_dir = config->cache_dir,
        .arriving = true,
        .image_path = model->load.image_path,
        .new_image = model->load.image == MODEL_IMAGE_FAILED,
        .chat_template = model->registry->chat_template,
        .chat_template_bytes = model->registry->chat_template_bytes,
    };
    if (!may_stream(model))
        options->load.weights.memory = (WeightsMemory){ 0 };
}

/* --- chat template ---------------------------------------------------------------------------------------------- */

/* Reads the template's file and drops a byte order mark. */
static int slurp_chat_template(const Config *config, char **textp, size_t *len_bytesp, ErrText *err) {
    int r = file_slurp(config->models.chat_template, JINJA_SOURCE_BYTES_MAX, textp, len_bytesp, err);
    size_t skipped;

    if (r) {
        err_prefix(err, "chat-template");
        return r;
    }
    skipped = file_byte_order_mark(*textp, *len_bytesp);
    *len_bytesp -= skipped;
    memmove(*textp, *textp + skipped, *len_bytesp);
    return 0;
}

int model_registry_read_chat_template(ModelRegistry *registry, ErrText *err) {
    const Config *config = registry->config;
    _cleanup_(freep) char *text = NULL;
    size_t len_bytes;
    int r;

    if (!*config->models.chat_template)
        return 0;
    r = slurp_chat_template(config, &text, &len_bytes, err);
    if (r)
        return r > 0 ? -EINVAL : r;
    registry->chat_template_bytes = len_bytes;
    registry->chat_template = steal(&text);
    return 0;
}

int model_check_chat_template(const Config *config, ErrText *err) {
    _cleanup_(chat_template_deinit) ChatTemplate chat = { 0 };
    _cleanup_(freep) char *text = NULL;
    size_t len_bytes;
    int r;

    if (!*config->models.chat_template)
        return 0;
    r = slurp_chat_template(config, &text, &len_bytes, err);
    if (r)
        return r;
    r = chat_template_parse(&chat, text, len_bytes);
    if (r)
        return r;
    return chat.jinja ? 0
                      : err_set(err, CONFIG_E_SETTING, "chat-template: %.256s: %s", config->models.chat_template,
                                chat.why.text);
}
