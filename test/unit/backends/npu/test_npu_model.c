// SPDX-License-Identifier: Apache-2.0
/* Models on the npu device: the bits of the cpu device on the same package, under every policy of graph switching, with
 * chunks and blocks of any size, from a new image and from an old one; memory within the limit; refusals; files that
 * are damaged or cut short. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/min_max.h"
#include "engine/engine.h"
#include "test/unit/fixtures/npu_engine.h"
#include "test/unit/importer/import_fixture.h"
#include "weights/image/weights_image.h"
#include "weights/weights_report.h"

enum {
    N_VOCAB = 40,
    N_PROMPT = 330,
    N_OUTPUT = 6,
    N_TOKENS = N_PROMPT + N_OUTPUT,
    N_LAYERS = 6,
};

static const GraphForm forms[] = { GRAPH_FORM_MATERIALISED, GRAPH_FORM_PACKED };

static const char *const policies[] = { "progressive", "none", "sync", "async" };

static const char *make_package(ImportFixture *fixture, double bits, bool is_static) {
    ModelMaker maker = MODEL_MAKER_DEFAULT;

    maker.n_layers = N_LAYERS;
    return import_fixture_package(fixture, &maker, bits, is_static);
}

/* Options for the package. image: room of PATH_MAX for the name of its image, which graphs come from. */
static EngineOptions options_of(ImportFixture *fixture, const char *package, char *image) {
    assert_int_equal(weights_image_path(image, PATH_MAX, fixture->cache, package), 0);
    return (EngineOptions){ .path = package,
                            .load.device = ENGINE_DEVICE_NPU,
                            .load.isa = ISA_BEST,
                            .load.chunk_tokens = 256,
                            .load.weights.checking = WEIGHTS_CHECKING_NEW,
                            .cache_dir = fixture->cache,
                            .image_path = image,
                            .load.weights.graphs = { .form = GRAPH_FORM_MATERIALISED } };
}

static void refused(const EngineOptions *options, int code, const char *text) {
    ErrText err = { 0 };
    NpuEngine loaded;
    const int r = npu_engine_try(&loaded, options, 2, &err);

    if (r != code || !strstr(err.text, text))
        fail_msg("%d: '%s' is not %d: '%s'", r, err.text, code, text);
    npu_engine_unload(&loaded);
}

static void draw_tokens(uint32_t tokens[N_TOKENS], uint32_t seed) {
    for (uint32_t i = 0; i < N_TOKENS; i++)
        tokens[i] = (i * 7 + i / 5 + seed) % N_VOCAB;
}

static int step(NpuEngine *loaded, Sequence *sequence, const uint32_t *tokens, size_t n, size_t n_behind, float *logits,
                ErrText *err) {
    EngineSpan span = {
        .sequence = sequence, .tokens = tokens, .n = n, .n_behind = n_behind, .head = { .n_rows = n, .logits = logits }
    };

    return engine_forward_spans(loaded->engine, &span, 1, err);
}

/* Computes a prompt chunk by chunk, then token by token; all logits, f32[N_TOKENS][N_VOCAB]. */
static void answer(NpuEngine *loaded, uint32_t seed, float *logits) {
    const size_t chunk = engine_chunk_tokens(loaded->engine);
    uint32_t tokens[N_TOKENS];
    ErrText err = { 0 };
    Sequence *sequence;

    draw_tokens(tokens, seed);
    assert_int_equal(sequence_new(&sequence, loaded->engine, N_TOKENS, &err), 0);
    for (size_t at = 0, n; at < N_TOKENS; at += n) {
        const size_t left = N_PROMPT - at;

        n = at >= N_PROMPT ? 1 : MIN(left, chunk);
        if (step(loaded, sequence, tokens + at, n, at < N_PROMPT ? left - n : 0, logits + at * N_VOCAB, &err))
            fail_msg("%s", err.text);
    }
    sequence_free(sequence);
}

