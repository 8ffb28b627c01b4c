// SPDX-License-Identifier: Apache-2.0
/* Training of an early-exit predictor, part by part: the loss's gradient is its difference quotient; least squares find
 * the map that made the data, whatever the number of threads; figures are those of a naive count; the work file gives
 * back what is whole, and nothing else; a refinement that was stopped gives the bytes of one that was not, and a lower
 * loss. */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "test/unit/fixtures/model_maker.h"
#include "test/unit/fixtures/tiny_engine.h"
#include "tools/exit/early_exit.h"
#include "tools/train/exit_loss.h"
#include "tools/train/exit_quality.h"
#include "tools/train/exit_refine.h"
#include "tools/train/exit_ridge.h"
#include "tools/train/exit_watch.h"

static char folder[] = "/tmp/coordgen-train-XXXXXX";

static int setup(void **state) {
    assert_non_null(mkdtemp(folder));
    return 0;
}

static int teardown(void **state) {
    return rmdir(folder);
}

static const char *path_of(const char *name) {
    static char paths[4][128];
    static unsigned int at;

    at = (at + 1) % 4;
    snprintf(paths[at], sizeof(paths[at]), "%s/%s", folder, name);
    return paths[at];
}

static float draw(uint64_t *random) {
    return (float)(test_random(random) % 20001) / 10000 - 1;
}

/* Returns a random number in (0, 1). */
static float unit(uint64_t *random) {
    return ((float)(test_random(random) % 9999) + 0.5F) / 9999;
}

/* --- loss --------------------------------------------------------------------------------------------------------- */

static void fill_sample(ExitSample *sample, uint64_t *random, uint32_t n_tokens) {
    float sum = 0;

    *sample = (ExitSample){ .n = (uint32_t)(test_random(random) % (EXIT_CHOICES + 1)) };
    for (uint32_t c = 0; c < sample->n; c++) {
        sample->tokens[c] = (uint32_t)(test_random(random) % (n_tokens / EXIT_CHOICES)) * EXIT_CHOICES + c;
        sample->q[c] = (float)(c + 1) / 40;
        sum += sample->p[c] = 0.01F + (draw(random) + 1) / 2;
    }
    for (uint32_t c = 0; c < sample->n; c++)
        sample->p[c] /= sum;
    sample->best = sample->n && test_random(random) % 4 ? sample->tokens[test_random(random) % sample->n] : 9999;
}

static void test_exit_training_gradient(void **state) {
    enum {
        N_EMBD = 37
    };
    float norm[N_EMBD], norm_bias[N_EMBD], bias[64], y[N_EMBD], gradient[N_EMBD], rows[EXIT_CHOICES * N_EMBD];
    ExitHead head = { .norm = norm, .eps = 1e-5F, .n_embd = N_EMBD };
    uint64_t random = 11;
    double most = 0;

    for (uint32_t round = 0; round < 50; round++) {
        ExitSample sample;
        double loss;

        head.logit_cap = round % 2 ? 3 : 0;
        head.norm_bias = round % 4 > 1 ? norm_bias : NULL;
        head.bias = round % 4 > 1 ? bias : NULL;
        fill_sample(&sample, &random, 64);
        for (size_t i = 0; i < N_EMBD; i++) {
            norm[i] = 1 + draw(&random) / 2;
            norm_bias[i] = draw(&random);
            y[i] = 1 + 2 * draw(&random);
        }
        for (size_t i = 0; i < ARRAY_LEN(bias); i++)
            bias[i] = draw(&random);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
            rows[i] = draw(&random) / 2;
        loss = exit_loss(&head, y, &sample, rows, gradient);
        assert_true(loss == exit_loss(&head, y, &sample, rows, NULL));
        if (sample.n < 2)
            assert_true(loss == 0 && gradient[0] == 0);
        for (size_t i = 0; i < N_EMBD; i++) {
            const float was = y[i], step = 1e-2F;
            double above, below;

            y[i] = was + step;
            above = exit_loss(&head, y, &sample, rows, NULL);
            y[i] = was - step;
            below = exit_loss(&head, y, &sample, rows, NULL);
            y[i] = was;
            assert_true(fabs((above - below) / (2 * (double)step) - (double)gradient[i]) < 2e-3);
            most = fmax(most, fabs((double)gradient[i]));
        }
    }
    assert_true(most > 0.1); /* there was something to compare */
}

