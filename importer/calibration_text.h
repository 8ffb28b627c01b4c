// SPDX-License-Identifier: Apache-2.0
/* The text that weights are calibrated on: the project's own, which is part of the program, or a user's file. */
#ifndef COORDGEN_IMPORTER_CALIBRATION_TEXT_H
#define COORDGEN_IMPORTER_CALIBRATION_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/files/file_io.h"
#include "text/tokenizer/tokenizer.h"

enum {
    CALIBRATION_E_UNUSABLE = 1, /* not a regular file, empty, too long, or not UTF-8 text; the text says which */
    CALIBRATION_E_SHORT = 2,    /* fewer tokens than one window */
};

enum {
    CALIBRATION_TEXT_MAX_BYTES = 64 << 20,
    CALIBRATION_WINDOWS = 34, /* of an import; the project's own text has them for every supported tokenizer */
    CALIBRATION_WINDOWS_MAX = 4096,
    CALIBRATION_WINDOW_TOKENS = 512,
    CALIBRATION_WINDOW_TOKENS_MAX = 32768,
};

typedef struct CalibrationText {
    const char *name; /* for messages: the path, which stays the caller's, or a constant */
    const char *text; /* well-formed UTF-8 without NULs; no NUL at the end */
    size_t len_bytes;
    char sha256[SHA256_HEX_BYTES]; /* of the bytes of text */
    char *owned;                   /* memory that calibration_deinit() frees, or NULL */
} CalibrationText;

#define CALIBRATION_TEXT_NULL ((CalibrationText){ 0 })

/* Returns the project's own text: importer/calibration.txt, byte by byte. Static memory, no NUL at the end. */
const char *calibration_text(size_t *len_bytesp);

/* Loads a text; path NULL: the project's own. 0, CALIBRATION_E_UNUSABLE, -errno. Deinit of a zero struct does
 * nothing. */
int calibration_load(CalibrationText *textp, const char *path, ErrText *err);
void calibration_deinit(CalibrationText *text);

/* Cuts the first tokens of the text into windows, u32[*n_windowsp][window_tokens], to be freed by the caller. */
int calibration_windows(const CalibrationText *text, const Tokenizer *tokenizer, size_t n_windows, size_t window_tokens,
                        uint32_t **tokensp, size_t *n_windowsp, ErrText *err);

#endif
