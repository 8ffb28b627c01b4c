// SPDX-License-Identifier: Apache-2.0
#include "model/package/package.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/strings/printable.h"
#include "model/package/package_private.h"

Package *package_free(Package *package) {
    if (!package)
        return NULL;
    gguf_free(package->file);
    if (package->fd >= 0)
        close(package->fd);
    for (size_t i = 0; package->widths && i < package->n_widths; i++)
        free(package->widths[i]);
    free(package->widths);
    free(package->linears);
    free(package->names);
    free(package->hot);
    free(package->by_tensor);
    free(package);
    return NULL;
}

bool package_is(const GgufFile *file) {
    return gguf_key(file, PACKAGE_KEY_FORMAT_VERSION);
}

const GgufFile *package_file(const Package *package) {
    return package->file;
}

int package_fd(const Package *package) {
    return package->fd;
}

const Hparams *package_hparams(const Package *package) {
    return &package->hparams;
}

const char *package_source_sha256(const Package *package) {
    return package->source_sha256;
}

const PackageQuant *package_quant(const Package *package) {
    return &package->quant;
}

size_t package_n_linears(const Package *package) {
    return package->n_linears;
}

const PackageLinear *package_linear_at(const Package *package, size_t index) {
    return index < package->n_linears ? &package->linears[index] : NULL;
}

int package_linear(const Package *package, const char *weight_name, PackageLinear *linearp, ErrText *err) {
    const GgufTensor *tensor = gguf_tensor(package->file, weight_name);
    uint32_t slot = tensor ? package->by_tensor[tensor - gguf_tensor_at(package->file, 0)] : 0;
    Printable shown;

    if (!slot)
        return err_set(err, PACKAGE_E_CORRUPT, "%s: no linear '%s'", gguf_path(package->file),
                       printable(&shown, weight_name, strlen(weight_name)));
    *linearp = package->linears[slot - 1];
    return 0;
}
