// SPDX-License-Identifier: Apache-2.0
#include "model/hparams.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "model/hparams_keys.h"

#define N_LAYERS_MAX 1024
#define WIDTH_MAX 131072 /* of a product's inputs: an int32 sum of int8 products cannot overflow */
#define HEADS_MAX 1024
#define HEAD_SIZE_MAX 1024
#define VOCAB_MAX (1u << 21)
#define CONTEXT_MAX (1u << 20) /* rotary tables are exact below it */

/* Reads "ARCH.suffix"; keys of a model are under its architecture's name. */
typedef struct KeyReader {
    const GgufFile *file;
    const char *arch;
    ErrText *err;
} KeyReader;

static const char *key_name(const KeyReader *reader, const char *suffix, char name[128]) {
    snprintf(name, 128, "%s.%s", reader->arch, suffix);
    return name;
}

static int read_u32(const KeyReader *reader, const char *suffix, uint32_t min, uint32_t max, const uint32_t *fallback,
                    uint32_t *valuep) {
    uint32_t value;
    char name[128];
    int r;

    r = gguf_get_u32(reader->file, key_name(reader, suffix, name), &value, reader->err);
    if (r == GGUF_E_MISSING && fallback) {
        *valuep = *fallback;
        return 0;
    }
    if (r)
        return r < 0 ? r : HPARAMS_E_CORRUPT;
    if (value < min || value > max)
        return err_set(reader->err, HPARAMS_E_CORRUPT,
                       "%s: key '%s' is %" PRIu32 ", which is outside %" PRIu32 "..%" PRIu32, gguf_path(reader->file),
                       name, value, min, max);
    *valuep = value;
    return 0;
}

static int read_f32(const KeyReader *reader, const char *suffix, double min, double max, const double *fallback,
                    double *valuep) {
    float value;
    char name[128];
    int r;

    r = gguf_get_f32(reader->file, key_name(reader, suffix, name), &value, reader->err);
    if (r == GGUF_E_MISSING && fallback) {
        *valuep = *fallback;
        return 0;
    }
    if (r)
        return r < 0 ? r : HPARAMS_E_CORRUPT;
    if (!(value >= min && value <= max))
        return err_set(reader->err, HPARAMS_E_CORRUPT, "%s: key '%s' is %g, which is outside %g..%g",
                       gguf_path(reader->file), name, (double)value, min, max);
    *valuep = value;
    return 0;
}

/* Another name of a number that was read, or that has a default: it must not say anything else. */
static int check_same(const KeyReader *reader, const char *suffix, double expected, const char *read_from) {
    double value = expected;
    int r;

    r = read_f32(reader, suffix, 1, 1e12, &expected, &value);
    if (r || value == expected)
        return r;
    return err_set(reader->err, HPARAMS_E_UNSUPPORTED,
                   "%s: key '%s.%s' is %g, but '%s.%s' is read and gives %g: set that key to the same",
                   gguf_path(reader->file), reader->arch, suffix, value, reader->arch, read_from, expected);
}

static int read_rope(const KeyReader *reader, Hparams *hparams) {
    static const double default_base = 10000, one = 1;
    GgufString type = { 0 };
    double factor = 1;
    Printable shown;
    char name[128];
    int r;

    r = read_f32(reader, "rope.freq_base", 1, 1e12, &default_base, &hparams->rope_base);
    if (r)
        return r;
    r = read_f32(reader, "rope.freq_base_swa", 1, 1e12, &default_base, &hparams->rope_base_local);
    if (r)
        return r;
    r = read_u32(reader, "rope.dimension_count", 2, hparams->head_size, &hparams->head_size, &hparams->n_rot);
    if (r)
        return r;
    if (hparams->n_rot % 2)
        return err_set(reader->err, HPARAMS_E_CORRUPT, "%s: key '%s.rope.dimension_count' is %u, an odd number",
                       gguf_path(reader->file), reader->arch, hparams->n_rot);
    r = gguf_get_string(reader->file, key_name(reader, "rope.scaling.type", name), &type, reader->err);
    if (r < 0 || r == GGUF_E_TYPE)
        return r < 0 ? r : HPARAMS_E_CORRUPT;
    if (type.len_bytes && !(type.len_bytes == 4 && !memcmp(type.data, "none", 4)) &&
        !(type.len_bytes == 6 && !memcmp(type.data, "linear", 6)))
        return err_set(reader->err, HPARAMS_E_UNSUPPORTED,
                       "%s: key '%s' is '%s': only 'none' and 'linear' context extension are supported",
                       gguf_path(reader->file), name, printable(&shown, type.data, type.len_bytes));
    if (!(type.len_bytes == 4)) {
        r = read_f32(reader, "rope.scale_linear", 1, 1e6, &one, &factor); /* older files' name of the factor */
        if (!r)
            r = read_f32(reader, "rope.scaling.factor", 1, 1e6, &factor, &factor);
        if (r)
            return r;
    }
    hparams->rope_position_scale = 1 / factor;
    r = check_same(reader, "rope.global.freq_base", hparams->rope_base, "rope.freq_base");
    return r ? r : check_same(reader, "rope.local.freq_base", hparams->rope_base_local, "rope.freq_base_swa");
}

