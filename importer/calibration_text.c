// SPDX-License-Identifier: Apache-2.0
#include "importer/calibration_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strings/utf8.h"

/* Generated from importer/calibration.txt by the Makefile. An array needs no assembler of the target, and the
 * compiler's dependencies name its text; an .incbin has neither property. */
static const unsigned char own_text[] = {
#include "importer/calibration_bytes.inc"
};

/* Two to four times the bytes of a token of prose: one pass is enough for a usual text. */
#define PREFIX_BYTES_PER_TOKEN 16

/* The search for a long enough prefix doubles its length up to this limit. */
#define PART_BYTES (1u << 20)

const char *calibration_text(size_t *len_bytesp) {
    *len_bytesp = sizeof(own_text);
    return (const char *)own_text;
}

/* Counts the bytes before the first one that is not UTF-8 text; len_bytes if all are. A NUL counts as no text:
 * otherwise UTF-16 of ASCII would pass as UTF-8. */
static size_t well_formed_bytes(const char *text, size_t len_bytes) {
    size_t at = 0;

    while (at < len_bytes) {
        Utf8Kind kind;
        size_t n = utf8_step(text + at, len_bytes - at, &kind);

        if (kind != UTF8_WHOLE || !text[at])
            break;
        at += n;
    }
    return at;
}

static int read_text(CalibrationText *text, const char *path, ErrText *err) {
    _cleanup_(closep) int fd = -1;
    struct stat st;
    size_t good_bytes;
    int r;

    /* O_NONBLOCK: opening a FIFO without a writer would otherwise wait for one. */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(err, CALIBRATION_E_UNUSABLE, "%s: not a regular file: the calibration text must be one", path);
    r = file_slurp_fd(fd, path, CALIBRATION_TEXT_MAX_BYTES, &text->owned, &text->len_bytes, err);
    if (r == -EFBIG)
        return err_set(err, CALIBRATION_E_UNUSABLE,
                       "%s: longer than the %d MiB that a calibration text may have: give a part of it", path,
                       CALIBRATION_TEXT_MAX_BYTES >> 20);
    if (r)
        return r;
    if (!text->len_bytes)
        return err_set(err, CALIBRATION_E_UNUSABLE, "%s: empty: give a text, or leave --calibration out", path);
    good_bytes = well_formed_bytes(text->owned, text->len_bytes);
    if (good_bytes < text->len_bytes)
        return err_set(err, CALIBRATION_E_UNUSABLE,
                       "%s: not UTF-8 text (byte 0x%02x at offset %zu): convert it first, for example with iconv", path,
                       (unsigned char)text->owned[good_bytes], good_bytes);
    text->text = text->owned;
    text->name = path;
    return 0;
}

/**
 * calibration_load() - load, check and hash the text to calibrate on
 * @textp: out; the caller passes it to calibration_deinit(); untouched on error
 * @path:  a regular file of 1 byte to CALIBRATION_TEXT_MAX_BYTES of UTF-8, read whole, so that the hashed bytes are
 *         the bytes used; must live as long as *textp. NULL: the project's own text
 *
 * Return: 0, CALIBRATION_E_UNUSABLE, or -errno of the file or -ENOMEM.
 */
int calibration_load(CalibrationText *textp, const char *path, ErrText *err) {
    _cleanup_(calibration_deinit) CalibrationText text = CALIBRATION_TEXT_NULL;

    if (path) {
        int r = read_text(&text, path, err);

        if (r)
            return r;
    } else {
        text.name = "the calibration text of coordgen";
        text.text = calibration_text(&text.len_bytes);
    }
    sha256_hex(text.text, text.len_bytes, text.sha256);
    *textp = text;
    text.owned = NULL;
    return 0;
}

void calibration_deinit(CalibrationText *text) {
    free(text->owned);
    *text = CALIBRATION_TEXT_NULL;
}

/* Finds the end of at most max_bytes from `begin`, between two characters. */
static size_t part_end(const CalibrationText *text, size_t begin, size_t max_bytes) {
    size_t end = begin + max_bytes;

    if (max_bytes >= text->len_bytes - begin)
        return text->len_bytes;
    while (end > begin && ((unsigned char)text->text[end] & 0xc0) == 0x80)
        end--;
    return end;
}

