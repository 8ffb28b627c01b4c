// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/files/file_io.h"
#include "base/log.h"
#include "base/memory/account_refusal.h"
#include "base/strings/printable.h"
#include "engine/engine_private.h"
#include "model/hparams/hparams_keys.h"
#include "model/package/package_checksum.h"
#include "text/tokenizer/tokenizer_load.h"

/* They grow while weights arrive. */
static void fill_weight_bytes(Engine *engine) {
    const WeightsCounts *counts = weights_counts(engine->weights);

    engine->info.weights_bytes = counts->resident_bytes;
    engine->info.step_read_bytes = counts->resident_bytes - counts->embedding_bytes;
    if (weights_ring(engine->weights)) {
        const WeightsRingCounts ring = weights_ring_counts(weights_ring(engine->weights));

        engine->info.n_streamed_layers =
            engine->hparams.n_layers - weights_ring_first_layer(weights_ring(engine->weights));
        engine->info.sweep_bytes = ring.sweep_bytes;
        engine->info.ring_bytes = ring.slots_bytes;
        engine->info.step_read_bytes += ring.sweep_bytes - ring.slots_bytes;
    }
    if (weights_graphs(engine->weights)) {
        const WeightsGraphsCounts graphs = weights_graphs_counts(weights_graphs(engine->weights));

        engine->info.weights_bytes += graphs.graph_bytes;
        engine->info.step_read_bytes += graphs.graph_bytes;
    }
    engine->info.is_mapped = weights_are_mapped(engine->weights);
    if (engine->check)
        engine->info.compared_bytes = weights_check_compared_bytes(engine->check);
}

static void fill_info(Engine *engine, const GgufFile *file) {
    const Hparams *hparams = &engine->hparams;
    const Backend *backend = engine->backend;
    const GgufArray *checksums;
    GgufString sha256;

    engine->kv_plane_bytes =
        backend->ops->kv_block_positions * hparams_dim(hparams, DIM_KV) * backend->ops->kv_element_bytes;
    engine->kv_page_bytes = 2 * (size_t)hparams->n_layers * engine->kv_plane_bytes;
    engine->info = (EngineInfo){
        .name = engine->name,
        .architecture = hparams->arch->name,
        .device = backend->ops->name,
        .kernel = backend->ops->kernel(backend),
        .n_vocab = hparams->n_vocab,
        .n_layers = hparams->n_layers,
        .n_embd = hparams->n_embd,
        .n_context = hparams->n_context,
        .n_parameters = weights_counts(engine->weights)->n_parameters,
        .kv_bytes_per_token = engine->kv_page_bytes / backend->ops->kv_block_positions,
        .layer_products = weights_counts(engine->weights)->layer_products,
        .head_products = weights_counts(engine->weights)->head_products,
        .kv_type = backend->ops->kv_type,
    };
    fill_weight_bytes(engine);
    if (!gguf_get_string(file, PACKAGE_KEY_SOURCE_SHA256, &sha256, NULL) &&
        sha256.len_bytes < sizeof(engine->info.source_sha256))
        printable_put(engine->info.source_sha256, sizeof(engine->info.source_sha256), sha256.data, sha256.len_bytes);
    if (!gguf_get_array(file, PACKAGE_KEY_CHECKSUMS, GGUF_U8, &checksums, NULL))
        sha256_hex(checksums->data, (size_t)checksums->n, engine->info.package_sha256);
}

uint64_t engine_kv_read_bytes(const Engine *engine, uint64_t n_positions) {
    const Hparams *hparams = &engine->hparams;

    return engine->info.kv_bytes_per_token / hparams->n_layers * hparams_read_positions(hparams, n_positions);
}

static char *model_name(const GgufFile *file) {
    const char *path = gguf_path(file), *slash = strrchr(path, '/');
    GgufString name;

    Printable shown;

    if (!gguf_get_string(file, "general.name", &name, NULL) && name.len_bytes)
        return strdup(printable(&shown, name.data, name.len_bytes));
    return printable_dup(slash ? slash + 1 : path, NAME_MAX);
}

static int weights_error(int r) {
    return r <= 0 ? r : r == BACKEND_E_MEMORY ? ENGINE_E_MEMORY : ENGINE_E_MODEL;
}

