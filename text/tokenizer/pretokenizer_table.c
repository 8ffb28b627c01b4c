// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/pretokenizer_table.h"

#include <string.h>

#include "base/cleanup.h"

/* --- parts of expressions --------------------------------------------------------------------------------------- */

/* Every expression below takes a time that is linear in the text, its search included. A repetition that can fail
 * behind a long run is followed by an alternative that takes the run, or begins where no run goes on
 * (test_pretokenizer_steps counts the steps). The expressions are llama.cpp's forms of the models' own, differences
 * included, because models in GGUF are used with these everywhere. */

/* \s of the models' own splitters is Unicode White_Space. PCRE2's \s with UCP has U+180E too, so the set is spelled
 * out. */
#define SPACES                                                                                                         \
    "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define SPACE_RUNS "[" SPACES "]+(?![^" SPACES "])|[" SPACES "]+"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACES "\\p{L}\\p{N}]+|" SPACE_RUNS
/* Contractions match either case of ASCII only: (?i:) would let U+017F pass for an s. */
#define CONTRACTION "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
/* Last alternatives of Llama 3's expression and its relatives, behind numbers and words. */
#define SIGNS_AND_SPACES " ?[^" SPACES "\\p{L}\\p{N}]+[\\r\\n]*|[" SPACES "]*[\\r\\n]+|" SPACE_RUNS
#define WORDS(numbers) "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers "|" SIGNS_AND_SPACES
#define LLAMA3(numbers) CONTRACTION "|" WORDS(numbers)
/* GPT-4o cuts words where a capital follows a small letter. Both halves take all letters beyond ASCII. */
#define CASED(contraction)                                                                                             \
    "[^\\r\\n\\p{L}\\p{N}]?[^\\P{L}a-z]*[^\\P{L}A-Z]+" contraction                                                     \
    "|[^\\r\\n\\p{L}\\p{N}]?[^\\P{L}a-z]+[^\\P{L}A-Z]*" contraction
#define CASED_REST(numbers) "|" numbers "| ?[^" SPACES "\\p{L}\\p{N}]+[\\r\\n/]*|[" SPACES "]*[\\r\\n]+|" SPACE_RUNS
#define HAN_AND_KANA "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{30FF}]+"
/* ASCII signs before ASCII letters, then words with their combining marks. */
#define DEEPSEEK3(signs)                                                                                               \
    "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+" signs "|" SPACE_RUNS
/* Scripts without words between spaces: U+0800 to U+9FA5 without its spaces, and Hangul. */
#define DEEPSEEK_UNSPACED                                                                                              \
    "[\\x{800}-\\x{167F}\\x{1681}-\\x{1FFF}\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}"                  \
    "\\x{2060}-\\x{2FFF}\\x{3001}-\\x{9FA5}\\x{AC00}-\\x{D7FF}]+"
/* Letters of scripts that have capitals. */
#define DEEPSEEK_LETTERS                                                                                               \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}"                    \
    "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}"             \
    "\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}"                    \
    "\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"                  \
    "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}"                  \
    "\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}"                             \
    "\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}"                            \
    "\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}"                  \
    "\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}"                    \
    "\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}"                             \
    "\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}"                             \
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"                   \
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}"                  \
    "\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}"                                 \
    "\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}"                             \
    "\\x{1E900}-\\x{1E943}"
#define DEEPSEEK_SIGNS "!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3001}\\x{3002}"
#define SENTENCES " ?[^()|.,!?" SPACES "\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C}]+"

/* --- families --------------------------------------------------------------------------------------------------- */

enum {
    FAMILY_DEFAULT,
    FAMILY_GPT2,
    FAMILY_SMOLLM,
    FAMILY_QWEN2,
    FAMILY_QWEN35,
    FAMILY_LLAMA_BPE,
    FAMILY_DBRX,
    FAMILY_GLM4,
    FAMILY_GPT4O,
    FAMILY_TEKKEN,
    FAMILY_DEEPSEEK_LLM,
    FAMILY_DEEPSEEK_CODER,
    FAMILY_DEEPSEEK_V3,
    FAMILY_SPARK,
    FAMILY_YOUTU,
    FAMILY_FALCON,
    FAMILY_BLOOM,
    FAMILY_VIKING,
    FAMILY_CHAMELEON,
    FAMILY_SEED_CODER,
    FAMILY_EXAONE_MOE,
    FAMILY_UFAKZEKA,
    FAMILY_LAGUNA,
    FAMILY_MINICPM5,
};

