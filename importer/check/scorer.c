// SPDX-License-Identifier: Apache-2.0
#include "importer/check/scorer.h"

#include <errno.h>
#include <math.h>

#include "base/min_max.h"

#define SCORER_ROWS 64 /* logit rows at a time: their memory is rows x vocabulary */

double log_sum_exp(const float *logits, size_t n) {
    double sum = 0;
    float max = -INFINITY;

    for (size_t i = 0; i < n; i++)
        max = fmaxf(max, logits[i]);
    for (size_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - max);
    return max + log(sum);
}

double standard_error_of_share(size_t n_right, size_t n) {
    double share = (double)n_right / (double)n;

    return n < 2 ? NAN : sqrt(share * (1 - share) / (double)(n - 1));
}

int scorer_init(Scorer *scorer, Engine *engine, ErrText *err) {
    *scorer = (Scorer){ .engine = engine };
    scorer->logits = malloc(SCORER_ROWS * (size_t)engine_info(engine)->n_vocab * sizeof(float));
    return scorer->logits ? 0 : err_set(err, -ENOMEM, "no memory for %d rows of logits", SCORER_ROWS);
}

void scorer_deinit(Scorer *scorer) {
    free(scorer->logits);
    scorer->logits = NULL;
}

/* --- tokens ------------------------------------------------------------------------------------------------------- */

/* Python's str.isspace() for ASCII. */
static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
}

/* Finds the token to put before a text: the BOS, if the model wants one. A model without a BOS gives the first token of
 * a text no probability. If that token is to be scored (@needed), the model's BOS or its end token comes first all the
 * same, as in the Evaluation Harness. TOKEN_NONE: nothing. */
static int text_prefix(const Tokenizer *tokenizer, bool needed, uint32_t *idp, ErrText *err) {
    *idp = tokenizer_adds_bos(tokenizer) || needed ? tokenizer_bos(tokenizer) : TOKEN_NONE;
    if (needed && *idp == TOKEN_NONE)
        *idp = tokenizer_eos(tokenizer);
    return !needed || *idp != TOKEN_NONE
               ? 0
               : err_set(err, -EINVAL, "the context is empty, and the model has no token that begins a text");
}

/* Tokenizes without BOS and EOS, which text_prefix() adds. */
static int encode(TokenList *list, const Tokenizer *tokenizer, const char *text, size_t len_bytes, ErrText *err) {
    int r = tokenizer_encode(tokenizer, text, len_bytes, 0, list, err);

    return r > 0 ? -EINVAL : r;
}

/**
 * score_pair_init_with() - tokenize a context and its continuation
 * @n_context:              positions that the model was made for
 * @context, @continuation: UTF-8, any bytes; the context may be empty, the continuation not
 *
 * The border is found as in the Language Model Evaluation Harness (lm_eval/api/model.py, _encode_pair()). White space
 * at the end of the context moves to the continuation, and the whole is tokenized in one piece. The tokens of the
 * context tokenized alone then are the context, so a continuation that begins with a space begins with a token of its
 * own. The texts may merge at the border ("shi" + "ning"; `clean` is false then). The harness then counts tokens and
 * skips those that hold the beginning of the continuation. Here all tokens are scored from the first one that differs.
 * A BOS comes first if the model wants one.
 *
 * Return: 0, -EINVAL (no token is left for the continuation), ENGINE_E_CONTEXT (more tokens than the model has
 * positions) or -ENOMEM.
 */
int score_pair_init_with(ScorePair *pair, const Tokenizer *tokenizer, uint32_t n_context, const char *context,
                         size_t context_bytes, const char *continuation, size_t continuation_bytes, ErrText *err) {
    _cleanup_(token_list_deinit) TokenList whole = { 0 }, alone = { 0 }, list = { 0 };
    _cleanup_(str_buf_deinit) StrBuf text = { 0 };
    size_t n_common = 0;
    uint32_t prefix;
    int r;

    if (!continuation_bytes)
        return err_set(err, -EINVAL, "the continuation is empty: there is nothing to score");
    str_buf_append(&text, context, context_bytes);
    str_buf_append(&text, continuation, continuation_bytes);
    if (str_buf_failed(&text))
        return err_no_memory(err);
    while (context_bytes && is_space(context[context_bytes - 1]))
        context_bytes--;
    if ((r = encode(&whole, tokenizer, text.data, text.len_bytes, err)) ||
        (r = encode(&alone, tokenizer, context, context_bytes, err)))
        return r;
    while (n_common < alone.n && n_common < whole.n && whole.ids[n_common] == alone.ids[n_common])
        n_common++;
    if (n_common == whole.n)
        return err_set(err, -EINVAL, "the continuation has no token of its own");
    r = text_prefix(tokenizer, !n_common, &prefix, err);
    if (r)
        return r;
    if (prefix != TOKEN_NONE)
        r = token_list_add(&list, prefix);
    for (size_t i = 0; !r && i < whole.n; i++)
        r = token_list_add(&list, whole.ids[i]);
    if (r)
        return err_set(err, r, "out of memory");
    if (list.n - 1 > n_context)
        return err_set(err, ENGINE_E_CONTEXT, "context and continuation have %zu tokens; the model has %u positions",
                       list.n, n_context);
    *pair = (ScorePair){ .n = list.n, .n_context = list.n - whole.n + n_common, .clean = n_common == alone.n };
    pair->ids = steal(&list.ids);
    return 0;
}

