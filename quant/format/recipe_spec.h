// SPDX-License-Identifier: Apache-2.0
/* Reads and writes a quantization recipe as one word of a command line: NAME[:BITS][:SWITCH...], e.g.
 * "compensated:4:-rotation". */
#ifndef COORDGEN_QUANT_RECIPE_SPEC_H
#define COORDGEN_QUANT_RECIPE_SPEC_H

#include <stdint.h>

#include "base/err.h"
#include "quant/format/recipe.h"

/* Bytes of a spec with its NUL; the longest possible spec takes 261. */
#define RECIPE_SPEC_MAX 288

/* The word, and the settings that separate options may give. */
typedef struct RecipeSpec {
    const char *text;      /* NULL: the default recipe */
    const char *profile;   /* a name for quant_recipe_set_profile(); NULL: native */
    const double *bits;    /* NULL: the bits of the text, or the recipe's own */
    uint64_t budget_bytes; /* 0: the budget of the text, or none */
} RecipeSpec;

/* Reads and checks a recipe. 0, or -EINVAL with a text that quotes the spec and lists the known words. */
int recipe_spec_take(QuantRecipe *recipe, const RecipeSpec *spec, ErrText *err);
/* Reads and checks a recipe from the word alone. */
int recipe_spec_parse(QuantRecipe *recipe, const char *text, ErrText *err);
/* Writes the shortest spec of the recipe: the name, the bits, and the settings that differ from the name's. */
void recipe_spec_format(char text[RECIPE_SPEC_MAX], const QuantRecipe *recipe);

#endif
