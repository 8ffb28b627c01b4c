// SPDX-License-Identifier: Apache-2.0
/* Other inputs than messages, and several answers of one prompt. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/strings/decimal.h"
#include "client/ctl/ctl.h"

/* Parses numbers separated by blanks, commas or brackets, so that a JSON array can be pasted. */
bool ctl_ids(const Ctl *ctl, const char *text, uint32_t **idsp, size_t *np) {
    static const char between[] = " \t\r\n,[]";
    size_t n = 0, room = 256;
    _cleanup_(freep) uint32_t *ids = malloc(room * sizeof(*ids));

    for (const char *at = text + strspn(text, between); *at && ids; at += strspn(at, between)) {
        uint64_t id;
        const char *end = decimal_read_u64(at, &id);

        if (!end || id > UINT32_MAX || (*end && !strchr(between, *end))) {
            ctl_usage_error(ctl, "'%.*s' is no token id", (int)strcspn(at, between), at);
            return false;
        }
        if (n == room) {
            uint32_t *more = reallocarray(ids, room *= 2, sizeof(*ids));

            if (!more)
                free(ids);
            ids = more;
            if (!ids)
                break;
        }
        ids[n++] = (uint32_t)id;
        at = end;
    }
    if (!ids) {
        fputs("coordgenctl: out of memory\n", stderr);
        return false;
    }
    *np = n;
    *idsp = steal(&ids);
    return true;
}

bool ctl_is_raw(const Ctl *ctl) {
    return ctl_has(ctl, "raw") || ctl_has(ctl, "suffix") || ctl_has(ctl, "prompt-tokens");
}

/* Refuses options without a place in the input that the others choose. */
static bool fits(const Ctl *ctl) {
    static const char *const of_chats[] = { "answer-prefix", "system", "tools", "documents", "no-generation-prompt" };

    for (size_t i = 0; i < ARRAY_LEN(of_chats) && ctl_is_raw(ctl); i++)
        if (ctl_has(ctl, of_chats[i])) {
            ctl_usage_error(ctl, "--%s takes the prompt as it is: --%s has no place in it",
                            ctl_has(ctl, "raw")      ? "raw"
                            : ctl_has(ctl, "suffix") ? "suffix"
                                                     : "prompt-tokens",
                            of_chats[i]);
            return false;
        }
    if (ctl_has(ctl, "prompt-tokens") && (ctl->n_args || ctl_has(ctl, "file") || ctl_has(ctl, "suffix"))) {
        ctl_usage_error(ctl, "--prompt-tokens is the whole prompt: arguments, --file and --suffix have no place in it");
        return false;
    }
    if (ctl_has(ctl, "echo") && !ctl_is_raw(ctl)) {
        ctl_usage_error(ctl, "--echo prints a raw prompt: it needs --raw, --suffix or --prompt-tokens");
        return false;
    }
    return true;
}

bool ctl_completion(const Ctl *ctl, CoordgenGenerateOptions *options, uint32_t **idsp) {
    uint64_t n = 0;

    if (!fits(ctl) || !ctl_number(ctl, "n", UINT32_MAX, &n))
        return false;
    if (ctl_has(ctl, "n") && !n) {
        ctl_usage_error(ctl, "--n=0: at least one answer");
        return false;
    }
    options->n = (uint32_t)n;
    options->suffix = ctl_text(ctl, "suffix", NULL);
    options->answer_prefix = ctl_text(ctl, "answer-prefix", NULL);
    options->echo = ctl_has(ctl, "echo");
    if (!ctl_has(ctl, "prompt-tokens"))
        return true;
    if (!ctl_ids(ctl, ctl_text(ctl, "prompt-tokens", ""), idsp, &options->n_prompt_tokens))
        return false;
    if (!options->n_prompt_tokens)
        ctl_usage_error(ctl, "--prompt-tokens: at least one token is needed");
    options->prompt_tokens = *idsp;
    return options->n_prompt_tokens;
}

/* Prints one of several answers as it would have been printed on its way. */
static bool put_choice(const Ctl *ctl, const CoordgenChoice *choice) {
    CoordgenEvent event = { .struct_bytes = sizeof(event), .kind = COORDGEN_EVENT_DELTA };
    CtlAnswer answer = { 0 };
    int r;

    event.part = COORDGEN_PART_REASONING;
    event.text = choice->reasoning;
    event.text_bytes = strlen(choice->reasoning);
    r = ctl_answer_put(&answer, ctl, &event);
    event.part = COORDGEN_PART_TEXT;
    event.text = choice->text;
    event.text_bytes = choice->text_bytes;
    if (!r)
        r = ctl_answer_put(&answer, ctl, &event);
    for (size_t i = 0; i < choice->n_tool_calls && !r; i++) {
        const CoordgenToolCall *call = &choice->tool_calls[i];
        const CoordgenCallDelta delta = { .index = (uint32_t)i,
                                          .id = call->id,
                                          .name = call->name,
                                          .arguments = call->arguments,
                                          .arguments_bytes = strlen(call->arguments) };

        event.part = COORDGEN_PART_CALL;
        event.text_bytes = 0;
        event.call = &delta;
        r = ctl_answer_put(&answer, ctl, &event);
    }
    ctl_answer_end(&answer, true);
    return !r;
}

bool ctl_print_choices(const Ctl *ctl, const CoordgenGenerateResult *result) {
    for (size_t i = 0; i < result->n_choices; i++) {
        printf("%s==> %zu of %zu: seed %" PRIu64 ", %s <==\n", i ? "\n" : "", i + 1, result->n_choices,
               result->choices[i].seed, coordgen_end_reason_name((int)result->choices[i].end_reason));
        if (!put_choice(ctl, &result->choices[i]))
            return false;
    }
    return true;
}
