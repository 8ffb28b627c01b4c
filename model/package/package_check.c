// SPDX-License-Identifier: Apache-2.0
#include "model/package/package_check.h"

#include <inttypes.h>
#include <string.h>

#include "model/gguf/gguf.h"

int package_key_error(int r) {
    return r < 0 ? r : PACKAGE_E_CORRUPT;
}

int package_get_list(const PackageCheck *check, const char *key, PackageList type, const GgufArray **arrayp) {
    const GgufFile *file = check->package->file;
    int r;

    if (type == PACKAGE_LIST_STRINGS)
        r = gguf_get_strings(file, key, arrayp, check->err);
    else if (type == PACKAGE_LIST_COUNTS)
        r = gguf_get_integers(file, key, 0, UINT32_MAX, arrayp, check->err);
    else
        r = gguf_get_numbers(file, key, arrayp, check->err);
    if (r)
        return package_key_error(r);
    if ((*arrayp)->n != check->names->n)
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: key '%s' has %" PRIu64 " elements, '%s' has %" PRIu64,
                       gguf_path(file), key, (*arrayp)->n, PACKAGE_KEY_LINEAR_NAMES, check->names->n);
    return 0;
}

bool package_string_is(GgufString string, const char *text) {
    return string.len_bytes == strlen(text) && !memcmp(string.data, text, string.len_bytes);
}

int package_find_tensor(PackageCheck *check, const char *name, uint32_t type, uint64_t ne0, uint64_t ne1,
                        const GgufTensor **tensorp) {
    const GgufTensor *tensor = gguf_tensor(check->package->file, name);
    const char *path = gguf_path(check->package->file);

    if (!tensor)
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: tensor '%s' is missing", path, name);
    if (tensor->type != type)
        return err_set(check->err, PACKAGE_E_CORRUPT, "%s: tensor '%s' has type %s, a package has %s there", path, name,
                       ggml_type_name(tensor->type), ggml_type_name(type));
    if (tensor->ne[0] != ne0 || tensor->ne[1] != ne1 || tensor->ne[2] != 1 || tensor->ne[3] != 1)
        return err_set(check->err, PACKAGE_E_CORRUPT,
                       "%s: tensor '%s' is %" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64
                       ", the metadata asks for %" PRIu64 " x %" PRIu64,
                       path, name, tensor->ne[0], tensor->ne[1], tensor->ne[2], tensor->ne[3], ne0, ne1);
    check->n_tensors_known++;
    *tensorp = tensor;
    return 0;
}
