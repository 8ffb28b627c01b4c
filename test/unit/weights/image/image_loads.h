// SPDX-License-Identifier: Apache-2.0
/* Loads of a small model with and without an image of its weights, and what they leave in the folder of images. */
#ifndef COORDGEN_TEST_UNIT_IMAGE_LOADS_H
#define COORDGEN_TEST_UNIT_IMAGE_LOADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test/unit/fixtures/loaded_engine.h"

typedef float Logits[LOADED_N_TOKENS * LOADED_N_VOCAB];

/* Loads, computes, and waits for the image that is made. Returns whether an image was used. */
bool image_run(Loaded *loaded, const char *package, LoadedFlags flags, Logits logits);
bool image_file_exists(const char *path);
uint64_t image_file_bytes(const char *path);
/* Returns the number of files in the folder of an image. */
size_t image_files(const char *image);

#endif
