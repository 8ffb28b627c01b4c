// SPDX-License-Identifier: Apache-2.0
/* Tests the importer: round trip, every width, the same bytes for any number of threads, recognition and refusals. */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "importer/files/import_cache.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/importer/import_fixture.h"

static void test_importer_tiny(void **state) {
    static const uint32_t types[] = { GGML_F32, GGML_F16, GGML_BF16, GGML_Q8_0, GGML_Q4_0 };
    static const char *const archs[] = { "llama", "qwen2", "gemma3" };
    ImportFixture *fixture = *state;
    char out[300];

    snprintf(out, sizeof(out), "%s/out.cgm", fixture->folder);
    for (size_t a = 0; a < ARRAY_LEN(archs); a++)
        for (size_t t = 0; t < ARRAY_LEN(types); t++)
            for (int rotate = 0; rotate < 2; rotate++) {
                ModelMaker maker = MODEL_MAKER_DEFAULT;
                ImportReport report;

                maker.arch = archs[a];
                maker.type = types[t];
                maker.tied = t % 2;
                maker.seed = 10 * a + t;
                import_fixture_source(fixture, &maker);
                fixture->options.recipe.rotate = rotate;
                assert_int_equal(import_run(fixture->source, out, &fixture->options, &report, NULL), 0);
                assert_false(report.already_imported);
                assert_int_equal(report.n_linears, 2 * 7 + 1 + !maker.tied);
                import_fixture_check(fixture->source, out, rotate);
            }
}

/* Every width of the layers and of the embedding; the bytes do not depend on threads. */
static void check_widths(ImportFixture *fixture, Grid grid) {
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    char out[300], first[SHA256_HEX_BYTES] = "", hash[SHA256_HEX_BYTES];

    import_fixture_source(fixture, &maker);
    snprintf(out, sizeof(out), "%s/out.cgm", fixture->folder);
    for (int bits = 1; bits <= 8; bits++)
        for (unsigned int n_threads = 1; n_threads <= (patience_is_short() ? 1 : 3); n_threads += 2) {
            QuantRecipe *recipe = &fixture->options.recipe;
            ImportReport report;

            quant_recipe_set_bits(recipe, bits);
            recipe->embedding_bits = (uint32_t)(9 - bits);
            recipe->search_scales = bits % 2;
            recipe->grid = grid;
            fixture->options.n_threads = n_threads;
            assert_int_equal(import_run(fixture->source, out, &fixture->options, &report, NULL), 0);
            assert_false(report.already_imported);
            assert_true(report.bits == bits && report.embedding_bits == recipe->embedding_bits);
            import_fixture_hash(out, hash);
            if (n_threads == 1) {
                memcpy(first, hash, sizeof(first));
                import_fixture_check(fixture->source, out, true);
            }
            assert_string_equal(hash, first);
            assert_int_equal(unlink(out), 0);
        }
}

static void test_importer_widths(void **state) {
    check_widths(*state, GRID_UNIFORM);
}

static void test_importer_widths_normal(void **state) {
    check_widths(*state, GRID_NORMAL);
}

/* Widths within a matrix, by Algorithm 1: on the normal grid a channel is as wide as its block. */
static void test_importer_mixed_widths_normal(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    uint64_t package_bytes[_GRID_N];
    double bits[_GRID_N];
    char out[300];

    import_fixture_source(fixture, &maker);
    snprintf(out, sizeof(out), "%s/out.cgm", fixture->folder);
    quant_recipe_set_bits(&fixture->options.recipe, 4.7);
    for (Grid grid = GRID_UNIFORM; grid < _GRID_N; grid++) {
        ImportReport report;

        fixture->options.recipe.grid = grid;
        assert_int_equal(import_run(fixture->source, out, &fixture->options, &report, NULL), 0);
        assert_false(report.already_imported);
        import_fixture_check(fixture->source, out, true);
        package_bytes[grid] = report.package_bytes;
        bits[grid] = report.bits;
    }
    assert_true(bits[GRID_UNIFORM] <= 4.7 && bits[GRID_NORMAL] > bits[GRID_UNIFORM]);
    assert_int_equal(package_bytes[GRID_NORMAL], package_bytes[GRID_UNIFORM]);
}

