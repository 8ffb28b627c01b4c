// SPDX-License-Identifier: Apache-2.0
#include "gateway/http/head_check.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/strings/decimal.h"
#include "base/strings/utf8.h"

/* What of the head may be there once. */
typedef struct HeadOnce {
    unsigned int n_lengths, n_codings, n_hosts;
    const char *length, *coding; /* the last ones */
    bool has_wrong_text;         /* a name or value of the query is not UTF-8, or has a NUL */
} HeadOnce;

static enum MHD_Result take_header(void *arg, enum MHD_ValueKind kind, const char *name, const char *value) {
    HeadOnce *head = arg;

    if (!strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH)) {
        head->n_lengths++;
        head->length = value;
    } else if (!strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
        head->n_codings++;
        head->coding = value;
    } else if (!strcasecmp(name, MHD_HTTP_HEADER_HOST)) {
        head->n_hosts++;
    }
    return MHD_YES;
}

static enum MHD_Result take_argument(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_bytes,
                                     const char *value, size_t value_bytes) {
    HeadOnce *head = arg;

    if (!utf8_is_valid(name, name_bytes) || memchr(name, 0, name_bytes) ||
        (value && (!utf8_is_valid(value, value_bytes) || memchr(value, 0, value_bytes))))
        head->has_wrong_text = true;
    return MHD_YES;
}

int head_check_too_long(size_t body_bytes_max, ApiError *error) {
    return api_error_set(error, 413, "invalid_request_error", "request_too_large",
                         "the body is longer than %zu bytes (--max-body): send less", body_bytes_max);
}

static int check_body(const HeadOnce *head, size_t body_bytes_max, ApiError *error) {
    uint64_t length;

    if (head->n_lengths + head->n_codings > 1)
        return api_error_field(error, NULL,
                               "the body's length is told more than once: send one Content-Length or one "
                               "Transfer-Encoding");
    if (head->coding && strcasecmp(head->coding, "chunked"))
        return api_error_set(error, 501, "invalid_request_error", NULL,
                             "the only Transfer-Encoding of requests is chunked");
    if (!head->length)
        return 0;
    if (!decimal_parse_u64(head->length, &length))
        return api_error_field(error, NULL, "Content-Length is not a number");
    return length > body_bytes_max ? head_check_too_long(body_bytes_max, error) : 0;
}

int head_check(struct MHD_Connection *mhd, const char *path, bool has_nul, size_t body_bytes_max, ApiError *error) {
    HeadOnce head = { 0 };

    MHD_get_connection_values(mhd, MHD_HEADER_KIND, take_header, &head);
    MHD_get_connection_values_n(mhd, MHD_GET_ARGUMENT_KIND, take_argument, &head);
    if (has_nul || head.has_wrong_text || !utf8_is_valid(path, strlen(path)))
        return api_error_field(error, NULL, "the request's path or query is not UTF-8, or has a NUL");
    if (head.n_hosts > 1)
        return api_error_field(error, NULL, "Host is there more than once: send one");
    return check_body(&head, body_bytes_max, error);
}

bool head_check_has_nul(const char *target) {
    const size_t path_bytes = strcspn(target, "?");
    const char *found = strstr(target, "%00");

    return found && (size_t)(found - target) < path_bytes;
}
