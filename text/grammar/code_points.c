// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/code_points.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/cleanup.h"
#include "base/min_max.h"

enum {
    CODE_POINT_MAX = 0x10ffff,
    SURROGATE_FIRST = 0xd800,
    SURROGATE_LAST = 0xdfff
};

void code_points_deinit(CodePoints *points) {
    free(points->ranges);
    *points = (CodePoints){ 0 };
}

void code_points_add(CodePoints *points, uint32_t first, uint32_t last) {
    if (points->n == points->room) {
        size_t room = MAX(2 * points->room, 16);
        GrammarRange *ranges = points->failed ? NULL : realloc(points->ranges, room * sizeof(*ranges));

        if (!ranges) {
            points->failed = true;
            return;
        }
        points->ranges = ranges;
        points->room = room;
    }
    points->ranges[points->n++] = (GrammarRange){ first, last };
}

static int compare_ranges(const void *a, const void *b) {
    const GrammarRange *x = a, *y = b;

    return x->first != y->first ? (x->first < y->first ? -1 : 1) : (x->last > y->last) - (x->last < y->last);
}

/* Sorts the ranges, and joins those that touch. */
static void sort_ranges(CodePoints *points) {
    size_t n = 0;

    if (points->n > 1)
        qsort(points->ranges, points->n, sizeof(*points->ranges), compare_ranges);
    for (size_t i = 0; i < points->n; i++) {
        GrammarRange range = points->ranges[i];

        range.last = MIN(range.last, CODE_POINT_MAX);
        if (range.first > range.last)
            continue;
        if (n && range.first <= points->ranges[n - 1].last + 1)
            points->ranges[n - 1].last = MAX(points->ranges[n - 1].last, range.last);
        else
            points->ranges[n++] = range;
    }
    points->n = n;
}

void code_points_normalize(CodePoints *points) {
    size_t n = points->n;

    for (size_t i = 0; i < n; i++) {
        GrammarRange *range = &points->ranges[i];
        const uint32_t last = range->last;

        if (range->first > SURROGATE_LAST || last < SURROGATE_FIRST)
            continue;
        if (range->first >= SURROGATE_FIRST) {
            range->first = SURROGATE_LAST + 1; /* empty if the range ends before */
            continue;
        }
        range->last = SURROGATE_FIRST - 1;
        if (last > SURROGATE_LAST)
            code_points_add(points, SURROGATE_LAST + 1, last);
    }
    sort_ranges(points);
}

void code_points_negate(CodePoints *points) {
    uint32_t next = 0;
    size_t n;

    code_points_normalize(points);
    n = points->n;
    for (size_t i = 0; i < n && !points->failed; i++) {
        const GrammarRange range = points->ranges[i];

        if (range.first > next)
            code_points_add(points, next, range.first - 1);
        next = range.last + 1;
    }
    if (next <= CODE_POINT_MAX)
        code_points_add(points, next, CODE_POINT_MAX);
    if (points->failed)
        return;
    points->n -= n;
    memmove(points->ranges, points->ranges + n, points->n * sizeof(*points->ranges));
    code_points_normalize(points);
}

void code_points_fold_ascii(CodePoints *points) {
    const size_t n = points->n;

    for (size_t i = 0; i < n; i++) {
        const GrammarRange range = points->ranges[i];
        const GrammarRange upper = { MAX(range.first, 'A'), MIN(range.last, 'Z') };
        const GrammarRange lower = { MAX(range.first, 'a'), MIN(range.last, 'z') };

        if (upper.first <= upper.last)
            code_points_add(points, upper.first + 32, upper.last + 32);
        if (lower.first <= lower.last)
            code_points_add(points, lower.first - 32, lower.last - 32);
    }
    code_points_normalize(points);
}

bool code_points_add_category(CodePoints *points, const char *name, size_t n) {
    bool is_wanted[32] = { false }, has_any = false;
    uint32_t first = 0;
    bool is_inside = false;

    if (n < 1 || n > 2)
        return false;
    for (int category = 0; category <= UTF8PROC_CATEGORY_CO; category++) {
        static const char names[][3] = { "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                         "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                         "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co" };

        is_wanted[category] = !memcmp(names[category], name, n);
        has_any = has_any || is_wanted[category];
    }
    if (!has_any)
        return false;
    for (uint32_t point = 0; point <= CODE_POINT_MAX + 1; point++) {
        const bool is_one = point <= CODE_POINT_MAX && is_wanted[utf8proc_category((utf8proc_int32_t)point)];

        if (is_one && !is_inside)
            first = point;
        if (!is_one && is_inside)
            code_points_add(points, first, point - 1);
        is_inside = is_one;
    }
    return true;
}

