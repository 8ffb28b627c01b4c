// SPDX-License-Identifier: Apache-2.0
/* Drafts. The bytes are a program of generations that follow each other (texts, observations, drafts, verifications),
 * while a history of them fills, makes way and is forgotten, and memory is refused. Trees must be whole and within
 * their limits, sources must propose what they may, counters must add up, and all memory must come back. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/min_max.h"
#include "spec/control/speculation_control.h"
#include "spec/sources/calibration.h"
#include "spec/sources/continuation_table.h"
#include "spec/sources/draft_reuse.h"
#include "spec/sources/drafter_lookup.h"
#include "spec/sources/drafter_sam.h"
#include "spec/sources/history.h"
#include "spec/speculator.h"
#include "spec/tree/draft_share.h"
#include "tools/baselines/draft_policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

enum {
    INPUT_MAX = 1 << 14,
    KINDS = 256,        /* kinds of tokens: a byte each */
    TEXT_MAX = 1 << 13, /* most tokens of a generation */
    COST = 1 << 17,     /* most tokens of all texts of a program */
    NODES_MAX = 40
};

#define CHECK(true_) ((true_) ? (void)0 : abort())

/* A draft model that says anything, has any limits, is busy now and then, and fails seldom. */
typedef struct FuzzModel {
    DraftModelOps ops;
    uint32_t n_text, n_rows, n_asked;
    uint8_t how;
    bool was_busy;
} FuzzModel;

/* A grammar of pairs of tokens: refuses some tokens behind each, and forces runs behind every fourth. */
typedef struct FuzzGrammar {
    uint8_t how;
    uint8_t last; /* of the text */
} FuzzGrammar;

/* A generation, and its sources once more, to be asked alone. */
typedef struct Generation {
    DraftReport report;
    Speculator *speculator;
    HistoryReader *reader;
    bool has_history; /* the reader's history is not forgotten */
    DrafterSam *sam;
    DrafterLookup *lookup;
    Calibration *calibration;
    ContinuationTable *table;
    Drafter drafters[5]; /* no ops: memory was refused */
    SpeculationControl control;
    FuzzModel model;
    FuzzGrammar grammar;
    SpecLab lab;
    uint64_t n_verified;
    DraftTree tree;
    bool has_tree; /* behind the text as it is */
    uint8_t text[TEXT_MAX];
    uint32_t n;
} Generation;

typedef struct Run {
    const uint8_t *data;
    size_t len_bytes, at;
    uint32_t cost;
    uint8_t sources, how;         /* how: the model's ways */
    const DraftPolicyOps *policy; /* NULL: the product's own trees */
    AccountTable accounts;
    History *history;
    uint64_t bytes_max;
    bool pairs[KINDS][KINDS]; /* pairs of tokens that stand side by side in a text of the history */
    Generation generation;
} Run;

static uint8_t next_byte(Run *run) {
    return run->at < run->len_bytes ? run->data[run->at++] : 0;
}

/* Small and large histories. */
static uint32_t token_of(uint8_t byte) {
    return byte * 16000003u;
}

static uint8_t byte_of(uint32_t token) {
    CHECK(token % 16000003u == 0 && token / 16000003u < KINDS);
    return (uint8_t)(token / 16000003u);
}

static void new_history(Run *run) {
    static const uint64_t sizes[] = { 0, HISTORY_BYTES_MIN, 300000, 1 << 20 };

    memset(run->pairs, 0, sizeof(run->pairs));
    run->bytes_max = sizes[next_byte(run) % ARRAY_LEN(sizes)];
    CHECK(!history_new(&run->accounts, run->bytes_max, &run->history));
}

static void end_generation(Generation *generation) {
    speculator_free(generation->speculator);
    history_reader_free(generation->reader);
    drafter_sam_free(generation->sam);
    drafter_lookup_free(generation->lookup);
    calibration_free(generation->calibration);
    continuation_table_free(generation->table);
    memset(generation, 0, sizeof(*generation));
}

