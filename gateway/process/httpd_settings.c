// SPDX-License-Identifier: Apache-2.0
#include "gateway/process/httpd_settings.h"

#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "base/min_max.h"
#include "base/strings/command_line.h"
#include "base/strings/decimal.h"

enum {
    DESCRIPTORS_BESIDE_CLIENTS = 192, /* the service's connections, closing and lingering clients, the loop */
    CONNECTIONS_MIN = 4,
    CONNECTIONS_LIMIT = 100000,
    SECONDS_MAX = 86400,
    UNREAD_BYTES = 1 << 20,
    BODIES = 8, /* largest bodies that arrive at a time */
};

#define AT(field) offsetof(HttpdSettings, field)

static const Choice log_levels[] = {
    { "error", LOG_LEVEL_ERROR }, { "warning", LOG_LEVEL_WARN }, { "notice", LOG_LEVEL_NOTICE },
    { "info", LOG_LEVEL_INFO },   { "debug", LOG_LEVEL_DEBUG },  { NULL, 0 },
};

static int add_listen(const CommandOption *option, const char *value, void *field, ErrText *err) {
    HttpdSettings *settings = field;

    if (!*value)
        return COMMAND_E_VALUE;
    if (settings->n_listen == HTTP_SOCKETS_MAX)
        return err_set(err, OPTIONS_E_USAGE, "--listen is given more than %d times", HTTP_SOCKETS_MAX);
    settings->listen[settings->n_listen++] = value;
    return 0;
}

static int add_text(const CommandOption *option, const char *value, void *field, ErrText *err) {
    AccessTexts *texts = field;

    if (!*value || strlen(value) > 253)
        return COMMAND_E_VALUE;
    if (texts->n == ACCESS_TEXTS_MAX)
        return err_set(err, OPTIONS_E_USAGE, "--%s is given more than %d times", option->option.name, ACCESS_TEXTS_MAX);
    texts->texts[texts->n++] = value;
    return 0;
}

static int add_origin(const CommandOption *option, const char *value, void *field, ErrText *err) {
    const char *name = strstr(value, "://");

    if (strcmp(value, "*") && strcmp(value, "null") && (!name || name == value || strchr(name + 3, '/')))
        return COMMAND_E_VALUE;
    return add_text(option, value, field, err);
}

/* Reads a number of bytes: 65536, 64K, 8M, 1G. */
static int set_bytes(const CommandOption *option, const char *value, void *field, ErrText *err) {
    static const char units[] = "KMG";
    uint64_t number;
    const char *end = decimal_read_u64(value, &number), *unit;

    if (end && *end) {
        unit = strchr(units, *end);
        if (!unit || end[1] || number > UINT32_MAX)
            return COMMAND_E_VALUE;
        number <<= 10 * (unit - units + 1);
    }
    if (!end || number < option->least || number > option->most)
        return COMMAND_E_VALUE;
    *(uint64_t *)field = number;
    return 0;
}

#define SECONDS(name, field, help)                                                                                     \
    { { name, 0, "S", help }, command_set_u32, AT(field), 1, SECONDS_MAX, NULL, NULL, NULL }

