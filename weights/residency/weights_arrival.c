// SPDX-License-Identifier: Apache-2.0
#include "weights/residency/weights_arrival.h"

#include "base/clock.h"
#include "base/min_max.h"
#include "base/strings/printable.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

typedef struct PlacedMatrix {
    uint32_t stage;
    BackendLinear *linear; /* the weights' */
    LinearSource source;
    void *copies; /* the memory that source points to */
} PlacedMatrix;

struct WeightsArrival {
    Backend *backend;
    const char *path;
    _Atomic uint64_t *heartbeat;
    Trace *const *tracep;
    WeightStream *stream;             /* NULL with an image */
    WeightsImage *image;              /* the weights'; or NULL */
    size_t n_there;                   /* of the image's parts */
    ImageFile *image_file;            /* the weights'; or NULL */
    WeightsImageWriter *image_writer; /* the weights'; or NULL */
    size_t n_brought;                 /* matrices that were handed to image_writer */
    bool is_finished;                 /* the matrix at `at` is whole, and is being written to image_file */
    size_t written_bytes;             /* of that matrix */
    StreamMatrix *matrices;           /* [n], of the stream */
    PlacedMatrix *placed;             /* [n] */
    size_t n, n_placed;
    size_t at; /* the matrix that comes next */
    int result;
    ErrText failure;
};

WeightsArrival *weights_arrival_free(WeightsArrival *arrival) {
    if (!arrival)
        return NULL;
    weight_stream_free(arrival->stream);
    for (size_t i = 0; arrival->placed && i < arrival->n_placed; i++)
        free(arrival->placed[i].copies);
    free(arrival->placed);
    free(arrival->matrices);
    free(arrival);
    return NULL;
}

/* Translates WEIGHT_STREAM_E_* into a condition of the weights. */
static int stream_error(int r) {
    return r == WEIGHT_STREAM_E_MEMORY ? BACKEND_E_MEMORY : r == WEIGHT_STREAM_E_FILE ? BACKEND_E_WEIGHTS : r;
}

int weights_arrival_new(WeightsArrival **arrivalp, Backend *backend, const WeightStreamOptions *options,
                        const StreamMatrix *matrices, size_t n, WeightsImage *image, ImageFile *image_file,
                        WeightsImageWriter *image_writer, ErrText *err) {
    _cleanup_(weights_arrival_freep) WeightsArrival *arrival = calloc(1, sizeof(*arrival));
    int r = 0;

    if (!arrival)
        return err_no_memory(err);
    arrival->backend = backend;
    arrival->path = options->path;
    arrival->heartbeat = options->heartbeat;
    arrival->tracep = options->tracep;
    arrival->image = image;
    arrival->image_file = image_file;
    arrival->image_writer = image_writer;
    arrival->n = n;
    arrival->matrices = calloc(n + 1, sizeof(*arrival->matrices));
    arrival->placed = calloc(n + 1, sizeof(*arrival->placed));
    if (!arrival->matrices || !arrival->placed)
        return err_no_memory(err);
    memcpy(arrival->matrices, matrices, n * sizeof(*matrices));
    if (!image) {
        r = weight_stream_new(&arrival->stream, options, arrival->matrices, n, err);
        if (!r)
            r = weight_stream_start(arrival->stream, err);
    }
    if (r)
        return stream_error(r);
    *arrivalp = steal(&arrival);
    return 0;
}

static void *append(uint8_t **atp, const void *data, size_t len_bytes) {
    uint8_t *copy = *atp;

    memcpy(copy, data, len_bytes);
    *atp += len_bytes;
    return copy;
}

int weights_arrival_place(WeightsArrival *arrival, uint32_t stage, BackendLinear *linear, const LinearSource *source) {
    PlacedMatrix *placed = &arrival->placed[arrival->n_placed];
    const size_t n_floats = source->n * sizeof(float), name_bytes = strlen(source->name) + 1;
    uint8_t *at;

    assert(arrival->n_placed < arrival->n);
    *placed = (PlacedMatrix){ .stage = stage, .linear = linear, .source = *source };
    at = placed->copies = malloc(2 * n_floats + source->n + name_bytes);
    if (!at)
        return err_raise(-ENOMEM);
    placed->source.scales = append(&at, source->scales, n_floats);
    if (source->bias)
        placed->source.bias = append(&at, source->bias, n_floats);
    if (source->bits) {
        placed->source.bits = append(&at, source->bits, source->n);
        arrival->matrices[arrival->n_placed].bits = placed->source.bits;
    }
    placed->source.name = append(&at, source->name, name_bytes);
    arrival->n_placed++;
    return 0;
}

WeightsImagePart weights_arrival_next_part(const WeightsArrival *arrival) {
    return arrival->image ? weights_image_part(arrival->image, arrival->n_placed) : (WeightsImagePart){ NULL, 0 };
}

uint32_t weights_arrival_stage(const WeightsArrival *arrival) {
    assert(arrival->n_placed == arrival->n);
    return arrival->at < arrival->n ? arrival->placed[arrival->at].stage : UINT32_MAX;
}

uint32_t weights_arrival_permille(const WeightsArrival *arrival) {
    uint64_t there = 0, all = 0;

    for (size_t i = 0; i < arrival->n; i++) {
        const uint64_t n_weights = (uint64_t)arrival->matrices[i].n * arrival->matrices[i].k;

        all += n_weights;
        there += i < arrival->at ? n_weights : 0;
    }
    return all ? (uint32_t)(there * 1000 / all) : 1000;
}

