// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#undef NDEBUG
#include "test/unit/model_maker.h"

#include <assert.h>
#include <dirent.h>
#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/f16.h"
#include "base/files/file_io.h"
#include "model/hparams/arch.h"
#include "model/hparams/hparams.h"
#include "text/tokenizer/spm.h"

uint64_t test_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

float test_random_normal(uint64_t *state) {
    double sum = -6;

    for (int i = 0; i < 12; i++)
        sum += (double)(test_random(state) >> 11) * 0x1p-53;
    return (float)sum;
}

static void window_keys(const ModelMaker *maker, GgufWriter *writer) {
    char name[128];

    snprintf(name, sizeof(name), "%s.attention.sliding_window", maker->arch);
    gguf_writer_u32(writer, name, maker->window);
    snprintf(name, sizeof(name), "%s.attention.sliding_window_pattern", maker->arch);
    gguf_writer_u32(writer, name, 2);
    snprintf(name, sizeof(name), "%s.rope.freq_base", maker->arch);
    gguf_writer_f32(writer, name, 1e6f);
}

static void own_keys(const ModelMaker *maker, GgufWriter *writer) {
    char name[128];

    for (size_t i = 0; i < maker->n_keys; i++) {
        const ModelMakerKey *key = &maker->keys[i];

        if (!strncmp(key->suffix, "tokenizer.", 10) || !strncmp(key->suffix, "general.", 8))
            snprintf(name, sizeof(name), "%s", key->suffix);
        else
            snprintf(name, sizeof(name), "%s.%s", maker->arch, key->suffix);
        if (key->type == GGUF_U32)
            gguf_writer_u32(writer, name, (uint32_t)key->number);
        else if (key->type == GGUF_F32)
            gguf_writer_f32(writer, name, (float)key->number);
        else if (key->type == GGUF_BOOL)
            gguf_writer_bool(writer, name, key->number != 0);
        else
            gguf_writer_string(writer, name, key->text);
    }
    if (maker->n_rot) {
        snprintf(name, sizeof(name), "%s.rope.dimension_count", maker->arch);
        gguf_writer_u32(writer, name, maker->n_rot);
    }
}

static void maker_keys(const ModelMaker *maker, GgufWriter *writer) {
    const uint32_t n_tokens = maker->n_vocab + maker->n_more_tokens - maker->n_padding;
    const struct {
        const char *suffix;
        uint32_t value;
    } numbers[] = {
        { "block_count", maker->n_layers },           { "context_length", maker->n_context ? maker->n_context : 512 },
        { "embedding_length", maker->n_embd },        { "feed_forward_length", maker->n_ff },
        { "attention.head_count", maker->n_heads },   { "attention.head_count_kv", maker->n_kv_heads },
        { "attention.key_length", maker->head_size }, { "attention.value_length", maker->head_size },
    };
    static const char *const merges[] = { "a b", "c d" };
    const Arch *arch = arch_find(maker->arch);
    const char **tokens = calloc(n_tokens, sizeof(*tokens));
    char(*texts)[16] = calloc(n_tokens, sizeof(*texts));
    int32_t *types = calloc(n_tokens, sizeof(*types));
    float *scores = calloc(n_tokens, sizeof(*scores));
    char name[128];

    assert(tokens && texts && types && scores);
    gguf_writer_string(writer, "general.architecture", maker->arch);
    gguf_writer_string(writer, "general.name", "test model");
    gguf_writer_u32(writer, "general.file_type", 0);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        snprintf(name, sizeof(name), "%s.%s", maker->arch, numbers[i].suffix);
        gguf_writer_u32(writer, name, numbers[i].value);
    }
    snprintf(name, sizeof(name), "%s.attention.layer_norm_%sepsilon", maker->arch,
             arch && arch->norm == NORM_LAYER ? "" : "rms_");
    gguf_writer_f32(writer, name, 1e-5f);
    if (maker->window)
        window_keys(maker, writer);
    own_keys(maker, writer);
    for (uint32_t i = 0; i < n_tokens; i++) {
        if (i >= 28 && !strcmp(maker->tokenizer, "llama"))
            snprintf(texts[i], sizeof(texts[i]), SPM_SPACE "t%u", i);
        else if (i == 26 || i == 27) /* what the merges make */
            snprintf(texts[i], sizeof(texts[i]), "%s", i == 26 ? "ab" : "cd");
        else
            snprintf(texts[i], sizeof(texts[i]), i < 26 ? "%c" : "t%u", i < 26 ? 'a' + (int)i : (int)i);
        tokens[i] = texts[i];
        types[i] = 1;
    }
    gguf_writer_string(writer, "tokenizer.ggml.model", maker->tokenizer);
    gguf_writer_string(writer, "tokenizer.ggml.pre", maker->pretokenizer);
    gguf_writer_strings(writer, "tokenizer.ggml.tokens", tokens, n_tokens);
    gguf_writer_array(writer, "tokenizer.ggml.token_type", GGUF_I32, types, n_tokens);
    gguf_writer_strings(writer, "tokenizer.ggml.merges", merges, ARRAY_LEN(merges));
    if (!strcmp(maker->tokenizer, "llama"))
        gguf_writer_array(writer, "tokenizer.ggml.scores", GGUF_F32, scores, n_tokens);
    gguf_writer_u32(writer, "tokenizer.ggml.eos_token_id", 1);
    if (maker->adds_bos) {
        gguf_writer_u32(writer, "tokenizer.ggml.bos_token_id", 2);
        gguf_writer_bool(writer, "tokenizer.ggml.add_bos_token", true);
    }
    free(tokens);
    free(texts);
    free(types);
    free(scores);
}

