// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "text/chat/call_formats.h"

#include <string.h>

#include "base/min_max.h"
#include "text/chat/call_parser.h"
#include "text/tokenizer/vocab.h"

#define OBJECT_OF(name, arguments)                                                                                     \
    "{\"" name "\": \"" CALL_PROBE_NAME "\", \"" arguments "\": {\"" CALL_PROBE_KEY "\": "

typedef enum ShapeId {
    SHAPE_HERMES,
    SHAPE_HERMES_INLINE,
    SHAPE_MISTRAL,
    SHAPE_MISTRAL_SPACED,
    SHAPE_MISTRAL_ARGS,
    SHAPE_MISTRAL_ID_ARGS,
    SHAPE_NEMOTRON,
    SHAPE_APRIEL,
    SHAPE_FUNCTION_TAG,
    SHAPE_LLAMA3,
    SHAPE_PHI4_MINI,
    SHAPE_GRANITE,
    SHAPE_GENERIC,
    _SHAPE_N,
} ShapeId;

static const CallShape shapes[_SHAPE_N];

#define BEGIN(id)                                                                                                      \
    static void begin_##id(void *parser, size_t start, const CallTools *tools) {                                       \
        call_parser_begin(parser, &shapes[id], tools);                                                                 \
    }
BEGIN(SHAPE_HERMES)
BEGIN(SHAPE_HERMES_INLINE)
BEGIN(SHAPE_MISTRAL)
BEGIN(SHAPE_MISTRAL_SPACED)
BEGIN(SHAPE_MISTRAL_ARGS)
BEGIN(SHAPE_MISTRAL_ID_ARGS)
BEGIN(SHAPE_NEMOTRON)
BEGIN(SHAPE_APRIEL)
BEGIN(SHAPE_FUNCTION_TAG)
BEGIN(SHAPE_LLAMA3)
BEGIN(SHAPE_PHI4_MINI)
BEGIN(SHAPE_GRANITE)
BEGIN(SHAPE_GENERIC)

#define PARSED_BY(id)                                                                                                  \
    .parser_bytes = sizeof(CallParser), .begin = begin_##id, .push = call_parser_push, .finish = call_parser_finish,   \
    .deinit = call_parser_deinit

