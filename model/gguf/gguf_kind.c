// SPDX-License-Identifier: Apache-2.0
/* The reader walks over the metadata in a window of the file. Strings and arrays are stepped over by their lengths. Of
 * most files some megabytes are read, mainly the lengths of the vocabulary's strings. */
#define _GNU_SOURCE
#include "model/gguf/gguf_kind.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/gguf/gguf_parts.h"
#include "model/gguf/gguf_private.h"

#define WINDOW_BYTES 65536
#define CALL_BYTES 4096    /* cost of a read beside its bytes, in bytes */
#define SHOWN_BYTES_MAX 64 /* longest name or value that is looked at; all that matter are shorter */

/* --- names -------------------------------------------------------------------------------------------------------- */

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static bool ends_with(const char *text, const char *end) {
    const size_t text_bytes = strlen(text), end_bytes = strlen(end);

    return text_bytes > end_bytes && !strcasecmp(text + text_bytes - end_bytes, end);
}

/* Endings that download programs append to a name until the file is complete. */
static const char *const download_suffixes[] = {
    ".part", ".partial", ".incomplete", ".crdownload", ".download", ".aria2", ".opdownload", ".!qb", ".!ut",
};

bool gguf_kind_of_name(GgufKindInfo *info, const char *path) {
    const char *name = base_name(path);

    *info = (GgufKindInfo){ .part = 1, .n_parts = 1 };
    for (size_t i = 0; i < ARRAY_LEN(download_suffixes); i++)
        if (ends_with(name, download_suffixes[i]))
            info->kind = GGUF_KIND_DOWNLOAD;
    if (!info->kind && (!strncasecmp(name, "mmproj-", 7) || !strcasecmp(name, "mmproj.gguf")))
        info->kind = GGUF_KIND_PROJECTOR;
    if (!info->kind && (!strcasecmp(name, "imatrix.gguf") || ends_with(name, ".imatrix") ||
                        ends_with(name, ".imatrix.gguf") || !strcasecmp(name, "imatrix.dat")))
        info->kind = GGUF_KIND_IMATRIX;
    if (!info->kind && gguf_parts_of_name(name, &info->part, &info->n_parts) && info->part > 1)
        info->kind = GGUF_KIND_PART;
    return info->kind != GGUF_KIND_MODEL;
}

bool gguf_kind_is_fetched(const char *path) {
    char beside[PATH_MAX];

    return snprintf(beside, sizeof(beside), "%s.aria2", path) < (int)sizeof(beside) && !access(beside, F_OK);
}

/* --- window ------------------------------------------------------------------------------------------------------- */

typedef enum Stage {
    STAGE_HEADER,
    STAGE_KEYS,
    STAGE_STRINGS, /* length of an array */
    STAGE_TENSORS,
    STAGE_DONE,
} Stage;

struct GgufKindReader {
    int fd;
    Stage stage;
    uint64_t at; /* offset in the file */
    uint64_t window_at;
    size_t window_bytes;
    uint64_t read_bytes;                   /* length of the file, so far */
    uint64_t n_keys, n_tensors, n_strings; /* still to come; tensors: by the header until they do */
    uint64_t n_all_tensors;
    uint64_t alignment;
    uint64_t end_bytes; /* length of the data section, of the tensors so far */
    bool has_tokens;
    GgufKindInfo info;
    uint8_t window[WINDOW_BYTES];
};

int gguf_kind_reader_new(GgufKindReader **readerp, int fd) {
    _cleanup_(gguf_kind_reader_freep) GgufKindReader *reader = malloc(sizeof(*reader));
    struct stat st;

    if (!reader) {
        close(fd);
        return err_raise(-ENOMEM);
    }
    memset(reader, 0, offsetof(GgufKindReader, window));
    reader->fd = fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    reader->alignment = GGUF_ALIGNMENT_DEFAULT;
    reader->info = (GgufKindInfo){ .part = 1, .n_parts = 1, .have_bytes = (uint64_t)st.st_size };
    *readerp = steal(&reader);
    return 0;
}

GgufKindReader *gguf_kind_reader_free(GgufKindReader *reader) {
    if (!reader)
        return NULL;
    closep(&reader->fd);
    free(reader);
    return NULL;
}

/* Ends the reading with this kind. Returns false. */
static bool end(GgufKindReader *reader, GgufKind kind) {
    reader->info.kind = kind;
    reader->stage = STAGE_DONE;
    return false;
}

