// SPDX-License-Identifier: Apache-2.0
/*
 * An image is the head, the places of the parts, the package's path (for tidying the folder), and then the parts, each
 * aligned to 64 bytes. The file is mapped as it is, and its pages belong to the page cache: a process that maps the
 * image after another one finds them in memory.
 *
 * If a product touched a page that is not in memory, that page would come alone, and a bad sector would be a signal.
 * Pages are therefore read before, in the order of use and many requests at a time, by a thread that gets failures as
 * error codes; only parts of the map that have been read once are touched. Under memory pressure the system may still
 * drop pages and read them again. If the disk fails then, or the file was cut short meanwhile, the map is marked as
 * lost (base/memory/map_guard), and nothing that was computed since counts.
 */
#define _GNU_SOURCE
#include "weights/image/weights_image.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/files/page_cache.h"
#include "base/memory/page_size.h"
#include "base/min_max.h"
#include "base/system/kernel_call.h"
#include "base/system/thread.h"
#include "weights/image/image_compare.h"
#include "weights/image/image_format.h"

enum {
    AHEAD_BYTES = 32 << 20, /* that are asked for ahead of the read */
    ASK_BYTES = 128 << 10,  /* in one request: Linux takes only the beginning of a longer one */
    READ_BYTES = 256 << 10,
    RESULT_DAMAGED = 1000, /* of a step, beside FILE_E_*: a part is damaged */
};

/* The thread that reads ahead, and what it tells. */
typedef struct ReadAhead {
    pthread_t thread;
    bool has_thread;
    Trace *trace; /* of the load; or NULL */
    _Atomic bool stop;
    uint64_t late_bytes; /* first bytes of the file, which are read last */
    _Atomic bool is_late;
    size_t n_compared; /* parts, in the order of the file */
    _Atomic uint64_t cached_bytes, read_bytes;
    pthread_mutex_t mutex;
    pthread_cond_t came;
    uint64_t ready_bytes; /* mutex: the file is in memory up to here */
    int result;           /* mutex */
    ErrText failure;      /* mutex */
} ReadAhead;

struct WeightsImage {
    char *path;
    int fd;
    MappedFile map;
    ImageHead *head;          /* with places and path; the file's own head is not read again */
    const ImagePlace *places; /* in the head */
    /* The caller's of advance(): the file is in memory up to here, and so are the parts below n_there. */
    uint64_t seen_bytes;
    size_t n_there;
    ImageCompare *compare; /* used by the reader of the parts: the thread, or the ring; NULL: none */
    _Atomic bool is_discarded;
    ReadAhead ahead;
};

/* --- the file ----------------------------------------------------------------------------------------------------- */

/* Refuses an image that others may write to. */
static int check_owner(const WeightsImage *image, ErrText *err) {
    struct stat st;

    if (fstat(image->fd, &st) < 0)
        return err_set(err, -errno, "%s: %s", image->path, strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022)
        return err_set(err, WEIGHTS_IMAGE_E_OTHER, "%s: not a file that only this user may write to", image->path);
    return 0;
}

/* Copies head, places and path into memory, so that they stay as they were checked. */
static int read_head(WeightsImage *image, size_t n_parts, ErrText *err) {
    ImageHead head;
    int r = file_read_exact(image->fd, &head, sizeof(head), 0);

    if (!r && (memcmp(head.magic, IMAGE_MAGIC, sizeof(head.magic)) || head.version != IMAGE_VERSION))
        r = FILE_E_SHORT;
    if (!r && (head.n_parts != n_parts || head.path_bytes > PATH_MAX ||
               head.head_bytes != sizeof(head) + n_parts * sizeof(ImagePlace) + head.path_bytes))
        return err_set(err, WEIGHTS_IMAGE_E_OTHER, "%s: its head is not that of %zu matrices", image->path, n_parts);
    if (!r) {
        image->head = malloc((size_t)head.head_bytes);
        if (!image->head)
            return err_no_memory(err);
        r = file_read_exact(image->fd, image->head, (size_t)head.head_bytes, 0);
    }
    if (r)
        return err_set(err, r < 0 ? r : WEIGHTS_IMAGE_E_OTHER, "%s: %s", image->path,
                       r < 0 ? strerror(-r) : "not an image of weights");
    if (memcmp(&head, image->head, sizeof(head)))
        return err_set(err, WEIGHTS_IMAGE_E_OTHER, "%s: it is being written to", image->path);
    image->places = (const ImagePlace *)(image->head + 1);
    return 0;
}