/* LayerNorm of 1, 3, 1, 3 is -1, 1, -1, 1; then weights and biases of norm and head, and a soft cap. */
static void test_exit_training_biases(void **state) {
    static const float norm[] = { 1, 2, 1, 1 }, y[] = { 1, 3, 1, 3 }, norm_bias[] = { 0.5F, 0, 0, 0.25F },
                       bias[] = { 9, 9, 9, 9, 9, 0.125F, -1 }, rows[] = { 1, 0, 0, 0, 0, 1, 0, 1 };
    ExitHead head = { .norm = norm, .n_embd = 4, .norm_bias = norm_bias, .bias = bias };
    const ExitSample sample = { .n = 2, .best = 5, .tokens = { 5, 6 }, .p = { 0.5F, 0.5F } };
    float logits[EXIT_CHOICES];

    exit_logits(&head, y, &sample, rows, logits);
    assert_true(logits[0] == -1 + 0.5F + 0.125F && logits[1] == 2 + 1 + 0.25F - 1);
    head.logit_cap = 2;
    exit_logits(&head, y, &sample, rows, logits);
    assert_true(fabs((double)logits[1] - 2 * tanh(2.25 / 2)) < 1e-6);
}

/* An independent formula: the loss is the sum of two cross entropies. */
static void test_exit_training_loss(void **state) {
    enum {
        N_EMBD = 4
    };
    static const float norm[N_EMBD] = { 1, 2, 1, 1 }, y[N_EMBD] = { 1, -1, 1, -1 };
    static const float rows[EXIT_CHOICES * N_EMBD] = { 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1 };
    const ExitHead head = { .norm = norm, .n_embd = N_EMBD };
    const ExitSample sample = { .n = 3, .best = 6, .tokens = { 5, 6, 7 }, .p = { 0.5F, 0.25F, 0.25F } };
    float logits[EXIT_CHOICES];
    const double sum = exp(1) + exp(-2) + exp(-1);

    exit_logits(&head, y, &sample, rows, logits);
    assert_true(logits[0] == 1 && logits[1] == -2 && logits[2] == -1);
    assert_true(fabs(exit_loss(&head, y, &sample, rows, NULL) -
                     (log(sum) - (0.5 * 1 + 0.25 * -2 + 0.25 * -1) + log(sum) + 2)) < 1e-5);
}

/* --- least squares ------------------------------------------------------------------------------------------------ */

static void test_exit_training_ridge(void **state) {
    enum {
        N_EMBD = 70, /* more than a piece */
        ROWS = 400
    };
    float *u = calloc(ROWS * N_EMBD, sizeof(float)), *t = calloc(ROWS * N_EMBD, sizeof(float));
    float *made = calloc(N_EMBD * N_EMBD, sizeof(float)), *found[2], made_bias[N_EMBD], bias[2][N_EMBD];
    uint64_t random = 12;
    float *y = calloc(ROWS * N_EMBD, sizeof(float));

    for (size_t i = 0; i < N_EMBD * N_EMBD; i++)
        made[i] = draw(&random) / 4;
    for (size_t i = 0; i < N_EMBD; i++)
        made_bias[i] = draw(&random);
    for (size_t i = 0; i < ROWS * N_EMBD; i++)
        u[i] = draw(&random) + 0.5F;
    for (size_t row = 0; row < ROWS; row++)
        for (size_t i = 0; i < N_EMBD; i++) {
            double sum = (double)made_bias[i];

            for (size_t j = 0; j < N_EMBD; j++)
                sum += (double)made[i * N_EMBD + j] * (double)u[row * N_EMBD + j];
            t[row * N_EMBD + i] = (float)sum;
        }
    for (unsigned int threads = 1; threads <= 2; threads++) {
        WorkerPool *pool;
        ExitRidge ridge;
        ErrText err;

        found[threads - 1] = calloc(N_EMBD * N_EMBD, sizeof(float));
        assert_int_equal(worker_pool_new(&pool, threads), 0);
        assert_int_equal(exit_ridge_init(&ridge, pool, N_EMBD, &err), 0);
        assert_int_equal(exit_ridge_solve(&ridge, 0, found[0], bias[0], &err), -EDOM);
        exit_ridge_add(&ridge, u, t, 150);
        exit_ridge_add(&ridge, u + 150 * N_EMBD, t + 150 * N_EMBD, ROWS - 150);
        for (int strong = 0; strong < 2; strong++) {
            assert_int_equal(exit_ridge_solve(&ridge, strong ? 1e4F : 0, found[threads - 1], bias[threads - 1], &err),
                             0);
            for (size_t i = 0; i < N_EMBD * N_EMBD && strong; i++) /* a strong penalty keeps the identity */
                assert_true(fabsf(found[threads - 1][i] - (float)(i % (N_EMBD + 1) == 0)) < 0.01F);
        }
        assert_int_equal(exit_ridge_solve(&ridge, 0, found[threads - 1], bias[threads - 1], &err), 0);
        for (size_t i = 0; i < N_EMBD * N_EMBD; i++)
            assert_true(fabsf(found[threads - 1][i] - made[i]) < 2e-3F);
        for (size_t i = 0; i < N_EMBD; i++)
            assert_true(fabsf(bias[threads - 1][i] - made_bias[i]) < 2e-2F);
        exit_map_apply(pool, found[threads - 1], bias[threads - 1], N_EMBD, u, ROWS, y);
        for (size_t i = 0; i < ROWS * N_EMBD; i++)
            assert_true(fabsf(y[i] - t[i]) < 2e-2F);
        exit_ridge_deinit(&ridge);
        worker_pool_free(pool);
        if (threads == 1)
            continue;
        assert_memory_equal(found[0], found[1], N_EMBD * N_EMBD * sizeof(float));
        assert_memory_equal(bias[0], bias[1], sizeof(bias[0]));
    }
    free(u);
    free(t);
    free(y);
    free(made);
    free(found[0]);
    free(found[1]);
}