WeightsArrivalWay weights_arrival_way(const WeightsArrival *arrival) {
    WeightsArrivalWay way;

    if (arrival->image) {
        way = (WeightsArrivalWay){ weights_image_cached_bytes(arrival->image), weights_image_read_bytes(arrival->image),
                                   "mapped image" };
    } else {
        way = (WeightsArrivalWay){ weight_stream_cached_bytes(arrival->stream),
                                   weight_stream_read_bytes(arrival->stream), "" };
        snprintf(way.way, sizeof(way.way), "%s", weight_stream_way(arrival->stream));
    }
    return way;
}

static void fill_blocks(void *arg, size_t block_begin, size_t block_end, const void *bytes) {
    const WeightsArrival *arrival = arg;

    arrival->backend->ops->linear_fill(arrival->backend, arrival->placed[arrival->at].linear, block_begin, block_end,
                                       bytes);
}

/* Waits for the thread that reads the image. */
static int wait_for_image(WeightsArrival *arrival, ErrText *err) {
    Trace *trace = arrival->tracep ? *arrival->tracep : NULL;
    const uint64_t start_ns = clock_now_ns();
    int r = weights_image_advance(arrival->image, &arrival->n_there, err);

    if (trace)
        trace_add(
            trace,
            &(TraceEvent){
                .name = "wait", .category = "load", .start_ns = start_ns, .end_ns = clock_now_ns(), .layer = -1 });
    return r;
}

/* Brings a few MiB more of the next matrix. Return: as weights_arrival_advance(). */
static int bring(WeightsArrival *arrival, bool *is_wholep, ErrText *err) {
    int r = 0;

    if (!arrival->image)
        return stream_error(weight_stream_advance(arrival->stream, fill_blocks, arrival, is_wholep, err));
    if (arrival->n_there <= arrival->at)
        r = wait_for_image(arrival, err);
    if (r < 0 && r != -ENOMEM) /* the file's fault, as with the package */
        r = BACKEND_E_WEIGHTS;
    *is_wholep = arrival->n_there > arrival->at;
    if (arrival->heartbeat)
        atomic_fetch_add_explicit(arrival->heartbeat, 1, memory_order_relaxed);
    return *is_wholep ? 0 : r;
}

static int finish(WeightsArrival *arrival, ErrText *err) {
    const PlacedMatrix *placed = &arrival->placed[arrival->at];
    bool is_whole;
    int r = bring(arrival, &is_whole, err);

    if (r || !is_whole)
        return r;
    r = arrival->backend->ops->linear_finish(arrival->backend, placed->linear, &placed->source, err);
    if (arrival->image && weights_image_check(arrival->image, err)) /* so that a load never ends well by zeros */
        return BACKEND_E_WEIGHTS;
    if (r)
        err_prefix(err, "%.*s", UTF8_PREFIX(arrival->path, 200));
    arrival->is_finished = !r;
    return r;
}

/* Writes the next bytes of the matrix that has come to the image file. The arrival waits for it, for the next matrix
 * may need the memory. */
static int write_on(WeightsArrival *arrival, bool *is_wholep, ErrText *err) {
    size_t len_bytes, n;
    const uint8_t *data = arrival->backend->ops->linear_image(arrival->placed[arrival->at].linear, &len_bytes);
    int r;

    n = MIN(len_bytes - arrival->written_bytes, IMAGE_STEP_BYTES);
    r = image_file_write(arrival->image_file, arrival->at, arrival->written_bytes, data + arrival->written_bytes, n,
                         err);
    arrival->written_bytes += n;
    *is_wholep = arrival->written_bytes == len_bytes;
    if (arrival->heartbeat)
        atomic_fetch_add_explicit(arrival->heartbeat, 1, memory_order_relaxed);
    return r;
}

/* Hands the matrices that have come to the image writer. If the load waits for the disk, it does so only after the last
 * matrix, for the image goes to the same disk. */
static void bring_to_image(WeightsArrival *arrival) {
    if (!arrival->image_writer || (arrival->at < arrival->n && weight_stream_waits_for_disk(arrival->stream)))
        return;
    for (; arrival->n_brought < arrival->at; arrival->n_brought++) {
        const BackendLinear *linear = arrival->placed[arrival->n_brought].linear;
        size_t len_bytes;
        const void *data = arrival->backend->ops->linear_image(linear, &len_bytes);

        weights_image_writer_bring(arrival->image_writer, data, len_bytes);
    }
}

static int advance(WeightsArrival *arrival, ErrText *err) {
    bool is_whole = !arrival->image_file;
    int r = arrival->is_finished ? write_on(arrival, &is_whole, err) : finish(arrival, err);

    if (r || !arrival->is_finished || !is_whole)
        return r;
    arrival->at++;
    arrival->is_finished = false;
    arrival->written_bytes = 0;
    bring_to_image(arrival);
    return 0;
}

int weights_arrival_fail(WeightsArrival *arrival, int r, const ErrText *why, ErrText *err) {
    arrival->result = r;
    arrival->failure = *why;
    if (err)
        *err = *why;
    return r;
}

int weights_arrival_advance(WeightsArrival *arrival, ErrText *err) {
    assert(arrival->result || arrival->at < arrival->n); /* `at` stays at a matrix that has failed */
    if (!arrival->result)
        arrival->result = advance(arrival, &arrival->failure);
    if (arrival->result && err)
        *err = arrival->failure;
    return arrival->result;
}
