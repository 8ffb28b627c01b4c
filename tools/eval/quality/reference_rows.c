// SPDX-License-Identifier: Apache-2.0
#include "tools/eval/quality/reference_rows.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file_io.h"
#include "base/min_max.h"
#include "base/strings/str_buf.h"
#include "importer/check/scorer.h"
#include "importer/check/window_mean.h"

/* Logit rows at a time: their memory is rows x vocabulary. */
#define ROWS 64
#define FORMAT 1
#define FILE_MAX_BYTES ((size_t)4 << 30)

/* --- one row ------------------------------------------------------------------------------------------------------ */

typedef struct Candidate {
    float logit;
    uint32_t id;
} Candidate;

static int compare_candidates(const void *a, const void *b) {
    const Candidate *left = a, *right = b;

    return left->logit != right->logit ? (left->logit < right->logit) - (left->logit > right->logit)
                                       : (left->id > right->id) - (left->id < right->id);
}

/* Writes the most probable tokens, most probable first, and returns how many. Candidates collect behind the best so
 * far; a sort of all drops the rest. */
static size_t take_tops(uint32_t ids[REFERENCE_TOP], const float *logits, size_t n) {
    Candidate pool[2 * REFERENCE_TOP];
    size_t n_pool = 0, n_top;
    float least = -INFINITY; /* logit of the last of REFERENCE_TOP; -INFINITY: they are fewer */

    for (size_t i = 0; i < n; i++) {
        if (!(logits[i] > least))
            continue;
        pool[n_pool++] = (Candidate){ .logit = logits[i], .id = (uint32_t)i };
        if (n_pool == ARRAY_LEN(pool)) {
            qsort(pool, n_pool, sizeof(*pool), compare_candidates);
            n_pool = REFERENCE_TOP;
            least = pool[n_pool - 1].logit;
        }
    }
    qsort(pool, n_pool, sizeof(*pool), compare_candidates);
    n_top = MIN(n_pool, REFERENCE_TOP);
    for (size_t i = 0; i < n_top; i++)
        ids[i] = pool[i].id;
    return n_top;
}

void reference_row_take(ReferenceRow *row, const float *logits, size_t n, uint32_t next) {
    const double all = log_sum_exp(logits, n);
    double rest = 1;
    size_t n_top;

    *row = (ReferenceRow){ .log_next = (float)((double)logits[next] - all) };
    n_top = take_tops(row->ids, logits, n);
    for (size_t i = 0; i < n_top; i++) {
        row->log_p[i] = (float)((double)logits[row->ids[i]] - all);
        rest -= exp(row->log_p[i]);
    }
    row->rest = n_top < n ? (float)fmax(rest, 0) : 0;
}

double reference_row_divergence(const ReferenceRow *row, const float *logits, size_t n, double all, bool *same_topp) {
    const size_t n_top = MIN(n, REFERENCE_TOP);
    double sum = 0, rest = 1;
    size_t top = 0;

    for (size_t i = 0; i < n; i++)
        top = logits[i] > logits[top] ? i : top;
    *same_topp = top == row->ids[0];
    for (size_t i = 0; i < n_top; i++) {
        const double log_q = (double)logits[row->ids[i]] - all, log_p = row->log_p[i];

        sum += exp(log_p) * (log_p - log_q);
        rest -= exp(log_q);
    }
    /* Differences from 1 are exact to 1e-7 only, for the row's probabilities are float32. */
    if (row->rest > 1e-6f)
        sum += (double)row->rest * log((double)row->rest / fmax(rest, 1e-7));
    return fmax(sum, 0);
}

/* --- all rows of a text ------------------------------------------------------------------------------------------- */

/* Takes the logits of one scored row, window by window; next: the token that follows. */
typedef void RowFn(void *arg, size_t row, const float *logits, size_t n_vocab, uint32_t next);

