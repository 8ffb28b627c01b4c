// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "importer/import_work.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/min_max.h"
#include "base/system/thread.h"
#include "importer/import_layer.h"
#include "importer/import_settings.h"
#include "model/package/package_checksum.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"

#define THREADS_MAX 64
#define BITS_STEPS 128 /* a budget of bytes is met to 1/128 bit */
#define HASH_BLOCK_BYTES (1u << 20)
#define RECORD_NS 1000000000u
/* Pause before the next record, in durations of the last one: recording takes at most 5 % of the time. */
#define RECORD_PAUSES 19

/* --- widths ------------------------------------------------------------------------------------------------------- */

static int lay_out(Import *import, ErrText *err) {
    return import_plan_layout(&import->plan, &import->recipe, import->source_sha256, import->calibration.sha256, err);
}

/* Widens the channels of the layers to the width of their blocks: levels of a grid that is not uniform cannot be stored
 * at a larger width otherwise. */
static int widen(const Import *import, ErrText *err) {
    const ImportPlan *plan = &import->plan;
    int r = 0;

    for (size_t i = 0; !r && i < plan->n_linears; i++)
        if (!tensor_role_is_embedding(plan->linears[i].role))
            r = pack_widen(plan->linears[i].bits, plan->linears[i].n);
    return r ? err_set(err, r, "%s: out of memory for the widths", import->source.path) : 0;
}

/* Tries an average width and computes the size of the package. */
static int allocate(Import *import, void *state, double bits, ErrText *err) {
    int r;

    import->model.bits = bits;
    r = import->method->allocate(state, &import->model, err);
    if (!r && import->recipe.grid != GRID_UNIFORM)
        r = widen(import, err);
    return r ? r : lay_out(import, err);
}

/* Refuses a budget below the smallest package, 1 bit a weight, before anything is measured. With static activations the
 * size counts no shadows until their profile is there. Overwrites the widths. */
static int check_budget(Import *import, ErrText *err) {
    const QuantRecipe *recipe = &import->recipe;
    const ImportPlan *plan = &import->plan;
    int r;

    if (!recipe->budget_bytes)
        return 0;
    for (size_t i = 0; i < plan->n_linears; i++)
        if (!tensor_role_is_embedding(plan->linears[i].role))
            memset(plan->linears[i].bits, GRID_BITS_MIN, plan->linears[i].n);
    r = lay_out(import, err);
    if (r || plan->package_bytes <= recipe->budget_bytes)
        return r;
    return err_set(err, IMPORT_E_BUDGET,
                   "%s: the smallest package has %" PRIu64 " bytes (1 bit a weight, embeddings of %u bits), the "
                   "budget is %" PRIu64 " bytes: give a larger one, or fewer bits to the embeddings",
                   import->source.path, plan->package_bytes, recipe->embedding_bits, recipe->budget_bytes);
}

/**
 * choose_bits() - choose the widths of all channels, and with them the layout
 *
 * A budget is met by the largest average, in steps of 1/128 bit (of 1 bit if all channels are alike), whose package is
 * not larger. More bits never make a package smaller, so the search halves its range.
 */
static int choose_bits(Import *import, void *state, ErrText *err) {
    const QuantRecipe *recipe = &import->recipe;
    const unsigned int step = recipe->allocation == QUANT_ALLOCATION_UNIFORM ? BITS_STEPS : 1;
    unsigned int low = BITS_STEPS / step, high, now = 0; /* in steps; low is possible, high is too large */
    int r;

    r = check_budget(import, err);
    if (!r)
        r = allocate(import, state, recipe->bits, err);
    if (r || !recipe->budget_bytes || import->plan.package_bytes <= recipe->budget_bytes)
        return r;
    high = (unsigned int)ceil(recipe->bits * BITS_STEPS / step);
    while (high - low > 1) {
        now = low + (high - low) / 2;
        r = allocate(import, state, (double)(now * step) / BITS_STEPS, err);
        if (r)
            return r;
        if (import->plan.package_bytes > recipe->budget_bytes)
            high = now;
        else
            low = now;
    }
    return now == low ? 0 : allocate(import, state, (double)(low * step) / BITS_STEPS, err);
}

/* --- the journal -------------------------------------------------------------------------------------------------- */

