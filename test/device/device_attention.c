// SPDX-License-Identifier: Apache-2.0
/* Checks of attention. A row reads its own path and gives the same bits, whatever the steps, the other rows and the
 * threads. Kept rows of a tree, shared blocks and copied blocks behave like a cache filled row by row. */
#undef NDEBUG
#include "test/device/device_timeline.h"

#include "base/min_max.h"
#include "test/unit/fixtures/patience.h"

/* --- chains ------------------------------------------------------------------------------------------------------- */

typedef struct ChainCase {
    KvShape shape;
    size_t n;
} ChainCase;

/* n_least: minimum of positions. */
static void check_chain(DeviceSuite *suite, const ChainCase *chain, size_t n_least) {
    static const struct {
        unsigned int n_threads;
        size_t step;
    } ways[] = { { RIG_THREADS, 1 }, { 2, 7 }, { 1, 64 }, { 4, 100 }, { 7, 1 }, { 14, 1 }, { RIG_THREADS, 350 } };
    const ChainCase at_least = { chain->shape, MAX(chain->n, n_least) }, *c = &at_least;
    _cleanup_(kv_rows_deinit) KvRows rows;
    _cleanup_(freep) float *whole = malloc(c->n * c->shape.n_heads * c->shape.head_size * sizeof(*whole));
    _cleanup_(freep) float *out = malloc(c->n * c->shape.n_heads * c->shape.head_size * sizeof(*out));
    Timeline timeline;
    Member member;
    KvRig kv;

    assert_true(whole && out);
    kv_rows_init(&rows, suite, &c->shape, c->n);
    kv_rig_open(&kv, suite, 1, &c->shape, c->n);
    timeline_init(&timeline, &kv, c->n);
    member = (Member){ &timeline, &rows, .n = c->n };
    members_run(&kv, &member, 1, 0, 0);
    member_expect(&kv, &member,
                  c->shape.soft_cap > 0 ? "attention with a soft cap"
                  : c->shape.window     ? "attention with a window"
                                        : "attention");
    memcpy(whole, member.out, c->n * kv.q_width * sizeof(*whole));
    rig_digest(suite, whole, c->n * kv.q_width * sizeof(*whole));
    members_free(&member, 1);
    timeline_deinit(&timeline);
    kv_rig_close(&kv);
    for (size_t i = 0; i < (patience_is_short() ? 3 : ARRAY_LEN(ways)); i++) {
        kv_rig_open(&kv, suite, ways[i].n_threads, &c->shape, c->n);
        timeline_init(&timeline, &kv, c->n);
        timeline_append(&timeline, &kv, &rows, 0, c->n, ways[i].step, 0, out);
        kv_same_rows(&kv, out, whole, c->n, "attention in other steps");
        timeline_deinit(&timeline);
        kv_rig_close(&kv);
    }
}

void test_device_chain(void **state) {
    static const ChainCase cases[] = {
        { { 6, 2, 32, 0, 0.2f, 0 }, 200 },   { { 9, 3, 64, 0, 0.125f, 0 }, 130 },
        { { 4, 4, 16, 0, 0.25f, 0 }, 150 },  { { 6, 2, 32, 100, 0.2f, 0 }, 210 },
        { { 4, 1, 80, 64, 0.1f, 0 }, 200 },  { { 2, 1, 16, 1, 0.2f, 0 }, 130 },
        { { 2, 1, 16, 129, 0.2f, 0 }, 130 }, { { 100, 1, 16, 0, 0.2f, 0 }, 70 },
        { { 14, 2, 64, 0, 0.125f, 0 }, 80 }, { { 2, 2, 128, 0, 0.0884f, 0 }, 66 },
        { { 6, 2, 32, 0, 0.2f, 2 }, 200 },   { { 4, 1, 80, 64, 0.1f, 0.5f }, 200 },
    };
    DeviceSuite *suite = *state;
    size_t block;
    Rig rig;

    rig_open_bare(&rig, suite, 1);
    block = rig.ops->kv_block_positions;
    rig_close(&rig);
    for (size_t i = 0; i < ARRAY_LEN(cases); i += patience_is_short() ? 5 : 1) /* 0, 5, 10: one of them with a cap */
        check_chain(suite, &cases[i], i % 2 ? 0 : block + 10);
}

/* --- other rows
 * ----------------------------------------------------------------------------------------------------- */