/* clang-format off */
static const CallShape shapes[_SHAPE_N] = {
    /* Hermes 2 Pro and 3, Qwen 2.5 and 3, QwQ, SmolLM3, Granite 4 */
    [SHAPE_HERMES] = {
        .format = { .name = "hermes", .starts = { { .text = "<tool_call>" } }, .n_starts = 1,
                    .tokens = { "</tool_call>" }, .n_tokens = 1, PARSED_BY(SHAPE_HERMES) },
        .start = "<tool_call>", .pad = "\n", .end = "</tool_call>", .joint = "\n",
        .name_key = "name", .arguments_key = "arguments",
        .evidence = "<tool_call>\n" OBJECT_OF("name", "arguments"),
        .source_mark = "<tool_call>\\n{\\\"name\\\": <function-name>, \\\"arguments\\\"", .source_not = "<function=" },
    /* EXAONE 4 */
    [SHAPE_HERMES_INLINE] = {
        .format = { .name = "hermes-inline", .starts = { { .text = "<tool_call>" } }, .n_starts = 1,
                    .tokens = { "</tool_call>" }, .n_tokens = 1, PARSED_BY(SHAPE_HERMES_INLINE) },
        .start = "<tool_call>", .pad = "", .end = "</tool_call>", .joint = "\n",
        .name_key = "name", .arguments_key = "arguments",
        .evidence = "<tool_call>" OBJECT_OF("name", "arguments") },
    /* Mistral v3 (tekken), Nemo, Small 3.1 */
    [SHAPE_MISTRAL] = {
        .format = { .name = "mistral", .starts = { { .text = "[TOOL_CALLS]" } }, .n_starts = 1,
                    PARSED_BY(SHAPE_MISTRAL) },
        .start = "[TOOL_CALLS]", .pad = "", .is_list = true, .has_id = true, .joint = ", ",
        .name_key = "name", .arguments_key = "arguments",
        .evidence = "[TOOL_CALLS][" OBJECT_OF("name", "arguments") },
    /* Mistral v3 with SentencePiece */
    [SHAPE_MISTRAL_SPACED] = {
        .format = { .name = "mistral-spaced", .starts = { { .text = "[TOOL_CALLS]" } }, .n_starts = 1,
                    PARSED_BY(SHAPE_MISTRAL_SPACED) },
        .start = "[TOOL_CALLS]", .pad = " ", .is_list = true, .has_id = true, .joint = ", ",
        .name_key = "name", .arguments_key = "arguments",
        .evidence = "[TOOL_CALLS] [" OBJECT_OF("name", "arguments") },
    /* Ministral 3, Devstral, Mistral v11 and v13 */
    [SHAPE_MISTRAL_ARGS] = {
        .format = { .name = "mistral-args", .starts = { { .text = "[TOOL_CALLS]" } }, .n_starts = 1,
                    .tokens = { "[ARGS]", "[CALL_ID]" }, .n_tokens = 2, PARSED_BY(SHAPE_MISTRAL_ARGS) },
        .start = "[TOOL_CALLS]", .pad = "", .joint = "", .infix = "[ARGS]", .id_infix = "[CALL_ID]",
        .evidence = "[TOOL_CALLS]" CALL_PROBE_NAME "[ARGS]{\"" CALL_PROBE_KEY "\": " },
    /* Mistral Small 3.2 */
    [SHAPE_MISTRAL_ID_ARGS] = {
        .format = { .name = "mistral-id-args", .starts = { { .text = "[TOOL_CALLS]" } }, .n_starts = 1,
                    .tokens = { "[ARGS]", "[CALL_ID]" }, .n_tokens = 2, PARSED_BY(SHAPE_MISTRAL_ID_ARGS) },
        .start = "[TOOL_CALLS]", .pad = "", .joint = "", .infix = "[ARGS]", .id_infix = "[CALL_ID]",
        .evidence = "[TOOL_CALLS]" CALL_PROBE_NAME "[CALL_ID]" },
    /* Nemotron Nano 2 */
    [SHAPE_NEMOTRON] = {
        .format = { .name = "nemotron", .starts = { { .text = "<TOOLCALL>" } }, .n_starts = 1,
                    .tokens = { "</TOOLCALL>" }, .n_tokens = 1, PARSED_BY(SHAPE_NEMOTRON) },
        .start = "<TOOLCALL>", .pad = "", .end = "</TOOLCALL>", .is_list = true, .joint = ", ",
        .name_key = "name", .arguments_key = "arguments",
        .evidence = "<TOOLCALL>[" OBJECT_OF("name", "arguments") },
    /* Apriel 1.5 and 1.6 */
    [SHAPE_APRIEL] = {
        .format = { .name = "apriel", .starts = { { .text = "<tool_calls>" } }, .n_starts = 1,
                    .tokens = { "</tool_calls>" }, .n_tokens = 1, PARSED_BY(SHAPE_APRIEL) },
        .start = "<tool_calls>", .pad = "", .end = "</tool_calls>", .is_list = true, .has_id = true, .joint = ", ",
        .name_key = "name", .arguments_key = "arguments",
        .evidence = "<tool_calls>[" OBJECT_OF("name", "arguments") },
    /* Functionary 3.1 */
    [SHAPE_FUNCTION_TAG] = {
        .format = { .name = "function-tag", .starts = { { .text = "<function=" } }, .n_starts = 1,
                    .tokens = { "</function>" }, .n_tokens = 1, PARSED_BY(SHAPE_FUNCTION_TAG) },
        .start = "<function=", .pad = "", .end = "</function>", .joint = "", .infix = ">",
        .evidence = "<function=" CALL_PROBE_NAME ">{\"" CALL_PROBE_KEY "\": " },
    /* Llama 3.1 to 3.3, 4 */
    [SHAPE_LLAMA3] = {
        .format = { .name = "llama3",
                    .starts = { { .text = "{", .is_at_front = true, .is_argument = true },
                                { .text = "<|python_tag|>" } }, .n_starts = 2, PARSED_BY(SHAPE_LLAMA3) },
        .pad = "", .joint = "; ", .name_key = "name", .arguments_key = "parameters",
        .evidence = OBJECT_OF("name", "parameters") },
    /* Phi-4-mini: the template writes tools only */
    [SHAPE_PHI4_MINI] = {
        .format = { .name = "phi4-mini", .starts = { { .text = "<|tool_call|>" } }, .n_starts = 1,
                    .tokens = { "<|/tool_call|>" }, .n_tokens = 1, PARSED_BY(SHAPE_PHI4_MINI) },
        .start = "<|tool_call|>", .pad = "", .end = "<|/tool_call|>", .is_list = true, .joint = ", ",
        .name_key = "name", .arguments_key = "arguments",
        .source_mark = "<|/tool|>", .token_mark = "<|tool_call|>" },
    /* Granite 3 */
    [SHAPE_GRANITE] = {
        .format = { .name = "granite", .starts = { { .text = "<|tool_call|>" } }, .n_starts = 1,
                    PARSED_BY(SHAPE_GRANITE) },
        .start = "<|tool_call|>", .pad = "", .is_list = true, .joint = ", ",
        .name_key = "name", .arguments_key = "arguments", .source_mark = "<|tool_call|>" },
    /* templates without tools */
    [SHAPE_GENERIC] = {
        .format = { .name = "generic", .starts = { { .text = "{", .is_at_front = true, .is_argument = true } },
                    .n_starts = 1, PARSED_BY(SHAPE_GENERIC) },
        .pad = "", .joint = "\n", .wrapper = "tool_call", .name_key = "name", .arguments_key = "arguments" },
};
/* clang-format on */

