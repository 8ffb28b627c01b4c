// SPDX-License-Identifier: Apache-2.0
/* Tests every key of a model file or a package in every type of the format. Each key takes all types that its value
 * fits, with the same result, and refuses the others by key and type found. docs/model-keys.md names every key. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "model/gguf/gguf_parts.h"
#include "model/hparams/hparams_keys.h"
#include "model/package/package_checksum.h"
#include "test/unit/fixtures/package_edit.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/importer/import_fixture.h"
#include "test/unit/model/hparams/key_forms.h"
#include "text/tokenizer/tokenizer.h"

#define N_LAYERS 2
#define LIST_MAX 256

/* --- model files -------------------------------------------------------------------------------------------------- */

/* Small enough for every integer type. */
static void make_model(const char *arch, const char *tokenizer, StrBuf *bytes) {
    ModelMaker maker = MODEL_MAKER_DEFAULT;

    maker.arch = arch;
    maker.tokenizer = tokenizer;
    maker.n_context = 100;
    maker.adds_bos = true;
    model_maker_run(&maker, bytes);
}

typedef struct Model {
    StrBuf bytes;
    GgufFile *file;
    char read[1024]; /* the result of the unchanged file */
    size_t n_taken, n_refused;
} Model;

static bool has_name(const GgufKey *key, const char *name) {
    return key->name.len_bytes == strlen(name) && !memcmp(key->name.data, name, key->name.len_bytes);
}

/* Makes the file with one key in this form; its tensors are zeros. */
static GgufFile *rewrite(const GgufFile *file, const GgufKey *changed, StrBuf *bytes) {
    _cleanup_(gguf_writer_freep) GgufWriter *writer = NULL;
    GgufFile *made = NULL;
    char name[128];
    ErrText err = { 0 };

    snprintf(name, sizeof(name), "%.*s", (int)changed->name.len_bytes, changed->name.data);
    assert_int_equal(gguf_writer_new(&writer, 32, NULL), 0);
    for (size_t i = 0; i < gguf_n_keys(file); i++)
        if (!has_name(gguf_key_at(file, i), name))
            gguf_writer_copy(writer, gguf_key_at(file, i));
    gguf_writer_copy(writer, changed);
    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        const GgufTensor *tensor = gguf_tensor_at(file, i);

        gguf_writer_tensor(writer, tensor->name, tensor->type, tensor->n_dims, tensor->ne);
    }
    assert_int_equal(gguf_writer_layout(writer, NULL), 0);
    test_gguf_image(writer, bytes);
    if (gguf_parse(&made, bytes->data, bytes->len_bytes, "test.gguf", &err))
        fail_msg("%s", err.text);
    return made;
}

/* Reads all keys, and writes the result down. */
static int read_model(const GgufFile *file, char text[1024], ErrText *err) {
    _cleanup_(tokenizer_freep) Tokenizer *tokenizer = NULL;
    Hparams h;
    uint64_t sum = 0;
    int r;

    r = hparams_read(&h, file, err);
    if (!r)
        r = tokenizer_new(&tokenizer, file, err);
    if (r)
        return r;
    for (uint32_t id = 0; id < tokenizer_n_tokens(tokenizer); id++)
        sum = sum * 31 + tokenizer_is_control(tokenizer, id) + 2 * (uint64_t)tokenizer_is_end(tokenizer, id);
    snprintf(text, 1024,
             "%u %u %u %u %u %u %u %u %u | %a %a %a %a %a %a %a %a %a %u %d %a %a | %u %u %d %a %a %a %a | %s %u %u %u "
             "%u %d %llx",
             h.n_layers, h.n_context, h.n_embd, h.n_ff, h.n_heads, h.n_kv_heads, h.head_size, h.n_rot, h.n_vocab,
             (double)h.norm_eps, h.rope.global.base, h.rope.global.position_scale, h.rope.magnitude, h.rope.yarn.share,
             h.rope.yarn.fast, h.rope.yarn.slow, h.rope.yarn.magnitude, h.rope.yarn.log_multiplier, h.rope.original,
             h.rope.has_local, h.rope.local.base, h.rope.local.position_scale, h.window.positions, h.window.pattern,
             h.window.has_list, (double)h.attention_scale, (double)h.attention_cap, (double)h.logit_cap,
             (double)h.embedding_scale, tokenizer_model_name(tokenizer), tokenizer_bos(tokenizer),
             tokenizer_eos(tokenizer), tokenizer_unknown(tokenizer), tokenizer_padding(tokenizer),
             tokenizer_adds_bos(tokenizer), (unsigned long long)sum);
    return 0;
}