/* --- figures ------------------------------------------------------------------------------------------------------ */

static void test_exit_training_kept(void **state) {
    _cleanup_(exit_edges_deinit) ExitEdges edges = { 0 };
    float threshold = 0;

    assert_true(exit_edges_kept(&edges, true, (ExitScore){ .by_q = 1 }, 0.95, NULL) == 1);
    /* 10 edges a half, 4 of them true: with scores 9, 7, 5, 1 of 9..0 */
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < 10; i++)
            assert_int_equal(exit_edges_add(&edges, &(ExitEdge){ .log_q = (float)i,
                                                                 .log_lens = (float)-i,
                                                                 .log_map = i % 2 ? 0 : -20,
                                                                 .is_true = i == 9 || i == 7 || i == 5 || i == 1,
                                                                 .tunes = half }),
                             0);
    assert_true(exit_edges_kept(&edges, false, (ExitScore){ .by_q = 1 }, 1, &threshold) == 0.9);
    assert_true(threshold == 1);
    assert_true(exit_edges_kept(&edges, false, (ExitScore){ .by_q = 1 }, 0.75, &threshold) == 0.5);
    assert_true(threshold == 5);
    assert_true(exit_edges_kept(&edges, false, (ExitScore){ .by_q = 1, .by_map = 1 }, 1, NULL) == 0.5);
    assert_true(exit_edges_kept(&edges, false, (ExitScore){ .by_lens = 1 }, 1, NULL) == 1);
}

/* The fit finds the mixture that made the edges again, and gives no weight to a map that misleads. */
static void test_exit_training_fit(void **state) {
    const PruningMix made = { 0.7F, 0.4F, -0.5F };
    _cleanup_(exit_edges_deinit) ExitEdges edges = { 0 };
    uint64_t random = 13;
    PruningMix found = exit_edges_fit(&edges, false);

    assert_true(found.by_q == 1 && found.by_share == 0 && found.offset == 0); /* nothing is known */
    for (int i = 0; i < 40000; i++) {
        const float q = unit(&random), s = unit(&random), alone = unit(&random);
        const bool is_true = unit(&random) < expf(tree_pruning_log_chance(made, logf(q), logf(s)));

        assert_int_equal(exit_edges_add(&edges, &(ExitEdge){ .log_q = logf(q),
                                                             .log_map = logf(s),
                                                             .log_map_alone = logf(is_true ? alone / 2 : alone),
                                                             .is_true = i % 2 ? is_true : !is_true, /* not looked at */
                                                             .tunes = i % 2 }),
                         0);
    }
    found = exit_edges_fit(&edges, false);
    assert_true(fabsf(found.by_q - made.by_q) < 0.05F);
    assert_true(fabsf(found.by_share - made.by_share) < 0.05F);
    assert_true(fabsf(found.offset - made.offset) < 0.05F);
    found = exit_edges_fit(&edges, true);
    assert_true(found.by_share == 0 && fabsf(found.by_q - made.by_q) < 0.1F);
    /* the mixture's order is that of chances */
    assert_true(exit_edges_kept(&edges, true, (ExitScore){ .mix = &made }, 0.9, NULL) <
                exit_edges_kept(&edges, true, (ExitScore){ .by_q = 1 }, 0.9, NULL));
    assert_true(exit_edges_kept(&edges, true, (ExitScore){ .mix = &made, .alone = true }, 0.9, NULL) >
                exit_edges_kept(&edges, true, (ExitScore){ .mix = &made }, 0.9, NULL));
}