enum {
    SEQUENCES = 12,
    BEFORE_MAX = 140,
    ROWS_EACH_MAX = 70,
};

/* Row i follows an earlier row, often the one before. */
static void draw_tree(DeviceSuite *suite, int16_t *parents, size_t n) {
    parents[0] = -1;
    for (size_t i = 1; i < n; i++)
        parents[i] = (int16_t)(rig_draw(suite, 3) ? i - 1 : rig_draw(suite, i));
}

/* Sequences with filled caches, one with many rows and some with trees. */
typedef struct Company {
    Timeline timelines[SEQUENCES];
    KvRows before[SEQUENCES], rows[SEQUENCES];
    size_t n_before[SEQUENCES];
    int16_t parents[SEQUENCES][ROWS_EACH_MAX];
    Member members[SEQUENCES];
} Company;

static void company_init(Company *company, KvRig *kv, DeviceSuite *suite) {
    for (size_t i = 0; i < SEQUENCES; i++) {
        const bool is_tree = i % 3 == 1;
        const size_t n = i == 5 ? ROWS_EACH_MAX : is_tree ? 2 + rig_draw(suite, 30) : 1 + rig_draw(suite, 3);

        company->n_before[i] = i * 13 % BEFORE_MAX;
        kv_rows_init(&company->before[i], suite, &kv->shape, company->n_before[i] + 1);
        kv_rows_init(&company->rows[i], suite, &kv->shape, n);
        draw_tree(suite, company->parents[i], n);
        timeline_init(&company->timelines[i], kv, BEFORE_MAX + ROWS_EACH_MAX);
        timeline_append(&company->timelines[i], kv, &company->before[i], 0, company->n_before[i], 40, 0, NULL);
        company->members[i] = (Member){ &company->timelines[i], &company->rows[i], .n = n,
                                        .parents = is_tree ? company->parents[i] : NULL };
    }
}

static void company_deinit(Company *company) {
    for (size_t i = 0; i < SEQUENCES; i++) {
        timeline_deinit(&company->timelines[i]);
        kv_rows_deinit(&company->before[i]);
        kv_rows_deinit(&company->rows[i]);
    }
}

/* Runs each sequence alone, then all together, in calls of several sizes, in another order, and beside one with
 * non-finite values. */
static void check_company(KvRig *kv, DeviceSuite *suite) {
    static const size_t calls[] = { 0, 1, 5, 19, 60 };
    float *alone[SEQUENCES];
    Member others[SEQUENCES];
    Company company;

    company_init(&company, kv, suite);
    for (size_t i = 0; i < SEQUENCES; i++) {
        members_run(kv, &company.members[i], 1, 0, 0);
        member_expect(kv, &company.members[i], "attention of a sequence alone");
        alone[i] = company.members[i].out;
        rig_digest(suite, alone[i], company.members[i].n * kv->q_width * sizeof(float));
    }
    for (size_t c = 0; c < ARRAY_LEN(calls) + 2; c++) {
        const bool is_spoiled = c > ARRAY_LEN(calls);

        for (size_t i = 0; i < SEQUENCES; i++)
            others[i] = company.members[c >= ARRAY_LEN(calls) ? SEQUENCES - 1 - i : i];
        if (is_spoiled) { /* the one with many rows, which is in the middle */
            company.rows[5].q[3] = NAN;
            company.rows[5].k[kv->kv_width + 1] = INFINITY;
            company.rows[5].v[2 * kv->kv_width] = NAN;
        }
        members_run(kv, others, SEQUENCES, 0, c < ARRAY_LEN(calls) ? calls[c] : 0);
        for (size_t i = 0; i < SEQUENCES; i++) {
            const size_t at = (size_t)(others[i].timeline - company.timelines);

            if (!is_spoiled || at != 5)
                kv_same_rows(kv, others[i].out, alone[at], others[i].n, "attention among other sequences");
        }
        members_free(others, SEQUENCES);
    }
    members_free(company.members, SEQUENCES);
    company_deinit(&company);
}

void test_device_company(void **state) {
    static const KvShape shapes[] = { { 6, 2, 32, 0, 0.2f, 0 }, { 4, 1, 16, 50, 0.25f, 0 } };
    DeviceSuite *suite = *state;

    for (size_t i = 0; i < 2 * ARRAY_LEN(shapes); i += patience_is_short() ? 3 : 1) {
        KvRig kv;

        kv_rig_open(&kv, suite, i % 2 ? RIG_THREADS : 1, &shapes[i / 2], BEFORE_MAX + ROWS_EACH_MAX);
        check_company(&kv, suite);
        kv_rig_close(&kv);
    }
    assert_non_null(suite);
}

