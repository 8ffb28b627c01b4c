// SPDX-License-Identifier: Apache-2.0
/* The values of the daemon's settings. */
#ifndef COORDGEN_DAEMON_CONFIG_VALUES_H
#define COORDGEN_DAEMON_CONFIG_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/load_options.h"

enum {
    CONFIG_E_FLAG = 1,    /* a flag that is unknown or has a wrong value; the text names it */
    CONFIG_E_FILE = 2,    /* a file that cannot be read or has a wrong line; the text names file and line */
    CONFIG_E_SETTING = 3, /* an unknown setting or a wrong value; the text names both */
};

typedef struct ConfigModel ConfigModel;

typedef struct Config { /* strings are owned and never NULL; "": not set */
    bool is_users;      /* --user: a user's own service; all files and sockets are in the user's folders. No setting. */
    char *listen;
    char *admin_listen;
    char *model;   /* an absolute path, or a name: see setting_is_path() */
    char *preload; /* paths or names, with commas between */
    char *model_dir;
    char *chat_template; /* "": each model's own */
    char *cache_dir;
    char *state_dir;    /* "": there is none */
    char *draft_db_dir; /* "": there is none */
    char *no_history;   /* as no_history_set() takes it */
    LoadOptions load;   /* of every model that has no section of its own */
    uint32_t context_tokens;
    uint32_t sampling_defaults; /* ConfigSampling */
    char *speculation;          /* as speculation_parse() takes it */
    char *draft_model;          /* as pair_list_parse() takes it */
    bool draft_db;
    uint64_t draft_db_bytes; /* 0: no limit, as for the next two */
    uint32_t draft_db_documents;
    uint64_t draft_db_age_s;
    uint32_t max_active;
    uint32_t max_active_interactive;
    uint32_t priority_ageing_ms;
    uint32_t max_queue;
    uint32_t max_connections;
    uint32_t max_connections_per_uid;
    uint32_t max_requests_per_connection;
    uint32_t max_sessions_per_uid;
    uint64_t frame_max_bytes;
    uint64_t prompt_max_bytes;
    uint32_t prompt_max_tokens; /* 0: what the context holds */
    uint64_t output_buffer_bytes;
    uint64_t memory_limit_bytes;         /* 0: none */
    uint64_t kv_memory_limit_bytes;      /* 0: none */
    uint32_t kv_user_percent;            /* share of the memory for generations that one user's apps may hold */
    uint64_t session_memory_limit_bytes; /* 0: none */
    uint64_t prefix_cache_max_bytes;     /* 0: nothing is kept */
    uint32_t hello_timeout_ms;
    uint32_t frame_timeout_ms;
    uint32_t stall_timeout_ms;
    uint32_t drain_timeout_ms;
    uint32_t step_timeout_ms;
    bool api_may_load;
    uint32_t load_on_demand; /* ConfigDemand */
    bool core_dumps;
    uint32_t log_level;  /* LogLevel */
    uint32_t log_target; /* LogTarget */
    ConfigModel *models; /* sections of single models: config_model.c */
} Config;

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

/* Receives a setting that differs; is_live: its change takes effect without a restart. */
typedef void ConfigChangeFn(void *arg, const char *name, const char *from, const char *to, bool is_live);

#endif