typedef struct MakerTensors {
    const ModelMaker *maker;
    GgufWriter *writer;
    uint64_t state;
    StrBuf *file; /* second pass, data; NULL: the first */
    size_t n;     /* tensors in it so far */
} MakerTensors;

/* x = middle + spread * (normal) */
typedef struct Spread {
    float middle, spread;
} Spread;

static void fill_block(uint32_t type, uint32_t block_values, Spread of, uint8_t *block, uint64_t *state) {
    float x = of.middle + test_random_normal(state) * of.spread;
    uint16_t half;

    switch (type) {
    case GGML_F32:
        memcpy(block, &x, 4);
        break;
    case GGML_F16:
        half = f32_to_f16(x);
        memcpy(block, &half, 2);
        break;
    case GGML_BF16:
        half = (uint16_t)(f32_to_bits(x) >> 16);
        memcpy(block, &half, 2);
        break;
    default: /* Q8_0, Q4_0: a scale, then any bytes */
        assert(type == GGML_Q8_0 || type == GGML_Q4_0);
        half = f32_to_f16(0.002f + fabsf(x) * 0.01f);
        memcpy(block, &half, 2);
        for (uint32_t i = 0; i < block_values / (type == GGML_Q8_0 ? 1 : 2); i++)
            block[2 + i] = (uint8_t)test_random(state);
    }
}

static bool is_of_rope(TensorRole role) {
    return role == ROLE_ROPE_FREQS || role == ROLE_ROPE_FACTORS_LONG || role == ROLE_ROPE_FACTORS_SHORT;
}

static bool is_norm(const ArchTensor *tensor) {
    return tensor->out == DIM_NONE && strstr(tensor_role_name(tensor->role), "norm.weight");
}

static Spread spread_of(const ModelMaker *maker, const ArchTensor *tensor, uint64_t n_inputs) {
    const Arch *arch = arch_find(maker->arch);
    const float of_inputs = 1 / sqrtf((float)n_inputs);

    if (is_of_rope(tensor->role))
        return (Spread){ 4, 0.5f };
    if (!maker->is_balanced)
        return (Spread){ 0, 0.2f };
    if (is_norm(tensor))
        return (Spread){ 1, 0.2f };
    if (tensor->out == DIM_NONE)
        return (Spread){ 0, 0.2f };
    return (Spread){ 0, tensor_role_is_embedding(tensor->role) && !(arch && arch->scales_embedding) ? 1 : of_inputs };
}

static bool has_freqs(const Arch *arch) {
    for (size_t i = 0; i < arch->n_first; i++)
        if (arch->first[i].role == ROLE_ROPE_FREQS)
            return true;
    return false;
}

static bool is_left_out(const ModelMaker *maker, const Arch *arch, const ArchTensor *tensor) {
    if (tensor->role == ROLE_OUTPUT)
        return maker->tied;
    if (tensor->role == maker->left_out)
        return true;
    if (is_of_rope(tensor->role) && tensor->role != ROLE_ROPE_FREQS && has_freqs(arch))
        return true;
    return tensor->optional && !maker->has_optional;
}

static const ArchFused *fused_of(const ModelMaker *maker, const Arch *arch, TensorRole role) {
    for (size_t i = 0; maker->is_fused && i < arch->n_fused; i++)
        for (size_t part = 0; part < arch->fused[i].n; part++)
            if (arch->fused[i].parts[part] == role)
                return &arch->fused[i];
    return NULL;
}

static Hparams dims_of(const ModelMaker *maker) {
    return (Hparams){ .n_embd = maker->n_embd,
                      .n_ff = maker->n_ff,
                      .n_heads = maker->n_heads,
                      .n_kv_heads = maker->n_kv_heads,
                      .head_size = maker->head_size,
                      .n_vocab = maker->n_vocab,
                      .n_rot = maker->n_rot ? maker->n_rot : maker->head_size };
}