static int walk_window(Engine *engine, Sequence *sequence, float *logits, const TextWindows *windows, size_t window,
                       RowFn *fn, void *arg, ErrText *err) {
    const uint32_t *ids = windows->ids + window * windows->len;
    const size_t n_vocab = engine_info(engine)->n_vocab, first = windows->len / 2;

    sequence_rewind(sequence, 0);
    for (size_t from = 0, n; from < windows->len - 1; from += n) {
        size_t n_plain, n_scored;
        int r;

        n = MIN(windows->len - 1 - from, engine_chunk_tokens(engine));
        n_plain = MIN(from < first ? first - from : 0, n);
        n_scored = MIN(n - n_plain, ROWS);
        n = n_plain + n_scored;
        r = engine_forward(engine, sequence, ids + from, n, n_scored, logits, err);
        if (r) {
            r = scorer_forward_failed(r, err);
            err_prefix(err, "window %zu", window);
            return r;
        }
        for (size_t i = 0; i < n_scored; i++) {
            const size_t position = from + n_plain + i;

            fn(arg, window * windows->n_scored + position - first, logits + i * n_vocab, n_vocab, ids[position + 1]);
        }
    }
    return 0;
}

static int walk(Engine *engine, const TextWindows *windows, RowFn *fn, void *arg, ErrText *err) {
    _cleanup_(freep) float *logits = malloc(ROWS * (size_t)engine_info(engine)->n_vocab * sizeof(*logits));
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    int r = logits ? sequence_new(&sequence, engine, windows->len, err) : err_no_memory(err);

    for (size_t i = 0; !r && i < windows->n; i++)
        r = walk_window(engine, sequence, logits, windows, i, fn, arg, err);
    return r;
}

static void take_row(void *arg, size_t row, const float *logits, size_t n_vocab, uint32_t next) {
    ReferenceRows *rows = arg;

    reference_row_take(&rows->rows[row], logits, n_vocab, next);
}

int reference_rows_compute(ReferenceRows *rows, Engine *reference, const TextWindows *windows, ErrText *err) {
    _cleanup_(reference_rows_deinit) ReferenceRows made = { .n = windows->n * windows->n_scored };
    int r;

    made.rows = calloc(made.n, sizeof(*made.rows));
    if (!made.rows)
        return err_no_memory(err);
    r = walk(reference, windows, take_row, &made, err);
    if (r)
        return r;
    *rows = made;
    made.rows = NULL;
    return 0;
}

/* The values of one engine's rows. */
typedef struct Measured {
    const ReferenceRows *reference;
    double *nats;   /* [n] */
    double *change; /* [n] */
    bool *same;     /* [n] */
} Measured;

static void measured_deinit(Measured *measured) {
    free(measured->nats);
    free(measured->change);
    free(measured->same);
}

static void measure_row(void *arg, size_t row, const float *logits, size_t n_vocab, uint32_t next) {
    Measured *measured = arg;
    const ReferenceRow *reference = &measured->reference->rows[row];
    const double all = log_sum_exp(logits, n_vocab);

    measured->nats[row] = reference_row_divergence(reference, logits, n_vocab, all, &measured->same[row]);
    measured->change[row] = (double)reference->log_next - ((double)logits[next] - all);
}

static int compare_falling(const void *a, const void *b) {
    const double *left = a, *right = b;

    return (*left < *right) - (*left > *right);
}

/* Sorts the nats. */
static double worst_hundredth(double *nats, size_t n) {
    const size_t n_worst = (n + 99) / 100;
    double sum = 0;

    qsort(nats, n, sizeof(*nats), compare_falling);
    for (size_t i = 0; i < n_worst; i++)
        sum += nats[i];
    return sum / (double)n_worst;
}

