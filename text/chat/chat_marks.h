// SPDX-License-Identifier: Apache-2.0
/* The marks that a chat template writes: texts in its literals that look like special tokens. */
#ifndef COORDGEN_TEXT_CHAT_MARKS_H
#define COORDGEN_TEXT_CHAT_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strings/text_index.h"
#include "text/jinja/values/jinja_arena.h"

/* A set of marks, which stays in its place; zero-initialised it is empty. */
typedef struct ChatMarks {
    JinjaArena arena;
    TextSpan *marks; /* [room], n are there */
    uint32_t n, room;
    TextIndex index;
} ChatMarks;

/* Takes the marks of a template's text, up to the place at which it does not parse. 0, -errno; chat_marks_deinit() is
 * due in any case. */
int chat_marks_init(ChatMarks *marks, const char *source, size_t len_bytes);
/* Takes the marks of one more template of the same model. 0, -errno. */
int chat_marks_add(ChatMarks *marks, const char *source, size_t len_bytes);
void chat_marks_deinit(ChatMarks *marks);
bool chat_marks_has(const ChatMarks *marks, const char *text, size_t len_bytes);
/* Whether a template's mark is a control token whatever type the file gives it: "<|user|>", "[INST]". Tags such as
 * "<think>" are none: they belong to a model's answers. */
bool chat_mark_is_control(const char *text, size_t len_bytes);

#endif
