// SPDX-License-Identifier: Apache-2.0
/* Sampling defaults of models: keys of the file, the family, and the options of a request beside them. */
#undef NDEBUG
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/sampling/sampling_defaults.h"
#include "importer/importer.h"
#include "test/unit/importer/import_fixture.h"

typedef struct Key {
    const char *name, *text; /* NULL: the value is the number */
    float number;
} Key;

/* Returns the defaults of a file with such keys. */
static SamplingDefaults defaults_of(const Key *keys, size_t n) {
    _cleanup_(gguf_writer_freep) GgufWriter *writer = NULL;
    _cleanup_(str_buf_deinit) StrBuf image = STR_BUF_NULL;
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    SamplingDefaults defaults;
    ErrText err;

    assert_int_equal(gguf_writer_new(&writer, 32, &err), 0);
    for (size_t i = 0; i < n; i++)
        if (keys[i].text)
            gguf_writer_string(writer, keys[i].name, keys[i].text);
        else if (keys[i].number >= 0 && keys[i].number == truncf(keys[i].number))
            gguf_writer_u32(writer, keys[i].name, (uint32_t)keys[i].number); /* numbers of any type count */
        else
            gguf_writer_f32(writer, keys[i].name, keys[i].number);
    assert_int_equal(gguf_writer_layout(writer, &err), 0);
    test_gguf_image(writer, &image);
    if (gguf_parse(&file, image.data, image.len_bytes, "test", &err))
        fail_msg("%s", err.text);
    sampling_defaults_read(&defaults, file);
    return defaults;
}

static void test_sampling_defaults_of_families(void **state) {
    static const struct {
        const char *architecture, *name, *family; /* NULL: no family */
        float temperature, top_p, penalty;
        uint32_t top_k;
    } cases[] = {
        { "llama", "Smollm2 135M 8k Lc100K Mix1 Ep2", "smollm2", 0.2f, 0.9f, 1.1f, 0 },
        { "llama", "Meta Llama 3.1 8B Instruct", "llama", 0.6f, 0.9f, 1, 0 },
        { "llama", "", "llama", 0.6f, 0.9f, 1, 0 },
        { "llama", "Mistral Nemo Instruct 2407", "mistral-nemo", 0.3f, 1, 1, 0 },
        { "llama", "mistralai_mistral-7b-instruct-v0.2", "mistral", 0.7f, 1, 1, 0 },
        { "llama", "TinyLlama 1.1B Chat v1.0", "tinyllama", 0.7f, 0.95f, 1, 50 },
        { "qwen2", "Qwen2.5 Coder 0.5B Instruct AWQ", "qwen2", 0.7f, 0.8f, 1.05f, 20 },
        { "qwen2", "DeepSeek R1 Distill Qwen 1.5B", "deepseek-r1", 0.6f, 0.95f, 1, 0 },
        { "qwen3", "Qwen3 0.6B", "qwen3", 0.6f, 0.95f, 1, 20 },
        { "gemma3", "Gemma 3 270m", "gemma3", 1, 0.95f, 1, 64 },
        { "smollm3", "SmolLM3 3B", "smollm3", 0.6f, 0.95f, 1, 0 },
        { "phi3", "Phi 3.5 mini instruct", "phi3", 0, 1, 1, 0 },
        { "phi2", "Phi 2", NULL, 0, 1, 1, 0 },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const Key keys[] = { { "general.architecture", cases[i].architecture, 0 },
                             { "general.name", cases[i].name, 0 } };
        const SamplingDefaults defaults = defaults_of(keys, 2);
        const SamplerOptions request = { .seed = 7 };
        SamplingChoice choice;
        ErrText err;

        sampling_choose(&choice, &defaults, &request, 0);
        assert_int_equal(sampler_options_check(&choice.options, &err), 0);
        assert_true(choice.options.temperature == cases[i].temperature);
        assert_true(choice.options.top_p == cases[i].top_p);
        assert_true(choice.options.repetition_penalty == cases[i].penalty);
        assert_int_equal(choice.options.top_k, cases[i].top_k);
        assert_int_equal(choice.options.seed, 7);
        assert_int_equal(choice.origins[SAMPLING_TEMPERATURE],
                         cases[i].family ? SAMPLING_FROM_FAMILY : SAMPLING_FROM_SERVICE);
        assert_int_equal(choice.origins[SAMPLING_MIN_P], SAMPLING_FROM_SERVICE);
        if (cases[i].family)
            assert_string_equal(choice.family, cases[i].family);
        else
            assert_null(choice.family);
    }
}

/* A file with any of the keys is not looked up in the table. */
static void test_sampling_defaults_of_a_file(void **state) {
    static const Key keys[] = {
        { "general.architecture", "qwen2", 0 },         { "general.sampling.temp", NULL, 0.33f },
        { "general.sampling.top_k", NULL, 17 },         { "general.sampling.min_p", NULL, 0.011f },
        { "general.sampling.penalty_repeat", NULL, 2 }, { "general.sampling.penalty_last_n", NULL, -1 },
        { "general.sampling.mirostat", NULL, 2 },
    };
    const SamplingDefaults defaults = defaults_of(keys, ARRAY_LEN(keys));
    SamplingChoice choice;

    sampling_choose(&choice, &defaults, &SAMPLER_OPTIONS_GREEDY, 0);
    assert_true(choice.options.temperature == 0.33f);
    assert_int_equal(choice.options.top_k, 17);
    assert_true(choice.options.top_p == 1);
    assert_true(choice.options.min_p == 0.011f);
    assert_true(choice.options.repetition_penalty == 2);
    assert_int_equal(choice.options.repetition_window, 0); /* all */
    for (SamplingField field = 0; field < _SAMPLING_FIELD_N; field++)
        assert_int_equal(choice.origins[field], field == SAMPLING_TOP_P ? SAMPLING_FROM_SERVICE : SAMPLING_FROM_FILE);
    assert_null(choice.family);
}

