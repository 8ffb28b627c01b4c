// SPDX-License-Identifier: Apache-2.0
/* A loaded model: its description, its parts that have an interface of their own, and the arrival of its weights. */
#ifndef COORDGEN_ENGINE_CORE_H
#define COORDGEN_ENGINE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/backend.h"
#include "base/err.h"
#include "base/memory/account.h"
#include "scheduler/operators/trace.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"
#include "weights/weights.h"

enum {
    ENGINE_E_MODEL = 1,     /* the file is corrupt or holds something not supported; the text says what */
    ENGINE_E_MEMORY = 2,    /* a memory account's limit is reached */
    ENGINE_E_CONTEXT = 3,   /* more positions than the sequence or the model has */
    ENGINE_E_CANCELLED = 4, /* the sequence's cancel flag was set; the sequence is as it was before the call */
    ENGINE_E_READ = 5,      /* a read of weights on demand failed; the sequence is as it was before the call */
    ENGINE_E_YIELDED = 6,   /* the step stopped before an operator to make way; engine_step_run() resumes there */
    ENGINE_E_WAITING = 7,   /* the step stopped because its weights are still on their way; resumes likewise */
};

/* How a model's weights stand. The byte counts grow while weights arrive. */
typedef struct EngineWeightsInfo {
    uint64_t resident_bytes;
    uint64_t step_read_bytes;   /* weights that every step with logits reads at least, without the embedding */
    bool is_mapped;             /* the weights are mapped from an image */
    uint32_t n_streamed_layers; /* layers that are not in memory */
    uint64_t sweep_bytes;       /* bytes of streamed layers that a step reads, whatever its rows */
    uint64_t ring_bytes;        /* memory that streamed layers are read into; a part of resident_bytes */
    uint64_t compared_bytes;    /* bytes of the package that were compared with checksums so far */
} EngineWeightsInfo;

/* Describes a loaded model; valid as long as the engine. */
typedef struct EngineInfo {
    const char *name;         /* general.name, or the file's */
    const char *architecture; /* "llama" */
    const char *device;       /* "cpu" */
    const char *kernel;       /* "int8_product__avx512vnni" */
    uint32_t n_vocab;
    uint32_t n_layers;
    uint32_t n_embd;
    uint32_t n_context; /* positions the model was made for */
    uint64_t n_parameters;
    uint64_t kv_bytes_per_token;
    uint64_t layer_products; /* multiplications of weights by one row, all layers */
    uint64_t head_products;  /* multiplications of the output projection by one row */
    EngineWeightsInfo weights;
    const char *kv_type;     /* "int8" */
    char source_sha256[65];  /* hash of the source model; "" if unknown */
    char package_sha256[65]; /* hash of the package's checksums; "" without them */
    HparamsPooling pooling;  /* the file's own way to make the vector of a text */
} EngineInfo;

typedef struct Engine Engine;

/* --- parts: each outlives no engine ------------------------------------------------------------------------------- */

const EngineInfo *engine_info(const Engine *engine);
AccountTable *engine_accounts(const Engine *engine);
const Tokenizer *engine_tokenizer(const Engine *engine);
const ChatTemplate *engine_chat_template(const Engine *engine);
Weights *engine_weights(const Engine *engine);
Backend *engine_backend(const Engine *engine);
/* Returns bytes of keys and values that a row reads which sees n_positions, its own included. Layers with a window read
 * less than n_positions times kv_bytes_per_token. */
uint64_t engine_kv_read_bytes(const Engine *engine, uint64_t n_positions);
/* Records every operator of later steps in the trace, and the reads of weights that still arrive; NULL: stops that. The
 * trace outlives the steps. Thread: the one that computes, which alone adds to the trace. */
void engine_set_trace(Engine *engine, Trace *trace);

/* --- weights ------------------------------------------------------------------------------------------------------ */

/* Returns whether weights are still on their way (only with EngineOptions.arriving). */
bool engine_is_arriving(const Engine *engine);
/* Takes in a few MiB more of the weights. Steps take in what they need by themselves; without steps somebody must call
 * this, because reads stop when the memory for them is full. Thread: the one that computes. Return: 0; ENGINE_E_MODEL,
 * ENGINE_E_MEMORY, -errno: the load failed, with its text, again in every later call. Steps answer ENGINE_E_READ with
 * the same text from then on, and the engine can only be freed. */
int engine_arrive(Engine *engine, ErrText *err);
/* Checks that a file which the weights are mapped from (an image, or the reference device's source) was not cut short
 * where it was read. Return: 0, or ENGINE_E_READ with a text that names the file: every step answers that from then on,
 * the one that met the cut included, and the engine can only be freed. Any thread. */
int engine_check_whole(const Engine *engine, ErrText *err);

#endif
