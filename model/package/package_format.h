// SPDX-License-Identifier: Apache-2.0
/* Model package (.cgm): a GGUF v3 file that an importer made, with integer linears. package.h reads it, importer.h
 * writes it.
 *
 * Format version 2. general.alignment is 4096. Tensors lie in the order of the architecture's tables, so that the
 * tensors of a layer are one extent. Every key of the source is kept except general.alignment, general.file_type and
 * general.quantization_version. A linear NAME ("blk.0.attn_q", "token_embd", "output") with k inputs and n outputs is
 *   NAME.weight  I8  {k, n}   layout "int8": row-major, -127..127
 *                I8  {bytes}  layout "packed": the bytes of pack.h, opaque to other programs; or "packed-normal": the
 *                             same bytes with the levels of the normal grid (quant/format/grid.h)
 *   NAME.scales  F32 {n}      one for each output channel, finite, >= 0: weight = integer * scale
 *   NAME.bits    I8  {n}      width of every channel's integers: 8 in layout "int8", 1..8 in the others
 * and every other tensor (norms, biases, rope_freqs) is F32. A tied head uses token_embd.
 *
 * Activation mode "static-tensor" (llm.npu 3.3): inputs of linears in the layers have one scale a tensor. The
 * embedding and the head stay "dynamic-row". Linears that share an input agree in all keys about it. If the outliers of
 * the input have a shadow, the linear has one more tensor:
 *   NAME.columns I8  {n, k}   the integers once more, by columns: an input's weights lie side by side
 *
 * package_checksum.h has the checksums of the layers. */
#ifndef COORDGEN_MODEL_PACKAGE_FORMAT_H
#define COORDGEN_MODEL_PACKAGE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/gguf/gguf_types.h"
#include "quant/format/grid.h"

/* Version 1 had weights of 8 bits only; version 3 had rotations across blocks too. */
#define PACKAGE_FORMAT_VERSION 2
#define PACKAGE_ALIGNMENT 4096

#define PACKAGE_KEY_PREFIX "coordgen."
#define PACKAGE_KEY_FORMAT_VERSION "coordgen.format_version"   /* u32 */
#define PACKAGE_KEY_SOURCE_SHA256 "coordgen.source.sha256"     /* string, 64 hex digits */
#define PACKAGE_KEY_SOURCE_BYTES "coordgen.source.file_bytes"  /* u64 */
#define PACKAGE_KEY_SOURCE_NAME "coordgen.source.name"         /* string, base name */
#define PACKAGE_KEY_IMPORT_REVISION "coordgen.import_revision" /* u32: IMPORT_REVISION; absent: older than 8 */
#define PACKAGE_KEY_RECIPE "coordgen.quant.recipe"             /* string: name of the recipe before changes */
#define PACKAGE_KEY_STEPS "coordgen.quant.steps"               /* strings: the steps that ran, in order */
#define PACKAGE_KEY_BITS "coordgen.quant.bits"                 /* f32: actual average width of the layers' weights */
#define PACKAGE_KEY_BITS_ASKED "coordgen.quant.bits_asked"     /* f32 */
#define PACKAGE_KEY_BUDGET "coordgen.quant.budget_bytes"       /* u64; absent without a budget */
#define PACKAGE_KEY_EMBEDDING_BITS "coordgen.quant.embedding_bits"  /* u32: of token_embd and output */
#define PACKAGE_KEY_CALIBRATION "coordgen.quant.calibration_sha256" /* string, 64 hex digits; absent without */
#define PACKAGE_KEY_ROTATED "coordgen.quant.rotated"                /* bool */
#define PACKAGE_KEY_ACTIVATION_MODE "coordgen.activation_mode"      /* string */
/* Parallel arrays over the linears, in file order. */
#define PACKAGE_KEY_LINEAR_NAMES "coordgen.linear.names"              /* strings */
#define PACKAGE_KEY_LINEAR_LAYOUTS "coordgen.linear.layouts"          /* strings */
#define PACKAGE_KEY_LINEAR_ROTATIONS "coordgen.linear.rotation_block" /* u32, 0: not rotated */
#define PACKAGE_KEY_LINEAR_ACTIVATIONS "coordgen.linear.activations"  /* strings */

