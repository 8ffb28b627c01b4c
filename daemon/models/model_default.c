// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/models/model_default.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/strings/printable.h"
#include "base/strings/str_buf.h"

/* The file's first line. The second and last line is "command<tab>NAME" or "first<tab>NAME". */
static const char head[] = "coordgen-default-model 1\n";
static const char lost[] = "no default model is known but that of the setting model; name it again (coordgenctl model "
                           "default NAME)";

static const char *const words[] = { [MODEL_DEFAULT_BY_COMMAND] = "command", [MODEL_DEFAULT_BY_FIRST] = "first" };

#define WORD_BYTES_MAX 16

static int take_body(void *arg, char *body) {
    ModelDefault *def = arg;
    char *tab = strchr(body, '\t'), *end = strchr(body, '\n');

    if (!tab || !end || end < tab || end[1])
        return STATE_FILE_E_DAMAGED;
    *tab = *end = 0;
    for (ModelDefaultBy by = MODEL_DEFAULT_BY_COMMAND; by <= MODEL_DEFAULT_BY_FIRST; by++)
        if (!strcmp(body, words[by]))
            def->stored_by = by;
    if (!def->stored_by || !tab[1] || strlen(tab + 1) > MODEL_DEFAULT_NAME_BYTES_MAX || !state_file_is_name(tab + 1)) {
        def->stored_by = MODEL_DEFAULT_NONE;
        return STATE_FILE_E_DAMAGED;
    }
    def->stored = strdup(tab + 1);
    return def->stored ? 0 : err_raise(-ENOMEM);
}

int model_default_init(ModelDefault *def, const char *dir) {
    int r;

    *def = (ModelDefault){ 0 };
    r = state_file_init(&def->file, dir, MODEL_DEFAULT_FILE, head);
    return r ? r : state_file_read(&def->file, WORD_BYTES_MAX + MODEL_DEFAULT_NAME_BYTES_MAX, take_body, def, lost);
}

void model_default_deinit(ModelDefault *def) {
    state_file_deinit(&def->file);
    free(def->set);
    free(def->stored);
    *def = (ModelDefault){ 0 };
}

int model_default_take_setting(ModelDefault *def, const char *name) {
    char *copy = *name ? strdup(name) : NULL;

    if (*name && !copy)
        return err_raise(-ENOMEM);
    free(def->set);
    def->set = copy;
    if (copy && def->stored_by == MODEL_DEFAULT_BY_COMMAND && strcmp(copy, def->stored))
        log_warn(TOPIC_DAEMON,
                 "the setting model makes %s the default: that of coordgenctl model default, %s, has no effect", copy,
                 def->stored);
    return 0;
}

const char *model_default_name(const ModelDefault *def) {
    return def->set ? def->set : def->stored;
}

ModelDefaultBy model_default_by(const ModelDefault *def) {
    return def->set ? MODEL_DEFAULT_BY_SETTING : def->stored ? def->stored_by : MODEL_DEFAULT_NONE;
}

/* Writes the file without a change to @def in memory. Return: 0, STATE_FILE_E_STORE, -ENOMEM. */
static int write_file(const ModelDefault *def, ModelDefaultBy by, const char *name, ErrText *err) {
    _cleanup_(str_buf_deinit) StrBuf body = STR_BUF_NULL;

    str_buf_addf(&body, "%s\t%s\n", words[by], name);
    if (str_buf_failed(&body))
        return err_raise(-ENOMEM);
    return state_file_write(&def->file, body.data, "the default model", err);
}

int model_default_set(ModelDefault *def, const char *name, ErrText *err) {
    _cleanup_(freep) char *copy = NULL;
    int r;

    if (def->set)
        return err_set(err, MODEL_DEFAULT_E_SETTING,
                       "the setting model makes %.*s the default and goes before: change it in coordgend.conf and "
                       "restart the service, or take it out there to choose with coordgenctl model default",
                       UTF8_PREFIX(def->set, 64));
    copy = strdup(name);
    if (!copy)
        return err_raise(-ENOMEM);
    r = write_file(def, MODEL_DEFAULT_BY_COMMAND, name, err);
    if (r)
        return r < 0 ? r : MODEL_DEFAULT_E_STORE;
    free(def->stored);
    def->stored = steal(&copy);
    def->stored_by = MODEL_DEFAULT_BY_COMMAND;
    return 0;
}

void model_default_note_first(ModelDefault *def, const char *name, bool is_kept) {
    char *copy = strdup(name);
    ErrText err = { .text = "out of memory" };

    if (!copy)
        return; /* the next request tries to store the name again */
    free(def->stored);
    def->stored = copy;
    def->stored_by = MODEL_DEFAULT_BY_FIRST;
    if (is_kept && def->file.path && write_file(def, MODEL_DEFAULT_BY_FIRST, name, &err))
        log_warn(TOPIC_DAEMON, "the default model %s holds until the service ends: %s", name, err.text);
}