enum {
    RECORD_WIDTHS = 1, /* i8[n_channels], the widths of all channels, then the operators; the first record */
    RECORD_LAYER = 2,  /* LayerRecord; one for each layer, in order */
};

#define EXTENTS_MAX 2 /* the tensors outside the layers lie before and behind them */

typedef struct LayerExtent {
    uint64_t begin, end; /* in the file, padding included */
    uint8_t sha256[SHA256_DIGEST_SIZE];
} LayerExtent;

typedef struct LayerRecord {
    uint64_t layer;
    uint64_t n_extents;
    LayerExtent extents[EXTENTS_MAX];
} LayerRecord;

_Static_assert(sizeof(LayerRecord) == 16 + EXTENTS_MAX * 48, "no padding in the file");

static int hash_extent(const Import *import, LayerExtent *extent, uint8_t *block, ErrText *err) {
    struct sha256_ctx context;
    int r;

    sha256_init(&context);
    for (uint64_t at = extent->begin; at < extent->end;) {
        size_t n = extent->end - at < HASH_BLOCK_BYTES ? (size_t)(extent->end - at) : HASH_BLOCK_BYTES;

        r = file_read_exact(import->part.fd, block, n, at);
        if (r)
            return err_set(err, r < 0 ? r : -EIO, "%s: cannot read what was written: %s", import->part.path,
                           r < 0 ? strerror(-r) : "the file is too short");
        sha256_update(&context, n, block);
        at += n;
    }
    sha256_digest(&context, sizeof(extent->sha256), extent->sha256);
    return 0;
}

/* Computes the record of a layer from the bytes in the file. */
static int layer_record(const Import *import, size_t index, LayerRecord *record, ErrText *err) {
    _cleanup_(freep) uint8_t *block = malloc(HASH_BLOCK_BYTES);
    const ImportPlan *plan = &import->plan;
    int r;

    *record = (LayerRecord){ .layer = index };
    if (!block)
        return err_set(err, -ENOMEM, "%s: out of memory", import->source.path);
    for (size_t i = 0; i < plan->n_tensors; i++) {
        LayerExtent *extent = &record->extents[record->n_extents];

        if (plan->tensors[i].layer != index)
            continue;
        assert(record->n_extents < EXTENTS_MAX);
        extent->begin = plan->tensors[i].offset;
        while (i + 1 < plan->n_tensors && plan->tensors[i + 1].layer == index)
            i++;
        extent->end = i + 1 < plan->n_tensors ? plan->tensors[i + 1].offset : plan->package_bytes;
        r = hash_extent(import, extent, block, err);
        if (r)
            return r;
        record->n_extents++;
    }
    return 0;
}

/* Records layers up to n as finished: their bytes reach the disk first, then the journal. */
static int record_layers(Import *import, size_t n, ErrText *err) {
    size_t n_recorded = import_journal_n(import->journal) - 1;
    int r = 0;

    if (n_recorded >= n)
        return 0;
    if (fdatasync(import->part.fd) < 0)
        return import_write_error(-errno, import->out_path, import->plan.package_bytes, err);
    for (; !r && n_recorded < n; n_recorded++) {
        LayerRecord record;

        r = layer_record(import, n_recorded, &record, err);
        if (!r)
            r = import_journal_add(import->journal, RECORD_LAYER, &record, sizeof(record), err);
    }
    if (!r)
        r = import_journal_sync(import->journal, err);
    return r;
}

/* A profiled operator. is_hot of all operators follows these records, u8[n_inputs]. */
typedef struct OperatorRecord {
    float scale, importance;
    uint32_t shadow;
} OperatorRecord;

static size_t widths_bytes(const ImportPlan *plan) {
    return plan->n_channels + plan->n_operators * sizeof(OperatorRecord) + plan->n_inputs;
}

