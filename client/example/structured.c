// SPDX-License-Identifier: Apache-2.0
/* Reads facts out of a sentence: the answer is JSON that fits a schema, so a program can rely on its form.
 *
 *   cc structured.c -pthread $(pkg-config --cflags --libs libcoordgen-client) -o structured
 *   ./structured 'Ada Lovelace was born in London in 1815.'
 *
 * Shows a constraint, its errors, and what the end of an answer tells. */
#include <coordgen-client.h>

#include <stdio.h>

/* Every keyword of a schema is enforced, or the request is refused with its place. */
static const char schema[] = "{"
                             "  \"type\": \"object\","
                             "  \"properties\": {"
                             "    \"person\": { \"type\": \"string\", \"maxLength\": 60 },"
                             "    \"place\": { \"type\": \"string\", \"maxLength\": 60 },"
                             "    \"year\": { \"type\": \"integer\", \"minimum\": 0, \"maximum\": 2100 }"
                             "  },"
                             "  \"required\": [\"person\", \"place\", \"year\"],"
                             "  \"additionalProperties\": false"
                             "}";

static int read_facts(CoordgenClient *client, const char *sentence) {
    const CoordgenMessage messages[] = {
        { .role = COORDGEN_ROLE_SYSTEM, .text = "Reply with person, place and year of the sentence as JSON." },
        { .role = COORDGEN_ROLE_USER, .text = sentence },
    };
    CoordgenGenerateOptions options;
    const CoordgenGenerateResult *result;
    CoordgenReply *reply = NULL;
    int code;

    coordgen_generate_options_init(&options);
    options.messages = messages;
    options.n_messages = sizeof(messages) / sizeof(messages[0]);
    options.constraint_kind = COORDGEN_CONSTRAINT_JSON_SCHEMA;
    options.constraint = schema;
    options.compact = true; /* no white space: fewer tokens */
    options.temperature = 0;
    options.max_tokens = 200; /* the answer becomes whole before that */
    code = coordgen_generate(client, &options, NULL, NULL, &reply);
    if (code) {
        /* COORDGEN_E_INVALID_SCHEMA names keyword and JSON pointer. */
        fprintf(stderr, "structured: %s: %s\n", coordgen_error_name(code), coordgen_client_message(client));
        coordgen_reply_unref(reply);
        return 1;
    }
    result = coordgen_reply_generate(reply);
    printf("%s\n", result->text);
    if (result->ended_in_time)
        fprintf(stderr, "structured: max_tokens has shortened the answer\n");
    coordgen_reply_unref(reply);
    return 0;
}

int main(int argc, char **argv) {
    CoordgenClient *client = NULL;
    int code;

    if (argc != 2) {
        fprintf(stderr, "usage: %s SENTENCE\n", argv[0]);
        return 2;
    }
    if (coordgen_client_new(&client)) {
        fprintf(stderr, "structured: out of memory\n");
        return 1;
    }
    code = coordgen_client_connect(client, NULL, 5000);
    if (code)
        fprintf(stderr, "structured: %s: %s\n", coordgen_error_name(code), coordgen_client_message(client));
    else
        code = read_facts(client, argv[1]);
    coordgen_client_free(client);
    return code ? 1 : 0;
}