/* Runs a step of a prompt, and explains why its blocks are switched when they are. */
static int step_explained(NpuEngine *loaded, char *text, size_t room_bytes) {
    static float logits[100 * N_VOCAB];
    uint32_t tokens[N_TOKENS];
    Sequence *sequence;
    int r = sequence_new(&sequence, loaded->engine, N_TOKENS, NULL);

    if (r)
        return r;
    draw_tokens(tokens, 0);
    r = step(loaded, sequence, tokens, 100, 0, logits, NULL);
    weights_graph_explain(engine_weights(loaded->engine), text, room_bytes);
    sequence_free(sequence);
    return r;
}

/* The logits of the cpu device, for two prompts. */
static void answers_of_cpu(const char *package, float *logits) {
    NpuEngine loaded;

    npu_engine_load(
        &loaded,
        &(EngineOptions){
            .path = package, .load.device = ENGINE_DEVICE_CPU, .load.isa = ISA_BEST, .load.chunk_tokens = 64 },
        2);
    for (uint32_t seed = 0; seed < 2; seed++)
        answer(&loaded, seed, logits + seed * N_TOKENS * N_VOCAB);
    npu_engine_unload(&loaded);
}

/* --- bits --------------------------------------------------------------------------------------------------------- */

/* Blocks that were computed with graphs of either kind, by policy, in all cases together. The kind that a prompt gets
 * depends on measured times, which are noted: an engine may rightly do without a kind while other programs have the
 * machine. */
static uint64_t n_computed[_GRAPH_SWITCH_N][_GRAPH_KIND_N];

static void check_memory(const NpuEngine *loaded, GraphSwitchPolicy policy) {
    const uint64_t used_bytes = atomic_load(&loaded->accounts.used_bytes[ACCOUNT_GRAPHS]);
    WeightsGraphsCounts counts;
    uint64_t slots;

    assert_true(weights_graph_counts(engine_weights(loaded->engine), &counts));
    slots = policy == GRAPH_SWITCH_NONE ? 2 * counts.n_blocks : counts.n_blocks + 1;
    assert_true(counts.peak_bytes <= slots * counts.block_bytes && counts.used_bytes <= counts.peak_bytes);
    assert_int_equal(counts.limit_bytes, slots * counts.block_bytes);
    assert_true(used_bytes >= slots * counts.block_bytes && used_bytes <= slots * counts.block_bytes + 8192);
    for (size_t kind = 0; kind < _GRAPH_KIND_N; kind++)
        n_computed[policy][kind] += counts.n_computed[kind];
    assert_true(counts.stall_ns <= counts.load_ns + 1000000000);
    if (policy == GRAPH_SWITCH_NONE)
        assert_true(counts.n_loads <= 2 * counts.n_blocks);
}

/* The logits of the cpu device on the package are expected. */
static void check_bits(ImportFixture *fixture, const char *package, GraphForm form, size_t first,
                       const float *expected) {
    static const uint32_t blocks[] = { 1, 3, 0 }, chunks[] = { 256, 40, 300 };
    static float logits[2 * N_TOKENS * N_VOCAB];
    char image[PATH_MAX];
    EngineOptions options = options_of(fixture, package, image);

    options.load.weights.graphs.form = form;
    for (size_t i = 0; i < (form == GRAPH_FORM_PACKED ? 4 : 6); i++) {
        const size_t p = (i + first) % ARRAY_LEN(policies);
        ErrText err = { 0 };
        NpuEngine loaded;
        WeightsGraphsCounts counts;

        assert_true(choice_set(graph_switch_choices, policies[p], &options.load.weights.graphs.policy));
        options.load.weights.graphs.n_blocks = blocks[(i + first / 2) % ARRAY_LEN(blocks)];
        options.load.chunk_tokens = chunks[(i + i / ARRAY_LEN(chunks)) % ARRAY_LEN(chunks)];
        options.load.weights.graphs.memory_bytes = 0;
        /* Without a comparison no byte of the layers comes before graphs are loaded from the package. */
        options.load.weights.checking =
            form == GRAPH_FORM_PACKED && i % 2 ? WEIGHTS_CHECKING_NOTHING : WEIGHTS_CHECKING_NEW;
        assert_int_equal(access(image, F_OK) == 0, form == GRAPH_FORM_MATERIALISED && i); /* made once, or never */
        npu_engine_load(&loaded, &options, 2);
        assert_true(weights_graph_counts(engine_weights(loaded.engine), &counts));
        assert_int_equal(counts.form, form);
        npu_engine_unload(&loaded);
        /* The limit is exactly the bytes needed. */
        options.load.weights.graphs.memory_bytes =
            (options.load.weights.graphs.policy == GRAPH_SWITCH_NONE ? 2 * counts.n_blocks : counts.n_blocks + 1) *
            counts.block_bytes;
        npu_engine_load(&loaded, &options, 2);
        for (uint32_t seed = 0; seed < 2; seed++)
            answer(&loaded, seed, logits + seed * N_TOKENS * N_VOCAB);
        if (memcmp(logits, expected, sizeof(logits)) != 0)
            fail_msg("%s, %s, %u blocks, chunks of %u: other bits than those of the cpu device", policies[p],
                     graph_form_name(form), options.load.weights.graphs.n_blocks, options.load.chunk_tokens);
        check_memory(&loaded, options.load.weights.graphs.policy);
        npu_engine_unload(&loaded);
        options.load.weights.graphs.memory_bytes--;
        assert_int_equal(npu_engine_try(&loaded, &options, 2, &err), ENGINE_E_MEMORY);
        assert_non_null(strstr(err.text, "graphs-memory ("));
        npu_engine_unload(&loaded);
    }
    assert_int_equal(unlink(image), form == GRAPH_FORM_PACKED ? -1 : 0);
}

