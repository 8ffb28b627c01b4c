// SPDX-License-Identifier: Apache-2.0
/* A recipe says how a model is quantized: which steps run, and how many bits a weight may have. A name stands for a
 * set of steps. Every step can be switched on its own, and the package's metadata tell which ran. */
#ifndef COORDGEN_QUANT_RECIPE_H
#define COORDGEN_QUANT_RECIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "quant/format/grid.h"

/* How the bits of a budget are allocated. */
typedef enum QuantAllocation {
    QUANT_ALLOCATION_UNIFORM, /* one width for all channels: bits must be whole, a budget lowers them by 1 */
    QUANT_ALLOCATION_TENSOR,  /* EdgeFlow's Algorithm 1 in every tensor: greedy on the relative error of its channels */
    QUANT_ALLOCATION_MODEL,   /* one budget for the whole model, by measured sensitivity */
} QuantAllocation;

typedef struct QuantRecipe {
    const char *name;        /* the name whose defaults it began with, of those that quant_recipe_named() knows */
    double bits;             /* average width over the weights of the layers' linears, 1..8 */
    uint32_t embedding_bits; /* width of token_embd and output, 1..8 */
    uint64_t budget_bytes;   /* 0: none; else bits is lowered until the package fits */
    bool rotate;             /* block-Hadamard rotation */
    Grid grid;               /* spacing of the levels of 2 to 7 bits */
    bool search_scales;      /* scales by least squares; false: max |W| / largest level */
    bool smooth;             /* EdgeFlow's smoothing, needs calibration */
    bool compensate;         /* error-compensated rounding (OPTQ), needs calibration */
    bool descend;            /* coordinate descent on the integers afterwards (QuantEase), needs calibration */
    bool correct_gain;       /* scales that keep the size of outputs; needs compensate or descend */
    QuantAllocation allocation;
    bool static_activations; /* one scale for an operator's inputs (llm.npu 3.3), needs calibration; enables: */
    double hot_percent;      /* share of an operator's inputs whose columns are in memory, 0..100 (all) */
    double prune_percent;    /* share of operators without a shadow, those whose outliers matter least, 0..100 */
} QuantRecipe;

/* Defaults from llm.npu 3.3: under 3 % of the channels have over 80 % of the outliers; 85 % of the operators need no
 * shadow. */
#define QUANT_HOT_PERCENT 3.0
#define QUANT_PRUNE_PERCENT 85.0

/* Sets the defaults of a name; NULL: int8, round to nearest at 8 bits. 0, or -ENOENT for an unknown name. */
int quant_recipe_named(QuantRecipe *recipe, const char *name);
/* Sets the bits. A uniform allocation becomes QUANT_ALLOCATION_TENSOR if they are not whole, and few bits switch gain
 * correction on. */
void quant_recipe_set_bits(QuantRecipe *recipe, double bits);
/* Makes the bits as many as fit a budget, for a user who names a budget only. */
void quant_recipe_fill_budget(QuantRecipe *recipe);
/* Sets what a device profile needs: "native" nothing, "mobile" static activations with the paper's shares. 0, or
 * -ENOENT for an unknown name. */
int quant_recipe_set_profile(QuantRecipe *recipe, const char *name);
/* Checks ranges, and switches that contradict each other. 0, or -EINVAL with a text that names the remedy. */
int quant_recipe_check(const QuantRecipe *recipe, ErrText *err);
/* Whether the recipe needs the second moments of every product's inputs. */
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
/* Finds an allocation by name. 0 or -ENOENT. */
int quant_allocation_named(QuantAllocation *allocationp, const char *name);

#endif
