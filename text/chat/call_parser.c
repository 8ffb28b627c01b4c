// SPDX-License-Identifier: Apache-2.0
#include "text/chat/call_parser.h"

#include <ctype.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"

#define ARGUMENTS_DEPTH_MAX 256

typedef enum Stage {
    STAGE_OPEN,       /* before the object of a call */
    STAGE_KEY,        /* before a key */
    STAGE_KEY_TEXT,   /* in a key */
    STAGE_COLON,      /* behind a key */
    STAGE_VALUE,      /* before a value */
    STAGE_NAME,       /* in the name */
    STAGE_ID,         /* in the id */
    STAGE_ARGUMENTS,  /* in the arguments */
    STAGE_SKIP,       /* in a value that says nothing of the call */
    STAGE_AFTER,      /* behind a value */
    STAGE_UNWRAP,     /* before the bracket that closes the wrapper */
    STAGE_CALL_DONE,  /* behind a call */
    STAGE_END,        /* before or in the end mark */
    STAGE_TRAIL,      /* behind the end mark */
    STAGE_PLAIN_NAME, /* in a name without quotes */
    STAGE_PLAIN_ID,
    STAGE_INFIX,      /* in the text behind a plain name or id */
    STAGE_PLAIN_OPEN, /* before the arguments that follow the infix */
} Stage;

typedef enum Step {
    STEP_GO,     /* the byte was taken */
    STEP_AGAIN,  /* the byte belongs to the new stage */
    STEP_OVER,   /* the calls are complete before this byte */
    STEP_BROKEN, /* no call */
    STEP_FAILED,
} Step;

typedef struct Sink {
    CallPieceFn *fn;
    void *arg;
} Sink;

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Whether calls come out while they are written. */
static bool is_streamed(const CallParser *p) {
    return p->tools && !p->tools->is_unconstrained;
}

/* --- giving out --------------------------------------------------------------------------------------------------- */

/* Gives out arguments, with the name before the first of them. */
static void give(CallParser *p, const char *arguments, size_t n, const Sink *sink) {
    CallPiece piece = { .arguments = arguments, .arguments_bytes = n };

    if (!is_streamed(p)) {
        if (!p->is_given) {
            str_buf_append(&p->held, p->name, p->name_bytes + 1);
            str_buf_append(&p->held, p->id, p->id_bytes + 1);
        }
        str_buf_append(&p->held, arguments, n);
        p->is_given = true;
        return;
    }
    if (!p->is_given) {
        piece.name = p->name;
        piece.name_bytes = p->name_bytes;
        piece.id = p->id_bytes ? p->id : NULL;
        piece.id_bytes = p->id_bytes;
        p->is_given = true;
    }
    if (piece.name || n)
        sink->fn(sink->arg, &piece);
}

/* Takes bytes of the arguments: they wait if the name is not known yet. */
static void take_arguments(CallParser *p, const char *text, size_t n, const Sink *sink) {
    if (p->has_name)
        give(p, text, n, sink);
    else
        str_buf_append(&p->early, text, n);
}

static bool name_is_known(const CallParser *p) {
    return p->name_bytes && (!p->tools || call_tools_find(p->tools, p->name, p->name_bytes));
}

static Step take_name(CallParser *p, const Sink *sink) {
    p->name[p->name_bytes] = 0;
    if (!name_is_known(p))
        return STEP_BROKEN;
    p->has_name = true;
    if (p->early.len_bytes)
        give(p, p->early.data, p->early.len_bytes, sink);
    str_buf_truncate(&p->early, 0);
    return STEP_GO;
}

/* Ends a call, and makes sure that it is one. */
static Step end_call(CallParser *p, const Sink *sink) {
    if (!p->has_name)
        return STEP_BROKEN;
    if (!p->has_arguments)
        give(p, "{}", 2, sink);
    if (!is_streamed(p)) {
        size_t at = p->held.len_bytes;
        json_t *json;

        while (at && p->held.data[at - 1]) /* back to the NUL behind the id */
            at--;
        json = json_loadb(p->held.data + at, p->held.len_bytes - at, 0, NULL);
        if (!json_is_object(json)) {
            json_decref(json);
            return STEP_BROKEN;
        }
        json_decref(json);
        str_buf_append(&p->held, "", 1);
    }
    p->n_calls++;
    p->has_name = p->has_arguments = p->is_given = p->in_wrapper = false;
    p->name_bytes = p->id_bytes = p->key_bytes = 0;
    p->id[0] = 0;
    return STEP_GO;
}

