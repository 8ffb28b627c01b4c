// SPDX-License-Identifier: Apache-2.0
/* Which piece is read next, without a file: the circle, a turn to another layer, users at different layers, users that
 * have gone, failures; and random orders in which nobody waits for ever. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "test/unit/fixtures/model_maker.h"
#include "scheduler/graphs/layer_slots.h"

enum {
    STALE_ASKS = LAYER_SLOTS_STALE_ASKS,
};

static void make(LayerSlots *slots, size_t n_layers, size_t n_slots, size_t n_pieces) {
    assert_int_equal(layer_slots_init(slots, n_layers, n_slots), 0);
    for (size_t i = 0; i < n_layers; i++)
        slots->layers[i].n_pieces = n_pieces;
}

/* Asserts that the next piece is this one of this layer, and counts it as under way. */
static LayerSlot *begins(LayerSlots *slots, size_t layer, size_t expected_piece) {
    size_t piece;
    LayerSlot *slot = layer_slots_begin(slots, &piece);

    assert_non_null(slot);
    assert_int_equal(slot->layer, layer);
    assert_int_equal(piece, expected_piece);
    return slot;
}

static void begins_nothing(LayerSlots *slots) {
    size_t piece;

    assert_null(layer_slots_begin(slots, &piece));
}

static void reads(LayerSlots *slots, size_t layer, size_t first_piece, size_t n_pieces) {
    for (size_t i = first_piece; i < n_pieces; i++)
        layer_slots_came(slots, begins(slots, layer, i), i, 0);
}

static void holds(LayerSlots *slots, size_t layer) {
    LayerSlot *slot = layer_slots_ask(slots, layer);

    assert_non_null(slot);
    assert_int_equal(slot->layer, layer);
    layer_slots_hold(slots, slot);
}

static void waits(LayerSlots *slots, size_t layer) {
    assert_null(layer_slots_ask(slots, layer));
}

/* Layers are read ahead into all slots; a slot that is released gets the next layer, also over the end of a sweep. */
static void test_layer_slots_circle(void **state) {
    for (size_t n_slots = 2; n_slots <= 5; n_slots++) {
        LayerSlots slots;

        make(&slots, 6, n_slots, 2);
        for (size_t i = 0; i < n_slots; i++)
            reads(&slots, i, 0, 2);
        for (size_t i = 0; i < 20; i++) {
            begins_nothing(&slots);
            holds(&slots, i % 6);
            begins_nothing(&slots);
            layer_slots_release(&slots, i % 6);
            reads(&slots, (i + n_slots) % 6, 0, 2);
        }
        assert_int_equal(slots.n_in_vain, 0);
        layer_slots_deinit(&slots);
    }
}

/* Reads under way cross the border between layers. */
static void test_layer_slots_over_borders(void **state) {
    LayerSlots slots;
    LayerSlot *slot;

    make(&slots, 3, 2, 2);
    slot = begins(&slots, 0, 0);
    begins(&slots, 0, 1);
    begins(&slots, 1, 0);
    begins(&slots, 1, 1);
    begins_nothing(&slots);
    layer_slots_came(&slots, slot, 1, 0); /* pieces come in any order */
    waits(&slots, 0);
    layer_slots_came(&slots, slot, 0, 0);
    holds(&slots, 0);
    layer_slots_release(&slots, 0);
    assert_ptr_equal(begins(&slots, 2, 0), slot);
    layer_slots_deinit(&slots);
}

static void test_layer_slots_as_many_as_layers(void **state) {
    for (size_t n_slots = 4; n_slots <= 6; n_slots++) {
        LayerSlots slots;
        uint64_t seed = n_slots;

        make(&slots, 4, n_slots, 1);
        for (size_t i = 0; i < 4; i++)
            reads(&slots, i, 0, 1);
        for (int i = 0; i < 100; i++) {
            const size_t layer = (size_t)(test_random(&seed) % 4);

            holds(&slots, layer);
            begins_nothing(&slots);
            layer_slots_release(&slots, layer);
            begins_nothing(&slots);
        }
        layer_slots_deinit(&slots);
    }
}

