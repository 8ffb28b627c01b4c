// SPDX-License-Identifier: Apache-2.0
/* The clock of stored answers with every kind of wrong date. Run time counts at once; time that only the date tells is
 * believed late, in steps, and only for what was stored before. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "spec/db/draft_clock.h"

#define DAY INT64_C(86400)
#define AGE (64 * DAY) /* one look a day, which ages by at most 8 days */
#define NOW INT64_C(1700000000)

/* A machine: the truth, and what its date says. */
typedef struct World {
    DraftClock clock;
    int64_t true_s;        /* true seconds since the beginning */
    int64_t booted_s;      /* true_s when it was started */
    int64_t wrong_s;       /* seconds by which the date is wrong */
    int64_t slept_s;       /* seconds since the start */
    int64_t slept_wrong_s; /* what the kernel takes for sleep in addition */
    uint8_t boot;
    int64_t document; /* the last stored document */
} World;

static DraftClockReading now_of(const World *world) {
    const int64_t wall_s = NOW + world->true_s + world->wrong_s;

    return (DraftClockReading){ .wall_s = wall_s > 0 ? (uint64_t)wall_s : 0,
                                .boot_s = (uint64_t)(world->true_s - world->booted_s + world->slept_wrong_s),
                                .awake_s = (uint64_t)(world->true_s - world->booted_s - world->slept_s),
                                .boot = { 1, world->boot } };
}

static void tell(World *world) {
    const DraftClockReading now = now_of(world);

    draft_clock_advance(&world->clock, &now, world->document, AGE);
}

static World begin(void) {
    World world = { 0 };
    const DraftClockReading now = now_of(&world);

    draft_clock_init(&world.clock, &now, 0);
    return world;
}

static void run(World *world, int64_t for_s) {
    for (int64_t end_s = world->true_s + for_s; world->true_s < end_s;) {
        world->true_s += MIN(end_s - world->true_s, 3600);
        tell(world);
    }
}

/* Turns the machine off for that long, then on with a date that is wrong by that much. */
static void restart(World *world, int64_t off_s, int64_t wrong_s) {
    world->true_s += off_s;
    world->booted_s = world->true_s;
    world->boot++;
    world->slept_s = world->slept_wrong_s = 0;
    world->wrong_s = wrong_s;
    tell(world);
}

static void set_date(World *world, int64_t wrong_s) {
    world->wrong_s = wrong_s;
    tell(world);
}

/* Returns the age of a document that was stored when ran_s had that value. */
static int64_t age_of(const World *world, int64_t document, int64_t ran_s) {
    int64_t age_s = world->clock.ran_s - ran_s;

    for (size_t i = 0; i < world->clock.n_pauses; i++)
        if (world->clock.pauses[i].document >= document)
            age_s += world->clock.pauses[i].believed_s;
    return age_s;
}

/* Stores a document; returns its number. *ran_sp: for age_of(). */
static int64_t store(World *world, int64_t *ran_sp) {
    *ran_sp = world->clock.ran_s;
    return ++world->document;
}

static void test_draft_clock_reads_the_system(void **state) {
    DraftClockReading one, two;

    draft_clock_read_system(&one);
    draft_clock_read_system(&two);
    assert_memory_equal(one.boot, two.boot, sizeof(one.boot));
    assert_memory_not_equal(one.boot, (uint8_t[DRAFT_CLOCK_BOOT_BYTES]){ 0 }, sizeof(one.boot));
    assert_in_range(two.boot_s, one.boot_s, one.boot_s + 60);
    assert_in_range(two.wall_s, (uint64_t)time(NULL) - 60, (uint64_t)time(NULL) + 60);
}

/* While the machine runs, the date does not matter. */
static void test_draft_clock_while_it_runs(void **state) {
    static const int64_t wrong[] = { 200 * DAY, -200 * DAY, -NOW, 40000 * DAY, 0, 3600, -3600 };
    World world = begin();
    int64_t ran_s, id = store(&world, &ran_s);

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        set_date(&world, wrong[i]);
        run(&world, 3600);
        set_date(&world, 0);
        run(&world, 3600);
    }
    assert_int_equal(age_of(&world, id, ran_s), world.true_s);
    assert_int_equal(world.clock.behind_s, 0);
    assert_int_equal(draft_clock_doubted_s(&world.clock), 0);
}