static const PretokenizerFamily families[] = {
    [FAMILY_DEFAULT] = { "default", { "[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]" }, false, false },
    [FAMILY_GPT2] = { "gpt2", { GPT2 }, false, false },
    [FAMILY_SMOLLM] = { "smollm", { "\\p{N}", GPT2 }, false, false },
    [FAMILY_QWEN2] = { "qwen2", { LLAMA3("\\p{N}") }, false, false },
    [FAMILY_QWEN35] = { "qwen35",
                        { CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" SPACES
                                      "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|[" SPACES "]*[\\r\\n]+|" SPACE_RUNS },
                        false,
                        false },
    [FAMILY_LLAMA_BPE] = { "llama-bpe", { LLAMA3("\\p{N}{1,3}") }, true, true },
    [FAMILY_DBRX] = { "dbrx", { LLAMA3("\\p{N}{1,3}") }, false, false },
    [FAMILY_GLM4] = { "glm4", { LLAMA3("\\p{N}{1,3}") }, true, false },
    [FAMILY_GPT4O] = { "gpt-4o", { CASED("(?:" CONTRACTION ")?") CASED_REST("\\p{N}{1,3}") }, false, false },
    [FAMILY_TEKKEN] = { "tekken", { CASED("") CASED_REST("\\p{N}") }, true, true },
    [FAMILY_DEEPSEEK_LLM] = { "deepseek-llm",
                              /* the fourth replaces the model's \s+$, which would scan a run from each of its places */
                              { "[\\r\\n]", "[" SPACES "]?[" DEEPSEEK_LETTERS "]+",
                                "[" SPACES "]?[" DEEPSEEK_SIGNS "]+", "(?<![" SPACES "])[" SPACES "]++\\z",
                                DEEPSEEK_UNSPACED, "\\p{N}+" },
                              false,
                              false },
    [FAMILY_DEEPSEEK_CODER] = { "deepseek-coder",
                                { "[\\r\\n]", "[" SPACES "]?\\p{L}+", "[" SPACES "]?\\p{P}+", DEEPSEEK_UNSPACED,
                                  "\\p{N}" },
                                false,
                                false },
    [FAMILY_DEEPSEEK_V3] = { "deepseek-v3",
                             { "\\p{N}{1,3}", HAN_AND_KANA, DEEPSEEK3("[\\r\\n]*|[" SPACES "]*[\\r\\n]+") },
                             false,
                             false },
    [FAMILY_SPARK] = { "spark2_5", { "\\p{N}{1,3}", HAN_AND_KANA, DEEPSEEK3("|[\\r\\n]"), "\\p{N}" }, false, false },
    [FAMILY_YOUTU] = { "youtu",
                       { "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|"
                         "[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}\\x{2014}\\x{FF1A}\\x{FF1B}\\x{FF0C}"
                         "\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+|[\\x{3105}-\\x{312F}]+|" HAN_AND_KANA,
                         "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+(?:" CONTRACTION ")?" CASED_REST("\\p{N}") },
                       true,
                       false },
    [FAMILY_FALCON] = { "falcon", { "[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]" }, false, false },
    [FAMILY_BLOOM] = { "bloom", { SENTENCES }, false, false },
    [FAMILY_VIKING] = { "viking", { SENTENCES, "\\p{N}" }, false, false },
    [FAMILY_CHAMELEON] = { "chameleon",
                           { "<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}",
                             "[\\p{P}!-/:-@\\[-`{-~]", GPT2 },
                           false,
                           true },
    [FAMILY_SEED_CODER] = { "seed-coder",
                            { CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^" SPACES
                                          "\\p{L}\\p{N}\\r\\n]+|[" SPACES "]*[\\r\\n]+|" SPACE_RUNS },
                            false,
                            false },
    [FAMILY_EXAONE_MOE] = { "exaone-moe",
                            { CONTRACTION
                              "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*+(?: \\p{L}\\p{M}*+)*+)++|\\p{N}| ?[^" SPACES
                              "\\p{L}\\p{N}]+[\\r\\n/]?|[" SPACES "]*[\\r\\n]|" SPACE_RUNS },
                            false,
                            false },
    [FAMILY_UFAKZEKA] = { "ufakzeka", { WORDS("\\p{N}") }, false, false },
    [FAMILY_LAGUNA] = { "laguna", { "[^\\n]+|\\n+", LLAMA3("\\p{N}") }, false, false },
    [FAMILY_MINICPM5] = { "minicpm5", { "\\p{N}{1,3}", LLAMA3("\\p{N}+") }, true, false },
};

