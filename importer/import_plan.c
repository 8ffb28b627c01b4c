// SPDX-License-Identifier: Apache-2.0
#include "importer/import_plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "importer/import_settings.h"
#include "model/package/package.h"
#include "model/package/package_checksum.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"
#include "quant/rotate.h"

void import_plan_deinit(ImportPlan *plan) {
    gguf_writer_free(plan->writer);
    free(plan->tensors);
    free(plan->sources);
    free(plan->layers);
    free(plan->linears);
    free(plan->vectors);
    free(plan->bits);
    free(plan->operators);
    free(plan->is_hot);
    free(plan->layer_bytes);
    *plan = (ImportPlan){ 0 };
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */

typedef struct PlanPass {
    ImportPlan *plan;
    const QuantRecipe *recipe;
} PlanPass;

static int count_tensor(void *arg, const ArchTensor *expected, int layer) {
    ImportPlan *plan = ((PlanPass *)arg)->plan;
    size_t index = (size_t)(layer + 1);
    GgufTensor source;

    /* An optional tensor that is missing; hparams_check_tensors() has refused other gaps. */
    if (!hparams_tensor(&plan->source->hparams, plan->source->file, expected, layer, &source))
        return 0;
    plan->layer_bytes[index] += source.len_bytes;
    plan->total_bytes += source.len_bytes;
    if (tensor_role_is_linear(expected->role)) {
        plan->layers[index].n_linears++;
        plan->n_channels += (size_t)source.ne[1];
    } else {
        plan->layers[index].n_vectors++;
    }
    return 0;
}

static int plan_tensor(void *arg, const ArchTensor *expected, int layer) {
    const PlanPass *pass = arg;
    ImportPlan *plan = pass->plan;
    GgufTensor *source = &plan->sources[plan->n_tensors];
    ImportLayer *at = &plan->layers[layer + 1];
    ImportTensor *tensor;

    if (!hparams_tensor(&plan->source->hparams, plan->source->file, expected, layer, source))
        return 0;
    tensor = &plan->tensors[plan->n_tensors++];
    *tensor = (ImportTensor){ .source = source, .layer = (size_t)(layer + 1) };
    if (!tensor_role_is_linear(expected->role)) {
        tensor->vector = &at->vectors[at->n_vectors++];
        *tensor->vector =
            (ImportVector){ .role = expected->role, .layer = layer, .source = source, .n = (size_t)source->ne[0] };
        return 0;
    }
    snprintf(tensor->name, sizeof(tensor->name), "%.*s", (int)(strlen(source->name) - strlen(".weight")), source->name);
    tensor->linear = &at->linears[at->n_linears++];
    *tensor->linear = (ImportLinear){
        .role = expected->role,
        .layer = layer,
        .source = source,
        .n = (size_t)source->ne[1],
        .k = (size_t)source->ne[0],
        .rotation_block = pass->recipe->rotate ? rotate_block_size((size_t)source->ne[0]) : 0,
    };
    return 0;
}

/* Turns the counts of the first pass into places for the second. */
static void place_layers(ImportPlan *plan) {
    ImportLinear *linears = plan->linears;
    ImportVector *vectors = plan->vectors;

    for (size_t i = 0; i < plan->n_layers; i++) {
        ImportLayer *layer = &plan->layers[i];
        size_t n_linears = layer->n_linears, n_vectors = layer->n_vectors;

        *layer = (ImportLayer){ .layer = (int)i - 1, .linears = linears, .vectors = vectors };
        linears += n_linears;
        vectors += n_vectors;
    }
}

static void place_bits(ImportPlan *plan, const QuantRecipe *recipe) {
    int8_t *bits = plan->bits;

    for (size_t i = 0; i < plan->n_linears; i++) {
        ImportLinear *linear = &plan->linears[i];

        linear->bits = bits;
        memset(bits, tensor_role_is_embedding(linear->role) ? (int)recipe->embedding_bits : GRID_BITS_MAX, linear->n);
        bits += linear->n;
    }
}

/* Lists the operators of all layers and points their linears at them. */
static int plan_operators(ImportPlan *plan) {
    const Hparams *hparams = &plan->source->hparams;
    const Arch *arch = hparams->arch;
    size_t n = 0;

    plan->operators = calloc(hparams->n_layers * arch->n_ops + 1, sizeof(*plan->operators));
    if (!plan->operators)
        return -ENOMEM;
    for (size_t i = 1; i < plan->n_layers; i++)
        for (size_t j = 0; j < arch->n_ops; j++) {
            const ArchOp *op = &arch->ops[j];
            ImportOperator *operator= & plan->operators[n];

            if (op->kind != OP_LINEAR)
                continue;
            *operator=(ImportOperator){ .layer = (int)i - 1, .op = op, .scale = 1 };
            for (size_t w = 0; w < op->n; w++) {
                ImportLinear *linear = import_linear_of(&plan->layers[i], op->w[w]);

                linear->operator= operator;
                operator->k = linear->k;
            }
            plan->n_inputs += operator->k;
            n++;
        }
    plan->n_operators = n;
    plan->is_hot = calloc(plan->n_inputs + 1, 1);
    if (!plan->is_hot)
        return -ENOMEM;
    for (size_t i = 0, at = 0; i < n; at += plan->operators[i++].k)
        plan->operators[i].is_hot = plan->is_hot + at;
    return 0;
}

/**
 * import_plan_make() - list the layers of a source, as methods see them
 * @source: checked by hparams_check_tensors(); must outlive the plan
 *
 * Embedding and head have the recipe's width. All other widths are 8 until a method or the journal sets them.
 * Return: 0 or -ENOMEM.
 */
int import_plan_make(ImportPlan *plan, const ImportSource *source, const QuantRecipe *recipe, ErrText *err) {
    PlanPass pass = { plan, recipe };
    size_t room = ARCH_PARTS_MAX * gguf_n_tensors(source->file) + 1;
    int r;

    plan->source = source;
    plan->n_layers = (size_t)source->hparams.n_layers + 1;
    plan->tensors = calloc(room, sizeof(*plan->tensors));
    plan->sources = calloc(room, sizeof(*plan->sources));
    plan->linears = calloc(room, sizeof(*plan->linears));
    plan->vectors = calloc(room, sizeof(*plan->vectors));
    plan->layers = calloc(plan->n_layers, sizeof(*plan->layers));
    plan->layer_bytes = calloc(plan->n_layers, sizeof(*plan->layer_bytes));
    if (!plan->tensors || !plan->sources || !plan->linears || !plan->vectors || !plan->layers || !plan->layer_bytes)
        return err_set(err, -ENOMEM, "%s: out of memory for %zu tensors", source->path, room);
    (void)hparams_each_tensor(&source->hparams, count_tensor, &pass);
    for (size_t i = 0; i < plan->n_layers; i++)
        plan->n_linears += plan->layers[i].n_linears;
    place_layers(plan);
    (void)hparams_each_tensor(&source->hparams, plan_tensor, &pass);
    plan->bits = malloc(plan->n_channels + 1);
    if (!plan->bits)
        return err_set(err, -ENOMEM, "%s: out of memory for %zu channels", source->path, plan->n_channels);
    place_bits(plan, recipe);
    if (recipe->static_activations && plan_operators(plan))
        return err_set(err, -ENOMEM, "%s: out of memory for %zu operators", source->path, plan->n_linears);
    r = plan->n_linears ? 0 : IMPORT_E_CORRUPT; /* every architecture has matrices */
    return r ? err_set(err, r, "%s: no matrices", source->path) : 0;
}

uint64_t import_plan_least_bytes(const ImportPlan *plan, const QuantRecipe *recipe) {
    uint64_t n_weights = 0, n_embedding_weights = 0;

    for (size_t i = 0; i < plan->n_linears; i++) {
        const ImportLinear *linear = &plan->linears[i];

        *(tensor_role_is_embedding(linear->role) ? &n_embedding_weights : &n_weights) +=
            (uint64_t)linear->n * linear->k;
    }
    return (n_weights * (recipe->budget_bytes ? GRID_BITS_MIN : (uint64_t)recipe->bits) +
            n_embedding_weights * recipe->embedding_bits) /
           8;
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static void source_keys(const ImportPlan *plan) {
    /* A package is one file: the last three keys are dropped from a source in parts. */
    static const char *const dropped[] = { "general.alignment", "general.file_type", "general.quantization_version",
                                           "split.no",          "split.count",       "split.tensors.count" };
    const size_t prefix_bytes = strlen(PACKAGE_KEY_PREFIX),
                 n_dropped = ARRAY_LEN(dropped) - (plan->source->n_parts == 1 ? 3 : 0);

    for (size_t i = 0; i < gguf_n_keys(plan->source->file); i++) {
        const GgufKey *key = gguf_key_at(plan->source->file, i);
        bool keep = key->name.len_bytes < prefix_bytes || memcmp(key->name.data, PACKAGE_KEY_PREFIX, prefix_bytes);

        for (size_t j = 0; j < n_dropped; j++)
            if (key->name.len_bytes == strlen(dropped[j]) && !memcmp(key->name.data, dropped[j], key->name.len_bytes))
                keep = false;
        if (keep)
            gguf_writer_copy(plan->writer, key);
    }
}

static void recipe_keys(const ImportPlan *plan, const QuantRecipe *recipe, const char *calibration_sha256) {
    const char *steps[IMPORT_STEPS_MAX];
    size_t n_steps = import_steps(recipe, steps);
    GgufWriter *writer = plan->writer;

    gguf_writer_u32(writer, PACKAGE_KEY_IMPORT_REVISION, IMPORT_REVISION);
    gguf_writer_string(writer, PACKAGE_KEY_RECIPE, recipe->name);
    gguf_writer_strings(writer, PACKAGE_KEY_STEPS, steps, n_steps);
    gguf_writer_f32(writer, PACKAGE_KEY_BITS, (float)plan->bits_made);
    gguf_writer_f32(writer, PACKAGE_KEY_BITS_ASKED, (float)recipe->bits);
    if (recipe->budget_bytes)
        gguf_writer_u64(writer, PACKAGE_KEY_BUDGET, recipe->budget_bytes);
    gguf_writer_u32(writer, PACKAGE_KEY_EMBEDDING_BITS, recipe->embedding_bits);
    if (*calibration_sha256)
        gguf_writer_string(writer, PACKAGE_KEY_CALIBRATION, calibration_sha256);
    gguf_writer_bool(writer, PACKAGE_KEY_ROTATED, recipe->rotate);
    gguf_writer_string(writer, PACKAGE_KEY_ACTIVATION_MODE,
                       recipe->static_activations ? PACKAGE_ACTIVATION_STATIC_TENSOR : PACKAGE_ACTIVATION_DYNAMIC_ROW);
    if (!recipe->static_activations)
        return;
    gguf_writer_f32(writer, PACKAGE_KEY_HOT_PERCENT, (float)recipe->hot_percent);
    gguf_writer_f32(writer, PACKAGE_KEY_PRUNE_PERCENT, (float)recipe->prune_percent);
}

static int linear_keys(const ImportPlan *plan, const QuantRecipe *recipe, ErrText *err) {
    _cleanup_(freep) const char **texts = calloc(plan->n_linears, sizeof(*texts));
    _cleanup_(freep) const char **layouts = calloc(plan->n_linears, sizeof(*layouts));
    _cleanup_(freep) const char **activations = calloc(plan->n_linears, sizeof(*activations));
    _cleanup_(freep) uint32_t *blocks = calloc(plan->n_linears, sizeof(*blocks));
    size_t n = 0;

    if (!texts || !layouts || !activations || !blocks)
        return err_set(err, -ENOMEM, "%s: out of memory for %zu linears", plan->source->path, plan->n_linears);
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const ImportTensor *tensor = &plan->tensors[i];

        if (!tensor->linear)
            continue;
        texts[n] = tensor->name;
        layouts[n] = !tensor->packed               ? PACKAGE_LAYOUT_INT8
                     : recipe->grid == GRID_NORMAL ? PACKAGE_LAYOUT_PACKED_NORMAL
                                                   : PACKAGE_LAYOUT_PACKED;
        activations[n] = tensor->linear->operator? PACKAGE_ACTIVATION_STATIC_TENSOR : PACKAGE_ACTIVATION_DYNAMIC_ROW;
        blocks[n++] = tensor->linear->rotation_block;
    }
    gguf_writer_strings(plan->writer, PACKAGE_KEY_LINEAR_NAMES, texts, n);
    gguf_writer_strings(plan->writer, PACKAGE_KEY_LINEAR_LAYOUTS, layouts, n);
    gguf_writer_array(plan->writer, PACKAGE_KEY_LINEAR_ROTATIONS, GGUF_U32, blocks, n);
    gguf_writer_strings(plan->writer, PACKAGE_KEY_LINEAR_ACTIVATIONS, activations, n);
    return 0;
}

/* Static activations as parallel arrays over the linears. */
typedef struct ActivationArrays {
    float *scales, *importance;
    const char **outliers;
    uint32_t *hot_counts, *hot;
} ActivationArrays;

static void activation_arrays_deinit(ActivationArrays *arrays) {
    free(arrays->scales);
    free(arrays->importance);
    free(arrays->outliers);
    free(arrays->hot_counts);
    free(arrays->hot);
}

static uint32_t list_hot(const ImportOperator *operator, uint32_t * hot) {
    uint32_t n = 0;

    for (size_t c = 0; c < operator->k; c++)
        if (operator->is_hot[c])
            hot[n++] = (uint32_t)c;
    return n;
}

static int activation_keys(const ImportPlan *plan, ErrText *err) {
    _cleanup_(activation_arrays_deinit) ActivationArrays arrays = {
        .scales = calloc(plan->n_linears, sizeof(float)),
        .importance = calloc(plan->n_linears, sizeof(float)),
        .outliers = calloc(plan->n_linears, sizeof(char *)),
        .hot_counts = calloc(plan->n_linears, sizeof(uint32_t)),
        .hot = calloc(OP_WEIGHTS_MAX * plan->n_inputs + 1, sizeof(uint32_t)),
    };
    size_t n = 0, n_hot = 0;

    if (!arrays.scales || !arrays.importance || !arrays.outliers || !arrays.hot_counts || !arrays.hot)
        return err_set(err, -ENOMEM, "%s: out of memory for %zu linears", plan->source->path, plan->n_linears);
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const ImportLinear *linear = plan->tensors[i].linear;
        const ImportOperator *operator= linear ? linear->operator: NULL;

        if (!linear)
            continue;
        arrays.outliers[n] = PACKAGE_OUTLIERS_NONE;
        if (operator) {
            arrays.scales[n] = operator->scale;
            arrays.importance[n] = operator->importance;
            arrays.outliers[n] = operator->shadow ? PACKAGE_OUTLIERS_SHADOW : PACKAGE_OUTLIERS_CLIPPED;
            arrays.hot_counts[n] = list_hot(operator, arrays.hot + n_hot);
            n_hot += arrays.hot_counts[n];
        }
        n++;
    }
    gguf_writer_array(plan->writer, PACKAGE_KEY_LINEAR_ACTIVATION_SCALES, GGUF_F32, arrays.scales, n);
    gguf_writer_strings(plan->writer, PACKAGE_KEY_LINEAR_OUTLIERS, arrays.outliers, n);
    gguf_writer_array(plan->writer, PACKAGE_KEY_LINEAR_IMPORTANCE, GGUF_F32, arrays.importance, n);
    gguf_writer_array(plan->writer, PACKAGE_KEY_LINEAR_HOT_COUNTS, GGUF_U32, arrays.hot_counts, n);
    gguf_writer_array(plan->writer, PACKAGE_KEY_HOT_CHANNELS, GGUF_U32, arrays.hot, n_hot);
    return 0;
}