/* Packages of int8 rows, and of packed weights, whose channels are in another order than those of the matrix. */
static void test_npu_model_bits(void **state) {
    static float expected[2 * N_TOKENS * N_VOCAB];
    ImportFixture *fixture = *state;

    for (size_t bits = 0; bits < 2; bits++) {
        const char *package = make_package(fixture, bits ? 4.5 : 8, true);

        answers_of_cpu(package, expected);
        for (size_t form = 0; form < ARRAY_LEN(forms); form++)
            check_bits(fixture, package, forms[form], 2 * bits + form, expected);
    }
    for (size_t policy = 0; policy < _GRAPH_SWITCH_N; policy++)
        for (size_t kind = 0; kind < _GRAPH_KIND_N; kind++)
            assert_true(n_computed[policy][kind]);
}

/* Steps begin while the weights are on their way, and so before there is a graph. */
static void test_npu_model_arriving(void **state) {
    static float expected[2 * N_TOKENS * N_VOCAB], logits[N_TOKENS * N_VOCAB];
    ImportFixture *fixture = *state;
    const char *package = make_package(fixture, 8, true);
    char image[PATH_MAX], text[500];
    EngineOptions options = options_of(fixture, package, image);
    NpuEngine loaded;

    answers_of_cpu(package, expected);
    options.arriving = true;
    options.load.weights.graphs.n_blocks = 2;
    for (int again = 0; again < 2; again++) { /* with the image that the first one has made */
        npu_engine_load(&loaded, &options, 2);
        assert_true(engine_is_arriving(loaded.engine));
        for (uint32_t seed = 0; seed < 2; seed++) {
            answer(&loaded, seed, logits);
            assert_memory_equal(logits, expected + seed * N_TOKENS * N_VOCAB, sizeof(logits));
        }
        assert_int_equal(step_explained(&loaded, text, sizeof(text)), 0);
        if (strstr(text, "inf") || strstr(text, "nan"))
            fail_msg("times that are none: %s", text);
        npu_engine_unload(&loaded);
    }
}

