// SPDX-License-Identifier: Apache-2.0
/* A model that the daemon knows, with its stage, and the table that all of them stand in. Owned by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_H
#define COORDGEN_DAEMON_MODEL_H

#include "daemon/config.h"
#include "daemon/engine/engine_thread.h"
#include "daemon/loop.h"
#include "daemon/models/model_default.h"
#include "daemon/models/files/model_import.h"
#include "daemon/models/model_pairs.h"

enum {
    MODEL_E_NAME_TAKEN = 1, /* another file has this name */
    MODEL_E_KIND,           /* not a .gguf or .cgm, or not one for this device */
    MODEL_E_FULL,           /* too many models */
    MODEL_E_STATE,          /* being loaded, being unloaded, or not loaded */
};

typedef enum ModelStage {
    MODEL_AVAILABLE,
    MODEL_IMPORTING,
    MODEL_LOADING,
    MODEL_READY,
    MODEL_UNLOADING,
    MODEL_RELOADING, /* being unloaded; loaded again afterwards if requests still want it */
    MODEL_FAILED,    /* the engine may exist until the last request has released the model */
    _MODEL_STAGE_N,
} ModelStage;

typedef enum ModelFailure { /* why a model is in MODEL_FAILED */
    MODEL_FAILURE_OTHER,
    MODEL_FAILURE_CORRUPT,
    MODEL_FAILURE_MEMORY,        /* the model does not fit; the next request tries again */
    MODEL_FAILURE_MEMORY_IN_USE, /* the model would fit without models that are in use */
} ModelFailure;

typedef struct ModelRegistry ModelRegistry;

typedef struct Model { /* all loop */
    ModelRegistry *registry;
    char *name;           /* printable, at most PROTO_MODEL_NAME_BYTES_MAX */
    char *path;           /* as given: .gguf or .cgm */
    char *shown_path;     /* printable */
    int fd;               /* open file that a client has handed over, until the model is unloaded; -1: none */
    char *package_path;   /* the file that the engine opens; NULL until known */
    char *image_path;     /* image of the weights; NULL: none is wanted */
    const char *no_image; /* why no image is wanted; NULL: one is */
    bool may_have_image;  /* the last load may have used an image */
    bool without_image;   /* a load with an image has failed */
    bool checks_package;  /* the next import checks an existing package, since its load failed */
    bool is_named;        /* a setting names the file: never forgotten */
    bool was_unloaded;    /* unloaded by a command: only a request that names the model loads it again */
    bool makes_room;      /* its load may unload unused models */
    uint64_t used_ns;     /* when the last user left, or the load ended */
    bool from_folder;     /* forgotten with its file; other models, unless is_named, with their unload */
    uint64_t scan;        /* last scan of the folder that has met the file */
    uint64_t file_bytes;  /* at the last look; 0: no regular file */
    ModelStage stage;
    uint32_t permille; /* progress of the import or of the arriving weights */
    ModelFailure failure;
    ErrText failure_text; /* reason for MODEL_FAILED, for administrators */
    ErrText no_room;      /* reason for MODEL_FAILURE_MEMORY and _IN_USE that everybody may know */
    /* The engine thread computes with the engine; the loop owns the pointer and reads the info of a ready model's
     * engine. The pointer is set before the model is ready, while weights still arrive. After a failure the engine
     * stays until the last request has released the model. */
    Engine *engine;
    ModelImport *import;
    Job *job;             /* load or unload */
    unsigned int n_users; /* requests that hold it, and models that it drafts for */
    /* As a target: the model that drafts for its generations, loaded and compared; NULL: none. See model_drafts.h. */
    struct Model *draft;
    DraftPair *draft_pair;  /* engine thread's while n_drafted, made for the first generation; else the loop's */
    unsigned int n_drafted; /* generations that may use draft_pair; they may outlast the pair of models */
    bool draft_leaves;      /* later generations get no drafts from it */
    bool draft_was_tried; /* a load of the draft model was tried since the target was loaded or the pair has changed */
    char *draft_failure;  /* how the tokens of target and draft model differ; NULL: no difference is known */
    bool is_loaded_as_draft; /* loaded for targets alone: unloaded with the last of them */
    uint64_t load_began_ns;
    TAILQ_ENTRY(Model) link;
} Model;

TAILQ_HEAD(ModelList, Model);
typedef struct ModelList ModelList;

typedef void ModelChangeFn(void *arg, Model *model);     /* stage or progress */
typedef bool ModelHeldFn(void *arg, const Model *model); /* tells of holders beside n_users */

struct ModelRegistry {
    Loop *loop;
    const Config *config;
    EngineThread *thread;
    AccountTable *accounts;
    PrefixCache *prefix_cache; /* may be NULL */
    ModelChangeFn *on_change;
    ModelHeldFn *is_held; /* NULL: no such holder exists */
    void *on_change_arg;  /* first argument of both callbacks */
    ModelList models;
    size_t n_models;
    unsigned int n_unloading; /* models in MODEL_UNLOADING or MODEL_RELOADING */
    void *by_name, *by_path;  /* the models, in trees of tsearch(3) */
    Model *default_model;     /* named as a path by the setting; NULL: no path is set */
    ModelDefault *def;        /* name of the default model */
    const ModelPairs *pairs;  /* who drafts for whom, by name */
    char *chat_template;      /* used in place of each model's own; NULL: none */
    size_t chat_template_bytes;
    bool is_unsettled; /* stages or users have changed since model_drafts_settle() */
    ModelImportList abandoned;
};

Model *model_free(Model *model); /* the model must be in no table */
DEFINE_CLEANUP(Model, model_free)

/* Moves the model to its next stage, tells on_change(), and asserts that the stage may follow. The only writer of
 * Model.stage. */
void model_set_stage(Model *model, ModelStage stage);
/* Moves the model to MODEL_FAILED and logs why. text: the reason, for administrators. */
void model_fail(Model *model, ModelFailure failure, const char *text);
const char *model_stage_name(ModelStage stage);
bool model_is_coming(const Model *model);     /* being imported or loaded */
bool model_is_loaded(const Model *model);     /* ready, or being imported or loaded */
bool model_is_unloading(const Model *model);  /* whether or not it is loaded again */
bool model_lacked_memory(const Model *model); /* its load has failed for want of memory */
/* Tells whether a request may wait for the model: on its way, or to be loaded again after its unload. */
bool model_will_come(const Model *model);
bool model_can_serve(const Model *model); /* the engine takes jobs: ready, or weights on their way */
/* Returns why the model failed; without paths only what everybody may know. */
const char *model_failure(const Model *model, bool with_paths);
const BackendDevice *model_device(const Model *model);
uint32_t model_context_tokens(const Model *model); /* of a loaded model: limit on prompt and output together */

#endif
