// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"

typedef struct Stream {
    Ctl *ctl;
    uint64_t n_deltas;
    json_t *logprobs; /* of all tokens so far, for --json=pretty */
    CtlAnswer answer;
    bool is_several; /* the request sets n */
} Stream;

static void stream_deinit(Stream *stream) {
    json_decref(stream->logprobs);
}

static int stream_event(void *arg, const CoordgenEvent *event) {
    Stream *stream = arg;
    Ctl *ctl = stream->ctl;
    json_t *line;

    if (event->kind == COORDGEN_EVENT_PROGRESS) {
        if (ctl_loading(ctl, event, ""))
            return 0;
        if (event->queue_position)
            ctl_progress_queued(ctl, event->queue_position);
        else if (event->prompt_tokens)
            ctl_progress(ctl, "reading", (double)event->prefilled_tokens / event->prompt_tokens, -1);
        return 0;
    }
    if (!stream->n_deltas)
        ctl_progress_clear(ctl);
    if (ctl->json == CTL_JSON_SHORT) {
        line = json_object();
        ctl_json_set(line, "event", json_string("delta"));
        ctl_json_set(line, "sequence", json_integer((json_int_t)stream->n_deltas));
        if (stream->is_several)
            ctl_json_set(line, "choice", json_integer(event->choice));
        ctl_json_set_part(line, event);
        if (event->n_logprobs) {
            json_t *logprobs = json_array();

            ctl_json_add_logprobs(logprobs, event);
            ctl_json_set(line, "logprobs", logprobs);
        }
        stream->n_deltas++;
        return ctl_json_print_line(ctl, line);
    }
    stream->n_deltas++;
    if (ctl->json == CTL_JSON_PRETTY) {
        ctl_json_add_logprobs(stream->logprobs, event);
        return 0;
    }
    if (stream->is_several) /* several answers come at the end, one after the other */
        return 0;
    if (ctl_has(ctl, "logprobs")) { /* the table has the text, too */
        ctl_print_logprobs(event);
        return fflush(stdout) ? 1 : 0;
    }
    return ctl_answer_put(&stream->answer, ctl, event);
}

static int print_end(Ctl *ctl, Stream *stream, const CtlWait *wait) {
    const CoordgenGenerateResult *result = coordgen_reply_generate(wait->reply);
    const CoordgenExplanation *explanation = coordgen_reply_explanation(wait->reply);
    bool cancelled = result->end_reason == COORDGEN_END_CANCELLED;
    json_t *object;

    if (ctl->json) {
        object = ctl_json_result(result);
        if (result->more_sampling)
            ctl_json_more_sampling(json_object_get(object, "sampling"), result->more_sampling);
        if (explanation)
            ctl_json_set(object, "explanation", ctl_json_explanation(explanation));
        if (ctl->json == CTL_JSON_SHORT)
            ctl_json_set(object, "event", json_string("end"));
        else if (ctl_has(ctl, "logprobs"))
            ctl_json_set(object, "logprobs", json_incref(stream->logprobs));
        if (ctl_json_print(ctl, object))
            return CTL_EXIT_FAILED;
    } else if (stream->is_several) {
        if (!ctl_print_choices(ctl, result))
            return CTL_EXIT_FAILED;
    } else {
        ctl_answer_end(&stream->answer, ctl->out_tty);
    }
    if (fflush(stdout) || ferror(stdout))
        return CTL_EXIT_FAILED; /* main() reports the reason */
    if (result->end_reason == COORDGEN_END_CONTEXT_FULL)
        fprintf(stderr,
                "coordgenctl: the context is full: the text ends here, at %" PRIu32
                " tokens with the prompt; coordgenctl "
                "model show tells what raises that\n",
                result->prompt_tokens + result->output_tokens);
    if (result->end_reason == COORDGEN_END_REPETITION ||
        result->ended_in_time) /* a limit that the user set needs no message */
        ctl_print_cut(result, "coordgenctl: ", "\n");
    if (!result->text_bytes && !result->n_tool_calls && *result->reasoning && !cancelled && !ctl->json)
        fputs("coordgenctl: the answer ended inside the thinking, without text: --think N limits the thinking, "
              "--no-think leaves it out\n",
              stderr);
    ctl_print_timings(ctl, result);
    if (explanation && !ctl->json && !ctl->quiet)
        ctl_print_explanation(stderr, explanation);
    if (cancelled)
        fputs("coordgenctl: cancelled\n", stderr);
    if (wait->interrupted)
        return CTL_EXIT_INTERRUPTED;
    return cancelled ? CTL_EXIT_FAILED : CTL_EXIT_OK;
}