typedef struct Case {
    Model *model;
    const char *name;
    char first[1024]; /* the result with the first form that fits */
} Case;

static void check_form(void *arg, const KeyForm *form) {
    Case *tested = arg;
    _cleanup_(str_buf_deinit) StrBuf bytes = STR_BUF_NULL;
    _cleanup_(gguf_freep) GgufFile *file = rewrite(tested->model->file, &form->key, &bytes);
    char text[1024];
    ErrText err = { 0 };
    int r = read_model(file, text, &err);

    if (form->fits && r)
        fail_msg("%s as %s: %s", tested->name, form->found, err.text);
    if (!form->fits && (!r || !strstr(err.text, tested->name) || !strstr(err.text, form->found)))
        fail_msg("%s as %s%s: code %d, '%s'", tested->name, form->found, form->key.type == GGUF_ARRAY ? "[]" : "", r,
                 err.text);
    tested->model->n_taken += form->fits;
    tested->model->n_refused += !form->fits;
    if (!form->fits)
        return;
    if (!*tested->first)
        memcpy(tested->first, text, sizeof(text));
    assert_string_equal(text, tested->first);
}

static void check_key(Model *model, const char *name, KeyWant want, const double *values, size_t n) {
    Case tested = { .model = model, .name = name };

    key_forms(name, want, values, n, N_LAYERS, check_form, &tested);
}

/* A value for each key that a small model can have. */
static const struct {
    const char *suffix;
    double value;
} values[] = {
    { "block_count", N_LAYERS },
    { "context_length", 100 },
    { "embedding_length", 64 },
    { "feed_forward_length", 96 },
    { "attention.head_count", 4 },
    { "attention.head_count_kv", 2 },
    { "attention.key_length", 16 },
    { "attention.value_length", 16 },
    { "attention.layer_norm_rms_epsilon", 1 },
    { "attention.layer_norm_epsilon", 1 },
    { "attention.sliding_window", 100 },
    { "rope.dimension_count", 16 },
    { "rope.freq_base", 10000 },
    { "rope.freq_base_swa", 10000 },
    { "rope.global.freq_base", 10000 },
    { "rope.local.freq_base", 10000 },
    { "rope.scale_linear", 2 },
    { "rope.scaling.factor", 2 },
    { "rope.scaling.original_context_length", 100 },
    { "rope.scaling.attn_factor", 1 },
    { "rope.scaling.yarn_attn_factor", 1 },
    { "rope.scaling.yarn_ext_factor", 1 },
    { "rope.scaling.yarn_log_multiplier", 1 },
    { "rope.scaling.yarn_beta_fast", 32 },
    { "rope.scaling.yarn_beta_slow", 1 },
    { "vocab_size", 40 },
    { "pooling_type", 1 },
    { "attention.temperature_length", 1 },
    { "rope.scaling.finetuned", 1 },
    { "attention.causal", 1 },
    { "logit_scale", 1 },
    { "residual_scale", 1 },
};

/* Gives a value for the key; 0, which has no effect, for keys without a row. */
static double value_of(const char *suffix) {
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        if (!strcmp(values[i].suffix, suffix))
            return values[i].value;
    return 0;
}

static void open_model(Model *model, const char *arch, const char *tokenizer) {
    ErrText err = { 0 };

    *model = (Model){ .bytes = STR_BUF_NULL };
    make_model(arch, tokenizer, &model->bytes);
    assert_int_equal(gguf_parse(&model->file, model->bytes.data, model->bytes.len_bytes, "base.gguf", &err), 0);
    if (read_model(model->file, model->read, &err))
        fail_msg("%s", err.text);
}

static void close_model(Model *model) {
    assert_true(model->n_taken > 0 && model->n_refused > 0);
    gguf_free(model->file);
    str_buf_deinit(&model->bytes);
}

static const KeyWant wants[] = {
    [KEY_INTEGER] = WANT_INTEGER, [KEY_NUMBER] = WANT_NUMBER, [KEY_BOOL] = WANT_FLAG, [KEY_STRING] = WANT_STRING
};

static void test_model_keys_of_architectures(void **state) {
    static const char *const archs[] = { "gemma3", "llama", "gemma2", "qwen2" };
    const size_t n_archs =
        patience_is_short() ? 1 : ARRAY_LEN(archs); /* the keys are the same, read by the same code */

    log_set_level(LOG_LEVEL_ERROR);
    for (size_t i = 0; i < n_archs; i++) {
        const char *suffix;
        KeyKind kind;
        Model model;

        open_model(&model, archs[i], "gpt2");
        for (size_t k = 0; (suffix = hparams_key_at(k, &kind)); k++) {
            const double value = value_of(suffix);
            char name[128];

            snprintf(name, sizeof(name), "%s.%s", archs[i], suffix);
            if (kind != KEY_ANY) /* test_hparams tests the key that may be a number or flags */
                check_key(&model, name, wants[kind], &value, 1);
        }
        close_model(&model);
    }
}

