// SPDX-License-Identifier: Apache-2.0
#include "weights/image/image_compare.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file_note.h"
#include "base/strings/decimal.h"

#define COMPARED "compared "

struct ImageCompare {
    const ImagePlace *places;
    size_t first, end; /* parts */
    bool *is_done;     /* [end - first] */
    size_t n_done;
    struct stat state; /* of the file, before anything of it was compared */
    char *notes;       /* folder, or NULL */
};

ImageCompare *image_compare_free(ImageCompare *compare) {
    if (!compare)
        return NULL;
    free(compare->is_done);
    free(compare->notes);
    free(compare);
    return NULL;
}

/* Whether a note names a range of parts that contains this one. */
static bool is_noted(const ImageCompare *compare) {
    char text[FILE_NOTE_BYTES_MAX];
    const char *at = text + strlen(COMPARED);
    uint64_t first, end;

    if (!file_note_recall(compare->notes, &compare->state, text, sizeof(text)) ||
        strncmp(text, COMPARED, strlen(COMPARED)))
        return false;
    at = decimal_read_u64(at, &first);
    return at && *at == ' ' && decimal_parse_u64(at + 1, &end) && first <= compare->first && end >= compare->end;
}

static void note(const ImageCompare *compare) {
    char text[FILE_NOTE_BYTES_MAX];

    snprintf(text, sizeof(text), COMPARED "%zu %zu", compare->first, compare->end);
    file_note_remember(compare->notes, &compare->state, text);
}

int image_compare_new(ImageCompare **comparep, int fd, const ImagePlace *places, size_t first, size_t end,
                      const char *notes) {
    _cleanup_(image_compare_freep) ImageCompare *compare = calloc(1, sizeof(*compare));

    if (!compare)
        return -ENOMEM;
    *compare = (ImageCompare){ .places = places, .first = first, .end = end };
    if (fstat(fd, &compare->state) < 0)
        return -errno;
    compare->is_done = calloc(end - first + 1, sizeof(*compare->is_done));
    compare->notes = notes ? strdup(notes) : NULL;
    if (!compare->is_done || (notes && !compare->notes))
        return -ENOMEM;
    *comparep = notes && is_noted(compare) ? NULL : steal(&compare);
    return 0;
}

bool image_compare_part(ImageCompare *compare, size_t part, const void *data) {
    uint8_t sha256[IMAGE_DIGEST_BYTES];
    struct sha256_ctx context;
    const ImagePlace *place;

    if (!compare || part < compare->first || part >= compare->end || compare->is_done[part - compare->first])
        return true;
    place = &compare->places[part];
    sha256_init(&context);
    sha256_update(&context, (size_t)place->len_bytes, data);
    sha256_digest(&context, sizeof(sha256), sha256);
    if (memcmp(sha256, place->sha256, sizeof(sha256)))
        return false;
    compare->is_done[part - compare->first] = true;
    if (++compare->n_done == compare->end - compare->first && compare->notes)
        note(compare);
    return true;
}