/* Gives out the calls that were held until all of them were whole. */
static void give_held(CallParser *p, const Sink *sink) {
    for (size_t at = 0; at < p->held.len_bytes;) {
        const char *name = p->held.data + at, *id = name + strlen(name) + 1, *arguments = id + strlen(id) + 1;
        CallPiece piece = { .name = name,
                            .name_bytes = strlen(name),
                            .id = *id ? id : NULL,
                            .id_bytes = strlen(id),
                            .arguments = arguments,
                            .arguments_bytes = strlen(arguments) };

        sink->fn(sink->arg, &piece);
        at = (size_t)(arguments + piece.arguments_bytes + 1 - p->held.data);
    }
    str_buf_truncate(&p->held, 0);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

/* Follows a byte of a JSON value; returns whether the value ends with it. A number or word ends before the byte that
 * follows it, which step_skip() sees. */
static bool follow_value(CallParser *p, char c, bool *is_badp) {
    if (p->in_string) {
        *is_badp = (unsigned char)c < 0x20;
        if (p->is_escaped)
            p->is_escaped = false;
        else if (c == '\\')
            p->is_escaped = true;
        else if (c == '"')
            p->in_string = false;
        return !p->in_string && !p->depth;
    }
    if (c == '"')
        p->in_string = true;
    else if (c == '{' || c == '[')
        *is_badp = ++p->depth > ARGUMENTS_DEPTH_MAX;
    else if (c == '}' || c == ']') {
        *is_badp = !p->depth;
        return !*is_badp && !--p->depth;
    } else {
        *is_badp = !c;
    }
    return false;
}

static bool key_is(const CallParser *p, const char *key) {
    return key && p->key_bytes == strlen(key) && !memcmp(p->key, key, p->key_bytes);
}

static Step step_value(CallParser *p, char c, const Sink *sink) {
    const CallShape *shape = p->shape;

    p->depth = 0;
    p->in_string = p->is_escaped = false;
    if (shape->wrapper && !p->in_wrapper) {
        p->in_wrapper = true;
        p->stage = STAGE_KEY;
        return c == '{' && key_is(p, shape->wrapper) ? STEP_GO : STEP_BROKEN;
    }
    if (key_is(p, shape->name_key)) {
        p->stage = STAGE_NAME;
        p->name_bytes = 0;
        return c == '"' && !p->has_name ? STEP_GO : STEP_BROKEN;
    }
    if (key_is(p, shape->arguments_key)) {
        p->stage = STAGE_ARGUMENTS;
        return c == '{' && !p->has_arguments ? STEP_AGAIN : STEP_BROKEN;
    }
    if (key_is(p, "id") && c == '"') {
        p->stage = STAGE_ID;
        p->id_bytes = 0;
        return STEP_GO;
    }
    p->stage = STAGE_SKIP;
    return key_is(p, "id") || key_is(p, "type") ? STEP_AGAIN : STEP_BROKEN;
}

/* Adds a byte to a short text; false: the text is too long, or has a byte that no such text has. */
static bool add_short(char *text, size_t *np, size_t max, char c) {
    if ((unsigned char)c < 0x20 || c == '\\' || *np == max)
        return false;
    text[(*np)++] = c;
    text[*np] = 0;
    return true;
}

static Step step_skip(CallParser *p, char c) {
    bool is_bad = false;

    if (!p->in_string && !p->depth && (c == ',' || c == '}' || c == ']' || is_space(c))) {
        p->stage = STAGE_AFTER;
        return STEP_AGAIN;
    }
    if (follow_value(p, c, &is_bad))
        p->stage = STAGE_AFTER;
    return is_bad ? STEP_BROKEN : STEP_GO;
}

static Step step_quoted(CallParser *p, char c, const Sink *sink) {
    switch (p->stage) {
    case STAGE_KEY_TEXT:
        if (c != '"')
            return add_short(p->key, &p->key_bytes, CALL_KEY_BYTES_MAX, c) ? STEP_GO : STEP_BROKEN;
        p->stage = STAGE_COLON;
        return STEP_GO;
    case STAGE_ID:
        if (c != '"')
            return add_short(p->id, &p->id_bytes, CALL_ID_BYTES_MAX, c) ? STEP_GO : STEP_BROKEN;
        p->stage = STAGE_AFTER;
        return STEP_GO;
    default:
        if (c != '"')
            return add_short(p->name, &p->name_bytes, CALL_TOOLS_NAME_BYTES_MAX, c) ? STEP_GO : STEP_BROKEN;
        p->stage = STAGE_AFTER;
        return take_name(p, sink);
    }
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

static Step step_open(CallParser *p, char c) {
    if (is_space(c))
        return STEP_GO;
    if (p->shape->is_list && !p->in_list && c == '[') {
        p->in_list = true;
        return STEP_GO;
    }
    p->stage = STAGE_KEY;
    return c == '{' && (p->in_list || !p->shape->is_list) ? STEP_GO : STEP_BROKEN;
}

static Step step_after(CallParser *p, char c, const Sink *sink) {
    Step step;

    if (is_space(c))
        return STEP_GO;
    if (c == ',') {
        p->stage = STAGE_KEY;
        return STEP_GO;
    }
    if (c != '}')
        return STEP_BROKEN;
    p->stage = p->in_wrapper ? STAGE_UNWRAP : STAGE_CALL_DONE;
    step = end_call(p, sink);
    return step;
}

static Step step_call_done(CallParser *p, char c) {
    if (!p->in_list) {
        p->stage = STAGE_END;
        return STEP_AGAIN;
    }
    if (is_space(c))
        return STEP_GO;
    if (c == ',') {
        p->stage = STAGE_OPEN;
        return STEP_GO;
    }
    p->in_list = false;
    p->stage = STAGE_END;
    return c == ']' ? STEP_GO : STEP_BROKEN;
}

static Step step_end(CallParser *p, char c) {
    const char *end = p->shape->end;

    if (!end) {
        p->stage = STAGE_TRAIL;
        return STEP_AGAIN;
    }
    if (!p->n_matched && is_space(c))
        return STEP_GO;
    if (c != end[p->n_matched])
        return STEP_BROKEN;
    if (!end[++p->n_matched]) {
        p->n_matched = 0;
        p->stage = STAGE_TRAIL;
    }
    return STEP_GO;
}

/* Behind a call: without start marks another one may follow at once. */
static Step step_trail(CallParser *p, char c) {
    if (is_space(c))
        return STEP_GO;
    if (!p->shape->start && c == ';') {
        p->stage = STAGE_OPEN;
        return STEP_GO;
    }
    if (!p->shape->start && c == '{') {
        p->stage = STAGE_OPEN;
        return STEP_AGAIN;
    }
    return STEP_OVER;
}

/* --- plain names -------------------------------------------------------------------------------------------------- */

static bool begins(const char *text, const char *front, size_t n) {
    return text && n <= strlen(text) && !memcmp(text, front, n);
}

static Step step_infix(CallParser *p, char c) {
    const char *infix = p->shape->infix, *id_infix = p->shape->id_infix;

    if (!add_short(p->key, &p->key_bytes, CALL_KEY_BYTES_MAX, c) ||
        (!begins(infix, p->key, p->key_bytes) && !begins(id_infix, p->key, p->key_bytes)))
        return STEP_BROKEN;
    if (key_is(p, infix))
        p->stage = STAGE_PLAIN_OPEN;
    else if (key_is(p, id_infix))
        p->stage = STAGE_PLAIN_ID;
    return STEP_GO;
}

static bool is_name_byte(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

static Step step_plain(CallParser *p, char c, const Sink *sink) {
    const bool is_name = p->stage == STAGE_PLAIN_NAME;

    if (is_name && !p->name_bytes && is_space(c))
        return STEP_GO;
    if (is_name_byte(c))
        return (is_name ? add_short(p->name, &p->name_bytes, CALL_TOOLS_NAME_BYTES_MAX, c)
                        : add_short(p->id, &p->id_bytes, CALL_ID_BYTES_MAX, c))
                   ? STEP_GO
                   : STEP_BROKEN;
    p->key_bytes = 0;
    p->stage = STAGE_INFIX;
    if (is_name && take_name(p, sink) != STEP_GO)
        return STEP_BROKEN;
    return STEP_AGAIN;
}

/* --- bytes -------------------------------------------------------------------------------------------------------- */

static Step step_key(CallParser *p, char c) {
    if (is_space(c))
        return STEP_GO;
    p->key_bytes = 0;
    p->stage = STAGE_KEY_TEXT;
    return c == '"' ? STEP_GO : STEP_BROKEN;
}

static Step step_byte(CallParser *p, char c, const Sink *sink) {
    switch ((Stage)p->stage) {
    case STAGE_OPEN:
        return step_open(p, c);
    case STAGE_KEY:
        return step_key(p, c);
    case STAGE_KEY_TEXT:
    case STAGE_ID:
    case STAGE_NAME:
        return step_quoted(p, c, sink);
    case STAGE_COLON:
        if (c == ':')
            p->stage = STAGE_VALUE;
        return c == ':' || is_space(c) ? STEP_GO : STEP_BROKEN;
    case STAGE_VALUE:
        return is_space(c) ? STEP_GO : step_value(p, c, sink);
    case STAGE_SKIP:
        return step_skip(p, c);
    case STAGE_AFTER:
        return step_after(p, c, sink);
    case STAGE_UNWRAP:
        if (c == '}')
            p->stage = STAGE_CALL_DONE;
        return c == '}' || is_space(c) ? STEP_GO : STEP_BROKEN;
    case STAGE_CALL_DONE:
        return step_call_done(p, c);
    case STAGE_END:
        return step_end(p, c);
    case STAGE_TRAIL:
        return step_trail(p, c);
    case STAGE_PLAIN_NAME:
    case STAGE_PLAIN_ID:
        return step_plain(p, c, sink);
    case STAGE_INFIX:
        return step_infix(p, c);
    case STAGE_PLAIN_OPEN:
        p->depth = 0;
        p->in_string = p->is_escaped = false;
        if (c == '{')
            p->stage = STAGE_ARGUMENTS;
        return c == '{' ? STEP_AGAIN : is_space(c) ? STEP_GO : STEP_BROKEN;
    case STAGE_ARGUMENTS:
        break; /* push_arguments() */
    }
    return STEP_BROKEN;
}

/* Takes the bytes of the arguments up to their end. Returns how many. */
static size_t push_arguments(CallParser *p, const char *text, size_t len_bytes, Step *stepp, const Sink *sink) {
    bool is_over = false, is_bad = false;
    size_t n = 0;

    while (n < len_bytes && !is_over && !is_bad)
        is_over = follow_value(p, text[n++], &is_bad);
    *stepp = is_bad ? STEP_BROKEN : STEP_GO;
    n -= is_bad;
    if (n) /* also before a bad byte: how the bytes are cut changes nothing */
        take_arguments(p, text, n, sink);
    if (is_over) {
        p->has_arguments = true;
        p->stage = p->shape->name_key ? STAGE_AFTER : STAGE_CALL_DONE;
        if (!p->shape->name_key)
            *stepp = end_call(p, sink);
    }
    return n;
}

void call_parser_begin(CallParser *parser, const CallShape *shape, const CallTools *tools) {
    *parser = (CallParser){ .shape = shape, .tools = tools };
    parser->stage = shape->name_key ? STAGE_OPEN : STAGE_PLAIN_NAME;
}

/* Ends a section that does not go on: pieces that are out cannot be taken back. */
static CallState broken(CallParser *p) {
    const bool is_out = is_streamed(p) && (p->is_given || p->n_calls);

    str_buf_truncate(&p->held, 0);
    return is_out ? CALL_OVER : CALL_IS_TEXT;
}

CallState call_parser_push(void *parser, const char *text, size_t len_bytes, bool is_token, size_t *n_takenp,
                           CallPieceFn *fn, void *arg) {
    CallParser *p = parser;
    const Sink sink = { fn, arg };
    size_t n = 0;

    while (n < len_bytes) {
        Step step;

        if (p->stage == STAGE_ARGUMENTS) {
            n += push_arguments(p, text + n, len_bytes - n, &step, &sink);
        } else {
            step = step_byte(p, text[n], &sink);
            n += step == STEP_GO;
        }
        if (str_buf_failed(&p->early) || str_buf_failed(&p->held))
            return CALL_FAILED;
        *n_takenp = n;
        if (step == STEP_BROKEN)
            return broken(p);
        if (step == STEP_OVER) {
            give_held(p, &sink);
            return CALL_OVER;
        }
    }
    return CALL_GOES_ON;
}

CallState call_parser_finish(void *parser, CallPieceFn *fn, void *arg) {
    CallParser *p = parser;
    const Sink sink = { fn, arg };

    /* Marks that only close may be missing: the end of the answer closes, too. */
    if (p->n_calls && (p->stage == STAGE_CALL_DONE || p->stage == STAGE_END || p->stage == STAGE_TRAIL)) {
        give_held(p, &sink);
        return CALL_OVER;
    }
    return broken(p);
}

void call_parser_deinit(void *parser) {
    CallParser *p = parser;

    str_buf_deinit(&p->early);
    str_buf_deinit(&p->held);
}