/* --- trees -------------------------------------------------------------------------------------------------------- */

enum {
    TREE_BEFORES = 7,
    TREE_ROWS_MAX = BATCH_SLOTS_MAX + 1,
    TREE_BEHIND = 3, /* rows that continue after the kept ones */
};

/* Returns a number of positions before a tree: small numbers, and numbers near the borders of blocks. */
static size_t positions_before(const KvRig *kv, size_t i) {
    const size_t block = kv->positions,
                 befores[TREE_BEFORES] = { 0, 1, block / 2 + 8, block - 1, block, block + 1, 2 * block + 2 };

    return befores[i];
}

/* Returns a capacity for the longest of them, a tree and the rows after it. */
static size_t tree_capacity(const KvRig *kv) {
    return 2 * kv->positions + 2 + TREE_ROWS_MAX + TREE_BEHIND;
}

static void tree_rig_open(KvRig *kv, DeviceSuite *suite, unsigned int n_threads, const KvShape *shape) {
    kv_rig_open(kv, suite, n_threads, shape, 1);
    assert_int_equal(kv->rig.ops->reserve_positions(kv->rig.backend, tree_capacity(kv), NULL), 0);
}

/* A tree with the rows before and after it. */
typedef struct TreeRows {
    KvRows before, rows, behind;
    size_t n_before, n;
    int16_t parents[TREE_ROWS_MAX];
} TreeRows;

static void tree_init(TreeRows *tree, KvRig *kv, DeviceSuite *suite, size_t n_before, size_t n) {
    tree->n_before = n_before;
    tree->n = n;
    kv_rows_init(&tree->before, suite, &kv->shape, n_before + 1);
    kv_rows_init(&tree->rows, suite, &kv->shape, n);
    kv_rows_init(&tree->behind, suite, &kv->shape, TREE_BEHIND);
    draw_tree(suite, tree->parents, n);
}

static void tree_deinit(TreeRows *tree) {
    kv_rows_deinit(&tree->before);
    kv_rows_deinit(&tree->rows);
    kv_rows_deinit(&tree->behind);
}

static void tree_timeline(const TreeRows *tree, KvRig *kv, Timeline *timeline, size_t layer) {
    timeline_init(timeline, kv, tree_capacity(kv));
    timeline_append(timeline, kv, &tree->before, 0, tree->n_before, 50, layer, NULL);
}

/* Copies the rows of a path to memory of their own. */
static void way_rows(const KvRig *kv, const TreeRows *tree, const size_t *way, size_t n, KvRows *rows) {
    kv_rows_init(rows, kv->rig.suite, &kv->shape, n);
    for (size_t i = 0; i < n; i++) {
        memcpy(rows->q + i * kv->q_width, tree->rows.q + way[i] * kv->q_width, kv->q_width * sizeof(float));
        memcpy(rows->k + i * kv->kv_width, tree->rows.k + way[i] * kv->kv_width, kv->kv_width * sizeof(float));
        memcpy(rows->v + i * kv->kv_width, tree->rows.v + way[i] * kv->kv_width, kv->kv_width * sizeof(float));
    }
}

/* Checks that a row gives the result of a chain that consists of its path. */
static void check_way(KvRig *kv, const TreeRows *tree, const Member *member, size_t row) {
    size_t way[TREE_ROWS_MAX];
    const size_t n = member_way(member, row, way);
    float *out = malloc(n * kv->q_width * sizeof(*out));
    Timeline timeline;
    KvRows rows;

    assert_non_null(out);
    way_rows(kv, tree, way, n, &rows);
    tree_timeline(tree, kv, &timeline, 0);
    timeline_append(&timeline, kv, &rows, 0, n, 1 + row % 5, 0, out);
    kv_same_rows(kv, member->out + (row - member->first) * kv->q_width, out + (n - 1) * kv->q_width, 1,
                 "attention in a tree");
    timeline_deinit(&timeline);
    kv_rows_deinit(&rows);
    free(out);
}

static const KvShape tree_shapes[] = { { 6, 2, 32, 0, 0.2f, 0 }, { 4, 1, 16, 20, 0.25f, 0 } };