static int record_widths(Import *import, ErrText *err) {
    const ImportPlan *plan = &import->plan;
    _cleanup_(freep) uint8_t *data = malloc(widths_bytes(plan));
    uint8_t *at = data;
    int r;

    if (!data)
        return err_set(err, -ENOMEM, "%s: out of memory", import->source.path);
    memcpy(at, plan->bits, plan->n_channels);
    at += plan->n_channels;
    for (size_t i = 0; i < plan->n_operators; i++, at += sizeof(OperatorRecord)) {
        const ImportOperator *operator= & plan->operators[i];

        memcpy(at, &(OperatorRecord){ operator->scale, operator->importance, operator->shadow },
               sizeof(OperatorRecord));
    }
    if (plan->n_inputs)
        memcpy(at, plan->is_hot, plan->n_inputs);
    r = import_journal_add(import->journal, RECORD_WIDTHS, data, widths_bytes(plan), err);
    if (!r)
        r = import_journal_sync(import->journal, err);
    return r;
}

static bool recall_operators(const ImportPlan *plan, const uint8_t *at) {
    const uint8_t *is_hot = at + plan->n_operators * sizeof(OperatorRecord);

    for (size_t i = 0; i < plan->n_inputs; i++)
        if (is_hot[i] > 1)
            return false;
    for (size_t i = 0; i < plan->n_operators; i++, at += sizeof(OperatorRecord)) {
        OperatorRecord record;

        memcpy(&record, at, sizeof(record));
        if (!(record.scale >= PACKAGE_SCALE_MIN && record.scale <= PACKAGE_SCALE_MAX) || !(record.importance >= 0) ||
            !isfinite(record.importance) || record.shadow > 1)
            return false;
        plan->operators[i].scale = record.scale;
        plan->operators[i].importance = record.importance;
        plan->operators[i].shadow = record.shadow;
    }
    if (plan->n_inputs)
        memcpy(plan->is_hot, is_hot, plan->n_inputs);
    return true;
}

/* Takes the widths and operators that an earlier import has recorded. false: there are none. */
static bool recall_widths(Import *import) {
    const JournalRecord *record = import_journal_at(import->journal, 0);
    const ImportPlan *plan = &import->plan;
    const int8_t *bits;

    if (!record || record->kind != RECORD_WIDTHS || record->len_bytes != widths_bytes(plan))
        return false;
    bits = (const int8_t *)record->data;
    for (size_t i = 0; i < plan->n_channels; i++)
        if (bits[i] < GRID_BITS_MIN || bits[i] > GRID_BITS_MAX)
            return false;
    if (!recall_operators(plan, (const uint8_t *)record->data + plan->n_channels))
        return false;
    memcpy(plan->bits, bits, plan->n_channels);
    return true;
}

/* --- layers ------------------------------------------------------------------------------------------------------- */

static int make_layer(Import *import, void *state, size_t index, ErrText *err) {
    const ImportMethod *method = import->method;
    int r;

    r = import_layer_begin(import, index, err);
    if (!r && !index)
        r = import_outside_write(import, err);
    if (!r && !index && method->sees_outside)
        r = import_layer_read_integers(import, index, err);
    if (!r)
        r = method->quantize(state, &import->model, &import->plan.layers[index], err);
    return r ? r : import_layer_write(import, index, err);
}

/* Checks a finished layer against its record and hands it to the method. 0; RESUME_BAD: the file does not hold the
 * layer. */
enum {
    RESUME_BAD = 100
};

static int skip_layer(Import *import, void *state, size_t index, ErrText *err) {
    const ImportMethod *method = import->method;
    const JournalRecord *found = import_journal_at(import->journal, index + 1);
    LayerRecord record;
    int r;

    r = layer_record(import, index, &record, err);
    if (r)
        return r;
    if (found->kind != RECORD_LAYER || found->len_bytes != sizeof(record) ||
        memcmp(found->data, &record, sizeof(record)))
        return RESUME_BAD;
    if (!method->skip)
        return 0;
    r = import_layer_begin(import, index, err);
    if (!r)
        r = import_layer_read_floats(import, index, err);
    if (!r && (index || method->sees_outside))
        r = import_layer_read_integers(import, index, err);
    return r ? r : method->skip(state, &import->model, &import->plan.layers[index], err);
}

