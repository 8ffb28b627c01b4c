// SPDX-License-Identifier: Apache-2.0
#include "model/hparams/hparams_keys.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/strings/printable.h"
#include "model/hparams/hparams.h"

#define WARNINGS_MAX 16 /* lines in the log for one file, which may have very many keys */

typedef struct KnownKey {
    const char *suffix; /* behind "ARCH." */
    KeyKind kind;
    const char *asks_for; /* values without effect; others are refused. NULL: no value is refused here */
    double neutral, also_neutral;
    uint32_t reads; /* ArchReads: for architectures with this bit, hparams_read.c reads the key and checks the value */
} KnownKey;

#define READ_BY_ALL UINT32_MAX

/* READ: hparams_read.c or hparams_rope.c checks the value. UNUSED: no value changes the result. */
#define READ(suffix, kind)                                                                                             \
    { suffix, kind, NULL, 0, 0, READ_BY_ALL }
#define UNUSED(suffix, kind)                                                                                           \
    { suffix, kind, NULL, 0, 0, 0 }
#define NEUTRAL(suffix, kind, value, asks_for)                                                                         \
    { suffix, kind, asks_for, value, value, 0 }

static const KnownKey known_keys[] = {
    READ("block_count", KEY_INTEGER),
    READ("context_length", KEY_INTEGER),
    READ("embedding_length", KEY_INTEGER),
    READ("feed_forward_length", KEY_INTEGER),
    READ("attention.head_count", KEY_INTEGER),
    READ("attention.head_count_kv", KEY_INTEGER),
    READ("attention.key_length", KEY_INTEGER),
    READ("attention.value_length", KEY_INTEGER),
    READ("attention.layer_norm_rms_epsilon", KEY_NUMBER), /* each norm of an architecture has one of the two */
    READ("attention.layer_norm_epsilon", KEY_NUMBER),
    READ("attention.sliding_window", KEY_INTEGER),
    READ("pooling_type", KEY_INTEGER),
    READ("rope.dimension_count", KEY_INTEGER),
    READ("rope.freq_base", KEY_NUMBER),
    READ("rope.freq_base_swa", KEY_NUMBER),
    READ("rope.global.freq_base", KEY_NUMBER),
    READ("rope.local.freq_base", KEY_NUMBER),
    READ("rope.scale_linear", KEY_NUMBER),
    READ("rope.scaling.type", KEY_STRING),
    READ("rope.scaling.factor", KEY_NUMBER),
    READ("rope.scaling.original_context_length", KEY_INTEGER),
    READ("rope.scaling.attn_factor", KEY_NUMBER),
    READ("rope.scaling.yarn_attn_factor", KEY_NUMBER),
    READ("rope.scaling.yarn_ext_factor", KEY_NUMBER),
    READ("rope.scaling.yarn_log_multiplier", KEY_NUMBER),
    READ("rope.scaling.yarn_beta_fast", KEY_NUMBER),
    READ("rope.scaling.yarn_beta_slow", KEY_NUMBER),
    /* Layers without a window have no pattern: only gemma2 and gemma3 read it, a number or a list. */
    READ("attention.sliding_window_pattern", KEY_ANY),

    UNUSED("vocab_size", KEY_INTEGER), /* the rows of the embedding count instead */
    UNUSED("tensor_data_layout", KEY_STRING),
    UNUSED("attention.temperature_length", KEY_INTEGER), /* of attention.temperature_scale */
    UNUSED("rope.scaling.finetuned", KEY_BOOL),

    { "rope.scaling.alpha", KEY_NUMBER, "context extension by another rotary base", 0, 1, 0 },
    NEUTRAL("attention.causal", KEY_BOOL, 1, "attention to what follows, as of embedding models"),
    NEUTRAL("attention.clamp_kqv", KEY_NUMBER, 0, "clamped queries, keys and values"),
    NEUTRAL("attention.max_alibi_bias", KEY_NUMBER, 0, "ALiBi positions"),
    NEUTRAL("attention.scale", KEY_NUMBER, 0, "another scale of the attention"),
    NEUTRAL("attention.output_scale", KEY_NUMBER, 0, "a scale of the attention's output"),
    NEUTRAL("attention.temperature_scale", KEY_NUMBER, 0, "attention scaled with the position"),
    NEUTRAL("attention.q_lora_rank", KEY_INTEGER, 0, "multi-head latent attention"),
    NEUTRAL("attention.kv_lora_rank", KEY_INTEGER, 0, "multi-head latent attention"),
    NEUTRAL("attention.shared_kv_layers", KEY_INTEGER, 0, "layers that share keys and values"),
    { "attn_logit_softcapping", KEY_NUMBER, "soft-capped attention", 0, 0, ARCH_READS_ATTENTION_CAP },
    { "final_logit_softcapping", KEY_NUMBER, "soft-capped logits", 0, 0, ARCH_READS_LOGIT_CAP },
    NEUTRAL("router_logit_softcapping", KEY_NUMBER, 0, "a mixture of experts"),
    { "logit_scale", KEY_NUMBER, "scaled logits", 0, 1, 0 },
    { "residual_scale", KEY_NUMBER, "a scaled residual", 0, 1, 0 },
    NEUTRAL("embedding_scale", KEY_NUMBER, 0, "another scale of the embedding"), /* 1 is not neutral to gemma3 */
    NEUTRAL("expert_count", KEY_INTEGER, 0, "a mixture of experts"),
    NEUTRAL("expert_used_count", KEY_INTEGER, 0, "a mixture of experts"),
    NEUTRAL("expert_shared_count", KEY_INTEGER, 0, "a mixture of experts"),
    NEUTRAL("expert_feed_forward_length", KEY_INTEGER, 0, "a mixture of experts"),
    NEUTRAL("expert_shared_feed_forward_length", KEY_INTEGER, 0, "a mixture of experts"),
    NEUTRAL("nextn_predict_layers", KEY_INTEGER, 0, "layers that predict further tokens"),
    NEUTRAL("use_parallel_residual", KEY_BOOL, 0, "attention beside the feed-forward"),
    NEUTRAL("swin_norm", KEY_BOOL, 0, "norms behind the layers"),
    NEUTRAL("rescale_every_n_layers", KEY_INTEGER, 0, "rescaled layers"),
};

