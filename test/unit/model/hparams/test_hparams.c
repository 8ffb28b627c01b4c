// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/strings/str_buf.h"
#include "model/gguf/gguf_writer.h"
#include "model/hparams/hparams.h"
#include "model/hparams/hparams_keys.h"
#include "test/unit/fixtures/model_maker.h"

/* A llama of one layer with trivial weights; a test may change one key or tensor. */
typedef struct Change {
    const char *key;
    double number; /* used if text is NULL; a key of an integer gets it as u32 */
    const char *text;
    const char *drop_tensor, *extra_tensor;
    bool as_float, as_bool, drop_key;
    GgufValueType list_type; /* type of the elements, with a list */
    const void *list;
    uint64_t n_list;
    uint32_t n_layers; /* 0: one */
} Change;

static void put_u32(GgufWriter *writer, const Change *change, const char *key, uint32_t value) {
    if (!change->key || strcmp(change->key, key))
        gguf_writer_u32(writer, key, value);
}

static int read_changed(const char *arch, const Change *change, Hparams *hparams, ErrText *err, bool check_tensors) {
    static const struct {
        const char *suffix;
        uint32_t value;
    } keys[] = {
        { "block_count", 1 },          { "context_length", 128 },     { "embedding_length", 64 },
        { "feed_forward_length", 96 }, { "attention.head_count", 4 }, { "attention.head_count_kv", 2 },
    };
    static const struct {
        const char *name;
        uint64_t in, out;
    } tensors[] = {
        { "token_embd.weight", 64, 10 },    { "blk.0.attn_norm.weight", 64, 0 },
        { "blk.0.attn_q.weight", 64, 64 },  { "blk.0.attn_k.weight", 64, 32 },
        { "blk.0.attn_v.weight", 64, 32 },  { "blk.0.attn_output.weight", 64, 64 },
        { "blk.0.ffn_norm.weight", 64, 0 }, { "blk.0.ffn_gate.weight", 64, 96 },
        { "blk.0.ffn_up.weight", 64, 96 },  { "blk.0.ffn_down.weight", 96, 64 },
        { "output_norm.weight", 64, 0 },
    };
    _cleanup_(gguf_writer_freep) GgufWriter *writer = NULL;
    _cleanup_(str_buf_deinit) StrBuf bytes = STR_BUF_NULL;
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    char key[96];
    int r;

    assert_int_equal(gguf_writer_new(&writer, 32, err), 0);
    gguf_writer_string(writer, "general.architecture", arch);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        snprintf(key, sizeof(key), "%s.%s", arch, keys[i].suffix);
        put_u32(writer, change, key, i == 0 && change->n_layers ? change->n_layers : keys[i].value);
    }
    snprintf(key, sizeof(key), "%s.attention.layer_norm_rms_epsilon", arch);
    if (!change->key || strcmp(change->key, key))
        gguf_writer_f32(writer, key, 1e-5f);
    if (change->key && !change->drop_key) {
        if (change->list)
            gguf_writer_array(writer, change->key, change->list_type, change->list, change->n_list);
        else if (change->text)
            gguf_writer_string(writer, change->key, change->text);
        else if (change->as_bool)
            gguf_writer_bool(writer, change->key, change->number != 0);
        else if (change->as_float)
            gguf_writer_f32(writer, change->key, (float)change->number);
        else
            gguf_writer_u32(writer, change->key, (uint32_t)change->number);
    }
    for (size_t i = 0; i < ARRAY_LEN(tensors); i++) {
        uint64_t ne[] = { tensors[i].in, tensors[i].out };

        if (!change->drop_tensor || strcmp(change->drop_tensor, tensors[i].name))
            gguf_writer_tensor(writer, tensors[i].name, GGML_F32, ne[1] ? 2 : 1, ne);
    }
    if (change->extra_tensor)
        gguf_writer_tensor(writer, change->extra_tensor, GGML_F32, 1, &(uint64_t){ 64 });
    assert_int_equal(gguf_writer_layout(writer, err), 0);
    test_gguf_image(writer, &bytes);
    assert_int_equal(gguf_parse(&file, bytes.data, bytes.len_bytes, "test.gguf", err), 0);
    r = hparams_read(hparams, file, err);
    if (!r)
        hparams_keys_warn(file, arch);
    return r || !check_tensors ? r : hparams_check_tensors(hparams, file, err);
}

