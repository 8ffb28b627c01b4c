// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/pretokenizer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/strings/printable.h"
#include "base/strings/utf8.h"
#include "text/tokenizer/pretokenizer_table.h"

/* --- object ----------------------------------------------------------------------------------------------------- */

struct Pretokenizer {
    const PretokenizerFamily *family;
    pcre2_code *stages[PRETOKENIZER_STAGES_MAX];
    size_t n_stages;
    pcre2_match_context *context;
};

static int compile_stage(pcre2_code **codep, const char *pattern, ErrText *err) {
    PCRE2_UCHAR message[128];
    pcre2_code *code;
    PCRE2_SIZE at;
    int e;

    code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &e, &at, NULL);
    if (!code) {
        pcre2_get_error_message(e, message, sizeof(message));
        return err_set(err, err_raise(-EIO), "PCRE2 refused a pre-tokenizer's expression at %zu: %s", (size_t)at,
                       (char *)message);
    }
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* without a JIT the interpreter gives the same pieces */
    *codep = code;
    return 0;
}

/* Lists the families, because all names would fill a page. */
static int refuse_name(const char *name, size_t len_bytes, ErrText *err) {
    const PretokenizerFamily *family;
    char known[512] = "";
    Printable shown;

    for (size_t i = 0, n = 0; (family = pretokenizer_family_at(i)) && n < sizeof(known); i++)
        n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", i ? ", " : "", family->name);
    return err_set(err, PRETOKENIZER_E_UNKNOWN,
                   "pre-tokenizer \"%s\" is not known; known are the ones of %s: use a model with one of these",
                   printable(&shown, name, len_bytes), known);
}

int pretokenizer_new(Pretokenizer **pretokenizerp, const char *name, size_t len_bytes, ErrText *err) {
    _cleanup_(pretokenizer_freep) Pretokenizer *pretokenizer = NULL;
    const PretokenizerFamily *family = pretokenizer_family(name, len_bytes);
    int r;

    if (!family)
        return refuse_name(name, len_bytes, err);
    pretokenizer = calloc(1, sizeof(*pretokenizer));
    if (!pretokenizer)
        return err_raise(-ENOMEM);
    pretokenizer->family = family;
    for (size_t i = 0; i < PRETOKENIZER_STAGES_MAX && family->stages[i]; i++) {
        r = compile_stage(&pretokenizer->stages[i], family->stages[i], err);
        if (r)
            return r;
        pretokenizer->n_stages++;
    }
    pretokenizer->context = pcre2_match_context_create(NULL);
    if (!pretokenizer->context)
        return err_raise(-ENOMEM);
    /* No expression backtracks by more than the run it stands in, so the limits against runaway ones are not needed,
     * and a long run of spaces must not meet them. */
    pcre2_set_match_limit(pretokenizer->context, UINT32_MAX);
    pcre2_set_depth_limit(pretokenizer->context, UINT32_MAX);
    pcre2_set_heap_limit(pretokenizer->context, UINT32_MAX);
    *pretokenizerp = steal(&pretokenizer);
    return 0;
}

Pretokenizer *pretokenizer_free(Pretokenizer *pretokenizer) {
    if (!pretokenizer)
        return NULL;
    for (size_t i = 0; i < PRETOKENIZER_STAGES_MAX; i++)
        pcre2_code_free(pretokenizer->stages[i]);
    pcre2_match_context_free(pretokenizer->context);
    free(pretokenizer);
    return NULL;
}

const char *pretokenizer_name(const Pretokenizer *pretokenizer) {
    return pretokenizer->family->name;
}

bool pretokenizer_whole_words_first(const Pretokenizer *pretokenizer) {
    return pretokenizer->family->whole_words_first;
}

bool pretokenizer_adds_bos(const Pretokenizer *pretokenizer) {
    return pretokenizer->family->adds_bos;
}

uint64_t pretokenizer_memory_bytes(const Pretokenizer *pretokenizer) {
    uint64_t sum = sizeof(*pretokenizer);

    for (size_t i = 0; i < pretokenizer->n_stages; i++) {
        size_t len_bytes = 0;

        if (!pcre2_pattern_info(pretokenizer->stages[i], PCRE2_INFO_SIZE, &len_bytes))
            sum += len_bytes;
        len_bytes = 0;
        if (!pcre2_pattern_info(pretokenizer->stages[i], PCRE2_INFO_JITSIZE, &len_bytes))
            sum += len_bytes;
    }
    return sum;
}

/* --- splitting -------------------------------------------------------------------------------------------------- */