/* A start with a wrong date, shorter than a day, makes nothing older; what was stored then grows old as with the right
 * date. */
static void test_draft_clock_one_wrong_start(void **state) {
    static const int64_t wrong[] = { 200 * DAY, 40000 * DAY, -200 * DAY, -NOW };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        World world = begin();
        int64_t before_s, meanwhile_s, before = store(&world, &before_s), meanwhile, from_s;

        run(&world, 10 * DAY);
        restart(&world, 3600, wrong[i]);
        meanwhile = store(&world, &meanwhile_s);
        from_s = world.true_s;
        assert_int_equal(age_of(&world, before, before_s), 10 * DAY);
        run(&world, DAY - 3600);
        assert_int_equal(age_of(&world, before, before_s), 11 * DAY - 3600);
        if (i % 2) /* the network sets the date, or the next start does */
            set_date(&world, 0);
        else
            restart(&world, 7200, 0);
        assert_int_equal(world.clock.behind_s, 0);
        run(&world, 20 * DAY);
        /* Over a start nobody can tell the hour before it from the two hours behind it. */
        assert_int_equal(age_of(&world, meanwhile, meanwhile_s), world.true_s - from_s + (i % 2 ? 0 : 3600));
        assert_int_equal(age_of(&world, before, before_s), world.true_s);
    }
}

/* A long pause: the next look believes an eighth of the limit, and so does each one after it, until all is believed. */
static void test_draft_clock_off(void **state) {
    World world = begin();
    int64_t ran_s, id = store(&world, &ran_s), later_s, later;

    restart(&world, 30 * DAY, 0);
    later = store(&world, &later_s);
    assert_int_equal(age_of(&world, id, ran_s), 0);
    restart(&world, 3600, 0);
    assert_int_equal(age_of(&world, id, ran_s), 8 * DAY);
    run(&world, 3600);
    assert_int_equal(age_of(&world, id, ran_s), 8 * DAY + 3600);
    run(&world, DAY);
    assert_int_equal(age_of(&world, id, ran_s), 17 * DAY + 3600);
    run(&world, 4 * DAY);
    assert_int_equal(age_of(&world, id, ran_s), world.true_s);
    assert_int_equal(age_of(&world, later, later_s), world.true_s - 30 * DAY);
}

/* Used for an hour a day, without a clock that runs meanwhile: a night is believed the day after. */
static void test_draft_clock_every_day(void **state) {
    for (int kind = 0; kind < 3; kind++) {
        World world = begin();
        int64_t ran_s, id = store(&world, &ran_s), ignored_s;

        for (int day = 0; day < 50; day++) {
            restart(&world, DAY - 3600, 0);
            if (kind) { /* 1: the date begins in 1970; 2: it goes on where it was, as on some systems */
                world.boot--;
                world.true_s -= 1;
                restart(&world, 1, kind == 1 ? -NOW - world.true_s : -(DAY - 3600));
                run(&world, 60);
                set_date(&world, 0);
            }
            run(&world, 3600 - (kind ? 60 : 0));
            (void)store(&world, &ignored_s);
            assert_in_range(age_of(&world, id, ran_s) + 2 * DAY, world.true_s, world.true_s + 2 * DAY);
        }
    }
}

/* A date that stays wrong becomes the date: it ages documents by an eighth of the limit with every start, not at once.
 * When it is right again, so is the age of what is still there. */