static const BackendDevice *device_of(const EngineOptions *options) {
    return options->own_device ? options->own_device : engine_device(options->device);
}

static int load_weights(Engine *engine, const EngineOptions *options, const GgufFile *file, Package *package,
                        ErrText *err) {
    uint32_t features;
    int r;

    r = isa_select(options->isa, &features, err);
    if (r)
        return r;
    r = device_of(options)->make(&engine->backend, features, options->pool, options->accounts, err);
    if (r)
        return r;
    layer_graph_init(&engine->layer, engine->hparams.arch, engine->backend->ops->fuses);
    r = weights_new(
        &engine->weights, engine->backend, &engine->hparams, file, package,
        &(WeightsOptions){
            .reading = options->reading,
            .heartbeat = options->heartbeat,
            .check = engine->check,
            .image_path = options->checking == WEIGHTS_CHECKING_ALL && !options->weights_memory.is_set &&
                                  !engine->backend->ops->linear_shape
                              ? NULL
                              : options->image_path,
            .image_how = (options->optional_image ? WEIGHTS_IMAGE_OPTIONAL : 0) |
                         (options->new_image || options->checking == WEIGHTS_CHECKING_ALL ? WEIGHTS_IMAGE_ANEW : 0),
            .memory = options->weights_memory,
            .flash_limit = options->flash_limit,
            .limits_all = options->limits_all,
            .graphs = options->graphs,
            .tracep = &engine->trace,
        },
        err);
    return weights_error(r);
}

int engine_take_in_all(Engine *engine, ErrText *err) {
    int r = 0;

    while (!r && weights_are_arriving(engine->weights))
        r = weights_error(weights_advance(engine->weights, err));
    return r;
}

/* The embedding, or as much of it as comes until the tokenizer is there. */
static int take_in_until(Engine *engine, const TokenizerLoad *tokenizer, ErrText *err) {
    int r = 0;

    while (!r && !weights_have(engine->weights, 0) && !tokenizer_load_is_done(tokenizer))
        r = weights_error(weights_advance(engine->weights, err));
    return r;
}

static void trace_load(Engine *engine, const char *name, uint64_t start_ns, uint64_t end_ns, TraceLane lane) {
    if (engine->trace)
        trace_add(engine->trace, &(TraceEvent){ name, "load", start_ns, end_ns, -1, 0, 0, lane, 0 });
}

static int check_package(Engine *engine, const EngineOptions *options, const Package *package, ErrText *err) {
    int r = package ? weights_check_new(&engine->check, package, options->checking, options->cache_dir, err) : 0;

    return r > 0 ? ENGINE_E_MODEL : r;
}

/* Checksums and weights, and meanwhile the tokenizer, whose fault is told before that of the weights, and behind that
 * of the head, which it may be made of. */