const char *hparams_key_at(size_t index, KeyKind *kindp) {
    if (index >= ARRAY_LEN(known_keys))
        return NULL;
    *kindp = known_keys[index].kind;
    return known_keys[index].suffix;
}

/* Gets the value as a number, if it is one. Return: 0, GGUF_E_* with key, type found and type wanted. */
static int get_value(const GgufFile *file, const char *name, KeyKind kind, double *valuep, ErrText *err) {
    GgufString string;
    int64_t integer = 0;
    float number = 0;
    bool boolean = false;
    int r = 0;

    switch (kind) {
    case KEY_INTEGER:
        r = gguf_get_i64(file, name, &integer, err);
        *valuep = (double)integer;
        break;
    case KEY_NUMBER:
        r = gguf_get_f32(file, name, &number, err);
        *valuep = number;
        break;
    case KEY_BOOL:
        r = gguf_get_bool(file, name, &boolean, err);
        *valuep = boolean;
        break;
    case KEY_STRING:
        r = gguf_get_string(file, name, &string, err);
        break;
    case KEY_ANY:
        break;
    }
    return r;
}

static bool is_read(const KnownKey *known, const Arch *arch) {
    return known->reads == READ_BY_ALL || known->reads & arch->reads;
}

/* Checks the type, and refuses a value that asks for an unsupported feature. */
static int check_key(const GgufFile *file, const Arch *arch, const KnownKey *known, ErrText *err) {
    double value = 0;
    char name[128], shown[32];
    int r;

    snprintf(name, sizeof(name), "%s.%s", arch->name, known->suffix);
    if (!gguf_key(file, name))
        return 0;
    r = get_value(file, name, known->kind, &value, err);
    if (r)
        return r < 0 ? r : HPARAMS_E_CORRUPT;
    if (!known->asks_for || is_read(known, arch) || value == known->neutral || value == known->also_neutral)
        return 0;
    snprintf(shown, sizeof(shown), "%g", value);
    return err_set(err, HPARAMS_E_UNSUPPORTED,
                   "%s: key '%s' = %s asks for %s, which is not supported: use a version of the model without it",
                   gguf_path(file), name, known->kind == KEY_BOOL ? value != 0 ? "true" : "false" : shown,
                   known->asks_for);
}

int hparams_keys_check(const GgufFile *file, const Arch *arch, ErrText *err) {
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(known_keys) && !r; i++)
        r = check_key(file, arch, &known_keys[i], err);
    return r;
}

static const KnownKey *find_known(const GgufString *suffix) {
    for (size_t i = 0; i < ARRAY_LEN(known_keys); i++)
        if (strlen(known_keys[i].suffix) == suffix->len_bytes &&
            !memcmp(known_keys[i].suffix, suffix->data, suffix->len_bytes))
            return &known_keys[i];
    return NULL;
}

/* Finds the table's row for a key "ARCH.suffix". */
static bool suffix_of(const GgufString *name, const char *arch, GgufString *suffix) {
    const size_t arch_bytes = strlen(arch);

    if (name->len_bytes <= arch_bytes || memcmp(name->data, arch, arch_bytes) || name->data[arch_bytes] != '.')
        return false;
    *suffix = (GgufString){ name->data + arch_bytes + 1, name->len_bytes - arch_bytes - 1 };
    return true;
}

KeyFate hparams_key_fate(const GgufFile *file, const Arch *arch, const GgufString *name, ErrText *why) {
    const KnownKey *known;
    GgufString suffix;

    if (!suffix_of(name, arch->name, &suffix))
        return KEY_FATE_OTHER;
    known = find_known(&suffix);
    if (!known)
        return KEY_FATE_UNKNOWN;
    if (check_key(file, arch, known, why))
        return KEY_FATE_REFUSED;
    return is_read(known, arch) ? KEY_FATE_READ : KEY_FATE_NO_EFFECT;
}

void hparams_keys_warn(const GgufFile *file, const char *arch) {
    size_t n_unknown = 0;

    for (size_t i = 0; i < gguf_n_keys(file); i++) {
        const GgufString *name = &gguf_key_at(file, i)->name;
        GgufString suffix;
        Printable shown;

        if (suffix_of(name, arch, &suffix) && !find_known(&suffix) && n_unknown++ < WARNINGS_MAX)
            log_warn(TOPIC_MODEL,
                     "%s: key '%s' is not known here and has no effect: answers may differ from what the model was "
                     "made for",
                     gguf_path(file), printable(&shown, name->data, name->len_bytes));
    }
    if (n_unknown > WARNINGS_MAX)
        log_warn(TOPIC_MODEL, "%s: %zu more keys of '%s' are not known here and have no effect", gguf_path(file),
                 n_unknown - WARNINGS_MAX, arch);
}