static void test_hparams_reads_a_model(void **state) {
    Change none = { 0 };
    Hparams hparams;
    ErrText err;

    assert_int_equal(read_changed("llama", &none, &hparams, &err, true), 0);
    assert_string_equal(hparams.arch->name, "llama");
    assert_int_equal(hparams.n_vocab, 10);
    assert_int_equal(hparams.head_size, 16);
    assert_int_equal(hparams.n_rot, 16);
    assert_true(hparams.tied);
    assert_int_equal(hparams_dim(&hparams, DIM_KV), 32);
    assert_false(hparams_layer_is_local(&hparams, 0));
    assert_true(hparams.rope.global.base == 10000);
}

static void test_hparams_gemma_layers_are_local_but_each_sixth(void **state) {
    Change window = { .key = "gemma3.attention.sliding_window", .number = 32 };
    Hparams hparams;
    ErrText err;

    assert_int_equal(read_changed("gemma3", &window, &hparams, &err, false), 0);
    for (uint32_t layer = 0; layer < 24; layer++)
        assert_int_equal(hparams_layer_is_local(&hparams, layer), layer % 6 != 5);
    assert_true(hparams.embedding_scale == 8); /* sqrt(64) */
    hparams.n_layers = 24;
    assert_int_equal(hparams_read_positions(&hparams, 32), 24 * 32);
    assert_int_equal(hparams_read_positions(&hparams, 1000), 20 * 32 + 4 * 1000);
}