/* A prompt makes way before every operator, and each time another sequence gets a token. */
static void test_npu_model_makes_way(void **state) {
    static float expected[2 * N_TOKENS * N_VOCAB], logits[N_TOKENS * N_VOCAB], others[N_TOKENS * N_VOCAB];
    const EngineYield yield = { .until_ns = 1 };
    ImportFixture *fixture = *state;
    const char *package = make_package(fixture, 8, true);
    char image[PATH_MAX];
    EngineOptions options = options_of(fixture, package, image);
    uint32_t tokens[N_TOKENS], other_tokens[N_TOKENS];
    Sequence *sequence, *other;
    EngineStep *made = NULL;
    size_t n_others = 0;
    ErrText err = { 0 };
    EngineSpan span;
    NpuEngine loaded;
    int r;

    answers_of_cpu(package, expected);
    options.load.preemption = true;
    options.load.weights.graphs.n_blocks = 3;
    npu_engine_load(&loaded, &options, 2);
    draw_tokens(tokens, 0);
    draw_tokens(other_tokens, 1);
    assert_int_equal(sequence_new(&sequence, loaded.engine, N_TOKENS, &err), 0);
    assert_int_equal(sequence_new(&other, loaded.engine, N_TOKENS, &err), 0);
    for (size_t at = 0; at < N_PROMPT; at += span.n) {
        span = (EngineSpan){ .sequence = sequence,
                             .tokens = tokens + at,
                             .n = MIN(N_PROMPT - at, 256),
                             .head.logits = logits + at * N_VOCAB };
        span.n_behind = N_PROMPT - at - span.n;
        span.head.n_rows = span.n;
        assert_int_equal(engine_step_begin(&made, loaded.engine, &span, 1, &err), 0);
        while ((r = engine_step_run(made, &yield, &err)) == ENGINE_E_YIELDED || r == ENGINE_E_WAITING) {
            assert_int_equal(step(&loaded, other, other_tokens + n_others, 1, 0, others + n_others * N_VOCAB, &err), 0);
            n_others++;
        }
        if (r)
            fail_msg("%s", err.text);
    }
    assert_true(n_others > 100);
    assert_memory_equal(logits, expected, N_PROMPT * N_VOCAB * sizeof(*logits));
    assert_memory_equal(others, expected + N_TOKENS * N_VOCAB, n_others * N_VOCAB * sizeof(*others));
    sequence_free(sequence);
    sequence_free(other);
    npu_engine_unload(&loaded);
}

/* --- what goes wrong ---------------------------------------------------------------------------------------------- */

static void test_npu_model_refusals(void **state) {
    ImportFixture *fixture = *state;
    char image[PATH_MAX];
    EngineOptions options = options_of(fixture, make_package(fixture, 8, false), image);

    refused(&options, ENGINE_E_MODEL, "--profile mobile");
    options = options_of(fixture, make_package(fixture, 8, true), image);
    options.image_path = NULL;
    refused(&options, ENGINE_E_MODEL, "cache folder");
    options = options_of(fixture, make_package(fixture, 8, true), image);
    options.load.weights.memory = (WeightsMemory){ .is_set = true, .is_percent = true, .percent = 50 };
    refused(&options, ENGINE_E_MODEL, "graphs-memory");
    assert_int_equal(access(image, F_OK), -1);
}

static void spoil(const char *path, uint64_t at) {
    FILE *file = fopen(path, "r+");
    int c;

    assert_non_null(file);
    assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
    c = fgetc(file);
    assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
    fputc(c ^ 0x10, file);
    assert_int_equal(fclose(file), 0);
}

/* An image with a changed byte is not computed with: it is removed, and the next load makes it anew. */
static void test_npu_model_damaged(void **state) {
    static float expected[2 * N_TOKENS * N_VOCAB], logits[N_TOKENS * N_VOCAB];
    ImportFixture *fixture = *state;
    const char *package = make_package(fixture, 8, true);
    char image[PATH_MAX];
    EngineOptions options = options_of(fixture, package, image);
    uint32_t tokens[N_TOKENS];
    Sequence *sequence;
    ErrText err = { 0 };
    struct stat st;
    NpuEngine loaded;

    answers_of_cpu(package, expected);
    npu_engine_load(&loaded, &options, 2);
    npu_engine_unload(&loaded);
    assert_int_equal(stat(image, &st), 0);
    spoil(image, (uint64_t)st.st_size / 2);
    npu_engine_load(&loaded, &options, 2);
    draw_tokens(tokens, 0);
    assert_int_equal(sequence_new(&sequence, loaded.engine, N_TOKENS, &err), 0);
    assert_int_equal(step(&loaded, sequence, tokens, 100, 0, logits, &err), ENGINE_E_READ);
    if (!strstr(err.text, image) || !strstr(err.text, "damaged"))
        fail_msg("'%s' does not say what is damaged", err.text);
    sequence_free(sequence);
    npu_engine_unload(&loaded);
    assert_int_equal(access(image, F_OK), -1);
    npu_engine_load(&loaded, &options, 2);
    answer(&loaded, 0, logits);
    assert_memory_equal(logits, expected, sizeof(logits));
    npu_engine_unload(&loaded);
}

