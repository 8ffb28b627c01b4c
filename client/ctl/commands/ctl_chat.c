// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/strings/nearest_word.h"
#include "base/strings/str_buf.h"
#include "client/ctl/ctl.h"
#include "client/ctl/ctl_line.h"

#define SESSION_TIMEOUT_MS 10000
#define ANSWER_TOKENS_MAX 1024 /* of one answer, without --max-tokens */

/* A conversation in a session of the service, which receives only each new question. The whole conversation is sent if
 * it was edited here, or if the service has no room for a session. */
typedef struct Chat {
    Ctl *ctl;
    CoordgenGenerateOptions options;
    const char *model;         /* NULL: the default */
    char *system_text;         /* NULL: none */
    char *tools, *documents;   /* NULL: none */
    char *constraint;          /* from a file; NULL: none */
    CoordgenMessage *messages; /* [room]; owns all texts but that of the system message, set at each send */
    size_t n_messages, room;
    uint64_t session; /* 0: no session holds these messages */
    CtlAnswer answer;
    bool begun;
    int failed; /* exit status of the first question that failed; 0: none */
} Chat;

static void message_free(const CoordgenMessage *message) {
    free((char *)(uintptr_t)message->text);
    free((char *)(uintptr_t)message->reasoning);
}

static void chat_reset(Chat *chat) {
    for (size_t i = 1; i < chat->n_messages; i++)
        message_free(&chat->messages[i]);
    chat->n_messages = 1; /* the place of the system message */
}

/* Leaves the session, which no longer holds these messages. */
static void chat_leave_session(Chat *chat) {
    if (chat->session)
        (void)coordgen_session_close(chat->ctl->client, chat->session, SESSION_TIMEOUT_MS);
    chat->session = 0;
}

/* Opens a session that holds everything but the last question. A failure is ignored: the conversation goes on without.
 * */
static void chat_enter_session(Chat *chat, size_t skip) {
    CoordgenSessionOptions options;

    coordgen_session_options_init(&options);
    options.timeout_ms = SESSION_TIMEOUT_MS;
    options.model = chat->model;
    options.messages = chat->messages + skip;
    options.n_messages = chat->n_messages - skip - 1;
    if (!chat->session && coordgen_session_open(chat->ctl->client, &options, &chat->session))
        chat->session = 0;
}

static void chat_deinit(Chat *chat) {
    if (chat->messages)
        chat_reset(chat);
    free(chat->messages);
    free(chat->system_text);
    free(chat->tools);
    free(chat->documents);
    free(chat->constraint);
}

/* Adds a message, and takes text over. */
static int chat_add(Chat *chat, CoordgenRole role, char *text) {
    if (chat->n_messages == chat->room) {
        size_t room = chat->room ? 2 * chat->room : 32;
        CoordgenMessage *messages = reallocarray(chat->messages, room, sizeof(*messages));

        if (!messages) {
            free(text);
            return -ENOMEM;
        }
        chat->messages = messages;
        chat->room = room;
    }
    chat->messages[chat->n_messages++] = (CoordgenMessage){ .role = role, .text = text };
    return 0;
}

static void chat_drop_last(Chat *chat) {
    message_free(&chat->messages[--chat->n_messages]);
}

static int chat_event(void *arg, const CoordgenEvent *event) {
    Chat *chat = arg;

    if (event->kind == COORDGEN_EVENT_PROGRESS) {
        if (ctl_loading(chat->ctl, event, ""))
            return 0;
        if (event->queue_position)
            ctl_progress_queued(chat->ctl, event->queue_position);
        else if (event->prompt_tokens && event->prompt_tokens > 256)
            ctl_progress(chat->ctl, "reading", (double)event->prefilled_tokens / event->prompt_tokens, -1);
        return 0;
    }
    if (!chat->begun)
        ctl_progress_clear(chat->ctl);
    chat->begun = true;
    return ctl_answer_put(&chat->answer, chat->ctl, event);
}

/* Restores the conversation to its state before a question that failed. 0 to continue, or an exit status. */
static int answer_failed(Chat *chat, const CtlWait *wait) {
    int code = coordgen_reply_error(wait->reply), r;

    chat_drop_last(chat);
    if (code == COORDGEN_E_NOT_FOUND || code == COORDGEN_E_DISCONNECTED)
        chat->session = 0;
    r = ctl_failed_reply(chat->ctl, wait);
    chat->failed = chat->failed ? chat->failed : r;
    if (code == COORDGEN_E_CONTEXT_FULL && chat->n_messages > 1)
        fputs("The conversation no longer fits. /reset begins a new one, /drop forgets the oldest question and "
              "answer.\n",
              stderr);
    return code == COORDGEN_E_DISCONNECTED || code == COORDGEN_E_BAD_REPLY || code == COORDGEN_E_SHUTTING_DOWN ? r : 0;
}