/* --- trees -------------------------------------------------------------------------------------------------------- */

/* Behind the root a chain of two and an unlikely pair of siblings, one of which was right. */
static void watch_step(ExitWatch *watch, bool right) {
    float log_shares[5] = { 0, logf(0.8F), logf(0.9F), logf(0.1F), logf(0.05F) };
    const uint16_t chain[] = { 0, 1, 2 }, other[] = { 0, 3 };
    DraftTree tree;

    draft_tree_init(&tree, 1);
    draft_tree_add(&tree, &(DraftNode){ .token = 2, .parent = DRAFT_ROOT, .depth = 1, .reach = 0.8F });
    draft_tree_add(&tree, &(DraftNode){ .token = 3, .parent = 0, .depth = 2, .reach = 0.7F });
    draft_tree_add(&tree, &(DraftNode){ .token = 4, .parent = DRAFT_ROOT, .depth = 1, .reach = 0.1F });
    draft_tree_add(&tree, &(DraftNode){ .token = 5, .parent = DRAFT_ROOT, .depth = 1, .reach = 0.05F });
    draft_tree_order(&tree);
    assert_int_equal(tree.n_rows, 5);
    exit_watch_take(watch, &(ExitWatchedStep){ &tree, log_shares, right ? chain : other, right ? 3 : 2 });
}

static void test_exit_training_watch(void **state) {
    const ExitWay way = { .mix = { 1, 0.5F, 0 }, .unguarded = true };
    _cleanup_(exit_watch_deinit) ExitWatch watch = { 0 };
    ExitKept kept = exit_watch_kept(&watch, true, &way, -1);
    float threshold;

    assert_true(kept.rows == 1 && kept.drafts == 1 && kept.tokens == 1 && kept.tiles == 1);
    for (int half = 0; half < 2; half++) {
        watch.tunes = half;
        for (int i = 0; i < 100; i++)
            watch_step(&watch, half ? i % 25 : i % 10); /* 192 + 4 of the half that tunes, 180 + 10 */
    }
    threshold = exit_watch_threshold(&watch, &way, 0.955);
    kept = exit_watch_kept(&watch, true, &way, threshold);
    assert_true(kept.rows == 0.6 && kept.drafts == 192.0 / 196 && kept.tokens == 292.0 / 296 && kept.tiles == 1);
    kept = exit_watch_kept(&watch, false, &way, threshold);
    assert_true(kept.threshold == threshold && kept.drafts == 180.0 / 190);
    threshold = exit_watch_threshold(&watch, &way, 1);
    kept = exit_watch_kept(&watch, true, &way, threshold);
    assert_true(kept.rows == 0.8 && kept.drafts == 1); /* all rows but the least likely one, which is never right */
    kept = exit_watch_kept(&watch, true, &(ExitWay){ .mix = { 1, 0, 0 } }, -0.02F);
    assert_true(kept.rows > 0.4); /* rows that a guarded tree has left at least */
}

/* --- the work file ------------------------------------------------------------------------------------------------ */

enum {
    SET_WINDOWS = 10,
    SET_TOKENS = 70 /* a batch and a part of one */
};

static ExitSetShape shape_of(uint32_t n_embd) {
    ExitSetShape shape;

    memset(&shape, 0, sizeof(shape));
    snprintf(shape.fingerprint, sizeof(shape.fingerprint), "of a test");
    shape.n_embd = n_embd;
    shape.window_tokens = SET_TOKENS;
    shape.n_windows = SET_WINDOWS;
    shape.n_layers = 2;
    shape.layers[0] = 1;
    shape.layers[1] = 3;
    return shape;
}

