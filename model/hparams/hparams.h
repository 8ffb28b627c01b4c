// SPDX-License-Identifier: Apache-2.0
/* Hyper-parameters of a model, read from GGUF metadata and checked against each other and against the tensors. */
#ifndef COORDGEN_MODEL_HPARAMS_H
#define COORDGEN_MODEL_HPARAMS_H

#include <stdint.h>

#include "model/gguf/gguf.h"
#include "model/hparams/arch.h"

enum {
    HPARAMS_E_UNSUPPORTED = 1, /* an architecture or option that is not supported; the text names it */
    HPARAMS_E_CORRUPT = 2,     /* missing, out of range, or contradicting the tensors; the text names the key */
};

#define HPARAMS_LAYERS_MAX 1024

/* Position p turns pair i of a head by p * position_scale * base^(-2i / n_rot). */
typedef struct HparamsAngles {
    double base;
    double position_scale; /* 1 / rope.scaling.factor */
} HparamsAngles;

/* YaRN: frequencies with more turns than `fast` within the original context stay, those with fewer than `slow` are
 * stretched. */
typedef struct HparamsYarn {
    double share; /* of fast-turning frequencies that stay as they were; 0: no YaRN */
    double fast, slow;
    double magnitude;      /* further factor of the magnitude without YaRN */
    double log_multiplier; /* 0: none */
} HparamsYarn;

typedef struct HparamsRope {
    HparamsAngles global;
    bool has_local; /* sliding-window layers use the next field, and no divisors */
    HparamsAngles local;
    double magnitude; /* factor of cos and sin in all cases: rotated queries and keys become so much longer */
    HparamsYarn yarn;
    uint32_t original;   /* positions before the context was stretched */
    TensorRole divisors; /* rope_freqs, or long RoPE's factors for this context; or ROLE_NONE */
} HparamsRope;

/* Layers that see only a sliding window, called local. */
typedef struct HparamsWindow {
    uint32_t positions; /* that a local layer sees, its own included; 0: no such layers */
    uint32_t pattern;   /* layer il is local if il % pattern < pattern - 1; 0: all are, as in llama.cpp */
    bool has_list;      /* the list replaces the pattern: layer il is local if bit il % 64 of word il / 64 is set */
    uint64_t list[HPARAMS_LAYERS_MAX / 64];
} HparamsWindow;

/* Key pooling_type. */
typedef enum HparamsPooling {
    HPARAMS_POOLING_NONE = 0, /* the file does not say */
    HPARAMS_POOLING_MEAN = 1,
    HPARAMS_POOLING_CLS = 2,
    HPARAMS_POOLING_LAST = 3,
    HPARAMS_POOLING_RANK = 4, /* a classifier on top, which no model of ours has */
} HparamsPooling;

typedef struct Hparams {
    const Arch *arch;
    uint32_t n_layers;
    uint32_t n_context; /* positions the model was made for */
    uint32_t n_embd;
    uint32_t n_ff;
    uint32_t n_heads;
    uint32_t n_kv_heads; /* divides n_heads */
    uint32_t head_size;  /* a multiple of 16 */
    uint32_t n_rot;      /* rotated dimensions of a head */
    uint32_t n_vocab;
    float norm_eps;
    HparamsRope rope;
    HparamsWindow window;
    float attention_scale;  /* on q.k */
    float attention_cap;    /* scores become cap * tanh(score / cap); 0: no cap */
    float logit_cap;        /* logits become cap * tanh(logit / cap); 0: no cap */
    float embedding_scale;  /* factor of the embedding: 1 or sqrt(n_embd) */
    HparamsPooling pooling; /* how the vector of a text is made */
    bool tied;              /* no output.weight: the head uses token_embd */
} Hparams;

/* Reads and checks the keys of a source GGUF or of a package (which keeps them). */
int hparams_read(Hparams *hparams, const GgufFile *file, ErrText *err);
/* Checks that every tensor of the architecture is there, with its shape and a readable type, and no other tensor. */
int hparams_check_tensors(const Hparams *hparams, const GgufFile *file, ErrText *err);
/* Whether a tensor of the file is one of the architecture's, or holds the rows of some of them. */
bool hparams_has_tensor(const Hparams *hparams, const GgufFile *file, const char *name);
/* Finds a tensor of the architecture in the file: a tensor of its own, or its rows of a shared one (ArchFused), under
 * its own name. false: not there. */
bool hparams_tensor(const Hparams *hparams, const GgufFile *file, const ArchTensor *expected, int layer,
                    GgufTensor *tensor);
uint32_t hparams_dim(const Hparams *hparams, Dim dim);
/* Whether the layer has a sliding window. */
bool hparams_layer_is_local(const Hparams *hparams, uint32_t layer);
/* Whether the layer has the rotary positions of local layers, if these differ. */
bool hparams_layer_turns_locally(const Hparams *hparams, uint32_t layer);
/* Whether the layer has rotary positions. */
bool hparams_layer_turns(const Hparams *hparams, uint32_t layer);
/* Positions whose keys a row reads that sees all of n_positions it may: the sum over all layers. */
uint64_t hparams_read_positions(const Hparams *hparams, uint64_t n_positions);

/* Calls fn for every tensor of the architecture in file order; layer -1: outside the layers. Stops at a non-zero value
 * and returns it. */
typedef int HparamsTensorFn(void *arg, const ArchTensor *tensor, int layer);
int hparams_each_tensor(const Hparams *hparams, HparamsTensorFn *fn, void *arg);

#endif
