// SPDX-License-Identifier: Apache-2.0
/* Tests the review of a source. Every key and tensor has its fate, anything that makes an import fail is refused, and a
 * model without a refusal can be imported. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "importer/importer.h"
#include "importer/source_review.h"
#include "model/package/package.h"
#include "test/unit/golden/golden_arch.h"
#include "test/unit/importer/import_fixture.h"

typedef struct Told {
    const char *name; /* the name whose fate is asked for */
    SourceFate fate;
    char why[512];
    size_t n_found, n_keys, n_tensors, n_refused;
} Told;

static void take(void *arg, SourceFate fate, const char *kind, const char *name, const char *why) {
    Told *told = arg;

    told->n_keys += !strcmp(kind, "key");
    told->n_tensors += !strcmp(kind, "tensor");
    told->n_refused += fate == SOURCE_REFUSED;
    assert_true(fate == SOURCE_USED || *why);
    if (strcmp(name, told->name) != 0 && strcmp(kind, told->name) != 0)
        return;
    told->n_found++;
    told->fate = fate;
    snprintf(told->why, sizeof(told->why), "%s", why);
}

static bool review(const char *path, const char *name, Told *told) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    ErrText err = { 0 };
    bool is_good;

    *told = (Told){ .name = name };
    if (gguf_open(&file, path, &err))
        fail_msg("%s", err.text);
    is_good = source_review(file, take, told);
    if (!gguf_key(file, PACKAGE_KEY_FORMAT_VERSION)) {
        assert_int_equal(told->n_keys, gguf_n_keys(file));
        assert_true(told->n_tensors >= gguf_n_tensors(file) || told->n_refused);
    }
    assert_true(is_good == !told->n_refused || gguf_key(file, PACKAGE_KEY_FORMAT_VERSION));
    return is_good;
}

static void test_source_review_of_good_models(void **state) {
    ImportFixture *fixture = *state;

    for (size_t i = 0; i < golden_arch_n(); i++) {
        const GoldenArch *model = golden_arch_at(i);
        Told told;

        import_fixture_source(fixture, &model->maker);
        if (!review(fixture->source, "architecture", &told))
            fail_msg("%s: refused", model->name);
        assert_int_equal(told.n_found, 1);
        assert_int_equal(told.fate, SOURCE_USED);
        /* A missing template is reported, and no reason to refuse. */
        assert_true(review(fixture->source, "chat template", &told));
        assert_int_equal(told.fate, SOURCE_IGNORED);
    }
}

/* The effect of a tokenizer's keys depends on its kind. */
static void test_source_review_of_tokenizer_keys(void **state) {
    static const struct {
        ModelMakerKey key;
        const char *byte_level, *sentencepiece; /* why it is ignored; NULL: it is used */
    } cases[] = {
        { { "tokenizer.ggml.add_eos_token", GGUF_BOOL, 0, NULL }, NULL, NULL },
        { { "tokenizer.ggml.add_space_prefix", GGUF_BOOL, 0, NULL }, "puts no space", NULL },
        { { "tokenizer.ggml.remove_extra_whitespaces", GGUF_BOOL, 1, NULL }, "spaces of a text stay", "spaces" },
        { { "tokenizer.ggml.add_sep_token", GGUF_BOOL, 0, NULL }, "compare texts", "compare texts" },
        { { "tokenizer.ggml.fim_pre_token_id", GGUF_U32, 3, NULL }, NULL, NULL },
        { { "tokenizer.ggml.new_token_id", GGUF_U32, 3, NULL }, "by its text", "by its text" },
        { { "general.sampling.temp", GGUF_F32, 0.5, NULL }, NULL, NULL },
        { { "general.sampling.penalty_last_n", GGUF_U32, 64, NULL }, NULL, NULL },
        { { "general.sampling.mirostat", GGUF_U32, 2, NULL }, "has no such step", "has no such step" },
        { { "tokenizer.chat_template.tool_use", GGUF_STRING, 0, "x" }, NULL, NULL },
        { { "tokenizer.chat_template.rag", GGUF_STRING, 0, "x" }, "without a name", "without a name" },
        { { "tokenizer.new_thing", GGUF_U32, 3, NULL }, "has no effect here", "has no effect here" },
    };
    ImportFixture *fixture = *state;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (int kind = 0; kind < 2; kind++) {
            const char *why = kind ? cases[i].sentencepiece : cases[i].byte_level;
            ModelMaker maker = MODEL_MAKER_DEFAULT;
            Told told;

            maker.tokenizer = kind ? "llama" : "gpt2";
            maker.keys = &cases[i].key;
            maker.n_keys = 1;
            import_fixture_source(fixture, &maker);
            assert_true(review(fixture->source, cases[i].key.suffix, &told));
            assert_int_equal(told.n_found, 1);
            assert_int_equal(told.fate, why ? SOURCE_IGNORED : SOURCE_USED);
            assert_non_null(strstr(told.why, why ? why : ""));
            assert_true(review(fixture->source, "tokenizer.ggml.merges", &told));
            assert_int_equal(told.fate, kind ? SOURCE_IGNORED : SOURCE_USED);
        }
}

