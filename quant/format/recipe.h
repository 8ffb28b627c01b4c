// SPDX-License-Identifier: Apache-2.0
/* How a model is quantized: which steps run, and how many bits a weight may have. A name stands for a set of steps;
 * every step can be switched on its own, and the package's metadata say which ran. */
#ifndef COORDGEN_QUANT_RECIPE_H
#define COORDGEN_QUANT_RECIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "quant/format/grid.h"

/* Where the bits of a fractional or per-channel budget go. */
typedef enum QuantAllocation {
    QUANT_ALLOCATION_UNIFORM, /* every channel the same width: bits must be whole, a budget lowers them by 1 */
    QUANT_ALLOCATION_TENSOR,  /* EdgeFlow's Algorithm 1 in every tensor: greedy on the relative error of its channels */
    QUANT_ALLOCATION_MODEL,   /* one budget for the whole model, by measured sensitivity */
} QuantAllocation;

typedef struct QuantRecipe {
    const char *name;        /* "int8", "edgeflow", "compensated": which defaults it began with */
    double bits;             /* average width over the weights of the layers' linears, 1..8 */
    uint32_t embedding_bits; /* width of token_embd and output, 1..8 */
    uint64_t budget_bytes;   /* 0: none; else bits is lowered until the package is not larger than this */
    bool rotate;             /* block-Hadamard rotation */
    Grid grid;               /* how the levels of 2 to 7 bits are spaced */
    bool search_scales;      /* scale by least squares; off: max |W| / largest level */
    bool smooth;             /* EdgeFlow's smoothing, needs calibration */
    bool compensate;         /* error-compensated rounding (OPTQ), needs calibration */
    bool descend;            /* then coordinate descent on the integers (QuantEase), needs calibration */
    bool correct_gain;       /* then scales that keep the size of outputs; nothing without one of the two before */
    QuantAllocation allocation;
    bool static_activations; /* one scale for an operator's inputs (llm.npu 3.3), needs calibration; and with it: */
    double hot_percent;      /* of an operator's inputs, at most so many have their columns in memory, 0..100: all do */
    double prune_percent;    /* of the operators, those whose outliers matter least have no shadow, 0..100 */
} QuantRecipe;

/* llm.npu 3.3: less than 3 % of the channels have over 80 % of the outliers; 85 % of the operators do without. */
#define QUANT_HOT_PERCENT 3.0
#define QUANT_PRUNE_PERCENT 85.0

/* The defaults of a name: int8 is round to nearest at 8 bits. NULL name: int8. -ENOENT when unknown. */
int quant_recipe_named(QuantRecipe *recipe, const char *name);
/* Sets bits, and what goes with them: a uniform allocation becomes QUANT_ALLOCATION_TENSOR when they are not whole, and
 * gain is corrected where bits are few. */
void quant_recipe_set_bits(QuantRecipe *recipe, double bits);
/* For who has named a budget and no bits: as many as fit. */
void quant_recipe_fill_budget(QuantRecipe *recipe);
/* What a kind of device asks of a package: "native" nothing, "mobile" static activations with the paper's shares.
 * -ENOENT when unknown. */
int quant_recipe_set_profile(QuantRecipe *recipe, const char *name);
/* Ranges, and switches that contradict each other: 0 or -EINVAL with a text that names the remedy. */
int quant_recipe_check(const QuantRecipe *recipe, ErrText *err);
/* Are the second moments of every product's inputs needed? */
static inline bool quant_recipe_needs_moments(const QuantRecipe *recipe) {
    return recipe->compensate || recipe->descend;
}
static inline bool quant_recipe_corrects_gain(const QuantRecipe *recipe) {
    return quant_recipe_needs_moments(recipe) && recipe->correct_gain;
}
static inline bool quant_recipe_needs_calibration(const QuantRecipe *recipe) {
    return recipe->smooth || quant_recipe_needs_moments(recipe) || recipe->allocation == QUANT_ALLOCATION_MODEL ||
           recipe->static_activations;
}
const char *quant_allocation_name(QuantAllocation allocation); /* "uniform", "tensor", "model" */
/* -ENOENT when unknown. */
int quant_allocation_named(QuantAllocation *allocationp, const char *name);

#endif
