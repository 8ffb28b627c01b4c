// SPDX-License-Identifier: Apache-2.0
/* The tools that a request offers, and what the model may do with them. */
#ifndef COORDGEN_TEXT_CHAT_CALL_TOOLS_H
#define COORDGEN_TEXT_CHAT_CALL_TOOLS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "text/chat/call_format.h"

enum {
    CALL_TOOLS_MAX = 256,
    CALL_TOOLS_NAME_BYTES_MAX = 128,
};

enum {
    CALL_E_TOOLS = 1,  /* tools are no list of named functions */
    CALL_E_CHOICE = 2, /* the choice names no tool, or there are none */
};

typedef enum CallMode {
    CALL_MODE_NONE,     /* no calls: what looks like one is text */
    CALL_MODE_AUTO,     /* the model chooses */
    CALL_MODE_REQUIRED, /* at least one call */
    CALL_MODE_NAMED,    /* one call of one tool */
} CallMode;

typedef struct CallChoice {
    CallMode mode;
    const char *name; /* CALL_MODE_NAMED */
    bool is_single;   /* at most one call */
} CallChoice;

typedef struct CallTool {
    const char *name; /* letters, digits, '_', '-' and '.' */
    size_t name_bytes;
    const char *description;  /* NULL: none */
    const json_t *parameters; /* a JSON schema; NULL: no arguments */
} CallTool;

struct CallTools {
    json_t *json;
    CallTool *tools; /* [n]; all point into json */
    size_t n;
    CallChoice choice; /* the name is one of the tools' */
    /* Calls are complete before they are given out, because nothing makes them well-formed. */
    bool is_unconstrained;
};

/* Reads the tools (JSON: a list of {"type": "function", "function": {"name", "description", "parameters"}}, or of the
 * inner objects) and checks the choice. 0, CALL_E_TOOLS, CALL_E_CHOICE, -ENOMEM; the text names the place. */
int call_tools_new(CallTools **toolsp, const char *json, size_t len_bytes, const CallChoice *choice, ErrText *err);
CallTools *call_tools_free(CallTools *tools); /* NULL is allowed; returns NULL */
DEFINE_CLEANUP(CallTools, call_tools_free)
/* Finds a tool that may be called by its name, or returns NULL. */
const CallTool *call_tools_find(const CallTools *tools, const char *name, size_t name_bytes);
/* Whether the choice lets a tool be called. */
bool call_tools_allows(const CallTools *tools, const CallTool *tool);

#endif