/* Appends the tokens of [begin, end). */
static int encode_part(const CalibrationText *text, const Tokenizer *tokenizer, size_t begin, size_t end,
                       TokenList *list, ErrText *err) {
    int r = tokenizer_encode(tokenizer, text->text + begin, end - begin, 0, list, err);

    if (r)
        err_prefix(err, "%s", text->name);
    return r > 0 ? err_fold(r) : r;
}

/* Tokenizes at least n_tokens of the text, or all that it has. Only a prefix is tokenized, because a text may be
 * thousands of times as long as needed. The caller asks for a margin, so that no token it uses stands at the cut. A
 * part of PART_BYTES with too few tokens is no prose: the parts behind it are tokenized one by one, because the
 * tokenizer takes some twenty times as much memory as its text. */
static int first_tokens(const CalibrationText *text, const Tokenizer *tokenizer, size_t n_tokens, TokenList *list,
                        ErrText *err) {
    size_t part_bytes = n_tokens * PREFIX_BYTES_PER_TOKEN, end;
    int r;

    for (;; part_bytes *= 2) {
        list->n = 0;
        end = part_end(text, 0, part_bytes);
        r = encode_part(text, tokenizer, 0, end, list, err);
        if (r || list->n >= n_tokens || end == text->len_bytes || part_bytes >= PART_BYTES)
            break;
    }
    while (!r && list->n < n_tokens && end < text->len_bytes) {
        size_t begin = end;

        end = part_end(text, begin, part_bytes);
        r = encode_part(text, tokenizer, begin, end, list, err);
    }
    return r;
}

/**
 * calibration_windows() - cut the first tokens of a text into windows that a model reads one by one
 * @n_windows:     1..CALIBRATION_WINDOWS_MAX: how many at most
 * @window_tokens: 2..CALIBRATION_WINDOW_TOKENS_MAX
 * @tokensp:       out: u32[*n_windowsp][window_tokens], malloc'ed, the caller's
 * @n_windowsp:    out: 1..n_windows; fewer than asked for when the text ends. Tokens behind the last whole window are
 *                 not used.
 *
 * A window begins with a BOS if the tokenizer adds one to a text, as in inference. Names of control tokens in the text
 * are read as text. The tokens depend only on the text, the tokenizer and the two sizes.
 *
 * Return: 0, CALIBRATION_E_SHORT, -EINVAL for a size outside its range, -ENOMEM.
 */
int calibration_windows(const CalibrationText *text, const Tokenizer *tokenizer, size_t n_windows, size_t window_tokens,
                        uint32_t **tokensp, size_t *n_windowsp, ErrText *err) {
    bool bos = tokenizer_adds_bos(tokenizer) && tokenizer_bos(tokenizer) != TOKEN_NONE;
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    size_t body_tokens = window_tokens - bos;
    uint32_t *tokens;
    int r;

    if (n_windows < 1 || n_windows > CALIBRATION_WINDOWS_MAX || window_tokens < 2 ||
        window_tokens > CALIBRATION_WINDOW_TOKENS_MAX)
        return err_set(err, -EINVAL, "%zu windows of %zu tokens: at most %d of 2 to %d are possible", n_windows,
                       window_tokens, CALIBRATION_WINDOWS_MAX, CALIBRATION_WINDOW_TOKENS_MAX);
    r = first_tokens(text, tokenizer, (n_windows + 1) * body_tokens, &list, err);
    if (r)
        return r;
    if (list.n < body_tokens)
        return err_set(err, CALIBRATION_E_SHORT,
                       "%s: %zu tokens, but calibration needs at least %zu, better %zu: give a longer text, or leave "
                       "--calibration out",
                       text->name, list.n, body_tokens, CALIBRATION_WINDOWS * body_tokens);
    if (n_windows > list.n / body_tokens)
        n_windows = list.n / body_tokens;
    tokens = malloc(n_windows * window_tokens * sizeof(*tokens));
    if (!tokens)
        return err_raise(-ENOMEM);
    for (size_t i = 0; i < n_windows; i++) {
        uint32_t *window = tokens + i * window_tokens;

        if (bos)
            window[0] = tokenizer_bos(tokenizer);
        memcpy(window + bos, list.ids + i * body_tokens, body_tokens * sizeof(*tokens));
    }
    *tokensp = tokens;
    *n_windowsp = n_windows;
    return 0;
}
