// SPDX-License-Identifier: Apache-2.0
/* Requests from files with one JSON object a line: `prompt`, `task` and optionally `id` and `schema`. */
#ifndef COORDGEN_BENCH_SPEC_DATA_H
#define COORDGEN_BENCH_SPEC_DATA_H

#include "engine/constraint/constraint.h"
#include "engine/engine.h"

enum {
    SPEC_TASKS_MAX = 64,
    SPEC_FILES_MAX = 16
};

typedef struct SpecRequest {
    char *id;    /* the row's id, else the file's name and the line */
    size_t task; /* index into the tasks */
    TokenList prompt;
    Constraint *constraint; /* of the row's schema; NULL: the row has none */
} SpecRequest;

typedef struct SpecData {
    char *tasks[SPEC_TASKS_MAX];      /* names, in the order of the files */
    size_t n_of_task[SPEC_TASKS_MAX]; /* requests */
    size_t n_tasks;
    SpecRequest *requests;
    size_t n, room;
} SpecData;

typedef struct SpecDataOptions {
    const char *files[SPEC_FILES_MAX]; /* [n_files] */
    size_t n_files;
    size_t per_task;   /* first requests of each task; 0: all */
    size_t max_tokens; /* tokens of an answer */
} SpecDataOptions;

/* Reads the requests of all files for an engine that outlives them, and prints to standard error how many rows are left
 * out because an answer would exceed the context. Return: 0, -ENOMEM, -errno, or -EINVAL with a text that names file
 * and line. */
int spec_data_read(SpecData *data, Engine *engine, const SpecDataOptions *options, ErrText *err);
void spec_data_deinit(SpecData *data);

#endif
