// SPDX-License-Identifier: Apache-2.0
/* `mask` compiles the JSON schemas of a file and follows their instances (name, schema, tests of {valid, data}, as
 * MaskBench has them) through the masks of a vocabulary. It reads only the model's metadata, no weights. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/min_max.h"
#include "base/strings/json_text.h"
#include "text/grammar/grammar_matcher.h"
#include "text/grammar/schema/schema_grammar.h"
#include "tools/eval/eval.h"
#include "tools/eval/json_lines.h"
#include "tools/eval/mask_trace.h"
#include "tools/eval/text_file.h"

/* Times of one kind, in ns of CPU. */
typedef struct MaskTimes {
    uint64_t *ns;
    size_t n, room;
} MaskTimes;

typedef struct MaskRun {
    const EvalOptions *options;
    Tokenizer *tokenizer;
    TokenTrie *trie;
    uint64_t *mask;
    size_t n_schemas, n_right, n_refused, n_wrong;
    size_t n_invalid_accepted, n_valid_refused, n_failed; /* instances */
    json_t *keywords;                                     /* refused schemas by keyword */
    json_t *wrong;                                        /* names of schemas with an instance that is not right */
    MaskTimes compile, masks, rows;
    MaskTrace trace; /* filled if options->trace names a file */
} MaskRun;

static void run_deinit(MaskRun *run) {
    tokenizer_free(run->tokenizer);
    token_trie_unref(run->trie);
    free(run->mask);
    json_decref(run->keywords);
    json_decref(run->wrong);
    free(run->compile.ns);
    free(run->masks.ns);
    free(run->rows.ns);
    mask_trace_deinit(&run->trace);
}

/* --- times -------------------------------------------------------------------------------------------------------- */

static void times_add(MaskTimes *times, uint64_t ns) {
    if (times->n == times->room) {
        size_t room = times->room ? 2 * times->room : 4096;
        uint64_t *more = realloc(times->ns, room * sizeof(*more));

        if (!more)
            return;
        times->ns = more;
        times->room = room;
    }
    times->ns[times->n++] = ns;
}

