// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/text/tokenizer/golden_vocab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/strings/utf8.h"
#include "test/unit/fixtures/model_maker.h"
#include "text/tokenizer/spm.h"

/* --- vocabularies ------------------------------------------------------------------------------------------------- */

/* Ids of each vocabulary, which test/golden/make-token-vectors writes. */
static const uint16_t default_ids[] = {
#include "test/golden/vocab/default.inc"
};
static const uint16_t gpt_2_ids[] = {
#include "test/golden/vocab/gpt_2.inc"
};
static const uint16_t smollm_ids[] = {
#include "test/golden/vocab/smollm.inc"
};
static const uint16_t qwen2_ids[] = {
#include "test/golden/vocab/qwen2.inc"
};
static const uint16_t qwen35_ids[] = {
#include "test/golden/vocab/qwen35.inc"
};
static const uint16_t llama_bpe_ids[] = {
#include "test/golden/vocab/llama_bpe.inc"
};
static const uint16_t dbrx_ids[] = {
#include "test/golden/vocab/dbrx.inc"
};
static const uint16_t glm4_ids[] = {
#include "test/golden/vocab/glm4.inc"
};
static const uint16_t gpt_4o_ids[] = {
#include "test/golden/vocab/gpt_4o.inc"
};
static const uint16_t tekken_ids[] = {
#include "test/golden/vocab/tekken.inc"
};
static const uint16_t deepseek_llm_ids[] = {
#include "test/golden/vocab/deepseek_llm.inc"
};
static const uint16_t deepseek_coder_ids[] = {
#include "test/golden/vocab/deepseek_coder.inc"
};
static const uint16_t deepseek_v3_ids[] = {
#include "test/golden/vocab/deepseek_v3.inc"
};
static const uint16_t deepseek_r1_qwen_ids[] = {
#include "test/golden/vocab/deepseek_r1_qwen.inc"
};
static const uint16_t llama4_ids[] = {
#include "test/golden/vocab/llama4.inc"
};
static const uint16_t spark2_5_ids[] = {
#include "test/golden/vocab/spark2_5.inc"
};
static const uint16_t youtu_ids[] = {
#include "test/golden/vocab/youtu.inc"
};
static const uint16_t falcon_ids[] = {
#include "test/golden/vocab/falcon.inc"
};
static const uint16_t bloom_ids[] = {
#include "test/golden/vocab/bloom.inc"
};
static const uint16_t viking_ids[] = {
#include "test/golden/vocab/viking.inc"
};
static const uint16_t chameleon_ids[] = {
#include "test/golden/vocab/chameleon.inc"
};
static const uint16_t seed_coder_ids[] = {
#include "test/golden/vocab/seed_coder.inc"
};
static const uint16_t exaone_moe_ids[] = {
#include "test/golden/vocab/exaone_moe.inc"
};
static const uint16_t ufakzeka_ids[] = {
#include "test/golden/vocab/ufakzeka.inc"
};
static const uint16_t laguna_ids[] = {
#include "test/golden/vocab/laguna.inc"
};
static const uint16_t minicpm5_ids[] = {
#include "test/golden/vocab/minicpm5.inc"
};
static const uint16_t llama_spm_ids[] = {
#include "test/golden/vocab/llama_spm.inc"
};
static const uint16_t gemma_spm_ids[] = {
#include "test/golden/vocab/gemma_spm.inc"
};
static const uint16_t phi3_spm_ids[] = {
#include "test/golden/vocab/phi3_spm.inc"
};
static const uint16_t mistral_spm_ids[] = {
#include "test/golden/vocab/mistral_spm.inc"
};

#define IDS(variable) .name = #variable, .ids = variable##_ids, .n_ids = ARRAY_LEN(variable##_ids)

static const GoldenVocab vocabs[] = {
    { IDS(default), .pre = "default" },
    { IDS(gpt_2), .pre = "gpt-2" },
    { IDS(smollm), .pre = "smollm" },
    { IDS(qwen2), .pre = "qwen2" },
    { IDS(qwen35), .pre = "qwen35" },
    { IDS(llama_bpe), .pre = "llama-bpe" },
    { IDS(dbrx), .pre = "dbrx" },
    { IDS(glm4), .pre = "glm4" },
    { IDS(gpt_4o), .pre = "gpt-4o" },
    { IDS(tekken), .pre = "tekken" },
    { IDS(deepseek_llm), .pre = "deepseek-llm" },
    { IDS(deepseek_coder), .pre = "deepseek-coder" },
    { IDS(deepseek_v3), .pre = "deepseek-v3" },
    { IDS(deepseek_r1_qwen), .pre = "deepseek-r1-qwen" },
    { IDS(llama4), .pre = "llama4" },
    { IDS(spark2_5), .pre = "spark2_5" },
    { IDS(youtu), .pre = "youtu" },
    { IDS(falcon), .pre = "falcon" },
    { IDS(bloom), .pre = "bloom" },
    { IDS(viking), .pre = "viking" },
    { IDS(chameleon), .pre = "chameleon" },
    { IDS(seed_coder), .pre = "seed-coder" },
    { IDS(exaone_moe), .pre = "exaone-moe" },
    { IDS(ufakzeka), .pre = "ufakzeka" },
    { IDS(laguna), .pre = "laguna" },
    { IDS(minicpm5), .pre = "minicpm5" },
    { IDS(llama_spm) },
    { IDS(gemma_spm), .add_space_prefix = -1 },
    { IDS(phi3_spm), .model_name = "Phi-3 tiny" },
    { IDS(mistral_spm), .add_bos = 1, .add_eos = 1, .add_space_prefix = 1 },
};

