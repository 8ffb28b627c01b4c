/* Importer: round trip, the same bytes whatever the threads, recognition, refusals, and nothing left after failures. */
#define _GNU_SOURCE
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "importer/import_private.h"
#include "importer/importer.h"
#include "model/package.h"
#include "quant/grid.h"
#include "quant/pack.h"
#include "quant/rotate.h"
#include "test/unit/model_maker.h"

typedef struct Fixture {
    char folder[256];
    char cache[300];
    char source[300];
    ImportOptions options;
} Fixture;

static void make_source(Fixture *fixture, const ModelMaker *maker) {
    StrBuf file = STR_BUF_NULL;

    model_maker_run(maker, &file);
    test_write_file(fixture->folder, "tiny.gguf", file.data, file.len_bytes);
    str_buf_deinit(&file);
}

static int setup(void **state) {
    Fixture *fixture = calloc(1, sizeof(*fixture));

    if (!fixture)
        return -1;
    test_folder_make(fixture->folder);
    snprintf(fixture->cache, sizeof(fixture->cache), "%s/cache", fixture->folder);
    snprintf(fixture->source, sizeof(fixture->source), "%s/tiny.gguf", fixture->folder);
    fixture->options = IMPORT_OPTIONS_DEFAULT;
    fixture->options.cache_dir = fixture->cache;
    fixture->options.n_threads = 2;
    *state = fixture;
    return 0;
}

