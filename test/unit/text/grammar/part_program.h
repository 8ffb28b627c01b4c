// SPDX-License-Identifier: Apache-2.0
/* Grammars from arbitrary bytes, and what a table of all spans says of their texts: an oracle for short texts that
 * knows nothing of derivatives, rows or states. For unit tests and fuzzers. */
#ifndef COORDGEN_TEST_PART_PROGRAM_H
#define COORDGEN_TEST_PART_PROGRAM_H

#include <assert.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/min_max.h"
#include "text/grammar/grammar_matcher.h"
#include "text/grammar/grammar_builder.h"

enum {
    PROGRAM_PARTS_MAX = 28,
    PROGRAM_TEXT_MAX = 8,
    PROGRAM_RULES = 3,
    PROGRAM_MEMBERS = 3
};

typedef enum ProgramKind {
    PROGRAM_EMPTY,
    PROGRAM_SET,
    PROGRAM_SEQUENCE,
    PROGRAM_CHOICE,
    PROGRAM_REPEAT,
    PROGRAM_AND,
    PROGRAM_NOT,
    PROGRAM_UNORDERED, /* 'a' and part a, 'b' and part b, and "ab", in any order with a 'c' between each two */
    PROGRAM_RULE,
    _PROGRAM_KINDS_N
} ProgramKind;

typedef struct ProgramPart {
    ProgramKind kind;
    uint32_t a, b; /* parts; of a set: its letters as bits; of a rule: the body */
    uint32_t min, max;
    bool has_rule;
} ProgramPart;

typedef bool ProgramSpans[PROGRAM_TEXT_MAX + 1][PROGRAM_TEXT_MAX + 1];

typedef struct Program {
    ProgramPart parts[PROGRAM_PARTS_MAX];
    uint32_t n;
    char text[PROGRAM_TEXT_MAX];
    uint32_t n_text;
    bool has_logic; /* ways to an end are short, not the shortest */
    ProgramSpans spans[PROGRAM_PARTS_MAX];
} Program;

typedef struct ProgramBytes {
    const uint8_t *bytes;
    size_t n;
} ProgramBytes;

static inline uint32_t program_take(ProgramBytes *in) {
    if (!in->n)
        return 0;
    in->n--;
    return *in->bytes++;
}

/* Reads parts; the first ones are rules, whose bodies come from the end. */
static inline void program_read(Program *program, ProgramBytes in) {
    *program = (Program){ .n_text = program_take(&in) % (PROGRAM_TEXT_MAX + 1) };
    for (uint32_t i = 0; i < program->n_text; i++)
        program->text[i] = (char)('a' + program_take(&in) % 3);
    for (; program->n < PROGRAM_PARTS_MAX && (in.n || program->n < PROGRAM_RULES + 1); program->n++) {
        ProgramPart *part = &program->parts[program->n];
        const uint32_t kind = program->n < PROGRAM_RULES ? PROGRAM_RULE : program_take(&in) % PROGRAM_RULE;

        *part = (ProgramPart){ .kind = kind, .has_rule = program->n < PROGRAM_RULES };
        if (kind == PROGRAM_SET)
            part->a = program_take(&in) % 8;
        if (kind == PROGRAM_SET || kind == PROGRAM_EMPTY || kind == PROGRAM_RULE)
            continue;
        part->a = program_take(&in) % program->n;
        part->b = program_take(&in) % program->n;
        part->min = program_take(&in) % 4;
        part->max = part->min + program_take(&in) % 4;
        if (part->max == part->min + 3)
            part->max = GRAMMAR_NO_MAX;
        part->has_rule = kind == PROGRAM_UNORDERED || program->parts[part->a].has_rule ||
                         (kind != PROGRAM_REPEAT && program->parts[part->b].has_rule);
        if (part->has_rule && (kind == PROGRAM_AND || kind == PROGRAM_NOT))
            part->kind = PROGRAM_CHOICE;
        program->has_logic = program->has_logic || part->kind == PROGRAM_AND || part->kind == PROGRAM_NOT;
    }
    for (uint32_t i = 0; i < PROGRAM_RULES; i++)
        program->parts[i].a = program->n - 1 - i % program->n;
}

