// SPDX-License-Identifier: Apache-2.0
/* The table of models: finds them by name, path or file, adds and forgets them, and knows which is the default. Owned
 * by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_REGISTRY_H
#define COORDGEN_DAEMON_MODEL_REGISTRY_H

#include "daemon/models/model.h"

#define MODELS_MAX 1024

void model_registry_init(ModelRegistry *registry, Loop *loop, const Config *config, AccountTable *accounts,
                         ModelChangeFn *on_change, void *arg);
/* Engines are freed here: the engine thread must have ended. */
void model_registry_deinit(ModelRegistry *registry);
/* Models of the folder that this scan has not met, unless something holds them. */
void model_registry_forget_gone(ModelRegistry *registry, uint64_t scan);
Model *model_registry_find_path(ModelRegistry *registry, const char *path); /* that very path; NULL: none */
/* The model of a file, whatever path it is named by; NULL: none. Looks at the file of every model. fd: of the file when
 * it is open, else -1. */
Model *model_registry_find_file(ModelRegistry *registry, const char *path, int fd);
/* Its next load reads this open file, whatever is at its path. One that is loaded leaves the descriptor to the
 * caller. */
void model_take_file(Model *model, int *fdp);
/* A file under the name in its path: the model of that path, or of that name and file, or a new one. 0, MODEL_E_*,
 * -ENOMEM. */
int model_registry_add(ModelRegistry *registry, const char *path, Model **modelp, ErrText *err);
Model *model_registry_find_name(ModelRegistry *registry, const char *name); /* NULL: none */

/* What is not of the folder is known as long as it is loaded or used: whoever named its file can name it again. */
void model_forget_unused(Model *model);
bool model_suits_device(const Config *config, const char *path, ErrText *err); /* by its name */
bool model_is_source(const char *name);    /* whether it ends as those of files do that are imported */
bool model_is_file_name(const char *name); /* whether it ends as those of model files do */
void model_measure(Model *model);          /* file_bytes, anew */

/* model_registry_default.c */
Model *model_registry_find(ModelRegistry *registry, const char *name); /* "": the default; NULL: none */
Model *model_registry_default(const ModelRegistry *registry);          /* NULL: there is none */
/* Makes the only model the default, unless somebody has said which one is: the model stays it when others come. */
void model_registry_note_default(ModelRegistry *registry);
/* Makes the model the default that came first. NULL: there is none, or somebody has said which model is the default,
 * and that is missing. */
Model *model_registry_choose_default(ModelRegistry *registry);
ModelDefaultBy model_registry_default_by(const ModelRegistry *registry);
bool model_is_default(const Model *model);

#endif
