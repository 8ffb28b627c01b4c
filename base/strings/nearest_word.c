// SPDX-License-Identifier: Apache-2.0
#include "base/strings/nearest_word.h"

#include <string.h>

enum {
    LEN_MAX = 63 /* longer words count as far */
};

/* The number of insertions, deletions, changes and swaps of neighbours that turn one word into another. */
typedef struct Distance {
    unsigned whole;
    unsigned beginning; /* from the first word to any beginning of the second */
} Distance;

static Distance edit_distance(const char *a, const char *b) {
    size_t n_a = strnlen(a, LEN_MAX + 1), n_b = strnlen(b, LEN_MAX + 1);
    Distance distance = { LEN_MAX, LEN_MAX };
    unsigned rows[3][LEN_MAX + 1];

    if (n_a > LEN_MAX || n_b > LEN_MAX)
        return distance;
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
    distance.whole = rows[n_a % 3][n_b];
    for (size_t j = 0; j <= n_b; j++)
        if (rows[n_a % 3][j] < distance.beginning)
            distance.beginning = rows[n_a % 3][j];
    return distance;
}

/**
 * nearest_word() - find the name that a user may have meant
 *
 * A near name differs from the word by a few letters, or begins with the word; a longer word may be one letter off
 * such a beginning. Time: n times the product of two lengths, of at most LEN_MAX each.
 */
const char *nearest_word(const char *word, const char *const *names, size_t n) {
    return nearest_word_in(word, names, sizeof(*names), n);
}

const char *nearest_word_in(const char *word, const char *const *names, size_t stride_bytes, size_t n) {
    size_t len_bytes = strlen(word);
    unsigned best = len_bytes < 4 ? 2 : len_bytes < 8 ? 3 : 4; /* a near name has fewer differences */
    const char *nearest = NULL;

    for (size_t i = 0; i < n; i++) {
        const char *name = *(const char *const *)(const void *)((const char *)names + i * stride_bytes);
        const Distance to = edit_distance(word, name);
        unsigned distance = to.whole;

        if ((len_bytes >= 3 && !to.beginning) || (len_bytes >= 5 && to.beginning == 1 && distance > 2))
            distance = to.beginning + 1;
        if (distance < best) {
            best = distance;
            nearest = name;
        }
    }
    return nearest;
}