/* The largest average that fits; less than one bit is not possible. */
static void test_importer_budget(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    uint64_t package_bytes[9], budget_bytes;
    ImportReport report;
    char out[300];
    ErrText err;

    maker.n_ff = 1024; /* otherwise every matrix is one page */
    import_fixture_source(fixture, &maker);
    snprintf(out, sizeof(out), "%s/out.cgm", fixture->folder);
    for (int bits = 1; bits <= 8; bits++) {
        quant_recipe_set_bits(&fixture->options.recipe, bits);
        assert_int_equal(import_run(fixture->source, out, &fixture->options, &report, NULL), 0);
        package_bytes[bits] = report.package_bytes;
    }
    for (int bits = 1; bits <= 8; bits++) {
        fixture->options.recipe.budget_bytes = package_bytes[bits];
        assert_int_equal(import_run(fixture->source, out, &fixture->options, &report, &err), 0);
        assert_true(report.bits == bits && report.bits_asked == 8);
        assert_true(report.package_bytes <= package_bytes[bits]);
        assert_int_equal(import_run(fixture->source, out, &fixture->options, &report, &err), 0);
        assert_true(report.already_imported && report.bits == bits);
    }
    budget_bytes = package_bytes[1] - 4096;
    fixture->options.recipe.budget_bytes = budget_bytes;
    assert_int_equal(import_run(fixture->source, out, &fixture->options, &report, &err), IMPORT_E_BUDGET);
    assert_non_null(strstr(err.text, "the smallest package has "));
}

/* A budget alone is used almost completely: some channels have one bit more than others. */
static void test_importer_fills_a_budget(void **state) {
    ImportFixture *fixture = *state;
    QuantRecipe *recipe = &fixture->options.recipe;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    uint64_t package_bytes[2], one_bit_bytes;
    ImportReport report;

    maker.n_ff = 1024;
    import_fixture_source(fixture, &maker);
    for (int i = 0; i < 2; i++) {
        quant_recipe_set_bits(recipe, 4 + i);
        assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, NULL), 0);
        package_bytes[i] = report.package_bytes;
    }
    one_bit_bytes = package_bytes[1] - package_bytes[0];
    assert_int_equal(quant_recipe_named(recipe, NULL), 0);
    recipe->budget_bytes = package_bytes[0] + one_bit_bytes / 2;
    quant_recipe_fill_budget(recipe);
    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, NULL), 0);
    assert_true(report.bits > 4 && report.bits < 5);
    assert_true(report.package_bytes <= recipe->budget_bytes);
    assert_true(report.package_bytes > recipe->budget_bytes - one_bit_bytes / 4);
    /* A budget larger than needed. */
    recipe->budget_bytes = 1 << 30;
    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, NULL), 0);
    assert_true(report.bits == 8);
}

static size_t n_asked; /* calls that would have measured something */

static int begin_counted(void **statep, const ImportModel *model, ErrText *err) {
    n_asked++;
    return import_method_plain.begin(statep, model, err);
}

static int profile_counted(void *state, const ImportModel *model, ErrText *err) {
    n_asked++;
    return import_fixture_profile(state, model, err);
}

static int allocate_counted(void *state, const ImportModel *model, ErrText *err) {
    n_asked++;
    return import_method_plain.allocate(state, model, err);
}

/* A budget that no package fits is refused before the measuring, which takes minutes with calibration. */
static void test_importer_impossible_budget_measures_nothing(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    QuantRecipe *recipe = &fixture->options.recipe;
    ImportMethod method = import_method_plain;

    method.begin = begin_counted;
    method.profile = profile_counted;
    method.allocate = allocate_counted;
    fixture->options.method = &method;
    import_fixture_source(fixture, &maker);
    quant_recipe_set_bits(recipe, 4.5);
    recipe->budget_bytes = 10000;
    for (int i = 0; i < 2; i++) {
        recipe->static_activations = i;
        import_fixture_refusal(fixture, fixture->out, IMPORT_E_BUDGET, "the smallest package has ");
        assert_int_equal(n_asked, 0);
    }
}