/* --- tokenizers --------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    KeyWant want;
    bool of_gpt2, of_llama;
    double value; /* value of each element of a list */
    size_t n;     /* number of elements; 0: one value */
} tokenizer_keys[] = {
    { "general.architecture", WANT_STRING, true, true, 1, 0 },
    { "tokenizer.ggml.model", WANT_STRING, true, true, 1, 0 },
    { "tokenizer.ggml.pre", WANT_STRING, true, false, 1, 0 },
    { "tokenizer.ggml.tokens", WANT_STRINGS, true, true, 1, 40 },
    { "tokenizer.ggml.token_type", WANT_INTEGERS, true, true, 1, 40 },
    { "tokenizer.ggml.scores", WANT_NUMBERS, false, true, 3, 40 },
    { "tokenizer.ggml.merges", WANT_STRINGS, true, false, 1, 2 },
    { "tokenizer.ggml.bos_token_id", WANT_INTEGER, true, true, 3, 0 },
    { "tokenizer.ggml.eos_token_id", WANT_INTEGER, true, true, 3, 0 },
    { "tokenizer.ggml.eot_token_id", WANT_INTEGER, true, true, 3, 0 },
    { "tokenizer.ggml.eom_token_id", WANT_INTEGER, true, true, 3, 0 },
    { "tokenizer.ggml.unknown_token_id", WANT_INTEGER, true, true, 3, 0 },
    { "tokenizer.ggml.padding_token_id", WANT_INTEGER, true, true, 3, 0 },
    { "tokenizer.ggml.fim_pre_token_id", WANT_INTEGER, true, true, 3, 0 },
    { "tokenizer.ggml.fim_suf_token_id", WANT_INTEGER, true, true, 3, 0 },
    { "tokenizer.ggml.fim_mid_token_id", WANT_INTEGER, true, true, 3, 0 },
    { "tokenizer.ggml.fim_pad_token_id", WANT_INTEGER, true, true, 3, 0 },
    { "tokenizer.ggml.fim_rep_token_id", WANT_INTEGER, true, true, 3, 0 },
    { "tokenizer.ggml.fim_sep_token_id", WANT_INTEGER, true, true, 3, 0 },
    { "tokenizer.ggml.prefix_token_id", WANT_INTEGER, true, true, 3, 0 },
    { "tokenizer.ggml.suffix_token_id", WANT_INTEGER, true, true, 3, 0 },
    { "tokenizer.ggml.middle_token_id", WANT_INTEGER, true, true, 3, 0 },
    { "tokenizer.ggml.add_bos_token", WANT_FLAG, true, true, 1, 0 },
    { "tokenizer.ggml.add_eos_token", WANT_FLAG, true, true, 1, 0 },
    { "tokenizer.ggml.add_space_prefix", WANT_FLAG, false, true, 1, 0 },
};

static void test_model_keys_of_tokenizers(void **state) {
    for (int sentencepiece = 0; sentencepiece < 2; sentencepiece++) {
        Model model;

        open_model(&model, "llama", sentencepiece ? "llama" : "gpt2");
        for (size_t i = 0; i < ARRAY_LEN(tokenizer_keys); i++) {
            double list[LIST_MAX];

            for (size_t j = 0; j < LIST_MAX; j++)
                list[j] = tokenizer_keys[i].value;
            if (sentencepiece ? tokenizer_keys[i].of_llama : tokenizer_keys[i].of_gpt2)
                check_key(&model, tokenizer_keys[i].name, tokenizer_keys[i].want, list,
                          tokenizer_keys[i].n ? tokenizer_keys[i].n : 1);
        }
        close_model(&model);
    }
}