static int teardown(void **state) {
    Fixture *fixture = *state;

    test_folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

/* A file of a known size and content: its hash. */
static void hash_file(const char *path, char hex[SHA256_HEX_BYTES]) {
    MappedFile file;

    assert_int_equal(mapped_file_open(&file, path, NULL), 0);
    sha256_hex(file.data, file.len_bytes, hex);
    mapped_file_deinit(&file);
}

/* --- the numbers -------------------------------------------------------------------------------------------------- */

/* The integers of a row, from either layout. */
static const int8_t *row_of(const PackageLinear *linear, int8_t *unpacked, size_t row) {
    PackPlan plan;

    if (linear->weights)
        return linear->weights + row * linear->k;
    if (!row) {
        assert_int_equal(pack_plan_init(&plan, linear->bits, linear->n, linear->k), 0);
        for (size_t block = 0; block < plan.n_blocks; block++)
            unpack_block(&plan, block, linear->packed, unpacked);
        pack_plan_deinit(&plan);
    }
    return unpacked + row * linear->k;
}

/* Every weight of the package is within half a step of the rotated source, or the last level when it is outside of the
 * grid; un-rotated it is within the norm of that. */
static void check_linear(const GgufTensor *source, const PackageLinear *linear) {
    _cleanup_(freep) float *rotated = malloc(linear->k * sizeof(float)), *plain = malloc(linear->k * sizeof(float)),
                           *back = malloc(linear->k * sizeof(float));
    _cleanup_(freep) int8_t *unpacked = linear->packed ? malloc(linear->n * linear->k) : NULL;
    size_t row_bytes = source->len_bytes / linear->n, step = linear->n > 512 ? linear->n / 512 : 1;

    assert_true(rotated && plain && back);
    assert_true(source->ne[0] == linear->k && source->ne[1] == linear->n);
    for (size_t row = 0; row < linear->n; row += step) {
        const int8_t *q = row_of(linear, unpacked, row);
        int bits = linear->bits[row], top = grid_max(bits);
        double scale = (double)linear->scales[row], half = 0.5 * scale * grid_factor(bits), error = 0;

        ggml_dequantize(source->type, source->data + row * row_bytes, plain, linear->k);
        memcpy(rotated, plain, linear->k * sizeof(float));
        if (linear->rotation_block)
            rotate_row(rotated, linear->k, linear->rotation_block);
        for (size_t i = 0; i < linear->k; i++) {
            double x = (double)rotated[i];

            assert_true(q[i] >= -top && q[i] <= top && grid_level(grid_code(q[i], bits), bits) == q[i]);
            back[i] = (float)q[i] * linear->scales[row];
            if (fabs(x) <= top * scale + half)
                assert_true(fabs(x - q[i] * scale) <= 1.00002 * half);
            else
                assert_int_equal(q[i], x < 0 ? -top : top);
        }
        if (bits < 8)
            continue;
        if (linear->rotation_block)
            rotate_row(back, linear->k, linear->rotation_block);
        for (size_t i = 0; i < linear->k; i++)
            error += ((double)back[i] - (double)plain[i]) * ((double)back[i] - (double)plain[i]);
        /* The rotation keeps lengths; rounding errors are spread over +-scale/2 evenly, scale^2/12 on average. */
        assert_true(error <= 0.25001 * scale * scale * (double)linear->k);
        assert_true(linear->k < 64 || error <= 0.2 * scale * scale * (double)linear->k);
    }
}

static void check_package(const char *source_path, const char *package_path, bool rotated) {
    _cleanup_(gguf_freep) GgufFile *source = NULL;
    _cleanup_(package_freep) Package *package = NULL;
    const Hparams *hparams;
    char name[GGUF_TENSOR_NAME_MAX + 8];
    PackageLinear linear;
    const float *norm;
    size_t n;

    assert_int_equal(gguf_open(&source, source_path, NULL), 0);
    assert_int_equal(package_open(&package, package_path, NULL), 0);
    assert_int_equal(package_quant(package)->rotated, rotated);
    hparams = package_hparams(package);
    for (size_t i = 0; i < package_n_linears(package); i++) {
        const PackageLinear *at = package_linear_at(package, i);

        snprintf(name, sizeof(name), "%s.weight", at->name);
        assert_non_null(gguf_tensor(source, name));
        assert_int_equal(at->rotation_block, rotated ? rotate_block_size(at->k) : 0);
        check_linear(gguf_tensor(source, name), at);
        assert_int_equal(package_linear(package, name, &linear, NULL), 0);
        assert_true(linear.weights == at->weights && linear.packed == at->packed && linear.n == at->n);
        assert_int_equal((uintptr_t)(at->packed ? at->packed : (const uint8_t *)at->weights) % PACKAGE_ALIGNMENT, 0);
    }
    norm = package_vector(package, ROLE_OUTPUT_NORM, -1, &n);
    assert_non_null(norm);
    assert_int_equal(n, hparams->n_embd);
    assert_memory_equal(norm, gguf_tensor(source, "output_norm.weight")->data, n * sizeof(float));
    assert_null(package_vector(package, ROLE_ATTN_Q, 0, &n));
    assert_null(package_vector(package, ROLE_ATTN_NORM, (int)hparams->n_layers, &n));
    assert_int_equal(package_linear(package, "blk.0.attn_norm.weight", &linear, NULL), PACKAGE_E_CORRUPT);
    /* The source's keys are there, but for the three that speak of its own storage. */
    for (size_t i = 0; i < gguf_n_keys(source); i++) {
        const GgufKey *key = gguf_key_at(source, i);
        bool dropped = false;

        snprintf(name, sizeof(name), "%.*s", (int)key->name.len_bytes, key->name.data);
        dropped = !strcmp(name, "general.file_type") || !strcmp(name, "general.quantization_version") ||
                  !strcmp(name, "general.alignment");
        assert_int_equal(!gguf_key(package_file(package), name), dropped && strcmp(name, "general.alignment"));
    }
}

static void test_importer_tiny(void **state) {
    static const uint32_t types[] = { GGML_F32, GGML_F16, GGML_BF16, GGML_Q8_0, GGML_Q4_0 };
    static const char *const archs[] = { "llama", "qwen2", "gemma3" };
    Fixture *fixture = *state;
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
                make_source(fixture, &maker);
                fixture->options.recipe.rotate = rotate;
                assert_int_equal(import_run(fixture->source, out, &fixture->options, &report, NULL), 0);
                assert_false(report.already_imported);
                assert_int_equal(report.n_linears, 2 * 7 + 1 + !maker.tied);
                check_package(fixture->source, out, rotate);
            }
}

