// SPDX-License-Identifier: Apache-2.0
#include "spec/tree/draft_rounds.h"

#include <assert.h>
#include <string.h>

#include "base/min_max.h"
#include "spec/tree/draft_batch.h"

enum {
    TRIED = 2, /* passes of a step that are tried unmeasured: afterwards the model has times, if they are measured */
    OPEN_MAX = 64,  /* bound of a sum of reach, at which older rows count half */
    AHEAD_ROWS = 8, /* length of a chain that could fill the rows behind a cliff of the costs */
};

static const float prior_brought[DRAFT_VALUE_CLASSES] = { 0.75F, 0.5F, 0.65F, 0.85F }, prior_open = 2;
static const float brought_min = 0.02F, value_min = 0.002F; /* a row that brings less is never worth a pass */
static const float guess_share = 0.3F; /* share of the target's plain step that an unmeasured pass is thought to take */
/* A common pass may take this share of the time of separate passes, which learn from each other. */
static const float together_max = 0.9F;
static const double rate_kept = 0.8;

typedef struct Round {
    const DraftRounds *it;
    DraftRoundsReport *report;
    DraftTree *tree; /* all nodes, before the cut */
    uint32_t root_token, depth_max, nodes_max;
    uint32_t kept;                  /* nodes that a cut now would keep */
    int model_rows[DRAFT_ROWS_MAX]; /* the model's row of each row of the tree, or MODEL_NOWHERE */
    float children[DRAFT_ROWS_MAX]; /* sum of the reach of the kept nodes behind a row */
    DraftBatchRows rows;
    uint32_t n_ahead; /* passes that are expected after the next one */
    DraftBatchTable table;
    DraftModelRow batch[DRAFT_ROWS_MAX]; /* the last pass, with what was expected of its rows */
    uint32_t first_of_batch;             /* the pass's first row, by the model's numbers */
    uint8_t classes[DRAFT_ROWS_MAX];
    float open[DRAFT_ROWS_MAX], reach[DRAFT_ROWS_MAX], before[DRAFT_ROWS_MAX];
} Round;

void draft_value_init(DraftValue *value) {
    *value = (DraftValue){ 0 };
    for (uint32_t i = 0; i < DRAFT_VALUE_CLASSES; i++) {
        value->open[i] = prior_open;
        value->brought[i] = prior_open * prior_brought[i];
    }
}

static float mean_of(const DraftValue *value, uint32_t class) {
    const float mean = value->brought[class] / value->open[class];

    return mean < brought_min ? brought_min : MIN(1, mean);
}

static float reach_of(const DraftTree *tree, uint32_t row) {
    return row ? tree->nodes[tree->node_of[row]].reach : 1;
}

/* The class of a row. A token behind one that is nearly sure is mostly sure as well. */
static uint32_t class_of(const DraftTree *tree, uint32_t row) {
    const float chance = row ? reach_of(tree, row) / reach_of(tree, (uint32_t)tree->parents[row]) : 0;

    return !row ? 0 : chance < 0.5F ? 1 : chance < 0.9F ? 2 : 3;
}

/* Mean of what a row of any class brings. */
static float mean_of_all(const DraftValue *value) {
    float brought = 0, open = 0;

    for (uint32_t i = 0; i < DRAFT_VALUE_CLASSES; i++) {
        brought += mean_of(value, i) * value->open[i];
        open += value->open[i];
    }
    return brought / open;
}

static bool is_free(const DraftRounds *rounds) {
    return spec_lab_of(rounds->lab)->always;
}

float draft_rounds_spent_ms(const DraftRounds *rounds, const DraftRoundsReport *report) {
    return is_free(rounds) ? 0 : report->spent_ms;
}

float draft_rounds_pass_ms(const DraftRounds *rounds, uint32_t n_rows) {
    return is_free(rounds) ? 0 : model_drafter_cost_ms(rounds->model, n_rows, guess_share * rounds->costs.ms[0]);
}

bool draft_rounds_affords(const DraftRounds *rounds, const DraftRoundsReport *report, uint32_t n_rows) {
    return is_free(rounds) || report->spent_ms + draft_rounds_pass_ms(rounds, n_rows) <= rounds->budget.ms;
}

bool draft_rounds_stops(const DraftRounds *rounds) {
    return rounds->budget.stops && rounds->budget.stops(rounds->budget.stops_arg);
}

int draft_rounds_compute(const DraftRounds *rounds, DraftRoundsReport *report, const DraftModelRow *rows, uint32_t n) {
    const int r = model_drafter_expand(rounds->model, rows, n);

    if (r)
        return r;
    report->n_passes++;
    report->n_rows += n;
    report->spent_ms += draft_rounds_pass_ms(rounds, n); /* as known after this pass */
    return 0;
}

