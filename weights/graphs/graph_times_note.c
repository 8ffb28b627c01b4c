// SPDX-License-Identifier: Apache-2.0
#include "weights/graphs/graph_times_note.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/files/file_note.h"
#include "base/strings/decimal.h"

#define NS_MAX UINT64_C(1000000000000)

static double *time_at(GraphTimes *times, size_t index) {
    return index < _GRAPH_KIND_N ? &times->compute_ns[index] : &times->load_ns[index - _GRAPH_KIND_N];
}

/* Reads "KEY: compute compute load load", in nanoseconds; any other text is ignored. */
static void read_note(GraphTimes *times, const char *key, const char *text) {
    const size_t key_bytes = strlen(key);
    GraphTimes read = { { 0 }, { 0 } };

    if (strncmp(text, key, key_bytes) != 0 || text[key_bytes] != ':')
        return;
    text += key_bytes + 1;
    for (size_t i = 0; i < 2 * _GRAPH_KIND_N; i++) {
        uint64_t ns;

        text = *text == ' ' ? decimal_read_u64(text + 1, &ns) : NULL;
        if (!text || ns > NS_MAX)
            return;
        *time_at(&read, i) = (double)ns;
    }
    if (!*text)
        *times = read;
}

void graph_times_note_recall(GraphTimesNote *note, GraphTimes *times, int fd, const char *folder,
                             const Backend *backend, size_t n_blocks, ReadLimit limit) {
    char text[FILE_NOTE_BYTES_MAX];

    *note = (GraphTimesNote){ .times = times };
    if (!folder || snprintf(note->folder, sizeof(note->folder), "%s", folder) >= PATH_MAX ||
        fstat(fd, &note->file) < 0) {
        *note->folder = 0;
        return;
    }
    snprintf(note->key, sizeof(note->key), "1 %s %s %u %zu %" PRIu64 " %" PRIu32, backend->ops->name,
             backend->ops->kernel(backend), worker_pool_n_threads(backend->pool), n_blocks, limit.bytes_per_s,
             limit.latency_us);
    if (file_note_recall(note->folder, &note->file, text, sizeof(text)))
        read_note(times, note->key, text);
}

void graph_times_note_save(const GraphTimesNote *note) {
    const GraphTimes *times = note->times;
    char text[FILE_NOTE_BYTES_MAX];

    if (!*note->folder || !(times->compute_ns[GRAPH_PREFILL] > 0 && times->load_ns[GRAPH_DECODE] > 0))
        return;
    if (snprintf(text, sizeof(text), "%s: %.0f %.0f %.0f %.0f", note->key, times->compute_ns[0], times->compute_ns[1],
                 times->load_ns[0], times->load_ns[1]) < (int)sizeof(text))
        file_note_remember(note->folder, &note->file, text);
}
