// SPDX-License-Identifier: Apache-2.0
#include "weights/residency/weights_check.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/files/file_note.h"
#include "base/log.h"

#define COMPARED "compared"

struct WeightsCheck {
    PackageChecksum *checksum; /* NULL: the package has none */
    bool has_layers;           /* the layers are compared, too */
    bool has_all;              /* everything is compared in every load */
    struct stat state;         /* of the package, before anything of it was compared */
    char notes[PATH_MAX];      /* "": none are taken */
};

WeightsCheck *weights_check_free(WeightsCheck *check) {
    if (!check)
        return NULL;
    package_checksum_free(check->checksum);
    free(check);
    return NULL;
}

static bool was_compared(const WeightsCheck *check) {
    char text[FILE_NOTE_BYTES_MAX];

    return *check->notes && file_note_recall(check->notes, &check->state, text, sizeof(text)) &&
           !strcmp(text, COMPARED);
}

int weights_check_new(WeightsCheck **checkp, const Package *package, WeightsChecking checking, const char *cache_dir,
                      ErrText *err) {
    _cleanup_(weights_check_freep) WeightsCheck *check = NULL;
    ErrText why = { 0 };
    int r;

    if (checking == WEIGHTS_CHECKING_NOTHING)
        return 0;
    check = calloc(1, sizeof(*check));
    if (!check)
        return err_no_memory(err);
    if (fstat(package_fd(package), &check->state) < 0)
        return err_set(err, -errno, "%s: %s", gguf_path(package_file(package)), strerror(errno));
    if (cache_dir && snprintf(check->notes, sizeof(check->notes), "%s/compared", cache_dir) >= PATH_MAX)
        *check->notes = 0;
    r = package_checksum_new(&check->checksum, package_fd(package), package_file(package), &why);
    if (r == PACKAGE_CHECKSUM_E_NONE && checking == WEIGHTS_CHECKING_NEW) {
        log_info(TOPIC_ENGINE, "%s", why.text);
        *checkp = steal(&check);
        return 0;
    }
    if (!r)
        r = package_checksum_compare(check->checksum, 1, &why); /* the head */
    if (r) {
        if (err)
            *err = why;
        return r < 0 ? r : WEIGHTS_CHECK_E_PACKAGE;
    }
    check->has_all = checking == WEIGHTS_CHECKING_ALL;
    check->has_layers = checking == WEIGHTS_CHECKING_ALL || !was_compared(check);
    *checkp = steal(&check);
    return 0;
}

PackageChecksum *weights_check_layers(const WeightsCheck *check) {
    return check && check->has_layers ? check->checksum : NULL;
}

int weights_check_image(const WeightsCheck *check, WeightsImage *image, size_t first, size_t end, ErrText *err) {
    if (!check)
        return 0;
    return weights_image_compare(image, first, end, check->has_all || !*check->notes ? NULL : check->notes, err);
}

void weights_check_passed(const WeightsCheck *check) {
    if (*check->notes)
        file_note_remember(check->notes, &check->state, COMPARED);
}

uint64_t weights_check_compared_bytes(const WeightsCheck *check) {
    return check && check->checksum ? package_checksum_done_bytes(check->checksum) : 0;
}
