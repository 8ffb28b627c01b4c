// SPDX-License-Identifier: Apache-2.0
/* A quantization recipe as one word of a command line: NAME[:BITS][:SWITCH...], e.g. "compensated:4:-rotation". */
#ifndef COORDGEN_QUANT_RECIPE_SPEC_H
#define COORDGEN_QUANT_RECIPE_SPEC_H

#include <stdint.h>

#include "base/err.h"
#include "quant/format/recipe.h"

/* With the NUL; all that a recipe can say at once, its numbers at their longest, takes 261. */
#define RECIPE_SPEC_MAX 288

/* The word, and what may be said beside it in options of their own. */
typedef struct RecipeSpec {
    const char *text;      /* NULL: the default recipe */
    const char *profile;   /* as quant_recipe_set_profile() has it; NULL: native */
    const double *bits;    /* NULL: those of the text, or the recipe's own */
    uint64_t budget_bytes; /* 0: that of the text, or none */
} RecipeSpec;

/* 0 or -EINVAL with a text that quotes the spec and says what is known. The recipe has been checked. */
int recipe_spec_take(QuantRecipe *recipe, const RecipeSpec *spec, ErrText *err);
/* The same of the word alone. */
int recipe_spec_parse(QuantRecipe *recipe, const char *text, ErrText *err);
/* The shortest spec that gives the recipe: the name, the bits, and what differs from the name's own settings. */
void recipe_spec_format(char text[RECIPE_SPEC_MAX], const QuantRecipe *recipe);

#endif