/* Names in files (llama.cpp's), with the family that each means. */
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
    { "granite-docling", FAMILY_GPT2 },
    { "jina-es", FAMILY_GPT2 },
    { "jina-de", FAMILY_GPT2 },
    { "smollm", FAMILY_SMOLLM },
    { "starcoder", FAMILY_SMOLLM },
    { "refact", FAMILY_SMOLLM },
    { "command-r", FAMILY_SMOLLM },
    { "codeshell", FAMILY_SMOLLM },
    { "exaone", FAMILY_SMOLLM },
    { "minerva-7b", FAMILY_SMOLLM },
    { "mellum2", FAMILY_SMOLLM },
    { "qwen2", FAMILY_QWEN2 },
    { "deepseek-r1-qwen", FAMILY_QWEN2 },
    { "stablelm2", FAMILY_QWEN2 },
    { "megrez", FAMILY_QWEN2 },
    { "hunyuan", FAMILY_QWEN2 },
    { "solar-open", FAMILY_QWEN2 },
    { "grok-2", FAMILY_QWEN2 },
    { "kormo", FAMILY_QWEN2 },
    { "f2llmv2", FAMILY_QWEN2 },
    { "qwen35", FAMILY_QWEN35 },
    { "llama-bpe", FAMILY_LLAMA_BPE },
    { "llama3", FAMILY_LLAMA_BPE },
    { "llama-v3", FAMILY_LLAMA_BPE },
    { "falcon3", FAMILY_LLAMA_BPE },
    { "falcon-h1", FAMILY_LLAMA_BPE },
    { "pixtral", FAMILY_LLAMA_BPE },
    { "midm-2.0", FAMILY_LLAMA_BPE },
    { "lfm2", FAMILY_LLAMA_BPE },
    { "jina-v5-nano", FAMILY_LLAMA_BPE },
    { "dbrx", FAMILY_DBRX },
    { "smaug-bpe", FAMILY_DBRX },
    { "chatglm-bpe", FAMILY_DBRX },
    { "glm4", FAMILY_GLM4 },
    { "glm5", FAMILY_GLM4 },
    { "gpt-4o", FAMILY_GPT4O },
    { "llama4", FAMILY_GPT4O },
    { "kanana2", FAMILY_GPT4O },
    { "talkie", FAMILY_GPT4O },
    { "minimax-m2", FAMILY_GPT4O },
    { "tekken", FAMILY_TEKKEN },
    { "deepseek-llm", FAMILY_DEEPSEEK_LLM },
    { "deepseek-coder", FAMILY_DEEPSEEK_CODER },
    { "deepseek-v3", FAMILY_DEEPSEEK_V3 },
    { "hunyuan-dense", FAMILY_DEEPSEEK_V3 },
    { "joyai-llm", FAMILY_DEEPSEEK_V3 },
    { "hy_v4", FAMILY_DEEPSEEK_V3 },
    { "spark2_5", FAMILY_SPARK },
    { "youtu", FAMILY_YOUTU },
    { "falcon", FAMILY_FALCON },
    { "bloom", FAMILY_BLOOM },
    { "poro-chat", FAMILY_BLOOM },
    { "gpt3-finnish", FAMILY_BLOOM },
    { "viking", FAMILY_VIKING },
    { "chameleon", FAMILY_CHAMELEON },
    { "bailingmoe", FAMILY_QWEN2 },
    { "bailingmoe2", FAMILY_QWEN2 },
    { "llada-moe", FAMILY_QWEN2 },
    { "seed-coder", FAMILY_SEED_CODER },
    { "exaone-moe", FAMILY_EXAONE_MOE },
    { "ufakzeka", FAMILY_UFAKZEKA },
    { "laguna", FAMILY_LAGUNA },
    { "minicpm5", FAMILY_MINICPM5 },
};

const PretokenizerFamily *pretokenizer_family(const char *name, size_t len_bytes) {
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strlen(names[i].name) == len_bytes && !memcmp(names[i].name, name, len_bytes))
            return &families[names[i].family];
    return NULL;
}

const PretokenizerFamily *pretokenizer_family_at(size_t index) {
    return index < ARRAY_LEN(families) ? &families[index] : NULL;
}

const char *pretokenizer_known(size_t index) {
    return index < ARRAY_LEN(names) ? names[index].name : NULL;
}