static float spent_ms(const Round *r) {
    return draft_rounds_spent_ms(r->it, r->report);
}

static float pass_ms(const Round *r, uint32_t n_rows) {
    return draft_rounds_pass_ms(r->it, n_rows);
}

/* The time that a pass counts with in decisions. While no pass is measured, a few are tried at no cost, within the
 * budget. */
static float weighed_ms(const Round *r, uint32_t n_rows) {
    const float ms = pass_ms(r, n_rows);

    return r->report->n_passes < TRIED && ms > 0 && !(model_drafter_cost_ms(r->it->model, n_rows, 0) > 0) ? 0 : ms;
}

/* --- a tree from what the model has computed ---------------------------------------------------------------------- */

/* Returns how many nodes the step has time for beside the model; 0 where its time is not known. */
static uint32_t affordable_nodes(const Round *r) {
    const DraftCosts *costs = &r->it->costs;
    const float step_ms = r->it->budget.step_ms, left_ms = step_ms - spent_ms(r);
    uint32_t n = MIN(r->it->limits.nodes_max, DRAFT_NODES_MAX);

    if (!costs->n_rows)
        return 0;
    n = MIN(n, costs->n_rows - 1);
    while (n && step_ms > 0 && costs->ms[n] - costs->ms[0] > left_ms)
        n--;
    return n;
}

static void regrow(Round *r) {
    const DraftRounds *it = r->it;
    DraftTree *tree = r->tree;
    DraftCosts costs = it->costs;
    DraftLimits limits = it->limits;

    costs.more_ms += spent_ms(r);
    r->nodes_max = limits.nodes_max = affordable_nodes(r);
    r->kept = draft_growth_uncut(tree, r->root_token, it->sources, limits, costs, it->chain);
    for (uint32_t row = 0; row < tree->n_rows; row++) {
        r->children[row] = 0;
        if (!row) {
            r->model_rows[0] = model_drafter_n_rows(it->model) ? 0 : MODEL_NOWHERE;
            continue;
        }
        r->model_rows[row] = model_drafter_child(it->model, r->model_rows[tree->parents[row]], tree->tokens[row]);
        if (tree->node_of[row] < (int)r->kept)
            r->children[tree->parents[row]] += reach_of(tree, row);
    }
}

/* Learns what the rows of the last pass have brought, after the tree has grown with them. */
static void learn(Round *r) {
    DraftValue *value = r->it->value;

    for (uint32_t row = 0; row < r->tree->n_rows; row++) {
        const int i = r->model_rows[row] - (int)r->first_of_batch;
        const float reach = reach_of(r->tree, row);
        uint32_t class;

        if (i < 0 || !(reach > 0)) /* a row that the tree has lost tells nothing: a row above it was wrong */
            continue;
        class = r->classes[i];
        value->brought[class] += r->children[row] / reach * r->reach[i] - r->before[i];
        value->open[class] += r->open[i];
        if (value->open[class] < OPEN_MAX)
            continue;
        value->brought[class] /= 2;
        value->open[class] /= 2;
    }
}

/* --- what to compute next ----------------------------------------------------------------------------------------- */

/* Returns the reach behind a row that no kept node accounts for: there the model may find something. */
static float open_of(const Round *r, uint32_t row) {
    const float open = reach_of(r->tree, row) - r->children[row];

    return MAX(open, 0);
}

/* Returns what the passes after a first one bring above their cost, if that pass gives a node of that reach: one token
 * each, as long as a token is worth a pass. *np becomes their number. */
static float brought_ahead(float reach, float mean, float pass_tokens, uint32_t n_max, uint32_t *np) {
    float sum = 0;

    for (*np = 0; *np < n_max; (*np)++) {
        reach *= mean;
        if (reach <= pass_tokens)
            break;
        sum += reach - pass_tokens;
    }
    return sum;
}

/* Sets what each row is worth to a pass. A pass over drafts of other sources decides between its rows: afterwards the
 * reach of all of them lies where the drafts turn out wrong, or behind the last row. A row's value is the chance to be
 * that place, times what the model brings there. */