static int check_head(WeightsImage *image, const WeightsImageKey *key, ErrText *err) {
    ImageHead *found = image->head, expected;
    char said[SHA256_HEX_BYTES], sha256[SHA256_HEX_BYTES];
    uint64_t at = found->head_bytes;

    image_head_init(&expected, key);
    if (found->package_inode != key->inode || found->package_bytes != key->len_bytes ||
        found->package_mtime_ns != key->mtime_ns || found->package_ctime_ns != key->ctime_ns)
        return err_set(err, WEIGHTS_IMAGE_E_OTHER, "%s: the package has changed since", image->path);
    if (memcmp(found->layout, expected.layout, sizeof(found->layout)) ||
        memcmp(found->program, expected.program, sizeof(found->program)))
        return err_set(err, WEIGHTS_IMAGE_E_OTHER, "%s: made by another version", image->path);
    memcpy(said, found->sha256, sizeof(said));
    image_digest(found, (size_t)found->head_bytes, sha256);
    if (memcmp(sha256, said, sizeof(said)))
        return err_set(err, WEIGHTS_IMAGE_E_OTHER, "%s: damaged: its head has another digest", image->path);
    for (size_t i = 0; i < found->n_parts; i++) {
        const ImagePlace *place = &image->places[i];

        if (place->offset_bytes % IMAGE_ALIGNMENT || place->offset_bytes < at ||
            place->offset_bytes > found->len_bytes || place->len_bytes > found->len_bytes - place->offset_bytes)
            return err_set(err, WEIGHTS_IMAGE_E_OTHER, "%s: damaged: part %zu is outside", image->path, i);
        at = place->offset_bytes + place->len_bytes;
    }
    return 0;
}

static int map_parts(WeightsImage *image, ErrText *err) {
    int r = mapped_file_from_fd(&image->map, image->fd, image->path, err);

    if (!r && image->map.len_bytes != image->head->len_bytes)
        r = err_set(err, WEIGHTS_IMAGE_E_OTHER, "%s: damaged: its length is not what it says", image->path);
    return r;
}

/* --- object ------------------------------------------------------------------------------------------------------- */

WeightsImage *weights_image_free(WeightsImage *image) {
    if (!image)
        return NULL;
    atomic_store(&image->ahead.stop, true);
    if (image->ahead.has_thread)
        pthread_join(image->ahead.thread, NULL);
    pthread_cond_destroy(&image->ahead.came);
    pthread_mutex_destroy(&image->ahead.mutex);
    mapped_file_deinit(&image->map);
    image_compare_free(image->compare);
    if (image->fd >= 0)
        close(image->fd);
    free(image->head);
    free(image->path);
    free(image);
    return NULL;
}

/**
 * weights_image_open() - map an image, if it is that of the package as it is now
 * @n_parts: matrices of the package
 *
 * Reads the head alone; whoever takes a part checks that it has the right size.
 * Return: 0; WEIGHTS_IMAGE_E_OTHER, with a text that says why the image is of no use; -errno.
 */
int weights_image_open(WeightsImage **imagep, const char *path, const WeightsImageKey *key, size_t n_parts,
                       ErrText *err) {
    _cleanup_(weights_image_freep) WeightsImage *image = calloc(1, sizeof(*image));
    int r;

    if (!image)
        return err_no_memory(err);
    image->fd = -1;
    pthread_mutex_init(&image->ahead.mutex, NULL);
    pthread_cond_init(&image->ahead.came, NULL);
    image->path = strdup(path);
    if (!image->path)
        return err_no_memory(err);
    image->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK);
    if (image->fd < 0)
        return err_set(err, errno == ENOENT ? WEIGHTS_IMAGE_E_OTHER : -errno, "%s: %s", path, strerror(errno));
    r = check_owner(image, err);
    if (!r)
        r = read_head(image, n_parts, err);
    if (!r)
        r = check_head(image, key, err);
    if (!r)
        r = map_parts(image, err);
    if (r)
        return r;
    *imagep = steal(&image);
    return 0;
}

int weights_image_compare(WeightsImage *image, size_t first, size_t end, const char *notes, ErrText *err) {
    const int r = image_compare_new(&image->compare, image->fd, image->places, first, end, notes);

    return r ? err_set(err, r, "%s: %s", image->path, strerror(-r)) : 0;
}

bool weights_image_part_is_whole(WeightsImage *image, size_t index, const void *data) {
    return image_compare_part(image->compare, index, data);
}