/* --- layout ------------------------------------------------------------------------------------------------------- */

/* Averages by one division of exact counts, so that the figure is the same on every machine. */
static double average_bits(const ImportPlan *plan) {
    uint64_t n_weights = 0, n_bits = 0;

    for (size_t i = 0; i < plan->n_linears; i++) {
        const ImportLinear *linear = &plan->linears[i];

        if (tensor_role_is_embedding(linear->role))
            continue;
        n_weights += (uint64_t)linear->n * linear->k;
        for (size_t channel = 0; channel < linear->n; channel++)
            n_bits += (uint64_t)linear->bits[channel] * linear->k;
    }
    return n_weights ? (double)n_bits / (double)n_weights : 0;
}

static int choose_layout(ImportTensor *tensor, Grid grid, const char *path, ErrText *err) {
    const ImportLinear *linear = tensor->linear;
    PackPlan pack;
    int r;

    tensor->packed = false;
    tensor->weight_bytes = (uint64_t)linear->n * linear->k;
    for (size_t i = 0; i < linear->n && !tensor->packed; i++)
        tensor->packed = linear->bits[i] != GRID_BITS_MAX;
    if (!tensor->packed)
        return 0;
    r = pack_plan_init(&pack, grid, linear->bits, linear->n, linear->k);
    if (r)
        return err_set(err, r, "%s: tensor '%s' cannot be packed: %s", path, tensor->source->name, strerror(-r));
    tensor->weight_bytes = pack.offsets[pack.n_blocks];
    pack_plan_deinit(&pack);
    return 0;
}

