// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/spec/draft_walk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

int walk_follow(DraftWalk *walk) {
    walk->n_rows = 0;
    return walk->model.ops->follow(walk->model.self, walk->text, walk->n_text);
}

void walk_add(DraftWalk *walk, size_t at, int parent, uint32_t token) {
    walk->rows[at] = (DraftModelRow){ .parent = (int16_t)parent, .token = token };
}

int walk_expand(DraftWalk *walk, size_t n) {
    int r = walk->model.ops->expand(walk->model.self, walk->rows + walk->n_rows, n, walk->tops + walk->n_rows);

    walk->n_rows += r ? 0 : n;
    return r;
}

void walk_grow(DraftWalk *walk, size_t width, size_t n_passes) {
    size_t first = 0;

    walk_add(walk, 0, -1, walk->text[walk->n_text - 1]);
    assert_int_equal(walk_expand(walk, 1), 0);
    for (size_t pass = 0; pass < n_passes; pass++) {
        const size_t end = walk->n_rows;
        size_t n = 0;

        for (size_t rank = 0; rank < 3 && n < width; rank++)
            for (size_t row = first; row < end && n < width; row++)
                if (rank < walk->tops[row].n)
                    walk_add(walk, end + n++, (int)row, walk->tops[row].tops[rank].token);
        first = end;
        assert_int_equal(walk_expand(walk, n), 0);
    }
}

size_t walk_way(const DraftWalk *walk, size_t row, uint32_t way[WALK_ROWS_MAX]) {
    size_t n = 0;

    for (int at = (int)row; at >= 0; at = walk->rows[at].parent)
        n++;
    for (size_t i = n, at = row; i--; at = (size_t)walk->rows[at].parent)
        way[i] = walk->rows[at].token;
    return n;
}
