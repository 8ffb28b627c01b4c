// SPDX-License-Identifier: Apache-2.0
/* Loading of a model: its weights on a device, its tokenizer and chat template. What users of an engine include. */
#ifndef COORDGEN_ENGINE_ENGINE_H
#define COORDGEN_ENGINE_ENGINE_H

#include "base/cleanup.h"
#include "base/system/cpu.h"
#include "base/system/worker_pool.h"
#include "engine/core/engine_core.h"
#include "engine/kv/sequence.h"
#include "engine/sampling_defaults.h"
#include "engine/step/engine_step.h"
#include "weights/graphs/weights_graphs.h"
#include "weights/residency/weight_stream.h"
#include "weights/residency/weights_check.h"
#include "weights/residency/weights_memory.h"
#include "weights/ring/layer_reader.h"

/* ENGINE_DEVICE_REFERENCE: float32 loops on a GGUF source; ENGINE_DEVICE_CPU: int8 products on a .cgm package;
 * ENGINE_DEVICE_NPU: the same on static graphs, of packages with static activations. */
typedef enum EngineDevice {
#define DEVICE(enumerator, name, reads_packages, has_graphs, make) ENGINE_DEVICE_##enumerator,
#include "engine/engine_device.inc"
#undef DEVICE
} EngineDevice;

const BackendDevice *engine_device(EngineDevice device);
/* Threads for its pool where nobody says how many: one for every processor that this process may use, but for one that
 * a device of static graphs has for its queue. At least 1. */
unsigned int engine_device_threads(EngineDevice device);
/* NULL: there is none of that name. */
const BackendDevice *engine_device_named(const char *name, EngineDevice *devicep);

typedef struct EngineOptions {
    const char *path; /* .cgm for a device that reads packages, else .gguf */
    const int *fd; /* of the file, which somebody else has opened, until engine_new() returns; NULL: path is opened */
    EngineDevice device;
    const BackendDevice *own_device; /* one that is not among those; NULL: `device` */
    Isa isa;                         /* ISA_BEST, or the level to stay within (cpu device) */
    uint32_t chunk_tokens;           /* rows of a prefill step, 1..ENGINE_CHUNK_MAX; 0: as the device does best with */
    bool no_pipeline;                /* every operator of a step is split over all threads (engine/step/row_groups) */
    uint32_t group_rows;             /* of the pipeline, at least so many; 0: as the device does best with */
    bool preemption;                 /* memory for a second step, while one has made way */
    WorkerPool *pool;                /* outlives the engine; used by the thread that computes */
    AccountTable *accounts;          /* outlives the engine */
    _Atomic uint64_t *heartbeat; /* goes up with every operator, and while loading: the watchdog's sign of life; may be
                                  * NULL */
    PrefixCache *prefix_cache;   /* outlives the engine; NULL: nothing is kept for later prompts */
    WeightReading reading;       /* how a package is read: the best way, unless a test or a bench wants one */
    WeightsChecking checking;    /* what of a package is compared with its checksums */
    const char *cache_dir;  /* with WEIGHTS_CHECKING_NEW: where packages that were compared are noted; NULL: nowhere */
    bool arriving;          /* the engine is there before its weights: see engine_arrive() */
    const char *image_path; /* of a package: where the image of its weights is, or is made behind the load; NULL:
                                  * neither (weights/image/weights_image) */
    /* Of a package: how much of the weights is in memory; zero: all. The rest is read from an image, layer by layer, in
     * every step, and image_path must not be NULL. new_image: one that is there is not used but made anew. flash_limit:
     * how fast it is read at most, to behave like a slower disk. */
    WeightsMemory weights_memory;
    bool new_image;
    bool optional_image; /* one that is not needed is only made where the disk has room (weights/image/image_room) */
    ReadLimit flash_limit;
    bool limits_all;              /* all that is read of a package is as slow, together with them */
    GraphsOptions graphs;         /* on a device of static graphs, which wants image_path too */
    OpOrder op_order;             /* where products have a queue: what goes first */
    size_t steal_beyond;          /* likewise, in the order of positions (OpQueuesSetup) */
    OpPlacementKind op_placement; /* likewise, who runs products */
    Trace *trace;                 /* of the load, and then as engine_set_trace(); outlives the engine; NULL: none */
    const char *chat_template;    /* instead of the file's, until the engine is there; NULL: the file's */
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
