// SPDX-License-Identifier: Apache-2.0
/* Structures of options, whose size tells their version. */
#include <string.h>

#include "base/min_max.h"
#include "client/client_internal.h"

static void init(void *options, size_t struct_bytes, const void *defaults, size_t defaults_bytes) {
    if (!options)
        return;
    memset(options, 0, struct_bytes);
    memcpy(options, defaults, MIN(struct_bytes, defaults_bytes));
}

void coordgen_generate_options_init_sized(CoordgenGenerateOptions *options, size_t struct_bytes) {
    CoordgenGenerateOptions defaults = {
        .struct_bytes = struct_bytes,
        .timeout_ms = -1,
        .temperature = COORDGEN_UNSET,
        .top_k = COORDGEN_UNSET_COUNT,
        .top_p = COORDGEN_UNSET,
        .min_p = COORDGEN_UNSET,
        .repetition_penalty = COORDGEN_UNSET,
        .repetition_window = COORDGEN_UNSET_COUNT,
        .thinking_tokens = COORDGEN_UNSET_COUNT,
        .logprobs = COORDGEN_UNSET_COUNT,
    };

    init(options, struct_bytes, &defaults, sizeof(defaults));
}

void coordgen_sampling_options_init_sized(CoordgenSamplingOptions *options, size_t struct_bytes) {
    CoordgenSamplingOptions defaults = {
        .struct_bytes = struct_bytes,
        .typical_p = 1,
        .xtc_threshold = 0.1f,
        .dry_base = 1.75f,
        .dry_allowed_length = 2,
    };

    init(options, struct_bytes, &defaults, sizeof(defaults));
}

void coordgen_embed_options_init_sized(CoordgenEmbedOptions *options, size_t struct_bytes) {
    CoordgenEmbedOptions defaults = { .struct_bytes = struct_bytes, .timeout_ms = -1 };

    init(options, struct_bytes, &defaults, sizeof(defaults));
}

void coordgen_session_options_init_sized(CoordgenSessionOptions *options, size_t struct_bytes) {
    CoordgenSessionOptions defaults = { .struct_bytes = struct_bytes, .timeout_ms = -1 };

    init(options, struct_bytes, &defaults, sizeof(defaults));
}

void coordgen_tokenize_options_init_sized(CoordgenTokenizeOptions *options, size_t struct_bytes) {
    CoordgenTokenizeOptions defaults = { .struct_bytes = struct_bytes,
                                         .timeout_ms = -1,
                                         .thinking_tokens = COORDGEN_UNSET_COUNT };

    init(options, struct_bytes, &defaults, sizeof(defaults));
}

void coordgen_detokenize_options_init_sized(CoordgenDetokenizeOptions *options, size_t struct_bytes) {
    CoordgenDetokenizeOptions defaults = { .struct_bytes = struct_bytes, .timeout_ms = -1 };

    init(options, struct_bytes, &defaults, sizeof(defaults));
}

void coordgen_draft_db_options_init_sized(CoordgenDraftDbOptions *options, size_t struct_bytes) {
    CoordgenDraftDbOptions defaults = { .struct_bytes = struct_bytes, .timeout_ms = -1 };

    init(options, struct_bytes, &defaults, sizeof(defaults));
}

/* More than any version has: a larger number comes from a structure that no _init() function has filled. */
#define OPTIONS_BYTES_MAX 4096

/**
 * client_options_copy() - copy the caller's version of a structure of options
 * @from:        begins with struct_bytes, the size of the caller's version
 * @first_bytes: the size of the first version
 *
 * Bytes that only a newer version has must be zero: an option that this library does not know is refused, never
 * ignored.
 * Return: 0 or a CoordgenError.
 */
int client_options_copy(CoordgenClient *client, void *to, size_t to_bytes, const void *from, size_t first_bytes) {
    size_t from_bytes;

    if (!from)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "options", 0, "the options are NULL");
    memcpy(&from_bytes, from, sizeof(from_bytes)); /* struct_bytes comes first in each of them */
    if (from_bytes < first_bytes || from_bytes > OPTIONS_BYTES_MAX)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "struct_bytes", 0,
                           "%zu: fill the options with their _init() function first", from_bytes);
    for (size_t i = to_bytes; i < from_bytes; i++)
        if (((const char *)from)[i])
            return client_fail(client, COORDGEN_E_UNKNOWN_OPTION, "struct_bytes", 0,
                               "the options hold one that libcoordgen-client %s does not know: update the library",
                               COORDGEN_VERSION);
    memcpy(to, from, MIN(from_bytes, to_bytes));
    return 0;
}