static void test_hparams_refuses_by_name(void **state) {
    static const struct {
        Change change;
        int code;
        const char *named;
    } cases[] = {
        { { .key = "llama.block_count", .number = 0 }, HPARAMS_E_CORRUPT, "llama.block_count" },
        { { .key = "llama.block_count", .number = 5000 }, HPARAMS_E_CORRUPT, "5000" },
        { { .key = "llama.block_count", .drop_key = true }, HPARAMS_E_CORRUPT, "llama.block_count" },
        { { .key = "llama.block_count", .text = "one" }, HPARAMS_E_CORRUPT, "llama.block_count" },
        { { .key = "llama.context_length", .number = 4e9 }, HPARAMS_E_CORRUPT, "llama.context_length" },
        { { .key = "llama.embedding_length", .number = 65 }, HPARAMS_E_UNSUPPORTED, "65" },
        { { .key = "llama.attention.head_count", .number = 0 }, HPARAMS_E_CORRUPT, "head_count" },
        { { .key = "llama.attention.head_count_kv", .number = 3 }, HPARAMS_E_CORRUPT, "3 key-value heads" },
        { { .key = "llama.attention.key_length", .number = 20 }, HPARAMS_E_UNSUPPORTED, "20" },
        { { .key = "llama.rope.dimension_count", .number = 7 }, HPARAMS_E_CORRUPT, "odd" },
        { { .key = "llama.rope.dimension_count", .number = 18 }, HPARAMS_E_CORRUPT, "dimension_count" },
        { { .key = "llama.rope.freq_base", .number = -1, .as_float = true }, HPARAMS_E_CORRUPT, "freq_base" },
        { { .key = "llama.rope.scaling.type", .text = "dynamic" }, HPARAMS_E_UNSUPPORTED, "'dynamic'" },
        { { .key = "llama.rope.scaling.type", .text = "longrope" }, HPARAMS_E_CORRUPT, "'rope_factors_short.weight'" },
        { { .key = "llama.rope.scaling.type", .number = 2 }, HPARAMS_E_CORRUPT, "rope.scaling.type" },
        { { .key = "llama.rope.scaling.factor", .number = 0.5, .as_float = true },
          HPARAMS_E_CORRUPT,
          "factor' is 0.5" },
        { { .key = "llama.rope.scaling.original_context_length", .text = "4k" },
          HPARAMS_E_CORRUPT,
          "original_context_length" },
        { { .key = "llama.rope.scaling.yarn_beta_fast", .as_float = true }, HPARAMS_E_CORRUPT, "yarn_beta_fast" },
        { { .key = "llama.rope.scaling.yarn_ext_factor", .number = 2, .as_float = true },
          HPARAMS_E_CORRUPT,
          "yarn_ext_factor" },
        { { .key = "llama.rope.scaling.alpha", .number = 1000, .as_float = true },
          HPARAMS_E_UNSUPPORTED,
          "alpha' = 1000" },
        { { .key = "llama.expert_count", .number = 8 }, HPARAMS_E_UNSUPPORTED, "expert_count" },
        { { .key = "llama.expert_count", .text = "8" },
          HPARAMS_E_CORRUPT,
          "'llama.expert_count' is of type string, exp" },
        { { .key = "llama.logit_scale", .text = "2" }, HPARAMS_E_CORRUPT, "expected a number" },
        { { .key = "llama.logit_scale", .number = 8, .as_float = true }, HPARAMS_E_UNSUPPORTED, "logit_scale' = 8" },
        { { .key = "llama.attention.causal", .as_bool = true }, HPARAMS_E_UNSUPPORTED, "causal' = false" },
        { { .key = "llama.attention.causal", .number = 2 }, HPARAMS_E_CORRUPT, "expected a bool, or 0 or 1" },
        { { .key = "llama.attention.clamp_kqv", .number = 8, .as_float = true }, HPARAMS_E_UNSUPPORTED, "clamp_kqv" },
        { { .key = "llama.rope.scaling.attn_factor", .number = -1, .as_float = true },
          HPARAMS_E_CORRUPT,
          "attn_factor' is -1" },
        { { .key = "llama.rope.scale_linear", .number = 0.5, .as_float = true }, HPARAMS_E_CORRUPT, "scale_linear" },
        { { .key = "llama.rope.scale_linear", .text = "2" }, HPARAMS_E_CORRUPT, "scale_linear" },
        { { .key = "llama.rope.global.freq_base", .number = 5e5, .as_float = true },
          HPARAMS_E_UNSUPPORTED,
          "global.freq_base" },
        { { .key = "llama.final_logit_softcapping", .number = 30, .as_float = true },
          HPARAMS_E_UNSUPPORTED,
          "final_logit_softcapping" },
        { { .key = "llama.vocab_size", .text = "10" }, HPARAMS_E_CORRUPT, "vocab_size" },
        { { .key = "llama.attention.layer_norm_rms_epsilon", .number = 2, .as_float = true },
          HPARAMS_E_CORRUPT,
          "epsilon" },
        { { .drop_tensor = "blk.0.ffn_up.weight" }, HPARAMS_E_CORRUPT, "blk.0.ffn_up.weight" },
        { { .drop_tensor = "token_embd.weight" }, HPARAMS_E_CORRUPT, "token_embd.weight" },
        { { .extra_tensor = "blk.0.ffn_gate_inp.weight" }, HPARAMS_E_UNSUPPORTED, "blk.0.ffn_gate_inp.weight" },
        { { .extra_tensor = "blk.1.attn_norm.weight" }, HPARAMS_E_UNSUPPORTED, "blk.1.attn_norm.weight" },
        { { .extra_tensor = "rope_freqs.weight" }, HPARAMS_E_CORRUPT, "rope_freqs.weight" }, /* 64 values, not 8 */
        { { .extra_tensor = "blk.0.attn_qkv.weight" }, HPARAMS_E_UNSUPPORTED, "attn_qkv" },  /* beside attn_q */
        { { .extra_tensor = "blk.0.attn_qkv.weight", .drop_tensor = "blk.0.attn_q.weight" },
          HPARAMS_E_CORRUPT,
          "'blk.0.attn_qkv.weight' is 64 x 1 x 1 x 1, but the metadata asks for 64 x 128" },
        { { .extra_tensor = "blk.0.attn_qkv.bias" }, HPARAMS_E_CORRUPT, "but the metadata asks for 128 x 1" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        Hparams hparams = { .n_layers = 77 };
        ErrText err = { 0 };

        assert_int_equal(read_changed("llama", &cases[i].change, &hparams, &err, true), cases[i].code);
        if (!strstr(err.text, cases[i].named))
            fail_msg("case %zu: '%s' does not name '%s'", i, err.text, cases[i].named);
    }
}

static char logged[2048];
static size_t n_logged;

static void keep_line(LogLevel level, const char *topic, const char *line) {
    snprintf(logged, sizeof(logged), "%s", line);
    n_logged++;
}

/* A value without effect passes without a word. */
static void test_hparams_takes_neutral_keys(void **state) {
    static const Change neutral[] = {
        { .key = "llama.vocab_size", .number = 10 },
        { .key = "llama.expert_count" },
        { .key = "llama.attention.causal", .number = 1, .as_bool = true },
        { .key = "llama.attention.clamp_kqv", .as_float = true },
        { .key = "llama.attention.sliding_window", .number = 128 }, /* of 128 positions */
        { .key = "llama.rope.scaling.attn_factor", .number = 1, .as_float = true },
        { .key = "llama.rope.global.freq_base", .number = 10000, .as_float = true },
        { .key = "llama.logit_scale", .number = 1, .as_float = true },
        { .key = "llama.attention.causal", .number = 1 },
        { .key = "llama.rope.scaling.factor", .as_float = true }, /* 0: none */
        { .key = "llama.tensor_data_layout", .text = "Meta AI original pth" },
        { .key = "llamas.expert_count", .number = 8 },
        { .key = "general.quality", .text = "fine" },
    };

    n_logged = 0;
    log_set_sink(keep_line);
    for (size_t i = 0; i < ARRAY_LEN(neutral); i++) {
        Hparams hparams;
        ErrText err = { 0 };

        if (read_changed("llama", &neutral[i], &hparams, &err, true))
            fail_msg("'%s': %s", neutral[i].key, err.text);
        assert_true(hparams.rope.global.position_scale == 1);
    }
    log_set_sink(NULL);
    assert_int_equal(n_logged, 0);
}

/* A list tells for each layer whether it is local; a list with another content is refused. */
static void test_hparams_window_list(void **state) {
    static const uint8_t flags[] = { 1, 0, 0, 1, 1 };
    static const uint32_t numbers[] = { 1, 0, 0, 1, 1 }, bad[] = { 1, 0, 2, 1, 1 };
    Change list = { .key = "gemma2.attention.sliding_window_pattern",
                    .list_type = GGUF_BOOL,
                    .list = flags,
                    .n_list = 5,
                    .n_layers = 5 };
    Hparams hparams;
    ErrText err;

    for (int as_numbers = 0; as_numbers < 2; as_numbers++) {
        assert_int_equal(read_changed("gemma2", &list, &hparams, &err, false), 0);
        assert_true(hparams.window.positions);
        for (uint32_t i = 0; i < 5; i++)
            assert_int_equal(hparams_layer_is_local(&hparams, i), flags[i]);
        list.list_type = GGUF_U32;
        list.list = numbers;
    }
    list.list = bad;
    assert_int_equal(read_changed("gemma2", &list, &hparams, &err, false), HPARAMS_E_CORRUPT);
    assert_non_null(
        strstr(err.text,
               "'gemma2.attention.sliding_window_pattern': element 2 is 2 of type u32, expected integers from 0 to 1"));
    list.list = numbers;
    list.n_list = 4;
    assert_int_equal(read_changed("gemma2", &list, &hparams, &err, false), HPARAMS_E_CORRUPT);
    assert_non_null(strstr(err.text, "has 4 elements for 5 layers"));
    list.list_type = GGUF_F32; /* the bits of 1 are a tiny number */
    list.n_list = 5;
    assert_int_equal(read_changed("gemma2", &list, &hparams, &err, false), HPARAMS_E_CORRUPT);
    assert_non_null(strstr(err.text, "of type f32, expected integers from 0 to 1"));
}

/* A number may be a list of equal elements, one for each layer. */
static void test_hparams_takes_lists_of_equal_numbers(void **state) {
    static const uint32_t equal[] = { 2, 2, 2, 2, 2 }, different[] = { 2, 2, 4, 2, 2 };
    Change list = {
        .key = "llama.attention.head_count_kv", .list_type = GGUF_U32, .list = equal, .n_list = 5, .n_layers = 5
    };
    Hparams hparams;
    ErrText err;

    assert_int_equal(read_changed("llama", &list, &hparams, &err, false), 0);
    assert_int_equal(hparams.n_kv_heads, 2);
    list.n_list = 4;
    assert_int_equal(read_changed("llama", &list, &hparams, &err, false), HPARAMS_E_CORRUPT);
    assert_non_null(strstr(err.text, "'llama.attention.head_count_kv' is an array of 4 elements for 5 layers"));
    list.list = different;
    list.n_list = 5;
    assert_int_equal(read_changed("llama", &list, &hparams, &err, false), HPARAMS_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "'llama.attention.head_count_kv' is an array of u32 that differ (element 0 is 2, "
                                     "element 2 is 4)"));
}

