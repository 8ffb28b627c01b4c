// SPDX-License-Identifier: Apache-2.0
/* Proves that the leak checker can fail: `make check` wants this program to end with an error. */
#include <stdlib.h>

int main(void) {
    void *volatile lost = malloc(100);

    lost = NULL;
    return lost != NULL;
}