static void tensor_infos(const ImportPlan *plan, const ImportTensor *tensor) {
    const GgufTensor *source = tensor->source;
    char name[sizeof(tensor->name) + 8];

    if (!tensor->linear) {
        gguf_writer_tensor(plan->writer, source->name, GGML_F32, 1, source->ne);
        return;
    }
    if (tensor->packed)
        gguf_writer_tensor(plan->writer, source->name, GGML_I8, 1, &tensor->weight_bytes);
    else
        gguf_writer_tensor(plan->writer, source->name, GGML_I8, 2, source->ne);
    snprintf(name, sizeof(name), "%s.scales", tensor->name);
    gguf_writer_tensor(plan->writer, name, GGML_F32, 1, source->ne + 1);
    snprintf(name, sizeof(name), "%s.bits", tensor->name);
    gguf_writer_tensor(plan->writer, name, GGML_I8, 1, source->ne + 1);
    snprintf(name, sizeof(name), "%s.columns", tensor->name);
    if (tensor->linear->operator&& tensor->linear->operator->shadow)
        gguf_writer_tensor(plan->writer, name, GGML_I8, 2, (const uint64_t[]){ source->ne[1], source->ne[0] });
}

/* Reserves a digest for the head and for each run of tensors of a layer: zeros until all else is written. */
static int checksum_keys(ImportPlan *plan, ErrText *err) {
    _cleanup_(freep) uint8_t *zeros = NULL;
    size_t n = 1;

    for (size_t i = 0; i < plan->n_tensors; i++)
        n += !i || plan->tensors[i].layer != plan->tensors[i - 1].layer;
    zeros = calloc(n, PACKAGE_CHECKSUM_BYTES);
    if (!zeros)
        return err_no_memory(err);
    gguf_writer_array(plan->writer, PACKAGE_KEY_CHECKSUMS, GGUF_U8, zeros, n * PACKAGE_CHECKSUM_BYTES);
    return 0;
}

