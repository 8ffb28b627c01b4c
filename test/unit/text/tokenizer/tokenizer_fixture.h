// SPDX-License-Identifier: Apache-2.0
/* Small tokenizers, written as GGUF files in memory, for tests and fuzzing. */
#ifndef COORDGEN_TEST_UNIT_TOKENIZER_FIXTURE_H
#define COORDGEN_TEST_UNIT_TOKENIZER_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/gguf/gguf_writer.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

/* Contents of the file; NULL and 0 leave a key out. */
typedef struct TokenizerSpec {
    const char *model;
    const char *pre;
    const char *name; /* general.name */
    const char *chat_template;
    const char *tool_template; /* the template "tool_use" */
    const char *const *tokens;
    uint64_t n_tokens;
    const int32_t *types;
    uint64_t n_types;
    const float *scores;
    uint64_t n_scores;
    const char *const *merges;
    uint64_t n_merges;
    bool has_bos, has_eos, has_unknown;
    uint32_t bos, eos, unknown;
    int add_bos, add_eos, add_space_prefix; /* 0: absent; 1: true; -1: false */
    struct {
        const char *key;
        uint32_t id;
    } ids[4]; /* further keys of tokens */
} TokenizerSpec;

typedef struct TokenizerFixture {
    StrBuf image;
    GgufFile *file;
    ErrText err;
} TokenizerFixture;

static inline void fixture_flag(GgufWriter *writer, const char *key, int flag) {
    if (flag)
        gguf_writer_bool(writer, key, flag > 0);
}

/* Returns 0, or the error of the writer or the reader. */
static inline int fixture_init(TokenizerFixture *fixture, const TokenizerSpec *spec) {
    _cleanup_(gguf_writer_freep) GgufWriter *writer = NULL;
    int r;

    *fixture = (TokenizerFixture){ 0 };
    r = gguf_writer_new(&writer, 32, &fixture->err);
    if (r)
        return r;
    gguf_writer_string(writer, "general.architecture", "llama");
    if (spec->name)
        gguf_writer_string(writer, "general.name", spec->name);
    if (spec->model)
        gguf_writer_string(writer, "tokenizer.ggml.model", spec->model);
    if (spec->pre)
        gguf_writer_string(writer, "tokenizer.ggml.pre", spec->pre);
    if (spec->chat_template)
        gguf_writer_string(writer, "tokenizer.chat_template", spec->chat_template);
    if (spec->tool_template)
        gguf_writer_string(writer, TOKENIZER_KEY_CHAT_TEMPLATE_TOOLS, spec->tool_template);
    if (spec->tokens)
        gguf_writer_strings(writer, "tokenizer.ggml.tokens", spec->tokens, spec->n_tokens);
    if (spec->types)
        gguf_writer_array(writer, "tokenizer.ggml.token_type", GGUF_I32, spec->types, spec->n_types);
    if (spec->scores)
        gguf_writer_array(writer, "tokenizer.ggml.scores", GGUF_F32, spec->scores, spec->n_scores);
    if (spec->merges)
        gguf_writer_strings(writer, "tokenizer.ggml.merges", spec->merges, spec->n_merges);
    if (spec->has_bos)
        gguf_writer_u32(writer, "tokenizer.ggml.bos_token_id", spec->bos);
    if (spec->has_eos)
        gguf_writer_u32(writer, "tokenizer.ggml.eos_token_id", spec->eos);
    if (spec->has_unknown)
        gguf_writer_u32(writer, "tokenizer.ggml.unknown_token_id", spec->unknown);
    for (size_t i = 0; i < ARRAY_LEN(spec->ids); i++)
        if (spec->ids[i].key)
            gguf_writer_u32(writer, spec->ids[i].key, spec->ids[i].id);
    fixture_flag(writer, "tokenizer.ggml.add_bos_token", spec->add_bos);
    fixture_flag(writer, "tokenizer.ggml.add_eos_token", spec->add_eos);
    fixture_flag(writer, "tokenizer.ggml.add_space_prefix", spec->add_space_prefix);
    r = gguf_writer_layout(writer, &fixture->err);
    if (r)
        return r;
    str_buf_append(&fixture->image, gguf_writer_head(writer)->data, gguf_writer_head(writer)->len_bytes);
    if (str_buf_failed(&fixture->image))
        r = err_set(&fixture->err, -ENOMEM, "out of memory");
    else
        r = gguf_parse(&fixture->file, fixture->image.data, fixture->image.len_bytes, "fixture.gguf", &fixture->err);
    return r;
}

static inline void fixture_deinit(TokenizerFixture *fixture) {
    gguf_free(fixture->file);
    str_buf_deinit(&fixture->image);
    *fixture = (TokenizerFixture){ 0 };
}

/* --- a byte-level table: 256 bytes, some merges, marks ----------------------------------------------------------- */

enum {
    FIXTURE_BYTES = 256,
    FIXTURE_MARKS_FIRST = FIXTURE_BYTES + 9, /* after the merged texts */
    FIXTURE_IM_START = FIXTURE_MARKS_FIRST,
    FIXTURE_IM_END,
    FIXTURE_BOS,
    FIXTURE_TOOL, /* user-defined */
    FIXTURE_BPE_N,
};

