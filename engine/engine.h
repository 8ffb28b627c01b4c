// SPDX-License-Identifier: Apache-2.0
/* Loading of a model: its weights on a device, its tokenizer and chat template. What users of an engine include. */
#ifndef COORDGEN_ENGINE_ENGINE_H
#define COORDGEN_ENGINE_ENGINE_H

#include "base/cleanup.h"
#include "base/system/cpu.h"
#include "base/system/worker_pool.h"
#include "engine/core/engine_core.h"
#include "engine/engine_device.h"
#include "engine/kv/sequence.h"
#include "engine/sampling_defaults.h"
#include "engine/step/engine_step.h"
#include "weights/graphs/weights_graphs.h"
#include "weights/residency/weight_stream.h"
#include "weights/residency/weights_check.h"
#include "weights/residency/weights_memory.h"
#include "weights/ring/layer_reader.h"

typedef struct EngineOptions {
    const char *path; /* .cgm for a device that reads packages, else .gguf */
    const int *fd;    /* the file, opened by the caller, who closes it after engine_new(); NULL: path is opened */
    EngineDevice device;
    const BackendDevice *own_device; /* a device of the caller's, instead of `device`; NULL: none */
    Isa isa;                         /* ISA_BEST, or the level to stay within (cpu device) */
    uint32_t chunk_tokens;           /* rows of a prefill step, 1..ENGINE_CHUNK_MAX; 0: the device chooses */
    bool no_pipeline;                /* splits every operator of a step over all threads (engine/step/row_groups) */
    uint32_t group_rows;             /* rows of a group of the pipeline, at least; 0: the device chooses */
    bool preemption;                 /* reserves memory for a second step, while one has made way */
    WorkerPool *pool;                /* outlives the engine; used by the thread that computes */
    AccountTable *accounts;          /* outlives the engine */
    _Atomic uint64_t *heartbeat;     /* counts operators and pieces of loads, for the watchdog; may be NULL */
    PrefixCache *prefix_cache;       /* outlives the engine; NULL: nothing is kept for later prompts */
    WeightReading reading;           /* how a package is read; tests and benches choose */
    WeightsChecking checking;        /* which parts of a package are compared with its checksums */
    const char *cache_dir;  /* with WEIGHTS_CHECKING_NEW: folder of notes on compared packages; NULL: no notes */
    bool arriving;          /* engine_new() returns before the weights have arrived: see engine_arrive() */
    const char *image_path; /* path of the image of a package's weights, used or made behind the load; NULL: no image
                             * (weights/image/weights_image) */
    WeightsMemory weights_memory; /* how much of a package's weights is in memory; zero: all. Every step reads the rest
                                   * from the image, layer by layer; image_path must not be NULL then */
    bool new_image;               /* an existing image is not used but made anew */
    bool optional_image;          /* an image that is not needed is only made if the disk has room
                                   * (weights/image/image_room) */
    ReadLimit flash_limit;        /* how fast layers that are not in memory are read at most, like a slower disk */
    bool limits_all;              /* all reads of a package count towards flash_limit */
    GraphsOptions graphs;         /* for a device of static graphs, which needs image_path too */
    OpOrder op_order;             /* for a device whose products have a queue: what goes first */
    size_t steal_beyond;          /* with op_order in the order of positions: as OpQueuesSetup has it */
    OpPlacementKind op_placement; /* for a device whose products have a queue: who runs products */
    Trace *trace;                 /* records the load, then as engine_set_trace(); outlives the engine; NULL: none */
    const char *chat_template;    /* replaces the file's, until engine_new() returns; NULL: the file's */
    size_t chat_template_bytes;
} EngineOptions;

int engine_new(Engine **enginep, const EngineOptions *options, ErrText *err);
Engine *engine_free(Engine *engine); /* all sequences must be freed before */
DEFINE_CLEANUP(Engine, engine_free)

const SamplingDefaults *engine_sampling_defaults(const Engine *engine);
/* Charges memory to turn a text into tokens to the account of activations; kept prompts make way for it. 0, or
 * ENGINE_E_MEMORY with nothing charged. */
int engine_charge_text(Engine *engine, Bill *bill, size_t len_bytes, ErrText *err);
/* Renders and tokenizes a chat with the engine's template, as chat_template_encode(), with its memory on the account of
 * activations; kept prompts make way for it. */
int engine_encode_chat(Engine *engine, const ChatInput *input, TokenList *list, ErrText *err);

#endif