size_t golden_vocab_n(void) {
    return ARRAY_LEN(vocabs);
}

const GoldenVocab *golden_vocab_at(size_t index) {
    return &vocabs[index];
}

/* --- merges, learned from the texts ------------------------------------------------------------------------------ */

enum {
    UNITS_MAX = 2600,
    LEARNED_MAX = 2300,
    UNIT_BYTES_MAX = 24,
    TEXT_UNITS_MAX = 1 << 13,
    NO_UNIT = UINT16_MAX, /* stands between texts, and for bytes that are no unit of their own */
};

/* Units of texts: bytes or characters first, then merges of two units. */
typedef struct Unit {
    char text[UNIT_BYTES_MAX + 1];
    uint8_t len_bytes;
} Unit;

typedef struct Learner {
    Unit units[UNITS_MAX];
    size_t n_units;
    uint16_t running[TEXT_UNITS_MAX]; /* all texts */
    size_t n_running;
    uint16_t left[LEARNED_MAX], right[LEARNED_MAX];
    size_t n_merges;
    bool keeps_signs;
} Learner;

static uint16_t find_unit(const Learner *learner, const char *text, size_t len_bytes) {
    for (size_t i = 0; i < learner->n_units; i++)
        if (learner->units[i].len_bytes == len_bytes && !memcmp(learner->units[i].text, text, len_bytes))
            return (uint16_t)i;
    return NO_UNIT;
}

static uint16_t add_unit(Learner *learner, const char *text, size_t len_bytes) {
    Unit *unit = &learner->units[learner->n_units];

    assert(learner->n_units < UNITS_MAX && len_bytes <= UNIT_BYTES_MAX);
    memcpy(unit->text, text, len_bytes);
    unit->len_bytes = (uint8_t)len_bytes;
    return (uint16_t)learner->n_units++;
}

/* Texts of tokens that no merge makes. */
static const char *const control_marks[] = { "<|endoftext|>", "<|im_start|>", "<|im_end|>" };
static const char *const control_phi3[] = { "<|user|>", "<|assistant|>", "<|end|>" };
static const char *const user_marks[] = { "<tool>", "<tool_call>", "<think>", "   ", "\t\t" };
/* Words that no merges lead to; only families that take whole words first make tokens of them. */
static const char *const whole_words[] = { " roll", "Straße", " HELLO", "1234567", "12", " indented", "ÀÉÎ" };

static bool is_special(const char *text, size_t len_bytes) {
    const struct {
        const char *const *marks;
        size_t n;
    } lists[] = { { control_marks, ARRAY_LEN(control_marks) },
                  { control_phi3, ARRAY_LEN(control_phi3) },
                  { user_marks, ARRAY_LEN(user_marks) },
                  { whole_words, ARRAY_LEN(whole_words) },
                  { (const char *const[]){ "<s>", "</s>", "<unk>" }, 3 } };

    for (size_t list = 0; list < ARRAY_LEN(lists); list++)
        for (size_t i = 0; i < lists[list].n; i++)
            if (strlen(lists[list].marks[i]) == len_bytes && !memcmp(lists[list].marks[i], text, len_bytes))
                return true;
    return false;
}

/* Joins the texts of two units; false: they may not be one. */
static bool join(const Learner *learner, uint16_t left, uint16_t right, Unit *joined) {
    const Unit *a = &learner->units[left], *b = &learner->units[right];

    if (a->len_bytes + b->len_bytes > UNIT_BYTES_MAX)
        return false;
    memcpy(joined->text, a->text, a->len_bytes);
    memcpy(joined->text + a->len_bytes, b->text, b->len_bytes);
    joined->len_bytes = (uint8_t)(a->len_bytes + b->len_bytes);
    joined->text[joined->len_bytes] = 0;
    /* Signs of marks stay apart if scores decide: llama.cpp lets text grow into a mark, and this project does not. */
    if (learner->keeps_signs && strpbrk(joined->text, "<|>"))
        return false;
    return !is_special(joined->text, joined->len_bytes);
}

