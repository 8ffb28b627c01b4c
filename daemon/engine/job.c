// SPDX-License-Identifier: Apache-2.0
#include "daemon/engine/job.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/min_max.h"
#include "engine/draft/self_draft.h"

enum {
    ECHO_BYTES = 64 << 10, /* of a prompt in one mark, which becomes one message */
};

static char *put_text(char **atp, const char *text, size_t len_bytes) {
    char *put = *atp;

    if (!text)
        return NULL;
    memcpy(put, text, len_bytes);
    put[len_bytes] = 0;
    *atp += len_bytes + 1;
    return put;
}

static JobCall *call_copy(const CallPiece *piece) {
    JobCall *call = malloc(sizeof(*call) + piece->arguments_bytes + piece->name_bytes + piece->id_bytes + 3);
    char *at;

    if (!call)
        return NULL;
    at = call->texts;
    (void)put_text(&at, piece->arguments_bytes ? piece->arguments : "", piece->arguments_bytes);
    call->index = piece->index;
    call->arguments_bytes = piece->arguments_bytes;
    call->name = put_text(&at, piece->name, piece->name_bytes);
    call->id = put_text(&at, piece->id, piece->id_bytes);
    return call;
}

int job_news_mark(JobNews *news, AnswerPart part, const CallPiece *call) {
    JobCall *copy = NULL;

    if (news->n_marks == news->marks_room) {
        size_t room = news->marks_room ? 2 * news->marks_room : 8;
        JobMark *marks = reallocarray(news->marks, room, sizeof(*marks));

        if (!marks)
            return err_raise(-ENOMEM);
        news->marks = marks;
        news->marks_room = room;
    }
    if (call && !(copy = call_copy(call)))
        return err_raise(-ENOMEM);
    news->marks[news->n_marks++] = (JobMark){ .text_end = news->text.len_bytes,
                                              .tokens_end = news->tokens.n,
                                              .logprobs_end = news->logprobs.n,
                                              .part = part,
                                              .call = copy };
    return 0;
}

int job_news_echo(JobNews *news, const StrBuf *text, uint32_t choice) {
    int r = 0;

    for (size_t at = 0, n; at < text->len_bytes && !r; at += n) {
        n = MIN(text->len_bytes - at, ECHO_BYTES);
        while (at + n < text->len_bytes && (text->data[at + n] & 0xc0) == 0x80)
            n--; /* the text is well-formed, so this is at most 3 bytes */
        str_buf_append(&news->text, text->data + at, n);
        r = str_buf_failed(&news->text) ? err_raise(-ENOMEM) : job_news_mark(news, ANSWER_TEXT, NULL);
        if (!r)
            news->marks[news->n_marks - 1].choice = choice;
    }
    return r;
}

int job_prompt_text(const Job *job, const TokenList *prompt, StrBuf *text) {
    Detokenizer detokenizer;
    int r = 0;

    if (!job->input.n_tokens) {
        str_buf_append(text, job->input.text, job->input.text_bytes);
        return str_buf_failed(text) ? err_raise(-ENOMEM) : 0;
    }
    detokenizer_init(&detokenizer, engine_tokenizer(job->engine), true, false);
    for (size_t i = 0; i < prompt->n && !r; i++)
        r = detokenizer_push(&detokenizer, prompt->ids[i], text);
    return r ? r : detokenizer_finish(&detokenizer, text);
}

void job_news_deinit(JobNews *news) {
    str_buf_deinit(&news->text);
    token_list_deinit(&news->tokens);
    for (size_t i = 0; i < news->n_marks; i++)
        free(news->marks[i].call);
    job_logprobs_deinit(&news->logprobs);
    free(news->marks);
    *news = (JobNews){ 0 };
}

static int chat_code(int r) {
    switch (r) {
    case CHAT_E_ROLE:
    case CHAT_E_REFUSED:
    case CHAT_E_CALLS:
        return JOB_E_ROLE;
    case CHAT_E_NO_TEMPLATE:
        return JOB_E_NO_TEMPLATE;
    case CHAT_E_TOOLS:
    case CHAT_E_UNUSED:
        return JOB_E_TOOLS;
    case CHAT_E_DOCUMENTS:
        return JOB_E_DOCUMENTS;
    case CHAT_E_KWARGS:
        return JOB_E_KWARGS;
    case CHAT_E_THINKING:
        return JOB_E_THINKING;
    case CHAT_E_MEMORY:
        return JOB_E_MEMORY;
    case CHAT_E_TOO_LONG:
        return JOB_E_TOO_LONG;
    default:
        return r;
    }
}

