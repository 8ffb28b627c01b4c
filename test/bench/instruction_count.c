// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "test/bench/instruction_count.h"

#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
typedef struct user_regs_struct Registers;

static uintptr_t address_of(const Registers *registers) {
    return registers->rip;
}

/* Tells whether the byte is a legacy prefix or REX; VEX and EVEX do not count as prefixes. */
static bool is_prefix(uint8_t byte) {
    return (byte >= 0x40 && byte <= 0x4f) || byte == 0x66 || byte == 0xf2 || byte == 0xf3 || byte == 0x2e ||
           byte == 0x36 || byte == 0x3e || byte == 0x26 || byte == 0x64 || byte == 0x65 || byte == 0x67 || byte == 0xf0;
}

/* Tells whether the instruction works on vector or mask registers. In 64-bit mode 0x62 is EVEX, and 0xc4 and 0xc5 are
 * VEX, of which only BMI uses general registers (map 2: f2, f3, f5..f7; map 3: f0). Other vector instructions are in
 * SSE's 0x0f maps. */
static bool is_vector(const uint8_t *code) {
    while (is_prefix(*code))
        code++;
    if (code[0] == 0x62 || code[0] == 0xc5)
        return true;
    if (code[0] == 0xc4) {
        const uint8_t map = code[1] & 0x1f, op = code[3];

        return !((map == 2 && (op == 0xf2 || op == 0xf3 || (op >= 0xf5 && op <= 0xf7))) || (map == 3 && op == 0xf0));
    }
    if (code[0] != 0x0f)
        return false;
    switch (code[1]) {
    case 0x38:
        return code[2] != 0xf0 && code[2] != 0xf1; /* MOVBE and CRC32 */
    case 0x3a:
    case 0xc2:
    case 0xc4 ... 0xc6:
        return true;
    default:
        return (code[1] >= 0x10 && code[1] <= 0x17) || (code[1] >= 0x28 && code[1] <= 0x2f) ||
               (code[1] >= 0x50 && code[1] <= 0x7f) || (code[1] >= 0xd0 && code[1] <= 0xfe);
    }
}
#elif defined(__aarch64__)
typedef struct user_regs_struct Registers;

static uintptr_t address_of(const Registers *registers) {
    return registers->pc;
}

/* Tells it by the op0 field (bits 28..25): x111 computes on vector registers, x1x0 loads and stores them if bit 26 is
 * set, 0010 is SVE. */
static bool is_vector(const uint8_t *code) {
    uint32_t word, op0;

    memcpy(&word, code, sizeof(word));
    op0 = word >> 25 & 15;
    return (op0 & 7) == 7 || ((op0 & 5) == 4 && word >> 26 & 1) || op0 == 2;
}
#endif

#if defined(__x86_64__) || defined(__aarch64__)
static void empty(const void *argument) {
}

/* Runs the function in the child: once to bind what the first call binds, once between two stops. */
static _Noreturn void run_between_stops(void (*fn)(const void *argument), const void *argument) {
    fn(argument);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        _exit(errno);
    raise(SIGSTOP);
    fn(argument);
    raise(SIGSTOP);
    _exit(0);
}

/* Steps the child from its first stop to its second one. A fork has the parent's code addresses. */
static int step_to_stop(pid_t child, InstructionCount *countp) {
    *countp = (InstructionCount){ 0 };
    for (;;) {
        Registers registers;
        struct iovec iovec = { &registers, sizeof(registers) };
        int status;

        if (ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &iovec))
            return -errno;
        countp->all++;
        countp->vector += is_vector((const uint8_t *)address_of(&registers));
        if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL))
            return -errno;
        if (waitpid(child, &status, 0) < 0)
            return -errno;
        if (!WIFSTOPPED(status))
            return -ECHILD;
        if (WSTOPSIG(status) == SIGSTOP)
            return 0;
        if (WSTOPSIG(status) != SIGTRAP)
            return -EINTR;
    }
}

static int count_all(void (*fn)(const void *argument), const void *argument, InstructionCount *countp) {
    pid_t child = fork();
    int status, r;

    if (child < 0)
        return -errno;
    if (!child)
        run_between_stops(fn, argument);
    if (waitpid(child, &status, 0) < 0)
        return -errno;
    if (WIFEXITED(status)) /* ptrace() was refused */
        return WEXITSTATUS(status) ? -WEXITSTATUS(status) : -ECHILD;
    if (!WIFSTOPPED(status))
        return -ECHILD;
    r = step_to_stop(child, countp);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return r;
}

int instruction_count(void (*fn)(const void *argument), const void *argument, InstructionCount *countp) {
    InstructionCount call, whole;
    cpu_set_t all, one;
    int r, cpu = sched_getcpu();

    /* Parent and child share a processor, since they alternate: a turn is then several times as fast. */
    CPU_ZERO(&one);
    if (cpu >= 0)
        CPU_SET(cpu, &one);
    if (sched_getaffinity(0, sizeof(all), &all) || sched_setaffinity(0, sizeof(one), &one))
        cpu = -1;
    r = count_all(empty, argument, &call);
    if (!r)
        r = count_all(fn, argument, &whole);
    if (cpu >= 0)
        sched_setaffinity(0, sizeof(all), &all);
    if (r)
        return r;
    *countp = (InstructionCount){ whole.all - call.all, whole.vector - call.vector };
    return 0;
}
#else
int instruction_count(void (*fn)(const void *argument), const void *argument, InstructionCount *countp) {
    return -ENOSYS;
}
#endif