/* Finds the spans of n copies after each other of what spans has, from those of n - 1. */
static inline void program_follow(const ProgramSpans before, const ProgramSpans spans, uint32_t n_text,
                                  ProgramSpans out) {
    ProgramSpans result = { { false } };

    for (uint32_t i = 0; i <= n_text; i++)
        for (uint32_t k = i; k <= n_text; k++)
            for (uint32_t j = k; before[i][k] && j <= n_text; j++)
                result[i][j] = result[i][j] || spans[k][j];
    memcpy(out, result, sizeof(result));
}

static inline void program_repeat(const Program *program, const ProgramPart *part, ProgramSpans out) {
    const uint32_t n = MIN(part->max, part->min + PROGRAM_TEXT_MAX + 1);
    ProgramSpans copies = { { false } };

    for (uint32_t i = 0; i <= program->n_text; i++)
        copies[i][i] = true;
    for (uint32_t k = 0; k <= n; k++) {
        for (uint32_t i = 0; k >= part->min && i <= program->n_text; i++)
            for (uint32_t j = i; j <= program->n_text; j++)
                out[i][j] = out[i][j] || copies[i][j];
        program_follow((const bool(*)[PROGRAM_TEXT_MAX + 1]) copies,
                       (const bool(*)[PROGRAM_TEXT_MAX + 1]) program->spans[part->a], program->n_text, copies);
    }
}

/* Which members of an unordered part may repeat, and which of the others are required, as bits. */
static inline uint32_t program_repeated(const ProgramPart *part) {
    return part->max == GRAMMAR_NO_MAX ? 3 : part->max - part->min;
}

static inline uint32_t program_required(const ProgramPart *part) {
    return part->min & ~program_repeated(part);
}

/* Whether a member stands at i..j. */
static inline bool program_member(const Program *program, const ProgramPart *part, uint32_t member, uint32_t i,
                                  uint32_t j) {
    if (i == program->n_text || program->text[i] != (member == 1 ? 'b' : 'a'))
        return false;
    if (member == 2)
        return j == i + 2 && program->text[i + 1] == 'b';
    return j > i && program->spans[member ? part->b : part->a][i + 1][j];
}

/* Goes through the places where a member may begin, with the members seen before as bits. */
static inline void program_unordered(const Program *program, const ProgramPart *part, ProgramSpans out) {
    const uint32_t required = program_required(part), repeated = program_repeated(part);

    for (uint32_t i = 0; i <= program->n_text; i++) {
        bool may_begin[PROGRAM_TEXT_MAX + 1][1 << PROGRAM_MEMBERS] = { { false } };

        may_begin[i][0] = true;
        out[i][i] = !required;
        for (uint32_t k = i; k <= program->n_text; k++)
            for (uint32_t seen = 0; seen < 1 << PROGRAM_MEMBERS; seen++)
                for (uint32_t member = 0; may_begin[k][seen] && member < PROGRAM_MEMBERS; member++)
                    for (uint32_t j = k + 1; !(seen >> member & 1) && j <= program->n_text; j++) {
                        const uint32_t after = repeated >> member & 1 ? seen : seen | 1u << member;

                        if (!program_member(program, part, member, k, j))
                            continue;
                        out[i][j] = out[i][j] || !(required & ~after);
                        if (j < program->n_text && program->text[j] == 'c')
                            may_begin[j + 1][after] = true;
                    }
    }
}

static inline void program_part(const Program *program, const ProgramPart *part, ProgramSpans out) {
    const bool(*a)[PROGRAM_TEXT_MAX + 1] =
        (const bool(*)[PROGRAM_TEXT_MAX + 1]) program->spans[part->kind == PROGRAM_SET ? 0 : part->a];
    const bool(*b)[PROGRAM_TEXT_MAX + 1] = (const bool(*)[PROGRAM_TEXT_MAX + 1]) program->spans[part->b];

    if (part->kind == PROGRAM_SEQUENCE)
        program_follow(a, b, program->n_text, out);
    if (part->kind == PROGRAM_REPEAT)
        program_repeat(program, part, out);
    if (part->kind == PROGRAM_UNORDERED)
        program_unordered(program, part, out);
    for (uint32_t i = 0; i <= program->n_text; i++)
        for (uint32_t j = i; j <= program->n_text; j++)
            switch (part->kind) {
            case PROGRAM_EMPTY:
                out[i][j] = i == j;
                break;
            case PROGRAM_SET:
                out[i][j] = j == i + 1 && part->a >> (program->text[i] - 'a') & 1;
                break;
            case PROGRAM_CHOICE:
                out[i][j] = a[i][j] || b[i][j];
                break;
            case PROGRAM_AND:
                out[i][j] = a[i][j] && b[i][j];
                break;
            case PROGRAM_NOT:
                out[i][j] = !a[i][j];
                break;
            case PROGRAM_RULE:
                out[i][j] = a[i][j];
                break;
            default:
                break;
            }
}

