#include "eval/perplexity.h"

#include <errno.h>
#include <math.h>

#include "base/file_io.h"
#include "eval/scorer.h"

#define TEXT_MAX ((size_t)64 << 20)

void perplexity_deinit(Perplexity *result) {
    free(result->means);
    result->means = NULL;
}

static int check_shape(Perplexity *result, Engine *engine, const PerplexityOptions *options, size_t n_tokens,
                       ErrText *err) {
    size_t available;

    if (options->window < 4 || options->window % 2 || options->window > engine_info(engine)->n_context)
        return err_set(err, -EINVAL, "--window %zu: an even number from 4 to the model's %u positions is needed",
                       options->window, engine_info(engine)->n_context);
    available = n_tokens / options->window;
    if (!available || options->windows > available)
        return err_set(err, -EINVAL, "%s: %zu tokens make %zu windows of %zu, but %zu are asked for", options->file,
                       n_tokens, available, options->window, options->windows ? options->windows : 1);
    result->window = options->window;
    result->n_windows = options->windows ? options->windows : available;
    result->n_scored = options->window / 2 - 1;
    result->bos_replaces_first = tokenizer_adds_bos(engine_tokenizer(engine));
    result->means = calloc(result->n_windows, sizeof(*result->means));
    return result->means ? 0 : err_set(err, -ENOMEM, "out of memory");
}

static int score_window(Perplexity *result, Scorer *scorer, uint32_t *ids, size_t index, ErrText *err) {
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    Score score = SCORE_NONE;
    uint32_t first = ids[0];
    int r;

    r = sequence_new(&sequence, scorer->engine, result->window, err);
    if (r)
        return r;
    if (result->bos_replaces_first)
        ids[0] = tokenizer_bos(engine_tokenizer(scorer->engine));
    r = scorer_append(scorer, sequence, ids, 0, result->window - 1, result->window / 2, &score, err);
    ids[0] = first;
    result->means[index] = -score.log_likelihood / (double)result->n_scored;
    if (r)
        err_prefix(err, "window %zu", index);
    return r;
}

int perplexity_measure(Perplexity *result, Engine *engine, const PerplexityOptions *options, ErrText *err) {
    _cleanup_(token_list_deinit) TokenList tokens = { 0 };
    _cleanup_(perplexity_deinit) Perplexity made = { 0 };
    _cleanup_(scorer_deinit) Scorer scorer = { 0 };
    _cleanup_(freep) char *text = NULL;
    size_t len_bytes;
    double sum = 0;
    int r;

    r = file_slurp(options->file, TEXT_MAX, &text, &len_bytes, err);
    if (!r)
        r = tokenizer_encode(engine_tokenizer(engine), text, len_bytes, TOKENIZE_ADD_SPECIAL, &tokens, err);
    if (!r)
        r = check_shape(&made, engine, options, tokens.n, err);
    if (!r)
        r = scorer_init(&scorer, engine, err);
    if (r)
        return r;
    for (size_t i = 0; i < made.n_windows; i++) {
        r = score_window(&made, &scorer, tokens.ids + i * made.window, i, err);
        if (r)
            return r;
        sum += made.means[i];
        if (options->on_window)
            options->on_window(options->arg, i, made.means[i], exp(sum / (double)(i + 1)));
    }
    made.value = exp(sum / (double)made.n_windows);
    *result = made;
    made.means = NULL;
    return 0;
}
