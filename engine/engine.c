// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/files/file_io.h"
#include "base/log.h"
#include "base/memory/account_refusal.h"
#include "base/strings/printable.h"
#include "engine/constraint/constraint_vocabulary.h"
#include "engine/step/step_parts.h"
#include "engine/step/step_state.h"
#include "model/hparams/hparams_keys.h"
#include "model/package/package_checksum.h"
#include "text/tokenizer/tokenizer_load.h"

static void fill_info(Engine *engine, const GgufFile *file) {
    const Hparams *hparams = &engine->hparams;
    const Backend *backend = engine->backend;
    const GgufArray *checksums;
    GgufString sha256;

    engine->kv.plane_bytes =
        backend->ops->kv_block_positions * hparams->n_kv_heads * backend->ops->kv_row_bytes(hparams->head_size);
    engine->kv.page_bytes = 2 * (size_t)hparams->n_layers * engine->kv.plane_bytes;
    engine->info = (EngineInfo){
        .name = engine->name,
        .architecture = hparams->arch->name,
        .device = backend->ops->name,
        .kernel = backend->ops->kernel(backend),
        .n_vocab = hparams->n_vocab,
        .n_layers = hparams->n_layers,
        .n_embd = hparams->n_embd,
        .pooling = hparams->pooling,
        .n_context = hparams->n_context,
        .n_parameters = weights_counts(engine->weights)->n_parameters,
        .kv_bytes_per_token = engine->kv.page_bytes / backend->ops->kv_block_positions,
        .layer_products = weights_counts(engine->weights)->layer_products,
        .head_products = weights_counts(engine->weights)->head_products,
        .kv_type = backend->ops->kv_type,
    };
    engine_count_weights(engine);
    if (!gguf_get_string(file, PACKAGE_KEY_SOURCE_SHA256, &sha256, NULL) &&
        sha256.len_bytes < sizeof(engine->info.source_sha256))
        printable_put(engine->info.source_sha256, sizeof(engine->info.source_sha256), sha256.data, sha256.len_bytes);
    if (!gguf_get_array(file, PACKAGE_KEY_CHECKSUMS, GGUF_U8, &checksums, NULL))
        sha256_hex(checksums->data, (size_t)checksums->n, engine->info.package_sha256);
}

static char *model_name(const GgufFile *file) {
    const char *path = gguf_path(file), *slash = strrchr(path, '/');
    GgufString name;

    Printable shown;

    if (!gguf_get_string(file, "general.name", &name, NULL) && name.len_bytes)
        return strdup(printable(&shown, name.data, name.len_bytes));
    return printable_dup(slash ? slash + 1 : path, NAME_MAX);
}

static const BackendDevice *device_of(const EngineOptions *options) {
    return options->own_device ? options->own_device : engine_device(options->load.device);
}

static int load_weights(Engine *engine, const EngineOptions *options, const GgufFile *file, Package *package,
                        ErrText *err) {
    uint32_t features;
    int r;

    r = isa_select(options->load.isa, &features, err);
    if (r)
        return r;
    r = device_of(options)->make(&engine->backend, features, options->pool, options->accounts, err);
    if (r)
        return r;
    layer_graph_init(&engine->steps->layer, engine->hparams.arch, engine->backend->ops->fuses);
    r = weights_new(&engine->weights, engine->backend, &engine->hparams,
                    &(WeightsSource){ .file = file,
                                      .package = package,
                                      .check = engine->files.check,
                                      .image_path = options->image_path,
                                      .new_image = options->new_image,
                                      .heartbeat = options->heartbeat,
                                      .tracep = &engine->trace },
                    &options->load.weights, err);
    return engine_weights_error(r);
}

/* Takes in the embedding, or the part of it that arrives before the tokenizer is loaded. */
static int take_in_until(Engine *engine, const TokenizerLoad *tokenizer, ErrText *err) {
    int r = 0;

    while (!r && !weights_have(engine->weights, 0) && !tokenizer_load_is_done(tokenizer))
        r = engine_weights_error(weights_advance(engine->weights, err));
    return r;
}

static void trace_load(Engine *engine, const char *name, uint64_t start_ns, uint64_t end_ns, TraceLane lane) {
    if (engine->trace)
        trace_add(engine->trace, &(TraceEvent){ name, "load", start_ns, end_ns, -1, 0, 0, lane, 0 });
}

static int check_package(Engine *engine, const EngineOptions *options, const Package *package, ErrText *err) {
    int r = package ? weights_check_new(&engine->files.check, package, options->load.weights.checking,
                                        options->cache_dir, err)
                    : 0;

    return r > 0 ? ENGINE_E_MODEL : r;
}

/* Loads checksums and weights, and the tokenizer meanwhile. Errors of the package's head are reported first, because
 * the tokenizer may be made of it; then those of the tokenizer, then those of the weights. */