/* Takes ids as they are. */
static int encode_ids(const Job *job, TokenList *list, ErrText *err) {
    const uint32_t n_vocab = tokenizer_n_tokens(engine_tokenizer(job->engine));
    int r = 0;

    for (size_t i = 0; i < job->input.n_tokens && !r; i++)
        r = job->input.tokens[i] < n_vocab
                ? token_list_add(list, job->input.tokens[i])
                : err_set(err, JOB_E_TOKEN, "token %zu is %" PRIu32 ": the model's ids are 0 to %" PRIu32, i,
                          job->input.tokens[i], n_vocab - 1);
    return r;
}

static int encode_text(const Job *job, TokenList *list, ErrText *err) {
    const Tokenizer *tokenizer = engine_tokenizer(job->engine);
    const JobInput *input = &job->input;

    return input->suffix
               ? tokenizer_encode_infill(tokenizer, input->text, input->text_bytes, input->suffix, input->suffix_bytes,
                                         list, err)
               : tokenizer_encode(tokenizer, input->text, input->text_bytes, input->tokenize_flags, list, err);
}

/* Tokenizes the prompt. Return: 0, JOB_E_*, -errno. */
int job_encode(const Job *job, TokenList *list, ErrText *err) {
    _cleanup_(bill_settle) Bill bill = { 0 };
    int r;

    if (job->input.chat.n_messages)
        return chat_code(engine_encode_chat(job->engine, &job->input.chat, list, err));
    if (job->input.n_tokens)
        return encode_ids(job, list, err);
    r = engine_charge_text(job->engine, &bill, job->input.text_bytes + job->input.suffix_bytes, err);
    if (r)
        return JOB_E_MEMORY;
    r = encode_text(job, list, err);
    return r == TOKENIZER_E_NO_INFILL ? JOB_E_NO_INFILL : r > 0 ? JOB_E_TOO_LONG : r;
}

int job_render(const Job *job, StrBuf *text, ErrText *err) {
    return chat_code(engine_render_chat(job->engine, &job->input.chat, text, err));
}

/* Tells whether the user's share has room for keys and values and trees of both the target and its draft model. */
static bool draft_is_within_share(const Job *job, size_t capacity_tokens, uint64_t kv_max_bytes) {
    const Engine *engines[] = { job->engine, job->generate.draft_engine };
    uint64_t both_bytes = 0;

    for (size_t i = 0; i < 2; i++)
        both_bytes += engine_kv_bytes(engines[i], capacity_tokens) + engine_kv_tree_bytes(engines[i]);
    return !kv_max_bytes || both_bytes <= kv_max_bytes;
}

void job_begin_draft(Job *job, size_t n_prompt, GenerationOptions *options) {
    const size_t context_tokens = options->context_tokens;
    size_t capacity_tokens = context_tokens;
    ErrText err = { 0 };
    int r = 0;

    if (!(options->speculation.sources >> SPECULATION_MODEL & 1))
        return;
    if (!job->generate.draft_engine) {
        options->speculation.self_layers = self_draft_layers_for(job->engine, options->speculation.sources);
        return;
    }
    if (options->max_tokens && n_prompt < context_tokens && options->max_tokens < context_tokens - n_prompt)
        capacity_tokens = n_prompt + options->max_tokens;
    if (!draft_is_within_share(job, capacity_tokens, options->kv_max_bytes)) {
        log_info_of((uint32_t)job->generate.options.user, TOPIC_DAEMON,
                    "a generation goes without its draft model: its user's share of KV memory (kv-user-share) "
                    "has no room for both");
        return;
    }
    if (!*job->generate.draft_pairp)
        r = draft_pair_new(job->generate.draft_pairp, job->generate.draft_engine, job->engine, &err);
    if (!r)
        r = draft_timeline_new(&job->run.draft_model, *job->generate.draft_pairp, capacity_tokens, &err);
    if (r) {
        log_info_of((uint32_t)job->generate.options.user, TOPIC_DAEMON, "a generation goes without its draft model: %s",
                    err.text);
        return;
    }
    draft_timeline_set_cancel(&job->run.draft_model, &job->cancelled);
    options->speculation.model = job->run.draft_model;
}

void job_end_draft(Job *job) {
    draft_timeline_free(&job->run.draft_model);
}
