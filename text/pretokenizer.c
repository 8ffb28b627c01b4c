// SPDX-License-Identifier: Apache-2.0
#include "text/pretokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/printable.h"
#include "base/utf8.h"

#define STAGES_MAX 4

/* --- patterns --------------------------------------------------------------------------------------------------- */

/* \s of the models' own splitters is Unicode White_Space. PCRE2's, with UCP, has U+180E too: the set is spelled out. */
#define SPACES                                                                                                         \
    "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
/* PCRE2 10.42 knows Unicode 14, the models' splitters 15.1: what became letter, number or punctuation in between. */
#define LETTERS                                                                                                        \
    "\\p{L}\\x{1123F}\\x{11240}\\x{11F02}\\x{11F04}-\\x{11F10}\\x{11F12}-\\x{11F33}\\x{1342F}\\x{13441}-\\x{13446}"    \
    "\\x{1B132}\\x{1B155}\\x{1DF25}-\\x{1DF2A}\\x{1E030}-\\x{1E06D}\\x{1E4D0}-\\x{1E4EB}\\x{2B739}"                    \
    "\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}"
#define NUMBERS "\\p{N}\\x{11F50}-\\x{11F59}\\x{1D2C0}-\\x{1D2D3}\\x{1E4F0}-\\x{1E4F9}"
#define PUNCTUATION "\\p{P}\\x{11B00}-\\x{11B09}\\x{11F43}-\\x{11F4F}"

#define GPT2                                                                                                           \
    "'s|'t|'re|'ve|'m|'ll|'d| ?[" LETTERS "]+| ?[" NUMBERS "]+| ?[^" SPACES LETTERS NUMBERS "]+"                       \
    "|[" SPACES "]+(?![^" SPACES "])|[" SPACES "]+"
/* The contractions take either case of ASCII only: (?i:) would let U+017F pass for an s. */
#define LLAMA3(numbers)                                                                                                \
    "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\\r\\n" LETTERS NUMBERS "]?[" LETTERS "]+|" numbers       \
    "| ?[^" SPACES LETTERS NUMBERS "]+[\\r\\n]*|[" SPACES "]*[\\r\\n]+|[" SPACES "]+(?![^" SPACES "])|[" SPACES "]+"

typedef struct Family {
    const char *name;
    const char *stages[STAGES_MAX]; /* each cuts the pieces of the one before; what it does not match is a piece too */
    bool whole_words_first;
    bool adds_bos;
} Family;

enum {
    FAMILY_DEFAULT,
    FAMILY_GPT2,
    FAMILY_SMOLLM,
    FAMILY_QWEN2,
    FAMILY_LLAMA_BPE,
    FAMILY_LLAMA_BPE_MERGED
};

static const Family families[] = {
    [FAMILY_DEFAULT] = { "default",
                         { "[" PUNCTUATION "$+<=>^~|]+", GPT2, "[" NUMBERS "]+", "[0-9][0-9][0-9]" },
                         false,
                         false },
    [FAMILY_GPT2] = { "gpt2", { GPT2 }, false, false },
    [FAMILY_SMOLLM] = { "smollm", { "[" NUMBERS "]", GPT2 }, false, false },
    [FAMILY_QWEN2] = { "qwen2", { LLAMA3("[" NUMBERS "]") }, false, false },
    [FAMILY_LLAMA_BPE] = { "llama-bpe", { LLAMA3("[" NUMBERS "]{1,3}") }, true, true },
    [FAMILY_LLAMA_BPE_MERGED] = { "llama-bpe", { LLAMA3("[" NUMBERS "]{1,3}") }, false, false },
};