/* An id that is no token's counts as a missing key, in every type. */
static void test_model_keys_ignore_ids_of_no_token(void **state) {
    static const char *const ids[] = { "eos", "eot", "eom", "unknown", "padding" };
    static const GgufKey forms[] = {
        { .type = GGUF_I8, .value.i64 = -1 },          { .type = GGUF_I16, .value.i64 = -1 },
        { .type = GGUF_I32, .value.i64 = -1 },         { .type = GGUF_I64, .value.i64 = -1 },
        { .type = GGUF_U8, .value.u64 = 40 },          { .type = GGUF_U16, .value.u64 = UINT16_MAX },
        { .type = GGUF_U32, .value.u64 = UINT32_MAX }, { .type = GGUF_U64, .value.u64 = UINT64_MAX },
        { .type = GGUF_I64, .value.i64 = INT64_MIN },  { .type = GGUF_F32, .value.f64 = -1 },
    };

    for (size_t i = 0; i < ARRAY_LEN(ids) * ARRAY_LEN(forms); i++) {
        char name[64];
        KeyForm form = { .key = forms[i % ARRAY_LEN(forms)], .fits = true, .found = "no token" };
        Model model;
        Case tested = { .model = &model, .name = name };

        open_model(&model, "llama", "llama");
        snprintf(name, sizeof(name), "tokenizer.ggml.%s_token_id", ids[i / ARRAY_LEN(forms)]);
        form.key.name = (GgufString){ name, strlen(name) };
        if (strcmp(name, "tokenizer.ggml.eos_token_id") != 0)
            memcpy(tested.first, model.read, sizeof(tested.first)); /* the base file has no such key */
        check_form(&tested, &form);
        gguf_free(model.file);
        str_buf_deinit(&model.bytes);
    }
}

/* --- files -------------------------------------------------------------------------------------------------------- */

/* Keys that the reader itself needs, before anything else is read. */
static void check_file_form(void *arg, const KeyForm *form) {
    const char *name = arg;
    _cleanup_(gguf_writer_freep) GgufWriter *writer = NULL;
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    size_t n_parts = 0;
    ErrText err = { 0 };
    int r;

    assert_int_equal(gguf_writer_new(&writer, 32, NULL), 0);
    gguf_writer_copy(writer, &form->key);
    assert_int_equal(gguf_writer_layout(writer, NULL), 0);
    r = gguf_parse(&file, gguf_writer_head(writer)->data, gguf_writer_head(writer)->len_bytes, "test.gguf", &err);
    if (!r)
        r = gguf_parts_count(file, &n_parts, &err);
    if (form->fits) {
        assert_int_equal(r, 0);
        assert_int_equal(gguf_alignment(file), 32);
        assert_int_equal(n_parts, strcmp(name, "split.count") != 0 ? 1 : 32);
    } else if (r != GGUF_E_CORRUPT || !strstr(err.text, name) || !strstr(err.text, form->found)) {
        fail_msg("%s as %s: code %d, '%s'", name, form->found, r, err.text);
    }
}

static void test_model_keys_of_files(void **state) {
    static char names[][32] = { "general.alignment", "split.count" };
    const double value = 32;

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        key_forms(names[i], WANT_INTEGER, &value, 1, N_LAYERS, check_file_form, names[i]);
}

/* --- packages ----------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    KeyWant want;
    double value; /* for lists: the package's values */
} package_keys[] = {
    { PACKAGE_KEY_FORMAT_VERSION, WANT_INTEGER, PACKAGE_FORMAT_VERSION },
    { PACKAGE_KEY_SOURCE_SHA256, WANT_STRING, 1 },
    { PACKAGE_KEY_IMPORT_REVISION, WANT_INTEGER, 8 },
    { PACKAGE_KEY_RECIPE, WANT_STRING, 1 },
    { PACKAGE_KEY_STEPS, WANT_STRINGS, 1 },
    { PACKAGE_KEY_BITS, WANT_NUMBER, 8 },
    { PACKAGE_KEY_BITS_ASKED, WANT_NUMBER, 8 },
    { PACKAGE_KEY_BUDGET, WANT_INTEGER, 100 },
    { PACKAGE_KEY_EMBEDDING_BITS, WANT_INTEGER, 8 },
    { PACKAGE_KEY_CALIBRATION, WANT_STRING, 1 },
    { PACKAGE_KEY_ROTATED, WANT_FLAG, 1 },
    { PACKAGE_KEY_ACTIVATION_MODE, WANT_STRING, 1 },
    { PACKAGE_KEY_LINEAR_NAMES, WANT_STRINGS, 1 },
    { PACKAGE_KEY_LINEAR_LAYOUTS, WANT_STRINGS, 1 },
    { PACKAGE_KEY_LINEAR_ROTATIONS, WANT_INTEGERS, 0 },
    { PACKAGE_KEY_LINEAR_ACTIVATIONS, WANT_STRINGS, 1 },
    { PACKAGE_KEY_HOT_PERCENT, WANT_NUMBER, 10 },
    { PACKAGE_KEY_PRUNE_PERCENT, WANT_NUMBER, 85 },
    { PACKAGE_KEY_LINEAR_ACTIVATION_SCALES, WANT_NUMBERS, 0 },
    { PACKAGE_KEY_LINEAR_OUTLIERS, WANT_STRINGS, 1 },
    { PACKAGE_KEY_LINEAR_IMPORTANCE, WANT_NUMBERS, 0 },
    { PACKAGE_KEY_LINEAR_HOT_COUNTS, WANT_INTEGERS, 0 },
    { PACKAGE_KEY_HOT_CHANNELS, WANT_INTEGERS, 0 },
};