int score_pair_init(ScorePair *pair, const Engine *engine, const char *context, size_t context_bytes,
                    const char *continuation, size_t continuation_bytes, ErrText *err) {
    return score_pair_init_with(pair, engine_tokenizer(engine), engine_info(engine)->n_context, context, context_bytes,
                                continuation, continuation_bytes, err);
}

void score_pair_deinit(ScorePair *pair) {
    free(pair->ids);
    *pair = (ScorePair){ 0 };
}

/* --- scores ------------------------------------------------------------------------------------------------------- */

static void add_token(Score *score, const float *logits, size_t n_vocab, uint32_t id) {
    score->log_likelihood += logits[id] - log_sum_exp(logits, n_vocab);
    score->n_tokens++;
    for (size_t i = 0; score->greedy && i < n_vocab; i++)
        score->greedy = i < id ? logits[i] < logits[id] : logits[i] <= logits[id];
}

int scorer_forward_failed(int r, ErrText *err) {
    return r == ENGINE_E_READ ? r : err_set(err, r, "the forward pass failed");
}

/**
 * scorer_append() - compute rows of a sequence and score the tokens that follow them
 * @ids:          all tokens; ids[from..to) are appended, and ids[to] must be there when row to - 1 is scored
 * @first_scored: rows from here on are scored; `to` and more: none is
 * @score:        the scores are added to it
 *
 * Return: 0, or an error of engine_forward(); the text is set.
 */
int scorer_append(Scorer *scorer, Sequence *sequence, const uint32_t *ids, size_t from, size_t to, size_t first_scored,
                  Score *score, ErrText *err) {
    size_t n_vocab = engine_info(scorer->engine)->n_vocab, chunk = engine_chunk_tokens(scorer->engine);

    while (from < to) {
        size_t rows = MIN(to - from, chunk), n_plain = from < first_scored ? first_scored - from : 0;
        size_t n_scored;
        int r;

        n_plain = MIN(n_plain, rows);
        n_scored = MIN(rows - n_plain, SCORER_ROWS);
        rows = n_plain + n_scored;
        r = engine_forward(scorer->engine, sequence, ids + from, rows, n_scored, scorer->logits, err);
        if (r)
            return scorer_forward_failed(r, err);
        for (size_t i = 0; i < n_scored; i++)
            add_token(score, scorer->logits + i * n_vocab, n_vocab, ids[from + n_plain + i + 1]);
        from += rows;
    }
    return 0;
}

/* Counts the tokens that all pairs have in common, less one: the row before a continuation is computed with it, for its
 * logits. */
static size_t common_tokens(const ScorePair *pairs, size_t n) {
    size_t common = pairs[0].n_context - 1;

    for (size_t i = 1; i < n; i++) {
        if (common > pairs[i].n_context - 1)
            common = pairs[i].n_context - 1;
        for (size_t j = 0; j < common; j++)
            if (pairs[i].ids[j] != pairs[0].ids[j])
                common = j;
    }
    return common;
}

/**
 * scorer_pairs() - score some continuations, usually of one context
 * @pairs:  [n], n is 1 or more
 * @scores: out, [n]
 *
 * The common beginning of the contexts is computed once and kept. A row's bits do not depend on how many rows are
 * computed with it, so each score is that of its pair alone.
 *
 * Return: 0, ENGINE_E_MEMORY, -errno; -ERANGE when a score is not a finite number.
 */
int scorer_pairs(Scorer *scorer, const ScorePair *pairs, size_t n, Score *scores, ErrText *err) {
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    size_t longest = 0, common = common_tokens(pairs, n);
    Score none = SCORE_NONE;
    int r;

    for (size_t i = 0; i < n; i++)
        longest = MAX(pairs[i].n - 1, longest);
    r = sequence_new(&sequence, scorer->engine, longest, err);
    if (r)
        return r;
    r = scorer_append(scorer, sequence, pairs[0].ids, 0, common, common, &none, err);
    for (size_t i = 0; !r && i < n; i++) {
        scores[i] = SCORE_NONE;
        sequence_rewind(sequence, common);
        r = scorer_append(scorer, sequence, pairs[i].ids, common, pairs[i].n - 1, pairs[i].n_context - 1, &scores[i],
                          err);
    }
    if (r)
        return r;
    for (size_t i = 0; i < n; i++)
        if (!isfinite(scores[i].log_likelihood))
            return err_set(err, -ERANGE, "the log-likelihood of continuation %zu is not a finite number", i);
    return 0;
}
