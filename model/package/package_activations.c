// SPDX-License-Identifier: Apache-2.0
#include "model/package/package_activations.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/strings/printable.h"
#include "model/package/package.h"

/* Gets a percentage. */
static int get_percent(const PackageCheck *check, const char *key, float *percentp) {
    const GgufFile *file = check->package->file;
    int r;

    r = gguf_get_f32(file, key, percentp, check->err);
    if (r)
        return package_key_error(r);
    if (!(*percentp >= 0 && *percentp <= 100))
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: key '%s' is %g: 0 to 100 percent are possible",
                       gguf_path(file), key, (double)*percentp);
    return 0;
}

int package_check_activation_mode(const PackageCheck *check) {
    const GgufFile *file = check->package->file;
    PackageQuant *quant = &check->package->quant;
    GgufString mode;
    Printable shown;
    int r;

    r = gguf_get_string(file, PACKAGE_KEY_ACTIVATION_MODE, &mode, check->err);
    if (r)
        return package_key_error(r);
    quant->static_activations = package_string_is(mode, PACKAGE_ACTIVATION_STATIC_TENSOR);
    if (!quant->static_activations && !package_string_is(mode, PACKAGE_ACTIVATION_DYNAMIC_ROW))
        return err_set(check->err, PACKAGE_E_UNSUPPORTED,
                       "%s: key '%s' is '%s', this program knows '%s' and '%s': import the model again with this "
                       "version",
                       gguf_path(file), PACKAGE_KEY_ACTIVATION_MODE, printable(&shown, mode.data, mode.len_bytes),
                       PACKAGE_ACTIVATION_DYNAMIC_ROW, PACKAGE_ACTIVATION_STATIC_TENSOR);
    if (!quant->static_activations)
        return 0;
    r = get_percent(check, PACKAGE_KEY_HOT_PERCENT, &quant->hot_percent);
    return r ? r : get_percent(check, PACKAGE_KEY_PRUNE_PERCENT, &quant->prune_percent);
}

static int get_hot_channels(PackageCheck *check) {
    Package *package = check->package;
    int r;

    r = gguf_get_integers(package->file, PACKAGE_KEY_HOT_CHANNELS, 0, UINT32_MAX, &check->hot_channels, check->err);
    if (r)
        return package_key_error(r);
    package->hot = calloc(check->hot_channels->n + 1, sizeof(*package->hot));
    if (!package->hot)
        return err_set(check->err, -ENOMEM, "%s: out of memory for %" PRIu64 " hot channels", gguf_path(package->file),
                       check->hot_channels->n);
    for (uint64_t i = 0; i < check->hot_channels->n; i++)
        package->hot[i] = (uint32_t)gguf_array_i64(check->hot_channels, i);
    return 0;
}

int package_check_activation_arrays(PackageCheck *check) {
    const struct {
        const char *key;
        PackageList type;
        const GgufArray **arrayp;
    } arrays[] = {
        { PACKAGE_KEY_LINEAR_ACTIVATION_SCALES, PACKAGE_LIST_NUMBERS, &check->activation_scales },
        { PACKAGE_KEY_LINEAR_OUTLIERS, PACKAGE_LIST_STRINGS, &check->outliers },
        { PACKAGE_KEY_LINEAR_IMPORTANCE, PACKAGE_LIST_NUMBERS, &check->importance },
        { PACKAGE_KEY_LINEAR_HOT_COUNTS, PACKAGE_LIST_COUNTS, &check->hot_counts },
    };
    int r;

    for (size_t i = 0; i < ARRAY_LEN(arrays); i++) {
        r = package_get_list(check, arrays[i].key, arrays[i].type, arrays[i].arrayp);
        if (r)
            return r;
    }
    return get_hot_channels(check);
}

/* Takes the next hot_counts[index] of the hot channels for this linear. */
static int take_hot(PackageCheck *check, size_t index, PackageLinear *linear) {
    const char *path = gguf_path(check->package->file);
    uint32_t n_hot = (uint32_t)gguf_array_i64(check->hot_counts, index);
    const uint32_t *hot = check->package->hot + check->n_hot;

    if (n_hot > check->hot_channels->n - check->n_hot || (n_hot && !linear->activations.shadow))
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: linear '%s': %u hot channels are more than there are", path,
                       linear->name, n_hot);
    for (uint32_t i = 0; i < n_hot; i++)
        if (hot[i] >= linear->k || (i && hot[i] <= hot[i - 1]))
            return err_set(check->err, PACKAGE_E_CORRUPT,
                           "%s: linear '%s': hot channel %u: they rise, and are below the %zu inputs", path,
                           linear->name, hot[i], linear->k);
    linear->activations.hot = hot;
    linear->activations.n_hot = n_hot;
    check->n_hot += n_hot;
    return 0;
}

static int check_columns(PackageCheck *check, PackageLinear *linear) {
    char name[GGUF_TENSOR_NAME_MAX + 16];
    const GgufTensor *columns;
    int r;

    snprintf(name, sizeof(name), "%s.columns", linear->name);
    r = package_find_tensor(check, name, GGML_I8, linear->n, linear->k, &columns);
    if (r)
        return r;
    linear->activations.columns = (const int8_t *)columns->data;
    linear->activations.columns_offset_bytes = columns->offset_bytes;
    return 0;
}

