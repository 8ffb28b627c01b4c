// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "tools/bench/speculation/spec_data.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/constraint/constraint_spec.h"
#include "tools/eval/json_lines.h"

typedef struct Reader {
    SpecData *data;
    Engine *engine;
    const SpecDataOptions *options;
    const char *file;
    size_t n_too_long; /* rows without room for an answer in the context */
} Reader;

static void request_deinit(SpecRequest *request) {
    free(request->id);
    token_list_deinit(&request->prompt);
    constraint_unref(request->constraint);
}

void spec_data_deinit(SpecData *data) {
    for (size_t i = 0; i < data->n; i++)
        request_deinit(&data->requests[i]);
    for (size_t i = 0; i < data->n_tasks; i++)
        free(data->tasks[i]);
    free(data->requests);
    *data = (SpecData){ 0 };
}

static int find_task(SpecData *data, const char *name, size_t *taskp, ErrText *err) {
    size_t task = 0;

    while (task < data->n_tasks && strcmp(data->tasks[task], name) != 0)
        task++;
    if (task == data->n_tasks) {
        if (task == SPEC_TASKS_MAX)
            return err_set(err, -EINVAL, "more than %d tasks", SPEC_TASKS_MAX);
        data->tasks[task] = strdup(name);
        if (!data->tasks[task])
            return err_no_memory(err);
        data->n_tasks++;
    }
    *taskp = task;
    return 0;
}

/* Encodes the prompt as a user's message in the model's template, as the service does. */
static int encode(const Engine *engine, const json_t *prompt, TokenList *list, ErrText *err) {
    const ChatMessage message = {
        .role = CHAT_ROLE_USER,
        .text = json_string_value(prompt),
        .len_bytes = json_string_length(prompt),
    };
    int r = chat_template_encode(engine_chat_template(engine), engine_tokenizer(engine),
                                 &(ChatInput){ .messages = &message, .n_messages = 1 }, list, err);

    if (r == CHAT_E_NO_TEMPLATE)
        return err_set(err, -EINVAL, "the model has no chat template that can be used, and prompts are chat messages");
    return r > 0 ? -EINVAL : r;
}

static int add(SpecData *data, SpecRequest *request) {
    if (data->n == data->room) {
        const size_t room = data->room ? 2 * data->room : 64;
        SpecRequest *requests = reallocarray(data->requests, room, sizeof(*requests));

        if (!requests)
            return -ENOMEM;
        data->requests = requests;
        data->room = room;
    }
    data->requests[data->n++] = *request;
    data->n_of_task[request->task]++;
    *request = (SpecRequest){ 0 };
    return 0;
}

/* Makes the constraint of a row with a schema. */
static int constrain(SpecRequest *request, const Reader *reader, const json_t *object, ErrText *err) {
    const json_t *schema = json_object_get(object, "schema");
    _cleanup_(freep) char *text = schema ? json_dumps(schema, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    _cleanup_(grammar_unrefp) Grammar *grammar = NULL;
    ConstraintSpec spec = { .form = CONSTRAINT_FORM_JSON_SCHEMA, .text = text };
    int r;

    if (!schema)
        return 0;
    if (!text)
        return err_no_memory(err);
    spec.n_bytes = strlen(text);
    r = constraint_spec_compile(&spec, &GRAMMAR_LIMITS_DEFAULT, &grammar, err);
    if (!r)
        r = constraint_spec_build(&spec, grammar, reader->engine, &request->constraint, err);
    if (r > 0)
        err_prefix(err, "'schema'");
    return r > 0 ? -EINVAL : r;
}

static int name_request(SpecRequest *request, const Reader *reader, const json_t *object, size_t line) {
    const char *id = json_string_value(json_object_get(object, "id")), *slash = strrchr(reader->file, '/');

    if (id)
        return (request->id = strdup(id)) ? 0 : -ENOMEM;
    if (asprintf(&request->id, "%s:%zu", slash ? slash + 1 : reader->file, line) >= 0)
        return 0;
    request->id = NULL;
    return -ENOMEM;
}

static int read_row(void *arg, json_t *object, size_t line, ErrText *err) {
    Reader *reader = arg;
    const json_t *prompt = json_object_get(object, "prompt");
    const char *task = json_string_value(json_object_get(object, "task"));
    _cleanup_(request_deinit) SpecRequest request = { 0 };
    int r;

    if (!task || !json_is_string(prompt))
        return err_set(err, -EINVAL, "'%s' is missing or not a string", task ? "prompt" : "task");
    r = find_task(reader->data, task, &request.task, err);
    if (r)
        return r;
    if (reader->options->per_task && reader->data->n_of_task[request.task] >= reader->options->per_task)
        return 0;
    r = encode(reader->engine, prompt, &request.prompt, err);
    if (r)
        return r;
    if (request.prompt.n + reader->options->max_tokens > engine_info(reader->engine)->n_context) {
        reader->n_too_long++;
        return 0;
    }
    r = constrain(&request, reader, object, err);
    if (r)
        return r;
    if (name_request(&request, reader, object, line) || add(reader->data, &request))
        return err_no_memory(err);
    return 0;
}

/**
 * spec_data_read() - read all requests of the files, in their order, as tokens of the model
 * @data: zero; the caller calls spec_data_deinit() either way
 *
 * A task may have rows in several files. Its first per_task rows count that leave room for max_tokens in the context.
 */
int spec_data_read(SpecData *data, Engine *engine, const SpecDataOptions *options, ErrText *err) {
    const uint32_t n_context = engine_info(engine)->n_context;
    Reader reader = { .data = data, .engine = engine, .options = options };

    for (size_t i = 0; i < options->n_files; i++) {
        int r;

        reader.file = options->files[i];
        r = json_lines_each(reader.file, read_row, &reader, err);
        if (r)
            return r;
    }
    if (!data->n)
        return err_set(err, -EINVAL, "no row that leaves room for %zu tokens in a context of %u", options->max_tokens,
                       n_context);
    if (reader.n_too_long)
        fprintf(stderr,
                "coordgen-bench: %zu rows are left out: with an answer they are longer than the context of %u\n",
                reader.n_too_long, n_context);
    return 0;
}
