// SPDX-License-Identifier: Apache-2.0
/* Regular expressions as ECMA-262 writes them. A parser makes a tree, because what an anchor means depends on all that
 * stands around it; the tree then becomes one expression over bytes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "base/strings/utf8.h"
#include "text/grammar/code_points.h"
#include "text/grammar/grammar_builder.h"
#include "text/grammar/grammar_private.h"

enum {
    NESTING_MAX = 200,
    COUNT_MAX = 1000000, /* of a repeat: larger ones are refused */
};

#define NODE_NONE UINT32_MAX

typedef enum NodeKind {
    NODE_LEAF,     /* an expression */
    NODE_SEQUENCE, /* children */
    NODE_CHOICE,   /* children */
    NODE_REPEAT,   /* one child */
    NODE_START,    /* ^ */
    NODE_END,      /* $ */
} NodeKind;

typedef struct PatternNode {
    NodeKind kind;
    bool has_anchor; /* itself or inside */
    uint32_t child, last_child, sibling;
    uint32_t min, max;
    RegexId regex;
} PatternNode;

typedef struct Pattern {
    ByteRegex *regex;
    const char *text;
    size_t n, at;
    unsigned int flags;
    int nesting;
    PatternNode *nodes;
    uint32_t n_nodes, room_nodes;
    RegexId any; /* any text, for a search */
    ErrText *err;
} Pattern;

static void pattern_deinit(Pattern *pattern) {
    free(pattern->nodes);
}

