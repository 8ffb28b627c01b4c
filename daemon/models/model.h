// SPDX-License-Identifier: Apache-2.0
/* A model that the daemon knows, with its stage, and the table that all of them stand in. Owned by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_H
#define COORDGEN_DAEMON_MODEL_H

#include "daemon/config/config.h"
#include "daemon/engine/engine_thread.h"
#include "daemon/loop.h"
#include "daemon/models/files/model_import.h"
#include "daemon/models/model_default.h"
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

typedef enum ModelOrigin { /* who keeps the model known */
    MODEL_FROM_CLIENT,     /* a client has named the path: forgotten with the unload */
    MODEL_FROM_FOLDER,     /* the folder has the file: forgotten with the file */
    MODEL_FROM_SETTING,    /* a setting names the path: never forgotten */
    _MODEL_ORIGIN_N,
} ModelOrigin;

typedef struct ModelSource { /* the file that a user knows */
    char *path;              /* as given: .gguf or .cgm */
    char *shown_path;        /* printable */
    int fd;                  /* open file that a client has handed over, until the model is unloaded; -1: none */
    ModelOrigin origin;
    uint64_t scan;   /* last scan of the folder that has met the file; 0: none */
    uint64_t bytes;  /* at the last look; 0: no regular file */
    uint64_t time_s; /* last change of the file, in seconds since 1970, at the last look; 0: no regular file */
} ModelSource;

typedef enum ModelLoadMode { /* which memory the load may take, and whose requests may begin the next load */
    MODEL_LOAD_FITS,         /* takes free memory only */
    MODEL_LOAD_EVICTS,       /* may unload unused models */
    MODEL_LOAD_NAMED,        /* unloaded by a command: only a request that names the model loads it again */
    _MODEL_LOAD_MODE_N,
} ModelLoadMode;

typedef enum ModelImage { /* what is known of the image of the weights */
    MODEL_IMAGE_UNUSED,   /* the last load used no image */
    MODEL_IMAGE_USED,     /* the last load may have used an image, which may be at fault if the load fails */
    MODEL_IMAGE_FAILED,   /* a load with an image has failed: the next load makes the image anew, or uses none */
    _MODEL_IMAGE_N,
} ModelImage;

typedef struct ModelLoad { /* the load under way, else the last load */
    uint64_t began_ns;
    ModelImport *import; /* NULL: none is under way */
    uint32_t permille;   /* progress of the import or of the arriving weights */
    ModelLoadMode mode;
    char *package_path;  /* the file that the engine opens; NULL until known */
    bool checks_package; /* the import checks an existing package, since the package could not be loaded */
    ModelImage image;
    char *image_path;     /* image of the weights; NULL: none is wanted */
    const char *no_image; /* why no image is wanted; NULL: one is */
} ModelLoad;

typedef enum ModelDraftState { /* between a target and the model that is to draft for it */
    MODEL_DRAFT_NONE,          /* nothing was tried since the target was loaded or the pair has changed */
    MODEL_DRAFT_TRIED,         /* a load of the draft model was tried, and is not repeated */
    MODEL_DRAFT_UNFIT,         /* the tokens of target and draft model differ */
    MODEL_DRAFT_JOINED,        /* the draft model drafts for the target's generations */
    MODEL_DRAFT_LEAVING,       /* later generations get no drafts from the draft model */
    _MODEL_DRAFT_STATE_N,
} ModelDraftState;

typedef struct ModelDraft { /* a target's view of its draft model; see model_drafts.h */
    ModelDraftState state;
    struct Model *model; /* loaded and compared; NULL unless joined or leaving */
    DraftPair *pair;     /* engine thread's while n_generations, made for the first generation; else the loop's */
    unsigned int n_generations; /* generations that may use the pair; they may outlast the pair of models */
    char *mismatch;             /* how the tokens differ; NULL unless unfit */
} ModelDraft;

typedef struct Model { /* all loop */
    ModelRegistry *registry;
    char *name; /* printable, at most PROTO_MODEL_NAME_BYTES_MAX */
    ModelSource source;
    ModelStage stage;
    ModelFailure failure;
    ErrText failure_text; /* reason for MODEL_FAILED, for administrators */
    ErrText no_room;      /* reason for MODEL_FAILURE_MEMORY and _IN_USE that everybody may know */
    ModelLoad load;
    /* The engine thread computes with the engine; the loop owns the pointer and reads the info of a ready model's
     * engine. The pointer is set before the model is ready, while weights still arrive. After a failure the engine
     * stays until the last request has released the model. */
    Engine *engine;
    Job *job;                /* load or unload */
    unsigned int n_users;    /* requests that hold it, and models that it drafts for */
    uint64_t used_ns;        /* when the last user left, or the load ended */
    ModelDraft draft;        /* as a target */
    bool is_loaded_as_draft; /* loaded for targets alone: unloaded with the last of them */
    TAILQ_ENTRY(Model) link;
} Model;

TAILQ_HEAD(ModelList, Model);
typedef struct ModelList ModelList;

typedef void ModelChangeFn(void *arg, Model *model);     /* stage or progress */
typedef bool ModelHeldFn(void *arg, const Model *model); /* tells of holders beside n_users */

typedef struct ModelWatch { /* callbacks of the registry's owner */
    ModelChangeFn *on_change;
    ModelHeldFn *is_held; /* NULL: no such holder exists */
    void *arg;            /* first argument of both */
} ModelWatch;

struct ModelRegistry {
    Loop *loop;
    const Config *config;
    EngineThread *thread;
    AccountTable *accounts;
    PrefixCache *prefix_cache; /* may be NULL */
    ModelWatch watch;
    ModelList models;
    size_t n_models;
    uint64_t last_scan;       /* of the folder; 0: none has ended */
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
void model_note_origin(Model *model, ModelOrigin origin); /* the origin that keeps the model longest prevails */
/* The only writers of the other states. Each asserts that the new state may follow. */
void model_set_load_mode(Model *model, ModelLoadMode mode);
void model_set_image(Model *model, ModelImage image);
void model_set_draft_state(Model *target, ModelDraftState state);
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