/* A turn: reads under way end first, in the slot of the layer that is needed last; the rest of that layer is not read.
 * */
static void test_layer_slots_turn(void **state) {
    LayerSlots slots;
    LayerSlot *first, *second;

    make(&slots, 10, 2, 3);
    first = begins(&slots, 0, 0);
    begins(&slots, 0, 1);
    waits(&slots, 5);
    second = begins(&slots, 5, 0); /* into the slot of layer 1, of which nothing had begun */
    assert_ptr_not_equal(first, second);
    begins(&slots, 5, 1);
    begins(&slots, 5, 2);
    begins_nothing(&slots); /* layer 6 gets the slot of layer 0 */
    layer_slots_came(&slots, first, 0, 0);
    begins_nothing(&slots);
    layer_slots_came(&slots, first, 1, 0);
    assert_ptr_equal(begins(&slots, 6, 0), first);
    for (size_t i = 0; i < 3; i++)
        layer_slots_came(&slots, second, i, 0);
    holds(&slots, 5);
    waits(&slots, 0); /* turns back: layer 5 is held, so layer 6 gives way */
    begins_nothing(&slots);
    layer_slots_came(&slots, first, 0, 0);
    assert_ptr_equal(begins(&slots, 0, 0), first);
    assert_int_equal(slots.n_in_vain, 0);
    layer_slots_deinit(&slots);
}

/* Back by one layer: layers needed soon stay, and are not read again. */
static void test_layer_slots_turn_keeps_what_is_near(void **state) {
    LayerSlots slots;

    make(&slots, 10, 4, 1);
    for (size_t i = 0; i < 4; i++)
        reads(&slots, i, 0, 1);
    holds(&slots, 0);
    layer_slots_release(&slots, 0);
    reads(&slots, 4, 0, 1);
    waits(&slots, 0);
    reads(&slots, 0, 0, 1); /* into the slot of layer 4, which nobody has held */
    begins_nothing(&slots);
    assert_int_equal(slots.n_in_vain, 1);
    for (size_t i = 0; i < 4; i++)
        holds(&slots, i);
    waits(&slots, 4); /* all slots are held */
    begins_nothing(&slots);
    layer_slots_release(&slots, 2);
    reads(&slots, 4, 0, 1);
    layer_slots_deinit(&slots);
}

/* Two users ask in turns: none takes the other's half-read layer away. The layer that was asked for last is read first.
 * */
static void test_layer_slots_two_users(void **state) {
    LayerSlots slots;

    make(&slots, 10, 2, 4);
    waits(&slots, 2);
    reads(&slots, 2, 0, 2);
    waits(&slots, 7);
    reads(&slots, 7, 0, 2);
    waits(&slots, 2);
    reads(&slots, 2, 2, 4);
    reads(&slots, 7, 2, 4); /* the user has not asked again, but waits */
    begins_nothing(&slots);
    holds(&slots, 7);
    layer_slots_release(&slots, 7);
    reads(&slots, 8, 0, 4);
    holds(&slots, 2);
    layer_slots_release(&slots, 2);
    waits(&slots, 3);
    waits(&slots, 8 + 1);
    reads(&slots, 9, 0, 4);
    reads(&slots, 3, 0, 4);
    layer_slots_deinit(&slots);
    make(&slots, 10, 3, 2); /* with a slot to read ahead into, which comes last */
    waits(&slots, 2);
    waits(&slots, 7);
    reads(&slots, 7, 0, 2);
    reads(&slots, 2, 0, 2);
    reads(&slots, 8, 0, 2);
    layer_slots_deinit(&slots);
}

