// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/plain_chars.h"

#include <stddef.h>

#include "base/cleanup.h"

PlainPlace plain_step(PlainPlace place, uint8_t byte) {
    static const struct {
        uint8_t place, first, last, next;
    } steps[] = {
        { PLAIN_BOUNDARY, 0x20, '"' - 1, PLAIN_BOUNDARY },  { PLAIN_BOUNDARY, '"' + 1, '\\' - 1, PLAIN_BOUNDARY },
        { PLAIN_BOUNDARY, '\\' + 1, 0x7e, PLAIN_BOUNDARY }, { PLAIN_BOUNDARY, 0xc2, 0xdf, PLAIN_LAST },
        { PLAIN_BOUNDARY, 0xe0, 0xe0, PLAIN_BEHIND_E0 },    { PLAIN_BOUNDARY, 0xe1, 0xe1, PLAIN_LAST_TWO },
        { PLAIN_BOUNDARY, 0xe2, 0xe2, PLAIN_BEHIND_E2 },    { PLAIN_BOUNDARY, 0xe3, 0xec, PLAIN_LAST_TWO },
        { PLAIN_BOUNDARY, 0xed, 0xed, PLAIN_BEHIND_ED },    { PLAIN_BOUNDARY, 0xee, 0xef, PLAIN_LAST_TWO },
        { PLAIN_BOUNDARY, 0xf0, 0xf0, PLAIN_BEHIND_F0 },    { PLAIN_BOUNDARY, 0xf1, 0xf3, PLAIN_BEHIND_F1 },
        { PLAIN_BOUNDARY, 0xf4, 0xf4, PLAIN_BEHIND_F4 },    { PLAIN_LAST, 0x80, 0xbf, PLAIN_BOUNDARY },
        { PLAIN_LAST_TWO, 0x80, 0xbf, PLAIN_LAST },         { PLAIN_BEHIND_E0, 0xa0, 0xbf, PLAIN_LAST },
        { PLAIN_BEHIND_ED, 0x80, 0x9f, PLAIN_LAST },        { PLAIN_BEHIND_E2, 0x80, 0x80, PLAIN_BEHIND_E2_80 },
        { PLAIN_BEHIND_E2, 0x81, 0xbf, PLAIN_LAST },        { PLAIN_BEHIND_E2_80, 0x80, 0xa7, PLAIN_BOUNDARY },
        { PLAIN_BEHIND_E2_80, 0xaa, 0xbf, PLAIN_BOUNDARY }, { PLAIN_BEHIND_F0, 0x90, 0xbf, PLAIN_LAST_TWO },
        { PLAIN_BEHIND_F1, 0x80, 0xbf, PLAIN_LAST_TWO },    { PLAIN_BEHIND_F4, 0x80, 0x8f, PLAIN_LAST_TWO },
    };

    for (size_t i = 0; i < ARRAY_LEN(steps); i++)
        if (steps[i].place == place && steps[i].first <= byte && byte <= steps[i].last)
            return steps[i].next;
    return PLAIN_NONE;
}
