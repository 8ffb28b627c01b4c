// SPDX-License-Identifier: Apache-2.0
#include "gateway/request/generation_names.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

/* The service's names without "generate.", longer ones first. A name stands for the members behind it, too. */
static const struct {
    const char *service, *usual;
    size_t chosen; /* offset of the name in GenerationNames, + 1; 0: the usual name counts */
} table[] = {
#define CHOSEN(member) offsetof(GenerationNames, member) + 1
    { "sampling.repetition_penalty", "repeat_penalty", 0 },
    { "sampling.repetition_window", "repeat_last_n", 0 },
    { "sampling.dry_window", "dry_penalty_last_n", 0 },
    { "sampling.dry_breaker", "dry_sequence_breakers", 0 },
    { "sampling.", "", 0 },
    { "messages.message", "messages", CHOSEN(messages) },
    { "messages", "messages", CHOSEN(messages) },
    { "constraint.compact", "compact", 0 },
    { "constraint.any_order", "any_order", 0 },
    { "constraint", "response_format", CHOSEN(constraint) },
    { "max_tokens", "max_tokens", CHOSEN(max_tokens) },
    { "prompt_tokens", "prompt", CHOSEN(prompt) },
    { "prompt", "prompt", CHOSEN(prompt) },
    { "suffix", "suffix", CHOSEN(suffix) },
    { "answer_prefix", "messages", CHOSEN(answer_prefix) },
    { "template_kwargs", "chat_template_kwargs", CHOSEN(kwargs) },
    { "thinking_tokens", "thinking_tokens", CHOSEN(thinking) },
    { "logprobs", "logprobs", CHOSEN(logprobs) },
    { "add_generation_prompt", "add_generation_prompt", CHOSEN(no_answer) },
    { "tool_choice", "tool_choice", 0 },
    { "ignore_end", "ignore_eos", 0 },
#undef CHOSEN
};

/* Members of messages that the service calls otherwise. */
static const struct {
    const char *service, *usual;
} members[] = {
    { ".text", ".content" },
    { ".reasoning", ".reasoning_content" },
};

static bool begins(const char *text, const char *front) {
    return !strncmp(text, front, strlen(front));
}

/* Returns the name that the request used, or the usual one. */
static const char *name_of(const GenerationNames *names, size_t i) {
    const char *chosen =
        table[i].chosen ? *(const char *const *)(const void *)((const char *)names + table[i].chosen - 1) : NULL;

    return chosen ? chosen : table[i].usual;
}

/* Replaces a member's name at the end of a path. */
static void rename_member(char *path, size_t room_bytes) {
    const size_t len_bytes = strlen(path);

    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        const size_t tail_bytes = strlen(members[i].service);

        if (len_bytes > tail_bytes && !strcmp(path + len_bytes - tail_bytes, members[i].service)) {
            snprintf(path + len_bytes - tail_bytes, room_bytes - (len_bytes - tail_bytes), "%s", members[i].usual);
            return;
        }
    }
}

/* Writes the request's name of a field of the service into name. */
static void rename_field(const GenerationNames *names, const char *field, char *name, size_t room_bytes) {
    const char *tail = field, *front = "";
    size_t i = 0;

    while (i < ARRAY_LEN(table) && !begins(field, table[i].service))
        i++;
    if (i < ARRAY_LEN(table)) {
        front = name_of(names, i);
        tail = field + strlen(table[i].service);
    }
    /* Forms of a constraint and modes of a choice are no fields of the request. */
    if (*tail == '.' && (begins(field, "constraint.") || begins(field, "tool_choice.")))
        tail = "";
    snprintf(name, room_bytes, "%s%s", front, tail);
    if (begins(field, "messages."))
        rename_member(name, room_bytes);
}

/* Finds the field of an error of the engine, whose text alone begins with its name: "logit_bias: token ...". */
static void find_field(ApiError *error) {
    const size_t len_bytes = strspn(error->message, "abcdefghijklmnopqrstuvwxyz_");

    *error->param = 0;
    if (error->message[len_bytes] == ':')
        snprintf(error->param, sizeof(error->param), "%.*s", (int)len_bytes, error->message);
}

void generation_names_apply(const GenerationNames *names, ApiError *error) {
    char name[sizeof(error->param)], message[sizeof(error->message)];
    const size_t len_bytes = strlen(error->param);

    if (!strcmp(error->param, "generate"))
        find_field(error);
    if (!begins(error->param, "generate."))
        return;
    rename_field(names, error->param + strlen("generate."), name, sizeof(name));
    if (!strncmp(error->message, error->param, len_bytes)) {
        snprintf(message, sizeof(message), "%s%s", name, error->message + len_bytes);
        memcpy(error->message, message, sizeof(message));
    }
    memcpy(error->param, name, sizeof(name));
}
