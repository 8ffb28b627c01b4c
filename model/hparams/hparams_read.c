// SPDX-License-Identifier: Apache-2.0
/* Reads the hyper-parameters of a model file: all keys except those of rotary positions (hparams_rope.c). */
#include <inttypes.h>
#include <math.h>

#include "base/strings/printable.h"
#include "model/hparams/hparams.h"
#include "model/hparams/hparams_keys.h"
#include "model/hparams/hparams_rope.h"

#define WIDTH_MAX 131072 /* inputs of a product: an int32 sum of int8 products cannot overflow */
#define HEADS_MAX 1024
#define HEAD_SIZE_MAX 1024
#define VOCAB_MAX (1u << 21)
#define CAP_MAX 1e6
#define CONTEXT_MAX (1u << 20) /* rotary tables are exact below it */

static int read_attention(const KeyReader *reader, Hparams *hparams) {
    uint32_t value_size, head_fallback;
    int r;

    r = key_reader_u32(reader, "attention.head_count", 1, HEADS_MAX, NULL, &hparams->n_heads);
    if (r)
        return r;
    r = key_reader_u32(reader, "attention.head_count_kv", 1, hparams->n_heads, &hparams->n_heads, &hparams->n_kv_heads);
    if (r)
        return r;
    if (hparams->n_heads % hparams->n_kv_heads)
        return err_set(reader->err, HPARAMS_E_CORRUPT,
                       "%s: %u query heads cannot share %u key-value heads ('%s.attention.head_count_kv')",
                       gguf_path(reader->file), hparams->n_heads, hparams->n_kv_heads, reader->arch);
    head_fallback = hparams->n_embd / hparams->n_heads;
    r = key_reader_u32(reader, "attention.key_length", 1, HEAD_SIZE_MAX, &head_fallback, &hparams->head_size);
    if (r)
        return r;
    r = key_reader_u32(reader, "attention.value_length", 1, HEAD_SIZE_MAX, &hparams->head_size, &value_size);
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

/* Refuses a window for an architecture whose layers see all positions, unless the window covers the whole context. */
static int check_no_window(const KeyReader *reader, const Hparams *hparams, uint32_t window) {
    if (!window || window >= hparams->n_context)
        return 0;
    return err_set(
        reader->err, HPARAMS_E_UNSUPPORTED,
        "%s: key '%s.attention.sliding_window' is %u, and the context has %u positions: windows are not supported "
        "for %s: use a version of the model without one",
        gguf_path(reader->file), reader->arch, window, hparams->n_context, reader->arch);
}

/* Reads which layers are local, from a list of flags. */
static int read_window_list(const KeyReader *reader, Hparams *hparams) {
    const GgufArray *array;
    char name[KEY_READER_NAME_MAX];
    int r;

    r = gguf_get_integers(reader->file, key_reader_name(reader, "attention.sliding_window_pattern", name), 0, 1, &array,
                          reader->err);
    if (r)
        return r < 0 ? r : HPARAMS_E_CORRUPT;
    if (array->n != hparams->n_layers)
        return err_set(reader->err, HPARAMS_E_CORRUPT,
                       "%s: key '%s' has %" PRIu64 " elements for %" PRIu32
                       " layers; they must be as many: convert the model again",
                       gguf_path(reader->file), name, array->n, hparams->n_layers);
    for (uint32_t layer = 0; layer < hparams->n_layers; layer++)
        hparams->window.list[layer / 64] |= (uint64_t)gguf_array_i64(array, layer) << layer % 64;
    hparams->window.has_list = true;
    return 0;
}

static int read_window_pattern(const KeyReader *reader, Hparams *hparams) {
    char name[KEY_READER_NAME_MAX];
    const GgufKey *key = gguf_key(reader->file, key_reader_name(reader, "attention.sliding_window_pattern", name));

    if (key && key->type == GGUF_ARRAY)
        return read_window_list(reader, hparams);
    return key_reader_u32(reader, "attention.sliding_window_pattern", 0, HPARAMS_LAYERS_MAX,
                          &hparams->arch->window.pattern, &hparams->window.pattern);
}

static int read_window(const KeyReader *reader, Hparams *hparams) {
    const Arch *arch = hparams->arch;
    uint32_t window;
    int r;

    r = key_reader_u32(reader, "attention.sliding_window", 0,
                       arch->window.kind == WINDOW_PATTERN ? CONTEXT_MAX : UINT32_MAX, &arch->window.positions,
                       &window);
    if (r)
        return r;
    if (arch->window.kind == WINDOW_NONE)
        return check_no_window(reader, hparams, window);
    if (arch->window.kind == WINDOW_PATTERN) {
        hparams->window.positions = window;
        return read_window_pattern(reader, hparams);
    }
    hparams->window.positions = window < hparams->n_context ? window : 0;
    return 0;
}

static int read_caps(const KeyReader *reader, Hparams *hparams) {
    const Arch *arch = hparams->arch;
    const double of_attention = (double)arch->attention_cap_default, of_logits = (double)arch->logit_cap_default;
    double cap = 0;
    int r = 0;

    if (arch->reads & ARCH_READS_ATTENTION_CAP)
        r = key_reader_f32(reader, "attn_logit_softcapping", 0, CAP_MAX, &of_attention, &cap);
    hparams->attention_cap = (float)cap;
    cap = 0;
    if (!r && arch->reads & ARCH_READS_LOGIT_CAP)
        r = key_reader_f32(reader, "final_logit_softcapping", 0, CAP_MAX, &of_logits, &cap);
    hparams->logit_cap = (float)cap;
    return r;
}

/* Sets scales that depend on the size of a family, not on a key. */
static void set_scales(Hparams *hparams) {
    if (hparams->arch->scales_embedding)
        hparams->embedding_scale = sqrtf((float)hparams->n_embd);
    if (hparams->arch->n_layers_wide && hparams->n_layers == hparams->arch->n_layers_wide)
        hparams->attention_scale = 1.0f / sqrtf((float)(hparams->n_embd / hparams->n_heads));
}

/* Counts the rows of the embedding. A package may hold it as opaque bytes (package_format.h): there its scales are
 * counted. */
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
 * hparams_read() - read the hyper-parameters of a model file
 * @hparams:  out; filled only when 0 is returned
 *
 * Return: 0, HPARAMS_E_UNSUPPORTED, HPARAMS_E_CORRUPT or -errno, with a text that names the key and the value.
 */
int hparams_read(Hparams *hparams, const GgufFile *file, ErrText *err) {
    Hparams read = { .embedding_scale = 1, .rope.global.position_scale = 1 };
    KeyReader reader = { .file = file, .err = err };
    char known[ARCH_NAMES_MAX];
    GgufString name;
    Printable shown;
    uint32_t pooling;
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
    r = key_reader_u32(&reader, "block_count", 1, HPARAMS_LAYERS_MAX, NULL, &read.n_layers);
    if (r)
        return r;
    reader.n_layers = read.n_layers;
    r = key_reader_u32(&reader, "pooling_type", 0, HPARAMS_POOLING_RANK, &(uint32_t){ HPARAMS_POOLING_NONE }, &pooling);
    if (r)
        return r;
    read.pooling = (HparamsPooling)pooling;
    if ((r = key_reader_u32(&reader, "context_length", 1, CONTEXT_MAX, NULL, &read.n_context)) ||
        (r = key_reader_u32(&reader, "embedding_length", 16, WIDTH_MAX, NULL, &read.n_embd)) ||
        (r = key_reader_u32(&reader, "feed_forward_length", 16, WIDTH_MAX, NULL, &read.n_ff)) ||
        (r = key_reader_f32(&reader,
                            read.arch->norm == NORM_LAYER ? "attention.layer_norm_epsilon"
                                                          : "attention.layer_norm_rms_epsilon",
                            0, 1, NULL, &eps)) ||
        (r = read_attention(&reader, &read)) || (r = hparams_read_rope(&reader, &read)) ||
        (r = read_window(&reader, &read)) || (r = read_caps(&reader, &read)) ||
        (r = hparams_keys_check(file, read.arch, err)))
        return r;
    if (read.n_embd % 16 || read.n_ff % 16)
        return err_set(err, HPARAMS_E_UNSUPPORTED,
                       "%s: embedding length %u and feed-forward length %u must be multiples of 16", gguf_path(file),
                       read.n_embd, read.n_ff);
    read.norm_eps = (float)eps;
    set_scales(&read);
    *hparams = read;
    return 0;
}