/* Every width, of the layers and of the embedding; whatever the threads, the same bytes. */
static void test_importer_widths(void **state) {
    Fixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    char out[300], first[SHA256_HEX_BYTES] = "", hash[SHA256_HEX_BYTES];

    make_source(fixture, &maker);
    snprintf(out, sizeof(out), "%s/out.cgm", fixture->folder);
    for (int bits = 1; bits <= 8; bits++)
        for (unsigned int n_threads = 1; n_threads <= 3; n_threads++) {
            QuantRecipe *recipe = &fixture->options.recipe;
            ImportReport report;

            quant_recipe_set_bits(recipe, bits);
            recipe->embedding_bits = (uint32_t)(9 - bits);
            recipe->search_scales = bits % 2;
            fixture->options.n_threads = n_threads;
            assert_int_equal(import_run(fixture->source, out, &fixture->options, &report, NULL), 0);
            assert_false(report.already_imported);
            assert_true(report.bits == bits && report.embedding_bits == recipe->embedding_bits);
            hash_file(out, hash);
            if (n_threads == 1) {
                memcpy(first, hash, sizeof(first));
                check_package(fixture->source, out, true);
            }
            assert_string_equal(hash, first);
            assert_int_equal(unlink(out), 0);
        }
}

/* The largest average that fits; less than one bit cannot be. */
static void test_importer_budget(void **state) {
    Fixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    uint64_t package_bytes[9], budget_bytes;
    ImportReport report;
    char out[300];
    ErrText err;

    maker.n_ff = 1024; /* else every matrix is one page */
    make_source(fixture, &maker);
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

static void test_importer_real(void **state) {
    const char *source = test_default_model();
    Fixture *fixture = *state;
    char first[SHA256_HEX_BYTES] = "", hash[SHA256_HEX_BYTES], source_hash[SHA256_HEX_BYTES];
    ImportReport report;

    if (!source)
        skip();
    hash_file(source, source_hash);
    for (unsigned int n_threads = 1; n_threads <= 3; n_threads++) {
        fixture->options.n_threads = n_threads;
        assert_int_equal(import_run(source, NULL, &fixture->options, &report, NULL), 0);
        assert_false(report.already_imported);
        assert_string_equal(report.source_sha256, source_hash);
        hash_file(report.path, hash);
        if (n_threads == 1) {
            memcpy(first, hash, sizeof(first));
            check_package(source, report.path, true);
            assert_int_equal(import_run(source, NULL, &fixture->options, &report, NULL), 0);
            assert_true(report.already_imported && report.n_linears == 211);
        }
        assert_string_equal(hash, first); /* byte for byte */
        assert_int_equal(unlink(report.path), 0);
    }
}

/* --- recognition -------------------------------------------------------------------------------------------------- */

static void test_importer_recognises(void **state) {
    Fixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    ImportReport first, second;
    struct stat st, st2;
    char expected[PATH_MAX];

    make_source(fixture, &maker);
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
    make_source(fixture, &maker);
    assert_int_equal(import_run(fixture->source, NULL, &fixture->options, &second, NULL), 0);
    assert_false(second.already_imported);
    assert_string_not_equal(second.path, first.path);
}

/* The record of a source's hash holds for this size, mtime and ctime only. */
static void test_importer_remembers_hashes(void **state) {
    static const char hash[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    Fixture *fixture = *state;
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
    changed.st_ctim.tv_sec = time(NULL); /* a file that changed just now may change again unseen */
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

/* --- refusals ----------------------------------------------------------------------------------------------------- */

static void expect_refusal(Fixture *fixture, const char *out, int code, const char *text) {
    size_t n_before = test_folder_count(fixture->folder);
    ImportReport report;
    ErrText err = { "" };
    int r = import_run(fixture->source, out, &fixture->options, &report, &err);

    if (r != code || !strstr(err.text, text))
        fail_msg("code %d, expected %d; text '%s', expected '%s'", r, code, err.text, text);
    assert_int_equal(test_folder_count(fixture->folder), n_before);
    if (access(fixture->cache, F_OK) == 0)
        assert_int_equal(test_folder_count(fixture->cache), 0);
}

static int refuse_always(const GgufFile *source, ErrText *err) {
    return err_set(err, 7, "%s: not this one", gguf_path(source));
}

static void test_importer_refuses_sources(void **state) {
    Fixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;

    maker.arch = "mamba";
    make_source(fixture, &maker);
    expect_refusal(fixture, NULL, IMPORT_E_UNSUPPORTED, "architecture 'mamba'");
    maker.arch = "llama";
    maker.tokenizer = "rwkv";
    make_source(fixture, &maker);
    expect_refusal(fixture, NULL, IMPORT_E_UNSUPPORTED, "tokenizer 'rwkv'");
    maker.tokenizer = "gpt2";
    maker.bad_value = true;
    make_source(fixture, &maker);
    expect_refusal(fixture, NULL, IMPORT_E_CORRUPT, "tensor 'output.weight', row 1: a value is not a finite number");
    maker.bad_value = false;
    make_source(fixture, &maker);
    fixture->options.check_source = refuse_always;
    expect_refusal(fixture, NULL, IMPORT_E_UNSUPPORTED, "not this one");
    fixture->options.check_source = NULL;
    test_write_file(fixture->folder, "tiny.gguf", "no model", 8);
    expect_refusal(fixture, NULL, IMPORT_E_CORRUPT, "not a GGUF file");
    unlink(fixture->source);
    expect_refusal(fixture, NULL, -ENOENT, "No such file");
}

static void test_importer_refuses_outputs(void **state) {
    Fixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    ImportReport report;
    char out[300];
    ErrText err;

    make_source(fixture, &maker);
    expect_refusal(fixture, fixture->source, IMPORT_E_EXISTS, "the output is the source itself");
    snprintf(out, sizeof(out), "%s/notes.txt", fixture->folder);
    test_write_file(fixture->folder, "notes.txt", "precious", 8);
    expect_refusal(fixture, out, IMPORT_E_EXISTS, "exists and is not a model package");
    snprintf(out, sizeof(out), "%s/none/out.cgm", fixture->folder);
    expect_refusal(fixture, out, -ENOENT, "/none/out.cgm");
    snprintf(out, sizeof(out), "%s/out.cgm", fixture->folder);
    assert_int_equal(import_run(fixture->source, out, &fixture->options, &report, NULL), 0);
    assert_int_equal(import_run(out, NULL, &fixture->options, &report, &err), IMPORT_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "this is a model package already"));
    maker.seed = 3; /* a package of another source is replaced */
    make_source(fixture, &maker);
    assert_int_equal(import_run(fixture->source, out, &fixture->options, &report, NULL), 0);
    assert_false(report.already_imported);
}

/* --- cancel, kill, change, disk full ------------------------------------------------------------------------------ */

typedef struct Interrupt {
    ImportStage stage;
    _Atomic bool cancelled;
    const char *append_to; /* or: the source grows meanwhile */
    const char *truncate;  /* or: it is cut in half */
    rlim_t limit_bytes;    /* or: no file may be longer any more */
    int pipe_fd;           /* or: say so and wait to be killed */
    bool done;
} Interrupt;

static void interrupt(void *arg, const ImportProgress *progress) {
    Interrupt *at = arg;

    assert_true(progress->done_bytes <= progress->total_bytes);
    assert_true(progress->done_layers <= progress->n_layers);
    if (progress->stage != at->stage || at->done)
        return;
    at->done = true;
    if (at->append_to) {
        int fd = open(at->append_to, O_WRONLY | O_APPEND | O_CLOEXEC);

        assert_int_equal(write(fd, "x", 1), 1);
        close(fd);
    } else if (at->truncate) {
        struct stat st;

        assert_int_equal(stat(at->truncate, &st), 0);
        assert_int_equal(truncate(at->truncate, st.st_size / 2), 0);
    } else if (at->limit_bytes) {
        struct rlimit limit;

        assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
        limit.rlim_cur = at->limit_bytes;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    } else if (at->pipe_fd) {
        assert_int_equal(write(at->pipe_fd, "k", 1), 1);
        pause();
    } else {
        atomic_store(&at->cancelled, true);
    }
}

static void test_importer_cancelled(void **state) {
    static const ImportStage stages[] = { IMPORT_STAGE_HASH, IMPORT_STAGE_CONVERT };
    Fixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;

    maker.n_vocab = 40000; /* more than one block to hash */
    make_source(fixture, &maker);
    for (size_t i = 0; i < ARRAY_LEN(stages); i++) {
        Interrupt at = { .stage = stages[i] };

        fixture->options.progress = interrupt;
        fixture->options.progress_arg = &at;
        fixture->options.cancelled = &at.cancelled;
        expect_refusal(fixture, NULL, IMPORT_E_CANCELLED, "the import was cancelled");
        assert_true(at.done);
    }
}

static void test_importer_source_changes(void **state) {
    static const ImportStage stages[] = { IMPORT_STAGE_HASH, IMPORT_STAGE_CONVERT };
    Fixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;

    for (size_t i = 0; i < ARRAY_LEN(stages); i++) {
        Interrupt at = { .stage = stages[i], .append_to = fixture->source };

        make_source(fixture, &maker);
        fixture->options.progress = interrupt;
        fixture->options.progress_arg = &at;
        expect_refusal(fixture, NULL, IMPORT_E_CHANGED, "the file changed while it was read");
    }
}

/* Starts an import that stops in the middle and waits to be killed. */
static pid_t start_stuck_import(Fixture *fixture, const char *out) {
    ImportReport report;
    int ends[2];
    pid_t pid;
    char byte;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        Interrupt at = { .stage = IMPORT_STAGE_CONVERT, .pipe_fd = ends[1] };

        fixture->options.progress = interrupt;
        fixture->options.progress_arg = &at;
        _exit(import_run(fixture->source, out, &fixture->options, &report, NULL) ? 1 : 2);
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    return pid;
}

static void kill_import(pid_t pid) {
    int status;

    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

static void test_importer_killed(void **state) {
    Fixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    ImportReport report;
    char out[300];
    pid_t pid;

    make_source(fixture, &maker);
    snprintf(out, sizeof(out), "%s/out.cgm", fixture->folder);
    pid = start_stuck_import(fixture, out);
    assert_int_equal(test_folder_count(fixture->folder), 2); /* the source and a temporary file */
    assert_int_equal(access(out, F_OK), -1);

    /* Another import to the same path leaves the file of the running one alone. */
    assert_int_equal(import_run(fixture->source, out, &fixture->options, &report, NULL), 0);
    assert_int_equal(test_folder_count(fixture->folder), 3);
    check_package(fixture->source, out, true);
    kill_import(pid);
    assert_int_equal(test_folder_count(fixture->folder), 3);

    /* The next one takes away what the killed one left. */
    assert_int_equal(unlink(out), 0);
    assert_int_equal(import_run(fixture->source, out, &fixture->options, &report, NULL), 0);
    assert_int_equal(test_folder_count(fixture->folder), 2);
    check_package(fixture->source, out, true);
}

/* In the cache folder the next import of any model clears up. */
static void test_importer_killed_in_cache(void **state) {
    Fixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    ImportReport report;

    make_source(fixture, &maker);
    kill_import(start_stuck_import(fixture, NULL));
    assert_int_equal(test_folder_count(fixture->cache), 1);
    maker.seed = 2;
    make_source(fixture, &maker);
    assert_int_equal(import_run(fixture->source, NULL, &fixture->options, &report, NULL), 0);
    assert_int_equal(test_folder_count(fixture->cache), 1);
    assert_int_equal(access(report.path, R_OK), 0);
}

/* A write that fails in the middle, after the space was reserved. */
static void test_importer_write_fails(void **state) {
    Fixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    Interrupt at = { .stage = IMPORT_STAGE_CONVERT, .limit_bytes = 65536 };
    struct rlimit old;

    make_source(fixture, &maker);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_IGN);
    fixture->options.progress = interrupt;
    fixture->options.progress_arg = &at;
    expect_refusal(fixture, NULL, IMPORT_E_NO_SPACE, "File too large; free some space or name another place with -o");
    assert_true(at.done);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
}

/* A source that becomes shorter than its header said: an error, not a signal. */
static void test_importer_source_shrinks(void **state) {
    Fixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    Interrupt at = { .stage = IMPORT_STAGE_CONVERT, .truncate = fixture->source };

    make_source(fixture, &maker);
    fixture->options.progress = interrupt;
    fixture->options.progress_arg = &at;
    expect_refusal(fixture, NULL, IMPORT_E_CHANGED, "the file became shorter while it was read");
}

static void test_importer_file_size_limit(void **state) {
    Fixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    struct rlimit old, small = { 65536, 65536 };

    make_source(fixture, &maker);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    expect_refusal(fixture, NULL, IMPORT_E_NO_SPACE, "the package needs ");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
}

static void test_importer_disk_full(void **state) {
    Fixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    ImportReport report;
    char out[400], mounted[300];
    ErrText err;
    int r;

    make_source(fixture, &maker);
    snprintf(mounted, sizeof(mounted), "%s/small", fixture->folder);
    assert_int_equal(mkdir(mounted, 0700), 0);
    if (geteuid() || mount("tmpfs", mounted, "tmpfs", 0, "size=64k")) {
        print_message("skipped: a small tmpfs cannot be mounted (%s)\n", geteuid() ? "not root" : strerror(errno));
        skip();
    }
    snprintf(out, sizeof(out), "%s/out.cgm", mounted);
    r = import_run(fixture->source, out, &fixture->options, &report, &err);
    if (test_folder_count(mounted))
        r = -1;
    assert_int_equal(umount(mounted), 0);
    assert_int_equal(r, IMPORT_E_NO_SPACE);
    assert_memory_equal(err.text, out, strlen(out));
    assert_non_null(strstr(err.text, ": the package needs "));
    assert_non_null(strstr(err.text, "65536 (0.1 MB) are free there"));
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_importer_tiny),
        WITH_FOLDER(test_importer_widths),
        WITH_FOLDER(test_importer_budget),
        WITH_FOLDER(test_importer_real),
        WITH_FOLDER(test_importer_recognises),
        WITH_FOLDER(test_importer_remembers_hashes),
        WITH_FOLDER(test_importer_refuses_sources),
        WITH_FOLDER(test_importer_refuses_outputs),
        WITH_FOLDER(test_importer_cancelled),
        WITH_FOLDER(test_importer_source_changes),
        WITH_FOLDER(test_importer_killed),
        WITH_FOLDER(test_importer_killed_in_cache),
        WITH_FOLDER(test_importer_write_fails),
        WITH_FOLDER(test_importer_source_shrinks),
        WITH_FOLDER(test_importer_file_size_limit),
        WITH_FOLDER(test_importer_disk_full),
        cmocka_unit_test(test_importer_default_path), /* last: changes the environment */
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