/* Takes over the recorded layers up to the first bad one, whose record and all later ones are forgotten. */
static int resume_layers(Import *import, void *state, uint64_t *done_bytesp, ErrText *err) {
    const ImportPlan *plan = &import->plan;
    size_t n = import_journal_n(import->journal) - 1;
    int r = 0;

    import->monitor.progress.n_layers = plan->n_layers;
    for (size_t i = 0; i < n && i < plan->n_layers; i++) {
        import_monitor_stage(&import->monitor, IMPORT_STAGE_RESUME, *done_bytesp, plan->layer_bytes[i],
                             plan->total_bytes);
        r = import_monitor_check(&import->monitor, err);
        if (r)
            return r;
        r = skip_layer(import, state, i, err);
        import_layer_end(import, i);
        if (r)
            break;
        *done_bytesp += plan->layer_bytes[i];
        import->monitor.progress.done_layers = import->n_resumed = i + 1;
    }
    if (r && r != RESUME_BAD)
        return r;
    return n > import->n_resumed ? import_journal_keep(import->journal, import->n_resumed + 1, err) : 0;
}

/* Keeps finished layers after a cancel. An error of the record does not replace the text of the cancel. */
static int cancelled(Import *import, size_t n_layers, ErrText *err) {
    (void)record_layers(import, n_layers, NULL);
    return import_monitor_cancelled(&import->monitor, err);
}

/* The end and the duration of the last record; 0: there was none. */
typedef struct RecordPace {
    uint64_t end_ns, took_ns;
} RecordPace;

/* Records finished layers, not too often. A wait for the disk after every small layer would take longer than the layer,
 * and an import of half a second would never be recorded at one record a second. So the duration of the last record
 * sets the pause, and the first layer is recorded at once. A killed import loses its last layer, or RECORD_PAUSES times
 * the duration of a record, at most RECORD_NS. This limit takes precedence over the 5 % on a disk that needs more than
 * 1/19 s for a record. */
static int record_at_times(Import *import, size_t n, RecordPace *pace, ErrText *err) {
    uint64_t begin_ns = clock_now_ns(), pause_ns = RECORD_PAUSES * pace->took_ns;
    int r;

    if (begin_ns - pace->end_ns < MIN(pause_ns, RECORD_NS))
        return 0;
    r = record_layers(import, n, err);
    pace->end_ns = clock_now_ns();
    pace->took_ns = pace->end_ns - begin_ns;
    return r;
}

static int make_layers(Import *import, void *state, ErrText *err) {
    const ImportPlan *plan = &import->plan;
    RecordPace pace = { .end_ns = clock_now_ns() };
    uint64_t done_bytes = 0;
    int r;

    r = resume_layers(import, state, &done_bytes, err);
    for (size_t i = import->n_resumed; !r && i < plan->n_layers; i++) {
        import_monitor_stage(&import->monitor, IMPORT_STAGE_CONVERT, done_bytes, plan->layer_bytes[i],
                             plan->total_bytes);
        r = import_monitor_is_cancelled(&import->monitor) ? IMPORT_E_CANCELLED : make_layer(import, state, i, err);
        import_layer_end(import, i);
        if (r == IMPORT_E_CANCELLED)
            return cancelled(import, i, err);
        done_bytes += plan->layer_bytes[i];
        import->monitor.progress.done_layers = i + 1;
        if (!r)
            r = record_at_times(import, i + 1, &pace, err);
    }
    return r;
}

/* --- the package -------------------------------------------------------------------------------------------------- */

/* Prepares the file: widths, layout, length and head, recalled from the journal or made anew. */
static int begin_file(Import *import, void *state, ErrText *err) {
    const uint64_t least_bytes = import_plan_least_bytes(&import->plan, &import->recipe);
    bool recalled = recall_widths(import);
    const StrBuf *head;
    int r;

    if (!recalled) {
        /* The file's content is useless: without this, bytes of another layout would stay between tensors. */
        r = import_journal_keep(import->journal, 0, err);
        if (!r && ftruncate(import->part.fd, 0) < 0)
            r = import_write_error(-errno, import->out_path, least_bytes, err);
        if (!r)
            r = import_part_check_space(&import->part, least_bytes, err); /* before anything is measured */
        if (!r && import->plan.n_operators)
            r = import->method->profile(state, &import->model, err);
        if (r)
            return r;
    }
    r = recalled ? lay_out(import, err) : choose_bits(import, state, err);
    if (!r)
        r = import_part_reserve(&import->part, import->plan.package_bytes, err);
    if (r)
        return r;
    head = gguf_writer_head(import->plan.writer);
    r = file_write_at(import->part.fd, head->data, head->len_bytes, 0);
    if (r)
        return import_write_error(r, import->out_path, import->plan.package_bytes, err);
    if (recalled)
        return 0;
    /* Measuring may have taken minutes, so its result is recorded at once. */
    return record_widths(import, err);
}

