// SPDX-License-Identifier: Apache-2.0
/* The command line of coordgen-httpd. Thread: one, at the start. */
#ifndef COORDGEN_GATEWAY_HTTPD_SETTINGS_H
#define COORDGEN_GATEWAY_HTTPD_SETTINGS_H

#include <stdint.h>

#include "base/err.h"
#include "gateway/access/access.h"
#include "gateway/http/http_server.h"

typedef struct HttpdSettings {
    const char *listen[HTTP_SOCKETS_MAX];
    size_t n_listen;
    const char *socket; /* of the service; NULL: where libcoordgen-client looks */
    const char *token_file;
    AccessTexts hosts, origins;
    uint64_t max_body_bytes;
    uint32_t max_connections, max_requests;
    uint32_t idle_s, head_s, body_s, stall_s, drain_s;
    uint32_t exit_s; /* without a connection; 0: never */
    uint32_t log_level;
    bool core_dumps;
    bool takes_any_model; /* a name of no model means the default one */
} HttpdSettings;

/* Reads the command line. false: the program ends with *statusp, and has said why. */
bool httpd_settings_read(HttpdSettings *settings, int argc, char *const argv[], int *statusp);
/* Raises the limit on open files as far as the connections need and the system permits, and lowers max_connections to
 * what the limit allows. 0 or -EMFILE. */
int httpd_settings_fit(HttpdSettings *settings, ErrText *err);
void httpd_settings_limits(const HttpdSettings *settings, HttpLimits *limits);

#endif