/* More users than slots: users without a slot get one in the order of their first calls. */
static void test_layer_slots_more_users_than_slots(void **state) {
    LayerSlots slots;

    make(&slots, 10, 2, 1);
    waits(&slots, 1);
    reads(&slots, 1, 0, 1);
    waits(&slots, 4);
    reads(&slots, 4, 0, 1);
    waits(&slots, 7);
    waits(&slots, 9);
    waits(&slots, 7);
    waits(&slots, 9);
    begins_nothing(&slots);
    holds(&slots, 4);
    waits(&slots, 5);
    begins_nothing(&slots);
    layer_slots_release(&slots, 4);
    reads(&slots, 7, 0, 1);
    begins_nothing(&slots);
    holds(&slots, 1);
    layer_slots_release(&slots, 1);
    reads(&slots, 9, 0, 1);
    layer_slots_deinit(&slots);
}

/* A user asks and goes away: its layer is read to its end, stays for a while, and no longer. */
static void test_layer_slots_gone(void **state) {
    LayerSlots slots;

    make(&slots, 40, 2, 2);
    waits(&slots, 35);
    reads(&slots, 35, 0, 1);
    waits(&slots, 0);
    reads(&slots, 0, 0, 2);
    for (int i = 0; i < STALE_ASKS; i++)
        waits(&slots, 20);
    begins(&slots, 35, 1); /* half read: kept, and read before layers that nobody waits for */
    begins_nothing(&slots);
    waits(&slots, 20);
    reads(&slots, 20, 0, 2); /* into the slot of layer 0, which is whole and wanted by nobody */
    assert_int_equal(slots.n_in_vain, 1);
    holds(&slots, 20);
    for (int i = 0; i < 3 * STALE_ASKS; i++)
        waits(&slots, 21);
    begins_nothing(&slots); /* layer 35 is not whole yet */
    layer_slots_came(&slots, &slots.slots[slots.layers[35].slot], 1, 0);
    for (int i = 0; i < STALE_ASKS; i++)
        waits(&slots, 21);
    begins_nothing(&slots);
    waits(&slots, 21);
    reads(&slots, 21, 0, 2);
    assert_int_equal(slots.n_in_vain, 2);
    /* A layer without a slot is forgotten, too. */
    holds(&slots, 21);
    waits(&slots, 5);
    for (int i = 0; i < STALE_ASKS + 1; i++)
        holds(&slots, 20);
    for (int i = 0; i < STALE_ASKS + 2; i++)
        layer_slots_release(&slots, 20);
    reads(&slots, 22, 0, 2);
    layer_slots_deinit(&slots);
}

/* A failure is told once, its layer is not read again until somebody asks for it, and no other layer is affected. */
static void test_layer_slots_failure(void **state) {
    LayerSlots slots;
    LayerSlot *slot;

    make(&slots, 6, 3, 2);
    reads(&slots, 0, 0, 2);
    slot = begins(&slots, 1, 0);
    begins(&slots, 1, 1);
    reads(&slots, 2, 0, 2);
    layer_slots_came(&slots, slot, 0, -5);
    assert_ptr_equal(layer_slots_ask(&slots, 1), slot);
    assert_int_equal(slot->result, -5);
    assert_int_equal(slot->failed_piece, 0);
    layer_slots_told(&slots, slot);
    begins_nothing(&slots); /* the other piece is under way */
    layer_slots_came(&slots, slot, 1, -7);
    assert_ptr_equal(begins(&slots, 3, 0), slot);
    layer_slots_came(&slots, slot, 0, 0);
    begins(&slots, 3, 1);
    reads(&slots, 4, 0, 2); /* layer 1 is not read: nobody has asked for it since */
    begins_nothing(&slots);
    waits(&slots, 1);
    reads(&slots, 1, 0, 2);
    layer_slots_came(&slots, slot, 1, 0);
    holds(&slots, 1);
    holds(&slots, 2);
    holds(&slots, 3);
    layer_slots_deinit(&slots);
}

/* Users, each at a place in the circle, ask in turns at random, and some go away for ever in the middle; pieces come in
 * any order and sometimes fail. Each user that stays gets all its layers, within a bound on its number of calls. */