static int model_follow(void *self, const uint32_t *text, size_t n) {
    FuzzModel *model = self;

    CHECK(n && n >= model->n_text && n <= TEXT_MAX + DRAFT_ROWS_MAX && text[n - 1] % 16000003u == 0);
    if (model->n_asked % 16 == 9 && !model->was_busy) {
        model->was_busy = true;
        return -EBUSY;
    }
    model->was_busy = false;
    model->n_text = (uint32_t)n;
    model->n_rows = 0;
    return ++model->n_asked % 64 == 63 ? DRAFTER_E_MEMORY : 0;
}

static int model_expand(void *self, const DraftModelRow *rows, size_t n, DraftModelTops *tops) {
    FuzzModel *model = self;

    CHECK(n && model->n_text && model->n_rows + n <= model->ops.rows_max);
    if (model->n_asked % 16 == 11 && !model->was_busy) {
        model->was_busy = true;
        return -EBUSY;
    }
    model->was_busy = false;
    if (++model->n_asked % 64 == 63)
        return -EIO;
    for (size_t i = 0; i < n; i++) {
        const uint8_t token = byte_of(rows[i].token);

        CHECK(model->n_rows ? rows[i].parent >= 0 && rows[i].parent < (int)model->n_rows : rows[i].parent == -1);
        model->n_rows++;
        tops[i].n = (token + model->how) % (DRAFT_CHOICES_MAX + 3u);
        for (uint32_t k = 0; k < DRAFT_CHOICES_MAX; k++)
            tops[i].tops[k] = (ContextTop){ token_of((uint8_t)(token * 3 + k * (1 + model->how % 5))),
                                            k && token % 16 == 3 ? NAN : (float)model->how / 100 / (float)(1 + k) };
    }
    return 0;
}

static float model_cost_ms(const void *self, uint32_t n_rows) {
    const FuzzModel *model = self;

    return n_rows % (1 + model->how % 4u) ? 0 : 1 + (float)(n_rows * (model->how / 16u)) / 8;
}

static bool grammar_takes(const FuzzGrammar *grammar, uint8_t before, uint8_t token) {
    return (before + 3u * token + grammar->how) % 8 != 5;
}

/* Returns the token that is forced behind another, which may be refused. */
static uint8_t grammar_next(const FuzzGrammar *grammar, uint8_t before) {
    return (uint8_t)(before * 5u + grammar->how);
}

static DraftGrammarState grammar_state(uint8_t token) {
    return (DraftGrammarState){ { token, UINT64_C(0x5eed) } };
}

static DraftGrammarState grammar_root(void *self) {
    return grammar_state(((const FuzzGrammar *)self)->last);
}

static bool grammar_advance(void *self, const DraftGrammarState *at, uint32_t token, DraftGrammarState *nextp) {
    CHECK(at->words[0] < KINDS && at->words[1] == 0x5eed);
    *nextp = grammar_state(byte_of(token));
    return grammar_takes(self, (uint8_t)at->words[0], byte_of(token));
}

static void grammar_forced(void *self, const DraftGrammarState *at, const uint32_t *path, uint32_t n_path,
                           DraftForced *forced) {
    const FuzzGrammar *grammar = self;
    uint8_t token = (uint8_t)at->words[0];

    CHECK(n_path < GRAMMAR_PLACES_MAX && (!n_path || byte_of(path[n_path - 1]) == token));
    forced->n = 0;
    while (token % 4 != 1 && forced->n < 1u + grammar->how % GRAMMAR_FORCED_MAX) {
        const uint8_t next = grammar_next(grammar, token);

        if (!grammar_takes(grammar, token, next))
            break;
        forced->tokens[forced->n++] = token_of(token = next);
    }
}

static const DraftGrammarOps grammar_ops = { grammar_root, grammar_advance, grammar_forced };

static bool has_grammar(const Generation *generation) {
    return speculator_sources(generation->speculator) >> SPECULATION_GRAMMAR & 1;
}