static void test_draft_clock_many_wrong_starts(void **state) {
    World world = begin();
    int64_t ran_s, id = store(&world, &ran_s), later_s, later;

    restart(&world, 0, 200 * DAY);
    for (int i = 1; i <= 4; i++) {
        restart(&world, 0, 200 * DAY);
        assert_int_equal(age_of(&world, id, ran_s), i * 8 * DAY);
    }
    later = store(&world, &later_s);
    restart(&world, 0, 0);
    assert_int_equal(age_of(&world, id, ran_s), 0);
    for (int day = 0; day < 30; day++) /* nights count at once, though the date was so far ahead */
        restart(&world, DAY, 0);
    assert_int_equal(age_of(&world, later, later_s), 29 * DAY);
    assert_int_equal(age_of(&world, id, ran_s), 29 * DAY);
}

/* The date was ahead when the first document came, and is set right: nights count again after a while. */
static void test_draft_clock_begins_ahead(void **state) {
    World world = { .wrong_s = 20 * DAY };
    const DraftClockReading now = now_of(&world);
    int64_t ran_s, id;

    draft_clock_init(&world.clock, &now, 0);
    id = store(&world, &ran_s);
    restart(&world, 0, 0);
    assert_int_equal(world.clock.behind_s, 20 * DAY);
    for (int day = 0; day < 30; day++)
        restart(&world, DAY, 0);
    assert_int_equal(world.clock.behind_s, 0);
    assert_in_range(age_of(&world, id, ran_s), 20 * DAY, 30 * DAY);
}

/* A clock that was never set tells nothing of the time before it is set. */
static void test_draft_clock_begins_unset(void **state) {
    World world = { .wrong_s = -NOW };
    const DraftClockReading now = now_of(&world);
    int64_t ran_s, id;

    draft_clock_init(&world.clock, &now, 0);
    id = store(&world, &ran_s);
    assert_int_equal(draft_clock_date_s(&world.clock, &now), 0);
    run(&world, 3600);
    set_date(&world, 0);
    run(&world, 10 * DAY);
    assert_int_equal(age_of(&world, id, ran_s), world.true_s);
}

/* A date that the network sets late, and a machine that is stopped from outside while it runs, do no harm. The first
 * jump belongs to the time before the start and ages nothing that was stored since; later jumps age everything. */
static void test_draft_clock_late_jumps(void **state) {
    for (int unset = 0; unset < 2; unset++) {
        World world = begin();
        int64_t before_s, before = store(&world, &before_s), ran_s, id;

        world.true_s += 30 * DAY;
        restart(&world, 0, unset ? -NOW - world.true_s : -30 * DAY);
        id = store(&world, &ran_s);
        run(&world, 3600);
        set_date(&world, 0);
        run(&world, 10 * DAY);
        assert_int_equal(age_of(&world, id, ran_s), 10 * DAY + 3600);
        assert_int_equal(age_of(&world, before, before_s), world.true_s);
        world.booted_s += 5 * DAY; /* CLOCK_BOOTTIME stands while the machine does */
        world.true_s += 5 * DAY;
        run(&world, 10 * DAY);
        assert_int_equal(age_of(&world, id, ran_s), 25 * DAY + 3600);
        assert_int_equal(age_of(&world, before, before_s), world.true_s);
    }
}

/* Nights asleep count at once; a long sleep counts like time off, because it may be a wrong date as well. */
static void test_draft_clock_asleep(void **state) {
    World world = begin();
    int64_t ran_s, id = store(&world, &ran_s);

    for (int day = 0; day < 10; day++) {
        world.slept_s += DAY / 2;
        world.true_s += DAY / 2;
        run(&world, DAY / 2);
    }
    assert_int_equal(age_of(&world, id, ran_s), 10 * DAY);
    world.slept_wrong_s = world.wrong_s = 200 * DAY;
    run(&world, 3600);
    assert_int_equal(age_of(&world, id, ran_s), 10 * DAY + 3600);
    set_date(&world, 0);
    run(&world, 10 * DAY);
    assert_int_equal(age_of(&world, id, ran_s), 20 * DAY + 3600);
    world.slept_s += 30 * DAY;
    world.true_s += 30 * DAY;
    run(&world, 3600);
    assert_int_equal(age_of(&world, id, ran_s), 20 * DAY + 7200);
    run(&world, 10 * DAY);
    assert_int_equal(age_of(&world, id, ran_s), world.true_s);
}