/* Sends the conversation and prints the answer, which becomes part of it. 0 or an exit status. */
static int answer(Chat *chat) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { .fn = chat_event, .arg = chat };
    const CoordgenGenerateResult *result;
    size_t skip = chat->system_text ? 0 : 1;
    char *text;
    int r;

    chat->messages[0] = (CoordgenMessage){ .role = COORDGEN_ROLE_SYSTEM, .text = chat->system_text };
    chat_enter_session(chat, skip);
    if (chat->session)
        skip = chat->n_messages - 1;
    chat->options.session = chat->session;
    chat->options.model = chat->session ? NULL : chat->model;
    chat->options.messages = chat->messages + skip;
    chat->options.n_messages = chat->n_messages - skip;
    chat->answer = (CtlAnswer){ 0 };
    chat->begun = false;
    while (ctl_interrupted(chat->ctl))
        ; /* drops a Ctrl-C that came before the question */
    r = coordgen_generate_start(chat->ctl->client, &chat->options, ctl_wait_event, &wait, NULL);
    if (r && coordgen_client_error(chat->ctl->client) != COORDGEN_E_DISCONNECTED) {
        chat_drop_last(chat);
        r = ctl_failed_call(chat->ctl);
        chat->failed = chat->failed ? chat->failed : r;
        return 0; /* the service refused this question; the next one may succeed */
    }
    r = ctl_wait(chat->ctl, &wait, r);
    if (r)
        return r;
    ctl_progress_clear(chat->ctl);
    ctl_answer_end(&chat->answer, true);
    if (fflush(stdout) || ferror(stdout))
        return CTL_EXIT_FAILED; /* main() reports the reason */
    if (coordgen_reply_error(wait.reply))
        return answer_failed(chat, &wait);
    result = coordgen_reply_generate(wait.reply);
    if (result->end_reason == COORDGEN_END_CANCELLED)
        fputs("(cancelled)\n", stderr);
    if (result->end_reason == COORDGEN_END_CONTEXT_FULL)
        fprintf(stderr,
                "The context is full: the answer ends here, at %" PRIu32
                " tokens with all before it. /reset begins a new "
                "conversation, /drop forgets the oldest question and answer; coordgenctl model show tells what raises "
                "the limit.\n",
                result->prompt_tokens + result->output_tokens);
    ctl_print_cut(result, "(", ")\n");
    ctl_print_timings(chat->ctl, result);
    if (!result->text_bytes) {
        chat_drop_last(chat);
        return 0;
    }
    text = strdup(result->text);
    if (!text || chat_add(chat, COORDGEN_ROLE_ASSISTANT, text)) {
        fputs("coordgenctl: out of memory\n", stderr);
        return CTL_EXIT_FAILED;
    }
    /* Templates that show the thinking of earlier turns get it; without memory the conversation goes on without. */
    if (*result->reasoning)
        chat->messages[chat->n_messages - 1].reasoning = strdup(result->reasoning);
    return 0;
}

static void command_drop(Chat *chat) {
    if (chat->n_messages < 3) {
        fputs("There is nothing to forget.\n", stderr);
        return;
    }
    chat_leave_session(chat);
    for (size_t i = 1; i < 3; i++)
        message_free(&chat->messages[i]);
    memmove(&chat->messages[1], &chat->messages[3], (chat->n_messages - 3) * sizeof(*chat->messages));
    chat->n_messages -= 2;
    fprintf(stderr, "The oldest question and answer are forgotten; %zu are left.\n", (chat->n_messages - 1) / 2);
}

static void command_system(Chat *chat, const char *text) {
    char *copy = *text ? strdup(text) : NULL;

    if (*text && !copy)
        return;
    chat_leave_session(chat);
    free(chat->system_text);
    chat->system_text = copy;
    fputs(copy ? "The instructions are set; they hold from the next question on.\n"
               : "There are no instructions now.\n",
          stderr);
}

static const char *const commands[] = { "/reset", "/exit", "/quit", "/system", "/drop", "/help" };