/* Only the profile tells which operators have a shadow, whose columns take space too. */
static void test_importer_budget_counts_shadows(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    QuantRecipe *recipe = &fixture->options.recipe;
    ImportMethod method = import_method_plain;
    ImportReport report;

    method.profile = profile_counted;
    method.allocate = allocate_counted;
    fixture->options.method = &method;
    import_fixture_source(fixture, &maker);
    quant_recipe_set_bits(recipe, 1);
    recipe->static_activations = true;
    recipe->prune_percent = 0;
    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, NULL), 0);
    assert_int_equal(unlink(fixture->out), 0);
    n_asked = 0;
    recipe->budget_bytes = report.package_bytes - 1;
    import_fixture_refusal(fixture, fixture->out, IMPORT_E_BUDGET, "the smallest package has ");
    assert_int_equal(n_asked, 1);
    recipe->budget_bytes = report.package_bytes;
    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, NULL), 0);
    assert_int_equal(report.package_bytes, recipe->budget_bytes);
}

#ifndef __SANITIZE_THREAD__
static void test_importer_real(void **state) {
    const char *source = test_default_model();
    ImportFixture *fixture = *state;
    char first[SHA256_HEX_BYTES] = "", hash[SHA256_HEX_BYTES], source_hash[SHA256_HEX_BYTES];
    ImportReport report;

    if (!source || patience_is_short())
        skip();
    import_fixture_hash(source, source_hash);
    for (unsigned int n_threads = 1; n_threads <= 3; n_threads += 2) {
        fixture->options.n_threads = n_threads;
        assert_int_equal(import_run(source, NULL, &fixture->options, &report, NULL), 0);
        assert_false(report.already_imported);
        assert_string_equal(report.source_sha256, source_hash);
        import_fixture_hash(report.path, hash);
        if (n_threads == 1) {
            memcpy(first, hash, sizeof(first));
            import_fixture_check(source, report.path, true);
            assert_int_equal(import_run(source, NULL, &fixture->options, &report, NULL), 0);
            assert_true(report.already_imported && report.n_linears == 7 * (report.n_layers - 1) + 1);
        }
        assert_string_equal(hash, first); /* byte for byte */
        assert_int_equal(unlink(report.path), 0);
    }
}
#endif

/* --- recognition -------------------------------------------------------------------------------------------------- */

static void test_importer_recognises(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    ImportReport first, second;
    struct stat st, st2;
    char expected[PATH_MAX];

    import_fixture_source(fixture, &maker);
    assert_int_equal(import_run(fixture->source, NULL, &fixture->options, &first, NULL), 0);
    assert_false(first.already_imported || first.hash_remembered);
    snprintf(expected, sizeof(expected), "%s/tiny-%.12s.cgm", fixture->cache, first.source_sha256);
    assert_string_equal(first.path, expected);
    assert_int_equal(stat(first.path, &st), 0);
    assert_int_equal(st.st_size, first.package_bytes);

    assert_int_equal(import_run(fixture->source, NULL, &fixture->options, &second, NULL), 0);
    assert_true(second.already_imported);
    assert_false(second.hash_remembered); /* the source is too young to be trusted by its times */
    assert_true(second.package_bytes == first.package_bytes && second.n_linears == first.n_linears);
    assert_int_equal(stat(first.path, &st2), 0);
    assert_true(st.st_ino == st2.st_ino);

    fixture->options.recipe.rotate = false; /* other settings: another package, and both stay */
    assert_int_equal(import_run(fixture->source, NULL, &fixture->options, &second, NULL), 0);
    assert_false(second.already_imported);
    snprintf(expected, sizeof(expected), "%s/tiny-%.12s-unrotated.cgm", fixture->cache, first.source_sha256);
    assert_string_equal(second.path, expected);

    fixture->options.recipe.rotate = true; /* a damaged package is made again */
    assert_int_equal(truncate(first.path, st.st_size / 2), 0);
    assert_int_equal(import_run(fixture->source, NULL, &fixture->options, &second, NULL), 0);
    assert_false(second.already_imported);

    maker.seed = 2; /* the source changed */
    import_fixture_source(fixture, &maker);
    assert_int_equal(import_run(fixture->source, NULL, &fixture->options, &second, NULL), 0);
    assert_false(second.already_imported);
    assert_string_not_equal(second.path, first.path);
}

