// SPDX-License-Identifier: Apache-2.0
/* Templates, renderings, their limits, and values from outside. */
#include "text/jinja/jinja.h"

#include <errno.h>
#include <string.h>

#include "base/min_max.h"
#include "text/jinja/builtins/jinja_builtin.h"
#include "text/jinja/jinja_eval.h"
#include "text/jinja/syntax/jinja_statement.h"
#include "text/jinja/values/jinja_run.h"

#define TEMPLATE_MEMORY_BYTES_MAX (128u << 20)

/* --- templates -------------------------------------------------------------------------------------------------- */

/* Keeps the text of a template that has been parsed. 0, JINJA_E_LIMIT, -ENOMEM. */
static int keep_source(JinjaTemplate *template, const char *source, size_t len_bytes, ErrText *err) {
    char *copy = jinja_arena_take(&template->arena, len_bytes + 1);

    if (!copy)
        return template->arena.failure < 0 ? err_raise(-ENOMEM)
                                           : err_set(err, JINJA_E_LIMIT, "the template takes too much memory");
    memcpy(copy, source, len_bytes);
    template->source = copy;
    template->source_bytes = len_bytes;
    return 0;
}

int jinja_template_new(JinjaTemplate **templatep, const char *source, size_t len_bytes, ErrText *err) {
    _cleanup_(jinja_template_freep) JinjaTemplate *template = calloc(1, sizeof(*template));
    ErrText ignored;
    int r;

    if (!template)
        return err_raise(-ENOMEM);
    jinja_arena_init(&template->arena, TEMPLATE_MEMORY_BYTES_MAX, NULL, ACCOUNT_WEIGHTS);
    r = jinja_parse(template, source, len_bytes, err ? err : &ignored);
    if (!r)
        r = keep_source(template, source, len_bytes, err ? err : &ignored);
    if (r)
        return r;
    *templatep = steal(&template);
    return 0;
}

JinjaTemplate *jinja_template_free(JinjaTemplate *template) {
    if (template) {
        text_index_deinit(&template->name_numbers);
        jinja_arena_deinit(&template->arena);
    }
    free(template);
    return NULL;
}

uint64_t jinja_template_memory_bytes(const JinjaTemplate *template) {
    return sizeof(*template) + template->arena.taken_bytes + text_index_memory_bytes(&template->name_numbers);
}

const char *jinja_template_source(const JinjaTemplate *template, size_t *len_bytesp) {
    *len_bytesp = template->source_bytes;
    return template->source;
}

bool jinja_template_uses(const JinjaTemplate *template, const char *name) {
    return jinja_template_name(template, name, strlen(name)) != UINT32_MAX;
}

/* --- renderings ------------------------------------------------------------------------------------------------- */

struct JinjaRendering {
    JinjaRun run;
    JinjaScope root;
    JinjaWriter out;
    JinjaValue nowhere; /* takes values of names that the template does not use, and values after a failure */
    ErrText err;
};

static int told(JinjaRendering *rendering, ErrText *err) {
    if (err)
        *err = rendering->err;
    return rendering->run.failure;
}

static int bind_functions(JinjaRendering *rendering, const JinjaTemplate *template, ErrText *err) {
    JinjaRun *run = &rendering->run;

    if (setjmp(run->failed))
        return told(rendering, err);
    run->globals = jinja_take(run, template->n_names, sizeof(*run->globals));
    for (uint32_t i = 0; i < template->n_names; i++) {
        const JinjaBuiltin *function = jinja_builtin_find(JINJA_FUNCTIONS, template->names[i]);

        run->globals[i] = function ? (JinjaValue){ .type = JINJA_FUNCTION, .function = function } : JINJA_NO_VALUE;
    }
    return 0;
}

int jinja_rendering_new(JinjaRendering **renderingp, const JinjaTemplate *template, const JinjaOptions *options,
                        ErrText *err) {
    _cleanup_(jinja_rendering_freep) JinjaRendering *rendering = calloc(1, sizeof(*rendering));
    JinjaRun *run;
    int r;

    if (!rendering)
        return err_raise(-ENOMEM);
    run = &rendering->run;
    run->template = template;
    run->root = &rendering->root;
    run->steps_left = options->steps_max ? options->steps_max : JINJA_STEPS_MAX;
    run->line = 1;
    run->now_s = options->now_s;
    run->out = &rendering->out;
    run->err = &rendering->err;
    jinja_arena_init(&run->arena,
                     options->memory_bytes_max ? options->memory_bytes_max
                                               : JINJA_MEMORY_BYTES_MAX + JINJA_MEMORY_PER_BYTE * options->input_bytes,
                     options->accounts, options->account);
    r = hash_key_init(&run->key);
    if (r)
        return err_trace(r);
    jinja_writer_init(&rendering->out, run);
    rendering->out.limit_bytes = options->output_bytes_max ? options->output_bytes_max : JINJA_OUTPUT_BYTES_MAX;
    r = bind_functions(rendering, template, err);
    if (r)
        return r;
    *renderingp = steal(&rendering);
    return 0;
}

JinjaRendering *jinja_rendering_free(JinjaRendering *rendering) {
    if (rendering)
        jinja_arena_deinit(&rendering->run.arena);
    free(rendering);
    return NULL;
}

int jinja_render(JinjaRendering *rendering, JinjaOutput *output, ErrText *err) {
    JinjaRun *run = &rendering->run;

    if (run->failure)
        return told(rendering, err);
    if (setjmp(run->failed))
        return told(rendering, err);
    jinja_eval_template(run);
    *output = (JinjaOutput){ .data = rendering->out.len_bytes ? rendering->out.data : "",
                             .own = rendering->out.own,
                             .len_bytes = rendering->out.len_bytes };
    return 0;
}

