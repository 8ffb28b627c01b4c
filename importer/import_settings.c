// SPDX-License-Identifier: Apache-2.0
#include "importer/import_settings.h"

#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file_io.h"
#include "base/min_max.h"
#include "base/strings/str_buf.h"

size_t import_steps(const QuantRecipe *recipe, const char *steps[IMPORT_STEPS_MAX]) {
    size_t n = 0;

    if (recipe->rotate)
        steps[n++] = "rotation";
    if (recipe->smooth)
        steps[n++] = "smoothing";
    if (recipe->allocation == QUANT_ALLOCATION_TENSOR)
        steps[n++] = "tensor-allocation";
    if (recipe->allocation == QUANT_ALLOCATION_MODEL)
        steps[n++] = "model-allocation";
    if (recipe->grid == GRID_NORMAL)
        steps[n++] = "normal-grid";
    if (recipe->search_scales)
        steps[n++] = "scale-search";
    if (recipe->compensate)
        steps[n++] = "compensation";
    if (recipe->descend)
        steps[n++] = "descent";
    if (quant_recipe_corrects_gain(recipe))
        steps[n++] = "gain-correction";
    if (recipe->static_activations)
        steps[n++] = "static-activations";
    if (recipe->static_activations && recipe->prune_percent < 100)
        steps[n++] = "shadow-outliers";
    return n;
}

bool import_settings_match(const PackageQuant *quant, const QuantRecipe *recipe, const char *calibration_sha256) {
    const char *steps[IMPORT_STEPS_MAX];
    size_t n_steps = import_steps(recipe, steps);

    if (quant->import_revision != IMPORT_REVISION || strcmp(quant->recipe, recipe->name) || quant->n_steps != n_steps ||
        quant->bits_asked != (float)recipe->bits || quant->budget_bytes != recipe->budget_bytes ||
        quant->embedding_bits != recipe->embedding_bits || quant->rotated != recipe->rotate ||
        strcmp(quant->calibration_sha256, calibration_sha256))
        return false;
    if (quant->static_activations != recipe->static_activations ||
        (recipe->static_activations &&
         (quant->hot_percent != (float)recipe->hot_percent || quant->prune_percent != (float)recipe->prune_percent)))
        return false;
    for (size_t i = 0; i < n_steps; i++)
        if (quant->steps[i].len_bytes != strlen(steps[i]) ||
            memcmp(quant->steps[i].data, steps[i], quant->steps[i].len_bytes))
            return false;
    return true;
}

#define DESCRIPTION_BYTES 320

/* Describes all settings that the bytes of a package depend on, program and source excluded. */
static void describe(char text[DESCRIPTION_BYTES], const QuantRecipe *recipe, const char *calibration_sha256) {
    snprintf(text, DESCRIPTION_BYTES, "%s %.17g %u %llu %d %d %d %d %d %d %d %d %d %.17g %.17g %s\n", recipe->name,
             recipe->bits, recipe->embedding_bits, (unsigned long long)recipe->budget_bytes, recipe->rotate,
             recipe->grid, recipe->search_scales, recipe->smooth, recipe->compensate, recipe->descend,
             quant_recipe_corrects_gain(recipe), recipe->allocation, recipe->static_activations, recipe->hot_percent,
             recipe->prune_percent, calibration_sha256);
}

static void add_switch(StrBuf *name, bool is_on, bool usually, const char *off, const char *on) {
    if (is_on != usually)
        str_buf_addf(name, "-%s", is_on ? on : off);
}

/* Whether %g prints the number exactly. */
static bool is_short(double number) {
    char text[32];

    snprintf(text, sizeof(text), "%g", number);
    return strtod(text, NULL) == number;
}

#define HASH_CHARS 8

/* Replaces the end of the text by a hash of the settings, for settings that a name cannot express. */
static void add_hash(char *text, size_t room_bytes, const QuantRecipe *recipe, const char *calibration_sha256) {
    char settings[DESCRIPTION_BYTES], sha256[SHA256_HEX_BYTES];
    size_t n = strlen(text), n_most = room_bytes - sizeof("-") - HASH_CHARS;

    describe(settings, recipe, calibration_sha256);
    sha256_hex(settings, strlen(settings), sha256);
    n = MIN(n, n_most);
    snprintf(text + n, room_bytes - n, "-%.*s", HASH_CHARS, sha256);
}

