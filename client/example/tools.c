// SPDX-License-Identifier: Apache-2.0
/* Lets the default language model of the device call a function of this program.
 *
 *   cc tools.c -pthread $(pkg-config --cflags --libs libcoordgen-client) -o tools
 *   ./tools "How long is the word strawberry?"
 *
 * Shows tools, the call in the result, and the messages that bring the function's answer back to the model. */
#include <coordgen-client.h>

#include <stdio.h>
#include <string.h>

static const char tools[] = "[{\"type\": \"function\", \"function\": {"
                            "\"name\": \"count_letters\","
                            "\"description\": \"Counts the letters of a word.\","
                            "\"parameters\": {\"type\": \"object\","
                            "\"properties\": {\"word\": {\"type\": \"string\", \"pattern\": \"^[A-Za-z]{1,40}$\"}},"
                            "\"required\": [\"word\"]}}}]";

/* Finds the word in {"word": "..."}. The service has made sure that the arguments fit the schema, so that a program
 * with a JSON library would only read them. */
static unsigned int count_letters(const char *arguments) {
    const char *colon = strchr(arguments, ':'), *begin = colon ? strchr(colon, '"') : NULL,
               *end = begin ? strchr(begin + 1, '"') : NULL;

    return end ? (unsigned int)(end - begin - 1) : 0;
}

static int fail(const CoordgenClient *client) {
    fprintf(stderr, "%s\n", coordgen_client_message(client));
    return 1;
}

static int ask(CoordgenClient *client, const char *question) {
    CoordgenGenerateOptions options;
    CoordgenReply *reply = NULL, *answer = NULL;
    CoordgenMessage messages[3] = { { .role = COORDGEN_ROLE_USER, .text = question } };
    const CoordgenGenerateResult *result;
    char letters[64];

    coordgen_generate_options_init(&options);
    options.messages = messages;
    options.n_messages = 1;
    options.tools = tools;
    options.tool_choice = COORDGEN_TOOLS_REQUIRED;
    options.single_call = true;
    if (coordgen_generate(client, &options, NULL, NULL, &reply))
        return fail(client);
    result = coordgen_reply_generate(reply);
    if (!result->n_tool_calls) {
        coordgen_reply_unref(reply);
        return 1;
    }
    printf("the model calls %s(%s)\n", result->tool_calls[0].name, result->tool_calls[0].arguments);
    snprintf(letters, sizeof(letters), "%u letters", count_letters(result->tool_calls[0].arguments));

    /* The model gets its own call and the answer of the function, and says it in words. */
    messages[1] =
        (CoordgenMessage){ .role = COORDGEN_ROLE_ASSISTANT, .tool_calls = result->tool_calls, .n_tool_calls = 1 };
    messages[2] = (CoordgenMessage){ .role = COORDGEN_ROLE_TOOL,
                                     .text = letters,
                                     .tool_call_id = result->tool_calls[0].id,
                                     .name = result->tool_calls[0].name };
    options.n_messages = 3;
    options.tool_choice = COORDGEN_TOOLS_AUTO;
    options.max_tokens = 100;
    if (coordgen_generate(client, &options, NULL, NULL, &answer)) {
        coordgen_reply_unref(reply);
        return fail(client);
    }
    printf("%s\n", coordgen_reply_generate(answer)->text);
    coordgen_reply_unref(answer);
    coordgen_reply_unref(reply);
    return 0;
}

int main(int argc, char **argv) {
    CoordgenClient *client = NULL;
    int code;

    if (argc != 2) {
        fprintf(stderr, "usage: tools QUESTION\n");
        return 2;
    }
    if (coordgen_client_new(&client)) {
        fprintf(stderr, "out of memory\n");
        return 1;
    }
    code = coordgen_client_connect(client, NULL, 5000) ? fail(client) : ask(client, argv[1]);
    coordgen_client_free(client);
    return code;
}