static int generate_run(Ctl *ctl) {
    const char *stops[CTL_STOPS_MAX], *system_text = ctl_text(ctl, "system", NULL);
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    CoordgenGenerateOptions options;
    _cleanup_(freep) char *prompt = NULL, *tools = NULL, *documents = NULL, *constraint = NULL;
    CoordgenMessage messages[2];
    _cleanup_(freep) uint32_t *ids = NULL;
    _cleanup_(stream_deinit) Stream stream = { .ctl = ctl, .logprobs = json_array() };
    _cleanup_(ctl_more_sampling_deinit) CtlMoreSampling more = { 0 };
    int r;

    if (!ctl_sampling(ctl, &options, COORDGEN_PRIORITY_NORMAL, stops, ARRAY_LEN(stops)) ||
        !ctl_more_sampling(ctl, &more, &options) || !ctl_logprobs(ctl, &options))
        return CTL_EXIT_USAGE;
    if (!ctl_completion(ctl, &options, &ids))
        return CTL_EXIT_USAGE;
    stream.is_several = options.n;
    if (options.n && ctl_has(ctl, "logprobs") && ctl->json != CTL_JSON_SHORT)
        return ctl_usage_error(ctl, "--logprobs with --n needs --json=short, where each piece tells its answer");
    if (ctl_is_raw(ctl) && (ctl_has(ctl, "template-kwargs") || ctl_has(ctl, "think") || ctl_has(ctl, "no-think")))
        return ctl_usage_error(ctl,
                               "--raw takes the prompt as it is: --template-kwargs, --think and --no-think have no "
                               "place in it");
    r = ctl_constraint(ctl, &options, &constraint);
    if (r)
        return r;
    prompt = ids ? strdup("") : ctl_prompt(ctl);
    if (!prompt || !ctl_option_file(ctl, "tools", &tools) || !ctl_option_file(ctl, "documents", &documents))
        return CTL_EXIT_FAILED;
    options.tools = tools;
    options.documents = documents;
    if (ctl_is_raw(ctl)) {
        options.prompt = ids ? NULL : prompt;
    } else {
        if (system_text)
            messages[options.n_messages++] = (CoordgenMessage){ .role = COORDGEN_ROLE_SYSTEM, .text = system_text };
        messages[options.n_messages++] = (CoordgenMessage){ .role = COORDGEN_ROLE_USER, .text = prompt };
        options.messages = messages;
    }
    options.no_generation_prompt = ctl_has(ctl, "no-generation-prompt");
    options.ignore_end = ctl_has(ctl, "ignore-end");
    options.explain = ctl_has(ctl, "explain");
    r = ctl_connect(ctl);
    if (r)
        return r;
    wait.fn = stream_event;
    wait.arg = &stream;
    r = ctl_wait(ctl, &wait, coordgen_generate_start(ctl->client, &options, ctl_wait_event, &wait, NULL));
    if (r == CTL_EXIT_INTERRUPTED)
        fputs("\ncoordgenctl: interrupted without an answer of the service\n", stderr);
    if (r)
        return r;
    ctl_progress_clear(ctl);
    if (!coordgen_reply_error(wait.reply))
        return print_end(ctl, &stream, &wait);
    ctl_answer_end(&stream.answer, true);
    return ctl_failed_reply(ctl, &wait);
}

static const Option generate_options[] = {
    { "file", 'f', "PATH", "text of the prompt, after the arguments; -: standard input" },
    { "raw", 'r', NULL, "no chat template: the model goes on with this very text" },
    CTL_SAMPLING_OPTIONS,
    { "suffix", 0, "TEXT", "fill the gap between the prompt and this text; implies --raw" },
    { "prompt-tokens", 0, "IDS", "the prompt as token ids, as they are: 1,2,3" },
    { "echo", 0, NULL, "print the raw prompt before the answer" },
    { "answer-prefix", 0, "TEXT", "the beginning of the answer, from which the model goes on" },
    { "n", 0, "N", "as many answers, up to 16; answer i has the seed + i" },
    CTL_MORE_SAMPLING_OPTIONS,
    { "logprobs", 0, "N", "a table of tokens and log probabilities, with those of the N likeliest (0..20)" },
    { "no-generation-prompt", 0, NULL, "end the prompt behind the message, not where the answer begins" },
    { "ignore-end", 0, NULL, "go on past the model's end of the text (for measuring)" },
    { "explain", 0, NULL, "what drafts have brought, on standard error (in JSON: explanation)" },
};

const CtlVerb ctl_verb_generate = {
    .name = "generate",
    .arguments = "[PROMPT...]",
    .summary = "let the model answer one prompt",
    .more = "The prompt is made of the arguments, then the file. Without both it is read from\n"
            "standard input. The answer goes to standard output as it is written, timings to\n"
            "standard error when that is a terminal. Ctrl-C cancels (exit status 130).\n"
            "\nExamples\n"
            "  coordgenctl generate 'Name three rivers.'\n"
            "  coordgenctl generate 'Summarise this text.' --file notes.txt --max-tokens 200\n"
            "  git diff | coordgenctl generate --system 'Write a commit message for this change.'\n"
            "  coordgenctl generate --explain --speculation=auto 'Summarise this.' --file notes.txt\n"
            "  coordgenctl generate --json-schema person.json 'Who wrote Faust?'\n"
            "  coordgenctl generate --regex 'yes|no' 'Is water wet?'\n"
            "  coordgenctl generate --raw 'Once upon a time' --temperature 0.8 --seed 7\n"
            "  coordgenctl generate --n 3 --temperature 1 'A name for a cat?'\n"
            "  coordgenctl generate --suffix $'\\n\\nprint(add(1, 2))' 'def add(a, b):'\n"
            "  coordgenctl generate --json=short 'Hello' | jq -r 'select(.event == \"delta\").text'\n",
    .options = generate_options,
    .n_options = ARRAY_LEN(generate_options),
    .n_args_max = -1,
    .run = generate_run,
};