static int read_attention(const KeyReader *reader, Hparams *hparams) {
    uint32_t value_size, head_fallback;
    int r;

    r = read_u32(reader, "attention.head_count", 1, HEADS_MAX, NULL, &hparams->n_heads);
    if (r)
        return r;
    r = read_u32(reader, "attention.head_count_kv", 1, hparams->n_heads, &hparams->n_heads, &hparams->n_kv_heads);
    if (r)
        return r;
    if (hparams->n_heads % hparams->n_kv_heads)
        return err_set(reader->err, HPARAMS_E_CORRUPT,
                       "%s: %u query heads cannot share %u key-value heads ('%s.attention.head_count_kv')",
                       gguf_path(reader->file), hparams->n_heads, hparams->n_kv_heads, reader->arch);
    head_fallback = hparams->n_embd / hparams->n_heads;
    r = read_u32(reader, "attention.key_length", 1, HEAD_SIZE_MAX, &head_fallback, &hparams->head_size);
    if (r)
        return r;
    r = read_u32(reader, "attention.value_length", 1, HEAD_SIZE_MAX, &hparams->head_size, &value_size);
    if (r)
        return r;
    if (hparams->head_size % 16 || !hparams->head_size || value_size != hparams->head_size)
        return err_set(reader->err, HPARAMS_E_UNSUPPORTED,
                       "%s: heads of %u (keys) and %u (values): both must be the same multiple of 16",
                       gguf_path(reader->file), hparams->head_size, value_size);
    if (hparams->n_heads * hparams->head_size > WIDTH_MAX)
        return err_set(reader->err, HPARAMS_E_UNSUPPORTED, "%s: %u heads of %u are more than %u values",
                       gguf_path(reader->file), hparams->n_heads, hparams->head_size, WIDTH_MAX);
    hparams->attention_scale = 1.0f / sqrtf((float)hparams->head_size);
    return 0;
}

/* Where all layers see all: a window that no position of the context leaves is none. */
static int check_no_window(const KeyReader *reader, const Hparams *hparams) {
    static const uint32_t none = 0;
    uint32_t window;
    int r;

    r = read_u32(reader, "attention.sliding_window", 0, UINT32_MAX, &none, &window);
    if (r || !window || window >= hparams->n_context)
        return r;
    return err_set(
        reader->err, HPARAMS_E_UNSUPPORTED,
        "%s: key '%s.attention.sliding_window' is %u, and the context has %u positions: windows are supported "
        "for gemma3 only: use a version of the model without one",
        gguf_path(reader->file), reader->arch, window, hparams->n_context);
}

/* gemma3: five sliding-window layers to one global one, embeddings scaled, the 27B with a query scale of its own. */
static int read_gemma(const KeyReader *reader, Hparams *hparams) {
    static const uint32_t no_window = 0, default_pattern = 6, layers_of_27b = 62;
    int r;

    if (hparams->arch->scales_embedding)
        hparams->embedding_scale = sqrtf((float)hparams->n_embd);
    if (!hparams->arch->has_local_layers)
        return check_no_window(reader, hparams);
    r = read_u32(reader, "attention.sliding_window", 0, CONTEXT_MAX, &no_window, &hparams->window);
    if (r)
        return r;
    r = read_u32(reader, "attention.sliding_window_pattern", 1, N_LAYERS_MAX, &default_pattern,
                 &hparams->window_pattern);
    if (r)
        return r;
    if (hparams->n_layers == layers_of_27b)
        hparams->attention_scale = 1.0f / sqrtf((float)(hparams->n_embd / hparams->n_heads));
    return 0;
}

