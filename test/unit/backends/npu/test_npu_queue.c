// SPDX-License-Identifier: Apache-2.0
/* Commands run in their order on the queue's thread, whether the ends are awake or asleep. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "backends/npu/npu_queue.h"

enum {
    COMMANDS = 500,
};

typedef struct Order {
    uint32_t ran[COMMANDS];
    size_t n;
} Order;

typedef struct OrderCommand {
    Order *order;
    uint32_t number;
} OrderCommand;

static void note(void *arg) {
    const OrderCommand *command = arg;

    command->order->ran[command->order->n++] = command->number;
}

static void rest(void *arg) {
    nanosleep(&(struct timespec){ .tv_nsec = 300000 }, NULL);
}

static void test_npu_queue_order(void **state) {
    static OrderCommand commands[COMMANDS];
    static Order order;
    NpuQueue *queue;
    uint64_t last = 0;

    assert_int_equal(npu_queue_new(&queue), 0);
    for (uint32_t i = 0; i < COMMANDS; i++) { /* more than the ring holds */
        commands[i] = (OrderCommand){ &order, i };
        last = npu_queue_submit(queue, note, &commands[i]);
        assert_int_equal(last, i + 1);
    }
    npu_queue_wait(queue, last);
    assert_int_equal(order.n, COMMANDS);
    for (uint32_t i = 0; i < COMMANDS; i++)
        assert_int_equal(order.ran[i], i);
    assert_int_equal(npu_queue_counts(queue).n_commands, COMMANDS);
    npu_queue_wait(queue, 1); /* a command that ended long ago */
    npu_queue_free(queue);
}

/* Each end sleeps sooner or later, and is woken. */
static void test_npu_queue_sleep(void **state) {
    Order order = { .n = 0 };
    OrderCommand command = { &order, 7 };
    NpuQueue *queue;

    assert_int_equal(npu_queue_new(&queue), 0);
    for (size_t i = 0; i < 100; i++) {
        if (i % 3 == 1)
            (void)npu_queue_submit(queue, rest, NULL);
        if (i % 3 == 2)
            rest(NULL);
        npu_queue_wait(queue, npu_queue_submit(queue, note, &command));
        assert_int_equal(order.n, i + 1);
    }
    assert_true(npu_queue_counts(queue).busy_ns > 33 * 300000);
    npu_queue_free(queue);
}

/* Submitted commands run, though nobody waits. */
static void test_npu_queue_end(void **state) {
    for (size_t i = 0; i < 50; i++) {
        Order order = { .n = 0 };
        OrderCommand command = { &order, 7 };
        NpuQueue *queue;

        assert_int_equal(npu_queue_new(&queue), 0);
        if (i % 2)
            (void)npu_queue_submit(queue, rest, NULL);
        (void)npu_queue_submit(queue, note, &command);
        (void)npu_queue_submit(queue, note, &command);
        npu_queue_free(queue);
        assert_int_equal(order.n, 2);
    }
    assert_null(npu_queue_free(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_npu_queue_order),
        cmocka_unit_test(test_npu_queue_sleep),
        cmocka_unit_test(test_npu_queue_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