/* Finds the most frequent pair, the first of equal ones. */
static bool best_pair(const Learner *learner, uint16_t *leftp, uint16_t *rightp) {
    static uint16_t counts[UNITS_MAX][UNITS_MAX];
    uint16_t most = 0;
    Unit joined;

    for (size_t i = 1; i < learner->n_running; i++) {
        uint16_t left = learner->running[i - 1], right = learner->running[i];

        if (left != NO_UNIT && right != NO_UNIT && ++counts[left][right] > most &&
            join(learner, left, right, &joined)) {
            most = counts[left][right];
            *leftp = left;
            *rightp = right;
        }
    }
    for (size_t i = 1; i < learner->n_running; i++)
        if (learner->running[i - 1] != NO_UNIT && learner->running[i] != NO_UNIT)
            counts[learner->running[i - 1]][learner->running[i]] = 0;
    return most > 0;
}

static void apply_merge(Learner *learner, uint16_t left, uint16_t right, uint16_t to) {
    size_t n = 0;

    for (size_t i = 0; i < learner->n_running; i++) {
        bool is_pair = i + 1 < learner->n_running && learner->running[i] == left && learner->running[i + 1] == right;

        learner->running[n++] = is_pair ? to : learner->running[i];
        i += is_pair;
    }
    learner->n_running = n;
}

/* Merges up to whole texts, over the borders of words on purpose: ids then show where words were cut. */
static void learn(Learner *learner) {
    uint16_t left = 0, right = 0;

    while (learner->n_merges < LEARNED_MAX && best_pair(learner, &left, &right)) {
        uint16_t to;
        Unit joined;

        (void)join(learner, left, right, &joined);
        to = find_unit(learner, joined.text, joined.len_bytes);
        if (to == NO_UNIT)
            to = add_unit(learner, joined.text, joined.len_bytes);
        learner->left[learner->n_merges] = left;
        learner->right[learner->n_merges++] = right;
        apply_merge(learner, left, right, to);
    }
}