static int load_parts(Engine *engine, const EngineOptions *options, const GgufFile *file, Package *package,
                      ErrText *err) {
    ErrText weights_err = { 0 }, head_err = { 0 };
    TokenizerLoad tokenizer;
    int head_r, weights_r = 0, r;

    tokenizer_load_begin(&tokenizer, file, options->chat_template, options->chat_template_bytes);
    head_r = check_package(engine, options, package, &head_err);
    if (!head_r)
        weights_r = load_weights(engine, options, file, package, &weights_err);
    if (!head_r && !weights_r)
        weights_r = options->arriving ? take_in_until(engine, &tokenizer, &weights_err)
                                      : engine_take_in_all(engine, &weights_err);
    r = tokenizer_load_end(&tokenizer, &engine->text.tokenizer, err);
    trace_load(engine, "tokenizer", tokenizer.start_ns, tokenizer.end_ns, TRACE_LANE_TOKENIZER);
    if (head_r) {
        *err = head_err;
        return head_r;
    }
    if (r)
        return r < 0 ? r : ENGINE_E_MODEL;
    if (weights_r)
        *err = weights_err;
    return weights_r;
}

#define CHAT_ROOM_BYTES (UINT64_C(4) << 20) /* memory of a chat that does not grow with its texts */

/* Charges the tables after the load: only then is their size known. */
static int charge_tokenizer(Engine *engine, ErrText *err) {
    const uint64_t len_bytes =
        tokenizer_memory_bytes(engine->text.tokenizer) + chat_template_memory_bytes(&engine->text.chat);

    const int r = account_charge(engine->accounts, ACCOUNT_WEIGHTS, &engine->text.bill, len_bytes);

    return r ? account_refused(err, ENGINE_E_MEMORY, r, engine->accounts, ACCOUNT_WEIGHTS, len_bytes,
                               "the tokenizer and the chat template")
             : 0;
}

static int engine_load(Engine *engine, const EngineOptions *options, const GgufFile *file, Package *package,
                       ErrText *err) {
    int r;

    r = hparams_read(&engine->hparams, file, err);
    if (r)
        return r < 0 ? r : ENGINE_E_MODEL;
    if (!package && (r = hparams_check_tensors(&engine->hparams, file, err)))
        return r < 0 ? r : ENGINE_E_MODEL;
    hparams_keys_warn(file, engine->hparams.arch->name);
    r = chat_template_init(&engine->text.chat, file, options->chat_template, options->chat_template_bytes);
    if (r)
        return err_set(err, r, "out of memory");
    engine->name = model_name(file);
    if (!engine->name)
        return err_no_memory(err);
    r = load_parts(engine, options, file, package, err);
    if (r)
        return r;
    if (tokenizer_n_tokens(engine->text.tokenizer) > engine->hparams.n_vocab)
        return err_set(err, ENGINE_E_MODEL, "%s: %u tokens in the tokenizer, but the embedding has %u rows",
                       gguf_path(file), tokenizer_n_tokens(engine->text.tokenizer), engine->hparams.n_vocab);
    r = charge_tokenizer(engine, err);
    if (r)
        return r;
    r = engine_reserve_chunk(engine, options->load.chunk_tokens, err);
    if (r)
        return r;
    fill_info(engine, file);
    sampling_defaults_read(engine->sampling, file);
    return 0;
}

/* Loads from a map that may be cut short meanwhile; what was read of it does not count then. */
static int load_whole(Engine *engine, const EngineOptions *options, const GgufFile *file, Package *package,
                      ErrText *err) {
    int r = engine_load(engine, options, file, package, err);

    return gguf_check_whole(file, err) ? ENGINE_E_MODEL : r;
}

/**
 * engine_new() - load a model onto a device
 * @options: pool and accounts outlive the engine; the rest is copied
 *
 * The cpu device copies what it needs and closes the package. The reference device keeps the GGUF mapped, and an image
 * stays mapped too: if one of these files is cut short, steps answer ENGINE_E_READ (see map_guard_install()). With
 * options->arriving all memory is reserved and all but the weights is checked, while the weights of a package are still
 * on their way: see engine_arrive(). Thread: the one that will compute.
 * Return: 0, ENGINE_E_MODEL, ENGINE_E_MEMORY or -errno, with a text that names the file and what is wrong in it.
 */