static inline const char *fixture_byte_text(unsigned int byte, char text[3]) {
    bool printed = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    unsigned int code_point = byte;

    if (!printed)
        code_point = byte <= 0x20 ? 0x100 + byte : byte <= 0xa0 ? 0x121 + byte - 0x7f : 0x143;
    if (code_point < 0x80)
        snprintf(text, 3, "%c", (char)code_point);
    else
        snprintf(text, 3, "%c%c", (char)(0xc0 | code_point >> 6), (char)(0x80 | (code_point & 0x3f)));
    return text;
}

/* The arrays live as long as the spec is used: static, one table for all. */
static inline TokenizerSpec fixture_bpe_spec(const char *pre) {
    static char byte_texts[FIXTURE_BYTES][3];
    static const char *const more[] = {
        "he",           "ll",         "hell",      "hello", "\xc4\xa0hello", "aa", "aaaa", "33", "\xc4\xa0\xc4\xa0",
        "<|im_start|>", "<|im_end|>", "<|begin|>", "<tool>"
    };
    static const char *const merges[] = { "h e", "l l",   "he ll", "hell o",           "\xc4\xa0 hello",
                                          "a a", "aa aa", "3 3",   "\xc4\xa0 \xc4\xa0" };
    static const char *tokens[FIXTURE_BPE_N];
    static int32_t types[FIXTURE_BPE_N];

    for (unsigned int i = 0; i < FIXTURE_BPE_N; i++) {
        tokens[i] = i < FIXTURE_BYTES ? fixture_byte_text(i, byte_texts[i]) : more[i - FIXTURE_BYTES];
        types[i] = i < FIXTURE_MARKS_FIRST ? 1 : i == FIXTURE_TOOL ? 4 : 3;
    }
    return (TokenizerSpec){
        .model = "gpt2",
        .pre = pre,
        .tokens = tokens,
        .n_tokens = FIXTURE_BPE_N,
        .types = types,
        .n_types = FIXTURE_BPE_N,
        .merges = merges,
        .n_merges = ARRAY_LEN(merges),
        .has_bos = true,
        .bos = FIXTURE_BOS,
        .has_eos = true,
        .eos = FIXTURE_IM_END,
    };
}

/* --- a SentencePiece-style table ---------------------------------------------------------------------------------- */

enum {
    FIXTURE_SPM_UNKNOWN,
    FIXTURE_SPM_BOS,
    FIXTURE_SPM_EOS,
    FIXTURE_SPM_BYTES, /* 256 byte tokens */
    FIXTURE_SPM_WORDS = FIXTURE_SPM_BYTES + 256,
    FIXTURE_SPM_SPACE = FIXTURE_SPM_WORDS,
    FIXTURE_SPM_A,
    FIXTURE_SPM_B,
    FIXTURE_SPM_AB,
    FIXTURE_SPM_SPACE_A,
    FIXTURE_SPM_SPACE_AB,
    FIXTURE_SPM_S_END, /* "s>": with "<" it would grow into the BOS text */
    FIXTURE_SPM_LESS,
    FIXTURE_SPM_S,
    FIXTURE_SPM_NEWLINES, /* user-defined "\n\n" */
    FIXTURE_SPM_TURN,     /* control */
    FIXTURE_SPM_END,      /* control */
    FIXTURE_SPM_N,
};

static inline TokenizerSpec fixture_spm_spec(void) {
    static char byte_texts[256][8];
    static const char *const more[] = { "\xe2\x96\x81", "a", "b", "ab",   "\342\226\201a",   "\342\226\201ab",
                                        "s>",           "<", "s", "\n\n", "<start_of_turn>", "<end_of_turn>" };
    static const char *tokens[FIXTURE_SPM_N];
    static int32_t types[FIXTURE_SPM_N];
    static float scores[FIXTURE_SPM_N];

    for (int i = 0; i < FIXTURE_SPM_N; i++) {
        types[i] = i == FIXTURE_SPM_UNKNOWN ? 2 : i < FIXTURE_SPM_BYTES ? 3 : i < FIXTURE_SPM_WORDS ? 6 : 1;
        if (i >= FIXTURE_SPM_TURN)
            types[i] = 3;
        if (i == FIXTURE_SPM_NEWLINES)
            types[i] = 4;
        scores[i] = -(float)i;
        if (i >= FIXTURE_SPM_BYTES && i < FIXTURE_SPM_WORDS) {
            snprintf(byte_texts[i - FIXTURE_SPM_BYTES], sizeof(byte_texts[0]), "<0x%02X>", i - FIXTURE_SPM_BYTES);
            tokens[i] = byte_texts[i - FIXTURE_SPM_BYTES];
        } else {
            tokens[i] = i < FIXTURE_SPM_BYTES ? ((const char *const[]){ "<unk>", "<s>", "</s>" })[i]
                                              : more[i - FIXTURE_SPM_WORDS];
        }
    }
    return (TokenizerSpec){
        .model = "llama",
        .tokens = tokens,
        .n_tokens = FIXTURE_SPM_N,
        .types = types,
        .n_types = FIXTURE_SPM_N,
        .scores = scores,
        .n_scores = FIXTURE_SPM_N,
        .has_bos = true,
        .bos = FIXTURE_SPM_BOS,
        .has_eos = true,
        .eos = FIXTURE_SPM_EOS,
        .has_unknown = true,
        .unknown = FIXTURE_SPM_UNKNOWN,
    };
}

#endif