/* Fills the table: parts without rules are right at once, the others grow until nothing changes. */
static inline void program_run(Program *program) {
    for (bool has_changed = true; has_changed;) {
        has_changed = false;
        for (uint32_t i = 0; i < program->n; i++) {
            ProgramSpans spans = { { false } };

            program_part(program, &program->parts[i], spans);
            has_changed = has_changed || memcmp(spans, program->spans[i], sizeof(spans));
            memcpy(program->spans[i], spans, sizeof(spans));
        }
    }
}

static inline GrammarPart program_build_unordered(GrammarBuilder *builder, const ProgramPart *part,
                                                  const GrammarPart *parts) {
    const uint32_t required = program_required(part), repeated = program_repeated(part);
    GrammarMember members[PROGRAM_MEMBERS];

    for (uint32_t i = 0; i < PROGRAM_MEMBERS; i++) {
        GrammarPart text = grammar_part_bytes(builder, i == 1 ? "b" : "ab", i == 2 ? 2 : 1);

        if (i < 2)
            text = grammar_part_sequence(builder, (const GrammarPart[]){ text, parts[i ? part->b : part->a] }, 2);
        members[i] = (GrammarMember){ text, required >> i & 1, repeated >> i & 1 };
    }
    return grammar_part_unordered(builder, members, PROGRAM_MEMBERS, grammar_part_bytes(builder, "c", 1));
}

static inline GrammarPart program_build_part(GrammarBuilder *builder, const ProgramPart *part,
                                             const GrammarPart *parts) {
    GrammarRange ranges[3];
    size_t n = 0;

    switch (part->kind) {
    case PROGRAM_EMPTY:
        return grammar_part_empty(builder);
    case PROGRAM_SET:
        for (uint32_t letter = 0; letter < 3; letter++)
            if (part->a >> letter & 1)
                ranges[n++] = (GrammarRange){ 'a' + letter, 'a' + letter };
        return grammar_part_class(builder, ranges, n, 0);
    case PROGRAM_SEQUENCE:
        return grammar_part_sequence(builder, (const GrammarPart[]){ parts[part->a], parts[part->b] }, 2);
    case PROGRAM_CHOICE:
        return grammar_part_choice(builder, (const GrammarPart[]){ parts[part->a], parts[part->b] }, 2);
    case PROGRAM_REPEAT:
        return grammar_part_repeat(builder, parts[part->a], part->min, part->max);
    case PROGRAM_AND:
        return grammar_part_and(builder, parts[part->a], parts[part->b]);
    case PROGRAM_NOT:
        return grammar_part_not(builder, parts[part->a]);
    case PROGRAM_UNORDERED:
        return program_build_unordered(builder, part, parts);
    default:
        return grammar_part_rule(builder, NULL);
    }
}

/* Makes the grammar. Returns what grammar_builder_finish() returns. */
static inline int program_build(const Program *program, Grammar **grammarp) {
    _cleanup_(grammar_builder_freep) GrammarBuilder *builder = NULL;
    GrammarPart parts[PROGRAM_PARTS_MAX];
    ErrText err;
    int r = grammar_builder_new(&builder, &GRAMMAR_LIMITS_DEFAULT);

    assert(!r);
    for (uint32_t i = 0; i < program->n; i++)
        parts[i] = program_build_part(builder, &program->parts[i], parts);
    for (uint32_t i = 0; i < PROGRAM_RULES; i++)
        grammar_rule_set(builder, parts[i], parts[program->parts[i].a]);
    r = grammar_builder_finish(builder, parts[program->n - 1], grammarp, &err);
    assert(r >= 0);
    return r;
}