int engine_new(Engine **enginep, const EngineOptions *options, ErrText *err) {
    _cleanup_(engine_freep) Engine *engine = NULL;
    const uint64_t start_ns = clock_now_ns();
    int r;

    if (options->load.chunk_tokens > ENGINE_CHUNK_MAX)
        return err_set(err, -EINVAL, "chunk of %u tokens is outside 1..%d", options->load.chunk_tokens,
                       ENGINE_CHUNK_MAX);
    engine = calloc(1, sizeof(*engine));
    if (!engine)
        return err_no_memory(err);
    engine->accounts = options->accounts;
    speculation_memory_init(&engine->speculation, options->accounts);
    engine->heartbeat = options->heartbeat;
    engine->kv.prefix_cache = options->prefix_cache;
    engine->trace = options->trace;
    engine->sampling = calloc(1, sizeof(*engine->sampling));
    if (!engine->sampling || engine_steps_new(engine, &options->load))
        return err_no_memory(err);
    if (!device_of(options)->reads_packages) {
        r = options->fd ? gguf_open_fd(&engine->files.gguf, *options->fd, options->path, err)
                        : gguf_open(&engine->files.gguf, options->path, err);
        if (!r && gguf_key(engine->files.gguf, PACKAGE_KEY_FORMAT_VERSION))
            r = err_set(err, ENGINE_E_MODEL, "%s: a package; the %s device reads the .gguf that it was made of",
                        options->path, device_of(options)->name);
        else if (!r)
            r = load_whole(engine, options, engine->files.gguf, NULL, err);
        else if (r > 0)
            r = ENGINE_E_MODEL;
    } else {
        r = options->fd ? package_open_fd(&engine->files.package, *options->fd, options->path, err)
                        : package_open(&engine->files.package, options->path, err);
        if (!r)
            r = load_whole(engine, options, package_file(engine->files.package), engine->files.package, err);
        else if (r > 0)
            r = ENGINE_E_MODEL;
    }
    if (r)
        return r;
    if (!weights_are_arriving(engine->weights))
        engine_has_arrived(engine);
    trace_load(engine, "load", start_ns, clock_now_ns(), TRACE_LANE_ENGINE);
    *enginep = steal(&engine);
    return 0;
}

Engine *engine_free(Engine *engine) {
    if (!engine)
        return NULL;
    assert(!engine->kv.n_sequences);
    if (engine->kv.prefix_cache)
        prefix_cache_drop_model(engine->kv.prefix_cache, engine);
    engine_steps_free(engine);
    weights_free(engine->weights);
    backend_free(engine->backend);
    if (engine->text.vocabulary)
        constraint_vocabulary_close(engine->text.vocabulary);
    constraint_vocabulary_unref(engine->text.vocabulary);
    tokenizer_free(engine->text.tokenizer);
    chat_template_deinit(&engine->text.chat);
    bill_settle(&engine->text.bill);
    gguf_free(engine->files.gguf);
    weights_check_free(engine->files.check);
    package_free(engine->files.package); /* after the weights, which a thread may still read from it */
    speculation_memory_deinit(&engine->speculation);
    free(engine->sampling);
    free(engine->name);
    free(engine);
    return NULL;
}

const SamplingDefaults *engine_sampling_defaults(const Engine *engine) {
    return engine->sampling;
}

int engine_charge_text(Engine *engine, Bill *bill, size_t len_bytes, ErrText *err) {
    const uint64_t scratch_bytes = (uint64_t)len_bytes * TOKENIZER_SCRATCH_BYTES;

    int r;

    engine_make_room(engine, ACCOUNT_ACTIVATIONS, scratch_bytes);
    r = account_charge(engine->accounts, ACCOUNT_ACTIVATIONS, bill, scratch_bytes);
    return r ? account_refused(err, ENGINE_E_MEMORY, r, engine->accounts, ACCOUNT_ACTIVATIONS, scratch_bytes,
                               "the tokens of a text of %zu bytes", len_bytes)
             : 0;
}

const CallShape *engine_call_shape(const Engine *engine) {
    return chat_template_calls(&engine->text.chat, engine->text.tokenizer);
}

ThinkingMarks engine_thinking_marks(const Engine *engine) {
    return chat_template_thinking(&engine->text.chat, engine->text.tokenizer);
}

/* Rendering charges memory as it goes. If a charge is refused, kept prompts make way and the chat is rendered again. */
int engine_encode_chat(Engine *engine, const ChatInput *input, TokenList *list, ErrText *err) {
    ChatInput charged = *input;
    uint64_t len_bytes = CHAT_ROOM_BYTES;
    int r;

    charged.accounts = engine->accounts;
    charged.account = ACCOUNT_ACTIVATIONS;
    r = chat_template_encode(&engine->text.chat, engine->text.tokenizer, &charged, list, err);
    if (r != CHAT_E_MEMORY)
        return r;
    for (size_t i = 0; i < input->n_messages; i++)
        len_bytes += 2 * TOKENIZER_SCRATCH_BYTES * (uint64_t)chat_message_bytes(&input->messages[i]);
    len_bytes += 2 * TOKENIZER_SCRATCH_BYTES *
                 (uint64_t)(input->tools_bytes + input->documents_bytes + input->answer_prefix_bytes);
    engine_make_room(engine, ACCOUNT_ACTIVATIONS, len_bytes);
    return chat_template_encode(&engine->text.chat, engine->text.tokenizer, &charged, list, err);
}

int engine_render_chat(Engine *engine, const ChatInput *input, StrBuf *text, ErrText *err) {
    ChatInput charged = *input;

    charged.accounts = engine->accounts;
    charged.account = ACCOUNT_ACTIVATIONS;
    return chat_template_render(&engine->text.chat, engine->text.tokenizer, &charged, text, err);
}