/**
 * import_plan_layout() - compute head and offsets of the package for the widths as they stand
 *
 * The tensors of a layer are one extent, padded to the package's alignment. Tensors outside the layers lie before and
 * behind all of them.
 * Return: 0, IMPORT_E_CORRUPT or -errno.
 */
int import_plan_layout(ImportPlan *plan, const QuantRecipe *recipe, const char *source_sha256,
                       const char *calibration_sha256, ErrText *err) {
    size_t index = 0;
    int r;

    plan->writer = gguf_writer_free(plan->writer);
    plan->bits_made = average_bits(plan);
    for (size_t i = 0; i < plan->n_tensors; i++) {
        r = plan->tensors[i].linear ? choose_layout(&plan->tensors[i], recipe->grid, plan->source->path, err) : 0;
        if (r)
            return r;
    }
    r = gguf_writer_new(&plan->writer, PACKAGE_ALIGNMENT, err);
    if (r)
        return err_fold(r);
    source_keys(plan);
    gguf_writer_u32(plan->writer, PACKAGE_KEY_FORMAT_VERSION, PACKAGE_FORMAT_VERSION);
    gguf_writer_string(plan->writer, PACKAGE_KEY_SOURCE_SHA256, source_sha256);
    gguf_writer_u64(plan->writer, PACKAGE_KEY_SOURCE_BYTES, import_source_len_bytes(plan->source));
    gguf_writer_string(plan->writer, PACKAGE_KEY_SOURCE_NAME, plan->source->name);
    recipe_keys(plan, recipe, calibration_sha256);
    r = linear_keys(plan, recipe, err);
    if (!r && recipe->static_activations)
        r = activation_keys(plan, err);
    if (!r)
        r = checksum_keys(plan, err);
    if (r)
        return r;
    for (size_t i = 0; i < plan->n_tensors; i++)
        tensor_infos(plan, &plan->tensors[i]);
    r = gguf_writer_layout(plan->writer, err);
    if (r)
        return r < 0 ? r : IMPORT_E_CORRUPT;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        ImportTensor *tensor = &plan->tensors[i];

        tensor->offset = gguf_writer_tensor_offset(plan->writer, index++);
        if (!tensor->linear) {
            tensor->weight_bytes = tensor->vector->n * sizeof(float);
            continue;
        }
        tensor->scales_offset = gguf_writer_tensor_offset(plan->writer, index++);
        tensor->bits_offset = gguf_writer_tensor_offset(plan->writer, index++);
        tensor->columns_offset = tensor->linear->operator&& tensor->linear->operator->shadow
                                     ? gguf_writer_tensor_offset(plan->writer, index++)
                                     : 0;
    }
    plan->package_bytes = gguf_writer_file_bytes(plan->writer);
    return 0;
}