/* Values that f16 has, so that they come back as they are. */
static void fill_window(ExitWindow *window, const ExitSetShape *shape, uint32_t index) {
    uint64_t random = 100 + index;

    for (uint32_t i = 0; i < shape->window_tokens; i++)
        fill_sample(&window->samples[i], &random, TINY_VOCAB);
    for (size_t i = 0; i < (size_t)shape->window_tokens * shape->n_embd; i++) {
        window->states[0][i] = (float)(int)(test_random(&random) % 257) / 64 - 2;
        window->states[1][i] = (float)(int)(test_random(&random) % 257) / 64 - 2;
        window->last[i] = (float)(int)(test_random(&random) % 257) / 64 - 2;
    }
}

static void check_window(ExitSet *set, uint32_t index) {
    const ExitSetShape *shape = exit_set_shape(set);
    const size_t len_bytes = (size_t)shape->window_tokens * shape->n_embd * sizeof(float);
    _cleanup_(exit_window_deinit) ExitWindow window, expected;

    assert_int_equal(exit_window_init(&window, shape), 0);
    assert_int_equal(exit_window_init(&expected, shape), 0);
    fill_window(&expected, shape, index);
    assert_int_equal(exit_set_read(set, index, &window, NULL), 0);
    assert_memory_equal(window.samples, expected.samples, shape->window_tokens * sizeof(ExitSample));
    assert_memory_equal(window.states[0], expected.states[0], len_bytes);
    assert_memory_equal(window.states[1], expected.states[1], len_bytes);
    assert_memory_equal(window.last, expected.last, len_bytes);
}

static void append(ExitSet *set) {
    _cleanup_(exit_window_deinit) ExitWindow window;

    assert_int_equal(exit_window_init(&window, exit_set_shape(set)), 0);
    fill_window(&window, exit_set_shape(set), exit_set_n(set));
    assert_int_equal(exit_set_append(set, &window, NULL), 0);
}

static void test_exit_training_set(void **state) {
    ExitSetShape shape = shape_of(12);
    const size_t window_bytes = exit_set_window_bytes(&shape);
    const char *path = path_of("set.part");
    ExitSet *set;

    assert_int_equal(exit_set_open(&set, path, &shape, NULL), 0);
    assert_int_equal(exit_set_n(set), 0);
    for (uint32_t i = 0; i < 4; i++)
        append(set);
    exit_set_free(set);
    for (size_t cut = 0; cut < 3; cut++) { /* the last window is cut, or damaged */
        int fd;

        assert_int_equal(exit_set_open(&set, path, &shape, NULL), 0);
        assert_int_equal(exit_set_n(set), 4);
        for (uint32_t i = 0; i < 4; i++)
            check_window(set, i);
        exit_set_free(set);
        if (cut == 2)
            break;
        fd = open(path, O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0);
        if (cut == 0)
            assert_int_equal(ftruncate(fd, (off_t)(256 + 4 * window_bytes - 1)), 0);
        else
            assert_int_equal(pwrite(fd, "x", 1, (off_t)(256 + 3 * window_bytes + 5)), 1);
        close(fd);
        assert_int_equal(exit_set_open(&set, path, &shape, NULL), 0);
        assert_int_equal(exit_set_n(set), 3);
        append(set);
        exit_set_free(set);
    }
    shape.fingerprint[0]++; /* of other texts */
    assert_int_equal(exit_set_open(&set, path, &shape, NULL), 0);
    assert_int_equal(exit_set_n(set), 0);
    exit_set_free(set);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/nonexistent", path), 0);
    assert_int_equal(exit_set_open(&set, path, &shape, NULL), -ELOOP);
    assert_int_equal(unlink(path), 0);
}

/* --- the refinement ----------------------------------------------------------------------------------------------- */

/* A target whose shares follow from the states by a map that is not the identity. */
static void make_set(Engine *engine, ExitSet *set) {
    const ExitSetShape *shape = exit_set_shape(set);
    const ExitHead head = exit_head(engine);
    float *rows = calloc(EXIT_CHOICES * shape->n_embd, sizeof(float)), *y = calloc(shape->n_embd, sizeof(float));

    while (exit_set_n(set) < shape->n_windows) {
        _cleanup_(exit_window_deinit) ExitWindow window;

        assert_int_equal(exit_window_init(&window, shape), 0);
        fill_window(&window, shape, exit_set_n(set));
        for (uint32_t row = 0; row < shape->window_tokens; row++) {
            ExitSample *sample = &window.samples[row];
            float logits[EXIT_CHOICES];
            uint32_t best = 0;

            for (uint32_t i = 0; i < shape->n_embd; i++)
                y[i] = window.states[1][row * shape->n_embd + (i + 1) % shape->n_embd];
            exit_head_rows(engine, sample, 1, rows);
            exit_logits(&head, y, sample, rows, logits);
            if (sample->n)
                early_exit_shares(logits, sample->n, 1, logits);
            for (uint32_t c = 0; c < sample->n; c++) {
                sample->p[c] = expf(logits[c]);
                best = logits[c] > logits[best] ? c : best;
            }
            sample->best = sample->n ? sample->tokens[best] : 0;
        }
        assert_int_equal(exit_set_append(set, &window, NULL), 0);
    }
    free(rows);
    free(y);
}