/* --- values from outside ---------------------------------------------------------------------------------------- */

static JinjaSlot nowhere(JinjaRendering *rendering) {
    rendering->nowhere = JINJA_NO_VALUE;
    return (JinjaSlot){ &rendering->nowhere };
}

JinjaSlot jinja_variable(JinjaRendering *rendering, const char *name) {
    uint32_t number = jinja_template_name(rendering->run.template, name, strlen(name));

    return number == UINT32_MAX ? nowhere(rendering) : (JinjaSlot){ &rendering->run.globals[number] };
}

/* Wraps a text from outside; never NULL. */
static JinjaValue text_value(JinjaRun *run, const char *data, size_t len_bytes, bool is_own) {
    const JinjaText *text = jinja_text_of(&run->arena, data, len_bytes, is_own);

    if (!text)
        jinja_fail_memory(run);
    return jinja_str(text);
}

void jinja_put_text(JinjaRendering *rendering, JinjaSlot slot, const char *data, size_t len_bytes, bool is_own) {
    JinjaRun *run = &rendering->run;

    if (run->failure)
        return;
    if (!setjmp(run->failed))
        *slot.value = text_value(run, data, len_bytes, is_own);
}

void jinja_put_bool(JinjaRendering *rendering, JinjaSlot slot, bool boolean) {
    *slot.value = jinja_bool(boolean);
}

void jinja_put_none(JinjaRendering *rendering, JinjaSlot slot) {
    *slot.value = JINJA_NOTHING;
}

void jinja_put_list(JinjaRendering *rendering, JinjaSlot slot, size_t n) {
    JinjaRun *run = &rendering->run;

    if (run->failure)
        return;
    if (setjmp(run->failed))
        return;
    if (n > UINT32_MAX / 2)
        jinja_throw(run, err_set(run->err, -E2BIG, "a list of %zu messages", n));
    *slot.value = jinja_list_new(run, JINJA_LIST, (uint32_t)n);
}

JinjaSlot jinja_list_place(JinjaRendering *rendering, JinjaSlot slot, size_t index) {
    if (slot.value->type != JINJA_LIST || index >= slot.value->list->n)
        return nowhere(rendering);
    return (JinjaSlot){ &slot.value->list->items[index] };
}

void jinja_put_dict(JinjaRendering *rendering, JinjaSlot slot) {
    JinjaRun *run = &rendering->run;

    if (run->failure)
        return;
    if (!setjmp(run->failed))
        *slot.value = jinja_dict_new(run, JINJA_DICT);
}

JinjaSlot jinja_dict_place(JinjaRendering *rendering, JinjaSlot slot, const char *key) {
    JinjaRun *run = &rendering->run;
    JinjaDict *dict = slot.value->dict;

    if (slot.value->type != JINJA_DICT || run->failure)
        return nowhere(rendering);
    if (setjmp(run->failed))
        return nowhere(rendering);
    jinja_dict_set(run, dict, text_value(run, key, strlen(key), true), JINJA_NOTHING);
    return (JinjaSlot){ &dict->values[dict->n - 1] };
}

int jinja_put_json(JinjaRendering *rendering, JinjaSlot slot, const char *what, const char *data, size_t len_bytes,
                   ErrText *err) {
    JinjaRun *run = &rendering->run;

    if (run->failure)
        return told(rendering, err);
    if (setjmp(run->failed)) {
        if (run->failure == JINJA_E_RUN)
            err_prefix(&rendering->err, "%s is no JSON", what);
        return told(rendering, err);
    }
    *slot.value = jinja_json_read(run, data, len_bytes);
    return 0;
}

/* Ends with an error if a member may not become a variable. */
static void check_member(JinjaRun *run, const char *what, const JinjaText *name, const char *const *taken,
                         size_t n_taken) {
    const int shown = (int)MIN(name->len_bytes, 64);

    for (size_t i = 0; i < n_taken; i++)
        if (strlen(taken[i]) == name->len_bytes && !memcmp(taken[i], name->data, name->len_bytes))
            jinja_throw(run, err_set(run->err, JINJA_E_RUN,
                                     "%s: the service itself sets '%.*s' for the chat template: leave it out", what,
                                     shown, name->data));
    if (jinja_template_name(run->template, name->data, name->len_bytes) == UINT32_MAX)
        jinja_throw(run, err_set(run->err, JINJA_E_RUN,
                                 "%s: the model's chat template never reads '%.*s': leave it out, or use another "
                                 "template (setting chat-template) or model",
                                 what, shown, name->data));
}

int jinja_put_members(JinjaRendering *rendering, const char *what, const char *data, size_t len_bytes,
                      const char *const *taken, size_t n_taken, ErrText *err) {
    JinjaValue *nowhere = &rendering->nowhere;
    JinjaRun *run = &rendering->run;
    int r = jinja_put_json(rendering, (JinjaSlot){ nowhere }, what, data, len_bytes, err);

    if (r)
        return r;
    if (setjmp(run->failed))
        return told(rendering, err);
    if (nowhere->type != JINJA_DICT)
        jinja_throw(run, err_set(run->err, JINJA_E_RUN, "%s is no JSON object: {\"NAME\": VALUE, ...}", what));
    for (uint32_t i = 0; i < nowhere->dict->n; i++) {
        const JinjaText *name = nowhere->dict->keys[i].text;

        check_member(run, what, name, taken, n_taken);
        run->globals[jinja_template_name(run->template, name->data, name->len_bytes)] = nowhere->dict->values[i];
    }
    return 0;
}