/* Values that mean "off" in llama.cpp are off; values out of range are left out. */
static void test_sampling_defaults_of_odd_values(void **state) {
    static const Key off[] = {
        { "general.architecture", "qwen2", 0 },
        { "general.sampling.temp", NULL, -1 },
        { "general.sampling.top_k", NULL, -1 },
        { "general.sampling.penalty_last_n", NULL, 0 },
        { "general.sampling.penalty_repeat", NULL, 1.3f },
    };
    static const Key wrong[] = {
        { "general.architecture", "qwen2", 0 },      { "general.sampling.temp", NULL, NAN },
        { "general.sampling.top_p", NULL, 1.5f },    { "general.sampling.top_k", NULL, 0.5f },
        { "general.sampling.min_p", "a little", 0 }, { "general.sampling.penalty_repeat", NULL, -2 },
    };
    SamplingDefaults defaults = defaults_of(off, ARRAY_LEN(off));

    assert_int_equal(defaults.origin, SAMPLING_FROM_FILE);
    assert_true(defaults.options.temperature == 0 && defaults.options.repetition_penalty == 1);
    assert_int_equal(defaults.options.top_k, 0);
    assert_int_equal(defaults.options.repetition_window, 64);
    defaults = defaults_of(wrong, ARRAY_LEN(wrong));
    assert_int_equal(defaults.origin, SAMPLING_FROM_FAMILY);
    assert_string_equal(defaults.family, "qwen2");
    defaults = defaults_of(NULL, 0);
    assert_int_equal(defaults.fields, 0);
}

static void test_sampling_defaults_beside_a_request(void **state) {
    static const Key qwen[] = { { "general.architecture", "qwen2", 0 } };
    const SamplingDefaults defaults = defaults_of(qwen, 1);
    SamplerOptions request = { .temperature = 0.9f, .top_k = 5, .seed = 3 };
    SamplingChoice choice;

    /* Each field is chosen on its own. */
    sampling_choose(&choice, &defaults, &request, 1u << SAMPLING_TOP_K);
    assert_true(choice.options.temperature == 0.7f && choice.options.top_k == 5);
    assert_int_equal(choice.origins[SAMPLING_TOP_K], SAMPLING_FROM_REQUEST);
    assert_int_equal(choice.origins[SAMPLING_TOP_P], SAMPLING_FROM_FAMILY);
    /* A second choice, as after a wait for memory, is the same. */
    sampling_choose(&choice, &defaults, &choice.options, 1u << SAMPLING_TOP_K);
    assert_true(choice.options.temperature == 0.7f && choice.options.top_k == 5 && choice.options.seed == 3);
    /* A greedy request gets no penalty of the model's, only its own. */
    request.temperature = 0;
    sampling_choose(&choice, &defaults, &request, 1u << SAMPLING_TEMPERATURE);
    assert_memory_equal(&choice.options,
                        (&(SamplerOptions){ .top_p = 1, .repetition_penalty = 1, .repetition_window = 64, .seed = 3 }),
                        sizeof(choice.options));
    assert_int_equal(choice.origins[SAMPLING_TOP_P], SAMPLING_FROM_SERVICE);
    assert_null(choice.family);
    request.repetition_penalty = 1.2f;
    sampling_choose(&choice, &defaults, &request, 1u << SAMPLING_TEMPERATURE | 1u << SAMPLING_REPETITION_PENALTY);
    assert_true(choice.options.repetition_penalty == 1.2f);
    /* The model is not asked. */
    sampling_choose(&choice, NULL, &request, 0);
    assert_true(choice.options.temperature == 0 && choice.options.repetition_penalty == 1);
}

/* A package has the defaults of its source. */
static void test_sampling_defaults_of_a_package(void **state) {
    static const ModelMakerKey key = { "general.sampling.temp", GGUF_F32, 0.25, NULL };
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    SamplingDefaults defaults;
    ErrText err;

    maker.keys = &key;
    maker.n_keys = 1;
    if (gguf_open(&file, import_fixture_package(fixture, &maker, 8, false), &err))
        fail_msg("%s", err.text);
    sampling_defaults_read(&defaults, file);
    assert_int_equal(defaults.fields, 1u << SAMPLING_TEMPERATURE);
    assert_int_equal(defaults.origin, SAMPLING_FROM_FILE);
    assert_true(defaults.options.temperature == 0.25f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sampling_defaults_of_families),
        cmocka_unit_test(test_sampling_defaults_of_a_file),
        cmocka_unit_test(test_sampling_defaults_of_odd_values),
        cmocka_unit_test(test_sampling_defaults_beside_a_request),
        WITH_FOLDER(test_sampling_defaults_of_a_package),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
