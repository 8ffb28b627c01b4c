// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
/* Tokenizers: hostile texts on small tables with every family of pre-tokenizers, hostile token tables, hostile chat
 * templates. The first byte chooses among these. */
#undef NDEBUG
#include <assert.h>

#include "base/log.h"
#include "base/min_max.h"
#include "test/unit/text/tokenizer/tokenizer_fixture.h"
#include "text/tokenizer/pretokenizer_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

static Tokenizer *tokenizers[4]; /* three byte-level, one SentencePiece-style */

/* Tables of each family, then SentencePiece-style ones without the space before texts, and with spaces that marks
 * take. */
static struct {
    Tokenizer *tokenizer;
    bool is_complete; /* a text comes back from its tokens */
} more[128];
static size_t n_more;

static Tokenizer *tokenizer_of(const TokenizerSpec *spec) {
    Tokenizer *tokenizer = NULL;
    TokenizerFixture fixture;
    int r;

    r = fixture_init(&fixture, spec);
    assert(!r);
    r = tokenizer_new(&tokenizer, fixture.file, &fixture.err);
    assert(!r);
    fixture_deinit(&fixture);
    return tokenizer;
}

static void add_more(const TokenizerSpec *spec, bool is_complete) {
    assert(n_more < ARRAY_LEN(more));
    more[n_more].tokenizer = tokenizer_of(spec);
    more[n_more++].is_complete = is_complete;
}

static void set_up(void) {
    static const char *const pres[] = { "smollm", "qwen2", "default" };
    TokenizerSpec spec;

    log_set_level(LOG_LEVEL_ERROR);
    for (size_t i = 0; i < ARRAY_LEN(tokenizers); i++) {
        spec = i < 3 ? fixture_bpe_spec(pres[i]) : fixture_spm_spec();
        tokenizers[i] = tokenizer_of(&spec);
    }
    for (size_t i = 0; pretokenizer_family_at(i); i++) {
        const char *name;

        for (size_t k = 0; (name = pretokenizer_known(k)); k++)
            if (pretokenizer_family(name, strlen(name)) == pretokenizer_family_at(i))
                break;
        spec = fixture_bpe_spec(name);
        add_more(&spec, true);
    }
    spec = fixture_spm_spec();
    spec.add_space_prefix = -1;
    add_more(&spec, false); /* its spaces are U+2581 */
    spec = fixture_bpe_spec("gpt-2");
    spec.name = "phi-3";
    add_more(&spec, false);
    spec = fixture_spm_spec();
    spec.name = "Phi3";
    add_more(&spec, false);
}

/* Encodes a text and decodes it again. With a complete table the bytes must be the same if no mark is parsed. */
static void check_text(const Tokenizer *tokenizer, const char *text, size_t len_bytes, bool is_complete) {
    for (unsigned int flags = 0; flags <= (TOKENIZE_ADD_SPECIAL | TOKENIZE_PARSE_SPECIAL); flags++) {
        _cleanup_(token_list_deinit) TokenList list = { 0 };
        _cleanup_(str_buf_deinit) StrBuf pieces = STR_BUF_NULL, streamed = STR_BUF_NULL;
        Detokenizer detokenizer;
        int r;

        r = tokenizer_encode(tokenizer, text, len_bytes, flags, &list, NULL);
        assert(!r);
        detokenizer_init(&detokenizer, tokenizer, true, flags & TOKENIZE_PARSE_SPECIAL);
        for (size_t i = 0; i < list.n; i++) {
            assert(list.ids[i] < tokenizer_n_tokens(tokenizer));
            assert(flags || !is_complete || !tokenizer_is_control(tokenizer, list.ids[i]));
            r = tokenizer_piece(tokenizer, list.ids[i], false, &pieces);
            assert(!r);
            r = detokenizer_push(&detokenizer, list.ids[i], &streamed);
            assert(!r);
        }
        r = detokenizer_finish(&detokenizer, &streamed);
        assert(!r);
        if (!flags && is_complete)
            assert(pieces.len_bytes == len_bytes && (!len_bytes || !memcmp(pieces.data, text, len_bytes)));
    }
}