static void begin_generation(Run *run) {
    Generation *generation = &run->generation;
    SpeculatorOptions options = { .sources = run->sources, .report = &generation->report, .nodes_max = NODES_MAX };

    CHECK(!history_reader_new(run->history, &generation->reader));
    generation->has_history = true;
    options.history = run->history;
    generation->lab.policy = run->policy;
    options.lab = &generation->lab;
    generation->model.how = run->how;
    generation->model.ops =
        (DraftModelOps){ model_follow, model_expand, model_cost_ms, 1 + run->how % 128u, run->how & 1 };
    options.model = (DraftModel){ &generation->model.ops, &generation->model };
    generation->grammar.how = run->how;
    if (run->sources >> SPECULATION_GRAMMAR & 1)
        options.grammar = (DraftGrammar){ &grammar_ops, &generation->grammar };
    CHECK(!speculator_new(&run->accounts, &options, &generation->speculator));
    if (!drafter_sam_new(&run->accounts, &generation->sam))
        generation->drafters[0] = (Drafter){ &drafter_sam_ops, generation->sam };
    if (!drafter_lookup_new(&run->accounts, &generation->lookup))
        generation->drafters[1] = (Drafter){ &drafter_lookup_ops, generation->lookup };
    if (!calibration_new(&run->accounts, &generation->calibration))
        generation->drafters[2] = (Drafter){ &calibration_ops, generation->calibration };
    if (!continuation_table_new(&run->accounts, &generation->table))
        generation->drafters[3] = (Drafter){ &continuation_table_ops, generation->table };
    generation->drafters[4] = (Drafter){ &history_drafter_ops, generation->reader };
    speculation_control_init(&generation->control, NULL);
}

static void append(Run *run, const uint32_t *tokens, uint32_t n) {
    Generation *generation = &run->generation;

    if (generation->n + n > TEXT_MAX) {
        end_generation(generation);
        begin_generation(run);
    }
    speculator_append(generation->speculator, tokens, n);
    for (uint32_t i = 0; i < ARRAY_LEN(generation->drafters); i++) {
        Drafter *drafter = &generation->drafters[i];
        int r;

        if (!drafter->ops)
            continue;
        r = drafter->ops->append(drafter->self, tokens, n);
        CHECK(!r || r == DRAFTER_E_MEMORY || r == -ENOMEM);
        if (r)
            drafter->ops = NULL; /* the source may be asked no more */
    }
    for (uint32_t i = 0; i < n; i++)
        generation->grammar.last = generation->text[generation->n++] = byte_of(tokens[i]);
    generation->has_tree = false;
}

static void op_append(Run *run) {
    uint32_t tokens[32], n = next_byte(run) % 32;

    for (uint32_t i = 0; i < n; i++)
        tokens[i] = token_of(next_byte(run));
    append(run, tokens, n);
}

static void op_observe(Run *run) {
    Generation *generation = &run->generation;
    uint8_t how = next_byte(run), token = next_byte(run), n = next_byte(run) % 12;
    uint32_t before = how & 1 ? CONTEXT_NO_TOKEN : token_of(next_byte(run));
    ContextTop top[12];

    for (uint32_t i = 0; i < n; i++)
        top[i] = (ContextTop){ token_of((uint8_t)(how + i * 5)), 1.0F / (float)(1 + i + token) };
    speculator_observe(generation->speculator, before, token_of(token), top, n, how & 2);
    if (generation->drafters[2].ops && calibration_observe(generation->calibration, before, token_of(token), top, n))
        generation->drafters[2].ops = NULL;
    if (generation->drafters[3].ops &&
        continuation_table_observe(generation->table, before, token_of(token), top, n, how & 2))
        generation->drafters[3].ops = NULL;
}

