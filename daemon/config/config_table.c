// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/config_table.h"

#include <string.h>

#include "base/log.h"
#include "base/strings/nearest_word.h"
#include "base/strings/printable.h"
#include "base/system/cpu.h"
#include "daemon/systemd/journal.h"
#include "engine/generation.h"
#include "proto/frame.h"

static const Choice verify_choices[] = {
    { "auto", WEIGHTS_CHECKING_NEW },
    { "on", WEIGHTS_CHECKING_ALL },
    { "off", WEIGHTS_CHECKING_NOTHING },
    { NULL, 0 },
};

static const Choice image_choices[] = {
    { "auto", WEIGHTS_IMAGE_AUTO },
    { "on", WEIGHTS_IMAGE_ON },
    { "off", WEIGHTS_IMAGE_OFF },
    { NULL, 0 },
};

static const Choice sampling_choices[] = {
    { "model", CONFIG_SAMPLING_MODEL },
    { "greedy", CONFIG_SAMPLING_GREEDY },
    { NULL, 0 },
};

static const Choice demand_choices[] = {
    { "all", CONFIG_DEMAND_ALL },
    { "admins", CONFIG_DEMAND_ADMINS },
    { "default-only", CONFIG_DEMAND_DEFAULT_ONLY },
    { "no", CONFIG_DEMAND_NO },
    { NULL, 0 },
};

static const Choice level_choices[] = {
    { "error", LOG_LEVEL_ERROR }, { "warning", LOG_LEVEL_WARN }, { "notice", LOG_LEVEL_NOTICE },
    { "info", LOG_LEVEL_INFO },   { "debug", LOG_LEVEL_DEBUG },  { NULL, 0 },
};

static const Choice target_choices[] = {
    { "auto", LOG_TARGET_AUTO },
    { "journal", LOG_TARGET_JOURNAL },
    { "stderr", LOG_TARGET_STDERR },
    { NULL, 0 },
};

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define TIB (UINT64_C(1) << 40)
#define DAY_S (UINT64_C(24) * 3600)
#define DAY_MS (UINT64_C(24) * 3600 * 1000)
#define LIVE true
#define RESTART false
#define OR_ZERO true

#define AT(field) offsetof(Config, field)
#define TEXT(name_, field_, initial_, help_)                                                                           \
    { name_, SETTING_TEXT, AT(field_), 0, 0, false, RESTART, initial_, NULL, help_ }
#define TEXT_LIVE(name_, field_, initial_, help_)                                                                      \
    { name_, SETTING_TEXT, AT(field_), 0, 0, false, LIVE, initial_, NULL, help_ }
#define MODEL(name_, field_, initial_, help_)                                                                          \
    { name_, SETTING_MODEL, AT(field_), 0, 0, false, RESTART, initial_, NULL, help_ }
#define MODELS(name_, field_, initial_, help_)                                                                         \
    { name_, SETTING_MODELS, AT(field_), 0, 0, false, RESTART, initial_, NULL, help_ }
#define PATH(name_, field_, initial_, help_)                                                                           \
    { name_, SETTING_PATH, AT(field_), 0, 0, false, RESTART, initial_, NULL, help_ }
#define NUMBER(name_, field_, min_, max_, zero_, live_, initial_, help_)                                               \
    { name_, SETTING_U32, AT(field_), min_, max_, zero_, live_, initial_, NULL, help_ }
#define BYTES(name_, field_, min_, max_, zero_, live_, initial_, help_)                                                \
    { name_, SETTING_BYTES, AT(field_), min_, max_, zero_, live_, initial_, NULL, help_ }
#define RATE(name_, field_, min_, max_, zero_, live_, initial_, help_)                                                 \
    { name_, SETTING_RATE, AT(field_), min_, max_, zero_, live_, initial_, NULL, help_ }
#define DURATION(name_, field_, min_, max_, live_, initial_, help_)                                                    \
    { name_, SETTING_DURATION, AT(field_), min_, max_, false, live_, initial_, NULL, help_ }
#define AGE(name_, field_, min_, max_, zero_, live_, initial_, help_)                                                  \
    { name_, SETTING_AGE, AT(field_), min_, max_, zero_, live_, initial_, NULL, help_ }
#define CHOICE(name_, field_, live_, initial_, choices_, help_)                                                        \
    { name_, SETTING_CHOICE, AT(field_), 0, 0, false, live_, initial_, choices_, help_ }
#define AUTO_SWITCH(name_, field_, live_, initial_, choices_, help_)                                                   \
    { name_, SETTING_SWITCH, AT(field_), 0, 0, false, live_, initial_, choices_, help_ }