typedef struct KeyCase {
    ModelMakerKey key;
    const char *name;
    SourceFate fate;
    const char *why;
} KeyCase;

static void test_source_review_of_keys(void **state) {
    static const KeyCase cases[] = {
        { { "rope.freq_base", GGUF_F32, 500000, NULL }, "llama.rope.freq_base", SOURCE_USED, "" },
        { { "vocab_size", GGUF_U32, 40, NULL }, "llama.vocab_size", SOURCE_IGNORED, "with this value" },
        { { "attention.causal", GGUF_BOOL, 1, NULL }, "llama.attention.causal", SOURCE_IGNORED, "with this value" },
        { { "attention.causal", GGUF_BOOL, 0, NULL }, "llama.attention.causal", SOURCE_REFUSED, "asks for attention" },
        { { "expert_count", GGUF_U32, 8, NULL }, "llama.expert_count", SOURCE_REFUSED, "a mixture of experts" },
        { { "expert_count", GGUF_STRING, 0, "8" }, "llama.expert_count", SOURCE_REFUSED, "string" },
        { { "new_thing", GGUF_U32, 8, NULL }, "llama.new_thing", SOURCE_IGNORED, "answers may differ" },
        { { "rope.scaling.type", GGUF_STRING, 0, "odd" }, "architecture", SOURCE_REFUSED, "'odd'" },
    };
    ImportFixture *fixture = *state;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        ImportOptions options = import_options_default();
        ModelMaker maker = MODEL_MAKER_DEFAULT;
        ImportReport report;
        ErrText err = { 0 };
        Told told;
        bool is_good;

        maker.keys = &cases[i].key;
        maker.n_keys = 1;
        import_fixture_source(fixture, &maker);
        is_good = review(fixture->source, cases[i].name, &told);
        assert_int_equal(is_good, cases[i].fate != SOURCE_REFUSED);
        assert_int_equal(told.n_found, 1);
        assert_int_equal(told.fate, cases[i].fate);
        if (!strstr(told.why, cases[i].why))
            fail_msg("%s: '%s', not '%s'", cases[i].name, told.why, cases[i].why);
        assert_null(strstr(told.why, fixture->source));
        options.cache_dir = fixture->cache;
        assert_int_equal(!import_run(fixture->source, NULL, &options, &report, &err), is_good);
    }
}

static void test_source_review_of_other_models(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    Told told;

    maker.arch = "mamba";
    import_fixture_source(fixture, &maker);
    assert_false(review(fixture->source, "architecture", &told));
    assert_int_equal(told.fate, SOURCE_REFUSED);
    assert_non_null(strstr(told.why, "'mamba' is not supported"));

    maker = MODEL_MAKER_DEFAULT;
    maker.pretokenizer = "of-mars";
    import_fixture_source(fixture, &maker);
    assert_false(review(fixture->source, "tokenizer", &told));
    assert_int_equal(told.fate, SOURCE_REFUSED);
    assert_non_null(strstr(told.why, "of-mars"));

    /* A package gives no findings. */
    maker = MODEL_MAKER_DEFAULT;
    assert_false(review(import_fixture_package(fixture, &maker, 8, false), "architecture", &told));
    assert_int_equal(told.n_keys + told.n_tensors + told.n_found, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_source_review_of_good_models),
        WITH_FOLDER(test_source_review_of_keys),
        WITH_FOLDER(test_source_review_of_tokenizer_keys),
        WITH_FOLDER(test_source_review_of_other_models),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
