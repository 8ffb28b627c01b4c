// SPDX-License-Identifier: Apache-2.0
/* Reads rotary positions: base, rotated dimensions, and the ways to stretch a context (linear, YaRN, the divisors of
 * Llama 3 and of long RoPE), as llama.cpp does. */
#include "model/hparams/hparams_rope.h"

#include <stdio.h>
#include <string.h>

#include "base/strings/printable.h"

#define BASE_MAX 1e12
#define FACTOR_MAX 1e6
#define MAGNITUDE_MAX 1e3

/* Checks another name of a number that was read, or that has a default: the value must be equal. */
static int check_same(const KeyReader *reader, const char *suffix, double expected, const char *read_from) {
    double value = expected;
    int r;

    r = key_reader_f32(reader, suffix, 1, BASE_MAX, &expected, &value);
    if (r || value == expected)
        return r;
    return err_set(reader->err, HPARAMS_E_UNSUPPORTED,
                   "%s: key '%s.%s' is %g, but '%s.%s' is read and gives %g: set that key to the same",
                   gguf_path(reader->file), reader->arch, suffix, value, reader->arch, read_from, expected);
}

static int read_bases(const KeyReader *reader, Hparams *hparams) {
    static const double default_base = 10000;
    int r;

    r = key_reader_f32(reader, "rope.freq_base", 1, BASE_MAX, &default_base, &hparams->rope.global.base);
    if (!r)
        r = key_reader_f32(reader, "rope.freq_base_swa", 1, BASE_MAX,
                           hparams->arch->has_local_rope ? &default_base : &hparams->rope.global.base,
                           &hparams->rope.local.base);
    if (!r)
        r = check_same(reader, "rope.global.freq_base", hparams->rope.global.base, "rope.freq_base");
    return r ? r : check_same(reader, "rope.local.freq_base", hparams->rope.local.base, "rope.freq_base_swa");
}

static int read_dimensions(const KeyReader *reader, Hparams *hparams) {
    int r = key_reader_u32(reader, "rope.dimension_count", 2, hparams->head_size, &hparams->head_size, &hparams->n_rot);

    if (r || hparams->n_rot % 2 == 0)
        return r;
    return err_set(reader->err, HPARAMS_E_CORRUPT, "%s: key '%s.rope.dimension_count' is %u, an odd number",
                   gguf_path(reader->file), reader->arch, hparams->n_rot);
}

typedef enum Scaling {
    SCALING_NONE,
    SCALING_LINEAR,
    SCALING_YARN,
    SCALING_LONG,
    _SCALING_N,
} Scaling;

static int read_type(const KeyReader *reader, Scaling *scalingp) {
    static const char *const names[_SCALING_N] = { "none", "linear", "yarn", "longrope" };
    GgufString type = { 0 };
    char name[KEY_READER_NAME_MAX];
    Printable shown;
    int r;

    r = gguf_get_string(reader->file, key_reader_name(reader, "rope.scaling.type", name), &type, reader->err);
    if (r == GGUF_E_MISSING || (!r && !type.len_bytes)) {
        *scalingp = SCALING_LINEAR;
        return 0;
    }
    if (r)
        return r < 0 ? r : HPARAMS_E_CORRUPT;
    for (Scaling scaling = SCALING_NONE; scaling < _SCALING_N; scaling++)
        if (strlen(names[scaling]) == type.len_bytes && !memcmp(names[scaling], type.data, type.len_bytes)) {
            *scalingp = scaling;
            return 0;
        }
    return err_set(reader->err, HPARAMS_E_UNSUPPORTED,
                   "%s: key '%s' is '%s': only 'none', 'linear', 'yarn' and 'longrope' context extension are supported",
                   gguf_path(reader->file), name, printable(&shown, type.data, type.len_bytes));
}

/* Reads a factor of the context's length; 0 means none. */
static int read_stretch(const KeyReader *reader, const char *suffix, const double *fallback, double *factorp) {
    double factor;
    int r = key_reader_f32(reader, suffix, 0, FACTOR_MAX, fallback, &factor);

    if (r)
        return r;
    if (factor > 0 && factor < 1)
        return err_set(reader->err, HPARAMS_E_CORRUPT, "%s: key '%s.%s' is %g, which is outside 1..%g",
                       gguf_path(reader->file), reader->arch, suffix, factor, FACTOR_MAX);
    *factorp = factor > 0 ? factor : 1;
    return 0;
}