WeightsImagePart weights_image_part(const WeightsImage *image, size_t index) {
    return (WeightsImagePart){ image->map.data + image->places[index].offset_bytes,
                               (size_t)image->places[index].len_bytes };
}

int weights_image_fd(const WeightsImage *image) {
    return image->fd;
}

uint64_t weights_image_offset_bytes(const WeightsImage *image, size_t index) {
    return image->places[index].offset_bytes;
}

const char *weights_image_name(const WeightsImage *image) {
    return image->path;
}

uint64_t weights_image_len_bytes(const WeightsImage *image) {
    return image->head->len_bytes;
}

uint64_t weights_image_cached_bytes(const WeightsImage *image) {
    return atomic_load(&image->ahead.cached_bytes);
}

uint64_t weights_image_read_bytes(const WeightsImage *image) {
    return atomic_load(&image->ahead.read_bytes);
}

void weights_image_discard(WeightsImage *image) {
    struct stat own, named;

    if (!atomic_exchange(&image->is_discarded, true) && !fstat(image->fd, &own) && !lstat(image->path, &named) &&
        own.st_dev == named.st_dev && own.st_ino == named.st_ino)
        (void)unlink(image->path);
}

int weights_image_check(WeightsImage *image, ErrText *err) {
    if (!mapped_file_check(&image->map, image->path, NULL))
        return 0;
    weights_image_discard(image);
    return err_set(err, -EIO,
                   "%s: this image of the weights was cut short while it was in use, or its disk fails: it is removed, "
                   "and the next load reads the package",
                   image->path);
}

/* --- reading ahead ------------------------------------------------------------------------------------------------ */

/* Brings pages of the map into memory and into the process's page tables, so that no product waits for either; nothing
 * is copied. A page that cannot be read is an error here and no signal. 0, or -errno: older kernels lack the call, and
 * after a failure a read tells more. */
static int populate(const WeightsImage *image, uint64_t at_bytes, size_t len_bytes) {
    const uint64_t begin = page_round_down(at_bytes); /* a map begins on a page of any size */

    if (!madvise((uint8_t *)(uintptr_t)image->map.data + begin, (size_t)(at_bytes + len_bytes - begin),
                 MADV_POPULATE_READ))
        return 0;
    return -errno;
}

/* Brings bytes into the page cache, or tells that they cannot be read. If the map cannot be populated, bytes are read
 * into a buffer that stays in the processor's cache. */
static int read_step(WeightsImage *image, uint8_t *buffer, uint64_t at_bytes, size_t len_bytes, uint64_t *askedp) {
    const uint64_t end_bytes = at_bytes + len_bytes + AHEAD_BYTES;
    const uint64_t ask_end_bytes = MIN(end_bytes, image->head->len_bytes);
    int r = 0;

    for (*askedp = MAX(*askedp, at_bytes); *askedp < ask_end_bytes; *askedp += ASK_BYTES)
        (void)posix_fadvise(image->fd, (off_t)*askedp, ASK_BYTES, POSIX_FADV_WILLNEED);
    if (!populate(image, at_bytes, len_bytes))
        return 0;
    for (size_t done = 0, n; !r && done < len_bytes; done += n) {
        n = MIN(len_bytes - done, READ_BYTES);
        r = file_read_exact(image->fd, buffer, n, at_bytes + done);
    }
    return r;
}

/* Compares the parts that end before a byte: nothing is computed with one that is damaged. */
static int compare_parts(WeightsImage *image, uint64_t end_bytes) {
    for (; image->ahead.n_compared < image->head->n_parts; image->ahead.n_compared++) {
        const WeightsImagePart part = weights_image_part(image, image->ahead.n_compared);

        if (image->places[image->ahead.n_compared].offset_bytes + part.len_bytes > end_bytes)
            break;
        if (!weights_image_part_is_whole(image, image->ahead.n_compared, part.data))
            return RESULT_DAMAGED;
    }
    return 0;
}

static void publish(WeightsImage *image, uint64_t ready_bytes, int r) {
    pthread_mutex_lock(&image->ahead.mutex);
    image->ahead.ready_bytes = ready_bytes;
    image->ahead.result = r > 0 ? -EIO : r;
    if (r && r != -ENOMEM)
        weights_image_discard(image); /* the package has it all */
    if (r == FILE_E_SHORT)
        err_set(&image->ahead.failure, 0, "%s: it was cut short; load the model again", image->path);
    else if (r == RESULT_DAMAGED)
        err_set(&image->ahead.failure, 0,
                "%s: matrix %zu is not as it was written: this image of the weights is removed; load the model again",
                image->path, image->ahead.n_compared);
    else if (r)
        err_set(&image->ahead.failure, 0, "%s: cannot be read at %" PRIu64 ": %s; load the model again", image->path,
                ready_bytes, strerror(-r));
    pthread_cond_signal(&image->ahead.came);
    pthread_mutex_unlock(&image->ahead.mutex);
}