/* Returns the form that an engine of these options has loaded its graphs from. */
static GraphForm form_of(const EngineOptions *options, char *why, size_t why_bytes) {
    WeightsGraphsCounts counts;
    NpuEngine loaded;

    npu_engine_load(&loaded, options, 2);
    assert_true(weights_graph_counts(engine_weights(loaded.engine), &counts));
    snprintf(why, why_bytes, "%s", weights_graph_form_why(engine_weights(loaded.engine)));
    npu_engine_unload(&loaded);
    return counts.form;
}

/* Without a setting the disk decides the form: packed on a slow disk; the package if there is no folder for an image.
 * */
static void test_npu_model_auto(void **state) {
    ImportFixture *fixture = *state;
    char image[PATH_MAX], why[300];
    EngineOptions options = options_of(fixture, make_package(fixture, 4.5, true), image);
    GraphForm form;

    options.load.weights.graphs.form = GRAPH_FORM_AUTO;
    options.load.weights.flash_limit = (ReadLimit){ .bytes_per_s = 1000000 };
    assert_int_equal(form_of(&options, why, sizeof(why)), GRAPH_FORM_PACKED);
    if (!strstr(why, "packed: at 1 MB/s"))
        fail_msg("'%s' does not say why", why);
    assert_int_equal(access(image, F_OK), -1);
    options.image_path = NULL;
    assert_int_equal(form_of(&options, why, sizeof(why)), GRAPH_FORM_PACKED);
    options.image_path = image;
    options.load.weights.flash_limit = (ReadLimit){ 0 };
    form = form_of(&options, why, sizeof(why));
    assert_ptr_equal(strstr(why, graph_form_name(form)), why);
    assert_int_equal(access(image, F_OK) == 0, form == GRAPH_FORM_MATERIALISED);
}

/* A package is cut short, or written to, while its graphs come from it. */
static void test_npu_model_changed_package(void **state) {
    ImportFixture *fixture = *state;
    const char *package = make_package(fixture, 4.5, true);
    static float logits[N_TOKENS * N_VOCAB];
    char image[PATH_MAX];
    EngineOptions options = options_of(fixture, package, image);
    uint32_t tokens[N_TOKENS];
    Sequence *sequence;
    ErrText err = { 0 };
    struct stat st;
    NpuEngine loaded;

    options.load.weights.graphs.form = GRAPH_FORM_PACKED;
    options.load.weights.graphs.policy = GRAPH_SWITCH_SYNC;
    options.load.weights.checking = WEIGHTS_CHECKING_NOTHING;
    npu_engine_load(&loaded, &options, 2);
    draw_tokens(tokens, 0);
    assert_int_equal(sequence_new(&sequence, loaded.engine, N_TOKENS, &err), 0);
    assert_int_equal(step(&loaded, sequence, tokens, 100, 0, logits, &err), 0);
    assert_int_equal(stat(package, &st), 0);
    assert_int_equal(truncate(package, st.st_size / 2), 0);
    assert_int_equal(step(&loaded, sequence, tokens + 100, 1, 0, logits, &err), ENGINE_E_READ);
    if (!strstr(err.text, package) || !strstr(err.text, "import it again"))
        fail_msg("'%s' does not say what is damaged, and what to do", err.text);
    assert_int_equal(sequence_n_tokens(sequence), 100);
    assert_int_equal(access(package, F_OK), 0); /* the package is the user's, and stays */
    sequence_free(sequence);
    npu_engine_unload(&loaded);
}