/* Names that files use (llama.cpp's), and the family whose expressions they mean. */
static const struct {
    const char *name;
    int family;
} names[] = {
    { "", FAMILY_DEFAULT },
    { "default", FAMILY_DEFAULT },
    { "gpt-2", FAMILY_GPT2 },
    { "gpt2", FAMILY_GPT2 },
    { "phi-2", FAMILY_GPT2 },
    { "mpt", FAMILY_GPT2 },
    { "olmo", FAMILY_GPT2 },
    { "jais", FAMILY_GPT2 },
    { "trillion", FAMILY_GPT2 },
    { "gigachat", FAMILY_GPT2 },
    { "mellum", FAMILY_GPT2 },
    { "a.x-4.0", FAMILY_GPT2 },
    { "exaone4", FAMILY_GPT2 },
    { "smollm", FAMILY_SMOLLM },
    { "starcoder", FAMILY_SMOLLM },
    { "refact", FAMILY_SMOLLM },
    { "command-r", FAMILY_SMOLLM },
    { "codeshell", FAMILY_SMOLLM },
    { "exaone", FAMILY_SMOLLM },
    { "minerva-7b", FAMILY_SMOLLM },
    { "qwen2", FAMILY_QWEN2 },
    { "deepseek-r1-qwen", FAMILY_QWEN2 },
    { "stablelm2", FAMILY_QWEN2 },
    { "megrez", FAMILY_QWEN2 },
    { "hunyuan", FAMILY_QWEN2 },
    { "llama-bpe", FAMILY_LLAMA_BPE },
    { "llama3", FAMILY_LLAMA_BPE },
    { "llama-v3", FAMILY_LLAMA_BPE },
    { "falcon3", FAMILY_LLAMA_BPE },
    { "falcon-h1", FAMILY_LLAMA_BPE },
    { "pixtral", FAMILY_LLAMA_BPE },
    { "midm-2.0", FAMILY_LLAMA_BPE },
    { "lfm2", FAMILY_LLAMA_BPE },
    { "dbrx", FAMILY_LLAMA_BPE_MERGED },
    { "smaug-bpe", FAMILY_LLAMA_BPE_MERGED },
};

/* --- object ----------------------------------------------------------------------------------------------------- */

struct Pretokenizer {
    const Family *family;
    pcre2_code *stages[STAGES_MAX];
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
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* where there is no JIT the interpreter gives the same pieces */
    *codep = code;
    return 0;
}

int pretokenizer_new(Pretokenizer **pretokenizerp, const char *name, size_t len_bytes, ErrText *err) {
    _cleanup_(pretokenizer_freep) Pretokenizer *pretokenizer = NULL;
    const Family *family = NULL;
    Printable shown;
    int r;

    for (size_t i = 0; i < ARRAY_LEN(names) && !family; i++)
        if (strlen(names[i].name) == len_bytes && !memcmp(names[i].name, name, len_bytes))
            family = &families[names[i].family];
    if (!family)
        return err_set(err, PRETOKENIZER_E_UNKNOWN,
                       "pre-tokenizer \"%s\" is not known; known are the ones of gpt2, smollm, qwen2, "
                       "llama-bpe and default: use a model with one of these",
                       printable(&shown, name, len_bytes));
    pretokenizer = calloc(1, sizeof(*pretokenizer));
    if (!pretokenizer)
        return err_raise(-ENOMEM);
    pretokenizer->family = family;
    for (size_t i = 0; i < STAGES_MAX && family->stages[i]; i++) {
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
    for (size_t i = 0; i < STAGES_MAX; i++)
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

/* One match; the JIT's stack is small, so what passes it is done by the interpreter, whose memory is the heap. */
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

/* A copy in which each byte that is not UTF-8 is U+0001: like U+FFFD it is no letter, number, space or punctuation, and
 * the offsets stay. *copyp stays NULL for a well-formed text. */
static int well_formed_copy(const char *text, size_t len_bytes, char **copyp) {
    char *copy = NULL;

    for (size_t i = 0, n; i < len_bytes; i += n) {
        Utf8Kind kind;

        n = utf8_step(text + i, len_bytes - i, &kind);
        if (kind == UTF8_WHOLE)
            continue;
        if (!copy) {
            copy = malloc(len_bytes);
            if (!copy)
                return err_raise(-ENOMEM);
            memcpy(copy, text, len_bytes);
        }
        memset(copy + i, 1, n);
    }
    *copyp = copy;
    return 0;
}

static void match_data_freep(pcre2_match_data **matchp) {
    pcre2_match_data_free(*matchp);
}

/* pretokenizer_split() - runs the expressions one after another, each on the pieces that the one before left */
int pretokenizer_split(const Pretokenizer *pretokenizer, const char *text, size_t len_bytes, PieceList *pieces,
                       ErrText *err) {
    _cleanup_(match_data_freep) pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    _cleanup_(piece_list_deinit) PieceList before = { 0 };
    _cleanup_(freep) char *copy = NULL;
    int r;

    pieces->n = 0;
    if (!match)
        return err_raise(-ENOMEM);
    r = well_formed_copy(text, len_bytes, &copy);
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