void piece_list_deinit(PieceList *list) {
    free(list->len_bytes);
    *list = (PieceList){ 0 };
}

static int piece_list_add(PieceList *list, size_t len_bytes) {
    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        uint32_t *grown = realloc(list->len_bytes, room * sizeof(*grown));

        if (!grown)
            return err_raise(-ENOMEM);
        list->len_bytes = grown;
        list->room = room;
    }
    list->len_bytes[list->n++] = (uint32_t)len_bytes;
    return 0;
}

/* Matches once. The JIT's stack is small: a match that passes it is done by the interpreter, whose memory is the
 * heap. */
static int match_once(const Pretokenizer *pretokenizer, const pcre2_code *code, const char *text, size_t len_bytes,
                      size_t at, pcre2_match_data *match) {
    int n;

    n = pcre2_match(code, (PCRE2_SPTR)text, len_bytes, at, PCRE2_NO_UTF_CHECK, match, pretokenizer->context);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT)
        n = pcre2_match(code, (PCRE2_SPTR)text, len_bytes, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match,
                        pretokenizer->context);
    return n;
}

/* Cuts one piece by one expression. */
static int split_piece(const Pretokenizer *pretokenizer, const pcre2_code *code, const char *text, size_t len_bytes,
                       pcre2_match_data *match, PieceList *pieces, ErrText *err) {
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(match);
    size_t at = 0;
    int n, r;

    while (at < len_bytes) {
        n = match_once(pretokenizer, code, text, len_bytes, at, match);
        if (n == PCRE2_ERROR_NOMATCH)
            return piece_list_add(pieces, len_bytes - at);
        if (n == PCRE2_ERROR_NOMEMORY || n == PCRE2_ERROR_HEAPLIMIT)
            return err_raise(-ENOMEM);
        if (n < 0 || span[1] <= span[0] || span[0] < at)
            return err_set(err, err_raise(-EIO), "PCRE2 failed with %d in a text of %zu bytes at %zu", n, len_bytes,
                           at);
        if (span[0] > at) {
            r = piece_list_add(pieces, span[0] - at);
            if (r)
                return r;
        }
        r = piece_list_add(pieces, span[1] - span[0]);
        if (r)
            return r;
        at = span[1];
    }
    return 0;
}

/* PCRE2 10.42 knows Unicode 14, the models' splitters 15.1. Each row has characters that became a letter, number, mark,
 * sign or symbol in between, by rising code point, and an older character of the same class and UTF-8 length that
 * stands for them. */
static const struct {
    uint32_t first, last, stand_in;
} newer[] = {
#define LETTER 0x20000
#define NUMBER 0x10107
#define MARK_3 0xe31 /* a mark of three bytes */
#define MARK 0x11001
#define SIGN 0x10100
#define SYMBOL_3 0x2ff0
#define SYMBOL 0x1f300
    { 0xcf3, 0xcf3, MARK_3 },     { 0xece, 0xece, MARK_3 },     { 0x2ffc, 0x2fff, SYMBOL_3 },
    { 0x31ef, 0x31ef, SYMBOL_3 }, { 0x10efd, 0x10eff, MARK },   { 0x1123f, 0x11240, LETTER },
    { 0x11241, 0x11241, MARK },   { 0x11b00, 0x11b09, SIGN },   { 0x11f00, 0x11f01, MARK },
    { 0x11f02, 0x11f02, LETTER }, { 0x11f03, 0x11f03, MARK },   { 0x11f04, 0x11f10, LETTER },
    { 0x11f12, 0x11f33, LETTER }, { 0x11f34, 0x11f3a, MARK },   { 0x11f3e, 0x11f42, MARK },
    { 0x11f43, 0x11f4f, SIGN },   { 0x11f50, 0x11f59, NUMBER }, { 0x1342f, 0x1342f, LETTER },
    { 0x13440, 0x13440, MARK },   { 0x13441, 0x13446, LETTER }, { 0x13447, 0x13455, MARK },
    { 0x1b132, 0x1b132, LETTER }, { 0x1b155, 0x1b155, LETTER }, { 0x1d2c0, 0x1d2d3, NUMBER },
    { 0x1df25, 0x1df2a, LETTER }, { 0x1e030, 0x1e06d, LETTER }, { 0x1e08f, 0x1e08f, MARK },
    { 0x1e4d0, 0x1e4eb, LETTER }, { 0x1e4ec, 0x1e4ef, MARK },   { 0x1e4f0, 0x1e4f9, NUMBER },
    { 0x1f6dc, 0x1f6dc, SYMBOL }, { 0x1f774, 0x1f776, SYMBOL }, { 0x1f77b, 0x1f77f, SYMBOL },
    { 0x1f7d9, 0x1f7d9, SYMBOL }, { 0x1fa75, 0x1fa77, SYMBOL }, { 0x1fa87, 0x1fa88, SYMBOL },
    { 0x1faad, 0x1faaf, SYMBOL }, { 0x1fabb, 0x1fabd, SYMBOL }, { 0x1fabf, 0x1fabf, SYMBOL },
    { 0x1face, 0x1facf, SYMBOL }, { 0x1fada, 0x1fadb, SYMBOL }, { 0x1fae8, 0x1fae8, SYMBOL },
    { 0x1faf7, 0x1faf8, SYMBOL }, { 0x2b739, 0x2b739, LETTER }, { 0x2ebf0, 0x2ee5d, LETTER },
    { 0x31350, 0x323af, LETTER },
};