/* All layers of llama and phi3 have the window; qwen3 has none, and refuses one that is less than the context. */
static void test_hparams_windows(void **state) {
    Change window = { .key = "llama.attention.sliding_window", .number = 127 };
    Hparams hparams;
    ErrText err;

    assert_int_equal(read_changed("llama", &window, &hparams, &err, true), 0);
    assert_int_equal(hparams.window.positions, 127);
    for (uint32_t layer = 0; layer < 8; layer++) {
        assert_true(hparams_layer_is_local(&hparams, layer));
        assert_false(hparams_layer_turns_locally(&hparams, layer));
    }
    window.number = 128; /* of 128 positions */
    assert_int_equal(read_changed("llama", &window, &hparams, &err, true), 0);
    assert_false(hparams_layer_is_local(&hparams, 0));
    window = (Change){ .key = "qwen3.attention.sliding_window", .number = 127 };
    assert_int_equal(read_changed("qwen3", &window, &hparams, &err, false), HPARAMS_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "'qwen3.attention.sliding_window' is 127"));
    window.number = 128;
    assert_int_equal(read_changed("qwen3", &window, &hparams, &err, false), 0);
}

static void test_hparams_yarn(void **state) {
    Change change = { .key = "llama.rope.scaling.type", .text = "yarn" };
    Hparams hparams;
    ErrText err;

    assert_int_equal(read_changed("llama", &change, &hparams, &err, true), 0);
    assert_true(hparams.rope.yarn.share == 1 && hparams.rope.yarn.fast == 32 && hparams.rope.yarn.slow == 1);
    assert_true(hparams.rope.original == 128 && hparams.rope.magnitude == 1);
    change = (Change){ .key = "llama.rope.scaling.attn_factor", .number = 1.5, .as_float = true };
    assert_int_equal(read_changed("llama", &change, &hparams, &err, true), 0);
    assert_true(hparams.rope.yarn.share == 0 && hparams.rope.magnitude == 1.5);
    assert_int_equal(hparams.rope.divisors, ROLE_NONE);
}