/* Whether a text is a command; a text of several lines, such as a paste, only if it is a known command. */
static bool is_command(const char *text) {
    const size_t len_bytes = strcspn(text, " \t\n");

    if (*text != '/' || !strchr(text, '\n'))
        return *text == '/';
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (strlen(commands[i]) == len_bytes && !memcmp(commands[i], text, len_bytes))
            return true;
    return false;
}

/* Runs a command. Returns whether the chat goes on. */
static bool command(Chat *chat, const char *line) {
    size_t len_bytes = strcspn(line, " \t\n");
    const char *near;
    char word[32];

    snprintf(word, sizeof(word), "%.*s", (int)(len_bytes < sizeof(word) ? len_bytes : sizeof(word) - 1), line);
    line += len_bytes;
    line += strspn(line, " \t\n");
    if (!strcmp(word, "/exit") || !strcmp(word, "/quit"))
        return false;
    if (!strcmp(word, "/reset")) {
        chat_leave_session(chat);
        chat_reset(chat);
        fputs("A new conversation.\n", stderr);
    } else if (!strcmp(word, "/system")) {
        command_system(chat, line);
    } else if (!strcmp(word, "/drop")) {
        command_drop(chat);
    } else if (!strcmp(word, "/help")) {
        fputs("/system TEXT  instructions for the model (nothing: none)\n"
              "/reset        begin a new conversation\n"
              "/drop         forget the oldest question and answer\n"
              "/exit         end (Ctrl-D too)\n"
              "A line that ends with \\ goes on in the next; Alt+Enter begins a new line in the same text.\n"
              "\"\"\" at the beginning opens a text of several lines, and \"\"\" at the end of a line closes it.\n"
              "What is pasted is one text; Enter sends it. A space before a slash makes it text.\n"
              "Ctrl-C cancels an answer; at the prompt it clears the line.\n",
              stderr);
    } else {
        near = nearest_word(word, commands, ARRAY_LEN(commands));
        fprintf(stderr, "%s is not known: %s%s%s\n", word, near ? "did you mean " : "/help lists the commands",
                near ? near : "", near ? "?" : ".");
    }
    return true;
}

#define BLOCK "\"\"\"" /* opens and closes a text of several lines */

/* A question of one or several lines. */
typedef struct Question {
    StrBuf text;
    bool is_block; /* BLOCK has opened the question */
} Question;

/* Adds a line. Returns whether another line belongs to the question. */
static bool take_line(Question *question, char *line) {
    const size_t mark_bytes = strlen(BLOCK);
    size_t len_bytes = strlen(line);
    StrBuf *text = &question->text;

    if (!question->is_block && !text->len_bytes && isatty(STDIN_FILENO) && !strchr(line, '\n') &&
        !strncmp(line, BLOCK, mark_bytes)) {
        question->is_block = true;
        line += mark_bytes;
        len_bytes -= mark_bytes;
        if (!len_bytes)
            return true;
    }
    if (question->is_block) {
        const bool is_closed = len_bytes >= mark_bytes && !strcmp(line + len_bytes - mark_bytes, BLOCK);

        str_buf_append(text, line, len_bytes - (is_closed ? mark_bytes : 0));
        if (is_closed && text->len_bytes && text->data[text->len_bytes - 1] == '\n')
            str_buf_truncate(text, text->len_bytes - 1);
        if (!is_closed)
            str_buf_add(text, "\n");
        return !is_closed;
    }
    if (!len_bytes || line[len_bytes - 1] != '\\') {
        str_buf_add(text, line);
        return false;
    }
    line[len_bytes - 1] = '\n';
    str_buf_add(text, line);
    return true;
}

/* Reads one question: lines up to one that does not end with a backslash, or that closes a block. */
static int question_read(CtlLine *line, char **textp, bool *is_blockp) {
    Question question = { .text = STR_BUF_NULL };
    bool goes_on = false;
    int r;

    do {
        _cleanup_(freep) char *part = NULL;

        r = ctl_line_read(line, goes_on ? ". " : "> ", &part);
        if (r == CTL_LINE_END && goes_on) { /* the input ends: the question ends before its last line break */
            if (question.text.len_bytes)
                str_buf_truncate(&question.text, question.text.len_bytes - 1);
            r = 0;
            break;
        }
        if (!r)
            goes_on = take_line(&question, part);
    } while (!r && goes_on);
    *is_blockp = question.is_block;
    if (!r) {
        *textp = str_buf_steal(&question.text);
        r = *textp ? 0 : -ENOMEM;
    }
    str_buf_deinit(&question.text);
    return r;
}

