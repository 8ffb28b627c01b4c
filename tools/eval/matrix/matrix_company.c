// SPDX-License-Identifier: Apache-2.0
#include "tools/eval/matrix/matrix_company.h"

void company_leave(Company *company) {
    for (size_t i = 0; i < ARRAY_LEN(company->others); i++)
        company->others[i] = generation_free(company->others[i]);
}

static int company_arrive(Company *company, ErrText *err) {
    for (size_t i = 0; i < ARRAY_LEN(company->others); i++) {
        GenerationOptions options = {
            .max_tokens = (uint32_t)(5 + 8 * i),
            .ignore_end = !company->constraint,
            .constraint = { .it = company->constraint, .may_be_cut = true },
            .no_reuse = true,
            .sampler = SAMPLER_OPTIONS_GREEDY,
            .speculation = company->speculation,
        };
        size_t n_prompt = company->n_prompt / (2 + i);
        int r = 0;

        if (company->others[i] && generation_end(company->others[i]) != GENERATION_RUNNING)
            company->others[i] = generation_free(company->others[i]);
        if (!company->others[i])
            r = generation_new(&company->others[i], company->engine, company->prompt->ids + 7 * (i + 1), n_prompt,
                               &options, err);
        if (r)
            return r;
    }
    return 0;
}

int company_step_between(Company *company, Generation *generation, MatrixOutput *output, ErrText *err) {
    int r = company_arrive(company, err);

    for (size_t i = 0; i < ARRAY_LEN(company->others) && !r; i++)
        r = generation_step(company->others[i], NULL, NULL, err);
    return r ? r : generation_step(generation, matrix_output_take, output, err);
}

int company_step_together(Company *company, Generation *generation, MatrixOutput *output, ErrText *err) {
    enum {
        TURNS = ARRAY_LEN(company->others) + 1
    };
    GenerationTurn turns[TURNS];
    int r = company_arrive(company, err);

    if (r)
        return r;
    for (size_t i = 0; i < TURNS; i++) {
        GenerationTurn *turn = &turns[(i + company->n_steps) % TURNS];

        *turn = i + 1 < TURNS ? (GenerationTurn){ .generation = company->others[i] }
                              : (GenerationTurn){ .generation = generation, .fn = matrix_output_take, .arg = output };
    }
    company->n_steps++;
    r = generation_step_together(turns, TURNS, err);
    for (size_t i = 0; i < TURNS && !r; i++)
        r = turns[i].r;
    return r;
}

/* Distance of the borders between operators at which the others run; consecutive steps of no model use the same
 * borders. */
#define BORDERS_APART 101

int company_step_making_way(Company *company, Generation *generation, MatrixOutput *output, ErrText *err) {
    static const _Atomic bool wanted = true;
    GenerationTurn turn = { .generation = generation, .fn = matrix_output_take, .arg = output };
    GenerationStep step;
    int r = generation_step_begin(&step, &turn, 1, 0, err);

    while (!r) {
        GenerationTurn others[ARRAY_LEN(company->others)] = { 0 };

        r = generation_step_run(&step, &(EngineYield){ .wanted = &wanted, .no_waiting = true }, err);
        if (r != GENERATION_E_YIELDED && r != GENERATION_E_WAITING)
            break;
        if (r == GENERATION_E_WAITING || company->n_borders++ % BORDERS_APART) {
            r = 0;
            continue;
        }
        r = company_arrive(company, err);
        for (size_t i = 0; i < ARRAY_LEN(others); i++)
            others[i].generation = company->others[i];
        if (!r)
            r = generation_step_together(others, ARRAY_LEN(others), err);
    }
    generation_step_drop(&step);
    return r ? r : turn.r;
}
