// SPDX-License-Identifier: Apache-2.0
/* The models the daemon knows: on disk, being imported or loaded, ready, failed. Owned by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_REGISTRY_H
#define COORDGEN_DAEMON_MODEL_REGISTRY_H

#include "daemon/config.h"
#include "daemon/engine/engine_thread.h"
#include "daemon/loop.h"
#include "daemon/models/model_default.h"
#include "daemon/models/model_import.h"
#include "daemon/models/model_pairs.h"
#include "proto/coordgen.pb-c.h"

enum {
    MODEL_E_NAME_TAKEN = 1, /* another file has this name */
    MODEL_E_KIND,           /* not a .gguf or .cgm, or not one for this device */
    MODEL_E_FULL,           /* too many models */
    MODEL_E_STATE,          /* being loaded, being unloaded, or not loaded */
};

#define MODELS_MAX 1024
#define MODEL_DRAFT_OF_MAX 4 /* targets that are named with their draft model, of more the first ones */

typedef enum ModelStage {
    MODEL_AVAILABLE,
    MODEL_IMPORTING,
    MODEL_LOADING,
    MODEL_READY,
    MODEL_UNLOADING,
    MODEL_FAILED,
} ModelStage;

typedef struct ModelRegistry ModelRegistry;

typedef struct Model { /* all loop */
    ModelRegistry *registry;
    char *name;       /* printable, as clients use it: at most PROTO_MODEL_NAME_BYTES_MAX */
    char *path;       /* as given: .gguf or .cgm */
    char *shown_path; /* printable */
    int fd; /* of the file, when somebody has handed it over who may open it; until it is unloaded. -1: none */
    char *package_path;   /* what the engine opens; NULL until known */
    char *image_path;     /* of its weights; NULL: none is wanted */
    const char *no_image; /* why not */
    bool may_have_image;  /* the last load may have met one */
    bool without_image;   /* a load with one has failed */
    bool checks_package;  /* so has one of a package that an import has found, which looks at it more closely now */
    bool is_named;        /* a setting names its file: it is never forgotten */
    bool was_unloaded;    /* by someone, who wants its memory back: only who names it has it loaded again */
    bool makes_room;      /* its load may unload models that nobody uses */
    bool makes_way;       /* it is being unloaded for others */
    bool is_wanted;       /* while it is being unloaded: it is to be loaded again */
    bool lacked_memory;   /* why it failed: the next request tries again */
    bool may_fit_later;   /* then: when those have gone that use other models */
    uint64_t used_ns;     /* when the last user left it, or it was loaded */
    bool from_folder;     /* forgotten when its file goes; the others, unless is_named, when they are unloaded */
    uint64_t scan;        /* of the folder, the last one that has met it */
    uint64_t file_bytes;  /* when it was looked at last; 0: not a regular file */
    ModelStage stage;
    uint32_t permille; /* of the import, or of the weights that a load brings */
    bool is_corrupt;   /* why it failed */
    ErrText failure;
    ErrText no_room; /* with lacked_memory: what everybody may know of that */
    /* The engine thread computes with it; the loop only carries the pointer and, when it is ready, reads its info.
     * There before the model is ready, when its weights are on their way; and still there after that has failed, until
     * the last request has let go. */
    Engine *engine;
    ModelImport *import;
    Job *job;             /* load or unload */
    unsigned int n_users; /* requests that hold it, and models that it drafts for */
    /* As a target: who drafts for its generations, loaded and compared; NULL: nobody. model_drafts.h decides. */
    struct Model *draft;
    DraftPair *draft_pair;   /* engine thread, which makes it for the first one, while n_drafted; else loop */
    unsigned int n_drafted;  /* generations that may use it, which outlast their pair */
    bool draft_leaves;       /* no more of them shall */
    bool draft_was_tried;    /* since it was loaded itself, or its pair has changed */
    bool is_mismatch;        /* why there is none: their tokens differ */
    char *draft_failure;     /* why there is none; NULL: there is, or may be */
    bool is_loaded_as_draft; /* for targets alone: it goes when the last of them has gone */
    uint64_t load_began_ns;
    TAILQ_ENTRY(Model) link;
} Model;

TAILQ_HEAD(ModelList, Model);
typedef struct ModelList ModelList;

typedef void ModelChangeFn(void *arg, Model *model);     /* stage or progress */
typedef bool ModelHeldFn(void *arg, const Model *model); /* whether something holds it that is not in n_users */

