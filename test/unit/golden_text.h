// SPDX-License-Identifier: Apache-2.0
/* Short texts that tokenizers are tried on: scripts, cases, numbers, spaces, signs, marks. UTF-8 without NUL. */
#ifndef COORDGEN_TEST_UNIT_GOLDEN_TEXT_H
#define COORDGEN_TEST_UNIT_GOLDEN_TEXT_H

#include <stddef.h>

const char *golden_text(size_t index); /* NULL behind the last */

#endif