static const CommandOption options_table[] = {
    { { "listen", 'l', "ADDRESS", "a socket to serve: PATH, 127.0.0.1:PORT or [::1]:PORT; repeatable" },
      add_listen,
      0,
      0,
      0,
      "a path, 127.0.0.1:PORT or [::1]:PORT",
      NULL,
      NULL },
    { { "socket", 's', "PATH", "socket of coordgend" }, command_set_text, AT(socket), 1, 0, "a path", NULL, NULL },
    { { "token-file", 0, "FILE", "tokens that clients must show, one a line; mode 0600; TCP needs it" },
      command_set_text,
      AT(token_file),
      1,
      0,
      "a file",
      NULL,
      NULL },
    { { "allow-origin", 0, "ORIGIN", "web pages from there may use the service: https://HOST[:PORT] or *; repeatable" },
      add_origin,
      AT(origins),
      0,
      0,
      "SCHEME://HOST[:PORT] without a path, null or *",
      NULL,
      NULL },
    { { "allow-host", 0, "NAME", "another name of this machine in Host headers over TCP; repeatable" },
      add_text,
      AT(hosts),
      0,
      0,
      "a name",
      NULL,
      NULL },
    { { "max-body", 0, "BYTES", "of a request: 8M" },
      set_bytes,
      AT(max_body_bytes),
      1 << 10,
      1 << 30,
      "1K to 1G bytes",
      NULL,
      NULL },
    { { "max-connections", 0, "N", "at a time: 1024" },
      command_set_u32,
      AT(max_connections),
      CONNECTIONS_MIN,
      CONNECTIONS_LIMIT,
      NULL,
      NULL,
      NULL },
    { { "max-requests", 0, "N", "at a time: 1024" },
      command_set_u32,
      AT(max_requests),
      1,
      CONNECTIONS_LIMIT,
      NULL,
      NULL,
      NULL },
    SECONDS("idle-timeout", idle_s, "seconds between requests of a connection: 60"),
    SECONDS("head-timeout", head_s, "seconds for the head of a request to arrive: 10"),
    SECONDS("body-timeout", body_s, "seconds for the body of a request to arrive: 60"),
    SECONDS("stall-timeout", stall_s, "seconds without a byte of a reply that the client takes: 60"),
    SECONDS("drain-timeout", drain_s, "seconds for running requests after SIGTERM: 30"),
    { { "idle-exit", 0, "S", "seconds without a connection, then end; 0: never (the default)" },
      command_set_u32,
      AT(exit_s),
      0,
      SECONDS_MAX,
      NULL,
      NULL,
      NULL },
    { { "log-level", 0, "LEVEL", "error, warning, notice (the default), info or debug" },
      command_set_choice,
      AT(log_level),
      0,
      0,
      NULL,
      log_levels,
      NULL },
    { { "any-model", 0, NULL, "answer requests for a model that does not exist with the default one" },
      command_set_flag,
      AT(takes_any_model),
      0,
      0,
      NULL,
      NULL,
      NULL },
    { { "core-dumps", 0, NULL, "allow core dumps, which can hold prompts and answers" },
      command_set_flag,
      AT(core_dumps),
      0,
      0,
      NULL,
      NULL,
      NULL },
    { { "help", 'h', NULL, "this text" }, NULL, 0, 0, 0, NULL, NULL, NULL },
    { { "version", 'V', NULL, "the version" }, NULL, 0, 0, 0, NULL, NULL, NULL },
};

bool httpd_settings_read(HttpdSettings *settings, int argc, char *const argv[], int *statusp) {
    CommandLine line = {
        .program = "coordgen-httpd",
        .see_help = ": see coordgen-httpd --help",
        .tables = { { "Usage: coordgen-httpd [OPTION...]\n"
                      "Serves clients of OpenAI's and llama-server's HTTP interface from coordgend.\n\n",
                      options_table, ARRAY_LEN(options_table) } },
        .help_column = 27,
        .help_foot = "\nWithout --listen: the sockets of systemd, else $XDG_RUNTIME_DIR/coordgen/http.sock.\n",
        .options = settings,
    };

    *settings = (HttpdSettings){
        .max_body_bytes = 8 << 20,
        .max_connections = 1024,
        .max_requests = 1024,
        .idle_s = 60,
        .head_s = 10,
        .body_s = 60,
        .stall_s = 60,
        .drain_s = 30,
        .log_level = LOG_LEVEL_NOTICE,
    };
    if (!command_line_read(&line, argc, argv, statusp))
        return false;
    if (!line.arguments[0])
        return true;
    *statusp = command_line_refuse(&line, "unexpected argument '%.64s'", line.arguments[0]);
    return false;
}

int httpd_settings_fit(HttpdSettings *settings, ErrText *err) {
    const rlim_t wanted = (rlim_t)settings->max_connections + DESCRIPTORS_BESIDE_CLIENTS;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= wanted)
        return 0;
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY ? wanted : MIN(wanted, limit.rlim_max);
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0 && getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return 0;
    if (limit.rlim_cur >= wanted)
        return 0;
    if (limit.rlim_cur < DESCRIPTORS_BESIDE_CLIENTS + CONNECTIONS_MIN)
        return err_set(err, -EMFILE,
                       "the limit on open files (%llu) allows no connections: raise it to %llu (LimitNOFILE= of the "
                       "unit, ulimit -n)",
                       (unsigned long long)limit.rlim_cur, (unsigned long long)wanted);
    settings->max_connections = (uint32_t)(limit.rlim_cur - DESCRIPTORS_BESIDE_CLIENTS);
    log_warn(TOPIC_HTTP,
             "the limit on open files (%llu) allows %u connections: raise it to %llu (LimitNOFILE= of the "
             "unit, ulimit -n)",
             (unsigned long long)limit.rlim_cur, settings->max_connections, (unsigned long long)wanted);
    return 0;
}

void httpd_settings_limits(const HttpdSettings *settings, HttpLimits *limits) {
    *limits = (HttpLimits){
        .body_bytes = settings->max_body_bytes,
        .bodies_bytes = settings->max_body_bytes * BODIES,
        .connections = settings->max_connections,
        .requests = settings->max_requests,
        .idle_ms = settings->idle_s * 1000,
        .head_ms = settings->head_s * 1000,
        .body_ms = settings->body_s * 1000,
        .stall_ms = settings->stall_s * 1000,
        .unread_bytes = UNREAD_BYTES,
    };
}