/* A package that opens but has changed bytes is found when the checksums are compared. */
static void test_importer_checks_package(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    char hash[SHA256_HEX_BYTES], made_hash[SHA256_HEX_BYTES];
    ImportReport report;
    uint8_t byte;
    int fd;

    import_fixture_source(fixture, &maker);
    assert_int_equal(import_run(fixture->source, NULL, &fixture->options, &report, NULL), 0);
    import_fixture_hash(report.path, hash);
    fixture->options.checks_package = true;
    assert_int_equal(import_run(fixture->source, NULL, &fixture->options, &report, NULL), 0);
    assert_true(report.already_imported);

    fd = open(report.path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &byte, 1, (off_t)report.package_bytes - 1), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)report.package_bytes - 1), 1);
    close(fd);
    fixture->options.checks_package = false;
    assert_int_equal(import_run(fixture->source, NULL, &fixture->options, &report, NULL), 0);
    assert_true(report.already_imported);
    fixture->options.checks_package = true;
    assert_int_equal(import_run(fixture->source, NULL, &fixture->options, &report, NULL), 0);
    assert_false(report.already_imported);
    import_fixture_hash(report.path, made_hash);
    assert_string_equal(made_hash, hash);
}

/* The record of a source's hash holds for this size, mtime and ctime only. */
static void test_importer_remembers_hashes(void **state) {
    static const char hash[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    ImportFixture *fixture = *state;
    char recalled[SHA256_HEX_BYTES];
    struct stat st = { .st_dev = 5, .st_ino = 77, .st_size = 1000, .st_mtim = { 1000, 1 }, .st_ctim = { 2000, 2 } },
                changed;

    import_hash_remember(fixture->cache, &st, hash);
    assert_true(import_hash_recall(fixture->cache, &st, recalled));
    assert_string_equal(recalled, hash);
    changed = st;
    changed.st_size = 1001;
    assert_false(import_hash_recall(fixture->cache, &changed, recalled));
    changed = st;
    changed.st_mtim.tv_nsec = 2;
    assert_false(import_hash_recall(fixture->cache, &changed, recalled));
    changed = st;
    changed.st_ctim.tv_nsec = 3;
    assert_false(import_hash_recall(fixture->cache, &changed, recalled));
    changed = st;
    changed.st_ino = 78;
    assert_false(import_hash_recall(fixture->cache, &changed, recalled));
    changed.st_ctim.tv_sec = time(NULL); /* a file that has just changed may change again unseen */
    import_hash_remember(fixture->cache, &changed, hash);
    assert_false(import_hash_recall(fixture->cache, &changed, recalled));
}

static void test_importer_default_path(void **state) {
    static const char sha[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    char path[PATH_MAX];
    QuantRecipe recipe;

    assert_int_equal(quant_recipe_named(&recipe, NULL), 0);
    assert_int_equal(import_default_path(path, "/x/My model (1).GGUF", sha, &recipe, NULL, "/c", NULL), 0);
    assert_string_equal(path, "/c/My_model__1_-0123456789ab.cgm");
    recipe.rotate = false;
    assert_int_equal(import_default_path(path, "../.hidden", sha, &recipe, NULL, "/c", NULL), 0);
    assert_string_equal(path, "/c/_hidden-0123456789ab-unrotated.cgm");
    recipe.rotate = true;
    quant_recipe_set_bits(&recipe, 4.5);
    assert_int_equal(import_default_path(path, "m.gguf", sha, &recipe, NULL, "/c", NULL), 0);
    assert_string_equal(path, "/c/m-0123456789ab-int8-4.5.cgm");
    assert_int_equal(quant_recipe_named(&recipe, "compensated"), 0);
    recipe.embedding_bits = 6;
    recipe.search_scales = false;
    recipe.allocation = QUANT_ALLOCATION_TENSOR;
    recipe.budget_bytes = 1000000;
    assert_int_equal(import_default_path(path, "m.gguf", sha, &recipe, sha, "/c", NULL), 0);
    assert_string_equal(path,
                        "/c/m-0123456789ab-compensated-5-unsearched-tensor-embedding6-max1000000-text01234567.cgm");
    assert_int_equal(quant_recipe_named(&recipe, NULL), 0);
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    assert_int_equal(import_default_path(path, "m.gguf", sha, &recipe, NULL, NULL, NULL), 0);
    assert_string_equal(path, "/xdg/coordgen/models/m-0123456789ab.cgm");
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", "/home/someone", 1);
    assert_int_equal(import_default_path(path, "m.gguf", sha, &recipe, NULL, NULL, NULL), 0);
    assert_string_equal(path, "/home/someone/.cache/coordgen/models/m-0123456789ab.cgm");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_int_equal(import_default_path(path, "m.gguf", sha, &recipe, NULL, NULL, NULL), -ENOENT);
}

static void path_of(char path[PATH_MAX], const QuantRecipe *recipe, const char *calibration_sha256) {
    static const char sha[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    assert_int_equal(import_default_path(path, "m.gguf", sha, recipe, calibration_sha256, "/c", NULL), 0);
}

/* Settings that are too long for a name, or have too many digits: each still has a name of its own. */
static void test_importer_default_path_of_unusual_settings(void **state) {
    static const char text[] = "89abcdef89abcdef89abcdef89abcdef89abcdef89abcdef89abcdef89abcdef";
    static const double numbers[] = { 4.1234567, 4.1234568, 4.12346 };
    char paths[8][PATH_MAX];
    QuantRecipe recipe;
    size_t n = 0;

    assert_int_equal(quant_recipe_named(&recipe, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        quant_recipe_set_bits(&recipe, numbers[i]);
        path_of(paths[n++], &recipe, NULL);
    }
    assert_int_equal(strlen(paths[0]), strlen("/c/m-0123456789ab-int8-4.12346-01234567.cgm"));
    assert_string_equal(paths[2], "/c/m-0123456789ab-int8-4.12346.cgm");
    assert_int_equal(quant_recipe_named(&recipe, "compensated"), 0);
    recipe.rotate = recipe.search_scales = recipe.compensate = recipe.descend = false;
    recipe.smooth = recipe.static_activations = true;
    recipe.hot_percent = 12.5;
    recipe.prune_percent = 37.5;
    recipe.embedding_bits = 4;
    for (uint64_t bytes = 1000000000000; bytes < 1000000000002; bytes++) {
        recipe.budget_bytes = bytes;
        path_of(paths[n++], &recipe, text);
    }
    path_of(paths[n++], &recipe, NULL);
    recipe.budget_bytes = 0;
    recipe.hot_percent = 1.0 / 3;
    path_of(paths[n++], &recipe, NULL);
    recipe.hot_percent = 0.333333;
    path_of(paths[n++], &recipe, NULL);
    for (size_t i = 0; i < n; i++) {
        assert_true(strlen(paths[i]) < 160 && strcmp(paths[i] + strlen(paths[i]) - 4, ".cgm") == 0);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(paths[i], paths[j]);
    }
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */

static void test_importer_refuses_sources(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;

    maker.arch = "mamba";
    import_fixture_source(fixture, &maker);
    import_fixture_refusal(fixture, NULL, IMPORT_E_UNSUPPORTED, "architecture 'mamba'");
    maker.arch = "llama";
    maker.tokenizer = "rwkv";
    import_fixture_source(fixture, &maker);
    import_fixture_refusal(fixture, NULL, IMPORT_E_UNSUPPORTED, "tokenizer 'rwkv'");
    maker.tokenizer = "gpt2";
    maker.n_more_tokens = 2;
    import_fixture_source(fixture, &maker);
    import_fixture_refusal(fixture, NULL, IMPORT_E_CORRUPT,
                           "42 tokens in the tokenizer, but the embedding has 40 rows");
    maker.n_more_tokens = 0;
    maker.bad_value = true;
    import_fixture_source(fixture, &maker);
    import_fixture_refusal(fixture, NULL, IMPORT_E_CORRUPT,
                           "tensor 'output.weight', row 1: a value is not a finite number");
    maker.bad_value = false;
    maker.pretokenizer = "xmollm"; /* only the tokenizer knows it */
    import_fixture_source(fixture, &maker);
    import_fixture_refusal(fixture, NULL, IMPORT_E_UNSUPPORTED, "xmollm");
    test_write_file(fixture->folder, "tiny.gguf", "no model", 8);
    import_fixture_refusal(fixture, NULL, IMPORT_E_CORRUPT, "not a GGUF file");
    unlink(fixture->source);
    import_fixture_refusal(fixture, NULL, -ENOENT, "No such file");
}

static void enlarge_row(float *values, size_t n, size_t k) {
    for (size_t i = 0; i < k; i++)
        values[5 * k + i] = 1e38f;
}

/* Weights that fit a float, though the sums of their rotation do not: the file is not damaged, and the error names a
 * way. */
static void test_importer_refuses_rotations_that_overflow(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    ImportReport report;

    import_fixture_source(fixture, &maker);
    import_fixture_change(fixture, "blk.1.ffn_up.weight", enlarge_row);
    import_fixture_refusal(fixture, fixture->out, IMPORT_E_UNSUPPORTED,
                           "tensor 'blk.1.ffn_up.weight', row 5: its weights are so large that their rotation "
                           "overflows: import it with coordgenctl model import --recipe int8:8:-rotation");
    fixture->options.recipe.rotate = false;
    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, NULL), 0);
}

static void test_importer_refuses_outputs(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    ImportReport report;
    char out[300];
    ErrText err;

    import_fixture_source(fixture, &maker);
    import_fixture_refusal(fixture, fixture->source, IMPORT_E_EXISTS, "the output is the source itself");
    snprintf(out, sizeof(out), "%s/notes.txt", fixture->folder);
    test_write_file(fixture->folder, "notes.txt", "precious", 8);
    import_fixture_refusal(fixture, out, IMPORT_E_EXISTS, "exists and is not a model package");
    snprintf(out, sizeof(out), "%s/none/out.cgm", fixture->folder);
    import_fixture_refusal(fixture, out, -ENOENT, "/none/out.cgm");
    import_fixture_refusal(fixture, "", -EINVAL, "the path of the package is empty");
    snprintf(out, sizeof(out), "%s/out.cgm", fixture->folder);
    assert_int_equal(import_run(fixture->source, out, &fixture->options, &report, NULL), 0);
    assert_int_equal(import_run(out, NULL, &fixture->options, &report, &err), IMPORT_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "this is a model package already"));
    maker.seed = 3; /* a package of another source is replaced */
    import_fixture_source(fixture, &maker);
    assert_int_equal(import_run(fixture->source, out, &fixture->options, &report, NULL), 0);
    assert_false(report.already_imported);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_importer_tiny),
        WITH_FOLDER(test_importer_widths),
        WITH_FOLDER(test_importer_widths_normal),
        WITH_FOLDER(test_importer_mixed_widths_normal),
        WITH_FOLDER(test_importer_budget),
        WITH_FOLDER(test_importer_fills_a_budget),
        WITH_FOLDER(test_importer_impossible_budget_measures_nothing),
        WITH_FOLDER(test_importer_budget_counts_shadows),
#ifndef __SANITIZE_THREAD__ /* minutes; the small models have as many threads */
        WITH_FOLDER(test_importer_real),
#endif
        WITH_FOLDER(test_importer_recognises),
        WITH_FOLDER(test_importer_checks_package),
        WITH_FOLDER(test_importer_remembers_hashes),
        WITH_FOLDER(test_importer_refuses_sources),
        WITH_FOLDER(test_importer_refuses_rotations_that_overflow),
        WITH_FOLDER(test_importer_refuses_outputs),
        cmocka_unit_test(test_importer_default_path_of_unusual_settings),
        cmocka_unit_test(test_importer_default_path), /* last: changes the environment */
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
