// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"

bool ctl_logprobs(const Ctl *ctl, CoordgenGenerateOptions *options) {
    uint64_t n = COORDGEN_UNSET_COUNT;

    if (!ctl_number(ctl, "logprobs", COORDGEN_UNSET_COUNT - 1, &n)) /* the library knows the greatest number */
        return false;
    options->logprobs = (uint32_t)n;
    return true;
}

static void print_one(const CoordgenLogprob *one) {
    fprintf(stdout, "%9.4f \"", (double)one->logprob);
    ctl_put_escaped(stdout, one->piece, one->piece_bytes);
    fputc('"', stdout);
}

void ctl_print_logprobs(const CoordgenEvent *event) {
    for (size_t i = 0; i < event->n_logprobs; i++) {
        const CoordgenTokenLogprobs *token = &event->logprobs[i];

        fprintf(stdout, "%8" PRIu32 " ", token->chosen.token);
        print_one(&token->chosen);
        for (size_t j = 0; j < token->n_top; j++) {
            fputs(j ? " " : "  |", stdout);
            print_one(&token->top[j]);
        }
        fputc('\n', stdout);
    }
}

/* Returns the bytes of a token as numbers: a token may have a part of a character. */
static json_t *bytes_of(const CoordgenLogprob *one) {
    json_t *list = json_array();

    for (size_t i = 0; i < one->piece_bytes; i++)
        json_array_append_new(list, json_integer((unsigned char)one->piece[i]));
    return list;
}

static json_t *logprob_of(const CoordgenLogprob *one) {
    json_t *object = json_object();

    ctl_json_set(object, "token", json_integer(one->token));
    ctl_json_set(object, "logprob", isfinite(one->logprob) ? json_real((double)one->logprob) : json_null());
    ctl_json_set(object, "text", ctl_json_text(one->piece, one->piece_bytes));
    ctl_json_set(object, "bytes", bytes_of(one));
    return object;
}

void ctl_json_add_logprobs(json_t *list, const CoordgenEvent *event) {
    for (size_t i = 0; i < event->n_logprobs; i++) {
        const CoordgenTokenLogprobs *token = &event->logprobs[i];
        json_t *object = logprob_of(&token->chosen), *tops = json_array();

        for (size_t j = 0; j < token->n_top; j++)
            json_array_append_new(tops, logprob_of(&token->top[j]));
        ctl_json_set(object, "top", tops);
        json_array_append_new(list, object);
    }
}
