// SPDX-License-Identifier: Apache-2.0
/* Proves that the fuzzer can fail: it reads past its input as soon as that begins with "bad". Never in a corpus. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes) {
    static volatile uint8_t sink;

    if (len_bytes >= 3 && data[0] == 'b' && data[1] == 'a' && data[2] == 'd')
        sink = data[len_bytes]; /* one past the end: AddressSanitizer must stop here */
    return sink & 0;
}