/* Documents' numbers are given again when the newest ones are forgotten. */
static void test_draft_clock_numbers_again(void **state) {
    World world = begin();
    int64_t ran_s, id;

    for (int i = 0; i < 5; i++)
        (void)store(&world, &ran_s);
    restart(&world, 30 * DAY, 0);
    world.document = 0;
    tell(&world);
    id = store(&world, &ran_s);
    for (int i = 0; i < 9; i++)
        restart(&world, 0, 0);
    assert_int_equal(age_of(&world, id, ran_s), 0);
}

/* More starts than are remembered: their time counts, whatever becomes of them. */
static void test_draft_clock_many_pauses(void **state) {
    World world = begin();
    int64_t ran_s, id = store(&world, &ran_s), ignored_s;

    for (int i = 0; i < 3 * DRAFT_CLOCK_PAUSES_MAX; i++) {
        restart(&world, 3600, 0);
        (void)store(&world, &ignored_s);
    }
    assert_int_equal(world.clock.n_pauses, DRAFT_CLOCK_PAUSES_MAX);
    assert_int_equal(age_of(&world, id, ran_s), (3 * DRAFT_CLOCK_PAUSES_MAX - 1) * INT64_C(3600));
}

/* Short pauses merge where there are too many; pauses before the first document go. */
static void test_draft_clock_long_pauses_stay(void **state) {
    World world = begin();
    int64_t ran_s = 0, id = 0, ignored_s;

    for (int i = 0; i < 3 * DRAFT_CLOCK_PAUSES_MAX; i++) {
        restart(&world, i % 10 ? 120 : DAY, 0);
        if (i == 300)
            id = store(&world, &ran_s);
        else
            (void)store(&world, &ignored_s);
    }
    /* 46 nights and 421 times two minutes have passed since; some of the minutes count. */
    assert_in_range(age_of(&world, id, ran_s), 46 * DAY, 46 * DAY + 421 * 120);
    draft_clock_prune(&world.clock, id);
    assert_true(world.clock.pauses[0].document >= id);
    assert_in_range(age_of(&world, id, ran_s), 46 * DAY, 46 * DAY + 421 * 120);
}

/* An earlier CLOCK_BOOTTIME of the same start (a machine set back to a snapshot) and impossible readings are
 * accepted. */
static void test_draft_clock_strange_readings(void **state) {
    World world = begin();
    DraftClockReading now;
    int64_t ran_s;

    run(&world, 10 * DAY);
    ran_s = world.clock.ran_s;
    now = now_of(&world);
    now.boot_s = 5;
    draft_clock_advance(&world.clock, &now, 0, AGE);
    assert_int_equal(world.clock.ran_s, ran_s);
    now = (DraftClockReading){ .wall_s = UINT64_MAX, .boot_s = UINT64_MAX, .boot = { 99 } };
    for (int i = 0; i < 100; i++) {
        now.boot[1] = (uint8_t)i;
        now.wall_s = i % 2 ? UINT64_MAX : 0;
        draft_clock_advance(&world.clock, &now, i, i % 3 ? AGE : UINT64_MAX);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draft_clock_reads_the_system), cmocka_unit_test(test_draft_clock_while_it_runs),
        cmocka_unit_test(test_draft_clock_one_wrong_start),  cmocka_unit_test(test_draft_clock_off),
        cmocka_unit_test(test_draft_clock_every_day),        cmocka_unit_test(test_draft_clock_many_wrong_starts),
        cmocka_unit_test(test_draft_clock_begins_ahead),     cmocka_unit_test(test_draft_clock_begins_unset),
        cmocka_unit_test(test_draft_clock_late_jumps),       cmocka_unit_test(test_draft_clock_asleep),
        cmocka_unit_test(test_draft_clock_numbers_again),    cmocka_unit_test(test_draft_clock_many_pauses),
        cmocka_unit_test(test_draft_clock_long_pauses_stay), cmocka_unit_test(test_draft_clock_strange_readings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