/* An image is cut short while it is in use: steps fail with its name. */
static void test_npu_model_cut_short(void **state) {
    ImportFixture *fixture = *state;
    const char *package = make_package(fixture, 8, true);
    static float logits[N_TOKENS * N_VOCAB];
    char image[PATH_MAX];
    EngineOptions options = options_of(fixture, package, image);
    uint32_t tokens[N_TOKENS];
    Sequence *sequence;
    ErrText err = { 0 };
    NpuEngine loaded;

    options.load.weights.graphs.policy = GRAPH_SWITCH_SYNC;
    npu_engine_load(&loaded, &options, 2);
    draw_tokens(tokens, 0);
    assert_int_equal(sequence_new(&sequence, loaded.engine, N_TOKENS, &err), 0);
    assert_int_equal(step(&loaded, sequence, tokens, 100, 0, logits, &err), 0);
    assert_int_equal(truncate(image, 8192), 0);
    assert_int_equal(step(&loaded, sequence, tokens + 100, 1, 0, logits, &err), ENGINE_E_READ);
    assert_non_null(strstr(err.text, image));
    assert_int_equal(sequence_n_tokens(sequence), 100);
    assert_int_equal(step(&loaded, sequence, tokens + 100, 1, 0, logits, &err), ENGINE_E_READ);
    sequence_free(sequence);
    npu_engine_unload(&loaded);
}

/* A cancelled step does not wait for a slow disk. */
static void test_npu_model_cancelled(void **state) {
    ImportFixture *fixture = *state;
    const char *package = make_package(fixture, 8, true);
    static float logits[N_TOKENS * N_VOCAB];
    const _Atomic bool cancelled = true;
    const uint64_t start_ns = clock_now_ns();
    char image[PATH_MAX];
    EngineOptions options = options_of(fixture, package, image);
    uint32_t tokens[N_TOKENS];
    Sequence *sequence;
    ErrText err = { 0 };
    NpuEngine loaded;

    npu_engine_load(&loaded, &options, 2);
    npu_engine_unload(&loaded);
    options.load.weights.flash_limit = (ReadLimit){ .latency_us = 60000000 };
    npu_engine_load(&loaded, &options, 2);
    draw_tokens(tokens, 0);
    assert_int_equal(sequence_new(&sequence, loaded.engine, N_TOKENS, &err), 0);
    sequence_set_cancel(sequence, &cancelled);
    assert_int_equal(step(&loaded, sequence, tokens, 100, 0, logits, &err), ENGINE_E_CANCELLED);
    sequence_free(sequence);
    npu_engine_unload(&loaded);
    assert_true(clock_now_ns() - start_ns < UINT64_C(30000000000));
}

/* Loads are in the trace, and the reasons can be told. */
static void test_npu_model_trace(void **state) {
    static float logits[N_TOKENS * N_VOCAB];
    ImportFixture *fixture = *state;
    char image[PATH_MAX], text[500];
    EngineOptions options = options_of(fixture, make_package(fixture, 8, true), image);
    size_t n_prompts = 0, n_decoding = 0;
    Trace *trace;
    NpuEngine loaded;

    assert_int_equal(trace_new(&trace, 100000), 0);
    options.trace = trace;
    npu_engine_load(&loaded, &options, 2);
    for (int turn = 0; turn < 3; turn++)
        answer(&loaded, 0, logits);
    weights_graph_explain(engine_weights(loaded.engine), text, sizeof(text));
    assert_non_null(strstr(text, "6 blocks"));
    npu_engine_unload(&loaded);
    for (size_t i = 0; i < trace_n(trace); i++) {
        const TraceEvent *event = trace_at(trace, i);

        n_prompts += !strcmp(event->name, "graph of prompts");
        n_decoding += !strcmp(event->name, "graph of decoding");
        assert_true(event->start_ns <= event->end_ns);
    }
    assert_true(n_decoding >= N_LAYERS && n_prompts <= n_decoding);
    trace_free(trace);
}

/* Times in the trace of a load that computes while blocks come. */
typedef struct BehindLoad {
    uint64_t first_layer_ns; /* when the first layer was computed */
    uint64_t last_begin_ns;  /* when the last block, or matrix, began to be loaded, or laid out */
    size_t n_loads;
} BehindLoad;