/* Brings the window to the reading position. A file that became shorter meanwhile counts as cut. */
static bool fill(GgufKindReader *reader) {
    ssize_t n;

    if (reader->read_bytes > GGUF_KIND_READ_BYTES_MAX)
        return end(reader, GGUF_KIND_OTHER);
    do
        n = pread(reader->fd, reader->window, WINDOW_BYTES, (off_t)reader->at);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        reader->info.error = errno;
        return end(reader, GGUF_KIND_LOST);
    }
    reader->window_at = reader->at;
    reader->window_bytes = (size_t)n;
    reader->read_bytes += (size_t)n + CALL_BYTES;
    return true;
}

/* Gives the next n bytes, at most WINDOW_BYTES, without moving the position. NULL: the reading has ended. */
static const uint8_t *look(GgufKindReader *reader, size_t n) {
    const uint64_t skipped = reader->at - reader->window_at;

    if (reader->at > reader->info.have_bytes || n > reader->info.have_bytes - reader->at) {
        end(reader, GGUF_KIND_CUT);
        return NULL;
    }
    if (reader->at >= reader->window_at && skipped <= reader->window_bytes && n <= reader->window_bytes - skipped)
        return reader->window + skipped;
    if (!fill(reader))
        return NULL;
    if (reader->window_bytes < n) {
        end(reader, GGUF_KIND_CUT);
        return NULL;
    }
    return reader->window;
}

static bool skip(GgufKindReader *reader, uint64_t n) {
    if (n > reader->info.have_bytes - reader->at) /* look() has checked that the position is inside */
        return end(reader, GGUF_KIND_CUT);
    reader->at += n;
    return true;
}

static bool take(GgufKindReader *reader, void *value, size_t n) {
    const uint8_t *data = look(reader, n);

    if (!data)
        return false;
    memcpy(value, data, n);
    reader->at += n;
    return true;
}

/* Reads a string; the text of one that is too long to matter is "". */
static bool take_text(GgufKindReader *reader, char text[SHOWN_BYTES_MAX + 1]) {
    const uint8_t *data;
    uint64_t n;

    *text = 0;
    if (!take(reader, &n, sizeof(n)))
        return false;
    if (n && n <= SHOWN_BYTES_MAX) {
        data = look(reader, (size_t)n);
        if (!data)
            return false;
        memcpy(text, data, (size_t)n);
        text[n] = 0;
    }
    return skip(reader, n);
}

/* --- content ------------------------------------------------------------------------------------------------------ */

static void read_header(GgufKindReader *reader) {
    uint32_t version;
    char magic[4];

    if (!take(reader, magic, sizeof(magic)))
        return;
    if (memcmp(magic, "GGUF", 4)) {
        end(reader, GGUF_KIND_OTHER);
        return;
    }
    if (!take(reader, &version, sizeof(version)))
        return;
    if (version != 2 && version != 3) {
        end(reader, GGUF_KIND_OTHER);
        return;
    }
    if (!take(reader, &reader->n_tensors, 8) || !take(reader, &reader->n_keys, 8))
        return;
    if (reader->n_keys > GGUF_KEYS_MAX || reader->n_tensors > GGUF_TENSORS_MAX) {
        end(reader, GGUF_KIND_OTHER);
        return;
    }
    reader->n_all_tensors = reader->n_tensors;
    reader->stage = STAGE_KEYS;
}

/* Texts that identify the kind of the file. */
static void judge_text(GgufKindReader *reader, const char *name, const char *value) {
    const bool is_type = !strcmp(name, "general.type"), is_architecture = !strcmp(name, "general.architecture");

    if ((is_type && !strcmp(value, "mmproj")) || (is_architecture && !strcmp(value, "clip")))
        end(reader, GGUF_KIND_PROJECTOR);
    else if ((is_type && !strcmp(value, "adapter")) || (is_architecture && !strcmp(value, "controlvector")) ||
             !strcmp(name, "adapter.type"))
        end(reader, GGUF_KIND_ADAPTER);
    else if (is_type && !strcmp(value, "imatrix"))
        end(reader, GGUF_KIND_IMATRIX);
}

static void judge_number(GgufKindReader *reader, const char *name, uint64_t value) {
    if (!strcmp(name, "split.no") && value < GGUF_PARTS_MAX)
        reader->info.part = (uint32_t)value + 1;
    else if (!strcmp(name, "split.count") && value && value <= GGUF_PARTS_MAX)
        reader->info.n_parts = (uint32_t)value;
    else if (!strcmp(name, "general.alignment")) {
        reader->alignment = value;
        if (!value || (value & (value - 1)) || value > GGUF_ALIGNMENT_MAX)
            end(reader, GGUF_KIND_OTHER);
    }
}