void test_device_trees(void **state) {
    DeviceSuite *suite = *state;

    assert_non_null(suite);
    for (size_t i = 0; i < 2 * TREE_BEFORES; i++) {
        Timeline timeline;
        TreeRows tree;
        Member member;
        KvRig kv;

        tree_rig_open(&kv, suite, i % 2 ? RIG_THREADS : 1, &tree_shapes[i % 2]);
        tree_init(&tree, &kv, suite, positions_before(&kv, i / 2), i == 5 ? TREE_ROWS_MAX : 2 + rig_draw(suite, 40));
        tree_timeline(&tree, &kv, &timeline, 0);
        member = (Member){ &timeline, &tree.rows, .n = tree.n, .parents = tree.parents };
        members_run(&kv, &member, 1, 0, i % 3 ? 0 : 4);
        member_expect(&kv, &member, "attention in a tree");
        rig_digest(suite, member.out, tree.n * kv.q_width * sizeof(float));
        for (size_t r = 0; r < tree.n; r += 1 + rig_draw(suite, 6))
            check_way(&kv, &tree, &member, r);
        members_free(&member, 1);
        timeline_deinit(&timeline);
        tree_deinit(&tree);
        kv_rig_close(&kv);
    }
}

/* A tree stays open for a second step, beside another sequence. */
void test_device_open_trees(void **state) {
    DeviceSuite *suite = *state;

    assert_non_null(suite);
    for (size_t i = 0; i < TREE_BEFORES; i++) {
        Member members[2], first;
        Timeline timelines[2];
        TreeRows tree, other;
        size_t n_first;
        KvRig kv;

        tree_rig_open(&kv, suite, i % 2 ? 1 : RIG_THREADS, &tree_shapes[i % 2]);
        tree_init(&tree, &kv, suite, positions_before(&kv, i), i == 5 ? TREE_ROWS_MAX : 4 + rig_draw(suite, 40));
        tree_init(&other, &kv, suite, 33, 9);
        tree_timeline(&tree, &kv, &timelines[0], 0);
        tree_timeline(&other, &kv, &timelines[1], 0);
        n_first = 1 + rig_draw(suite, tree.n - 1);
        first = (Member){ &timelines[0], &tree.rows, .n = n_first, .parents = tree.parents, .is_open = true };
        members_run(&kv, &first, 1, 0, 0);
        member_expect(&kv, &first, "attention in an open tree");
        members_free(&first, 1);
        members[0] = (Member){ &timelines[1], &other.rows, .n = other.n, .parents = other.parents };
        members[1] = (Member){ &timelines[0],           &tree.rows,     .first = n_first, .n = tree.n - n_first,
                               .parents = tree.parents, .is_open = true };
        members_run(&kv, members, 2, 0, i % 3 ? 0 : 3);
        member_expect(&kv, &members[0], "attention beside an open tree");
        member_expect(&kv, &members[1], "attention in the second step of an open tree");
        for (size_t r = n_first; r < tree.n; r += 1 + rig_draw(suite, 6))
            check_way(&kv, &tree, &members[1], r);
        members_free(members, 2);
        timeline_deinit(&timelines[0]);
        timeline_deinit(&timelines[1]);
        tree_deinit(&tree);
        tree_deinit(&other);
        kv_rig_close(&kv);
    }
}

/* --- moves -------------------------------------------------------------------------------------------------------- */

/* Returns the move of a row with a slot to its position. */
static KvMove move_to(const KvRig *kv, const Timeline *timeline, size_t slot, size_t position) {
    return (KvMove){ .from = timeline->side,
                     .to = timeline->blocks[position / kv->positions],
                     .from_position = slot,
                     .to_position = position % kv->positions };
}

static bool same_memory(const KvRig *kv, const void *a, const void *b, size_t layer) {
    const size_t plane_bytes = kv_plane_bytes(kv), k = kv->layers[layer].k_offset_bytes,
                 v = kv->layers[layer].v_offset_bytes;

    return !memcmp((const uint8_t *)a + k, (const uint8_t *)b + k, plane_bytes) &&
           !memcmp((const uint8_t *)a + v, (const uint8_t *)b + v, plane_bytes);
}

