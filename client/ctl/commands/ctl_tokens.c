// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/files/file_io.h"
#include "base/strings/decimal.h"
#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"

static int print_tokens_json(Ctl *ctl, CoordgenReply *reply) {
    json_t *object = json_object(), *tokens = json_array(), *pieces = json_array();
    size_t n_tokens, len_bytes;
    const uint32_t *ids = coordgen_reply_tokens(reply, &n_tokens);

    for (size_t i = 0; i < n_tokens; i++) {
        const char *piece = coordgen_reply_piece(reply, i, &len_bytes);

        json_array_append_new(tokens, json_integer(ids[i]));
        if (piece)
            json_array_append_new(pieces, ctl_json_text(piece, len_bytes));
    }
    ctl_json_set(object, "count", json_integer((json_int_t)coordgen_reply_n_tokens(reply)));
    if (!ctl_has(ctl, "count")) {
        ctl_json_set(object, "tokens", steal(&tokens));
        ctl_json_set(object, "pieces", steal(&pieces));
    }
    json_decref(tokens);
    json_decref(pieces);
    return ctl_json_print(ctl, object);
}

static int print_tokens(Ctl *ctl, CoordgenReply *reply) {
    size_t n_tokens, len_bytes;
    const uint32_t *ids = coordgen_reply_tokens(reply, &n_tokens);

    if (ctl->json)
        return print_tokens_json(ctl, reply);
    if (ctl_has(ctl, "count")) {
        printf("%zu\n", coordgen_reply_n_tokens(reply));
    } else if (ctl_has(ctl, "ids")) {
        for (size_t i = 0; i < n_tokens; i++)
            printf("%s%u", i ? " " : "", ids[i]);
        putchar('\n');
    } else {
        for (size_t i = 0; i < n_tokens; i++) {
            const char *piece = coordgen_reply_piece(reply, i, &len_bytes);

            printf("%8u  ", ids[i]);
            ctl_put_escaped(stdout, piece ? piece : "", len_bytes);
            putchar('\n');
        }
        if (!ctl->quiet)
            fprintf(stderr, "%zu tokens\n", n_tokens);
    }
    return CTL_EXIT_OK;
}

static int print_text(Ctl *ctl, CoordgenReply *reply) {
    size_t len_bytes;
    const char *text = coordgen_reply_text(reply, &len_bytes);

    if (ctl->json) {
        json_t *object = json_object();

        ctl_json_set(object, "text", ctl_json_text(text ? text : "", len_bytes));
        return ctl_json_print(ctl, object);
    }
    ctl_put(stdout, text ? text : "", len_bytes, ctl->out_tty);
    if (ctl->out_tty)
        putchar('\n');
    return CTL_EXIT_OK;
}

static int tokenize(Ctl *ctl) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    _cleanup_(freep) char *text = NULL;
    CoordgenTokenizeOptions options;
    CoordgenMessage message;
    int r;

    text = ctl_prompt(ctl);
    if (!text)
        return CTL_EXIT_FAILED;
    coordgen_tokenize_options_init(&options);
    options.model = ctl_text(ctl, "model", NULL);
    options.add_special = ctl_has(ctl, "add-special");
    options.parse_special = ctl_has(ctl, "parse-special");
    options.count_only = ctl_has(ctl, "count");
    if (ctl_has(ctl, "chat")) {
        message = (CoordgenMessage){ .role = COORDGEN_ROLE_USER, .text = text };
        options.messages = &message;
        options.n_messages = 1;
        options.no_generation_prompt = ctl_has(ctl, "no-generation-prompt");
        options.template_kwargs = ctl_text(ctl, "template-kwargs", NULL);
        options.render_only = ctl_has(ctl, "render");
    } else {
        options.text = text;
    }
    r = ctl_connect(ctl);
    if (!r)
        r = ctl_wait(ctl, &wait, coordgen_tokenize_start(ctl->client, &options, ctl_wait_event, &wait, NULL));
    if (r)
        return r;
    if (coordgen_reply_error(wait.reply))
        return ctl_failed_reply(ctl, &wait);
    return options.render_only ? print_text(ctl, wait.reply) : print_tokens(ctl, wait.reply);
}

