// SPDX-License-Identifier: Apache-2.0
/* Plain characters, of which the text of a JSON string may have any: UTF-8 without '"', '\' and controls. The line ends
 * U+2028 and U+2029 are not plain, since the '.' of a pattern refuses them. An automaton of places reads them byte by
 * byte. */
#ifndef COORDGEN_TEXT_PLAIN_CHARS_H
#define COORDGEN_TEXT_PLAIN_CHARS_H

#include <stdint.h>

/* Where bytes are inside of a character, by Unicode's table 3-7 of well-formed sequences. */
typedef enum PlainPlace {
    PLAIN_BOUNDARY, /* between two characters */
    PLAIN_LAST,     /* one more byte 80..bf */
    PLAIN_LAST_TWO, /* two more */
    PLAIN_BEHIND_E0,
    PLAIN_BEHIND_ED,
    PLAIN_BEHIND_E2, /* line ends of Unicode are e2 80 a8 and e2 80 a9 */
    PLAIN_BEHIND_E2_80,
    PLAIN_BEHIND_F0,
    PLAIN_BEHIND_F1, /* f1..f3: three more bytes */
    PLAIN_BEHIND_F4,
    _PLAIN_PLACES_N,
    PLAIN_NONE = _PLAIN_PLACES_N, /* the byte does not belong to a plain character */
} PlainPlace;

/* Returns the place behind a byte, or PLAIN_NONE. */
PlainPlace plain_step(PlainPlace place, uint8_t byte);

#endif