/* Whether finished layers are kept: after a cancel, and when other programs used up the memory. */
static bool worth_keeping(const Import *import, int r) {
    return (r == IMPORT_E_CANCELLED || r == -ENOMEM) && import->journal && import_journal_n(import->journal) > 1;
}

static int work_on_file(Import *import, ErrText *err) {
    uint8_t fingerprint[JOURNAL_DIGEST_BYTES];
    const ImportMethod *method = import->method;
    void *state = NULL;
    int r;

    import_fingerprint(&import->recipe, import->source.name, import->source_sha256, import->calibration.sha256,
                       fingerprint);
    r = import_journal_open(&import->journal, import->part.journal_path, fingerprint, err);
    if (r)
        return r;
    /* The stage is reported only when a method reports: plain rounding measures nothing. */
    import->monitor.progress.stage = IMPORT_STAGE_MEASURE;
    import->monitor.progress.total_bytes = import->monitor.part_bytes = import->plan.total_bytes;
    r = check_budget(import, err);
    if (!r)
        r = method->begin(&state, &import->model, err);
    if (!r)
        r = begin_file(import, state, err);
    if (!r)
        r = make_layers(import, state, err);
    method->end(state);
    if (!r)
        r = import_source_unchanged(&import->source, err);
    if (r)
        return r;
    import_monitor_stage(&import->monitor, IMPORT_STAGE_SYNC, 0, import->plan.package_bytes,
                         import->plan.package_bytes);
    r = package_checksum_seal(import->part.fd, import->part.path, err);
    if (r)
        return r < 0 ? r : IMPORT_E_CORRUPT;
    r = import_part_commit(&import->part, import->plan.package_bytes, err);
    if (!r)
        import_monitor_part(&import->monitor, 1);
    return r;
}

/* Size of the package, or the least possible size while its layout is not known. */
static uint64_t bytes_needed(const Import *import) {
    return import->plan.package_bytes ? import->plan.package_bytes
                                      : import_plan_least_bytes(&import->plan, &import->recipe);
}

static unsigned int threads_allowed(unsigned int n_threads) {
    if (!n_threads)
        n_threads = thread_n_processors();
    return MIN(THREADS_MAX, n_threads);
}

/**
 * import_work() - make the package at import->out_path, whole or not at all
 *
 * Work that an import with the same fingerprint has finished is checked and kept. After a cancel the finished layers
 * stay for the next import; after any other error nothing stays.
 *
 * Return: 0, IMPORT_E_* or -errno.
 */
int import_work(Import *import, ErrText *err) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    ErrText told;
    int r;

    r = worker_pool_new(&pool, threads_allowed(import->n_threads));
    if (r)
        return err_set(err, r, "%s: cannot start threads: %s", import->out_path, strerror(-r));
    import->model = (ImportModel){
        .recipe = &import->recipe,
        .monitor = &import->monitor,
        .source_path = import->source.path,
        .source = import->source.file,
        .source_fds = import->source.fds,
        .hparams = import->source.hparams,
        .pool = pool,
        .calibration = *import->calibration.sha256 ? &import->calibration : NULL,
        .bits = import->recipe.bits,
        .layers = import->plan.layers,
        .operators = import->plan.operators,
        .n_operators = import->plan.n_operators,
    };
    r = work_on_file(import, err);
    r = import_full_error(r, import->out_path, bytes_needed(import), err);
    if (!r)
        return 0;
    if (!worth_keeping(import, r)) {
        import_part_remove(&import->part);
        return r == IMPORT_E_CANCELLED
                   ? err_set(err, r, "%s: the import was cancelled: nothing is left behind", import->source.path)
                   : r;
    }
    told = err ? *err : (ErrText){ 0 };
    return err_set(err, r,
                   "%s; %zu of %zu layers are kept in %s: run the same command again to go on, or with --discard "
                   "to remove them",
                   told.text, import_journal_n(import->journal) - 1, import->plan.n_layers, import->part.path);
}