/* Rows of the embedding. A package may hold it as opaque bytes (package.h): there its scales are counted. */
static int read_vocab(KeyReader *reader, Hparams *hparams) {
    const GgufTensor *embd = gguf_tensor(reader->file, tensor_role_name(ROLE_TOKEN_EMBD));
    const GgufTensor *scales = gguf_tensor(reader->file, "token_embd.scales");
    uint64_t n_rows;

    if (!embd)
        return err_set(reader->err, HPARAMS_E_CORRUPT, "%s: tensor '%s' is missing", gguf_path(reader->file),
                       tensor_role_name(ROLE_TOKEN_EMBD));
    n_rows = scales ? scales->ne[0] : embd->ne[1];
    if (n_rows < 1 || n_rows > VOCAB_MAX)
        return err_set(reader->err, HPARAMS_E_CORRUPT,
                       "%s: tensor '%s' has %" PRIu64 " rows; 1 to %u tokens are supported", gguf_path(reader->file),
                       embd->name, n_rows, VOCAB_MAX);
    hparams->n_vocab = (uint32_t)n_rows;
    return 0;
}

/**
 * hparams_read() - hyper-parameters of a model file
 * @hparams:  out; filled only when 0 is returned
 *
 * Return: 0, HPARAMS_E_UNSUPPORTED, HPARAMS_E_CORRUPT or -errno, with a text that names the key and the value.
 */
int hparams_read(Hparams *hparams, const GgufFile *file, ErrText *err) {
    Hparams read = { .embedding_scale = 1, .rope_position_scale = 1 };
    KeyReader reader = { .file = file, .err = err };
    char known[ARCH_NAMES_MAX];
    GgufString name;
    Printable shown;
    double eps;
    int r;

    r = gguf_get_string(file, "general.architecture", &name, err);
    if (r)
        return r < 0 ? r : HPARAMS_E_CORRUPT;
    read.arch = arch_find(printable(&shown, name.data, name.len_bytes));
    if (!read.arch)
        return err_set(err, HPARAMS_E_UNSUPPORTED, "%s: architecture '%s' is not supported: %s are", gguf_path(file),
                       shown.text, arch_names(known, sizeof(known)));
    reader.arch = read.arch->name;
    r = read_vocab(&reader, &read);
    if (r)
        return r;
    read.tied = !gguf_tensor(file, tensor_role_name(ROLE_OUTPUT));
    if ((r = read_u32(&reader, "block_count", 1, N_LAYERS_MAX, NULL, &read.n_layers)) ||
        (r = read_u32(&reader, "context_length", 1, CONTEXT_MAX, NULL, &read.n_context)) ||
        (r = read_u32(&reader, "embedding_length", 16, WIDTH_MAX, NULL, &read.n_embd)) ||
        (r = read_u32(&reader, "feed_forward_length", 16, WIDTH_MAX, NULL, &read.n_ff)) ||
        (r = read_f32(&reader, "attention.layer_norm_rms_epsilon", 0, 1, NULL, &eps)) ||
        (r = read_attention(&reader, &read)) || (r = read_rope(&reader, &read)) || (r = read_gemma(&reader, &read)) ||
        (r = hparams_keys_check(file, reader.arch, err)))
        return r;
    if (read.n_embd % 16 || read.n_ff % 16)
        return err_set(err, HPARAMS_E_UNSUPPORTED,
                       "%s: embedding length %u and feed-forward length %u must be multiples of 16", gguf_path(file),
                       read.n_embd, read.n_ff);
    read.norm_eps = (float)eps;
    *hparams = read;
    return 0;
}

uint32_t hparams_dim(const Hparams *hparams, Dim dim) {
    switch (dim) {
    case DIM_EMBD:
        return hparams->n_embd;
    case DIM_HEADS:
        return hparams->n_heads * hparams->head_size;
    case DIM_KV:
        return hparams->n_kv_heads * hparams->head_size;
    case DIM_FF:
        return hparams->n_ff;
    case DIM_VOCAB:
        return hparams->n_vocab;
    case DIM_HEAD:
        return hparams->head_size;
    case DIM_ROT_HALF:
        return hparams->n_rot / 2;
    case DIM_NONE:
        break;
    }
    return 1;
}

bool hparams_layer_is_local(const Hparams *hparams, uint32_t layer) {
    return hparams->window && layer % hparams->window_pattern < hparams->window_pattern - 1;
}