static void check_node(const Generation *generation, const DraftTree *tree, uint32_t i, DraftLimits limits) {
    const DraftNode *node = &tree->nodes[i], *parent = node->parent < 0 ? NULL : &tree->nodes[node->parent];
    uint32_t seen = 0;

    CHECK(node->parent >= DRAFT_ROOT && node->parent < (int)i);
    CHECK(node->depth == (parent ? parent->depth + 1 : 1));
    CHECK(node->depth <= limits.depth_max && node->depth < limits.tokens_left);
    CHECK(isfinite(node->reach) && node->reach > 0 && node->reach <= (parent ? parent->reach : 1));
    CHECK(node->n_credits >= 1 && node->n_credits <= DRAFT_SOURCES_MAX);
    for (uint32_t j = 0; j < node->n_credits; j++) {
        DraftCredit credit = node->credits[j];

        CHECK(credit.source < _SPECULATION_N && credit.bucket < DRAFT_BUCKETS && credit.rank < DRAFT_RANKS);
        CHECK(!(seen >> credit.source & 1) && speculator_sources(generation->speculator) >> credit.source & 1);
        seen |= 1u << credit.source;
    }
    if (has_grammar(generation) && !generation->lab.policy) { /* published policies know of no grammar */
        const uint8_t before = parent ? byte_of(parent->token) : generation->grammar.last;

        CHECK(grammar_takes(&generation->grammar, before, byte_of(node->token)));
        CHECK(!(seen >> SPECULATION_GRAMMAR & 1) || byte_of(node->token) == grammar_next(&generation->grammar, before));
    }
    for (uint32_t j = 0; j < i; j++)
        CHECK(tree->nodes[j].parent != node->parent || tree->nodes[j].token != node->token);
}

static void check_tree(const Generation *generation, const DraftTree *tree, DraftLimits limits) {
    float sums[DRAFT_ROWS_MAX] = { 0 };

    CHECK(tree->n_nodes <= limits.nodes_max && tree->n_nodes <= NODES_MAX && tree->n_rows == tree->n_nodes + 1);
    CHECK(generation->n || !tree->n_nodes);
    CHECK(tree->parents[0] == -1 && tree->node_of[0] == DRAFT_ROOT);
    CHECK(!generation->n || tree->tokens[0] == token_of(generation->text[generation->n - 1]));
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        check_node(generation, tree, i, limits);
        sums[tree->nodes[i].parent + 1] += tree->nodes[i].reach;
    }
    /* A policy believes the model's chances as they are. */
    for (uint32_t i = 0; !generation->lab.policy && i <= tree->n_nodes; i++)
        CHECK(sums[i] <= 1.0001F * (i ? tree->nodes[i - 1].reach : 1));
    for (uint32_t row = 1; row < tree->n_rows; row++) {
        const DraftNode *node = &tree->nodes[tree->node_of[row]];

        CHECK(tree->parents[row] >= 0 && tree->parents[row] < (int)row);
        CHECK(tree->tokens[row] == node->token && tree->row_of[tree->node_of[row]] == row);
        CHECK(tree->node_of[tree->parents[row]] == node->parent);
    }
}

static void op_draft(Run *run) {
    Generation *generation = &run->generation;
    uint8_t how = next_byte(run);
    const StepCompany company = { how / 2u, how & 8 ? how : 0 };
    DraftLimits limits = { next_byte(run) % 70, next_byte(run) % 40, next_byte(run) };
    DraftCosts costs = speculation_control_costs(&generation->control, company);
    const ModelBudget budget = { .ms = how, .step_ms = limits.tokens_left % 3 * how };
    float ms[DRAFT_ROWS_MAX];

    if (how & 1) {
        for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
            ms[i] = how & 2 ? 1 + (float)(i * (how / 4u)) / 16 : 1 + (float)(i * how % 13);
        costs = (DraftCosts){ .ms = ms, .n_rows = how & 4 ? DRAFT_ROWS_MAX : how % (DRAFT_ROWS_MAX + 1) };
    }
    for (uint32_t i = 0; i < costs.n_rows; i++)
        CHECK(costs.ms[i] > 0 && isfinite(costs.ms[i]));
    generation->lab.always = how & 128;
    speculator_draft(generation->speculator, limits, costs, how & 64 ? NULL : &budget, &generation->tree);
    CHECK(speculator_model_step(generation->speculator)->rows_without <= limits.nodes_max + 1);
    check_tree(generation, &generation->tree, limits);
    if (how & 16) {
        draft_share_chain(&generation->tree);
        check_tree(generation, &generation->tree, limits);
    }
    if ((how & 32) && costs.n_rows) {
        DraftTree *tree = &generation->tree;

        draft_share_cut(&tree, &(float){ 1 }, 1, how / 4u, costs);
        check_tree(generation, &generation->tree, limits);
        CHECK(tree->n_nodes <= how / 4u);
    }
    CHECK(generation->tree.n_rows <= (costs.n_rows ? costs.n_rows : 1));
    generation->has_tree = limits.tokens_left > 0;
}