static int make_package(void **state) {
    ImportOptions options = import_options_default();
    ImportMethod method = import_method_plain;

    method.profile = import_fixture_profile;
    options.method = &method;
    options.recipe.static_activations = true;
    options.recipe.hot_percent = 10;
    return good_package_new(state, &options);
}

static const GgufKey *put_key;

static void put_form(GgufWriter *writer, const char *name) {
    assert_true(has_name(put_key, name));
    gguf_writer_copy(writer, put_key);
}

static void check_package_form(void *arg, const KeyForm *form) {
    GoodPackage *good = arg;
    PackageEdit edit = { .put = put_form };
    char name[128];

    snprintf(name, sizeof(name), "%.*s", (int)form->key.name.len_bytes, form->key.name.data);
    edit.key = name;
    put_key = &form->key;
    expect_edit(good, &edit, form->fits ? 0 : PACKAGE_E_CORRUPT, form->fits ? "" : name);
    if (!form->fits)
        expect_edit(good, &edit, PACKAGE_E_CORRUPT, form->found);
}

/* Values of a list in the package. */
static size_t list_of(const GoodPackage *good, const char *name, double list[LIST_MAX]) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    const GgufArray *array;

    assert_int_equal(gguf_parse(&file, good->file.data, good->file.len_bytes, "good", NULL), 0);
    array = &gguf_key(file, name)->value.array;
    assert_true(array->n && array->n <= LIST_MAX);
    for (uint64_t i = 0; i < array->n; i++)
        list[i] = array->element_type == GGUF_F32 ? (double)gguf_array_f32(array, i) : (double)gguf_array_i64(array, i);
    return array->n;
}

static void test_model_keys_of_packages(void **state) {
    GoodPackage *good = *state;

    for (size_t i = 0; i < ARRAY_LEN(package_keys); i++) {
        const char *name = package_keys[i].name;
        double list[LIST_MAX] = { package_keys[i].value };
        size_t n = 1;

        if (package_keys[i].want == WANT_INTEGERS || package_keys[i].want == WANT_NUMBERS)
            n = list_of(good, name, list);
        key_forms(name, package_keys[i].want, list, n, N_LAYERS, check_package_form, good);
    }
}

/* --- documents ---------------------------------------------------------------------------------------------------- */

static void expect_documented(const char *page, const char *name) {
    char quoted[160];

    snprintf(quoted, sizeof(quoted), "`%s`", name);
    if (!strstr(page, quoted))
        fail_msg("docs/model-keys.md does not have %s", quoted);
}

static void test_model_keys_are_documented(void **state) {
    _cleanup_(freep) char *page = NULL;
    size_t len_bytes;
    const char *suffix;
    KeyKind kind;
    ErrText err;

    assert_int_equal(file_slurp("docs/model-keys.md", 1 << 20, &page, &len_bytes, &err), 0);
    for (size_t i = 0; (suffix = hparams_key_at(i, &kind)); i++)
        expect_documented(page, suffix);
    for (size_t i = 0; i < ARRAY_LEN(tokenizer_keys); i++)
        expect_documented(page, tokenizer_keys[i].name);
    for (size_t i = 0; i < ARRAY_LEN(package_keys); i++)
        expect_documented(page, package_keys[i].name);
    expect_documented(page, TOKENIZER_KEY_CHAT_TEMPLATE);
    expect_documented(page, PACKAGE_KEY_CHECKSUMS);
    expect_documented(page, "general.alignment");
    expect_documented(page, "split.count");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_keys_of_architectures),
        cmocka_unit_test(test_model_keys_of_tokenizers),
        cmocka_unit_test(test_model_keys_ignore_ids_of_no_token),
        cmocka_unit_test(test_model_keys_of_files),
        cmocka_unit_test(test_model_keys_of_packages),
        cmocka_unit_test(test_model_keys_are_documented),
    };

    return cmocka_run_group_tests_name("model_keys", tests, make_package, good_package_free);
}
