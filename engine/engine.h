// SPDX-License-Identifier: Apache-2.0
/* Loading of a model: its weights on a device, its tokenizer and chat template. What users of an engine include. */
#ifndef COORDGEN_ENGINE_ENGINE_H
#define COORDGEN_ENGINE_ENGINE_H

#include "base/cleanup.h"
#include "base/system/worker_pool.h"
#include "engine/core/engine_core.h"
#include "engine/kv/sequence.h"
#include "engine/load_options.h"
#include "engine/sampling/sampling_defaults.h"
#include "engine/step/engine_step.h"
#include "weights/ring/layer_reader.h"

/* A load: how, from which files, with whose memory. */
typedef struct EngineOptions {
    LoadOptions load;
    const char *path;       /* .cgm for a device that reads packages, else .gguf */
    const int *fd;          /* the file, opened by the caller, who closes it after engine_new(); NULL: path is opened */
    const char *cache_dir;  /* with WEIGHTS_CHECKING_NEW: folder of notes on compared packages; NULL: no notes */
    const char *image_path; /* path of the image of a package's weights, used or made behind the load; NULL: no image
                             * (weights/image/weights_image). Layers on disk and static graphs need an image */
    bool new_image;         /* an existing image is not used but made anew */
    const char *chat_template; /* replaces the file's, until engine_new() returns; NULL: the file's */
    size_t chat_template_bytes;
    WorkerPool *pool;                /* outlives the engine; used by the thread that computes */
    AccountTable *accounts;          /* outlives the engine */
    PrefixCache *prefix_cache;       /* outlives the engine; NULL: nothing is kept for later prompts */
    _Atomic uint64_t *heartbeat;     /* counts operators and pieces of loads, for the watchdog; may be NULL */
    Trace *trace;                    /* records the load, then as engine_set_trace(); outlives the engine; NULL: none */
    bool arriving;                   /* engine_new() returns before the weights have arrived: see engine_arrive() */
    const BackendDevice *own_device; /* for tests: a device of the caller's, instead of `load.device`; NULL: none */
} EngineOptions;

int engine_new(Engine **enginep, const EngineOptions *options, ErrText *err);
Engine *engine_free(Engine *engine); /* all sequences must be freed before */
DEFINE_CLEANUP(Engine, engine_free)

const SamplingDefaults *engine_sampling_defaults(const Engine *engine);
/* Charges memory to turn a text into tokens to the account of activations; kept prompts make way for it. 0, or
 * ENGINE_E_MEMORY with nothing charged. */
int engine_charge_text(Engine *engine, Bill *bill, size_t len_bytes, ErrText *err);
/* Returns the marks of the model's thinking; without texts: it has none. */
ThinkingMarks engine_thinking_marks(const Engine *engine);
/* Returns the format in which the model writes calls of tools; NULL: an unknown one. */
const CallShape *engine_call_shape(const Engine *engine);
/* Renders and tokenizes a chat with the engine's template, as chat_template_encode(), with its memory on the account of
 * activations; kept prompts make way for it. */
int engine_encode_chat(Engine *engine, const ChatInput *input, TokenList *list, ErrText *err);
/* Renders a chat, as chat_template_render(), with its memory on the same account. */
int engine_render_chat(Engine *engine, const ChatInput *input, StrBuf *text, ErrText *err);

#endif
