// SPDX-License-Identifier: Apache-2.0
/* A step in parts: engine_step_run() runs all of them, one after the other. Private to engine/. */
#ifndef COORDGEN_ENGINE_STEP_PARTS_H
#define COORDGEN_ENGINE_STEP_PARTS_H

#include "engine/load_options.h"
#include "engine/step/engine_step.h"
#include "engine/step/layer_ops.h"

/* --- memory of steps ---------------------------------------------------------------------------------------------- */

/* Makes what an engine has for its steps, without memory for their rows. -ENOMEM. */
int engine_steps_new(Engine *engine, const LoadOptions *load);
void engine_steps_free(Engine *engine);
/* Reserves rows for a chunk of so many tokens in each step; 0: for as many as the device does best with, fewer where
 * memory is short. Return: 0, -EBUSY, ENGINE_E_MEMORY, else as engine_arrive(). */
int engine_reserve_chunk(Engine *engine, uint32_t chunk_tokens, ErrText *err);

/* --- rows --------------------------------------------------------------------------------------------------------- */

/* Checks what spans ask for. 0, -EINVAL, ENGINE_E_CONTEXT. */
int step_rows_check(const Engine *engine, const EngineSpan *spans, size_t n_spans);
/* Makes the memory that rows are written to their sequences' own. 0, ENGINE_E_MEMORY, -ENOMEM. */
int step_rows_reserve(const EngineSpan *spans, size_t n_spans, ErrText *err);
/* Fills the step's batch with the rows of its spans, one span after the other, and marks their sequences. */
void step_rows_fill(EngineStep *step);
/* Finds row `number` of a span among rows [at, end) of the batch, which rise. Return: its index, or end. */
size_t step_rows_find(const EngineStep *step, size_t at, size_t end, uint32_t number);
/* Describes rows of the step in a layer, on a device. */
LayerRows step_rows_in_layer(const EngineStep *step, BatchRange rows, uint32_t layer, Backend *backend);

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* Runs layers up to end - 1, the embeddings before. */
int engine_step_layers(EngineStep *step, uint32_t end, const EngineYield *yield, ErrText *err);
/* Drops all rows of span `index` but these. */
int engine_step_keep(EngineStep *step, size_t index, const uint16_t *rows, size_t n);
/* Runs the head at rows[n] of the batch: f32 logits[n][n_vocab]. */
int engine_step_logits(EngineStep *step, const uint32_t *rows, size_t n, float *logits, ErrText *err);
/* Hands the hidden states of rows to the spans that want them. Return: as engine_step_run(). */
int engine_step_hidden(EngineStep *step, ErrText *err);
/* Runs the head at all rows that want logits, for their spans. Return: as engine_step_run(). */
int engine_step_heads(EngineStep *step, ErrText *err);
/* Appends the rows that spans keep to their sequences. */
void engine_step_commit(EngineStep *step);

/* Returns whether a step stops before its next operator. Any thread. */
bool engine_step_stops(const EngineStep *step, const EngineYield *yield);
/* Notes which sequences are cancelled. Return: 0; ENGINE_E_YIELDED, ENGINE_E_CANCELLED: the step stops. Thread: the one
 * that computes. */
int engine_step_look_up(EngineStep *step, const EngineYield *yield);
/* Acquires the weights of a stage (weights/weights.h) for a step in this layer. */
int engine_step_hold(EngineStep *step, uint32_t stage, int32_t layer, const EngineYield *yield, ErrText *err);
/* Releases the weights of a stage; layers below step->layer are computed. */
void engine_step_let_go(EngineStep *step, uint32_t stage);

/* --- most probable tokens ----------------------------------------------------------------------------------------- */

#define TOPS_ROWS_MAX 256 /* rows that engine_step_tops() takes at once */

/* Finds the most probable tokens of a row's logits. */
void engine_tops(const float *logits, size_t n_vocab, EngineTops *tops);
/* Returns how many of n rows engine_step_tops() takes at a time, and reserves `head_rows` for them; 0: the device or
 * the head allows none, or there is no memory. */
size_t engine_tops_rows(Engine *engine, size_t n);
/* Finds the most probable tokens of rows[n] of the batch, behind the last layer. places[n]: where a row's logits go;
 * NULL: nowhere. */
int engine_step_tops(EngineStep *step, const uint32_t *rows, size_t n, size_t n_outputs, EngineTops *tops,
                     float *const *places, ErrText *err);
/* Writes the normalised rows of the batch, one behind the other, to SLOT_NORM. */
void engine_step_gather(EngineStep *step, const uint32_t *rows, size_t n);
/* Makes `head_rows` have so many bytes; false: there is no memory. */
bool engine_has_head_rows(Engine *engine, size_t len_bytes);

/* --- traces ------------------------------------------------------------------------------------------------------- */

/* Returns the time now; 0 without a trace. */
uint64_t engine_trace_begin(const Engine *engine);
/* Records that `worker` ran a node of the layer's graph on rows of the step. */
void engine_trace_node(const Engine *engine, size_t node, uint64_t start_ns, uint32_t layer, BatchRange rows,
                       unsigned int worker);
/* Records a part of a step that is no operator of the table. */
void engine_trace_part(const Engine *engine, const char *name, const char *category, uint64_t start_ns, int32_t layer,
                       size_t rows);

#endif
