// SPDX-License-Identifier: Apache-2.0
/* `tokens` compares token vectors (text, ids, ids_special) and chat renderings (messages, prompt, ids) with the
 * tokenizer. It reads only the model's metadata, no weights. */
#include <errno.h>
#include <string.h>

#include "base/min_max.h"
#include "base/strings/json_text.h"
#include "tools/eval/eval.h"
#include "tools/eval/json_lines.h"

#define MESSAGES_MAX 256

typedef struct TokensRun {
    Tokenizer *tokenizer;
    ChatTemplate chat;
    size_t n_vectors, n_wrong;
    char first_wrong[320];
} TokensRun;

static void run_deinit(TokensRun *run) {
    tokenizer_free(run->tokenizer);
    chat_template_deinit(&run->chat);
}

static void wrong(TokensRun *run, size_t line, const char *what, size_t at, const char *detail) {
    if (!run->n_wrong++)
        snprintf(run->first_wrong, sizeof(run->first_wrong), "line %zu, %s, at %zu: %s", line, what, at, detail);
}

/* Returns the first index at which the ids differ; SIZE_MAX: they are equal. */
static size_t first_difference(const TokenList *list, const uint32_t *ids, size_t n) {
    for (size_t i = 0; i < list->n && i < n; i++)
        if (list->ids[i] != ids[i])
            return i;
    return list->n == n ? SIZE_MAX : MIN(list->n, n);
}

static int check_ids(TokensRun *run, const TokenList *list, const json_t *golden, size_t line, const char *what,
                     ErrText *err) {
    _cleanup_(freep) uint32_t *ids = NULL;
    char detail[96];
    size_t n, at;
    int r;

    r = json_lines_ids(golden, tokenizer_n_tokens(run->tokenizer), &ids, &n, err);
    if (r)
        return r;
    run->n_vectors++;
    at = first_difference(list, ids, n);
    if (at != SIZE_MAX) {
        snprintf(detail, sizeof(detail), "%lld of %zu tokens, golden %lld of %zu",
                 at < list->n ? (long long)list->ids[at] : -1, list->n, at < n ? (long long)ids[at] : -1, n);
        wrong(run, line, what, at, detail);
    }
    return 0;
}

static int check_text(TokensRun *run, const json_t *object, const json_t *text, size_t line, ErrText *err) {
    const json_t *golden[] = { json_object_get(object, "ids"), json_object_get(object, "ids_special") };
    static const unsigned int flags[] = { 0, TOKENIZE_ADD_SPECIAL | TOKENIZE_PARSE_SPECIAL };
    static const char *const names[] = { "ids", "ids_special" };
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(golden) && !r; i++) {
        _cleanup_(token_list_deinit) TokenList list = { 0 };
        const json_t *expected = golden[i];

        if (!expected)
            expected = golden[0]; /* the same ids with and without special tokens */
        r = tokenizer_encode(run->tokenizer, json_string_value(text), json_string_length(text), flags[i], &list, err);
        if (!r)
            r = check_ids(run, &list, expected, line, names[i], err);
    }
    return r;
}

static int read_messages(const json_t *array, ChatMessage *messages, size_t *np, ErrText *err) {
    static const struct {
        const char *name;
        ChatRole role;
    } roles[] = { { "system", CHAT_ROLE_SYSTEM },
                  { "user", CHAT_ROLE_USER },
                  { "assistant", CHAT_ROLE_ASSISTANT },
                  { "tool", CHAT_ROLE_TOOL } };
    size_t i;
    json_t *item;

    if (json_array_size(array) > MESSAGES_MAX)
        return err_set(err, -EINVAL, "%zu messages; at most %d are taken", json_array_size(array), MESSAGES_MAX);
    json_array_foreach((json_t *)array, i, item) {
        const char *name = json_string_value(json_object_get(item, "role"));
        const json_t *content = json_object_get(item, "content");
        size_t role = 0;

        while (role < ARRAY_LEN(roles) && (!name || strcmp(name, roles[role].name)))
            role++;
        if (role == ARRAY_LEN(roles) || !json_is_string(content))
            return err_set(err, -EINVAL, "message %zu needs 'role' (system, user, assistant, tool) and 'content'", i);
        messages[i] = (ChatMessage){ .role = roles[role].role,
                                     .text = json_string_value(content),
                                     .len_bytes = json_string_length(content) };
    }
    *np = json_array_size(array);
    return 0;
}

static int check_chat(TokensRun *run, const json_t *object, const json_t *array, size_t line, ErrText *err) {
    const json_t *prompt = json_object_get(object, "prompt");
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    ChatMessage messages[MESSAGES_MAX];
    ChatInput input = { .messages = messages };
    size_t at = 0;
    int r;

    r = read_messages(array, messages, &input.n_messages, err);
    if (!r)
        r = chat_template_render(&run->chat, run->tokenizer, &input, &text, err);
    if (!r)
        r = chat_template_encode(&run->chat, run->tokenizer, &input, &list, err);
    if (r)
        return r;
    if (json_is_string(prompt)) {
        run->n_vectors++;
        while (at < text.len_bytes && at < json_string_length(prompt) && text.data[at] == json_string_value(prompt)[at])
            at++;
        if (text.len_bytes != json_string_length(prompt) || at != text.len_bytes)
            wrong(run, line, "prompt", at, "the rendered text differs from this byte on");
    }
    return check_ids(run, &list, json_object_get(object, "ids"), line, "chat ids", err);
}

static int check_line(void *arg, json_t *object, size_t line, ErrText *err) {
    const json_t *text = json_object_get(object, "text"), *messages = json_object_get(object, "messages");

    if (json_is_string(text))
        return check_text(arg, object, text, line, err);
    if (json_is_array(messages))
        return check_chat(arg, object, messages, line, err);
    return err_set(err, -EINVAL, "neither 'text' nor 'messages' is there");
}

int eval_tokens(const EvalOptions *options) {
    _cleanup_(run_deinit) TokensRun run = { 0 };
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    char chat_kind[256];
    ErrText err = { 0 };
    bool ok;

    if (gguf_open(&file, options->model.path, &err) || tokenizer_new(&run.tokenizer, file, &err))
        return eval_fail(options, "%s", err.text);
    if (chat_template_init(&run.chat, file, NULL, 0))
        return eval_fail(options, "out of memory");
    chat_template_describe(&run.chat, chat_kind, sizeof(chat_kind));
    if (json_lines_each(options->file, check_line, &run, &err))
        return eval_fail(options, "%s", err.text);
    ok = !run.n_wrong && run.n_vectors;
    if (options->json.is_wanted)
        return eval_print_json(options,
                               json_pack("{s:s, s:o, s:s, s:o, s:b, s:i, s:i, s:o}", "verb", "tokens", "model",
                                         json_text(options->model.path), "tokenizer",
                                         tokenizer_model_name(run.tokenizer), "chat", json_text(chat_kind), "ok", ok,
                                         "vectors", (int)run.n_vectors, "wrong", (int)run.n_wrong, "first_wrong",
                                         json_text(run.first_wrong)),
                               ok ? EVAL_OK : EVAL_OUTSIDE);
    printf("%zu vectors (%s), %zu wrong%s%s\n%s\n", run.n_vectors, tokenizer_model_name(run.tokenizer), run.n_wrong,
           run.n_wrong ? "\n  first at " : "", run.first_wrong, ok ? "ok" : "WRONG");
    return ok ? EVAL_OK : EVAL_OUTSIDE;
}