static void run_on(Learner *learner, uint16_t unit) {
    assert(learner->n_running < TEXT_UNITS_MAX);
    learner->running[learner->n_running++] = unit;
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

enum {
    TOKENS_MAX = UNITS_MAX + 300
};

typedef struct Table {
    Learner learner;
    char texts[TOKENS_MAX][2 * UNIT_BYTES_MAX + 1];
    char merge_texts[LEARNED_MAX][4 * UNIT_BYTES_MAX + 2];
    const char *tokens[TOKENS_MAX];
    const char *merges[LEARNED_MAX];
    int32_t types[TOKENS_MAX];
    float scores[TOKENS_MAX];
    uint32_t n_tokens;
} Table;

static uint32_t add_token(Table *table, const char *text, int32_t type) {
    uint32_t id = table->n_tokens++;

    assert(id < TOKENS_MAX && strlen(text) < sizeof(table->texts[id]));
    snprintf(table->texts[id], sizeof(table->texts[id]), "%s", text);
    table->tokens[id] = table->texts[id];
    table->types[id] = type;
    table->scores[id] = -(float)id;
    return id;
}

/* Writes a text in the byte-level alphabet. */
static char *spell_bytes(char out[2 * UNIT_BYTES_MAX + 1], const char *text, size_t len_bytes) {
    size_t n = 0;

    out[0] = 0;
    for (size_t i = 0; i < len_bytes; i++) {
        char byte[3];

        n += (size_t)snprintf(out + n, 3, "%s", fixture_byte_text((uint8_t)text[i], byte));
    }
    return out;
}

static void add_marks(Table *table) {
    for (size_t i = 0; i < ARRAY_LEN(control_marks); i++)
        add_token(table, control_marks[i], 3);
    for (size_t i = 0; i < ARRAY_LEN(user_marks); i++)
        add_token(table, user_marks[i], 4);
}

static void byte_level_table(Table *table) {
    Learner *learner = &table->learner;
    char spelled[2 * UNIT_BYTES_MAX + 1];

    for (int byte = 0; byte < 256; byte++)
        add_unit(learner, &(char){ (char)byte }, 1);
    for (size_t i = 0; golden_text(i); i++) {
        for (const char *c = golden_text(i); *c; c++)
            run_on(learner, (uint8_t)*c);
        run_on(learner, NO_UNIT);
    }
    learn(learner);
    for (size_t i = 0; i < learner->n_units; i++)
        add_token(table, spell_bytes(spelled, learner->units[i].text, learner->units[i].len_bytes), 1);
    for (size_t i = 0; i < ARRAY_LEN(whole_words); i++)
        add_token(table, spell_bytes(spelled, whole_words[i], strlen(whole_words[i])), 1);
    for (size_t i = 0; i < learner->n_merges; i++) {
        snprintf(table->merge_texts[i], sizeof(table->merge_texts[i]), "%s %s", table->texts[learner->left[i]],
                 table->texts[learner->right[i]]);
        table->merges[i] = table->merge_texts[i];
    }
    add_marks(table);
}

/* Takes the characters of a text, with U+2581 for spaces. Characters that occur once stay without a token. */
static void run_on_characters(Learner *learner, const char *text) {
    run_on(learner, NO_UNIT);
    for (size_t n; *text; text += n) {
        const char *character = *text == ' ' ? SPM_SPACE : text;
        size_t len_bytes;
        uint16_t unit;

        n = utf8_sequence(text, strlen(text));
        len_bytes = *text == ' ' ? SPM_SPACE_BYTES : n;
        unit = find_unit(learner, character, len_bytes);
        run_on(learner, unit != NO_UNIT            ? unit
                        : (uint8_t)text[0] >= 0xf0 ? NO_UNIT /* encoded as bytes */
                                                   : add_unit(learner, character, len_bytes));
    }
}

static void sentencepiece_table(Table *table) {
    Learner *learner = &table->learner;

    learner->keeps_signs = true;
    for (size_t i = 0; golden_text(i); i++)
        run_on_characters(learner, golden_text(i));
    learn(learner);
    add_token(table, "<unk>", 2);
    add_token(table, "<s>", 3);
    add_token(table, "</s>", 3);
    for (int byte = 0; byte < 256; byte++) {
        char text[8];

        snprintf(text, sizeof(text), "<0x%02X>", byte);
        add_token(table, text, 6);
    }
    /* Pieces before characters: the better the score, the earlier it was learned. Some characters are bytes only. */
    for (size_t i = 0; i < learner->n_units; i++) {
        char text[UNIT_BYTES_MAX + 1] = "";

        memcpy(text, learner->units[i].text, learner->units[i].len_bytes);
        if (text[0] != '\n' && text[0] != '\t' && text[0] != '\r' && (uint8_t)text[0] != 0xd8)
            add_token(table, text, 1);
    }
    add_marks(table);
    for (size_t i = 0; i < ARRAY_LEN(control_phi3); i++)
        add_token(table, control_phi3[i], 3);
    add_token(table, "\n\n", 4);
}

static uint32_t find_token(const Table *table, const char *text) {
    for (uint32_t id = 0; id < table->n_tokens; id++)
        if (!strcmp(table->texts[id], text))
            return id;
    abort();
}

TokenizerSpec golden_vocab_spec(const GoldenVocab *vocab) {
    static Table tables[2];
    Table *table = &tables[vocab->pre != NULL];

    if (!table->n_tokens && vocab->pre)
        byte_level_table(table);
    else if (!table->n_tokens)
        sentencepiece_table(table);
    return (TokenizerSpec){
        .model = vocab->pre ? "gpt2" : "llama",
        .pre = vocab->pre,
        .name = vocab->model_name,
        .tokens = table->tokens,
        .n_tokens = table->n_tokens,
        .types = table->types,
        .n_types = table->n_tokens,
        .scores = vocab->pre ? NULL : table->scores,
        .n_scores = table->n_tokens,
        .merges = vocab->pre ? table->merges : NULL,
        .n_merges = table->learner.n_merges,
        .has_bos = true,
        .bos = find_token(table, vocab->pre ? "<|endoftext|>" : "<s>"),
        .has_eos = true,
        .eos = find_token(table, vocab->pre ? "<|im_end|>" : "</s>"),
        .add_bos = vocab->add_bos,
        .add_eos = vocab->add_eos,
        .add_space_prefix = vocab->add_space_prefix,
    };
}

void golden_vocab_write(const char *folder) {
    _cleanup_(str_buf_deinit) StrBuf hex = STR_BUF_NULL;

    for (size_t i = 0; i < ARRAY_LEN(vocabs); i++) {
        TokenizerSpec spec = golden_vocab_spec(&vocabs[i]);
        TokenizerFixture fixture;
        char name[64];
        int r = fixture_init(&fixture, &spec);

        assert(!r);
        snprintf(name, sizeof(name), "%s.gguf", vocabs[i].name);
        test_write_file(folder, name, fixture.image.data, fixture.image.len_bytes);
        fixture_deinit(&fixture);
    }
    for (size_t i = 0; golden_text(i); i++) {
        for (const char *c = golden_text(i); *c; c++) {
            char digits[3];

            snprintf(digits, sizeof(digits), "%02x", (uint8_t)*c);
            str_buf_add(&hex, digits);
        }
        str_buf_add(&hex, "\n");
    }
    test_write_file(folder, "texts.hex", hex.data, hex.len_bytes);
}
