// SPDX-License-Identifier: Apache-2.0
#include "base/nearest_word.h"

#include <string.h>

/* Insertions, deletions, changes and swaps of neighbours that turn one word into the other; long words are far. */
static unsigned edit_distance(const char *a, const char *b) {
    enum {
        LEN_MAX = 31
    };
    size_t n_a = strlen(a), n_b = strlen(b);
    unsigned rows[3][LEN_MAX + 1];

    if (n_a > LEN_MAX || n_b > LEN_MAX)
        return LEN_MAX;
    for (size_t j = 0; j <= n_b; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= n_a; i++) {
        unsigned *now = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];

        now[0] = (unsigned)i;
        for (size_t j = 1; j <= n_b; j++) {
            unsigned best = before[j - 1] + (a[i - 1] != b[j - 1]);

            if (before[j] + 1 < best)
                best = before[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && earlier[j - 2] + 1 < best)
                best = earlier[j - 2] + 1;
            now[j] = best;
        }
    }
    return rows[n_a % 3][n_b];
}

/**
 * nearest_word() - the name that somebody may have meant
 *
 * One that begins with the word, or differs from it by fewer letters than would make it another word.
 */
const char *nearest_word(const char *word, const char *const *names, size_t n) {
    size_t len_bytes = strlen(word);
    unsigned best = len_bytes < 4 ? 2 : len_bytes < 8 ? 3 : 4; /* nearer than this */
    const char *nearest = NULL;

    for (size_t i = 0; i < n; i++) {
        unsigned distance = edit_distance(word, names[i]);

        if (len_bytes >= 3 && !strncmp(names[i], word, len_bytes)) /* the beginning of it */
            distance = 1;
        if (distance < best) {
            best = distance;
            nearest = names[i];
        }
    }
    return nearest;
}