static int refuse(Pattern *pattern, int r, const char *what) {
    return err_set(pattern->err, r, "%s %s at offset %zu of the regular expression", what,
                   r == GRAMMAR_E_UNSUPPORTED ? "is not supported," : "", pattern->at);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static int add_node(Pattern *pattern, NodeKind kind, uint32_t *nodep) {
    if (pattern->n_nodes == pattern->room_nodes) {
        uint32_t room = MAX(2 * pattern->room_nodes, 64);
        PatternNode *nodes = realloc(pattern->nodes, room * sizeof(*nodes));

        if (!nodes)
            return err_no_memory(pattern->err);
        pattern->nodes = nodes;
        pattern->room_nodes = room;
    }
    pattern->nodes[pattern->n_nodes] = (PatternNode){ .kind = kind,
                                                      .has_anchor = kind == NODE_START || kind == NODE_END,
                                                      .child = NODE_NONE,
                                                      .last_child = NODE_NONE,
                                                      .sibling = NODE_NONE };
    *nodep = pattern->n_nodes++;
    return 0;
}

static void add_child(Pattern *pattern, uint32_t parent, uint32_t child) {
    PatternNode *node = &pattern->nodes[parent];

    if (node->last_child == NODE_NONE)
        node->child = child;
    else
        pattern->nodes[node->last_child].sibling = child;
    node->last_child = child;
    node->has_anchor = node->has_anchor || pattern->nodes[child].has_anchor;
}

/* Adds a leaf of one code point of a class, which becomes normal. */
static int add_class(Pattern *pattern, CodePoints *points, uint32_t *nodep) {
    int r;

    if (pattern->flags & GRAMMAR_REGEX_IGNORE_CASE)
        code_points_fold_ascii(points);
    else
        code_points_normalize(points);
    if (points->failed)
        return err_no_memory(pattern->err);
    r = add_node(pattern, NODE_LEAF, nodep);
    if (!r)
        pattern->nodes[*nodep].regex =
            code_points_regex(pattern->regex, points, pattern->flags & GRAMMAR_REGEX_JSON ? GRAMMAR_CLASS_JSON : 0);
    return r;
}

/* --- characters --------------------------------------------------------------------------------------------------- */

static bool has_next(const Pattern *pattern, char c) {
    return pattern->at < pattern->n && pattern->text[pattern->at] == c;
}

/* Takes text if it stands here. */
static bool take(Pattern *pattern, const char *text) {
    const size_t n = strlen(text);

    if (pattern->n - pattern->at < n || memcmp(pattern->text + pattern->at, text, n))
        return false;
    pattern->at += n;
    return true;
}

static int take_point(Pattern *pattern, uint32_t *pointp) {
    const uint8_t *bytes = (const uint8_t *)pattern->text + pattern->at;
    const size_t n = utf8_sequence(bytes, pattern->n - pattern->at);

    if (!n)
        return refuse(pattern, GRAMMAR_E_SYNTAX, "malformed UTF-8");
    *pointp = n == 1 ? bytes[0] : bytes[0] & (0x3fu >> (n - 1));
    for (size_t i = 1; i < n; i++)
        *pointp = *pointp << 6 | (bytes[i] & 0x3f);
    pattern->at += n;
    return 0;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Takes exactly n hexadecimal digits. Whether they stand here. */
static bool take_hex(Pattern *pattern, int n, uint32_t *pointp) {
    uint32_t point = 0;

    if (pattern->n - pattern->at < (size_t)n)
        return false;
    for (int i = 0; i < n; i++) {
        const int digit = hex_digit(pattern->text[pattern->at + (size_t)i]);

        if (digit < 0)
            return false;
        point = point << 4 | (uint32_t)digit;
    }
    pattern->at += (size_t)n;
    *pointp = point;
    return true;
}

/* Takes what follows \u or \x: XX, XXXX, {X...}, or a pair of surrogates. */
static int take_code(Pattern *pattern, char kind, uint32_t *pointp) {
    const size_t begin = pattern->at;
    uint32_t low;

    if (take(pattern, "{")) {
        uint32_t point = 0;
        int n = 0;

        for (; n < 7 && pattern->at < pattern->n && hex_digit(pattern->text[pattern->at]) >= 0; n++)
            point = point << 4 | (uint32_t)hex_digit(pattern->text[pattern->at++]);
        if (!n || !take(pattern, "}") || point > 0x10ffff)
            return refuse(pattern, GRAMMAR_E_SYNTAX, "a malformed code point");
        *pointp = point;
        return 0;
    }
    if (!take_hex(pattern, kind == 'x' ? 2 : 4, pointp)) {
        pattern->at = begin;
        return refuse(pattern, GRAMMAR_E_SYNTAX, "a malformed code point");
    }
    if (*pointp >= 0xd800 && *pointp < 0xdc00) {
        const size_t before = pattern->at;

        if (take(pattern, "\\u") && take_hex(pattern, 4, &low) && low >= 0xdc00 && low < 0xe000)
            *pointp = 0x10000 + ((*pointp - 0xd800) << 10) + (low - 0xdc00);
        else
            pattern->at = before;
    }
    return 0;
}

static void add_ranges(CodePoints *points, const GrammarRange *ranges, size_t n) {
    for (size_t i = 0; i < n; i++)
        code_points_add(points, ranges[i].first, ranges[i].last);
}

/* Adds the class of \d, \w or \s, or its complement for the upper case. Whether there is such a class. */
static bool add_named(CodePoints *points, char name) {
    static const GrammarRange digits[] = { { '0', '9' } };
    static const GrammarRange words[] = { { '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } };
    static const GrammarRange spaces[] = { { 9, 13 },          { 32, 32 },         { 0xa0, 0xa0 },
                                           { 0x1680, 0x1680 }, { 0x2000, 0x200a }, { 0x2028, 0x2029 },
                                           { 0x202f, 0x202f }, { 0x205f, 0x205f }, { 0x3000, 0x3000 },
                                           { 0xfeff, 0xfeff } };
    _cleanup_(code_points_deinit) CodePoints named = { 0 };

    switch (name | 32) {
    case 'd':
        add_ranges(&named, digits, ARRAY_LEN(digits));
        break;
    case 'w':
        add_ranges(&named, words, ARRAY_LEN(words));
        break;
    case 's':
        add_ranges(&named, spaces, ARRAY_LEN(spaces));
        break;
    default:
        return false;
    }
    if (!(name & 32))
        code_points_negate(&named);
    points->failed = points->failed || named.failed;
    add_ranges(points, named.ranges, named.n);
    return true;
}

/* Long names of general categories that patterns use. */
static const char *short_category(const char *name, size_t n) {
    static const char names[][2][24] = {
        { "Letter", "L" },
        { "Lowercase_Letter", "Ll" },
        { "Uppercase_Letter", "Lu" },
        { "Titlecase_Letter", "Lt" },
        { "Mark", "M" },
        { "Number", "N" },
        { "Decimal_Number", "Nd" },
        { "Punctuation", "P" },
        { "Symbol", "S" },
        { "Separator", "Z" },
        { "Space_Separator", "Zs" },
        { "Other", "C" },
        { "Control", "Cc" },
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strlen(names[i][0]) == n && !memcmp(names[i][0], name, n))
            return names[i][1];
    return NULL;
}

/* Takes the rest of \p{...} or \P{...}. */
static int take_category(Pattern *pattern, bool is_negated, CodePoints *points) {
    _cleanup_(code_points_deinit) CodePoints category = { 0 };
    const char *name, *end, *known;
    size_t n;

    if (!take(pattern, "{"))
        return refuse(pattern, GRAMMAR_E_UNSUPPORTED, "\\p without braces");
    name = pattern->text + pattern->at;
    end = memchr(name, '}', pattern->n - pattern->at);
    if (!end)
        return refuse(pattern, GRAMMAR_E_SYNTAX, "\\p{ without its brace");
    n = (size_t)(end - name);
    for (size_t i = 0; i < 2; i++) {
        static const char *const prefixes[] = { "gc=", "General_Category=" };
        const size_t n_prefix = strlen(prefixes[i]);

        if (n > n_prefix && !memcmp(name, prefixes[i], n_prefix)) {
            name += n_prefix;
            n -= n_prefix;
        }
    }
    known = short_category(name, n);
    /* A look at every code point is as much work as many nodes. */
    if (pattern->regex->fuel < 20000) {
        pattern->regex->failure = GRAMMAR_E_TOO_COMPLEX;
        return GRAMMAR_E_TOO_COMPLEX;
    }
    pattern->regex->fuel -= 20000;
    if (!code_points_add_category(&category, known ? known : name, known ? strlen(known) : n))
        return refuse(pattern, GRAMMAR_E_UNSUPPORTED, "a property that is no general category");
    pattern->at = (size_t)(end - pattern->text) + 1;
    if (is_negated)
        code_points_negate(&category);
    points->failed = points->failed || category.failed;
    add_ranges(points, category.ranges, category.n);
    return 0;
}

/* Takes what follows a backslash and stands for a character or a class. *is_classp: it is in points and no range
 * begins or ends with it; else the character is *pointp. */
static int take_escape(Pattern *pattern, bool is_in_class, CodePoints *points, uint32_t *pointp, bool *is_classp) {
    static const char controls[][2] = { { 't', '\t' }, { 'n', '\n' }, { 'r', '\r' }, { 'f', '\f' }, { 'v', '\v' } };
    char c;

    *is_classp = false;
    if (pattern->at == pattern->n)
        return refuse(pattern, GRAMMAR_E_SYNTAX, "a backslash at the end");
    c = pattern->text[pattern->at];
    if ((unsigned char)c >= 0x80)
        return take_point(pattern, pointp);
    pattern->at++;
    for (size_t i = 0; i < ARRAY_LEN(controls); i++)
        if (c == controls[i][0]) {
            *pointp = (uint32_t)controls[i][1];
            return 0;
        }
    *is_classp = true;
    if (add_named(points, c))
        return 0;
    if (c == 'p' || c == 'P')
        return take_category(pattern, c == 'P', points);
    *is_classp = false;
    if (c == 'x' || c == 'u')
        return take_code(pattern, c, pointp);
    if (c == '0' &&
        !(pattern->at < pattern->n && pattern->text[pattern->at] >= '0' && pattern->text[pattern->at] <= '9')) {
        *pointp = 0;
        return 0;
    }
    if (c == 'b' && is_in_class) {
        *pointp = '\b';
        return 0;
    }
    if (c == 'c' && pattern->at < pattern->n && (pattern->text[pattern->at] | 32) >= 'a' &&
        (pattern->text[pattern->at] | 32) <= 'z') {
        *pointp = (uint32_t)pattern->text[pattern->at++] & 31;
        return 0;
    }
    if (c == 'b' || c == 'B')
        return refuse(pattern, GRAMMAR_E_UNSUPPORTED, "a word boundary");
    if ((c >= '0' && c <= '9') || c == 'k')
        return refuse(pattern, GRAMMAR_E_UNSUPPORTED, "a back reference");
    if ((c | 32) >= 'a' && (c | 32) <= 'z')
        return refuse(pattern, GRAMMAR_E_UNSUPPORTED, "an unknown escape");
    *pointp = (uint32_t)c;
    return 0;
}

/* Takes a class behind its bracket. */
static int take_class(Pattern *pattern, uint32_t *nodep) {
    _cleanup_(code_points_deinit) CodePoints points = { 0 };
    const bool is_negated = take(pattern, "^");
    bool has_low = false, is_range = false, is_class;
    uint32_t low = 0, point = 0;
    int r;

    while (!has_next(pattern, ']')) {
        if (pattern->at == pattern->n)
            return refuse(pattern, GRAMMAR_E_SYNTAX, "a class without its bracket");
        if (has_low && !is_range && has_next(pattern, '-') && pattern->at + 1 < pattern->n &&
            pattern->text[pattern->at + 1] != ']') {
            pattern->at++;
            is_range = true;
            continue;
        }
        is_class = false;
        r = take(pattern, "\\") ? take_escape(pattern, true, &points, &point, &is_class) : take_point(pattern, &point);
        if (r)
            return r;
        if (is_range && (is_class || point < low))
            return refuse(pattern, GRAMMAR_E_SYNTAX, "a range out of order");
        if (!is_class)
            code_points_add(&points, is_range ? low : point, point);
        has_low = !is_class && !is_range;
        is_range = false;
        low = point;
    }
    pattern->at++;
    if (pattern->flags & GRAMMAR_REGEX_IGNORE_CASE)
        code_points_fold_ascii(&points);
    if (is_negated)
        code_points_negate(&points);
    return add_class(pattern, &points, nodep);
}

/* --- the tree ----------------------------------------------------------------------------------------------------- */

static int take_choice(Pattern *pattern, uint32_t *nodep);

/* Takes what follows "(", up to and with ")". */
static int take_group(Pattern *pattern, uint32_t *nodep) {
    const unsigned int flags = pattern->flags;
    int r;

    if (take(pattern, "?")) {
        if (take(pattern, "=") || take(pattern, "!") || take(pattern, "<=") || take(pattern, "<!"))
            return refuse(pattern, GRAMMAR_E_UNSUPPORTED, "look-around");
        if (take(pattern, "i:"))
            pattern->flags |= GRAMMAR_REGEX_IGNORE_CASE;
        else if (take(pattern, "P<") || take(pattern, "<")) {
            const char *end = memchr(pattern->text + pattern->at, '>', pattern->n - pattern->at);

            if (!end)
                return refuse(pattern, GRAMMAR_E_SYNTAX, "a group's name without its end");
            pattern->at = (size_t)(end - pattern->text) + 1;
        } else if (!take(pattern, ":"))
            return refuse(pattern, GRAMMAR_E_UNSUPPORTED, "a group of that kind");
    }
    if (++pattern->nesting > NESTING_MAX)
        return refuse(pattern, GRAMMAR_E_TOO_COMPLEX, "groups too deep inside each other");
    r = take_choice(pattern, nodep);
    pattern->nesting--;
    pattern->flags = flags;
    if (!r && !take(pattern, ")"))
        return refuse(pattern, GRAMMAR_E_SYNTAX, "a group without its parenthesis");
    return r;
}

static int take_atom(Pattern *pattern, uint32_t *nodep) {
    static const GrammarRange line_ends[] = { { '\n', '\n' }, { '\r', '\r' }, { 0x2028, 0x2029 } };
    _cleanup_(code_points_deinit) CodePoints points = { 0 };
    bool is_class = false;
    uint32_t point = 0;
    int r;

    if (take(pattern, "("))
        return take_group(pattern, nodep);
    if (take(pattern, "["))
        return take_class(pattern, nodep);
    if (take(pattern, "^") || take(pattern, "\\A"))
        return add_node(pattern, NODE_START, nodep);
    if (take(pattern, "$") || take(pattern, "\\z"))
        return add_node(pattern, NODE_END, nodep);
    if (take(pattern, ".")) {
        if (!(pattern->flags & GRAMMAR_REGEX_DOT_ALL))
            add_ranges(&points, line_ends, ARRAY_LEN(line_ends));
        code_points_negate(&points);
        return add_class(pattern, &points, nodep);
    }
    if (has_next(pattern, '*') || has_next(pattern, '+') || has_next(pattern, '?'))
        return refuse(pattern, GRAMMAR_E_SYNTAX, "a repeat of nothing");
    r = take(pattern, "\\") ? take_escape(pattern, false, &points, &point, &is_class) : take_point(pattern, &point);
    if (r)
        return r;
    if (!is_class)
        code_points_add(&points, point, point);
    return add_class(pattern, &points, nodep);
}

/* Takes a number. Whether there is one; above COUNT_MAX all are the same. */
static bool take_count(Pattern *pattern, uint32_t *countp) {
    const size_t begin = pattern->at;
    uint32_t count = 0;

    for (; pattern->at < pattern->n && pattern->text[pattern->at] >= '0' && pattern->text[pattern->at] <= '9';
         pattern->at++)
        count = MIN(count * 10 + (uint32_t)(pattern->text[pattern->at] - '0'), COUNT_MAX + 1);
    *countp = count;
    return pattern->at > begin;
}

/* Takes a quantifier, if there is one: a brace that begins none stands for itself. */
static bool take_quantifier(Pattern *pattern, uint32_t *minp, uint32_t *maxp) {
    const size_t begin = pattern->at;

    *minp = 0;
    *maxp = GRAMMAR_NO_MAX;
    if (take(pattern, "*"))
        return true;
    if (take(pattern, "+")) {
        *minp = 1;
        return true;
    }
    if (take(pattern, "?")) {
        *maxp = 1;
        return true;
    }
    if (take(pattern, "{") && take_count(pattern, minp)) {
        *maxp = *minp;
        if (take(pattern, ",") && !take_count(pattern, maxp))
            *maxp = GRAMMAR_NO_MAX;
        if (take(pattern, "}"))
            return true;
    }
    pattern->at = begin;
    return false;
}

/* Takes an atom with its quantifiers. */
static int take_piece(Pattern *pattern, uint32_t *nodep) {
    uint32_t node, min, max;
    int r = take_atom(pattern, &node);

    if (!r && take_quantifier(pattern, &min, &max)) {
        const uint32_t what = node;

        if (take(pattern, "+"))
            return refuse(pattern, GRAMMAR_E_UNSUPPORTED, "a possessive quantifier");
        take(pattern, "?"); /* lazy: the same texts */
        if (min > COUNT_MAX || (max > COUNT_MAX && max != GRAMMAR_NO_MAX))
            return refuse(pattern, GRAMMAR_E_TOO_COMPLEX, "a count above 1000000");
        if (max < min)
            return refuse(pattern, GRAMMAR_E_SYNTAX, "a repeat whose counts are out of order");
        if (pattern->nodes[what].has_anchor)
            return refuse(pattern, GRAMMAR_E_UNSUPPORTED, "an anchor inside of a repeat");
        r = add_node(pattern, NODE_REPEAT, &node);
        if (r)
            return r;
        pattern->nodes[node].min = min;
        pattern->nodes[node].max = max;
        add_child(pattern, node, what);
        if (has_next(pattern, '*') || has_next(pattern, '+') || has_next(pattern, '?'))
            return refuse(pattern, GRAMMAR_E_SYNTAX, "a repeat of a repeat");
    }
    *nodep = node;
    return r;
}

static int take_choice(Pattern *pattern, uint32_t *nodep) {
    int r = add_node(pattern, NODE_CHOICE, nodep);

    while (!r) {
        uint32_t sequence = NODE_NONE, piece = NODE_NONE;

        r = add_node(pattern, NODE_SEQUENCE, &sequence);
        while (!r && pattern->at < pattern->n && !has_next(pattern, '|') && !has_next(pattern, ')')) {
            r = take_piece(pattern, &piece);
            if (!r)
                add_child(pattern, sequence, piece);
        }
        if (!r)
            add_child(pattern, *nodep, sequence);
        if (r || !take(pattern, "|"))
            break;
    }
    return r;
}

/* --- the expression ----------------------------------------------------------------------------------------------- */

/* Where a node stands: whether the text's start or end would be there. */
typedef struct Place {
    bool is_start;
    bool is_end;
} Place;

static int lower(Pattern *pattern, uint32_t at, Place place, RegexId *idp);

/* Surrounds an expression by any text, where a search may go on. */
static RegexId search_around(Pattern *pattern, RegexId id, Place place) {
    if (!(pattern->flags & GRAMMAR_REGEX_SEARCH))
        return id;
    if (place.is_end)
        id = byte_regex_concat(pattern->regex, id, pattern->any);
    return place.is_start ? byte_regex_concat(pattern->regex, pattern->any, id) : id;
}

/* Puts a sequence together. Anchors at its ends say that no other text is there; anchors elsewhere are refused. */
static int lower_sequence(Pattern *pattern, uint32_t at, Place place, RegexId *idp) {
    const size_t base = pattern->regex->n_scratch;
    uint32_t child = pattern->nodes[at].child, last = NODE_NONE;
    RegexId id = REGEX_EMPTY;
    int r = 0;

    for (; child != NODE_NONE && pattern->nodes[child].kind == NODE_START; child = pattern->nodes[child].sibling) {
        if (!place.is_start && child == pattern->nodes[at].child)
            return refuse(pattern, GRAMMAR_E_UNSUPPORTED, "an anchor in the middle");
        place.is_start = false;
    }
    for (uint32_t i = child; i != NODE_NONE; i = pattern->nodes[i].sibling)
        last = pattern->nodes[i].kind == NODE_END ? last : i;
    if (last == NODE_NONE && child != NODE_NONE) { /* nothing but ends */
        if (!place.is_end)
            return refuse(pattern, GRAMMAR_E_UNSUPPORTED, "an anchor in the middle");
        place.is_end = false;
        child = NODE_NONE;
    } else if (last != NODE_NONE && pattern->nodes[last].sibling != NODE_NONE) {
        if (!place.is_end)
            return refuse(pattern, GRAMMAR_E_UNSUPPORTED, "an anchor in the middle");
        place.is_end = false;
    }
    if (child == NODE_NONE) {
        *idp = search_around(pattern, REGEX_EMPTY, place);
        /* Any text at both sides is any text. */
        if (place.is_start && place.is_end && pattern->flags & GRAMMAR_REGEX_SEARCH)
            *idp = pattern->any;
        return 0;
    }
    for (bool is_first = true; !r; child = pattern->nodes[child].sibling, is_first = false) {
        r = lower(pattern, child, (Place){ place.is_start && is_first, place.is_end && child == last }, &id);
        if (!r)
            r = byte_regex_push(pattern->regex, id);
        if (child == last)
            break;
    }
    for (id = REGEX_EMPTY; !r && pattern->regex->n_scratch > base;)
        id = byte_regex_concat(pattern->regex, pattern->regex->scratch[--pattern->regex->n_scratch], id);
    pattern->regex->n_scratch = base;
    *idp = id;
    return r;
}

static int lower(Pattern *pattern, uint32_t at, Place place, RegexId *idp) {
    const PatternNode node = pattern->nodes[at];
    const size_t base = pattern->regex->n_scratch;
    RegexId id = REGEX_NOTHING;
    int r = 0;

    switch (node.kind) {
    case NODE_LEAF:
        *idp = search_around(pattern, node.regex, place);
        return 0;
    case NODE_SEQUENCE:
        return lower_sequence(pattern, at, place, idp);
    case NODE_REPEAT:
        r = lower(pattern, node.child, (Place){ false, false }, &id);
        *idp = search_around(pattern, byte_regex_repeat(pattern->regex, id, node.min, node.max), place);
        return r;
    case NODE_CHOICE:
        for (uint32_t child = node.child; child != NODE_NONE && !r; child = pattern->nodes[child].sibling) {
            r = lower(pattern, child, place, &id);
            if (!r)
                r = byte_regex_push(pattern->regex, id);
        }
        *idp = byte_regex_choice_of_scratch(pattern->regex, base);
        return r;
    default:
        return refuse(pattern, GRAMMAR_E_UNSUPPORTED, "an anchor in the middle");
    }
}

int grammar_part_regex(GrammarBuilder *builder, const char *text, size_t n, unsigned int flags, GrammarPart *partp,
                       ErrText *err) {
    _cleanup_(pattern_deinit) Pattern pattern = { .text = text, .n = n, .flags = flags, .err = err };
    _cleanup_(code_points_deinit) CodePoints points = { 0 };
    RegexId id = REGEX_NOTHING;
    uint32_t root;
    int r;

    *partp = 0;
    if (grammar_builder_failed(builder))
        return err_set(err, GRAMMAR_E_TOO_COMPLEX, "the grammar is too large or too complex");
    pattern.regex = builder->regex;
    code_points_add(&points, 0, 0x10ffff);
    code_points_normalize(&points);
    pattern.any = byte_regex_repeat(
        pattern.regex, code_points_regex(pattern.regex, &points, flags & GRAMMAR_REGEX_JSON ? GRAMMAR_CLASS_JSON : 0),
        0, REGEX_NO_MAX);
    if (take(&pattern, "(?i)"))
        pattern.flags |= GRAMMAR_REGEX_IGNORE_CASE;
    r = points.failed ? err_no_memory(err) : take_choice(&pattern, &root);
    if (!r && pattern.at < n)
        r = refuse(&pattern, GRAMMAR_E_SYNTAX, "a parenthesis without its group");
    if (!r)
        r = lower(&pattern, root, (Place){ true, true }, &id);
    if (pattern.regex->failure)
        return pattern.regex->failure == -ENOMEM
                   ? err_no_memory(err)
                   : err_set(err, GRAMMAR_E_TOO_COMPLEX, "the regular expression is too complex: simplify it");
    if (!r)
        *partp = grammar_part_of_regex(builder, id);
    return r;
}
