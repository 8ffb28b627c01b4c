// SPDX-License-Identifier: Apache-2.0
/*
 * Generations share steps, and a turn is one step. An interactive generation's step comes first; then the parked step,
 * if there is one; then the step of the next generation by class and order. scheduler/requests/turn_order decides, and
 * this module carries out.
 *
 * When turns_interrupt() is called for an interactive job, a step without interactive generations yields at its next
 * operator: the step is parked with its rows, and its jobs are in no list until it ends. A step of background
 * generations alone yields to normal ones in this way too. At most one step is parked, so steps of normal generations
 * beside it are short.
 */
#include "daemon/engine/turns.h"

#include <assert.h>

#include "base/clock.h"
#include "base/min_max.h"
#include "daemon/engine/job_choices.h"
#include "daemon/engine/turns_answers.h"
#include "daemon/engine/turns_generation.h"
#include "scheduler/requests/turn_order.h"

/* ---- claims ------------------------------------------------------------------------------------------------------ */

/* Whether the job may take part in a step. Jobs with rows in a step are in no list until the step ends. A further
 * answer waits until the first one has computed the prompt. */
static bool may_run(const Job *job) {
    const Job *asked = job->run.asked ? job->run.asked : job;

    if (atomic_load(&job->cancelled))
        return true;
    if (atomic_load(&asked->paused))
        return false;
    return !job->run.generation || (generation_is_ready(job->run.generation) && job_answer_has_place(job));
}

static Priority rank_of(const Job *job, uint64_t now_ns) {
    const uint64_t waited_ns = now_ns > job->run.waits_since_ns ? now_ns - job->run.waits_since_ns : 0;

    return priority_aged(job->generate.priority, waited_ns, job->generate.ageing_ns);
}

static TurnClaim claim_of(const Job *job, uint64_t now_ns) {
    return (TurnClaim){
        .engine = job->engine,
        .standing = { job->generate.priority, rank_of(job, now_ns) },
        .may_run = may_run(job),
        .has_begun = job->run.generation != NULL,
        .has_output = job->run.generation && generation_usage(job->run.generation)->n_output_tokens,
    };
}

/* Goes through the jobs that are in no step, in the order of their turns, with the claim of each. */
#define FOREACH_CLAIM(job, claim, turns, now_ns)                                                                       \
    for ((job) = TAILQ_FIRST(&(turns)->active); (job) && ((claim) = claim_of((job), (now_ns)), true);                  \
         (job) = TAILQ_NEXT((job), link))