static void run_users(size_t n_slots, size_t n_users, uint64_t seed) {
    enum {
        N_LAYERS = 11,
        N_PIECES_MAX = 5,
        DEPTH = 4,
        GOAL = 40,
        ASKS_MAX = 20000
    };
    struct {
        size_t at, n_got, n_held;
        bool is_gone;
    } users[5] = { 0 };
    struct {
        LayerSlot *slot;
        size_t piece, layer;
    } under_way[DEPTH];
    size_t n_under_way = 0, n_done = 0, n_asks = 0;
    LayerSlots slots;

    make(&slots, N_LAYERS, n_slots, 1);
    for (size_t i = 0; i < N_LAYERS; i++)
        slots.layers[i].n_pieces = 1 + (size_t)(test_random(&seed) % N_PIECES_MAX);
    for (size_t i = 0; i < n_users; i++)
        users[i].at = (size_t)(test_random(&seed) % N_LAYERS);
    while (n_done < n_users) {
        const size_t i = (size_t)(test_random(&seed) % n_users);
        LayerSlot *slot;

        assert_true(n_asks++ < ASKS_MAX);
        while (n_under_way < DEPTH) {
            size_t piece;

            slot = layer_slots_begin(&slots, &piece);
            if (!slot)
                break;
            assert_true(!slot->n_holds && piece < slots.layers[slot->layer].n_pieces);
            under_way[n_under_way].slot = slot;
            under_way[n_under_way].layer = slot->layer;
            under_way[n_under_way++].piece = piece;
        }
        if (n_under_way && test_random(&seed) % 2) {
            const size_t j = (size_t)(test_random(&seed) % n_under_way);

            slot = under_way[j].slot;
            assert_true(slot->layer == under_way[j].layer || slot->layer == LAYER_SLOTS_NONE);
            layer_slots_came(&slots, slot, under_way[j].piece, test_random(&seed) % 50 ? 0 : -5);
            under_way[j] = under_way[--n_under_way];
        }
        if (users[i].is_gone)
            continue;
        if (users[i].n_held) { /* computes until its next turn */
            layer_slots_release(&slots, users[i].at);
            users[i].n_held = 0;
            users[i].at = (users[i].at + 1) % N_LAYERS;
            users[i].n_got++;
        }
        if (users[i].n_got == GOAL || (i && test_random(&seed) % 300 == 0)) {
            users[i].is_gone = true;
            n_done++;
            if (users[i].n_got < GOAL)
                (void)layer_slots_ask(&slots, users[i].at); /* its last call */
            continue;
        }
        slot = layer_slots_ask(&slots, users[i].at);
        if (!slot)
            continue;
        assert_int_equal(slot->layer, users[i].at);
        if (slot->result) {
            layer_slots_told(&slots, slot);
            continue;
        }
        assert_int_equal(slot->n_there, slots.layers[slot->layer].n_pieces);
        layer_slots_hold(&slots, slot);
        users[i].n_held = 1;
    }
    layer_slots_deinit(&slots);
}

static void test_layer_slots_nobody_waits_for_ever(void **state) {
    for (size_t n_slots = 2; n_slots <= 5; n_slots++)
        for (size_t n_users = 1; n_users <= 5; n_users++)
            for (uint64_t seed = 1; seed <= 40; seed++)
                run_users(n_slots, n_users, seed * 1000 + n_slots * 10 + n_users);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layer_slots_circle),
        cmocka_unit_test(test_layer_slots_over_borders),
        cmocka_unit_test(test_layer_slots_as_many_as_layers),
        cmocka_unit_test(test_layer_slots_turn),
        cmocka_unit_test(test_layer_slots_turn_keeps_what_is_near),
        cmocka_unit_test(test_layer_slots_two_users),
        cmocka_unit_test(test_layer_slots_more_users_than_slots),
        cmocka_unit_test(test_layer_slots_gone),
        cmocka_unit_test(test_layer_slots_failure),
        cmocka_unit_test(test_layer_slots_nobody_waits_for_ever),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