static int chat_loop(Chat *chat, CtlLine *line) {
    for (;;) {
        _cleanup_(freep) char *text = NULL;
        bool is_block;
        int r;

        r = question_read(line, &text, &is_block);
        if (r == CTL_LINE_CLEARED)
            continue;
        if (r == CTL_LINE_END)
            return CTL_EXIT_OK;
        if (r == CTL_LINE_INTERRUPTED)
            return CTL_EXIT_INTERRUPTED;
        if (r) {
            if (r != -EILSEQ)
                fprintf(stderr, "coordgenctl: input: %s\n", strerror(-r));
            return CTL_EXIT_FAILED;
        }
        if (text[strspn(text, " \t\n")] == 0)
            continue;
        if (!is_block && is_command(text)) {
            if (!command(chat, text))
                return CTL_EXIT_OK;
            continue;
        }
        if (chat_add(chat, COORDGEN_ROLE_USER, steal(&text))) {
            fputs("coordgenctl: out of memory\n", stderr);
            return CTL_EXIT_FAILED;
        }
        r = answer(chat);
        if (r)
            return r;
    }
}

static int chat_run(Ctl *ctl) {
    _cleanup_(ctl_line_freep) CtlLine *line = NULL;
    _cleanup_(chat_deinit) Chat chat = { .ctl = ctl };
    _cleanup_(ctl_more_sampling_deinit) CtlMoreSampling more = { 0 };
    const char *stops[CTL_STOPS_MAX], *system_text = ctl_text(ctl, "system", NULL);
    int r;

    if (ctl->json)
        return ctl_usage_error(ctl, "chat is for people: use generate with --json");
    if (!ctl_sampling(ctl, &chat.options, COORDGEN_PRIORITY_INTERACTIVE, stops, ARRAY_LEN(stops)) ||
        !ctl_more_sampling(ctl, &more, &chat.options))
        return CTL_EXIT_USAGE;
    r = ctl_constraint(ctl, &chat.options, &chat.constraint);
    if (r)
        return r;
    if (!ctl_has(ctl, "max-tokens"))
        chat.options.max_tokens = ANSWER_TOKENS_MAX;
    if (!ctl_option_file(ctl, "tools", &chat.tools) || !ctl_option_file(ctl, "documents", &chat.documents))
        return CTL_EXIT_FAILED;
    chat.options.tools = chat.tools;
    chat.options.documents = chat.documents;
    chat.model = ctl->n_args ? ctl->args[0] : chat.options.model;
    if ((system_text && !(chat.system_text = strdup(system_text))) || chat_add(&chat, COORDGEN_ROLE_SYSTEM, NULL)) {
        fputs("coordgenctl: out of memory\n", stderr);
        return CTL_EXIT_FAILED;
    }
    r = ctl_connect(ctl);
    if (!r)
        r = ctl_load_for_use(ctl, chat.model, isatty(STDIN_FILENO) && !ctl->quiet);
    if (r)
        return r;
    if (ctl_line_new(&line, ctl)) {
        fputs("coordgenctl: the terminal cannot be used for editing lines\n", stderr);
        return CTL_EXIT_FAILED;
    }
    if (isatty(STDIN_FILENO) && !ctl->quiet)
        fputs("/help lists the commands, Ctrl-D ends.\n", stderr);
    r = chat_loop(&chat, line);
    /* A user at the terminal has seen the failure; a script learns it from the exit status. */
    return r || isatty(STDIN_FILENO) ? r : chat.failed;
}

static const Option chat_options[] = { CTL_SAMPLING_OPTIONS, CTL_MORE_SAMPLING_OPTIONS };

const CtlVerb ctl_verb_chat = {
    .name = "chat",
    .alias = "run",
    .arguments = "[MODEL]",
    .summary = "talk with the model",
    .more = "Lines can be edited and called back on a terminal, and a paste is one text; elsewhere every\n"
            "line of standard input is a question, and one that failed decides on the exit status. The\n"
            "conversation lives in memory only. /help lists the commands, and the ways to write several lines.\n"
            "Ctrl-C cancels an answer and keeps the conversation; while it waits for a line that does\n"
            "not come from a terminal it ends it (exit status 130).\n"
            "\nExamples\n"
            "  coordgenctl chat\n"
            "  coordgenctl chat --system 'Answer in one sentence.' --temperature 0.7\n",
    .options = chat_options,
    .n_options = ARRAY_LEN(chat_options),
    .n_args_max = 1,
    .run = chat_run,
};