/* With mode "static-tensor" only: */
#define PACKAGE_KEY_HOT_PERCENT "coordgen.quant.hot_percent"     /* f32, as requested */
#define PACKAGE_KEY_PRUNE_PERCENT "coordgen.quant.prune_percent" /* f32, as requested; 100: no operator has a shadow */
#define PACKAGE_KEY_LINEAR_ACTIVATION_SCALES "coordgen.linear.activation_scales" /* f32; 0: dynamic-row */
#define PACKAGE_KEY_LINEAR_OUTLIERS "coordgen.linear.outliers"                   /* strings */
#define PACKAGE_KEY_LINEAR_IMPORTANCE "coordgen.linear.outlier_importance" /* f32: largest |x| / threshold scale */
#define PACKAGE_KEY_LINEAR_HOT_COUNTS "coordgen.linear.hot_counts" /* u32: number of elements of the next array */
#define PACKAGE_KEY_HOT_CHANNELS "coordgen.hot_channels"           /* u32, rising for each linear */

#define PACKAGE_ACTIVATION_DYNAMIC_ROW "dynamic-row"
#define PACKAGE_ACTIVATION_STATIC_TENSOR "static-tensor"
#define PACKAGE_OUTLIERS_NONE "none"       /* dynamic-row: there are none */
#define PACKAGE_OUTLIERS_CLIPPED "clipped" /* pruned */
#define PACKAGE_OUTLIERS_SHADOW "shadow"
#define PACKAGE_LAYOUT_INT8 "int8"
#define PACKAGE_LAYOUT_PACKED "packed"
#define PACKAGE_LAYOUT_PACKED_NORMAL "packed-normal"

enum {
    PACKAGE_E_CORRUPT =
        1, /* not a GGUF file, or one that contradicts itself or the architecture; the text names tensor or key */
    PACKAGE_E_UNSUPPORTED = 2, /* another format version, layout or architecture; the text names it */
    PACKAGE_E_NOT_PACKAGE = 3, /* a GGUF file without coordgen's keys: import it first */
};

/* Quantization of a linear's inputs to int8. */
typedef struct PackageActivations {
    float scale; /* static-tensor, within PACKAGE_SCALE_MIN..MAX; 0: dynamic-row */
    bool shadow; /* false: outliers are clipped */
    float importance;
    const uint32_t *hot; /* [n_hot], rising: inputs whose columns stay in memory; the package's */
    size_t n_hot;
    const int8_t *columns; /* [k][n] in the mapped file, with a shadow; not scanned */
    uint64_t columns_offset_bytes;
} PackageActivations;

#define PACKAGE_SCALE_MIN 1e-30f
#define PACKAGE_SCALE_MAX 1e30f

/* The matrix of one product, in the mapped file; weights, packed and scales are aligned to 4096. */
typedef struct PackageLinear {
    const char *name; /* name of the weight tensor without ".weight"; the package's */
    /* [n][k], layout "int8". Not scanned at open: -128 does not occur in a good package, and code that lays the weights
     * out must refuse it (kernels rely on -127..127). */
    const int8_t *weights;
    /* Packed layouts: the bytes of pack.h, as many as the plan of `bits` needs; weights is NULL then. NULL in layout
     * "int8". Not scanned either: at 8 bits the code 0, which is -128, must be refused. */
    const uint8_t *packed;
    uint64_t weight_bytes; /* length of weights or packed */
    const float *scales;   /* [n], finite, >= 0 */
    const int8_t *bits;    /* [n], 1..8; the package's copy, which cannot change after the check */
    Grid grid;             /* of packed */
    size_t n, k;
    uint32_t rotation_block; /* inputs are rotated by blocks of this size before they are quantized; 0: not rotated */
    PackageActivations activations;
} PackageLinear;

#define PACKAGE_RECIPE_MAX 32 /* with the NUL */

/* Settings that the weights were made with. */
typedef struct PackageQuant {
    uint32_t import_revision; /* 0: not stored */
    char recipe[PACKAGE_RECIPE_MAX];
    const GgufString *steps; /* [n_steps] */
    size_t n_steps;
    float bits, bits_asked; /* average width of the layers' weights: actual and requested */
    uint64_t budget_bytes;  /* 0: none */
    uint32_t embedding_bits;
    bool rotated;
    bool static_activations;          /* mode static-tensor, with the next two */
    float hot_percent, prune_percent; /* 0 without */
    char calibration_sha256[65];      /* "" without calibration */
} PackageQuant;

#endif