static void set_values(Round *r, double rate) {
    const DraftTree *tree = r->tree;
    const float mean = mean_of_all(r->it->value), pass_tokens = (float)rate * pass_ms(r, 1);
    float decided[DRAFT_ROWS_MAX]; /* reach of a row if the rows above it that the model has not computed are right */

    r->rows.n = tree->n_rows;
    r->n_ahead = 0;
    for (uint32_t row = 0; row < tree->n_rows; row++) {
        const uint32_t depth = row ? tree->nodes[tree->node_of[row]].depth : 0;
        const uint32_t n_left = r->depth_max - MIN(depth, r->depth_max);
        const int parent = row ? tree->parents[row] : 0;
        const float own = mean_of(r->it->value, class_of(tree, row)), open = open_of(r, row);
        uint32_t n_ahead = 0;
        float value;

        decided[row] = !row ? 1 : r->model_rows[parent] != MODEL_NOWHERE ? reach_of(tree, row) : decided[parent];
        value = open * own;
        if (decided[row] > 0)
            value += open / decided[row] * brought_ahead(decided[row] * own, mean, pass_tokens, n_left, &n_ahead);
        r->rows.sizes[row] = 1;
        r->rows.is_computed[row] = r->model_rows[row] != MODEL_NOWHERE;
        r->rows.values[row] = !r->rows.is_computed[row] && depth < r->depth_max && value > value_min ? value : 0;
        if (r->rows.values[row] > 0 && n_ahead > r->n_ahead)
            r->n_ahead = n_ahead;
    }
    for (uint32_t row = tree->n_rows - 1; row > 0; row--)
        r->rows.sizes[tree->parents[row]] += r->rows.sizes[row];
}

static double step_ms(const Round *r, uint32_t n_nodes) {
    return (double)(r->it->costs.ms[n_nodes] + r->it->costs.more_ms + spent_ms(r));
}

/* Returns the tokens that the best tree would give if the nodes `more` (by falling reach) joined it for ms, less those
 * that the rate gives in the same time. */
static double surplus(const Round *r, const float *more, uint32_t n_more, float ms, double rate) {
    double gain = 1, best = gain - rate * (step_ms(r, 0) + (double)ms);
    uint32_t i = 0, j = 0;

    for (uint32_t n = 1; n <= r->nodes_max; n++) {
        const float own = i < r->tree->n_nodes ? r->tree->nodes[i].reach : 0, other = j < n_more ? more[j] : 0;
        double over;

        if (!(own > 0) && !(other > 0))
            break;
        gain += (double)(own >= other ? own : other);
        i += own >= other;
        j += own < other;
        over = gain - rate * (step_ms(r, n) + (double)ms);
        best = MAX(over, best);
    }
    return best;
}

static double rate_of(const Round *r) {
    return draft_tree_gain(r->tree, r->kept) / step_ms(r, r->kept);
}

/* Lists what the picked rows bring, by falling value, and returns how many nodes that is. Only one row of a path can be
 * where the model brings something, so rows below each other give one node. */
