/* The .cgm package: a valid GGUF v3 file, aligned to 4096, whose products' weights are int8 rows with a scale a channel.
 * NAME.weight (I8, ne {k, n}), NAME.scales (F32 {n}), NAME.bits (I8 {n}: width of every channel); all else is F32. */
#ifndef COORDGEN_MODEL_PACKAGE_H
#define COORDGEN_MODEL_PACKAGE_H

#include "model/gguf.h"

enum {
    PACKAGE_E_CORRUPT = 1,     /* contradicts itself or the architecture; the text names tensor or key */
    PACKAGE_E_UNSUPPORTED = 2, /* a format version, layout or activation mode that is not known here */
    PACKAGE_E_NOT_PACKAGE = 3, /* a GGUF file without coordgen's keys: import it first */
};

#define PACKAGE_FORMAT_VERSION 1
#define PACKAGE_ALIGNMENT 4096
#define PACKAGE_KEY_FORMAT_VERSION "coordgen.format_version"
#define PACKAGE_KEY_SOURCE_SHA256 "coordgen.source.sha256"
#define PACKAGE_KEY_SOURCE_BYTES "coordgen.source.file_bytes"
#define PACKAGE_KEY_SOURCE_NAME "coordgen.source.name"
#define PACKAGE_KEY_RECIPE "coordgen.quant.recipe"
#define PACKAGE_KEY_ROTATED "coordgen.quant.rotated"
#define PACKAGE_KEY_ACTIVATION_MODE "coordgen.activation_mode"
#define PACKAGE_KEY_LINEAR_NAMES "coordgen.linear.names"
#define PACKAGE_KEY_LINEAR_LAYOUTS "coordgen.linear.layouts"
#define PACKAGE_KEY_LINEAR_ROTATIONS "coordgen.linear.rotation_block"
#define PACKAGE_KEY_LINEAR_ACTIVATIONS "coordgen.linear.activations"

typedef struct Package Package;

/* The matrix of one product, in the mapped file. */
typedef struct PackageLinear {
    const int8_t *weights; /* [n][k] */
    const float *scales;   /* [n], finite, >= 0 */
    const int8_t *bits;    /* [n], 8 in this version */
    size_t n, k;
    uint32_t rotation_block; /* inputs are rotated by blocks of this; 0: not */
} PackageLinear;

/* Opens and checks everything but the weights' values. */
int package_open(Package **packagep, const char *path, ErrText *err);
Package *package_free(Package *package);
DEFINE_CLEANUP(Package, package_free)
const GgufFile *package_file(const Package *package);
/* By the tensor's name, "blk.0.attn_q.weight". 0, or PACKAGE_E_CORRUPT when there is no such linear. */
int package_linear(const Package *package, const char *tensor_name, PackageLinear *linearp, ErrText *err);

#endif