/* Moves the kept rows to their positions, in this layer only. */
static void keep_way(KvRig *kv, const TreeRows *tree, Timeline *timeline, const size_t *way, size_t n) {
    const size_t n_in_place = batch_tree_in_place(tree->parents, tree->n);
    _cleanup_(freep) void *before = malloc(kv->block_bytes);
    void *block = timeline->blocks[(timeline->n + n - 1) / kv->positions];
    KvMove moves[TREE_ROWS_MAX];
    size_t n_moves = 0;

    assert_non_null(before);
    for (size_t i = 0; i < n; i++)
        if (way[i] >= n_in_place)
            moves[n_moves++] = move_to(kv, timeline, way[i] - n_in_place, timeline->n + i);
    memcpy(before, block, kv->block_bytes);
    kv->rig.ops->kv_move(kv->rig.backend, &kv->layers[0], moves, n_moves);
    assert_true(same_memory(kv, before, block, 1));
    kv->rig.ops->kv_move(kv->rig.backend, &kv->layers[0], moves, 0);
    timeline_commit(timeline, kv, &tree->rows, way, n);
}

/* A sequence continues after a kept path as if the path had been computed step by step. */
static void check_kept(KvRig *kv, const TreeRows *tree, size_t row) {
    Timeline timeline, plain;
    size_t way[TREE_ROWS_MAX], n;
    float *out = malloc(TREE_BEHIND * kv->q_width * sizeof(*out)),
          *expected = malloc(TREE_BEHIND * kv->q_width * sizeof(*expected));
    Member member = { &timeline, &tree->rows, .n = tree->n, .parents = tree->parents };
    KvRows rows;

    assert_true(out && expected);
    tree_timeline(tree, kv, &timeline, 0);
    members_run(kv, &member, 1, 0, 0);
    members_free(&member, 1);
    n = member_way(&member, row, way);
    keep_way(kv, tree, &timeline, way, n);
    timeline_append(&timeline, kv, &tree->behind, 0, TREE_BEHIND, 1, 0, out);
    way_rows(kv, tree, way, n, &rows);
    tree_timeline(tree, kv, &plain, 0);
    timeline_append(&plain, kv, &rows, 0, n, 5, 0, NULL);
    timeline_append(&plain, kv, &tree->behind, 0, TREE_BEHIND, 1, 0, expected);
    kv_same_rows(kv, out, expected, TREE_BEHIND, "attention behind what was kept of a tree");
    rig_digest(kv->rig.suite, out, TREE_BEHIND * kv->q_width * sizeof(*out));
    timeline_deinit(&timeline);
    timeline_deinit(&plain);
    kv_rows_deinit(&rows);
    free(out);
    free(expected);
}

/* Moves are done in order: a later move may start from a slot that an earlier one filled. */
static void check_order(KvRig *kv, const TreeRows *tree) {
    const size_t n_in_place = batch_tree_in_place(tree->parents, tree->n), first = tree->n_before;
    const size_t kept = n_in_place + 1;
    Timeline timeline;
    Member member = { &timeline, &tree->rows, .n = tree->n, .parents = tree->parents }, behind;
    KvMove moves[2];

    tree_timeline(tree, kv, &timeline, 0);
    members_run(kv, &member, 1, 0, 0);
    members_free(&member, 1);
    moves[0] = (KvMove){ timeline.side, timeline.side, 1, 0 };
    moves[1] = move_to(kv, &timeline, 0, first);
    kv->rig.ops->kv_move(kv->rig.backend, &kv->layers[0], moves, ARRAY_LEN(moves));
    timeline_commit(&timeline, kv, &tree->rows, &kept, 1);
    behind = (Member){ &timeline, &tree->behind, .n = 1 };
    members_run(kv, &behind, 1, 0, 0);
    member_expect(kv, &behind, "attention behind moves in their order");
    members_free(&behind, 1);
    timeline_deinit(&timeline);
}