int reference_rows_measure(ReferenceDivergence *result, const ReferenceRows *rows, Engine *engine,
                           const TextWindows *windows, ErrText *err) {
    _cleanup_(measured_deinit) Measured measured = {
        .reference = rows,
        .nats = calloc(rows->n, sizeof(*measured.nats)),
        .change = calloc(rows->n, sizeof(*measured.change)),
        .same = calloc(rows->n, sizeof(*measured.same)),
    };
    const double n = (double)windows->n, per_row = 1 / (double)windows->n_scored;
    WindowMean nats = { 0 }, same = { 0 }, change = { 0 };
    int r;

    if (!measured.nats || !measured.change || !measured.same)
        return err_no_memory(err);
    r = walk(engine, windows, measure_row, &measured, err);
    if (r)
        return r;
    for (size_t i = 0; i < windows->n; i++) {
        double window_nats = 0, window_same = 0, window_change = 0;

        for (size_t row = i * windows->n_scored; row < (i + 1) * windows->n_scored; row++) {
            window_nats += measured.nats[row];
            window_same += measured.same[row];
            window_change += measured.change[row];
        }
        window_mean_add(&nats, window_nats * per_row);
        window_mean_add(&same, window_same * per_row);
        window_mean_add(&change, window_change * per_row);
    }
    *result = (ReferenceDivergence){
        .n_rows = rows->n,
        .nats = nats.sum / n,
        .nats_error = window_mean_error(&nats, windows->n),
        .same_top = same.sum / n,
        .same_top_error = window_mean_error(&same, windows->n),
        .worst = worst_hundredth(measured.nats, rows->n),
        .loss_change = change.sum / n,
        .loss_change_error = window_mean_error(&change, windows->n),
    };
    return 0;
}

/* --- the file: a line of text, then the rows ---------------------------------------------------------------------- */

int reference_rows_key(char key[SHA256_HEX_BYTES], const char *source_sha256, const TextWindows *windows) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;

    sha256_hex(windows->ids, windows->n * windows->len * sizeof(*windows->ids), key);
    str_buf_addf(&text, "%d %d %s %zu %zu %s", FORMAT, REFERENCE_TOP, source_sha256, windows->n, windows->len, key);
    if (str_buf_failed(&text))
        return -ENOMEM;
    sha256_hex(text.data, text.len_bytes, key);
    return 0;
}

#define HEAD_BYTES sizeof("coordgen reference rows\n0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n")

static void write_head(char head[HEAD_BYTES], const char *key) {
    snprintf(head, HEAD_BYTES, "coordgen reference rows\n%.64s\n", key);
}

int reference_rows_load(ReferenceRows *rows, const char *path, const char *key, size_t n, ErrText *err) {
    _cleanup_(freep) char *data = NULL;
    char head[HEAD_BYTES];
    size_t len_bytes;
    int r;

    if (access(path, F_OK) < 0 && errno == ENOENT)
        return -ENOENT;
    r = file_slurp(path, FILE_MAX_BYTES, &data, &len_bytes, err);
    if (r)
        return r;
    write_head(head, key);
    if (len_bytes != HEAD_BYTES - 1 + n * sizeof(*rows->rows) || memcmp(data, head, HEAD_BYTES - 1) != 0)
        return -ENOENT;
    *rows = (ReferenceRows){ .rows = malloc(n * sizeof(*rows->rows)), .n = n };
    if (!rows->rows)
        return err_no_memory(err);
    memcpy(rows->rows, data + HEAD_BYTES - 1, n * sizeof(*rows->rows));
    return 0;
}

int reference_rows_save(const ReferenceRows *rows, const char *path, const char *key, ErrText *err) {
    _cleanup_(atomic_file_freep) AtomicFile *file = NULL;
    char head[HEAD_BYTES];
    int r = atomic_file_new(&file, path, err);

    if (r)
        return r;
    write_head(head, key);
    r = file_write_all(atomic_file_fd(file), head, HEAD_BYTES - 1);
    if (!r)
        r = file_write_all(atomic_file_fd(file), rows->rows, rows->n * sizeof(*rows->rows));
    return r ? err_set(err, r, "%s: cannot write: %s", path, strerror(-r)) : atomic_file_commit(file, err);
}

void reference_rows_deinit(ReferenceRows *rows) {
    free(rows->rows);
    rows->rows = NULL;
}
