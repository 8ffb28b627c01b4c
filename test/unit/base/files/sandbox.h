// SPDX-License-Identifier: Apache-2.0
/* System calls that a sandbox refuses, for tests of what is done without them. */
#ifndef COORDGEN_TEST_SANDBOX_H
#define COORDGEN_TEST_SANDBOX_H

/* From now on the call `number` (SYS_...) fails with the errno `code` in this process, for good: in a child of the
 * test. 0, or -errno where filters cannot be had. */
int sandbox_refuse(unsigned int number, unsigned int code);

#endif
