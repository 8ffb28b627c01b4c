// SPDX-License-Identifier: Apache-2.0
/* top: shows the generations that run or wait, live. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <string.h>

#include "base/strings/str_buf.h"
#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"

enum {
    TOP_TIMEOUT_MS = 10000,
    TOP_INTERVAL_MS = 1000,
};

/* The pace of a generation since the last look, or since its begin at the first look. */
typedef struct Pace {
    double tokens_per_s, accept_length, rows_a_step;
    double read_bytes_per_s; /* of layers streamed from the disk */
    bool has_steps;
    bool drafts_rest; /* steps have run without drafts */
} Pace;

static const CoordgenRequestInfo *find(CoordgenReply *reply, uint64_t number) {
    for (size_t i = 0; i < coordgen_reply_n_requests(reply); i++)
        if (coordgen_reply_request(reply, i)->number == number)
            return coordgen_reply_request(reply, i);
    return NULL;
}

static Pace pace_of(const CoordgenRequestInfo *now, const CoordgenRequestInfo *before) {
    static const CoordgenExplanation nothing = { 0 };
    const CoordgenExplanation *to = now->explanation, *from = &nothing;
    Pace pace = { 0 };
    uint64_t n_steps;

    if (before && now->age_us > before->age_us && now->output_tokens >= before->output_tokens)
        pace.tokens_per_s =
            (double)(now->output_tokens - before->output_tokens) * 1e6 / (double)(now->age_us - before->age_us);
    else if (now->decode_us)
        pace.tokens_per_s = (double)now->output_tokens * 1e6 / (double)now->decode_us;
    if (before && before->explanation->decode_steps < to->decode_steps)
        from = before->explanation;
    if (before && now->age_us > before->age_us && to->read_bytes > before->explanation->read_bytes)
        pace.read_bytes_per_s =
            (double)(to->read_bytes - before->explanation->read_bytes) * 1e6 / (double)(now->age_us - before->age_us);
    n_steps = to->decode_steps - from->decode_steps;
    if (!n_steps)
        return pace;
    pace.has_steps = true;
    pace.accept_length = (double)(to->valid_rows - from->valid_rows) / (double)n_steps;
    pace.rows_a_step =
        (double)(to->valid_rows + to->wasted_rows - from->valid_rows - from->wasted_rows) / (double)n_steps;
    pace.drafts_rest = to->verifications == from->verifications;
    return pace;
}

static void put_user(FILE *out, uint32_t uid) {
    const struct passwd *user = getpwuid((uid_t)uid);
    char text[16];

    snprintf(text, sizeof(text), "%" PRIu32, uid);
    fprintf(out, " %-12.12s", user && *user->pw_name ? user->pw_name : text);
}

static void put_state(FILE *out, const CoordgenRequestInfo *request) {
    const char *name = coordgen_request_state_name((int)request->state);
    char text[32];

    if (request->state == COORDGEN_REQUEST_QUEUED && request->queue_position)
        snprintf(text, sizeof(text), "%s %" PRIu32, name, request->queue_position);
    else if (request->state == COORDGEN_REQUEST_PREFILL && request->prompt_tokens)
        snprintf(text, sizeof(text), "%s %.0f %%", name,
                 100.0 * (double)request->read_tokens / (double)request->prompt_tokens);
    else
        snprintf(text, sizeof(text), "%s", name);
    fprintf(out, " %-13s", text);
}

static void put_sources(FILE *out, const CoordgenExplanation *explanation, const Pace *pace) {
    bool any = false;

    if (explanation->off) {
        fprintf(out, "off (%s)", coordgen_speculation_off_name((int)explanation->off));
        return;
    }
    for (size_t i = 0; i < explanation->n_sources; i++) {
        if (!explanation->sources[i]->is_on)
            continue;
        fputs(any ? "," : "", out);
        ctl_put_text(out, explanation->sources[i]->name, true);
        any = true;
    }
    fputs(!any ? "-" : pace->has_steps && pace->drafts_rest ? " (no drafts now)" : "", out);
}

static void put_request(FILE *out, const Ctl *ctl, const CoordgenRequestInfo *request,
                        const CoordgenRequestInfo *before) {
    const Pace pace = pace_of(request, before);

    fprintf(out, "%8" PRIu64, request->number);
    put_user(out, request->uid);
    fprintf(out, " %-11s", coordgen_priority_name((int)request->priority));
    put_state(out, request);
    fprintf(out, " %7" PRIu32 " %7" PRIu32 " %8.1f", request->prompt_tokens, request->output_tokens, pace.tokens_per_s);
    if (pace.has_steps)
        fprintf(out, " %6.2f %6.1f  ", pace.accept_length, pace.rows_a_step);
    else
        fprintf(out, " %6s %6s  ", "-", "-");
    put_sources(out, request->explanation, &pace);
    if (pace.read_bytes_per_s > 0)
        fprintf(out, "  %.0f MB/s read", pace.read_bytes_per_s / 1e6);
    fputs("  ", out);
    ctl_put_text(out, request->model, ctl->out_tty);
    fputc('\n', out);
}