/* --- UTF-8 -------------------------------------------------------------------------------------------------------- */

static int encode(uint32_t point, uint8_t bytes[4]) {
    const int n = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const uint8_t leads[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

    for (int i = n; i-- > 1; point >>= 6)
        bytes[i] = 0x80 | (point & 0x3f);
    bytes[0] = (uint8_t)(leads[n] | point);
    return n;
}

/* Pushes the sequences of byte ranges of first..last, whose encodings have equal lengths, to the store's scratch. A
 * range that is not a product of byte ranges is cut where it begins or ends inside of a byte's values. */
static void push_sequences(ByteRegex *store, uint32_t first, uint32_t last) {
    uint8_t low[4], high[4];
    RegexId id = REGEX_EMPTY;
    int n;

    for (int i = 1; i < 4; i++) {
        const uint32_t rest = (1u << (6 * i)) - 1;

        if ((first | rest) >= last && first / (rest + 1) == last / (rest + 1))
            break;
        if (first & rest) {
            push_sequences(store, first, first | rest);
            push_sequences(store, (first | rest) + 1, last);
            return;
        }
        if ((last & rest) != rest) {
            push_sequences(store, first, (last & ~rest) - 1);
            push_sequences(store, last & ~rest, last);
            return;
        }
    }
    n = encode(first, low);
    encode(last, high);
    while (n--)
        id = byte_regex_concat(store, byte_regex_range(store, low[n], high[n]), id);
    byte_regex_push(store, id);
}

/* Pushes the sequences of first..last. */
static void push_range(ByteRegex *store, uint32_t first, uint32_t last) {
    static const uint32_t ends[] = { 0x7f, 0x7ff, 0xffff, CODE_POINT_MAX };

    for (size_t i = 0; i < ARRAY_LEN(ends) && first <= last; i++) {
        if (first > ends[i])
            continue;
        push_sequences(store, first, MIN(last, ends[i]));
        first = ends[i] + 1;
    }
}

/* Pushes the escape of a code point that a JSON string cannot have as such. */
static void push_escape(ByteRegex *store, uint32_t point) {
    static const char shorts[][2] = { { '"', '"' },  { '\\', '\\' }, { '\b', 'b' }, { '\f', 'f' },
                                      { '\n', 'n' }, { '\r', 'r' },  { '\t', 't' } };
    uint8_t text[] = "\\u00";
    RegexId digits[2];

    for (size_t i = 0; i < ARRAY_LEN(shorts); i++)
        if (point == (uint32_t)(unsigned char)shorts[i][0]) {
            byte_regex_push(store, byte_regex_bytes(store, (const uint8_t[]){ '\\', (uint8_t)shorts[i][1] }, 2));
            return;
        }
    for (int i = 0; i < 2; i++) {
        const uint32_t digit = point >> (i ? 0 : 4) & 15;
        ByteSet set = { 0 };

        byte_set_add(&set, (uint8_t) "0123456789abcdef"[digit]);
        byte_set_add(&set, (uint8_t) "0123456789ABCDEF"[digit]);
        digits[i] = byte_regex_set(store, &set);
    }
    byte_regex_push(store, byte_regex_concat(store, byte_regex_bytes(store, text, 4),
                                             byte_regex_concat(store, digits[0], digits[1])));
}

RegexId code_points_regex(ByteRegex *store, const CodePoints *points, unsigned int flags) {
    const size_t base = store->n_scratch;

    for (size_t i = 0; i < points->n && !store->failure; i++) {
        uint32_t first = points->ranges[i].first;
        const uint32_t last = points->ranges[i].last;

        if (!(flags & GRAMMAR_CLASS_JSON)) {
            push_range(store, first, last);
            continue;
        }
        while (first <= last) {
            const uint32_t end = first < 0x20                    ? first
                                 : first == '"' || first == '\\' ? first
                                 : first < '"'                   ? MIN(last, '"' - 1)
                                 : first < '\\'                  ? MIN(last, '\\' - 1)
                                                                 : last;

            if (first < 0x20 || first == '"' || first == '\\')
                push_escape(store, first);
            else
                push_range(store, first, end);
            first = end + 1;
        }
    }
    byte_regex_burn(store, 12 * (store->n_scratch - base));
    return byte_regex_choice_of_scratch(store, base);
}