static void check_counts(const Generation *generation) {
    const DraftReport *report = &generation->report;
    uint64_t n = 0;

    for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
        n += report->lengths[i];
    CHECK(n == generation->n_verified);
    for (uint32_t i = 0; i < _SPECULATION_N; i++)
        CHECK(report->accepted[i] <= report->drafted[i]);
}

/* Verifies a path that the bytes choose, then a token that no child has. */
static void op_verify(Run *run) {
    Generation *generation = &run->generation;
    const DraftTree *tree = &generation->tree;
    uint32_t accepted[DRAFT_ROWS_MAX], emitted[DRAFT_ROWS_MAX], tops[DRAFT_ROWS_MAX], n = 0, row = 0;
    uint8_t how = next_byte(run), next = next_byte(run);
    const StepCompany company = { how / 4u, how & 16 ? how : 0 };
    const ModelShare model = { .is_on = how & 8 };

    if (!generation->has_tree || !generation->n)
        return;
    for (uint32_t i = 0; i < tree->n_rows; i++)
        tops[i] = how & 1 && i + 1 < tree->n_rows ? tree->tokens[i + 1] : token_of(next);
    for (uint32_t i = row + 1; i < tree->n_rows; i++)
        if (tree->parents[i] == (int)row && next_byte(run) % 4) {
            emitted[n] = tree->tokens[i];
            accepted[n++] = row = i;
        }
    while (draft_tree_child(tree, row, token_of(next)) >= 0)
        next++;
    emitted[n] = token_of(next);
    speculator_verified(generation->speculator, tree, accepted, n, emitted[n], how & 2 ? tops : NULL);
    generation->n_verified++;
    check_counts(generation);
    speculation_control_took(&generation->control, tree->n_rows, company, n + 1, 0.01F * (float)how, 0);
    CHECK(speculation_control_rows(&generation->control, company, model) >= 1);
    CHECK(speculation_control_rows(&generation->control, company, model) <= DRAFT_ROWS_MAX);
    append(run, emitted, n + 1);
}

/* Asks a source along a path that the bytes choose. */
static void ask(Run *run, const Drafter *drafter) {
    const Generation *generation = &run->generation;
    bool is_history = drafter->self == generation->reader;
    uint8_t last = generation->n ? generation->text[generation->n - 1] : 0;
    DraftCursor at = drafter->ops->root(drafter->self);

    for (uint32_t depth = 0; depth < 6; depth++) {
        size_t max = next_byte(run) % (DRAFT_CHOICES_MAX + 1), n;
        DraftChoice choices[DRAFT_CHOICES_MAX];
        uint8_t token = next_byte(run);

        n = drafter->ops->choices(drafter->self, at, choices, max);
        CHECK(n <= max);
        for (size_t i = 0; i < n; i++) {
            CHECK(choices[i].bucket < DRAFT_BUCKETS && choices[i].rank < DRAFT_RANKS);
            CHECK(!is_history || (choices[i].rank == i && run->pairs[last][byte_of(choices[i].token)]));
            for (size_t j = 0; j < i; j++)
                CHECK(choices[i].token != choices[j].token);
        }
        CHECK(!is_history || (generation->has_history && (generation->n || depth)) || !n);
        if (n && token % 4) {
            at = choices[token % n].next;
            last = byte_of(choices[token % n].token);
        } else {
            at = drafter->ops->follow(drafter->self, at, token_of(token));
            last = token;
        }
    }
}

static void op_ask(Run *run) {
    const Drafter *drafter = &run->generation.drafters[next_byte(run) % ARRAY_LEN(run->generation.drafters)];

    if (drafter->ops)
        ask(run, drafter);
}