uint64_t hparams_read_positions(const Hparams *hparams, uint64_t n_positions) {
    uint64_t sum = 0;

    for (uint32_t i = 0; i < hparams->n_layers; i++) {
        bool cut = hparams_layer_is_local(hparams, i) && n_positions > hparams->window;

        sum += cut ? hparams->window : n_positions;
    }
    return sum;
}

static int each_of(const ArchTensor *tensors, size_t n, int layer, HparamsTensorFn *fn, void *arg) {
    for (size_t i = 0; i < n; i++) {
        int r = fn(arg, &tensors[i], layer);

        if (r)
            return r;
    }
    return 0;
}

int hparams_each_tensor(const Hparams *hparams, HparamsTensorFn *fn, void *arg) {
    const Arch *arch = hparams->arch;
    int r;

    r = each_of(arch->first, arch->n_first, -1, fn, arg);
    for (uint32_t layer = 0; !r && layer < hparams->n_layers; layer++)
        r = each_of(arch->layer, arch->n_layer, (int)layer, fn, arg);
    return r ? r : each_of(arch->last, arch->n_last, -1, fn, arg);
}

typedef struct TensorCheck {
    const Hparams *hparams;
    const GgufFile *file;
    ErrText *err;
    size_t n_found;
} TensorCheck;

static int check_tensor(void *arg, const ArchTensor *expected, int layer) {
    TensorCheck *check = arg;
    uint64_t in = hparams_dim(check->hparams, expected->in), out = hparams_dim(check->hparams, expected->out);
    const GgufTensor *tensor;
    char name[64];

    tensor = gguf_tensor(check->file, tensor_name(expected->role, layer, name, sizeof(name)));
    if (!tensor) {
        if (expected->optional)
            return 0;
        return err_set(check->err, HPARAMS_E_CORRUPT, "%s: tensor '%s' is missing", gguf_path(check->file), name);
    }
    check->n_found++;
    if (tensor->ne[0] != in || tensor->ne[1] != out || tensor->ne[2] != 1 || tensor->ne[3] != 1)
        return err_set(check->err, HPARAMS_E_CORRUPT,
                       "%s: tensor '%s' is %" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64
                       ", but the metadata asks for %" PRIu64 " x %" PRIu64,
                       gguf_path(check->file), name, tensor->ne[0], tensor->ne[1], tensor->ne[2], tensor->ne[3], in,
                       out);
    if (!ggml_type_dequantizable(tensor->type))
        return err_set(check->err, HPARAMS_E_UNSUPPORTED, "%s: tensor '%s' has type %s, which is not supported",
                       gguf_path(check->file), name, ggml_type_name(tensor->type) ? ggml_type_name(tensor->type) : "?");
    return 0;
}

static bool is_one_of(const ArchTensor *tensors, size_t n, int layer, const char *name) {
    char known[64];

    for (size_t i = 0; i < n; i++)
        if (!strcmp(name, tensor_name(tensors[i].role, layer, known, sizeof(known))))
            return true;
    return false;
}

static bool is_known(const Hparams *hparams, const char *name) {
    const Arch *arch = hparams->arch;
    unsigned long layer;

    if (strncmp(name, "blk.", 4))
        return is_one_of(arch->first, arch->n_first, -1, name) || is_one_of(arch->last, arch->n_last, -1, name);
    layer = strtoul(name + 4, NULL, 10);
    return layer < hparams->n_layers && is_one_of(arch->layer, arch->n_layer, (int)layer, name);
}

/* Of a source GGUF; a package checks its own. Return: 0, HPARAMS_E_CORRUPT, HPARAMS_E_UNSUPPORTED. */
int hparams_check_tensors(const Hparams *hparams, const GgufFile *file, ErrText *err) {
    TensorCheck check = { .hparams = hparams, .file = file, .err = err };
    int r;

    r = hparams_each_tensor(hparams, check_tensor, &check);
    if (r || check.n_found == gguf_n_tensors(file))
        return r;
    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        const GgufTensor *tensor = gguf_tensor_at(file, i);

        if (!is_known(hparams, tensor->name))
            return err_set(err, HPARAMS_E_UNSUPPORTED,
                           "%s: tensor '%s' is not part of the %s architecture as it is supported here",
                           gguf_path(file), tensor->name, hparams->arch->name);
    }
    return 0;
}