/* Describes the parked step in *parked. Returns parked; NULL: no step is parked. */
static const ParkedStep *parked_of(const Turns *turns, uint64_t now_ns, ParkedStep *parked) {
    if (!turns->parked)
        return NULL;
    *parked = (ParkedStep){ .top = turns->parked->top, .rank = PRIORITY_BACKGROUND, .waits = turns->parked_waits };
    for (size_t i = 0; i < turns->parked->n; i++) {
        const Job *job = turns->parked->targets[i].job;
        const Priority rank = job ? rank_of(job, now_ns) : PRIORITY_BACKGROUND;

        parked->rank = MAX(rank, parked->rank);
    }
    return parked;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Gathers the jobs of one rank that can have rows on this engine, in the order of their turns. */
static void gather(Turns *turns, const Engine *engine, Company *company, Priority rank, Priority top, uint64_t now_ns) {
    ParkedStep step;
    const ParkedStep *parked = parked_of(turns, now_ns, &step);
    TurnClaim claim;
    Job *job;

    FOREACH_CLAIM (job, claim, turns, now_ns) {
        if (company->n == GENERATION_TURNS_MAX)
            return;
        if (claim.engine != engine || claim.standing.rank != rank || !turn_order_is_ready(&claim) ||
            turn_order_stands_back(&claim, parked, top))
            continue;
        company->targets[company->n] = (StepTarget){ turns, job, 0 };
        company->turns[company->n] = (GenerationTurn){
            .generation = job->run.generation,
            .fn = turns_on_delta,
            .arg = &company->targets[company->n],
            .standing = claim.standing,
        };
        company->n++;
    }
}

/* Hands the results of a step to its jobs; jobs that go on are appended to the list in their order. */
static void turns_settle(Turns *turns, Company *company, int r, const ErrText *err) {
    turns->settling = company;
    for (size_t i = 0; i < company->n; i++) {
        const GenerationTurn *turn = &company->turns[i];
        ErrText own = *err;
        Job *job;

        if (!company->targets[i].job)
            continue;
        job = company->targets[i].job;
        company->targets[i].job = NULL; /* from here on it is in the list, or ended */
        job->run.waits_since_ns = clock_now_ns();
        if (turns_took_turn(turns, job, r ? r : turn->r ? turn->r : company->targets[i].r, &own))
            TAILQ_INSERT_TAIL(&turns->active, job, link);
    }
    turns->settling = NULL;
    company->n = 0;
}

/* Begins a step of the generations of one engine, those of class `top` first, with at most rows_max rows (0: any). Jobs
 * without rows in the step keep their place before the others. NULL: there is nothing to compute. */
static Company *begin_step(Turns *turns, const Engine *engine, Priority top, size_t rows_max, uint64_t now_ns) {
    Company *company = &turns->companies[turns->parked == &turns->companies[0]];
    ErrText err = { 0 };
    int r;

    company->n = 0;
    company->top = PRIORITY_BACKGROUND;
    for (int rank = PRIORITY_INTERACTIVE; rank >= PRIORITY_BACKGROUND; rank--)
        gather(turns, engine, company, (Priority)rank, top, now_ns);
    if (!company->n)
        return NULL;
    r = generation_step_begin(&company->step, company->turns, company->n, rows_max, &err);
    for (size_t i = 0; i < company->n; i++)
        if (company->turns[i].ran) {
            TAILQ_REMOVE(&turns->active, company->targets[i].job, link);
            if (company->targets[i].job->generate.priority > company->top)
                company->top = company->targets[i].job->generate.priority;
        } else {
            company->targets[i].job = NULL;
        }
    if (!r && company->step.n)
        return company;
    turns_settle(turns, company, r, &err);
    return NULL;
}

/* Runs a step to its end, or until it yields. */
static void run_step(Turns *turns, Company *company, const EngineYield *yield) {
    ErrText err = { 0 };
    int r = generation_step_run(&company->step, yield, &err);

    if (r == GENERATION_E_YIELDED || r == GENERATION_E_WAITING) {
        if (turns->parked != company && r == GENERATION_E_YIELDED)
            atomic_fetch_add(&turns->n_preempted, 1);
        if (turns->parked != company)
            turns->parked_credit_ns = 0;
        turns->parked = company;
        turns->parked_waits = r == GENERATION_E_WAITING;
        return;
    }
    if (turns->parked == company)
        turns->parked = NULL;
    turns_settle(turns, company, r, &err);
}

/* Whether all jobs of the parked step are cancelled, so that its memory can be freed. */
static bool parked_is_dead(const Turns *turns) {
    for (size_t i = 0; i < turns->parked->n; i++)
        if (turns->parked->targets[i].job && !atomic_load(&turns->parked->targets[i].job->cancelled))
            return false;
    return true;
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

/* Returns the first interactive job that may run and has begun, or has not begun. */
static Job *next_interactive(const Turns *turns, bool begun) {
    Job *job;

    TAILQ_FOREACH (job, &turns->active, link)
        if (may_run(job) && job->generate.priority == PRIORITY_INTERACTIVE && (job->run.generation != NULL) == begun)
            return job;
    return NULL;
}

/* Returns the next job of the other classes, by rank, then by the order of turns. except: an engine to leave out, or
 * NULL. */
static Job *next_other(const Turns *turns, const Engine *except, uint64_t now_ns) {
    Job *job, *next = NULL;
    TurnClaim claim;

    FOREACH_CLAIM (job, claim, turns, now_ns)
        if (turn_order_takes_turns(&claim, except) && (!next || claim.standing.rank > rank_of(next, now_ns)))
            next = job;
    return next;
}

/* Finds the next job that goes before the parked step: the highest class first, then the order of turns. NULL: there is
 * none. */
static Job *next_above(const Turns *turns, uint64_t now_ns) {
    ParkedStep step;
    const ParkedStep *parked = parked_of(turns, now_ns, &step);
    Job *job, *next = NULL;
    TurnClaim claim;

    FOREACH_CLAIM (job, claim, turns, now_ns)
        if (parked && turn_order_goes_before_parked(&claim, parked) &&
            (!next || job->generate.priority > next->generate.priority))
            next = job;
    return next;
}

/* Whether a job of class `top` or higher waits for its first token. */
static bool someone_waits(const Turns *turns, Priority top, uint64_t now_ns) {
    TurnClaim claim;
    Job *job;

    FOREACH_CLAIM (job, claim, turns, now_ns)
        if (turn_order_awaits_token(&claim, top))
            return true;
    return false;
}

static void sweep_cancelled(Turns *turns) {
    Job *job, *next;

    for (job = TAILQ_FIRST(&turns->active); job; job = next) {
        next = TAILQ_NEXT(job, link);
        if (!atomic_load(&job->cancelled))
            continue;
        TAILQ_REMOVE(&turns->active, job, link);
        turns_end_answer(turns, job, GENERATION_END_CANCELLED, 0, NULL);
    }
    if (turns->parked && parked_is_dead(turns))
        run_step(turns, turns->parked, NULL);
}

static void give_first_turn(Turns *turns, Job *job) {
    TAILQ_REMOVE(&turns->active, job, link);
    if (!turns_first_turn(turns, job))
        return;
    TAILQ_INSERT_TAIL(&turns->active, job, link);
    for (uint32_t i = 1; job->run.choices && i < job->run.choices->n; i++)
        TAILQ_INSERT_TAIL(&turns->active, job_of_choice(job, i), link);
}

/* Gives first turns to all interactive jobs, and to one other job, by class, if no job waits for a step. */
static void give_first_turns(Turns *turns, uint64_t now_ns) {
    Job *job, *next = NULL;
    TurnClaim claim;
    bool is_awaited;

    while ((job = next_interactive(turns, false)))
        give_first_turn(turns, job);
    is_awaited = someone_waits(turns, PRIORITY_INTERACTIVE, now_ns);
    FOREACH_CLAIM (job, claim, turns, now_ns)
        if (turn_order_may_begin(&claim, is_awaited) && (!next || claim.standing.rank > rank_of(next, now_ns)))
            next = job;
    if (next)
        give_first_turn(turns, next);
}

/* Returns the flag that asks a step to yield. */
static const _Atomic bool *wanted_of(const Turns *turns, const Company *company) {
    return company->top == PRIORITY_BACKGROUND ? &turns->wanted_above : &turns->wanted;
}

/* Credits the parked background step with an eighth of the time of a step of a higher class, and runs it once the
 * credit is positive: an operator may take longer than the credit. */
static void share_a_part(Turns *turns, uint64_t took_ns) {
    const uint64_t start_ns = clock_now_ns();
    EngineYield yield = { .wanted = &turns->wanted_above };

    turns->parked_credit_ns += (int64_t)(took_ns / TURN_ORDER_BACKGROUND_PART);
    if (turns->parked_credit_ns <= 0)
        return;
    yield.until_ns = start_ns + (uint64_t)turns->parked_credit_ns;
    run_step(turns, turns->parked, &yield);
    turns->parked_credit_ns -= (int64_t)(clock_now_ns() - start_ns);
    for (size_t i = 0; turns->parked && i < turns->parked->n; i++)
        if (turns->parked->targets[i].job)
            turns->parked->targets[i].job->run.waits_since_ns = clock_now_ns();
}

/* Gives others their time after a step of class `top` that took took_ns: the parked step goes on, or a step of another
 * engine begins. */
static void share_time(Turns *turns, const Engine *engine, Priority top, uint64_t took_ns) {
    const uint64_t now_ns = clock_now_ns();
    ParkedStep step;
    const ParkedStep *parked = parked_of(turns, now_ns, &step);
    const Job *job = parked ? NULL : next_other(turns, engine, now_ns);
    const TurnClaim claim = job ? claim_of(job, now_ns) : (TurnClaim){ 0 };
    const TurnPart part = turn_order_part(parked, job ? &claim : NULL, top, someone_waits(turns, top, now_ns));
    Company *company;
    EngineYield yield;

    if (part == TURN_PART_SMALL)
        share_a_part(turns, took_ns);
    if (part != TURN_PART_EQUAL)
        return;
    company = parked ? turns->parked : begin_step(turns, job->engine, top, 0, now_ns);
    if (!company)
        return;
    yield = (EngineYield){ .wanted = wanted_of(turns, company), .until_ns = now_ns + took_ns };
    run_step(turns, company, parked || engine_has_preemption(job->engine) ? &yield : NULL);
}

/* Runs a step for class `top`, then gives others their time. Returns the time of the step in ns. */
static uint64_t turn_of_class(Turns *turns, const Engine *engine, Priority top, size_t rows_max) {
    const uint64_t start_ns = clock_now_ns();
    Company *company = begin_step(turns, engine, top, rows_max, start_ns);
    uint64_t took_ns;

    if (company)
        run_step(turns, company, NULL);
    took_ns = clock_now_ns() - start_ns;
    share_time(turns, engine, top, took_ns);
    return took_ns;
}

/* Whether a job of a higher class may run, on any engine. */
static bool is_below_others(const Turns *turns, const Company *company, uint64_t now_ns) {
    TurnClaim claim;
    Job *job;

    FOREACH_CLAIM (job, claim, turns, now_ns)
        if (turn_order_is_above(&claim, company->top))
            return true;
    return false;
}

/* Runs a step that can yield. If the step waits for weights to arrive, a step of another engine runs meanwhile. A step
 * that begins because waiting has raised it, while a higher class answers on another engine, yields at once: from then
 * on it gets its part of the time. */
static void run_beside_others(Turns *turns, Company *company, const Engine *engine, uint64_t now_ns) {
    const Job *other = next_other(turns, engine, now_ns);
    const EngineYield yield = { .wanted = wanted_of(turns, company),
                                .until_ns = is_below_others(turns, company, now_ns) ? now_ns : 0,
                                .no_waiting = other };
    Company *beside;

    run_step(turns, company, &yield);
    if (!other || turns->parked != company || turns_are_wanted(turns))
        return;
    if (!turns->parked_waits)
        return;
    beside = begin_step(turns, other->engine, PRIORITY_INTERACTIVE, 0, now_ns);
    if (beside)
        run_step(turns, beside, NULL);
}

static void plain_turn(Turns *turns, const Engine *engine, uint64_t now_ns) {
    Company *company = begin_step(turns, engine, PRIORITY_INTERACTIVE, 0, now_ns);

    if (!company)
        return;
    if (company->top == PRIORITY_INTERACTIVE || !engine_has_preemption(engine))
        run_step(turns, company, NULL);
    else
        run_beside_others(turns, company, engine, now_ns);
}

/* Returns the engine of a company's jobs; NULL if no job is left. */
static const Engine *engine_of(const Company *company) {
    for (size_t i = 0; i < company->n; i++)
        if (company->targets[i].job)
            return company->targets[i].job->engine;
    return NULL;
}

uint64_t turns_take(Turns *turns) {
    const uint64_t now_ns = clock_now_ns();
    const Job *job;

    sweep_cancelled(turns);
    give_first_turns(turns, now_ns);
    job = next_interactive(turns, true);
    if (job)
        return turn_of_class(turns, job->engine, PRIORITY_INTERACTIVE, 0);
    job = next_above(turns, now_ns);
    if (job) {
        (void)turn_of_class(turns, job->engine, job->generate.priority, TURN_ORDER_BESIDE_ROWS);
    } else if (turns->parked) {
        run_beside_others(turns, turns->parked, engine_of(turns->parked), now_ns);
    } else {
        job = next_other(turns, NULL, now_ns);
        if (job)
            plain_turn(turns, job->engine, now_ns);
    }
    return 0;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

int turns_new(Turns **turnsp, Outbox *outbox) {
    _cleanup_(turns_freep) Turns *turns = calloc(1, sizeof(*turns));

    if (!turns)
        return err_raise(-ENOMEM);
    TAILQ_INIT(&turns->active);
    turns->outbox = outbox;
    turns->companies = calloc(2, sizeof(*turns->companies));
    if (!turns->companies)
        return err_raise(-ENOMEM);
    *turnsp = steal(&turns);
    return 0;
}

Turns *turns_free(Turns *turns) {
    if (!turns)
        return NULL;
    assert(TAILQ_EMPTY(&turns->active) && !turns->parked);
    free(turns->companies);
    free(turns);
    return NULL;
}

void turns_use_histories(Turns *turns, Histories *histories) {
    turns->histories = histories;
}

void turns_use_constraints(Turns *turns, ConstraintStore *constraints) {
    turns->constraints = constraints;
}

void turns_add(Turns *turns, Job *job) {
    job->run.waits_since_ns = clock_now_ns();
    TAILQ_INSERT_TAIL(&turns->active, job, link);
}

bool turns_have_work(const Turns *turns) {
    Job *job;

    if (turns->parked)
        return true;
    TAILQ_FOREACH (job, &turns->active, link)
        if (may_run(job))
            return true;
    return false;
}

bool turns_have_interactive(const Turns *turns) {
    return next_interactive(turns, true) || next_interactive(turns, false);
}

void turns_cancel_all(Turns *turns) {
    Company *parked = steal(&turns->parked);
    Job *job;

    if (parked)
        generation_step_drop(&parked->step);
    for (size_t i = 0; parked && i < parked->n; i++)
        if (parked->targets[i].job)
            turns_end_answer(turns, parked->targets[i].job, GENERATION_END_CANCELLED, 0, NULL);
    while ((job = TAILQ_FIRST(&turns->active))) {
        TAILQ_REMOVE(&turns->active, job, link);
        turns_end_answer(turns, job, GENERATION_END_CANCELLED, 0, NULL);
    }
}

void turns_interrupt(Turns *turns, Priority priority) {
    if (priority > PRIORITY_BACKGROUND)
        atomic_store(&turns->wanted_above, true);
    if (priority > PRIORITY_NORMAL)
        atomic_store(&turns->wanted, true);
}

bool turns_are_wanted(const Turns *turns) {
    return atomic_load(&turns->wanted);
}

void turns_resume(Turns *turns) {
    atomic_store(&turns->wanted, false);
    atomic_store(&turns->wanted_above, false);
}

uint64_t turns_n_preempted(const Turns *turns) {
    return atomic_load(&turns->n_preempted);
}