static void check_history(const Run *run, const uint8_t *text, uint32_t n, int r) {
    HistoryStats stats = history_stats(run->history);
    HistoryReader *reader;

    CHECK(!r || r == DRAFTER_E_MEMORY || r == -ENOMEM);
    CHECK(stats.bytes <= run->bytes_max && stats.bytes <= run->accounts.used_bytes[ACCOUNT_DRAFTDB]);
    CHECK(stats.n_texts <= stats.n_tokens && !stats.n_tokens == !stats.n_texts);
    if (r || !n || !stats.n_texts)
        return;
    /* What was taken in must be found. */
    CHECK(!history_reader_new(run->history, &reader));
    for (uint32_t i = n < 100 ? 0 : n - 100; i < n; i++) {
        uint32_t token = token_of(text[i]);

        CHECK(!history_drafter_ops.append(reader, &token, 1));
    }
    CHECK((history_drafter_ops.root(reader).c >> 16) >= MIN(n, 100));
    history_reader_free(reader);
}

static void add_text(Run *run, const uint8_t *text, uint32_t n) {
    uint32_t tokens[TEXT_MAX];

    for (uint32_t i = 0; i < n; i++) {
        tokens[i] = token_of(text[i]);
        if (i)
            run->pairs[text[i - 1]][text[i]] = true;
    }
    check_history(run, text, n, history_add(run->history, tokens, n));
}

static void op_finish(Run *run) {
    add_text(run, run->generation.text, run->generation.n);
    if (next_byte(run) % 2) {
        end_generation(&run->generation);
        begin_generation(run);
    }
}

/* Adds long texts, so that others make way: a pattern over and over, with a new token now and then. */
static void op_add(Run *run) {
    uint32_t len = 1 + next_byte(run) % 16, n = 16 * (1u + next_byte(run)), every = 1 + next_byte(run);
    uint8_t text[TEXT_MAX], pattern[16];

    if (n > run->cost)
        return;
    run->cost -= n;
    for (uint32_t i = 0; i < len; i++)
        pattern[i] = next_byte(run);
    for (uint32_t i = 0; i < n; i++)
        text[i] = i % every ? pattern[i % len] : (uint8_t)(i * every >> 3);
    add_text(run, text, n);
}

/* Reads parts of the text before anybody drafts. */
static void op_follow(Run *run) {
    const Speculator *speculator = run->generation.speculator;
    const size_t most = next_byte(run), before = speculator_n_behind(speculator);
    size_t behind;

    speculator_follow(run->generation.speculator, most);
    behind = speculator_n_behind(speculator);
    CHECK(behind <= before);
    CHECK(before - behind <= most || !(speculator_sources(speculator) >> SPECULATION_MODEL & 1));
}

/* Forgets the history; its readers live on. */
static void op_forget(Run *run) {
    history_free(run->history);
    run->generation.has_history = false;
    new_history(run);
}

static void op_limit(Run *run) {
    uint8_t how = next_byte(run);

    run->accounts.limit_bytes[ACCOUNT_DRAFTDB] = how < 128 ? (uint64_t)how << 12 : UINT64_MAX;
}

static void op_restart(Run *run) {
    uint32_t policy;

    run->sources = next_byte(run);
    policy = next_byte(run) % (_POLICY_N + 1);
    run->policy = policy ? &draft_policies[policy - 1] : NULL;
    run->how = next_byte(run);
    end_generation(&run->generation);
    begin_generation(run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes) {
    static void (*const operations[])(Run * run) = { op_append, op_observe, op_draft,   op_verify, op_ask,   op_finish,
                                                     op_add,    op_limit,   op_restart, op_forget, op_follow };
    Run *run;

    if (!len_bytes || len_bytes > INPUT_MAX)
        return 0;
    run = calloc(1, sizeof(*run));
    if (!run)
        return 0;
    run->data = data;
    run->len_bytes = len_bytes;
    run->cost = COST;
    run->sources = next_byte(run);
    account_table_init(&run->accounts);
    new_history(run);
    begin_generation(run);
    while (run->at < run->len_bytes)
        operations[next_byte(run) % ARRAY_LEN(operations)](run);
    end_generation(&run->generation);
    history_free(run->history);
    CHECK(!run->accounts.total_bytes);
    free(run);
    return 0;
}
