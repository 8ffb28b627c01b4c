// SPDX-License-Identifier: Apache-2.0
/* Tests of base/queue.h's own lists, which replace <sys/queue.h> on systems without it. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#define COORDGEN_OWN_QUEUE
#include "base/queue.h"

enum {
    N = 6
};

typedef struct Item {
    LIST_ENTRY(Item) in_list;
    STAILQ_ENTRY(Item) in_stailq;
    TAILQ_ENTRY(Item) in_tailq;
    int number;
} Item;

LIST_HEAD(List, Item);
STAILQ_HEAD(Stailq, Item);
TAILQ_HEAD(Tailq, Item);

static Item items[N];

static int setup(void **state) {
    for (int i = 0; i < N; i++)
        items[i] = (Item){ .number = i };
    return 0;
}

/* Numbers of a list as decimal digits, the first one highest. */
#define DIGITS(kind, head, field)                                                                                      \
    ({                                                                                                                 \
        int digits_ = 0;                                                                                               \
        Item *item_;                                                                                                   \
        kind##_FOREACH(item_, head, field) digits_ = digits_ * 10 + item_->number;                                     \
        digits_;                                                                                                       \
    })

static int backwards(struct Tailq *head) {
    int digits = 0;
    Item *item;

    TAILQ_FOREACH_REVERSE (item, head, Tailq, in_tailq)
        digits = digits * 10 + item->number;
    return digits;
}

static void test_queue_list(void **state) {
    struct List head;

    LIST_INIT(&head);
    assert_true(LIST_EMPTY(&head));
    for (int i = 1; i < N; i++)
        LIST_INSERT_HEAD(&head, &items[i], in_list);
    assert_int_equal(DIGITS(LIST, &head, in_list), 54321);
    LIST_REMOVE(&items[3], in_list);
    LIST_REMOVE(&items[5], in_list);
    LIST_REMOVE(&items[1], in_list);
    assert_int_equal(DIGITS(LIST, &head, in_list), 42);
    assert_ptr_equal(LIST_FIRST(&head), &items[4]);
    assert_ptr_equal(LIST_NEXT(&items[4], in_list), &items[2]);
    LIST_REMOVE(&items[4], in_list);
    LIST_REMOVE(&items[2], in_list);
    assert_true(LIST_EMPTY(&head));
}

static void test_queue_stailq(void **state) {
    struct Stailq head;

    STAILQ_INIT(&head);
    assert_true(STAILQ_EMPTY(&head));
    for (int i = 1; i < N; i++)
        STAILQ_INSERT_TAIL(&head, &items[i], in_stailq);
    assert_int_equal(DIGITS(STAILQ, &head, in_stailq), 12345);
    STAILQ_REMOVE_HEAD(&head, in_stailq);
    STAILQ_REMOVE(&head, &items[3], Item, in_stailq);
    STAILQ_REMOVE(&head, &items[5], Item, in_stailq); /* the last item: later insertions follow the one before */
    STAILQ_INSERT_TAIL(&head, &items[1], in_stailq);
    assert_int_equal(DIGITS(STAILQ, &head, in_stailq), 241);
    while (!STAILQ_EMPTY(&head))
        STAILQ_REMOVE_HEAD(&head, in_stailq);
    STAILQ_INSERT_TAIL(&head, &items[2], in_stailq);
    assert_ptr_equal(STAILQ_FIRST(&head), &items[2]);
}

static void test_queue_tailq(void **state) {
    struct Tailq head;

    TAILQ_INIT(&head);
    assert_true(TAILQ_EMPTY(&head));
    assert_int_equal(backwards(&head), 0);
    for (int i = 1; i < 4; i++)
        TAILQ_INSERT_TAIL(&head, &items[i], in_tailq);
    TAILQ_INSERT_HEAD(&head, &items[4], in_tailq);
    assert_int_equal(DIGITS(TAILQ, &head, in_tailq), 4123);
    assert_int_equal(backwards(&head), 3214);
    assert_ptr_equal(TAILQ_LAST(&head, Tailq), &items[3]);
    TAILQ_REMOVE(&head, &items[2], in_tailq);
    TAILQ_REMOVE(&head, &items[3], in_tailq);
    TAILQ_REMOVE(&head, &items[4], in_tailq);
    assert_int_equal(backwards(&head), 1);
    TAILQ_REMOVE(&head, &items[1], in_tailq);
    assert_true(TAILQ_EMPTY(&head));
    TAILQ_INSERT_HEAD(&head, &items[5], in_tailq);
    TAILQ_INSERT_TAIL(&head, &items[2], in_tailq);
    assert_int_equal(DIGITS(TAILQ, &head, in_tailq), 52);
    assert_int_equal(backwards(&head), 25);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_queue_list, setup),
        cmocka_unit_test_setup(test_queue_stailq, setup),
        cmocka_unit_test_setup(test_queue_tailq, setup),
    };

    return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
