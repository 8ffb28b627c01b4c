// SPDX-License-Identifier: Apache-2.0
/* A quantization recipe as one word of a command line: NAME[:BITS][:SWITCH...], e.g. "compensated:4:-rotation". */
#ifndef COORDGEN_EVAL_RECIPE_SPEC_H
#define COORDGEN_EVAL_RECIPE_SPEC_H

#include <stddef.h>

#include "base/err.h"
#include "quant/recipe.h"

/* With the NUL; all that a recipe can say at once, its numbers at their longest, takes 261. */
#define RECIPE_SPEC_MAX 288

/* 0 or -EINVAL with a text that quotes the spec and says what is known. The recipe has been checked. */
int recipe_spec_parse(QuantRecipe *recipe, const char *spec, ErrText *err);
/* The shortest spec that gives the recipe: the name, the bits, and what differs from the name's own settings. */
void recipe_spec_format(char text[RECIPE_SPEC_MAX], const QuantRecipe *recipe);

#endif