static void test_hparams_applies_the_older_name_of_the_factor(void **state) {
    Change linear = { .key = "llama.rope.scale_linear", .number = 4, .as_float = true };
    Hparams hparams;
    ErrText err;

    assert_int_equal(read_changed("llama", &linear, &hparams, &err, true), 0);
    assert_true(hparams.rope.global.position_scale == 0.25);
}

static void test_hparams_names_unknown_keys(void **state) {
    Change unknown = { .key = "llama.attention.novelty", .number = 3 };
    Hparams hparams;
    ErrText err;

    n_logged = 0;
    log_set_sink(keep_line);
    assert_int_equal(read_changed("llama", &unknown, &hparams, &err, true), 0);
    log_set_sink(NULL);
    assert_int_equal(n_logged, 1);
    assert_non_null(strstr(logged, "test.gguf: key 'llama.attention.novelty' is not known"));
}

static void test_hparams_refuses_other_architectures(void **state) {
    static const char *const others[] = { "mamba", "qwen3moe", "phimoe", "llama4", "deepseek2", "gpt-oss" };
    Change none = { 0 };
    Hparams hparams;
    ErrText err;

    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        assert_int_equal(read_changed(others[i], &none, &hparams, &err, true), HPARAMS_E_UNSUPPORTED);
        assert_non_null(strstr(err.text, others[i]));
        assert_non_null(strstr(err.text, "is not supported: llama, qwen2, "));
        assert_non_null(strstr(err.text, " are"));
    }
    assert_int_equal(read_changed("qwen2", &none, &hparams, &err, true),
                     HPARAMS_E_CORRUPT); /* its biases are missing */
    assert_non_null(strstr(err.text, "attn_q.bias"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hparams_reads_a_model),
        cmocka_unit_test(test_hparams_gemma_layers_are_local_but_each_sixth),
        cmocka_unit_test(test_hparams_refuses_by_name),
        cmocka_unit_test(test_hparams_takes_neutral_keys),
        cmocka_unit_test(test_hparams_window_list),
        cmocka_unit_test(test_hparams_takes_lists_of_equal_numbers),
        cmocka_unit_test(test_hparams_windows),
        cmocka_unit_test(test_hparams_yarn),
        cmocka_unit_test(test_hparams_applies_the_older_name_of_the_factor),
        cmocka_unit_test(test_hparams_names_unknown_keys),
        cmocka_unit_test(test_hparams_refuses_other_architectures),
    };

    return cmocka_run_group_tests_name("hparams", tests, NULL, NULL);
}