static uint32_t values_of(const Round *r, const uint8_t *picked, uint32_t n, float *values) {
    float sums[DRAFT_ROWS_MAX];
    uint8_t tops[DRAFT_ROWS_MAX]; /* the highest picked row above a row: its parent is not picked */
    uint32_t n_values = 0;

    for (uint32_t i = 0; i < n; i++) {
        const uint8_t row = picked[i];
        const bool is_top = !row || r->rows.is_computed[r->tree->parents[row]];

        tops[row] = is_top ? row : tops[r->tree->parents[row]];
        sums[row] = 0;
        sums[tops[row]] += r->rows.values[row];
    }
    for (uint32_t i = 0; i < n; i++) {
        const float value = sums[picked[i]];
        uint32_t at = n_values;

        if (tops[picked[i]] != picked[i])
            continue;
        for (n_values++; at && values[at - 1] < value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
    return n_values;
}

/* Whether a chain of passes pays for all the rows behind a cliff of the costs, where a single node more does not. */
static bool pays_ahead(const Round *r, uint8_t row, float first_ms, double rate) {
    const float mean = mean_of(r->it->value, class_of(r->tree, row));
    float chain[AHEAD_ROWS], ms = first_ms;

    chain[0] = r->rows.values[row];
    for (uint32_t n = 1; n < AHEAD_ROWS; n++) {
        chain[n] = chain[n - 1] * mean;
        ms += pass_ms(r, 1);
        if (spent_ms(r) + ms > r->it->budget.ms)
            return false;
        if (surplus(r, chain, n + 1, ms, rate) > 0)
            return true;
    }
    return false;
}

/* Returns the rows of a pass that computes `row`: those above it that are not computed are included. */
static uint32_t rows_to(const Round *r, int row) {
    uint32_t n = 0;

    for (; row >= 0 && !r->rows.is_computed[row]; row = r->tree->parents[row])
        n++;
    return n;
}

/* Returns how many rows the next pass may have. Expected passes share the step's few rows; a pass has more only where
 * its best row is deep in the draft of another source. */
static uint32_t rows_max(const Round *r) {
    const uint32_t n_left = model_drafter_n_left(r->it->model), most = model_drafter_pass_rows(r->it->model);
    uint32_t best = 0, n = (n_left + r->n_ahead) / (r->n_ahead + 1), n_best;

    for (uint32_t row = 1; row < r->rows.n; row++)
        best = r->rows.values[row] > r->rows.values[best] ? row : best;
    n_best = rows_to(r, (int)best);
    n = MAX(n, n_best);
    n = MIN(n, n_left);
    return MIN(n, most);
}

/* Picks the rows of the next pass, parents first, and returns how many; 0: no pass is worth it. A pass pays if it
 * raises the tree's own rate of tokens (Eq. 6). How many rows share the pass is decided by the rate that trees usually
 * end with: by the low rate of a tree that has just begun, every row would pay for its share. */
static uint32_t choose(Round *r, uint8_t *picked) {
    const DraftRounds *it = r->it;
    const double own = rate_of(r), usual = MAX((double)it->value->rate, own);
    uint32_t k_max, best = 0;
    double most = 0;
    bool is_first = true;

    set_values(r, usual);
    k_max = rows_max(r);
    k_max = MIN(k_max, r->tree->n_rows);
    draft_batch_table(&r->table, &r->rows, k_max);
    for (uint32_t k = 1; k <= k_max; k++) {
        const uint32_t n = draft_batch_pick(&r->table, &r->rows, k, picked);
        const float ms = n ? weighed_ms(r, n) : 0, alone_ms = (float)k * weighed_ms(r, 1);
        float values[DRAFT_ROWS_MAX];
        uint32_t n_values;
        double over;

        if (n && !draft_rounds_affords(it, r->report, n))
            break;
        if (n < k) /* rows that are worth nothing may lie between those that are worth it */
            continue;
        if (k > 1 && ms > together_max * alone_ms)
            continue;
        n_values = values_of(r, picked, n, values);
        over = surplus(r, values, n_values, ms, usual);
        if (surplus(r, values, n_values, ms, own) > 1e-9 && (!best || over > most)) {
            best = k;
            most = over;
        } else if (is_first && pays_ahead(r, picked[n - 1], ms, own)) {
            best = k;
            most = over;
        }
        is_first = false;
    }
    return best ? draft_batch_pick(&r->table, &r->rows, best, picked) : 0;
}

static int compute(Round *r, const uint8_t *picked, uint32_t n) {
    const DraftTree *tree = r->tree;

    r->first_of_batch = model_drafter_n_rows(r->it->model);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t row = picked[i];

        r->batch[i].token = tree->tokens[row];
        r->batch[i].parent = (int16_t)(row ? r->model_rows[tree->parents[row]] : MODEL_NOWHERE);
        r->model_rows[row] = (int)(r->first_of_batch + i);
        r->classes[i] = (uint8_t)class_of(tree, row);
        r->open[i] = open_of(r, row);
        r->reach[i] = reach_of(tree, row);
        r->before[i] = r->children[row];
    }
    return draft_rounds_compute(r->it, r->report, r->batch, n);
}

/* --- the rounds --------------------------------------------------------------------------------------------------- */

/**
 * draft_rounds() - grow the tree that is worth most for its time, the model's drafts included
 * @report: spent_ms has what the model took of the step before
 *
 * Each round grows the tree of all sources anew from what the model has computed so far, which takes far less time than
 * a pass of the model. Then the model computes the rows that are expected to bring most: one while the tree is narrow,
 * several where a larger pass costs little more, with whatever rows lie between them. A row is worth its reach that no
 * node behind it accounts for, times what such rows have brought, plus what further passes will bring. Costs are the
 * passes and the rows of the verification, where new nodes may also replace worse ones.
 * Allocates nothing; about 60 KiB of stack.
 */
int draft_rounds(DraftTree *tree, DraftTree *without, uint32_t root_token, const DraftRounds *rounds,
                 DraftRoundsReport *report) {
    const DraftLimits limits = rounds->limits;
    Round round = { .it = rounds, .report = report, .tree = tree, .root_token = root_token };
    uint8_t picked[DRAFT_ROWS_MAX];
    uint32_t n;
    int r;

    regrow(&round);
    *without = *tree;
    draft_growth_cut(without, round.kept);
    report->n_kept_without = round.kept;
    round.depth_max = limits.tokens_left ? limits.tokens_left - 1 : 0;
    round.depth_max = MIN(limits.depth_max, round.depth_max);
    if (!round.nodes_max || !round.depth_max) {
        draft_growth_cut(tree, round.kept);
        return 0;
    }
    while (!draft_rounds_stops(rounds)) {
        n = choose(&round, picked);
        if (!n)
            break;
        r = compute(&round, picked, n);
        if (r) {
            *tree = *without;
            return r;
        }
        regrow(&round);
        learn(&round);
    }
    if (!is_free(rounds)) {
        const double rate = rate_of(&round), before = (double)rounds->value->rate;

        rounds->value->rate = (float)(before > 0 ? rate_kept * before + (1 - rate_kept) * rate : rate);
    }
    draft_growth_cut(tree, round.kept);
    return 0;
}