static void read_array(GgufKindReader *reader, const char *name) {
    uint32_t type, element_bytes;
    uint64_t n, len_bytes;

    if (!take(reader, &type, sizeof(type)) || !take(reader, &n, sizeof(n)))
        return;
    reader->has_tokens |= !strcmp(name, "tokenizer.ggml.tokens");
    element_bytes = gguf_value_bytes(type);
    if (type == GGUF_STRING) {
        reader->n_strings = n;
        reader->stage = STAGE_STRINGS;
    } else if (!element_bytes || __builtin_mul_overflow(n, (uint64_t)element_bytes, &len_bytes)) {
        end(reader, GGUF_KIND_OTHER);
    } else {
        skip(reader, len_bytes);
    }
}

static void read_key(GgufKindReader *reader) {
    char name[SHOWN_BYTES_MAX + 1], value[SHOWN_BYTES_MAX + 1];
    uint64_t number = 0;
    uint32_t type;

    reader->n_keys--;
    if (!take_text(reader, name) || !take(reader, &type, sizeof(type)))
        return;
    if (type == GGUF_ARRAY) {
        read_array(reader, name);
    } else if (type == GGUF_STRING) {
        if (take_text(reader, value))
            judge_text(reader, name, value);
    } else if (!gguf_value_bytes(type)) {
        end(reader, GGUF_KIND_OTHER);
    } else if (take(reader, &number, gguf_value_bytes(type))) {
        judge_number(reader, name, number);
    }
}

static void read_string(GgufKindReader *reader) {
    uint64_t n;

    if (!reader->n_strings) {
        reader->stage = STAGE_KEYS;
        return;
    }
    reader->n_strings--;
    if (take(reader, &n, sizeof(n)))
        skip(reader, n);
}

/* Computes the bytes of a tensor; for a type that is not known here it only checks that the tensor is there. false:
 * they wrap. */
static bool tensor_bytes(uint32_t type, const uint64_t *ne, uint32_t n_dims, uint64_t *bytesp) {
    uint32_t block_values, block_bytes;
    uint64_t n_values = 1;

    *bytesp = 0;
    if (!ggml_type_block(type, &block_values, &block_bytes))
        return true;
    for (uint32_t d = 0; d < n_dims; d++)
        if (__builtin_mul_overflow(n_values, ne[d], &n_values))
            return false;
    return !__builtin_mul_overflow(n_values / block_values, (uint64_t)block_bytes, bytesp);
}

static void read_tensor(GgufKindReader *reader) {
    uint64_t ne[GGUF_DIMS_MAX], offset_bytes, len_bytes;
    char name[SHOWN_BYTES_MAX + 1];
    uint32_t n_dims, type;

    reader->n_tensors--;
    if (!take_text(reader, name) || !take(reader, &n_dims, sizeof(n_dims)))
        return;
    if (n_dims > GGUF_DIMS_MAX) {
        end(reader, GGUF_KIND_OTHER);
        return;
    }
    for (uint32_t d = 0; d < n_dims; d++)
        if (!take(reader, &ne[d], sizeof(ne[d])))
            return;
    if (!take(reader, &type, sizeof(type)) || !take(reader, &offset_bytes, sizeof(offset_bytes)))
        return;
    if (!tensor_bytes(type, ne, n_dims, &len_bytes) || __builtin_add_overflow(offset_bytes, len_bytes, &len_bytes))
        end(reader, GGUF_KIND_OTHER);
    else if (len_bytes > reader->end_bytes)
        reader->end_bytes = len_bytes;
}

/* Decides what a file is, after its metadata were read to their end. */
static void conclude(GgufKindReader *reader) {
    GgufKindInfo *info = &reader->info;
    uint64_t whole_bytes;

    whole_bytes = (reader->at + reader->alignment - 1) & ~(reader->alignment - 1);
    if (__builtin_add_overflow(whole_bytes, reader->end_bytes, &whole_bytes)) {
        end(reader, GGUF_KIND_OTHER);
        return;
    }
    info->whole_bytes = reader->n_all_tensors ? whole_bytes : reader->at;
    if (info->have_bytes < info->whole_bytes)
        end(reader, GGUF_KIND_CUT);
    else if (info->part > 1)
        end(reader, GGUF_KIND_PART);
    else
        end(reader, reader->n_all_tensors || info->n_parts > 1 ? GGUF_KIND_MODEL
                    : reader->has_tokens                       ? GGUF_KIND_VOCAB
                                                               : GGUF_KIND_OTHER);
}