static int read_factor(const KeyReader *reader, Scaling scaling, double *factorp) {
    static const double one = 1;
    double factor = 1;
    int r;

    *factorp = 1;
    if (scaling == SCALING_NONE)
        return 0;
    r = read_stretch(reader, "rope.scale_linear", &one, &factor); /* the name in older files */
    return r ? r : read_stretch(reader, "rope.scaling.factor", &factor, factorp);
}

/* Reads the factors of the length of queries and keys. */
static int read_magnitudes(const KeyReader *reader, Hparams *hparams) {
    static const double zero = 0, one = 1;
    int r;

    r = key_reader_f32(reader, "rope.scaling.attn_factor", 0, MAGNITUDE_MAX, &one, &hparams->rope.magnitude);
    if (!r)
        r = key_reader_f32(reader, "rope.scaling.yarn_attn_factor", 0, MAGNITUDE_MAX, &one,
                           &hparams->rope.yarn.magnitude);
    return r ? r
             : key_reader_f32(reader, "rope.scaling.yarn_log_multiplier", 0, MAGNITUDE_MAX, &zero,
                              &hparams->rope.yarn.log_multiplier);
}

static int read_yarn(const KeyReader *reader, Scaling scaling, Hparams *hparams) {
    static const double fast = 32, slow = 1;
    const double as_type = scaling == SCALING_YARN;
    int r;

    r = key_reader_f32(reader, "rope.scaling.yarn_ext_factor", -1, 1, &as_type, &hparams->rope.yarn.share);
    if (!r && hparams->rope.yarn.share < 0) /* "not set" */
        hparams->rope.yarn.share = as_type;
    if (!r)
        r = key_reader_f32(reader, "rope.scaling.yarn_beta_fast", 1e-3, 1e6, &fast, &hparams->rope.yarn.fast);
    if (!r)
        r = key_reader_f32(reader, "rope.scaling.yarn_beta_slow", 1e-3, 1e6, &slow, &hparams->rope.yarn.slow);
    if (!r && hparams->rope.yarn.share > 0 && hparams->rope.global.base <= 1)
        return err_set(reader->err, HPARAMS_E_CORRUPT, "%s: key '%s.rope.freq_base' is 1, which YaRN cannot stretch",
                       gguf_path(reader->file), reader->arch);
    return r ? r : read_magnitudes(reader, hparams);
}

/* Chooses the divisors of long RoPE: for contexts up to the original one, or for longer ones. The set for this context
 * must be there if the type asks for it. */
static int read_long(const KeyReader *reader, Scaling scaling, Hparams *hparams) {
    const TensorRole role =
        hparams->n_context > hparams->rope.original ? ROLE_ROPE_FACTORS_LONG : ROLE_ROPE_FACTORS_SHORT;
    const bool has_freqs = gguf_tensor(reader->file, tensor_role_name(ROLE_ROPE_FREQS));
    const bool has_factors = gguf_tensor(reader->file, tensor_role_name(ROLE_ROPE_FACTORS_LONG)) ||
                             gguf_tensor(reader->file, tensor_role_name(ROLE_ROPE_FACTORS_SHORT));

    hparams->rope.divisors = has_freqs ? ROLE_ROPE_FREQS : has_factors ? role : ROLE_NONE;
    if ((scaling != SCALING_LONG && !has_factors) || has_freqs || gguf_tensor(reader->file, tensor_role_name(role)))
        return 0;
    return err_set(reader->err, HPARAMS_E_CORRUPT,
                   "%s: tensor '%s' is missing: a context of %u positions, trained on %u, needs it",
                   gguf_path(reader->file), tensor_role_name(role), hparams->n_context, hparams->rope.original);
}

int hparams_read_rope(const KeyReader *reader, Hparams *hparams) {
    Scaling scaling;
    double factor;
    int r;

    if ((r = read_bases(reader, hparams)) || (r = read_dimensions(reader, hparams)) ||
        (r = read_type(reader, &scaling)) || (r = read_factor(reader, scaling, &factor)) ||
        (r = key_reader_u32(reader, "rope.scaling.original_context_length", 0, UINT32_MAX, &hparams->n_context,
                            &hparams->rope.original)) ||
        (r = read_yarn(reader, scaling, hparams)))
        return r;
    if (!hparams->rope.original) /* 0 counts as a missing key */
        hparams->rope.original = hparams->n_context;
    hparams->rope.global.position_scale = 1 / factor;
    hparams->rope.local.position_scale = hparams->arch->has_local_rope ? 1 : 1 / factor;
    hparams->rope.has_local = hparams->arch->has_local_rope || hparams->rope.local.base != hparams->rope.global.base;
    return read_long(reader, scaling, hparams);
}