static int check_static(PackageCheck *check, size_t index, PackageLinear *linear) {
    const char *path = gguf_path(check->package->file);
    GgufString outliers = check->outliers->strings[index];
    PackageActivations *activations = &linear->activations;
    Printable shown;
    int r;

    activations->scale = gguf_array_f32(check->activation_scales, index);
    activations->importance = gguf_array_f32(check->importance, index);
    activations->shadow = package_string_is(outliers, PACKAGE_OUTLIERS_SHADOW);
    if (!activations->shadow && !package_string_is(outliers, PACKAGE_OUTLIERS_CLIPPED))
        return err_set(check->err, PACKAGE_E_UNSUPPORTED,
                       "%s: linear '%s' has outliers '%s', this program knows '%s' and '%s'", path, linear->name,
                       printable(&shown, outliers.data, outliers.len_bytes), PACKAGE_OUTLIERS_CLIPPED,
                       PACKAGE_OUTLIERS_SHADOW);
    if (!(activations->scale >= PACKAGE_SCALE_MIN && activations->scale <= PACKAGE_SCALE_MAX) ||
        !(activations->importance >= 0 && isfinite(activations->importance)))
        return err_set(check->err, PACKAGE_E_CORRUPT,
                       "%s: linear '%s' has activations of scale %g and importance %g: neither can be", path,
                       linear->name, (double)activations->scale, (double)activations->importance);
    r = take_hot(check, index, linear);
    if (!r && activations->shadow)
        r = check_columns(check, linear);
    return r;
}

/* Whether a dynamic-row linear in a package of mode static-tensor has no scale, importance or outliers. */
static bool is_blank(const PackageCheck *check, size_t index) {
    return !check->package->quant.static_activations ||
           (gguf_array_f32(check->activation_scales, index) == 0 && gguf_array_f32(check->importance, index) == 0 &&
            gguf_array_i64(check->hot_counts, index) == 0 &&
            package_string_is(check->outliers->strings[index], PACKAGE_OUTLIERS_NONE));
}

int package_check_activations(PackageCheck *check, size_t index, PackageLinear *linear, bool is_embedding) {
    bool is_static = check->package->quant.static_activations && !is_embedding;
    const char *expected = is_static ? PACKAGE_ACTIVATION_STATIC_TENSOR : PACKAGE_ACTIVATION_DYNAMIC_ROW;
    GgufString activations = check->activations->strings[index];
    Printable shown;

    if (!package_string_is(activations, expected))
        return err_set(check->err, PACKAGE_E_UNSUPPORTED,
                       "%s: linear '%s' has activations '%s', this program knows '%s' there",
                       gguf_path(check->package->file), linear->name,
                       printable(&shown, activations.data, activations.len_bytes), expected);
    if (is_static)
        return check_static(check, index, linear);
    return is_blank(check, index)
               ? 0
               : err_set(check->err, PACKAGE_E_CORRUPT, "%s: linear '%s' is '%s', but has a scale or outliers",
                         gguf_path(check->package->file), linear->name, expected);
}

static bool share_input(const PackageLinear *a, const PackageLinear *b) {
    const PackageActivations *of_a = &a->activations, *of_b = &b->activations;

    return a->rotation_block == b->rotation_block && !memcmp(&of_a->scale, &of_b->scale, sizeof(of_a->scale)) &&
           of_a->shadow == of_b->shadow && of_a->n_hot == of_b->n_hot &&
           (!of_a->n_hot || !memcmp(of_a->hot, of_b->hot, of_a->n_hot * sizeof(*of_a->hot)));
}

/**
 * package_check_operators() - check that linears with the same input agree about it, because a device quantizes it
 * once
 */
int package_check_operators(const PackageCheck *check) {
    const Arch *arch = check->package->hparams.arch;
    char name[GGUF_TENSOR_NAME_MAX];
    PackageLinear first, other;

    if (check->hot_channels && check->n_hot != check->hot_channels->n)
        return err_set(check->err, PACKAGE_E_CORRUPT,
                       "%s: key '%s' has %" PRIu64 " elements, the linears have %" PRIu64,
                       gguf_path(check->package->file), PACKAGE_KEY_HOT_CHANNELS, check->hot_channels->n, check->n_hot);
    for (uint32_t layer = 0; layer < check->package->hparams.n_layers; layer++)
        for (size_t i = 0; i < arch->n_ops; i++) {
            const ArchOp *op = &arch->ops[i];

            for (size_t w = 0; op->kind == OP_LINEAR && w < op->n; w++) {
                int r = package_linear(check->package, tensor_name(op->w[w], (int)layer, name, sizeof(name)),
                                       w ? &other : &first, check->err);

                if (r)
                    return r;
                if (w && !share_input(&first, &other))
                    return err_set(check->err, PACKAGE_E_CORRUPT,
                                   "%s: linears '%s' and '%s' share their input, but not its rotation, scale or "
                                   "outliers",
                                   gguf_path(check->package->file), first.name, other.name);
            }
        }
    return 0;
}
