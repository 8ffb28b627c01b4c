// SPDX-License-Identifier: Apache-2.0
#include "model/hparams/hparams.h"

uint32_t hparams_dim(const Hparams *hparams, Dim dim) {
    switch (dim) {
    case DIM_EMBD:
        return hparams->n_embd;
    case DIM_HEADS:
        return hparams->n_heads * hparams->head_size;
    case DIM_KV:
        return hparams->n_kv_heads * hparams->head_size;
    case DIM_FF:
        return hparams->n_ff;
    case DIM_VOCAB:
        return hparams->n_vocab;
    case DIM_HEAD:
        return hparams->head_size;
    case DIM_ROT_HALF:
        return hparams->n_rot / 2;
    case DIM_NONE:
        break;
    }
    return 1;
}

bool hparams_layer_is_local(const Hparams *hparams, uint32_t layer) {
    const HparamsWindow *window = &hparams->window;

    if (window->positions && window->has_list)
        return window->list[layer / 64] >> layer % 64 & 1;
    if (!window->positions || !window->pattern)
        return window->positions;
    return layer % window->pattern < window->pattern - 1;
}

bool hparams_layer_turns_locally(const Hparams *hparams, uint32_t layer) {
    return hparams->rope.has_local && hparams_layer_is_local(hparams, layer);
}

bool hparams_layer_turns(const Hparams *hparams, uint32_t layer) {
    const uint32_t every = hparams->arch->no_rope_every;

    return !every || layer % every != every - 1;
}

uint64_t hparams_read_positions(const Hparams *hparams, uint64_t n_positions) {
    uint64_t sum = 0;

    for (uint32_t i = 0; i < hparams->n_layers; i++) {
        bool cut = hparams_layer_is_local(hparams, i) && n_positions > hparams->window.positions;

        sum += cut ? hparams->window.positions : n_positions;
    }
    return sum;
}