void test_device_moves(void **state) {
    DeviceSuite *suite = *state;

    assert_non_null(suite);
    for (size_t i = 0; i < TREE_BEFORES; i++) {
        TreeRows tree;
        KvRig kv;

        tree_rig_open(&kv, suite, i % 2 ? RIG_THREADS : 1, &tree_shapes[i % 2]);
        do {
            tree_init(&tree, &kv, suite, positions_before(&kv, i), 20 + rig_draw(suite, 20));
            if (batch_tree_in_place(tree.parents, tree.n) + 2 <= tree.n)
                break;
            tree_deinit(&tree);
        } while (true);
        check_kept(&kv, &tree, tree.n - 1);
        check_kept(&kv, &tree, tree.n / 2);
        check_kept(&kv, &tree, 0);
        check_order(&kv, &tree);
        tree_deinit(&tree);
        kv_rig_close(&kv);
    }
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

/* A sequence shares whole blocks of another one and copies the last block. The sequence then continues as the other one
 * would have. Content after its own positions belongs to the other sequence and is not read. */
void test_device_pages(void **state) {
    static const size_t befores[] = { 1, 64, 100, 128, 150 };
    enum {
        N = 180
    };
    DeviceSuite *suite = *state;

    assert_non_null(suite);
    for (size_t i = 0; i < ARRAY_LEN(befores); i++) {
        const KvShape *shape = &tree_shapes[i % 2];
        const size_t n = befores[i], n_behind = 20;
        float *out, *expected;
        Timeline source, fork, plain;
        KvRows rows, behind;
        size_t index[N];
        KvRig kv;

        kv_rig_open(&kv, suite, RIG_THREADS, shape, N + n_behind);
        out = malloc(n_behind * kv.q_width * sizeof(*out));
        expected = malloc(n_behind * kv.q_width * sizeof(*expected));
        assert_true(out && expected);
        kv_rows_init(&rows, suite, shape, N);
        kv_rows_init(&behind, suite, shape, n_behind);
        timeline_init(&source, &kv, N);
        timeline_append(&source, &kv, &rows, 0, N, 64, 0, NULL);
        timeline_init(&fork, &kv, N + n_behind);
        fork.n_shared = n / kv.positions;
        for (size_t b = 0; b < fork.n_shared; b++) {
            free(fork.blocks[b]);
            fork.blocks[b] = source.blocks[b];
        }
        if (n % kv.positions)
            memcpy(fork.blocks[fork.n_shared], source.blocks[fork.n_shared], kv.block_bytes);
        for (size_t r = 0; r < n; r++)
            index[r] = r;
        timeline_commit(&fork, &kv, &rows, index, n);
        timeline_append(&fork, &kv, &behind, 0, n_behind, 6, 0, out);
        timeline_init(&plain, &kv, N + n_behind);
        timeline_append(&plain, &kv, &rows, 0, n, 10, 0, NULL);
        timeline_append(&plain, &kv, &behind, 0, n_behind, 1, 0, expected);
        kv_same_rows(&kv, out, expected, n_behind, "attention behind shared and copied blocks");
        timeline_deinit(&fork);
        timeline_deinit(&plain);
        timeline_deinit(&source);
        kv_rows_deinit(&rows);
        kv_rows_deinit(&behind);
        free(out);
        free(expected);
        kv_rig_close(&kv);
    }
}

/* Two layers of one cache are independent. */
void test_device_layers(void **state) {
    enum {
        N = 100
    };
    const KvShape *shape = &tree_shapes[0];
    DeviceSuite *suite = *state;
    float *apart[KV_LAYERS], *out;
    KvRows rows[KV_LAYERS];
    Timeline timeline;
    KvRig kv;

    kv_rig_open(&kv, suite, RIG_THREADS, shape, N);
    out = malloc(kv.q_width * sizeof(*out));
    assert_non_null(out);
    for (size_t i = 0; i < KV_LAYERS; i++) {
        kv_rows_init(&rows[i], suite, shape, N);
        apart[i] = malloc(N * kv.q_width * sizeof(float));
        assert_non_null(apart[i]);
        timeline_init(&timeline, &kv, N);
        timeline_append(&timeline, &kv, &rows[i], 0, N, 30, i, apart[i]);
        timeline_deinit(&timeline);
    }
    timeline_init(&timeline, &kv, N);
    for (size_t r = 0; r < N; r++)
        for (size_t i = 0; i < KV_LAYERS; i++) {
            timeline.n = r;
            timeline_append(&timeline, &kv, &rows[i], r, 1, 1, i, out);
            kv_same_rows(&kv, out, apart[i] + r * kv.q_width, 1, "attention of layers by turns");
        }
    timeline_deinit(&timeline);
    for (size_t i = 0; i < KV_LAYERS; i++) {
        kv_rows_deinit(&rows[i]);
        free(apart[i]);
    }
    free(out);
    kv_rig_close(&kv);
}
