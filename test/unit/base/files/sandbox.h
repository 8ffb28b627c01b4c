// SPDX-License-Identifier: Apache-2.0
/* Refuses system calls like a sandbox, for tests of the behaviour without them. */
#ifndef COORDGEN_TEST_SANDBOX_H
#define COORDGEN_TEST_SANDBOX_H

/* Lets the call `number` (SYS_...) fail with the errno `code` in this process, permanently; for a child of the test.
 * Returns 0, or -errno if filters are not available. */
int sandbox_refuse(unsigned int number, unsigned int code);

#endif