/**
 * import_settings_suffix() - name the settings, for the name of a package
 * @calibration_sha256: hash of the user's own text; NULL or "": the project's text, or none
 *
 * The suffix has recipe and bits, unless they are the default, then every setting that differs from the recipe's own.
 * Packages with different settings thus lie beside each other in the cache. A hash of all settings ends the suffix if
 * the room is too small, or a number has more digits than the suffix shows.
 */
void import_settings_suffix(char *text, size_t room_bytes, const QuantRecipe *recipe, const char *calibration_sha256) {
    _cleanup_(str_buf_deinit) StrBuf name = STR_BUF_NULL;
    QuantRecipe usual, plain;

    if (quant_recipe_named(&plain, NULL) || quant_recipe_named(&usual, recipe->name))
        usual = plain;
    if (strcmp(recipe->name, plain.name) || recipe->bits != plain.bits)
        str_buf_addf(&name, "-%s-%g", recipe->name, recipe->bits);
    quant_recipe_set_bits(&usual, recipe->bits);
    add_switch(&name, recipe->rotate, usual.rotate, "unrotated", "rotated");
    add_switch(&name, recipe->smooth, usual.smooth, "unsmoothed", "smoothed");
    add_switch(&name, recipe->grid == GRID_NORMAL, usual.grid == GRID_NORMAL, "uniform-grid", "normal-grid");
    add_switch(&name, recipe->search_scales, usual.search_scales, "unsearched", "searched");
    add_switch(&name, recipe->compensate, usual.compensate, "uncompensated", "compensated");
    add_switch(&name, recipe->descend, usual.descend, "undescended", "descended");
    if (quant_recipe_needs_moments(recipe))
        add_switch(&name, recipe->correct_gain, usual.correct_gain, "gain-uncorrected", "gain-corrected");
    add_switch(&name, recipe->static_activations, usual.static_activations, "dynamic", "static");
    if (recipe->static_activations && recipe->hot_percent != usual.hot_percent)
        str_buf_addf(&name, "-hot%g", recipe->hot_percent);
    if (recipe->static_activations && recipe->prune_percent != usual.prune_percent)
        str_buf_addf(&name, "-pruned%g", recipe->prune_percent);
    if (recipe->allocation != usual.allocation)
        str_buf_addf(&name, "-%s", quant_allocation_name(recipe->allocation));
    if (recipe->embedding_bits != usual.embedding_bits)
        str_buf_addf(&name, "-embedding%u", recipe->embedding_bits);
    if (recipe->budget_bytes)
        str_buf_addf(&name, "-max%llu", (unsigned long long)recipe->budget_bytes);
    if (calibration_sha256 && *calibration_sha256)
        str_buf_addf(&name, "-text%.8s", calibration_sha256);
    snprintf(text, room_bytes, "%s", name.data && !str_buf_failed(&name) ? name.data : "");
    if (name.len_bytes >= room_bytes || !is_short(recipe->bits) ||
        (recipe->static_activations && (!is_short(recipe->hot_percent) || !is_short(recipe->prune_percent))))
        add_hash(text, room_bytes, recipe, calibration_sha256 ? calibration_sha256 : "");
}

void import_fingerprint(const QuantRecipe *recipe, const char *source_name, const char *source_sha256,
                        const char *calibration_sha256, uint8_t fingerprint[JOURNAL_DIGEST_BYTES]) {
    char text[128], settings[DESCRIPTION_BYTES];
    struct sha256_ctx context;

    snprintf(text, sizeof(text), "%s %d %d %s ", COORDGEN_VERSION, IMPORT_REVISION, PACKAGE_FORMAT_VERSION,
             source_sha256);
    describe(settings, recipe, calibration_sha256);
    sha256_init(&context);
    sha256_update(&context, strlen(text), (const uint8_t *)text);
    sha256_update(&context, strlen(settings), (const uint8_t *)settings);
    /* The package holds the name of its source. */
    sha256_update(&context, strlen(source_name), (const uint8_t *)source_name);
    sha256_digest(&context, JOURNAL_DIGEST_BYTES, fingerprint);
}
