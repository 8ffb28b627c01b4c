// SPDX-License-Identifier: Apache-2.0
/* The values of the daemon's settings. */
#ifndef COORDGEN_DAEMON_CONFIG_VALUES_H
#define COORDGEN_DAEMON_CONFIG_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/systemd/journal.h"
#include "engine/load_options.h"
#include "spec/db/draft_db_types.h"

enum {
    CONFIG_E_FLAG = 1,    /* a flag that is unknown or has a wrong value; the text names it */
    CONFIG_E_FILE = 2,    /* a file that cannot be read or has a wrong line; the text names file and line */
    CONFIG_E_SETTING = 3, /* an unknown setting or a wrong value; the text names both */
};

typedef enum ConfigSampling { /* sampling where a request does not choose */
    CONFIG_SAMPLING_MODEL,    /* the model's own */
    CONFIG_SAMPLING_GREEDY,   /* the likeliest token */
} ConfigSampling;

typedef enum ConfigDemand { /* whose requests load the model that they name */
    CONFIG_DEMAND_ALL,
    CONFIG_DEMAND_ADMINS,
    CONFIG_DEMAND_DEFAULT_ONLY, /* everybody's, but the default model alone */
    CONFIG_DEMAND_NO,
} ConfigDemand;

/* Strings of these structs are owned and never NULL; "": not set. */

typedef struct ConfigModels { /* which models there are, and who may load them */
    char *default_model;      /* an absolute path, or a name: see setting_is_path() */
    char *preload;            /* paths or names, with commas between */
    char *dir;
    char *chat_template; /* "": each model's own */
    char *draft_model;   /* as pair_list_parse() takes it */
    ConfigDemand on_demand;
    bool api_may_load;
} ConfigModels;

typedef struct ConfigGenerations { /* what a request gets that does not choose */
    uint32_t context_tokens;
    ConfigSampling sampling_defaults;
    char *speculation; /* as speculation_parse() takes it */
} ConfigGenerations;

typedef struct ConfigDraftDb {
    bool is_on;
    char *dir; /* "": there is none */
    DraftDbLimits limits;
    char *no_history; /* as no_history_set() takes it */
} ConfigDraftDb;

typedef struct ConfigTurns { /* the queue and the places of generations */
    uint32_t max_active;
    uint32_t max_active_interactive;
    uint32_t ageing_ms;
    uint32_t max_queue;
} ConfigTurns;

typedef struct ConfigLimits { /* what clients may have at a time, and send */
    uint32_t max_connections;
    uint32_t max_connections_per_uid;
    uint32_t max_requests_per_connection;
    uint32_t max_sessions_per_uid;
    uint64_t frame_max_bytes;
    uint64_t prompt_max_bytes;
    uint32_t prompt_max_tokens; /* 0: what the context holds */
    uint64_t output_buffer_bytes;
} ConfigLimits;

typedef struct ConfigMemory {
    uint64_t limit_bytes;            /* 0: none */
    uint64_t kv_limit_bytes;         /* 0: none */
    uint32_t kv_user_percent;        /* share of the memory for generations that one user's apps may hold */
    uint64_t session_limit_bytes;    /* 0: none */
    uint64_t prefix_cache_max_bytes; /* 0: nothing is kept */
} ConfigMemory;

typedef struct ConfigTimeouts {
    uint32_t hello_ms;
    uint32_t frame_ms;
    uint32_t stall_ms;
    uint32_t drain_ms;
    uint32_t step_ms;
} ConfigTimeouts;

typedef struct ConfigModel ConfigModel;

typedef struct Config {
    bool is_users; /* --user: a user's own service; all files and sockets are in the user's folders. No setting. */
    char *listen;
    char *admin_listen;
    char *cache_dir;
    char *state_dir; /* "": there is none */
    ConfigModels models;
    LoadOptions load; /* of every model that has no section of its own */
    ConfigGenerations generations;
    ConfigDraftDb draft_db;
    ConfigTurns turns;
    ConfigLimits limits;
    ConfigMemory memory;
    ConfigTimeouts timeouts;
    bool core_dumps;
    LogLevel log_level;
    LogTarget log_target;
    ConfigModel *sections; /* settings of single models: config_model.c */
} Config;

/* Receives a setting that differs; is_live: its change takes effect without a restart. */
typedef void ConfigChangeFn(void *arg, const char *name, const char *from, const char *to, bool is_live);

#endif