static void trace_step(const WeightsImage *image, const char *name, uint64_t start_ns, size_t len_bytes) {
    if (image->ahead.trace)
        trace_add(image->ahead.trace, &(TraceEvent){ .name = name,
                                                     .category = "load",
                                                     .start_ns = start_ns,
                                                     .end_ns = clock_now_ns(),
                                                     .layer = -1,
                                                     .lane = TRACE_LANE_READ,
                                                     .bytes = len_bytes });
}

/* Reads the bytes up to end_bytes, of which *atp are there. */
static int read_until(WeightsImage *image, uint8_t *buffer, uint64_t *atp, uint64_t end_bytes) {
    uint64_t asked = 0;
    int r = 0;

    while (!r && *atp < end_bytes && !atomic_load(&image->ahead.stop)) {
        const size_t n = end_bytes - *atp < IMAGE_STEP_BYTES ? (size_t)(end_bytes - *atp) : IMAGE_STEP_BYTES;
        const uint64_t start_ns = clock_now_ns();

        if (*atp >= asked && page_cache_holds(image->fd, *atp, n)) { /* what was asked for is being read */
            (void)populate(image, *atp, n);
            trace_step(image, "map", start_ns, n);
            atomic_fetch_add(&image->ahead.cached_bytes, n);
        } else {
            r = read_step(image, buffer, *atp, n, &asked);
            trace_step(image, "read", start_ns, n);
            atomic_fetch_add(&image->ahead.read_bytes, r ? 0 : n);
        }
        if (!r)
            r = compare_parts(image, *atp + n);
        *atp += r ? 0 : n;
        if (!r && end_bytes == image->head->len_bytes)
            publish(image, *atp, 0);
    }
    return r;
}

static void *read_main(void *arg) {
    WeightsImage *image = arg;
    _cleanup_(freep) uint8_t *buffer = malloc(READ_BYTES);
    uint64_t at = image->ahead.late_bytes, late_at = 0;
    int r = buffer ? 0 : -ENOMEM;

    if (!r && at)
        publish(image, at, 0);
    if (!r)
        r = read_until(image, buffer, &at, image->head->len_bytes);
    if (!r)
        r = read_until(image, buffer, &late_at, image->ahead.late_bytes);
    if (r)
        publish(image, at, r);
    atomic_store(&image->ahead.is_late, false);
    weights_image_tidy(image->path);
    return NULL;
}

bool weights_image_is_late(const WeightsImage *image) {
    return atomic_load(&image->ahead.is_late);
}

void weights_image_read_ahead(WeightsImage *image, size_t n_late, Trace *trace) {
    const ImagePlace *places = image->places;

    image->ahead.trace = trace;
    if (n_late && n_late < image->head->n_parts && !image->compare)
        image->ahead.late_bytes = places[n_late - 1].offset_bytes + places[n_late - 1].len_bytes;
    atomic_store(&image->ahead.is_late, image->ahead.late_bytes > 0);
    image->ahead.has_thread = !thread_start(&image->ahead.thread, "weights-image", read_main, image);
    if (!image->ahead.has_thread)
        read_main(image);
}

int weights_image_advance(WeightsImage *image, size_t *n_partsp, ErrText *err) {
    const size_t n_parts = image->head->n_parts;
    int r;

    pthread_mutex_lock(&image->ahead.mutex);
    while (!image->ahead.result && image->ahead.ready_bytes == image->seen_bytes &&
           image->seen_bytes < image->head->len_bytes)
        pthread_cond_wait(&image->ahead.came, &image->ahead.mutex);
    image->seen_bytes = image->ahead.ready_bytes;
    r = image->ahead.result;
    if (r && err)
        *err = image->ahead.failure;
    pthread_mutex_unlock(&image->ahead.mutex);
    while (image->n_there < n_parts &&
           image->places[image->n_there].offset_bytes + image->places[image->n_there].len_bytes <= image->seen_bytes)
        image->n_there++;
    *n_partsp = image->n_there;
    return image->n_there < n_parts ? r : 0;
}
