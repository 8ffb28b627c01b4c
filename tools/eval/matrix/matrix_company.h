// SPDX-License-Identifier: Apache-2.0
/* Two other requests that take turns or share steps with the tested one; each begins again when it ends. */
#ifndef COORDGEN_EVAL_MATRIX_COMPANY_H
#define COORDGEN_EVAL_MATRIX_COMPANY_H

#include "engine/generation.h"
#include "text/tokenizer/tokenizer.h"
#include "tools/eval/matrix/matrix_output.h"

typedef struct Company {
    Generation *others[2];
    Engine *engine;
    const TokenList *prompt;
    size_t n_prompt;                   /* tokens of it: the others take a half and a third of so many */
    GenerationSpeculation speculation; /* settings of the tested generation */
    Constraint *constraint;            /* of the tested generation, which has the reference; NULL: none */
    size_t n_steps;                    /* shared ones */
    size_t n_borders;                  /* borders between operators at which tested steps made way */
} Company;

void company_leave(Company *company);
/* Runs a step of each of the others, then one of the generation. */
int company_step_between(Company *company, Generation *generation, MatrixOutput *output, ErrText *err);
/* Runs a shared step of all generations. Each comes first in turn, so that none starves when the prompts of the others
 * fill the chunk. */
int company_step_together(Company *company, Generation *generation, MatrixOutput *output, ErrText *err);
/* Runs a step of the generation that may stop before every operator; now and then the others run a whole step there. */
int company_step_making_way(Company *company, Generation *generation, MatrixOutput *output, ErrText *err);

#endif