#define SOURCES(name_, field_, live_, initial_, help_)                                                                 \
    { name_, SETTING_SOURCES, AT(field_), 0, 0, false, live_, initial_, NULL, help_ }
#define PAIRS(name_, field_, live_, initial_, help_)                                                                   \
    { name_, SETTING_PAIRS, AT(field_), 0, 0, false, live_, initial_, NULL, help_ }
#define MEMORY(name_, field_, max_, live_, initial_, help_)                                                            \
    { name_, SETTING_MEMORY, AT(field_), 0, max_, false, live_, initial_, NULL, help_ }
#define SWITCH(name_, field_, live_, initial_, help_)                                                                  \
    { name_, SETTING_BOOL, AT(field_), 0, 0, false, live_, initial_, NULL, help_ }
#define SWITCH_OFF(name_, field_, live_, initial_, help_)                                                              \
    { name_, SETTING_BOOL_NOT, AT(field_), 0, 0, false, live_, initial_, NULL, help_ }

const Setting config_settings[] = {
    TEXT("listen", listen, "", "socket for apps, PATH or unix:PATH (default: api.sock in the runtime directory)"),
    TEXT("admin-listen", admin_listen, "",
         "socket for administrators (default: admin.sock beside the default of --listen; none when only --listen is "
         "given)"),
    MODEL(
        "model", models.default_model, "",
        "the default model: a .gguf (imported on first use) or a .cgm, or the name of a model; without it coordgenctl "
        "model default says which one, else it is the first that there was"),
    MODELS("preload", models.preload, "",
           "models that are loaded at the start beside the default one: names or paths, with commas between"),
    CHOICE(
        "load-on-demand", models.on_demand, LIVE, "all", demand_choices,
        "whose requests load the model that they name: all, admins, default-only (everybody's, but the default model "
        "alone), or no"),
    PATH("model-dir", models.dir, "", "folder of models that can be loaded by name"),
    PATH("chat-template", models.chat_template, "",
         "file of a chat template (Jinja) that all models are used with, instead of their own; empty: their own"),
    PATH("cache-dir", cache_dir, NULL, "folder of imported models and of images of weights"),
    PATH("state-dir", state_dir, NULL, "folder of what administrators have said: which model drafts for which"),
    MEMORY(
        "weights-memory", load.weights.memory, 1024 * TIB, RESTART, "",
        "for the weights of each model, in bytes or as a part of them (0% to 100%): the first layers stay in memory, "
        "the others are read from the disk in each step; empty: all are in memory"),
    RATE("flash-rate", load.weights.flash_limit.bytes_per_s, 1, 1000000, OR_ZERO, RESTART, "0",
         "reads those as from a disk of so many MB/s (10^6 bytes), for tests and benches; 0: as fast as it is"),
    NUMBER("flash-latency", load.weights.flash_limit.latency_us, 1, 1000000, OR_ZERO, RESTART, "0",
           "and of so many us for each read; 0: none beside its own"),
    PAIRS("draft-model", models.draft_model, LIVE, "",
          "which models draft for which: TARGET=DRAFT, several with commas; a DRAFT is loaded with its TARGET, whose "
          "output stays the same (coordgenctl model pair goes before it)"),
    AUTO_SWITCH(
        "weights-image", load.weights.image, RESTART, "auto", image_choices,
        "keep the weights on disk once more as they are in memory, and map them, so that later loads take less time: "
        "auto (where all images have room in half of what is free), on (where this one has), or off"),
    CHOICE(
        "verify-packages", load.weights.checking, RESTART, "auto", verify_choices,
        "compare packages with their checksums when they are loaded: auto (layers once, for each state of the file), "
        "on (always), or off"),
    CHOICE("device", load.device, RESTART, "cpu", engine_device_choices,
           "cpu (int8), npu (int8 on static graphs, of packages with static activations), or reference (float32 "
           "yardstick, slow)"),
    CHOICE(
        "graph-switch", load.weights.graphs.policy, RESTART, "progressive", graph_switch_choices,
        "when the npu device loads its graphs of prompts and of decoding: none (both are in memory), sync, async, or "
        "progressive (while a prompt is computed)"),
    NUMBER("graph-blocks", load.weights.graphs.n_blocks, 1, GRAPH_BLOCKS_MAX, OR_ZERO, RESTART, "0",
           "parts of the layers whose graphs are loaded by themselves; 0: 8, or as many as there are layers"),
    CHOICE("graph-files", load.weights.graphs.form, RESTART, "auto", graph_form_choices,
           "what graphs are loaded from: packed (the package, expanded on the way), materialised (a file that has them "
           "as they are in memory), or auto (what is sooner on this disk)"),
    BYTES("graphs-memory", load.weights.graphs.memory_bytes, MIB, 1024 * TIB, OR_ZERO, RESTART, "0",
          "limit of the memory for the graphs of a model; 0: 4G"),
    CHOICE(
        "op-order", load.op_order, RESTART, "out-of-order", op_order_choices,
        "what the npu device and the processors beside it run next in steps of several chunks: in-order, static (each "
        "operator for all chunks), out-of-order (what gives the npu most to do), or position (earlier tokens first; "
        "idle processors take products)"),
    CHOICE(
        "op-placement", load.op_placement, RESTART, "profile", op_placement_choices,
        "where products run in steps of several chunks of the npu device: profile (where the whole is measured to be "
        "sooner done), npu (all of matrices there), or all (of attention, too)"),
    CHOICE("isa", load.isa, RESTART, NULL, isa_choices,
           "instruction set to stay within: best, scalar, avx2, avx512vnni, amx, neon, neondot, i8mm"),
    NUMBER("threads", load.threads, 1, 256, OR_ZERO, RESTART, "0", "threads that compute; 0: one for every processor"),
    NUMBER("chunk-tokens", load.chunk_tokens, 1, ENGINE_CHUNK_MAX, OR_ZERO, RESTART, "0",
           "tokens of one prefill step; 0: as many as this machine does best with, 256 to 1024"),
    SWITCH_OFF(
        "pipeline", load.no_pipeline, RESTART, "yes",
        "parts of a prefill step go through the layers each at its own pace, in steps with enough tokens for each "
        "thread"),
    NUMBER("context-tokens", generations.context_tokens, 16, 1u << 20, false, LIVE, "4096",
           "cap on prompt and output of one request"),
    CHOICE("sampling-defaults", generations.sampling_defaults, LIVE, "model", sampling_choices,
           "how tokens are chosen where a request does not say: model (as the model's file or its family asks for), or "
           "greedy (the likeliest one)"),
    SOURCES("speculation", generations.speculation, LIVE, "auto",
            "several tokens a step, from drafts that are verified; where they come from: auto, off, or some of lookup, "
            "sam, history, calibration, table, reuse, model, grammar with commas between; requests may ask for others, "
            "and the output is the same"),
    SWITCH("draftdb", draft_db.is_on, RESTART, "yes",
           "keep what finished requests have answered, on disk, for drafts of the same user's later ones"),
    PATH("draftdb-dir", draft_db.dir, NULL, "folder of that database, its own"),
    BYTES("draftdb-bytes", draft_db.limits.bytes_max, 64 * KIB, TIB, OR_ZERO, RESTART, "64M",
          "that all users' answers may take there; 0: no limit"),
    NUMBER("draftdb-documents", draft_db.limits.documents_max, 1, 1u << 30, OR_ZERO, RESTART, "0",
           "answers that may be there, of all users; 0: no limit"),
    AGE("draftdb-age", draft_db.limits.age_max_s, 1, 36500 * DAY_S, OR_ZERO, RESTART, "90d",
        "an answer that is older is deleted; 0: none is"),
    TEXT_LIVE("no-history", draft_db.no_history, "",
              "users and apps, with commas, whose answers are not kept there, and who get no drafts from it"),
    NUMBER("max-active", turns.max_active, 1, 64, false, LIVE, "4",
           "normal and background generations that take turns"),
    NUMBER("max-active-interactive", turns.max_active_interactive, 1, 64, false, LIVE, "2",
           "interactive generations that take turns, beside those"),
    DURATION("priority-ageing", turns.ageing_ms, 10, DAY_MS, LIVE, "2s",
             "a request that waits for so long counts as one class higher"),
    SWITCH(
        "preemption", load.preemption, RESTART, "yes",
        "steps of lower classes make way for interactive and normal requests; takes memory for a second step of each "
        "model"),
    NUMBER("max-queue", turns.max_queue, 0, 65536, false, LIVE, "128", "requests that may wait for a turn"),
    NUMBER("max-connections", limits.max_connections, 1, 65536, false, LIVE, "256", "connections of apps"),
    NUMBER("max-connections-per-uid", limits.max_connections_per_uid, 1, 65536, false, LIVE, "128",
           "connections of one user's apps"),
    NUMBER("max-requests-per-connection", limits.max_requests_per_connection, 1, 65536, false, LIVE, "64",
           "requests in flight on one connection"),
    NUMBER("max-sessions-per-uid", limits.max_sessions_per_uid, 0, 65536, false, LIVE, "32",
           "sessions that one user's apps may have open"),
    BYTES("frame-max", limits.frame_max_bytes, 4 * KIB, FRAME_MAX_BYTES, false, LIVE, "4M",
          "longest message from a client"),
    BYTES("prompt-max", limits.prompt_max_bytes, 1, FRAME_MAX_BYTES, false, LIVE, "1M", "longest text of one request"),
    NUMBER("prompt-max-tokens", limits.prompt_max_tokens, 1, 1u << 20, OR_ZERO, LIVE, "0",
           "longest prompt; 0: what the context holds"),
    BYTES("output-buffer", limits.output_buffer_bytes, 4 * KIB, 64 * MIB, false, LIVE, "256K",
          "unread output of a connection after which its generations pause"),
    BYTES("memory-limit", memory.limit_bytes, MIB, 1024 * TIB, OR_ZERO, RESTART, NULL,
          "all memory accounts together; 0: none (default: 80 % of what the service may use)"),
    BYTES("kv-memory-limit", memory.kv_limit_bytes, MIB, 1024 * TIB, OR_ZERO, RESTART, NULL,
          "key-value caches of running generations; 0: none (default: 25 % of what the service may use)"),
    NUMBER("kv-user-share", memory.kv_user_percent, 1, 100, false, LIVE, "75",
           "percent of kv-memory-limit that one user's generations may hold; administrators' may hold all"),
    BYTES("prefix-cache-max", memory.prefix_cache_max_bytes, MIB, 1024 * TIB, OR_ZERO, RESTART, NULL,
          "kept keys and values of earlier prompts; 0: none (default: 10 % of what the service may use)"),
    BYTES("session-memory-limit", memory.session_limit_bytes, MIB, 1024 * TIB, OR_ZERO, RESTART, "256M",
          "frames, prompts and buffers of clients; 0: none"),
    DURATION("hello-timeout", timeouts.hello_ms, 10, DAY_MS, LIVE, "10s", "for the first message of a connection"),
    DURATION("frame-timeout", timeouts.frame_ms, 10, DAY_MS, LIVE, "10s", "for a frame to arrive whole"),
    DURATION("stall-timeout", timeouts.stall_ms, 10, DAY_MS, LIVE, "30s",
             "a client that reads nothing of its output for so long is disconnected"),
    DURATION("drain-timeout", timeouts.drain_ms, 0, DAY_MS, LIVE, "10s",
             "after SIGTERM, before running requests are cancelled"),
    DURATION("step-timeout", timeouts.step_ms, 1000, DAY_MS, LIVE, "1min",
             "longest operator, tokenizing or load before the watchdog is no longer fed"),
    SWITCH("api-may-load", models.api_may_load, LIVE, "no", "apps may load and unload models by name"),
    SWITCH("core-dumps", core_dumps, RESTART, "no",
           "a crash may leave a core dump, which can hold prompts and outputs"),
    CHOICE("log-level", log_level, LIVE, "notice", level_choices, "error, warning, notice, info or debug"),
    CHOICE("log-target", log_target, RESTART, "auto", target_choices, "auto, journal or stderr"),
};
const size_t n_config_settings = ARRAY_LEN(config_settings);

const Setting *config_table_find(const char *name) {
    for (size_t i = 0; i < n_config_settings; i++)
        if (!strcmp(config_settings[i].name, name))
            return &config_settings[i];
    return NULL;
}

int config_table_unknown(const char *name, ErrText *err) {
    const char *near = nearest_word_in(name, &config_settings[0].name, sizeof(*config_settings), n_config_settings);

    if (near)
        return err_set(err, CONFIG_E_SETTING, "unknown setting '%.*s': did you mean '%s'?", UTF8_PREFIX(name, 64),
                       near);
    return err_set(err, CONFIG_E_SETTING, "unknown setting '%.*s': see coordgend --help", UTF8_PREFIX(name, 64));
}

const GoneSetting gone_settings[] = {
    { "pin-threads", "threads stay on a processor each where there is one for every processor" },
};
const size_t n_gone_settings = ARRAY_LEN(gone_settings);

const GoneSetting *config_table_find_gone(const char *name) {
    for (size_t i = 0; i < n_gone_settings; i++)
        if (!strcmp(gone_settings[i].name, name))
            return &gone_settings[i];
    return NULL;
}