static void put_table(FILE *out, const Ctl *ctl, CoordgenReply *reply, CoordgenReply *before) {
    fprintf(out, "%8s %-12s %-11s %-13s %7s %7s %8s %6s %6s  %s\n", "REQUEST", "USER", "CLASS", "STATE", "PROMPT",
            "OUTPUT", "TOKENS/S", "ACCEPT", "ROWS", "SPECULATION, MODEL");
    for (size_t i = 0; i < coordgen_reply_n_requests(reply); i++)
        put_request(out, ctl, coordgen_reply_request(reply, i), find(before, coordgen_reply_request(reply, i)->number));
    if (coordgen_reply_more_requests(reply))
        fprintf(out, "and %" PRIu32 " more\n", coordgen_reply_more_requests(reply));
}

/* Prints a look. On a terminal it replaces the look before, by "home" and "erase below" of ECMA-48, with lines cut to
 * the current width. 0 or -ENOMEM. */
static int put_look(const Ctl *ctl, CoordgenReply *reply, CoordgenReply *before, bool first) {
    _cleanup_(freep) char *text = NULL;
    size_t len_bytes;
    FILE *table;

    if (!ctl->out_tty) {
        if (!first)
            putchar('\n');
        put_table(stdout, ctl, reply, before);
        return 0;
    }
    table = open_memstream(&text, &len_bytes);
    if (!table)
        return -ENOMEM;
    put_table(table, ctl, reply, before);
    if (fclose(table))
        return -ENOMEM;
    fputs(first ? "\033[H\033[2J" : "\033[H\033[J", stdout);
    ctl_put_lines(stdout, text, ctl_columns(STDOUT_FILENO));
    return 0;
}

static int put_json(const Ctl *ctl, CoordgenReply *reply) {
    json_t *object = json_object(), *requests = json_array();

    for (size_t i = 0; i < coordgen_reply_n_requests(reply); i++)
        json_array_append_new(requests, ctl_json_request(coordgen_reply_request(reply, i)));
    ctl_json_set(object, "requests", requests);
    ctl_json_set(object, "more", json_integer(coordgen_reply_more_requests(reply)));
    return ctl_json_print_line(ctl, object);
}

/* Waits between two looks. Returns whether Ctrl-C came. */
static bool rest(Ctl *ctl) {
    struct pollfd wait = { .fd = ctl->signal_fd, .events = POLLIN };

    (void)poll(&wait, 1, TOP_INTERVAL_MS);
    return ctl_interrupted(ctl);
}

/* Takes a look and prints it; *beforep keeps its reply for the next one. 0 or an exit status. */
static int look(Ctl *ctl, CoordgenReply **beforep, bool first) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    int r;

    r = ctl_wait(ctl, &wait, coordgen_request_list_start(ctl->client, TOP_TIMEOUT_MS, ctl_wait_event, &wait, NULL));
    if (r)
        return r;
    if (wait.interrupted)
        return CTL_EXIT_INTERRUPTED;
    if (coordgen_reply_error(wait.reply))
        return ctl_failed_reply(ctl, &wait);
    if (ctl->json)
        r = put_json(ctl, wait.reply);
    else
        r = put_look(ctl, wait.reply, *beforep, first);
    if (r || fflush(stdout))
        return CTL_EXIT_FAILED; /* main() reports the failed output */
    coordgen_reply_unref(*beforep);
    *beforep = steal(&wait.reply);
    return 0;
}

/* Runs until Ctrl-C, unless a number of looks is given. */
static int top_run(Ctl *ctl) {
    const bool is_bounded = ctl_has(ctl, "once") || ctl_has(ctl, "count");
    CoordgenReply *before = NULL;
    uint64_t count = 1;
    int r;

    if (!ctl_number(ctl, "count", UINT32_MAX, &count))
        return CTL_EXIT_USAGE;
    if (ctl_has(ctl, "count") && (!count || ctl_has(ctl, "once")))
        return ctl_usage_error(ctl, count ? "--once is --count=1: one of the two" : "--count=0: 1 at least");
    r = ctl_connect(ctl);
    for (uint64_t i = 0; !r && (!is_bounded || i < count); i++) {
        if (i && rest(ctl))
            r = CTL_EXIT_INTERRUPTED;
        if (!r)
            r = look(ctl, &before, i == 0);
    }
    coordgen_reply_unref(before);
    return r == CTL_EXIT_INTERRUPTED && !is_bounded ? CTL_EXIT_OK : r;
}

static const Option top_options[] = {
    { "count", 'n', "N", "end after N looks (default: with Ctrl-C)" },
    { "once", 0, NULL, "one look: --count=1" },
};

const CtlVerb ctl_verb_top = {
    .name = "top",
    .arguments = "",
    .summary = "watch the generations that run or wait",
    .more = "A look every second: of each its number (see explain), user, class, state, tokens, tokens a\n"
            "second, tokens a step (ACCEPT), rows a step, and where drafts come from or why there are\n"
            "none. The rates are those since the last look. --json prints one object a look, on a line.\n"
            "Who is not an administrator sees their own apps' requests.\n"
            "\nExamples\n"
            "  coordgenctl top\n"
            "  coordgenctl top --once --json | jq '.requests[].state'\n",
    .options = top_options,
    .n_options = ARRAY_LEN(top_options),
    .run = top_run,
};