static int detokenize(Ctl *ctl) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    _cleanup_(freep) char *typed = NULL;
    _cleanup_(freep) uint32_t *ids = NULL;
    CoordgenDetokenizeOptions options;
    int r;

    typed = ctl_prompt(ctl);
    if (!typed)
        return CTL_EXIT_FAILED;
    coordgen_detokenize_options_init(&options);
    if (!ctl_ids(ctl, typed, &ids, &options.n_tokens))
        return CTL_EXIT_USAGE;
    options.model = ctl_text(ctl, "model", NULL);
    options.tokens = ids;
    options.with_special = ctl_has(ctl, "parse-special") || ctl_has(ctl, "add-special");
    r = ctl_connect(ctl);
    if (!r)
        r = ctl_wait(ctl, &wait, coordgen_detokenize_start(ctl->client, &options, ctl_wait_event, &wait, NULL));
    if (r)
        return r;
    if (coordgen_reply_error(wait.reply))
        return ctl_failed_reply(ctl, &wait);
    return print_text(ctl, wait.reply);
}

static int tokenize_run(Ctl *ctl) {
    static const char *const only_text[] = { "ids", "count", "chat" }, *const only_chat[] = { "no-generation-prompt",
                                                                                              "template-kwargs",
                                                                                              "render" };

    if (ctl_has(ctl, "chat") && (ctl_has(ctl, "add-special") || ctl_has(ctl, "parse-special")))
        return ctl_usage_error(ctl, "--chat: the template decides on special tokens: leave --add-special and "
                                    "--parse-special out");
    for (size_t i = 0; i < ARRAY_LEN(only_chat); i++)
        if (ctl_has(ctl, only_chat[i]) && !ctl_has(ctl, "chat"))
            return ctl_usage_error(ctl, "--%s is for a chat template: give --chat too", only_chat[i]);
    if (ctl_has(ctl, "render") && (ctl_has(ctl, "ids") || ctl_has(ctl, "count")))
        return ctl_usage_error(ctl, "--render shows the text and no tokens: leave --ids and --count out");
    if (!ctl_has(ctl, "detokenize"))
        return tokenize(ctl);
    for (size_t i = 0; i < ARRAY_LEN(only_text); i++)
        if (ctl_has(ctl, only_text[i]))
            return ctl_usage_error(ctl, "--%s has no meaning with --detokenize", only_text[i]);
    return detokenize(ctl);
}

static const Option tokenize_options[] = {
    { "file", 'f', "PATH", "text, after the arguments; -: standard input" },
    { "model", 'm', "NAME", "the model (default: the service's default)" },
    { "ids", 0, NULL, "the numbers only, on one line" },
    { "count", 'c', NULL, "how many they are only" },
    { "chat", 0, NULL, "the text as a user's message through the chat template" },
    { "no-generation-prompt", 0, NULL, "with --chat: nothing behind the message" },
    { "template-kwargs", 0, "JSON", "with --chat: object of further variables for the chat template" },
    { "render", 0, NULL, "with --chat: the text that the template makes, instead of tokens" },
    { "add-special", 0, NULL, "begin and end tokens as the model asks" },
    { "parse-special", 0, NULL, "read control tokens in the text by name" },
    { "detokenize", 'd', NULL, "the other way: numbers to text (with a special option: control tokens too)" },
};

const CtlVerb ctl_verb_tokenize = {
    .name = "tokenize",
    .arguments = "[TEXT...]",
    .summary = "show the tokens of a text",
    .more = "Without text and file, standard input is read.\n"
            "\nExamples\n"
            "  coordgenctl tokenize 'Hello, world'\n"
            "  coordgenctl tokenize --count --file book.txt\n"
            "  coordgenctl tokenize --ids 'Hello' | coordgenctl tokenize --detokenize\n",
    .options = tokenize_options,
    .n_options = ARRAY_LEN(tokenize_options),
    .n_args_max = -1,
    .run = tokenize_run,
};