struct ModelRegistry {
    Loop *loop;
    const Config *config;
    EngineThread *thread;
    AccountTable *accounts;
    PrefixCache *prefix_cache; /* may be NULL */
    ModelChangeFn *on_change;
    ModelHeldFn *is_held; /* NULL: nothing does */
    void *on_change_arg;  /* of both */
    ModelList models;
    size_t n_models;
    unsigned int n_making_way; /* models that are being unloaded for others */
    void *by_name, *by_path;   /* the same, in trees of tsearch(3) */
    Model *default_model;      /* of the setting, where it names a path; NULL: it does not */
    ModelDefault *def;         /* the default model by its name */
    const ModelPairs *pairs;   /* who drafts for whom, by name */
    char *chat_template;       /* instead of each model's own; NULL: theirs */
    size_t chat_template_bytes;
    bool is_unsettled; /* stages or users have changed: see model_drafts_settle() */
    ModelImportList abandoned;
};

void model_registry_init(ModelRegistry *registry, Loop *loop, const Config *config, AccountTable *accounts,
                         ModelChangeFn *on_change, void *arg);
/* Reads the chat template of the configuration, if it names one. 0, -EINVAL, -errno, with a text. */
int model_registry_read_chat_template(ModelRegistry *registry, ErrText *err);
/* The same for whoever wants to know whether it can be used: CONFIG_E_SETTING where it does not parse. */
int model_check_chat_template(const Config *config, ErrText *err);
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
Model *model_registry_find(ModelRegistry *registry, const char *name); /* "": the default; NULL: none */
Model *model_registry_default(const ModelRegistry *registry);          /* NULL: there is none */
/* Makes the only model the default, unless somebody has said which one is: the model stays it when others come. */
void model_registry_note_default(ModelRegistry *registry);
/* Makes the model the default that came first. NULL: there is none, or somebody has said which model is the default,
 * and that is missing. */
Model *model_registry_choose_default(ModelRegistry *registry);
ModelDefaultBy model_registry_default_by(const ModelRegistry *registry);
bool model_is_default(const Model *model);

/* 0 when it is ready or on its way, MODEL_E_STATE while it is being unloaded. Failures come as a change of stage. */
int model_load(Model *model, ErrText *err);
/* Loads as model_load() does, and has models unloaded that nobody uses where memory is short. A model that is being
 * unloaded comes again. */
int model_load_with_room(Model *model, ErrText *err);
/* Has a model unloaded that nobody uses, where that gives room for keys and values; n_making_way until it is. */
bool model_make_room_for_kv(ModelRegistry *registry);
/* Tells whether a request may wait for it: on its way, or wanted while it is being unloaded. */
bool model_will_come(const Model *model);
int model_unload(Model *model, ErrText *err);              /* its one user is who asks; MODEL_E_STATE */
int model_unload_unused(Model *model, ErrText *err);       /* nobody has asked for its memory; nobody may use it */
void model_on_news(Model *model, Job *job, JobNews *news); /* of a load or unload job */
bool model_is_coming(const Model *model);
bool model_can_serve(const Model *model); /* its engine takes jobs: it is ready, or its weights are on their way */
void model_leave(Model *model);           /* a user less; it may be forgotten */
/* Who drafts for a target's later generations; NULL: nobody. It is held like by a request. None may be drafted for. */
void model_set_draft(Model *target, Model *draft);
/* What is not of the folder is known as long as it is loaded or used: whoever named its file can name it again. */
void model_forget_unused(Model *model);
const char *model_stage_name(ModelStage stage);
bool model_suits_device(const Config *config, const char *path, ErrText *err); /* by its name */
bool model_is_file_name(const char *name); /* whether it ends as those of model files do */
const BackendDevice *model_device(const Model *model);
uint32_t model_context_tokens(const Model *model); /* of a loaded one: for prompt and output of one request */
void model_measure(Model *model);                  /* file_bytes, anew */
/* Why it failed, or, for those who are not to know paths, that it did. */
const char *model_failure(const Model *model, bool with_paths);

/* model_registry_memory.c: adds to an error of memory, for administrators, what holds it and what to do. */
void model_explain_memory(const ModelRegistry *registry, ErrText *err);

/* model_registry_message.c: messages whose strings belong to models and pairs; valid until the next change. */
typedef struct ModelMessage {
    Coordgen__V1__Model model;
    char detail[sizeof(ErrText)];
    char chat_format[sizeof(ErrText)];
    char image[256];
    Coordgen__V1__ModelPair draft;
    const char *draft_of[MODEL_DRAFT_OF_MAX];
    const char *chat_takes[2];
} ModelMessage;
Coordgen__V1__ModelState model_wire_state(const Model *model);
void model_describe(ModelMessage *message, const Model *model, bool with_paths);
void model_describe_pair(Coordgen__V1__ModelPair *message, ModelRegistry *registry, const ModelPairEntry *pair,
                         bool with_paths);

/* Private to the module. */
/* Has the model that was used least of those that nobody uses unloaded, before any job that is submitted after it.
 * false: there is none. */
bool model_make_room(Model *wanting);
/* Adds to the text why nothing makes room, and notes whether something may later. */
void model_tell_room(Model *wanting, ErrText *err);
void model_choose_options(Model *model, EngineOptions *options);

#endif