bool gguf_kind_reader_step(GgufKindReader *reader, size_t max_bytes) {
    const uint64_t until = reader->read_bytes + max_bytes;

    while (reader->stage != STAGE_DONE && reader->read_bytes < until)
        if (reader->stage == STAGE_HEADER)
            read_header(reader);
        else if (reader->stage == STAGE_STRINGS)
            read_string(reader);
        else if (reader->n_keys)
            read_key(reader);
        else if (reader->n_tensors)
            read_tensor(reader);
        else
            conclude(reader);
    return reader->stage == STAGE_DONE;
}

const GgufKindInfo *gguf_kind_reader_info(const GgufKindReader *reader) {
    return &reader->info;
}

/* --- all at once -------------------------------------------------------------------------------------------------- */

void gguf_kind_find(GgufKindInfo *info, const char *path, int fd) {
    _cleanup_(gguf_kind_reader_freep) GgufKindReader *reader = NULL;
    const int own = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    int r;

    if (gguf_kind_of_name(info, path) && own < 0)
        return;
    if (own < 0) {
        info->kind = GGUF_KIND_LOST;
        info->error = errno;
        return;
    }
    r = gguf_kind_reader_new(&reader, own);
    if (r) {
        info->kind = GGUF_KIND_LOST;
        info->error = -r;
        return;
    }
    if (info->kind)
        return;
    while (!gguf_kind_reader_step(reader, SIZE_MAX >> 1))
        ;
    *info = reader->info;
    if (info->kind == GGUF_KIND_MODEL && gguf_kind_is_fetched(path))
        info->kind = GGUF_KIND_DOWNLOAD;
}

/* --- words -------------------------------------------------------------------------------------------------------- */

static void tell_part(const GgufKindInfo *info, const char *path, ErrText *err) {
    _cleanup_(freep) char *first = gguf_parts_sibling(path, 0);

    if (first && strcmp(first, path))
        err_set(err, 0, "%.300s: is shard %u of %u of a model: load %.300s", path, info->part, info->n_parts,
                base_name(first));
    else
        err_set(err, 0,
                "%.300s: is shard %u of %u of a model: load the first one, whose name ends in -00001-of-%05u.gguf",
                path, info->part, info->n_parts, info->n_parts);
}

static void tell_cut(const GgufKindInfo *info, const char *path, ErrText *err) {
    const uint64_t have_mb = (info->have_bytes + 500000) / 1000000, whole_mb = (info->whole_bytes + 500000) / 1000000;

    if (!info->whole_bytes)
        err_set(err, 0, "%.300s: is cut short: its %" PRIu64 " bytes end inside the metadata; fetch it again", path,
                info->have_bytes);
    else if (have_mb == whole_mb)
        err_set(err, 0, "%.300s: is cut short: %" PRIu64 " of %" PRIu64 " bytes are there; fetch it again", path,
                info->have_bytes, info->whole_bytes);
    else
        err_set(err, 0, "%.300s: is cut short: %" PRIu64 " of %" PRIu64 " MB are there; fetch it again", path, have_mb,
                whole_mb);
}

void gguf_kind_tell(const GgufKindInfo *info, const char *path, ErrText *err) {
    static const char *const texts[] = {
        [GGUF_KIND_PROJECTOR] =
            "is a vision projector (general.type mmproj), not a language model: load the model that it belongs to",
        [GGUF_KIND_ADAPTER] = "is an adapter (general.type adapter), not a language model: merge it into its model "
                              "(llama-export-lora), and load that",
        [GGUF_KIND_IMATRIX] =
            "is an importance matrix (general.type imatrix), which quantizers use: load the model itself",
        [GGUF_KIND_VOCAB] = "has a vocabulary but no weights: fetch the file of the whole model",
        [GGUF_KIND_DOWNLOAD] = "is being downloaded, or its download was broken off: let it end, or fetch it again",
        [GGUF_KIND_OTHER] = "is not a GGUF file of a model, or is damaged: fetch it again",
    };

    if (info->kind == GGUF_KIND_PART)
        tell_part(info, path, err);
    else if (info->kind == GGUF_KIND_CUT)
        tell_cut(info, path, err);
    else if (info->kind == GGUF_KIND_LOST)
        err_set(err, 0, "%.300s: %s", path, strerror(info->error));
    else if (info->kind < ARRAY_LEN(texts) && texts[info->kind])
        err_set(err, 0, "%.300s: %s", path, texts[info->kind]);
}
