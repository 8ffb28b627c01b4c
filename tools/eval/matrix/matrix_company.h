// SPDX-License-Identifier: Apache-2.0
/* Two other requests that take turns or share steps with the one under test; each begins again when it ends. */
#ifndef COORDGEN_EVAL_MATRIX_COMPANY_H
#define COORDGEN_EVAL_MATRIX_COMPANY_H

#include "engine/generation.h"
#include "text/tokenizer/tokenizer.h"
#include "tools/eval/matrix/matrix_output.h"

typedef struct Company {
    Generation *others[2];
    Engine *engine;
    const TokenList *prompt;
    GenerationSpeculation speculation; /* as the one under test has it */
    size_t n_steps;                    /* shared ones */
    size_t n_borders;                  /* between operators, where the steps under test made way */
} Company;

void company_leave(Company *company);
/* A step of each of them, one after the other, then one of the generation. */
int company_step_between(Company *company, Generation *generation, MatrixOutput *output, ErrText *err);
/* A step of all of them together. Each comes first in turn, so that none waits for ever where the prompts of the others
 * fill the chunk. */
int company_step_together(Company *company, Generation *generation, MatrixOutput *output, ErrText *err);
/* A step of the generation that stops before every operator; now and then the others run a whole step there. */
int company_step_making_way(Company *company, Generation *generation, MatrixOutput *output, ErrText *err);

#endif