static BehindLoad behind_load(const Trace *trace, const char *load) {
    BehindLoad behind = { 0 };

    for (size_t i = 0; i < trace_n(trace); i++) {
        const TraceEvent *event = trace_at(trace, i);

        if (!strcmp(event->name, load)) {
            behind.n_loads++;
            behind.last_begin_ns = MAX(event->start_ns, behind.last_begin_ns);
        } else if (!event->layer && strcmp(event->category, "load") != 0) {
            behind.first_layer_ns = MAX(event->end_ns, behind.first_layer_ns);
        }
    }
    return behind;
}

/* Runs a step on a slow disk, from the load on. */
static void check_behind_load(EngineOptions *options, const char *load, const float *expected) {
    static float logits[100 * N_VOCAB];
    uint32_t tokens[N_TOKENS];
    Sequence *sequence;
    ErrText err = { 0 };
    NpuEngine loaded;
    BehindLoad behind;
    Trace *trace;

    assert_int_equal(trace_new(&trace, 100000), 0);
    options->trace = trace;
    npu_engine_load(&loaded, options, 2);
    draw_tokens(tokens, 0);
    assert_int_equal(sequence_new(&sequence, loaded.engine, N_TOKENS, &err), 0);
    if (step(&loaded, sequence, tokens, 100, 0, logits, &err))
        fail_msg("%s", err.text);
    assert_memory_equal(logits, expected, sizeof(logits));
    sequence_free(sequence);
    npu_engine_unload(&loaded);
    behind = behind_load(trace, load);
    assert_true(behind.n_loads >= N_LAYERS && behind.first_layer_ns);
    assert_true(behind.first_layer_ns < behind.last_begin_ns);
    trace_free(trace);
    options->trace = NULL;
}

/* A block is computed as soon as it is there, while later ones are read. The first layer is done before the last block
 * begins to be loaded, or to arrive if the whole package comes to be compared or to make an image. */
static void test_npu_model_behind_load(void **state) {
    static float expected[2 * N_TOKENS * N_VOCAB];
    ImportFixture *fixture = *state;
    const char *package = make_package(fixture, 4.5, true);
    char image[PATH_MAX];
    EngineOptions options = options_of(fixture, package, image);

    answers_of_cpu(package, expected);
    options.arriving = true;
    options.load.weights.graphs.n_blocks = N_LAYERS;
    options.load.weights.graphs.form = GRAPH_FORM_PACKED;
    options.load.weights.checking = WEIGHTS_CHECKING_NOTHING;
    options.load.weights.flash_limit = (ReadLimit){ .latency_us = 50000 };
    check_behind_load(&options, "graph of prompts", expected); /* of the package */
    check_behind_load(&options, "expand", expected);
    options.load.weights.checking = WEIGHTS_CHECKING_ALL;
    options.load.weights.reading = WEIGHT_READING_THREADS; /* from the disk, of which there is a slow one */
    options.load.weights.flash_limit = (ReadLimit){ .bytes_per_s = 400000 };
    options.load.weights.limits_all = true;
    check_behind_load(&options, "lay out", expected);
    options.load.weights.graphs.form = GRAPH_FORM_MATERIALISED;
    check_behind_load(&options, "lay out", expected);
    options.load.weights.checking = WEIGHTS_CHECKING_NOTHING;
    options.load.weights.limits_all = false;
    options.load.weights.flash_limit = (ReadLimit){ .latency_us = 50000 };
    check_behind_load(&options, "graph of prompts", expected); /* of the image that was made */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_npu_model_bits),
        WITH_FOLDER(test_npu_model_arriving),
        WITH_FOLDER(test_npu_model_makes_way),
        WITH_FOLDER(test_npu_model_refusals),
        WITH_FOLDER(test_npu_model_damaged),
        WITH_FOLDER(test_npu_model_cut_short),
        WITH_FOLDER(test_npu_model_cancelled),
        WITH_FOLDER(test_npu_model_trace),
        WITH_FOLDER(test_npu_model_behind_load),
        WITH_FOLDER(test_npu_model_auto),
        WITH_FOLDER(test_npu_model_changed_package),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
