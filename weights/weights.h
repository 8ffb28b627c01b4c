// SPDX-License-Identifier: Apache-2.0
/* The weights of a model on a device: matrices in the device's layout, norms and biases as float32 vectors. */
#ifndef COORDGEN_WEIGHTS_WEIGHTS_H
#define COORDGEN_WEIGHTS_WEIGHTS_H

#include "weights/weights_types.h"

enum {
    WEIGHTS_E_WAITING = 16, /* beside BACKEND_E_*: what is asked for is on its way */
};

/* Loads weights from a source GGUF or a package. The source and the options are only read during the call. */
int weights_new(Weights **weightsp, Backend *backend, const Hparams *hparams, const WeightsSource *source,
                const WeightsOptions *options, ErrText *err);
Weights *weights_free(Weights *weights);
DEFINE_CLEANUP(Weights, weights_free)

/* --- tensors ------------------------------------------------------------------------------------------------------ */

const WeightsLayer *weights_layer(const Weights *weights, uint32_t layer);
/* Embedding, final norm and head. */
const WeightsLayer *weights_outside(const Weights *weights);
/* The head: output.weight, or the embedding when they are tied. */
const BackendLinear *weights_head(const Weights *weights);

/* --- arrival of a package ----------------------------------------------------------------------------------------- */

bool weights_are_arriving(const Weights *weights);
/* How much has arrived, in thousandths; 1000: all. */
uint32_t weights_permille(const Weights *weights);
/* Takes in the next few MiB of a package that is arriving, in the order of the stages. 0, BACKEND_E_MEMORY,
 * BACKEND_E_WEIGHTS, -errno: the same again in every later call, with its text. */
int weights_advance(Weights *weights, ErrText *err);
/* How all weights came, when they are there. */
const WeightsArrivalWay *weights_way(const Weights *weights);
/* Whether all that the file has checksums for was compared with them. */
bool weights_were_compared(const Weights *weights);
/* Whether the embedding can be used, but may have to be read from the disk row by row. Any thread. */
bool weights_embedding_is_late(const Weights *weights);

/* --- stages: 0 is what comes before the layers, 1 + i layer i, 1 + n_layers the rest ------------------------------ */

/* Whether what a stage multiplies with has come to stay. */
bool weights_have(const Weights *weights, uint32_t stage);
/* Holds what a stage multiplies with where it is, until weights_release(). 0; WEIGHTS_E_WAITING: it is on its way; a
 * piece has come, or none within wait_ns, and whoever still wants it asks again. Else as weights_advance(). */
int weights_acquire(Weights *weights, uint32_t stage, uint64_t wait_ns, ErrText *err);
/* end: layers below are computed. */
void weights_release(Weights *weights, uint32_t stage, uint32_t end);
/* Announces a step of so many rows that comes to a layer; prompt_rows of them are of prompts, n_behind more of which
 * come in later steps. Graphs of the device are loaded by it. */
void weights_expect(Weights *weights, size_t rows, size_t prompt_rows, size_t n_behind, uint32_t layer);
/* Lets loads go on; called between operators. */
void weights_turn(Weights *weights);
/* Returns the end of the stages, from this one on, which is held, that can be used at once: they have come to stay, or
 * are held with it. */
uint32_t weights_run_end(const Weights *weights, uint32_t stage);

/* --- how they stand ----------------------------------------------------------------------------------------------- */

const WeightsCounts *weights_counts(const Weights *weights);
/* Layers that are not in memory; NULL: all are. */
const WeightsRing *weights_ring(const Weights *weights);
/* Layers as static graphs; NULL: the device has none. */
WeightsGraphs *weights_graphs(const Weights *weights);
/* Why graphs come from where they come from, for people; "": that was asked for. */
const char *weights_graph_form_why(const Weights *weights);
/* How layers are read in every step: "io_uring, direct"; "": they are not, or not yet. */
const char *weights_flash_way(const Weights *weights);
/* Changes how fast they are read at most, from the next piece on. */
void weights_set_flash_limit(Weights *weights, ReadLimit limit);
/* Whether the matrices are in an image. */
bool weights_are_mapped(const Weights *weights);
/* Checks that all that was read of an image so far was the file's, if there is one: as weights_image_check(),
 * weights_ring_check(). Any thread. */
int weights_check_whole(const Weights *weights, ErrText *err);
/* What has become of the image. When all weights are there; any thread. */
ImageReport weights_image_report(const Weights *weights);
/* Waits for the image that is being written, if one is. 0 or -errno, with a text. */
int weights_wait_image(Weights *weights, ErrText *err);

#endif