static int load_parts(Engine *engine, const EngineOptions *options, const GgufFile *file, Package *package,
                      ErrText *err) {
    ErrText weights_err = { "" }, head_err = { "" };
    TokenizerLoad tokenizer;
    int head_r, weights_r = 0, r;

    tokenizer_load_begin(&tokenizer, file, options->chat_template, options->chat_template_bytes);
    head_r = check_package(engine, options, package, &head_err);
    if (!head_r)
        weights_r = load_weights(engine, options, file, package, &weights_err);
    if (!head_r && !weights_r)
        weights_r = options->arriving ? take_in_until(engine, &tokenizer, &weights_err)
                                      : engine_take_in_all(engine, &weights_err);
    r = tokenizer_load_end(&tokenizer, &engine->tokenizer, err);
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

#define CHAT_ROOM_BYTES (UINT64_C(4) << 20) /* that a chat may take beside what goes with its texts */

/* Behind the load, for only then their size is known. */
static int charge_tokenizer(Engine *engine, ErrText *err) {
    const uint64_t len_bytes = tokenizer_memory_bytes(engine->tokenizer) + chat_template_memory_bytes(&engine->chat);

    const int r = account_charge(engine->accounts, ACCOUNT_WEIGHTS, &engine->tokenizer_bill, len_bytes);

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
    r = chat_template_init(&engine->chat, file, options->chat_template, options->chat_template_bytes);
    if (r)
        return err_set(err, r, "out of memory");
    engine->name = model_name(file);
    if (!engine->name)
        return err_set(err, -ENOMEM, "out of memory");
    r = load_parts(engine, options, file, package, err);
    if (r)
        return r;
    if (tokenizer_n_tokens(engine->tokenizer) > engine->hparams.n_vocab)
        return err_set(err, ENGINE_E_MODEL, "%s: %u tokens in the tokenizer, but the embedding has %u rows",
                       gguf_path(file), tokenizer_n_tokens(engine->tokenizer), engine->hparams.n_vocab);
    r = charge_tokenizer(engine, err);
    if (r)
        return r;
    r = engine_reserve_chunk(engine, options, err);
    if (r)
        return r;
    fill_info(engine, file);
    sampling_defaults_read(&engine->sampling, file);
    return 0;
}

/* What was read of a map that was cut short meanwhile does not count, whatever came of it. */
static int load_whole(Engine *engine, const EngineOptions *options, const GgufFile *file, Package *package,
                      ErrText *err) {
    int r = engine_load(engine, options, file, package, err);

    return gguf_check_whole(file, err) ? ENGINE_E_MODEL : r;
}

/* All weights are there. */
static void arrived(Engine *engine) {
    const WeightsArrivalWay *way = weights_way(engine->weights);
    const EngineInfo *info = &engine->info;

    fill_weight_bytes(engine);
    if (weights_were_compared(engine->weights))
        weights_check_passed(engine->check);
    engine->check = weights_check_free(engine->check);
    engine->package = package_free(engine->package);
    log_info(TOPIC_ENGINE,
             "loaded '%s': %s, %u layers, %" PRIu64 " MB of weights, kernel %s; %" PRIu64 " MB were in the page cache, "
             "%" PRIu64 " MB read (%s), %.1f MB compared with checksums",
             info->name, info->architecture, info->n_layers, info->weights_bytes / 1000000, info->kernel,
             way->cached_bytes / 1000000, way->read_bytes / 1000000, way->way, (double)info->compared_bytes / 1e6);
}

/**
 * engine_new() - load a model onto a device
 * @options: pool and accounts outlive the engine; the rest is copied
 *
 * The cpu device copies what it needs and closes the package; the reference device keeps the GGUF mapped, and an image
 * stays mapped too: when one of them is cut short, steps answer ENGINE_E_READ (see map_guard_install()). With
 * options->arriving all memory is taken and all that is not a weight is checked, while the weights of a package are
 * still on their way: see engine_arrive(). Thread: the one that will compute.
 * Return: 0, ENGINE_E_MODEL, ENGINE_E_MEMORY or -errno, with a text that names the file and what is wrong in it.
 */
int engine_new(Engine **enginep, const EngineOptions *options, ErrText *err) {
    _cleanup_(engine_freep) Engine *engine = NULL;
    const uint64_t start_ns = clock_now_ns();
    int r;

    if (options->chunk_tokens > ENGINE_CHUNK_MAX)
        return err_set(err, -EINVAL, "chunk of %u tokens is outside 1..%d", options->chunk_tokens, ENGINE_CHUNK_MAX);
    engine = aligned_alloc(_Alignof(Engine), sizeof(*engine)); /* the groups of steps have lines of their own */
    if (!engine)
        return err_set(err, -ENOMEM, "out of memory");
    *engine = (Engine){ 0 };
    engine->accounts = options->accounts;
    speculation_memory_init(&engine->speculation, options->accounts);
    engine->heartbeat = options->heartbeat;
    engine->n_steps = options->preemption ? ENGINE_STEPS_MAX : 1;
    engine->prefix_cache = options->prefix_cache;
    engine->trace = options->trace;
    engine->no_pipeline = options->no_pipeline;
    engine->group_rows = options->group_rows;
    engine->op_order = options->op_order;
    engine->steal_beyond = options->steal_beyond;
    engine->queue_profile.kind = options->op_placement;
    if (!device_of(options)->reads_packages) {
        r = options->fd ? gguf_open_fd(&engine->file, *options->fd, options->path, err)
                        : gguf_open(&engine->file, options->path, err);
        if (!r && gguf_key(engine->file, PACKAGE_KEY_FORMAT_VERSION))
            r = err_set(err, ENGINE_E_MODEL, "%s: a package; the %s device reads the .gguf that it was made of",
                        options->path, device_of(options)->name);
        else if (!r)
            r = load_whole(engine, options, engine->file, NULL, err);
        else if (r > 0)
            r = ENGINE_E_MODEL;
    } else {
        r = options->fd ? package_open_fd(&engine->package, *options->fd, options->path, err)
                        : package_open(&engine->package, options->path, err);
        if (!r)
            r = load_whole(engine, options, package_file(engine->package), engine->package, err);
        else if (r > 0)
            r = ENGINE_E_MODEL;
    }
    if (r)
        return r;
    if (!weights_are_arriving(engine->weights))
        arrived(engine);
    trace_load(engine, "load", start_ns, clock_now_ns(), TRACE_LANE_ENGINE);
    *enginep = steal(&engine);
    return 0;
}

Engine *engine_free(Engine *engine) {
    if (!engine)
        return NULL;
    assert(!engine->n_sequences);
    if (engine->prefix_cache)
        prefix_cache_drop_model(engine->prefix_cache, engine);
    row_groups_release(engine);
    early_exit_deinit(&engine->early_exit);
    weights_free(engine->weights);
    backend_free(engine->backend);
    tokenizer_free(engine->tokenizer);
    chat_template_deinit(&engine->chat);
    bill_settle(&engine->tokenizer_bill);
    gguf_free(engine->file);
    weights_check_free(engine->check);
    package_free(engine->package); /* behind the weights, which may still be read from it */
    for (size_t i = 0; i < engine->n_steps; i++)
        accounted_block_deinit(&engine->steps[i].memory);
    accounted_block_deinit(&engine->head_rows);
    speculation_memory_deinit(&engine->speculation);
    free(engine->name);
    free(engine);
    return NULL;
}

ImageReport engine_image_report(const Engine *engine) {
    return weights_image_report(engine->weights);
}

int engine_wait_image(Engine *engine, ErrText *err) {
    return weights_wait_image(engine->weights, err);
}

bool engine_is_arriving(const Engine *engine) {
    return weights_are_arriving(engine->weights);
}

uint32_t engine_arrived_permille(const Engine *engine) {
    return weights_permille(engine->weights);
}

int engine_arrive(Engine *engine, ErrText *err) {
    int r;

    if (!weights_are_arriving(engine->weights))
        return 0;
    r = weights_error(weights_advance(engine->weights, err));
    if (!r && !weights_are_arriving(engine->weights))
        arrived(engine);
    return r;
}

int engine_acquire(Engine *engine, uint32_t stage, uint64_t wait_ns, ErrText *err) {
    const bool was_arriving = weights_are_arriving(engine->weights);
    int r = weights_acquire(engine->weights, stage, wait_ns, err);

    if (was_arriving && !weights_are_arriving(engine->weights))
        arrived(engine);
    return r == WEIGHTS_E_WAITING ? ENGINE_E_WAITING : weights_error(r);
}

int engine_check_whole(const Engine *engine, ErrText *err) {
    if (engine->file && gguf_check_whole(engine->file, err))
        return ENGINE_E_READ;
    return weights_check_whole(engine->weights, err) ? ENGINE_E_READ : 0;
}

const EngineInfo *engine_info(const Engine *engine) {
    return &engine->info;
}

AccountTable *engine_accounts(const Engine *engine) {
    return engine->accounts;
}

const Tokenizer *engine_tokenizer(const Engine *engine) {
    return engine->tokenizer;
}

const ChatTemplate *engine_chat_template(const Engine *engine) {
    return &engine->chat;
}

const SamplingDefaults *engine_sampling_defaults(const Engine *engine) {
    return &engine->sampling;
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

/* The chat takes memory as it goes: where there is none, kept prompts make way, once. */
int engine_encode_chat(Engine *engine, const ChatInput *input, TokenList *list, ErrText *err) {
    ChatInput charged = *input;
    uint64_t len_bytes = CHAT_ROOM_BYTES;
    int r;

    charged.accounts = engine->accounts;
    charged.account = ACCOUNT_ACTIVATIONS;
    r = chat_template_encode(&engine->chat, engine->tokenizer, &charged, list, err);
    if (r != CHAT_E_MEMORY)
        return r;
    for (size_t i = 0; i < input->n_messages; i++)
        len_bytes += 2 * TOKENIZER_SCRATCH_BYTES * (uint64_t)input->messages[i].len_bytes;
    len_bytes += 2 * TOKENIZER_SCRATCH_BYTES * (uint64_t)(input->tools_bytes + input->documents_bytes);
    engine_make_room(engine, ACCOUNT_ACTIVATIONS, len_bytes);
    return chat_template_encode(&engine->chat, engine->tokenizer, &charged, list, err);
}

uint32_t engine_chunk_tokens(const Engine *engine) {
    return engine->chunk_tokens;
}

uint32_t engine_shared_chunk_tokens(const Engine *engine) {
    return engine->chunk_is_chosen && engine->chunk_tokens > ENGINE_CHUNK_DEFAULT ? ENGINE_CHUNK_DEFAULT
                                                                                  : engine->chunk_tokens;
}

uint32_t engine_idle_rows(const Engine *engine, uint32_t rows) {
    const BackendOps *ops = engine->backend->ops;

    return ops->idle_rows ? (uint32_t)ops->idle_rows(engine->backend, rows) : 0;
}

bool engine_has_preemption(const Engine *engine) {
    return engine->n_steps > 1;
}

void engine_set_trace(Engine *engine, Trace *trace) {
    engine->trace = trace;
}

ShadowCounts engine_shadow_counts(const Engine *engine) {
    ShadowCounts counts;

    engine->backend->ops->shadow_counts(engine->backend, &counts);
    return counts;
}

EngineFlashCounts engine_flash_counts(const Engine *engine) {
    const WeightsRing *ring = weights_ring(engine->weights);
    const WeightsRingCounts counts = ring ? weights_ring_counts(ring) : (WeightsRingCounts){ 0 };

    return (EngineFlashCounts){ counts.read_bytes, counts.reading_ns };
}

const char *engine_flash_way(const Engine *engine) {
    return weights_flash_way(engine->weights);
}

EngineQueueCounts engine_queue_counts(const Engine *engine) {
    return engine->queue_counts;
}

void engine_set_op_order(Engine *engine, OpOrder order, size_t steal_beyond, OpPlacementKind placement) {
    engine->op_order = order;
    engine->steal_beyond = steal_beyond;
    engine->queue_profile.kind = placement;
}

void engine_op_explain(const Engine *engine, char *text, size_t room_bytes) {
    queue_profile_explain(&engine->queue_profile, &engine->layer.graph, text, room_bytes);
}

bool engine_graph_counts(const Engine *engine, WeightsGraphsCounts *counts) {
    if (!weights_graphs(engine->weights))
        return false;
    *counts = weights_graphs_counts(weights_graphs(engine->weights));
    return true;
}

void engine_graph_explain(const Engine *engine, char *text, size_t room_bytes) {
    if (weights_graphs(engine->weights))
        graph_switch_explain(weights_graphs_switch(weights_graphs(engine->weights)), text, room_bytes);
    else
        snprintf(text, room_bytes, "no graphs on this device");
}

const char *engine_graph_form_why(const Engine *engine) {
    return weights_graph_form_why(engine->weights);
}

int engine_load_graphs(Engine *engine, ErrText *err) {
    int r = weights_graphs(engine->weights) ? weights_graphs_load_all(weights_graphs(engine->weights), err) : 0;

    return r > 0 ? ENGINE_E_READ : r;
}

void engine_set_flash_limit(Engine *engine, ReadLimit limit) {
    weights_set_flash_limit(engine->weights, limit);
}

/**
 * engine_make_room() - evict kept prefixes when a limit on several accounts together is in the way
 *
 * An account's own limit is not: what is kept is on another one. When all that could be evicted would not be enough,
 * nothing is. Best effort: other threads charge meanwhile.
 */
void engine_make_room(Engine *engine, AccountId id, uint64_t len_bytes) {
    const uint64_t own = account_own_room_bytes(engine->accounts, id),
                   shared = account_shared_room_bytes(engine->accounts, id);

    if (engine->prefix_cache && len_bytes <= own && len_bytes > shared)
        (void)prefix_cache_give_back(engine->prefix_cache, len_bytes - shared);
}