static void test_exit_training_refine(void **state) {
    enum {
        EPOCHS = 4
    };
    char set_path[128], path[128];
    TinyEngine tiny = { 0 };
    ExitSetShape shape;
    ExitRefine once, again;
    double least = 0;
    float *map, *bias;
    ExitSet *set;
    size_t n, len_bytes;

    snprintf(set_path, sizeof(set_path), "%s", path_of("refine.part"));
    snprintf(path, sizeof(path), "%s", path_of("checkpoint"));
    tiny_engine_open(&tiny, ENGINE_DEVICE_CPU, 16);
    shape = shape_of(engine_info(tiny.engine)->n_embd);
    n = shape.n_embd;
    len_bytes = (n + 1) * n * sizeof(float);
    map = calloc(n * n, sizeof(float));
    bias = calloc(n, sizeof(float));
    for (size_t i = 0; i < n; i++)
        map[i * n + i] = 1;
    assert_int_equal(exit_set_open(&set, set_path, &shape, NULL), 0);
    make_set(tiny.engine, set);
    assert_int_equal(exit_refine_init(&once, tiny.engine, tiny.pool, set, 1, EPOCHS, map, bias, NULL, NULL), 0);
    for (uint32_t i = 0; i < EPOCHS; i++) {
        assert_int_equal(exit_refine_epoch(&once, NULL, NULL, NULL), 0);
        assert_true(!i || once.least <= least);
        assert_true(i || once.least > 0);
        least = once.least;
    }
    assert_int_equal(once.n_steps, EPOCHS * 8 * 2); /* 8 of 10 windows are not held out, of two batches each */
    assert_true(memcmp(once.best, map, n * n * sizeof(float)));
    for (uint32_t i = 0; i < EPOCHS; i++) { /* as if killed behind every epoch, and on one thread */
        WorkerPool *pool;

        assert_int_equal(worker_pool_new(&pool, 1), 0);
        assert_int_equal(exit_refine_init(&again, tiny.engine, pool, set, 1, EPOCHS, map, bias, path, NULL), 0);
        assert_int_equal(again.epoch, i);
        assert_int_equal(exit_refine_epoch(&again, NULL, NULL, NULL), 0);
        if (i + 1 < EPOCHS)
            exit_refine_deinit(&again);
        worker_pool_free(pool);
    }
    assert_memory_equal(again.now, once.now, len_bytes);
    assert_memory_equal(again.best, once.best, len_bytes);
    exit_refine_deinit(&again);
    assert_int_equal(exit_refine_init(&again, tiny.engine, tiny.pool, set, 0, EPOCHS, map, bias, path, NULL), 0);
    assert_int_equal(again.epoch, 0); /* a checkpoint of another layer */
    exit_refine_deinit(&again);
    assert_int_equal(truncate(path, 1000), 0);
    assert_int_equal(exit_refine_init(&again, tiny.engine, tiny.pool, set, 1, EPOCHS, map, bias, path, NULL), 0);
    assert_int_equal(again.epoch, 0);
    exit_refine_deinit(&again);
    exit_refine_deinit(&once);
    exit_set_free(set);
    unlink(set_path);
    unlink(path);
    free(map);
    free(bias);
    tiny_engine_close(&tiny);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_training_gradient), cmocka_unit_test(test_exit_training_loss),
        cmocka_unit_test(test_exit_training_biases),   cmocka_unit_test(test_exit_training_ridge),
        cmocka_unit_test(test_exit_training_kept),     cmocka_unit_test(test_exit_training_fit),
        cmocka_unit_test(test_exit_training_watch),    cmocka_unit_test(test_exit_training_set),
        cmocka_unit_test(test_exit_training_refine),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
