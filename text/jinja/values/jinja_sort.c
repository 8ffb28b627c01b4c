// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/values/jinja_sort.h"

#include "base/min_max.h"
#include "text/jinja/values/jinja_run.h"

static bool goes_first(JinjaRun *run, const JinjaSortItem *right, const JinjaSortItem *left, bool reverse) {
    return (reverse ? jinja_compare(run, left->key, right->key, "<")
                    : jinja_compare(run, right->key, left->key, "<")) == -1;
}

JinjaSortItem *jinja_sort(JinjaRun *run, JinjaSortItem *items, uint32_t n, bool reverse) {
    JinjaSortItem *from = items, *to = jinja_take(run, (size_t)n + 1, sizeof(*to));

    for (uint64_t width = 1; width < n; width *= 2) {
        JinjaSortItem *other = from;

        for (uint64_t begin = 0; begin < n; begin += 2 * width) {
            uint64_t middle = MIN(begin + width, n), end = MIN(begin + 2 * width, n), a = begin, b = middle;

            for (uint64_t i = begin; i < end; i++) {
                bool right = a == middle || (b < end && goes_first(run, &from[b], &from[a], reverse));

                to[i] = right ? from[b++] : from[a++];
            }
        }
        from = to;
        to = other;
    }
    return from;
}