/* Finds the older character that stands for a well-formed sequence of three or four bytes; 0: none does. */
static uint32_t stand_in_of(const uint8_t *sequence, size_t n) {
    uint32_t code_point = n == 3 ? (sequence[0] & 0xfu) << 12 | (sequence[1] & 0x3fu) << 6 | (sequence[2] & 0x3fu)
                                 : (sequence[0] & 7u) << 18 | (sequence[1] & 0x3fu) << 12 | (sequence[2] & 0x3fu) << 6 |
                                       (sequence[3] & 0x3fu);
    size_t low = 0, high = ARRAY_LEN(newer);

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (newer[middle].last < code_point)
            low = middle + 1;
        else
            high = middle;
    }
    return low < ARRAY_LEN(newer) && newer[low].first <= code_point ? newer[low].stand_in : 0;
}

static void write_sequence(char *out, size_t n, uint32_t code_point) {
    for (size_t i = n; i-- > 1; code_point >>= 6)
        out[i] = (char)(0x80 | (code_point & 0x3f));
    out[0] = (char)(n == 3 ? 0xe0 | code_point : 0xf0 | code_point);
}

/* Copies the text with U+0001 for each byte that is not UTF-8: like U+FFFD, U+0001 is no letter, number, space or
 * punctuation, and the offsets stay. Older characters stand for those that PCRE2 may not know. *copyp stays NULL for a
 * text without either. */
static int known_copy(const char *text, size_t len_bytes, char **copyp) {
    char *copy = NULL;

    for (size_t i = 0, n; i < len_bytes; i += n) {
        uint32_t stand_in = 0;
        Utf8Kind kind;

        n = utf8_step(text + i, len_bytes - i, &kind);
        if (kind == UTF8_WHOLE && n >= 3)
            stand_in = stand_in_of((const uint8_t *)text + i, n);
        if (kind == UTF8_WHOLE && !stand_in)
            continue;
        if (!copy) {
            copy = malloc(len_bytes);
            if (!copy)
                return err_raise(-ENOMEM);
            memcpy(copy, text, len_bytes);
        }
        if (stand_in)
            write_sequence(copy + i, n, stand_in);
        else
            memset(copy + i, 1, n);
    }
    *copyp = copy;
    return 0;
}

static void match_data_freep(pcre2_match_data **matchp) {
    pcre2_match_data_free(*matchp);
}

/* pretokenizer_split() - run the expressions one after another, each on the pieces of the one before */
int pretokenizer_split(const Pretokenizer *pretokenizer, const char *text, size_t len_bytes, PieceList *pieces,
                       ErrText *err) {
    _cleanup_(match_data_freep) pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    _cleanup_(piece_list_deinit) PieceList before = { 0 };
    _cleanup_(freep) char *copy = NULL;
    int r;

    pieces->n = 0;
    if (!match)
        return err_raise(-ENOMEM);
    r = known_copy(text, len_bytes, &copy);
    if (r)
        return r;
    if (copy)
        text = copy;
    if (len_bytes) {
        r = piece_list_add(pieces, len_bytes);
        if (r)
            return r;
    }
    for (size_t stage = 0; stage < pretokenizer->n_stages; stage++) {
        PieceList swapped = before;
        size_t at = 0;

        before = *pieces;
        *pieces = swapped;
        pieces->n = 0;
        for (size_t i = 0; i < before.n; at += before.len_bytes[i++]) {
            r = split_piece(pretokenizer, pretokenizer->stages[stage], text + at, before.len_bytes[i], match, pieces,
                            err);
            if (r)
                return r;
        }
    }
    return 0;
}