const CallShape *const call_formats_generic = &shapes[SHAPE_GENERIC];

const CallShape *call_formats_all(size_t *np) {
    *np = _SHAPE_N;
    return shapes;
}

const CallShape *call_formats_named(const char *name) {
    for (size_t i = 0; i < _SHAPE_N; i++)
        if (!strcmp(shapes[i].format.name, name))
            return &shapes[i];
    return NULL;
}

const CallShape *call_formats_written(const char *rendered) {
    for (size_t i = 0; i < _SHAPE_N; i++)
        if (shapes[i].evidence && strstr(rendered, shapes[i].evidence))
            return &shapes[i];
    return NULL;
}

static bool has(const char *text, size_t len_bytes, const char *part) {
    return part && len_bytes && memmem(text, len_bytes, part, strlen(part));
}

uint32_t call_formats_in_source(const char *source, size_t len_bytes) {
    uint32_t bits = 0;

    for (size_t i = 0; i < _SHAPE_N; i++)
        if (has(source, len_bytes, shapes[i].source_mark) && !has(source, len_bytes, shapes[i].source_not))
            bits |= 1u << i;
    return bits;
}

static bool vocabulary_fits(const CallShape *shape, const Tokenizer *tokenizer) {
    return !shape->token_mark || (tokenizer && tokenizer_find(tokenizer, shape->token_mark) != TOKEN_NONE);
}

const CallShape *call_formats_find(const CallEvidence *evidence, const Tokenizer *tokenizer) {
    if (evidence->written)
        return evidence->written;
    for (size_t i = 0; i < _SHAPE_N && !evidence->writes_calls; i++)
        if (evidence->in_source >> i & 1 && vocabulary_fits(&shapes[i], tokenizer))
            return &shapes[i];
    return evidence->takes_tools || evidence->writes_calls ? NULL : call_formats_generic;
}