static void check_chat(const char *source, size_t source_bytes, const char *text, size_t len_bytes) {
    const ChatMessage messages[] = { { .role = CHAT_ROLE_SYSTEM, .text = text, .len_bytes = len_bytes },
                                     { .role = CHAT_ROLE_USER, .text = text, .len_bytes = len_bytes },
                                     { .role = CHAT_ROLE_ASSISTANT, .text = text, .len_bytes = len_bytes / 2 },
                                     { .role = CHAT_ROLE_USER, .text = source, .len_bytes = source_bytes } };
    const ChatInput input = { .messages = messages, .n_messages = ARRAY_LEN(messages) };
    _cleanup_(chat_template_deinit) ChatTemplate chat;
    int parsed = chat_template_parse(&chat, source, source_bytes);

    assert(!parsed);
    for (size_t i = 0; i < ARRAY_LEN(tokenizers); i++) {
        _cleanup_(token_list_deinit) TokenList list = { 0 };
        _cleanup_(str_buf_deinit) StrBuf rendered = STR_BUF_NULL;
        int r, again;

        r = chat_template_render(&chat, tokenizers[i], &input, &rendered, NULL);
        again = chat_template_encode(&chat, tokenizers[i], &input, &list, NULL);
        assert(r == again);
        assert(!r || r == CHAT_E_NO_TEMPLATE || r == CHAT_E_REFUSED);
    }
}

/* Makes a token table of lines: the kind, then one token or merge for each line. */
static void check_table(const char *text, size_t len_bytes) {
    _cleanup_(tokenizer_freep) Tokenizer *tokenizer = NULL;
    _cleanup_(freep) char *copy = strndup(text, len_bytes);
    const char *tokens[256], *merges[64];
    int32_t types[256];
    float scores[256];
    TokenizerFixture fixture;
    TokenizerSpec spec = { .tokens = tokens, .types = types, .scores = scores, .merges = merges };
    char *line, *rest = copy;

    assert(copy);
    spec.model = len_bytes % 2 ? "gpt2" : "llama";
    spec.pre = len_bytes % 8 == 1 ? "llama-bpe" : len_bytes % 8 == 3 ? "deepseek-llm" : NULL;
    spec.name = len_bytes % 3 ? NULL : "Phi-3";
    while ((line = strsep(&rest, "\n")) && spec.n_tokens < ARRAY_LEN(tokens)) {
        if (*line == '+' && spec.n_merges < ARRAY_LEN(merges)) {
            merges[spec.n_merges++] = line + 1;
            continue;
        }
        types[spec.n_tokens] = *line >= '0' && *line <= '9' ? *line - '0' : 1;
        scores[spec.n_tokens] = (float)(signed char)*line;
        tokens[spec.n_tokens++] = *line ? line + 1 : line;
    }
    spec.n_types = spec.n_scores = spec.n_tokens;
    if (!fixture_init(&fixture, &spec) && !tokenizer_new(&tokenizer, fixture.file, &fixture.err))
        check_text(tokenizer, text, MIN(len_bytes, 2000), false);
    fixture_deinit(&fixture);
}

static void check_file(const char *data, size_t len_bytes) {
    _cleanup_(tokenizer_freep) Tokenizer *tokenizer = NULL;
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    ErrText err;

    if (!gguf_parse(&file, data, len_bytes, "fuzz.gguf", &err) && !tokenizer_new(&tokenizer, file, &err))
        check_text(tokenizer, data, MIN(len_bytes, 2000), false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes) {
    const char *text = (const char *)data + 1;

    if (!len_bytes || len_bytes > 1 << 16)
        return 0;
    if (!tokenizers[0])
        set_up();
    len_bytes--;
    switch (data[0]) {
    case 'c':
        check_chat(text, len_bytes, text + len_bytes / 2, len_bytes - len_bytes / 2);
        break;
    case 't':
        check_table(text, len_bytes);
        break;
    case 'G':
        check_file((const char *)data, len_bytes + 1);
        break;
    default:
        for (size_t i = 0; i < ARRAY_LEN(tokenizers); i++)
            if (i < 3 || !len_bytes) /* the other table puts spaces before fragments */
                check_text(tokenizers[i], text, len_bytes, true);
            else
                check_text(tokenizers[i], text, len_bytes, false);
        check_text(more[data[0] % n_more].tokenizer, text, len_bytes, more[data[0] % n_more].is_complete);
        break;
    }
    return 0;
}