static int compare_ns(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Returns the time, in us, that a share of the times does not exceed. Sorts them. */
static double times_us(MaskTimes *times, double share) {
    if (!times->n)
        return 0;
    qsort(times->ns, times->n, sizeof(*times->ns), compare_ns);
    return (double)times->ns[MIN(times->n - 1, (size_t)(share * (double)times->n))] / 1e3;
}

/* Returns the mean of the times in us. */
static double times_mean_us(const MaskTimes *times) {
    double ns = 0;

    for (size_t i = 0; i < times->n; i++)
        ns += (double)times->ns[i];
    return ns / 1e3 / (double)MAX(times->n, (size_t)1);
}

/* --- the vocabulary ----------------------------------------------------------------------------------------------- */

/* Notes the vocabulary in the trace, with its end tokens. */
static int trace_vocabulary(MaskRun *run, const TokenBytes *tokens, uint32_t n) {
    _cleanup_(freep) uint32_t *ends = calloc(MAX(n, 1u), sizeof(*ends));
    uint32_t n_ends = 0;

    if (!ends)
        return -ENOMEM;
    for (uint32_t id = 0; id < n; id++)
        if (tokenizer_is_end(run->tokenizer, id))
            ends[n_ends++] = id;
    mask_trace_vocabulary(&run->trace, tokens, n, ends, n_ends);
    return 0;
}

static int make_trie(MaskRun *run) {
    uint32_t n = tokenizer_n_tokens(run->tokenizer);
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    _cleanup_(freep) TokenBytes *tokens = calloc(n, sizeof(*tokens));
    _cleanup_(freep) size_t *ends = calloc((size_t)n + 1, sizeof(*ends));

    run->mask = calloc(TOKEN_MASK_WORDS(n), sizeof(*run->mask));
    if (!tokens || !ends || !run->mask)
        return -ENOMEM;
    for (uint32_t id = 0; id < n; id++) {
        if (!tokenizer_is_control(run->tokenizer, id))
            (void)tokenizer_piece(run->tokenizer, id, false, &text);
        ends[id + 1] = text.len_bytes;
    }
    if (str_buf_failed(&text))
        return -ENOMEM;
    for (uint32_t id = 0; id < n; id++)
        tokens[id] = (TokenBytes){ (const uint8_t *)text.data + ends[id], (uint32_t)(ends[id + 1] - ends[id]) };
    if (run->options->trace && trace_vocabulary(run, tokens, n))
        return -ENOMEM;
    return token_trie_new(&run->trie, tokens, n);
}

/* --- instances ---------------------------------------------------------------------------------------------------- */

/* Appends a real as the shortest decimal that means it, with a point: jansson would write all 17 digits. */
static void write_real(StrBuf *text, double value) {
    char digits[64];

    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof(digits), "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    if (strchr(digits, 'e') && fabs(value) < 1e16 && fabs(value) >= 1)
        snprintf(digits, sizeof(digits), "%.0f", value);
    str_buf_addf(text, "%s%s", digits, strpbrk(digits, ".e") ? "" : ".0");
}

/* Appends a value without white space. */
static void write_compact(StrBuf *text, const json_t *value) {
    size_t i, n = 0;
    const char *key;
    json_t *item;

    if (json_is_object(value)) {
        str_buf_add(text, "{");
        json_object_foreach((json_t *)value, key, item) {
            json_t *name = json_text(key);

            str_buf_add(text, n++ ? "," : "");
            write_compact(text, name);
            json_decref(name);
            str_buf_add(text, ":");
            write_compact(text, item);
        }
        str_buf_add(text, "}");
    } else if (json_is_array(value)) {
        str_buf_add(text, "[");
        json_array_foreach((json_t *)value, i, item) {
            str_buf_add(text, i ? "," : "");
            write_compact(text, item);
        }
        str_buf_add(text, "]");
    } else if (json_is_real(value)) {
        write_real(text, json_real_value(value));
    } else {
        _cleanup_(freep) char *plain = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

        str_buf_add(text, plain ? plain : "");
    }
}

/* Follows tokens through the masks. 0: inside of every mask, and the end is allowed; GRAMMAR_E_REFUSED. */
static int follow(MaskRun *run, GrammarMatcher *matcher, const TokenList *list, ErrText *err) {
    GrammarState state = grammar_matcher_start(matcher);
    int r = 0;

    for (size_t i = 0; i < list->n && !r; i++) {
        uint64_t ns = clock_thread_ns();

        r = grammar_matcher_mask(matcher, state, run->mask);
        ns = clock_thread_ns() - ns;
        times_add(&run->masks, ns);
        if (run->options->trace)
            mask_trace_mask(&run->trace, ns);
        if (!r && !(run->mask[list->ids[i] / 64] >> list->ids[i] % 64 & 1))
            return GRAMMAR_E_REFUSED;
        if (!r)
            r = grammar_matcher_advance(matcher, state, list->ids[i], &state);
        if (r == GRAMMAR_E_REFUSED)
            return err_set(err, -EINVAL, "the mask allows a token that the grammar refuses");
    }
    return r ? r : grammar_matcher_is_end_allowed(matcher, state) ? 0 : GRAMMAR_E_REFUSED;
}

/* Times what a greedy row asks of a grammar: whether its likeliest token fits, where that leads, and how far an end is
 * from there. The matcher has made no masks, so that it meets each state for the first time as an answer does. */
static void time_rows(MaskRun *run, GrammarMatcher *matcher, const TokenList *list) {
    GrammarState state = grammar_matcher_start(matcher);

    for (size_t i = 0; i < list->n; i++) {
        GrammarState next;
        uint32_t n_tokens;
        uint64_t ns = clock_thread_ns();
        int r = grammar_matcher_advance(matcher, state, list->ids[i], &next);

        if (!r)
            r = grammar_matcher_advance(matcher, state, list->ids[i], &next);
        if (!r)
            r = grammar_matcher_end_tokens(matcher, next, &n_tokens);
        times_add(&run->rows, clock_thread_ns() - ns);
        if (r)
            break;
        state = next;
    }
}

/* Checks the instances of a schema; without a matcher, they are only noted in the trace. */
static int check_tests(MaskRun *run, GrammarMatcher *const matchers[2], const json_t *tests, bool *is_rightp,
                       ErrText *err) {
    GrammarMatcher *matcher = matchers[0];
    json_t *test;
    size_t i;

    json_array_foreach((json_t *)tests, i, test) {
        _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
        _cleanup_(token_list_deinit) TokenList list = { 0 };
        bool is_valid = json_is_true(json_object_get(test, "valid"));
        int r;

        write_compact(&text, json_object_get(test, "data"));
        if (str_buf_failed(&text) || !text.data)
            return -ENOMEM;
        r = tokenizer_encode(run->tokenizer, text.data, text.len_bytes, 0, &list, err);
        if (!r && run->options->trace)
            mask_trace_begin_test(&run->trace, is_valid, list.ids, list.n);
        if (!r)
            r = matcher ? follow(run, matcher, &list, err) : GRAMMAR_E_REFUSED;
        if (r < 0)
            return r;
        if (run->options->trace)
            mask_trace_end_test(&run->trace, !r);
        if (!matcher)
            continue;
        time_rows(run, matchers[1], &list);
        run->n_failed += r && r != GRAMMAR_E_REFUSED;
        run->n_invalid_accepted += !r && !is_valid;
        run->n_valid_refused += r == GRAMMAR_E_REFUSED && is_valid;
        *is_rightp &= is_valid ? !r : r == GRAMMAR_E_REFUSED;
        if (run->options->list && (is_valid ? r != 0 : r != GRAMMAR_E_REFUSED))
            printf("  %s: %.300s\n", r ? "refused" : "accepted", text.data);
    }
    return 0;
}

/* --- schemas ------------------------------------------------------------------------------------------------------ */

static int compile(const MaskRun *run, const char *schema, Grammar **grammarp, ErrText *err) {
    const SchemaOptions options = { .is_any_order = run->options->any_order };
    const GrammarLimits limits = GRAMMAR_LIMITS_DEFAULT;
    _cleanup_(grammar_builder_freep) GrammarBuilder *builder = NULL;
    GrammarPart part;
    int r = grammar_builder_new(&builder, &limits);

    if (!r)
        r = grammar_part_json_schema(builder, schema, strlen(schema), &options, &part, err);
    return r ? r : grammar_builder_finish(builder, part, grammarp, err);
}

/* Counts a refused schema under the keyword of the error, "POINTER: KEYWORD: ...", or else under its text. */
static void count_refused(MaskRun *run, const char *text) {
    const char *keyword = *text == '#' ? strstr(text, ": ") : NULL;
    char name[64];

    if (keyword)
        text = keyword + 2;
    snprintf(name, sizeof(name), "%.*s", (int)MIN(strcspn(text, ":"), sizeof(name) - 1), text);
    json_object_set_new(run->keywords, name,
                        json_integer(json_integer_value(json_object_get(run->keywords, name)) + 1));
    run->n_refused++;
}

static int check_schema(void *arg, json_t *object, size_t line, ErrText *err) {
    MaskRun *run = arg;
    _cleanup_(freep) char *schema = json_dumps(json_object_get(object, "schema"), JSON_ENCODE_ANY | JSON_COMPACT);
    _cleanup_(grammar_unrefp) Grammar *grammar = NULL;
    _cleanup_(grammar_matcher_freep) GrammarMatcher *matcher = NULL, *row_matcher = NULL;
    const GrammarMatcherLimits limits = GRAMMAR_MATCHER_LIMITS_DEFAULT;
    const char *name = json_string_value(json_object_get(object, "name"));
    bool is_right = true;
    uint64_t ns = clock_thread_ns();
    int r;

    if (run->options->questions.limit && run->n_schemas == run->options->questions.limit)
        return 0;
    run->n_schemas++;
    if (!object) {
        count_refused(run, "#: JSON");
        return 0;
    }
    if (!schema)
        return err_set(err, -EINVAL, "'schema' is missing");
    r = compile(run, schema, &grammar, err);
    if (!r)
        r = grammar_matcher_new(&matcher, grammar, run->trie, &limits);
    ns = clock_thread_ns() - ns;
    times_add(&run->compile, ns);
    if (run->options->trace)
        mask_trace_begin_schema(&run->trace, line, ns, r != 0);
    if (r > 0) {
        count_refused(run, err->text);
        if (run->options->list)
            printf("%s: %s\n", name ? name : "?", err->text);
        if (!run->options->trace)
            return 0;
        r = check_tests(run, (GrammarMatcher *[2]){ NULL, NULL }, json_object_get(object, "tests"), &is_right, err);
        mask_trace_end_schema(&run->trace);
        return r;
    }
    if (!r)
        r = grammar_matcher_new(&row_matcher, grammar, run->trie, &limits);
    if (!r)
        r = check_tests(run, (GrammarMatcher *[2]){ matcher, row_matcher }, json_object_get(object, "tests"), &is_right,
                        err);
    if (run->options->trace)
        mask_trace_end_schema(&run->trace);
    run->n_right += is_right;
    run->n_wrong += !is_right;
    if (!is_right)
        json_array_append_new(run->wrong, json_text(name ? name : "?"));
    if (!is_right && run->options->list)
        printf("%s: WRONG\n", name ? name : "?");
    return r;
}

/* --- the report --------------------------------------------------------------------------------------------------- */

static void print_report(MaskRun *run) {
    const char *keyword, *separator = "  refused by keyword: ";
    json_t *n;

    printf("%zu schemas: %zu right (%.1f %%), %zu refused, %zu wrong\n", run->n_schemas, run->n_right,
           100.0 * (double)run->n_right / (double)MAX(run->n_schemas, (size_t)1), run->n_refused, run->n_wrong);
    printf("  instances: %zu invalid accepted, %zu valid refused, %zu given up\n", run->n_invalid_accepted,
           run->n_valid_refused, run->n_failed);
    json_object_foreach(run->keywords, keyword, n) {
        printf("%s%s %lld", separator, keyword, (long long)json_integer_value(n));
        separator = ", ";
    }
    printf("%s  compile p50 %.2f ms, p99 %.2f ms, most %.2f ms\n", run->n_refused ? "\n" : "",
           times_us(&run->compile, 0.5) / 1e3, times_us(&run->compile, 0.99) / 1e3, times_us(&run->compile, 1) / 1e3);
    printf("  mask p50 %.1f us, p99 %.1f us, mean %.1f us, most %.1f us (%zu masks, %u tokens)\n",
           times_us(&run->masks, 0.5), times_us(&run->masks, 0.99), times_mean_us(&run->masks),
           times_us(&run->masks, 1), run->masks.n, token_trie_n_tokens(run->trie));
    printf("  greedy row p50 %.1f us, p99 %.1f us, mean %.1f us, most %.1f us\n", times_us(&run->rows, 0.5),
           times_us(&run->rows, 0.99), times_mean_us(&run->rows), times_us(&run->rows, 1));
}

static json_t *make_report(MaskRun *run) {
    return json_pack("{s:s, s:o, s:I, s:I, s:I, s:O, s:I, s:I, s:I, s:O, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "verb",
                     "mask", "model", json_text(run->options->model.path), "schemas", (json_int_t)run->n_schemas,
                     "right", (json_int_t)run->n_right, "refused", (json_int_t)run->n_refused, "refused_by_keyword",
                     run->keywords, "invalid_accepted", (json_int_t)run->n_invalid_accepted, "valid_refused",
                     (json_int_t)run->n_valid_refused, "given_up", (json_int_t)run->n_failed, "wrong", run->wrong,
                     "compile_p50_ms", times_us(&run->compile, 0.5) / 1e3, "compile_p99_ms",
                     times_us(&run->compile, 0.99) / 1e3, "mask_p50_us", times_us(&run->masks, 0.5), "mask_p99_us",
                     times_us(&run->masks, 0.99), "mask_mean_us", times_mean_us(&run->masks), "row_p50_us",
                     times_us(&run->rows, 0.5), "row_p99_us", times_us(&run->rows, 0.99));
}

int eval_mask(const EvalOptions *options) {
    _cleanup_(run_deinit) MaskRun run = { .options = options, .keywords = json_object(), .wrong = json_array() };
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    ErrText err = { 0 };
    int status;

    if (!run.keywords || !run.wrong)
        return eval_fail(options, "out of memory");
    if (gguf_open(&file, options->model.path, &err) || tokenizer_new(&run.tokenizer, file, &err))
        return eval_fail(options, "%s", err.text);
    if (make_trie(&run))
        return eval_fail(options, "out of memory");
    if (json_lines_each_or_null(options->file, check_schema, &run, &err))
        return eval_fail(options, "%s", err.text);
    if (options->trace && text_file_write(&run.trace.text, options->trace, &err))
        return eval_fail(options, "%s", err.text);
    status = run.n_invalid_accepted ? EVAL_OUTSIDE : EVAL_OK;
    if (options->json.is_wanted)
        return eval_print_json(options, make_report(&run), status);
    print_report(&run);
    return status;
}
