// SPDX-License-Identifier: Apache-2.0
/* Counts of loops in assembly, whose instructions are known one by one. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/system/cpu.h"
#include "test/bench/instruction_count.h"

/* LOOP(body): as many turns as the argument says, each of them the body and two instructions on general registers. */
#if defined(__x86_64__)
#define LOOP(body)                                                                                                     \
    __asm__ volatile("1:\n\t" body "dec %0\n\tjnz 1b" : "+r"(n) : : "xmm0", "rax", "rdx", "r8", "cc", "memory")
#define GENERAL "add $1, %%eax\n\txor %%rdx, %%rdx\n\tnop\n\tlea 1(%%rax), %%r8\n\t"
#define VECTOR "pxor %%xmm0, %%xmm0\n\tpaddd %%xmm0, %%xmm0\n\tmovaps %%xmm0, %%xmm0\n\t"
#elif defined(__aarch64__)
#define LOOP(body) __asm__ volatile("1:\n\t" body "subs %0, %0, #1\n\tb.ne 1b" : "+r"(n) : : "v0", "x0", "cc", "memory")
#define GENERAL "add x0, x0, #1\n\teor x0, x0, x0\n\tnop\n\tldr x0, [sp]\n\t"
#define VECTOR "movi v0.16b, #0\n\tadd v0.4s, v0.4s, v0.4s\n\tldr q0, [sp]\n\t"
#endif

#ifdef LOOP
static void general(const void *argument) {
    uint64_t n = *(const uint64_t *)argument;

    LOOP(GENERAL);
}

static void vector(const void *argument) {
    uint64_t n = *(const uint64_t *)argument;

    LOOP(VECTOR);
}

static void mixed(const void *argument) {
    uint64_t n = *(const uint64_t *)argument;

    LOOP(GENERAL VECTOR GENERAL);
}

/* Checks the instructions of a turn: 70 turns less 20 turns are 50 of them. */
static void check_turn(void (*fn)(const void *argument), uint64_t all, uint64_t vector_only) {
    const uint64_t few = 20, many = 70;
    InstructionCount first, second;
    int r = instruction_count(fn, &few, &first);

    if (r == -ENOSYS || r == -EPERM || r == -EIO) {
        print_message("skipped: this system has no ptrace for its children (%d)\n", r);
        skip();
    }
    assert_int_equal(r, 0);
    assert_int_equal(instruction_count(fn, &many, &second), 0);
    assert_int_equal(second.all - first.all, (many - few) * all);
    assert_int_equal(second.vector - first.vector, (many - few) * vector_only);
    assert_true(first.all >= few * all && first.all < few * all + 40); /* the call itself is taken off */
    assert_true(first.vector >= few * vector_only && first.vector < few * vector_only + 10);
}

static void test_instruction_count_general(void **state) {
    check_turn(general, 6, 0);
}

static void test_instruction_count_vector(void **state) {
    check_turn(vector, 5, 3);
}

static void test_instruction_count_mixed(void **state) {
    check_turn(mixed, 13, 3);
}

#if defined(__x86_64__)
/* VEX and EVEX, of which BMI is on general registers. */
static void vex(const void *argument) {
    uint64_t n = *(const uint64_t *)argument;

    LOOP("vpxor %%xmm0, %%xmm0, %%xmm0\n\tvpshufb %%ymm0, %%ymm0, %%ymm0\n\tandn %%rax, %%rax, %%rax\n\t"
         "rorx $3, %%rax, %%rax\n\tshlx %%rax, %%rax, %%rax\n\tvpabsb (%%rsp), %%xmm0\n\t");
}

static void evex(const void *argument) {
    uint64_t n = *(const uint64_t *)argument;

    LOOP("vpaddd %%zmm0, %%zmm0, %%zmm0\n\tvmovdqu8 -64(%%rsp), %%zmm0\n\tkmovq %%rax, %%k1\n\tbswap %%rax\n\t");
}

static void test_instruction_count_vex(void **state) {
    if (!(cpu_features() & CPU_AVX2))
        skip();
    check_turn(vex, 8, 3);
}

static void test_instruction_count_evex(void **state) {
    if (!(cpu_features() & CPU_AVX512))
        skip();
    check_turn(evex, 6, 3);
}
#endif
#else
static void anything(const void *argument) {
}

static void test_instruction_count_unknown(void **state) {
    InstructionCount count;

    assert_int_equal(instruction_count(anything, NULL, &count), -ENOSYS);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
#ifdef LOOP
        cmocka_unit_test(test_instruction_count_general),
        cmocka_unit_test(test_instruction_count_vector),
        cmocka_unit_test(test_instruction_count_mixed),
#if defined(__x86_64__)
        cmocka_unit_test(test_instruction_count_vex),
        cmocka_unit_test(test_instruction_count_evex),
#endif
#else
        cmocka_unit_test(test_instruction_count_unknown),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
