// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "text/chat/chat_marks.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/min_max.h"
#include "text/jinja/syntax/jinja_lexer.h"

#define MARK_BYTES_MAX 96
#define MARK_ENDS_MAX 3 /* closing brackets that are tried behind an opening one */
#define MARKS_MAX (1u << 16)
#define MARKS_MEMORY_BYTES_MAX (64u << 20)

/* --- the set ---------------------------------------------------------------------------------------------------- */

static TextSpan mark_text(const void *owner, uint32_t id) {
    return ((const ChatMarks *)owner)->marks[id];
}

static bool grow_marks(ChatMarks *marks) {
    uint32_t room = marks->room ? 2 * marks->room : 32;
    TextSpan *grown = jinja_arena_take(&marks->arena, room * sizeof(*grown));

    if (!grown)
        return false;
    if (marks->n)
        memcpy(grown, marks->marks, marks->n * sizeof(*grown));
    marks->marks = grown;
    marks->room = room;
    return true;
}

/* Adds a mark whose text is in the arena already; false: no memory. */
static bool add_mark(ChatMarks *marks, const char *text, size_t len_bytes) {
    if (marks->n == MARKS_MAX || text_index_find(&marks->index, text, len_bytes) != UINT32_MAX)
        return true;
    if (marks->n == marks->room && !grow_marks(marks))
        return false;
    marks->marks[marks->n] = (TextSpan){ text, len_bytes };
    return !text_index_add(&marks->index, marks->n++);
}

bool chat_marks_has(const ChatMarks *marks, const char *text, size_t len_bytes) {
    return marks->n && len_bytes > 2 && (text[0] == '<' || text[0] == '[') &&
           text_index_find(&marks->index, text, len_bytes) != UINT32_MAX;
}

/* --- finding ---------------------------------------------------------------------------------------------------- */

static bool add_marks_of(ChatMarks *marks, const JinjaText *text) {
    for (size_t i = 0; i < text->len_bytes; i++) {
        char close = text->data[i] == '<' ? '>' : text->data[i] == '[' ? ']' : 0;
        int n_ends = 0;

        for (size_t end = i + 2; close && end < text->len_bytes && end - i < MARK_BYTES_MAX && n_ends < MARK_ENDS_MAX;
             end++)
            if (text->data[end] == close) {
                n_ends++;
                if (!add_mark(marks, text->data + i, end + 1 - i))
                    return false;
            }
    }
    return true;
}

/* The beginning of a mark that ends a literal: "<|" of '<|' + role + '|>'. NULL: there is none. */
static const char *open_end(const JinjaText *text, size_t *len_bytesp) {
    for (size_t n = 1; n <= text->len_bytes && n < MARK_BYTES_MAX / 4; n++) {
        const char c = text->data[text->len_bytes - n];

        if (c == '>' || c == ']' || c == '\n')
            return NULL;
        if (c == '<' || c == '[') {
            *len_bytesp = n;
            return text->data + text->len_bytes - n;
        }
    }
    return NULL;
}

/* Bytes at the front of a literal up to the bracket that closes an earlier literal's. 0: there is no such bracket. */
static size_t closing_front(const JinjaText *text, char open) {
    const char *end = memchr(text->data, open == '<' ? '>' : ']', text->len_bytes);

    return end && end - text->data < MARK_BYTES_MAX / 4 ? (size_t)(end + 1 - text->data) : 0;
}

/* Adds marks that two literals and a role make, because a role is no text from outside. */
static bool add_role_marks(ChatMarks *marks, const char *front, size_t front_bytes, const JinjaText *text) {
    static const char *const roles[] = { "system", "user", "assistant", "tool" };
    size_t end_bytes = closing_front(text, front[0]);

    for (size_t i = 0; end_bytes && i < sizeof(roles) / sizeof(roles[0]); i++) {
        size_t n = strlen(roles[i]);
        char *mark = jinja_arena_take(&marks->arena, front_bytes + n + end_bytes);

        if (!mark)
            return false;
        memcpy(mark, front, front_bytes);
        memcpy(mark + front_bytes, roles[i], n);
        memcpy(mark + front_bytes + n, text->data, end_bytes);
        if (!add_mark(marks, mark, front_bytes + n + end_bytes))
            return false;
    }
    return true;
}

int chat_marks_init(ChatMarks *marks, const char *source, size_t len_bytes) {
    int r;

    *marks = (ChatMarks){ 0 };
    jinja_arena_init(&marks->arena, MARKS_MEMORY_BYTES_MAX, NULL, ACCOUNT_WEIGHTS);
    r = text_index_init(&marks->index, 0, mark_text, marks);
    return r ? err_trace(r) : chat_marks_add(marks, source, len_bytes);
}

typedef struct MarkSource {
    ChatMarks *marks;
    const char *data;
    size_t len_bytes;
} MarkSource;

static void read_marks(JinjaLexer *lexer, void *context) {
    const MarkSource *source = context;
    ChatMarks *marks = source->marks;
    const char *front = NULL;
    size_t front_bytes = 0;

    jinja_lexer_init(lexer, source->data, source->len_bytes);
    for (JinjaToken token; (token = jinja_lexer_next(lexer)).kind != JINJA_TOKEN_END;) {
        const JinjaText *text = token.value.text;

        if (token.kind != JINJA_TOKEN_DATA && token.kind != JINJA_TOKEN_TEXT)
            continue;
        if (!add_marks_of(marks, text) || (front && !add_role_marks(marks, front, front_bytes, text)))
            jinja_lexer_throw(lexer, err_raise(-ENOMEM));
        if (open_end(text, &front_bytes))
            front = open_end(text, &front_bytes);
        else if (front && closing_front(text, front[0]))
            front = NULL;
    }
}

int chat_marks_add(ChatMarks *marks, const char *source, size_t len_bytes) {
    JinjaLexer lexer = { .arena = &marks->arena };
    int r = jinja_lexer_attempt(&lexer, read_marks,
                                &(MarkSource){ .marks = marks, .data = source, .len_bytes = len_bytes });

    return MIN(r, 0);
}

void chat_marks_deinit(ChatMarks *marks) {
    text_index_deinit(&marks->index);
    jinja_arena_deinit(&marks->arena);
    *marks = (ChatMarks){ 0 };
}

/* --- kinds ------------------------------------------------------------------------------------------------------ */

static bool begins_with(const char *text, size_t len_bytes, const char *front) {
    size_t n = strlen(front);

    return len_bytes >= n && !memcmp(text, front, n);
}

static bool ends_with(const char *text, size_t len_bytes, const char *end) {
    size_t n = strlen(end);

    return len_bytes >= n && !memcmp(text + len_bytes - n, end, n);
}

bool chat_mark_is_control(const char *text, size_t len_bytes) {
    static const char *const fronts[] = { "<|",        "<\xef\xbd\x9c", "[|",  "<start_of_", "<end_of_", "<extra_id_",
                                          "<SPECIAL_", "<reserved_",    "<s>", "</s>",       "<bos>",    "<eos>" };

    for (size_t i = 0; i < sizeof(fronts) / sizeof(fronts[0]); i++)
        if (begins_with(text, len_bytes, fronts[i]))
            return true;
    if (ends_with(text, len_bytes, "|>") || ends_with(text, len_bytes, "\xef\xbd\x9c>"))
        return true;
    if (len_bytes < 4 || text[0] != '[' || text[len_bytes - 1] != ']')
        return false;
    for (size_t i = 1; i + 1 < len_bytes; i++)
        if (!isupper((unsigned char)text[i]) && !strchr("_/ ", text[i]))
            return false;
    return true;
}