/* Checks the program's grammar on the program's text. */
static inline void program_check(Program *program, TokenTrie *trie) {
    _cleanup_(grammar_unrefp) Grammar *grammar = NULL;
    _cleanup_(grammar_matcher_freep) GrammarMatcher *matcher = NULL;
    const uint32_t root = program->n - 1;
    GrammarState at;
    int r;

    program_run(program);
    r = program_build(program, &grammar);
    if (r) {
        assert(r == GRAMMAR_E_TOO_COMPLEX || r == GRAMMAR_E_NOTHING);
        for (uint32_t i = 0; i <= program->n_text && r == GRAMMAR_E_NOTHING; i++)
            assert(!program->spans[root][0][i]);
        return;
    }
    r = grammar_matcher_new(&matcher, grammar, trie, &GRAMMAR_MATCHER_LIMITS_DEFAULT);
    assert(!r);
    at = grammar_matcher_start(matcher);
    for (uint32_t i = 0;; i++) {
        uint32_t n_bytes;

        assert(grammar_matcher_is_end_allowed(matcher, at) == program->spans[root][0][i]);
        r = grammar_matcher_end_bytes(matcher, at, &n_bytes);
        assert(!r || r == GRAMMAR_E_TOO_COMPLEX);
        assert(r || !n_bytes == program->spans[root][0][i]);
        for (uint32_t j = i; j <= program->n_text; j++) /* no end of the text is nearer */
            assert(r || program->has_logic || !program->spans[root][0][j] || n_bytes <= j - i);
        if (i == program->n_text)
            break;
        r = grammar_matcher_advance_bytes(matcher, at, program->text + i, 1, &at);
        assert(r >= 0);
        if (r == GRAMMAR_E_TOO_COMPLEX)
            return;
        for (uint32_t j = i + 1; r && j <= program->n_text; j++)
            assert(!program->spans[root][0][j]);
        if (r)
            break;
    }
    /* Whatever was allowed leads to an end. */
    for (uint32_t n_left = 0, i = 0; i < 100; i++) {
        uint64_t mask[TOKEN_MASK_WORDS(256)], near[TOKEN_MASK_WORDS(256)];
        uint32_t token = 0;

        if (grammar_matcher_mask(matcher, at, mask) || grammar_matcher_end_tokens(matcher, at, &n_left) ||
            grammar_matcher_mask_to_end(matcher, at, n_left, near))
            return;
        assert(n_left == UINT32_MAX || !n_left == grammar_matcher_is_end_allowed(matcher, at));
        if (!n_left)
            return;
        for (uint32_t id = 0; id < token_trie_n_tokens(trie); id++) {
            GrammarState next;

            r = grammar_matcher_advance(matcher, at, id, &next);
            assert(r == GRAMMAR_E_TOO_COMPLEX || !r == !!(mask[id / 64] >> (id % 64) & 1));
        }
        while (token < token_trie_n_tokens(trie) && !(near[token / 64] >> (token % 64) & 1))
            token++;
        assert(token < token_trie_n_tokens(trie));
        r = grammar_matcher_advance(matcher, at, token, &at);
        assert(!r);
    }
}

/* A trie for programs: their letters, some longer tokens, and all bytes, which complements may need. */
static inline TokenTrie *program_trie(void) {
    static const char *const texts[] = { "ab", "abc", "ca", "bb", "aaa", "cb" };
    TokenBytes tokens[256];
    uint8_t bytes[256];
    TokenTrie *trie = NULL;
    int r;

    for (uint32_t i = 0; i < 256; i++) {
        bytes[i] = (uint8_t)i;
        tokens[i] = (TokenBytes){ bytes + i, 1 };
    }
    for (uint32_t i = 0; i < ARRAY_LEN(texts); i++) /* in the place of bytes that UTF-8 does not have */
        tokens[255 - i] = (TokenBytes){ (const uint8_t *)texts[i], (uint32_t)strlen(texts[i]) };
    r = token_trie_new(&trie, tokens, 256);
    assert(!r);
    return trie;
}

#endif
