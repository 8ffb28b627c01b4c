// SPDX-License-Identifier: Apache-2.0
/* The table of models: finds models by name, path or file, adds and forgets models, and knows the default. Owned by the
 * loop. */
#ifndef COORDGEN_DAEMON_MODEL_REGISTRY_H
#define COORDGEN_DAEMON_MODEL_REGISTRY_H

#include "daemon/models/model.h"

#define MODELS_MAX 1024

void model_registry_init(ModelRegistry *registry, Loop *loop, const Config *config, AccountTable *accounts,
                         ModelChangeFn *on_change, void *arg);
/* Frees all models with their engines; the engine thread must have ended. */
void model_registry_deinit(ModelRegistry *registry);
/* Forgets the models of the folder that this scan has not met, unless something holds them. */
void model_registry_forget_gone(ModelRegistry *registry, uint64_t scan);
Model *model_registry_find_path(ModelRegistry *registry, const char *path); /* by exactly this path; NULL: none */
/* Finds the model of a file by any of the file's paths; NULL: none. Looks at the file of every model. fd: the open
 * file, or -1. */
Model *model_registry_find_file(ModelRegistry *registry, const char *path, int fd);
/* Takes an open file, which the next load reads in place of the path. A loaded model leaves the descriptor to the
 * caller. */
void model_take_file(Model *model, int *fdp);
/* Adds the model of a file under the name in its path, or finds the model of that path, or of that name and file. 0,
 * MODEL_E_*, -ENOMEM. */
int model_registry_add(ModelRegistry *registry, const char *path, Model **modelp, ErrText *err);
Model *model_registry_find_name(ModelRegistry *registry, const char *name); /* NULL: none */

/* Forgets a model that is neither loaded nor used, if its file is outside of the folder or was missing at the last
 * scan. A client can name its file again. */
void model_forget_unused(Model *model);
bool model_suits_device(const Config *config, const char *path, ErrText *err); /* decides by the file's name */
bool model_is_source(const char *name);    /* tells whether a file of this name is imported */
bool model_is_file_name(const char *name); /* tells whether a file of this name is a model */
void model_measure(Model *model);          /* looks at the size of the files again */

/* model_registry_default.c */
Model *model_registry_find(ModelRegistry *registry, const char *name); /* "": the default; NULL: none */
Model *model_registry_default(const ModelRegistry *registry);          /* NULL: there is none */
/* Makes the only model the default, unless a default was named. The model stays the default when others come. */
void model_registry_note_default(ModelRegistry *registry);
/* Makes the earliest model the default. NULL: there is no model, or a default was named and is missing. */
Model *model_registry_choose_default(ModelRegistry *registry);
ModelDefaultBy model_registry_default_by(const ModelRegistry *registry);
bool model_is_default(const Model *model);

#endif