static void put_tensor(MakerTensors *tensors, const ArchTensor *tensor, const char *name, const uint64_t ne[2]) {
    const ModelMaker *maker = tensors->maker;
    const bool linear = tensor_role_is_linear(tensor->role);
    const Spread spread = spread_of(maker, tensor, ne[0]);
    uint32_t type = linear ? maker->type : GGML_F32, block_values, block_bytes;
    uint8_t *block;

    if (!tensors->file) {
        gguf_writer_tensor(tensors->writer, name, type, linear ? 2 : 1, ne);
        return;
    }
    assert(ggml_type_block(type, &block_values, &block_bytes));
    block = (uint8_t *)tensors->file->data + gguf_writer_tensor_offset(tensors->writer, tensors->n++);
    for (uint64_t i = 0; i < ne[0] * ne[1] / block_values; i++, block += block_bytes) {
        fill_block(type, block_values, spread, block, &tensors->state);
        if (maker->bad_value && tensor->role == (maker->tied ? ROLE_FFN_DOWN : ROLE_OUTPUT) && i == 77)
            memset(block, 0xff, block_bytes);
    }
}

static void maker_tensor(MakerTensors *tensors, const Arch *arch, const ArchTensor *tensor, int layer) {
    const ModelMaker *maker = tensors->maker;
    const Hparams hparams = dims_of(maker);
    const ArchFused *fused = fused_of(maker, arch, tensor->role);
    uint64_t ne[2] = { hparams_dim(&hparams, tensor->in), hparams_dim(&hparams, tensor->out) };
    char name[GGUF_TENSOR_NAME_MAX];

    if (is_left_out(maker, arch, tensor) || (fused && fused->parts[0] != tensor->role))
        return;
    tensor_name(tensor->role, layer, name, sizeof(name));
    if (fused) {
        snprintf(name, sizeof(name), "blk.%d.%s", layer, fused->name);
        for (size_t i = 0; i < arch->n_layer; i++)
            for (size_t part = 1; part < fused->n; part++)
                if (arch->layer[i].role == fused->parts[part])
                    ne[tensor->out != DIM_NONE] +=
                        hparams_dim(&hparams, tensor->out == DIM_NONE ? arch->layer[i].in : arch->layer[i].out);
    }
    put_tensor(tensors, tensor, name, ne);
}

static void each_tensor(const ModelMaker *maker, MakerTensors *tensors) {
    const Arch *arch = arch_find(maker->arch);

    if (!arch)
        arch = arch_find("llama"); /* tests of an unknown name */
    for (size_t i = 0; i < arch->n_first; i++)
        maker_tensor(tensors, arch, &arch->first[i], -1);
    for (uint32_t layer = 0; layer < maker->n_layers; layer++)
        for (size_t i = 0; i < arch->n_layer; i++)
            maker_tensor(tensors, arch, &arch->layer[i], (int)layer);
    for (size_t i = 0; i < arch->n_last; i++)
        maker_tensor(tensors, arch, &arch->last[i], -1);
}

void model_maker_run(const ModelMaker *maker, StrBuf *file) {
    _cleanup_(gguf_writer_freep) GgufWriter *writer = NULL;
    MakerTensors tensors = { .maker = maker, .state = maker->seed };

    assert(gguf_writer_new(&writer, 32, NULL) == 0);
    tensors.writer = writer;
    maker_keys(maker, writer);
    each_tensor(maker, &tensors);
    assert(gguf_writer_layout(writer, NULL) == 0);
    test_gguf_image(writer, file);
    tensors.file = file;
    each_tensor(maker, &tensors);
}

void test_gguf_image(const GgufWriter *writer, StrBuf *file) {
    static const uint8_t zeros[4096];
    const StrBuf *head = gguf_writer_head(writer);

    str_buf_append(file, head->data, head->len_bytes);
    for (uint64_t left = gguf_writer_file_bytes(writer) - head->len_bytes, n; left; left -= n) {
        n = left < sizeof(zeros) ? left : sizeof(zeros);
        str_buf_append(file, zeros, (size_t)n);
    }
    assert(!str_buf_failed(file));
}

void test_write_file(const char *folder, const char *name, const void *data, size_t len_bytes) {
    char path[PATH_MAX];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "we");
    assert(file && fwrite(data, 1, len_bytes, file) == len_bytes && fclose(file) == 0);
}

void test_folder_make(char path[256]) {
    const char *base = getenv("TMPDIR");

    snprintf(path, 256, "%.200s/coordgen-test-XXXXXX", base && *base ? base : "/tmp");
    assert(mkdtemp(path));
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    return remove(path);
}

void test_folder_remove(const char *path) {
    (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

size_t test_folder_count(const char *path) {
    const struct dirent *entry;
    DIR *dir = opendir(path);
    size_t n = 0;

    assert(dir);
    while ((entry = readdir(dir)))
        n += entry->d_type != DT_DIR;
    closedir(dir);
    return n;
}

const char *test_default_model(void) {
    static char path[PATH_MAX];
    const char *model = getenv("COORDGEN_MODEL"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (model)
        snprintf(path, sizeof(path), "%s", model);
    else if (xdg && *xdg)
        snprintf(path, sizeof(path), "%s/coordgen/fetched/smollm2-135m.gguf", xdg);
    else
        snprintf(path, sizeof(path), "%s/.cache/coordgen/fetched/smollm2-135m.gguf", home ? home : "");
    if (!access(path, R_OK))
        return path;
    printf("skipped: the default model is not at %s (tools/fetch-model smollm2-135m)\n", path);
    return NULL;
}
