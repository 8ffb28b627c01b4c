// SPDX-License-Identifier: Apache-2.0
#include "daemon/requests/admission.h"

#include <limits.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/min_max.h"
#include "daemon/engine/job_choices.h"
#include "daemon/requests/request_state.h"
#include "scheduler/requests/admission_order.h"

enum {
    RETRY_MIN_MS = 200,
    RETRY_MAX_MS = 60000,
    RUN_GUESS_US = 2000000, /* assumed time of a generation before the first one has ended */
    /* Paused generations take no turn but keep their memory, so their number is bounded, too. */
    HELD_PER_ACTIVE = 4,
    USER_HELD_PER_ACTIVE = 2, /* bound for one user's apps */
};

#define UNREAD_NS                                                                                                      \
    (UINT64_C(5) * 1000 * 1000 * 1000)            /* how long a client may read nothing while others want the memory */
#define STALLED_NS (UINT64_C(1000) * 1000 * 1000) /* how long a generation may be paused while others want its place */

void admission_init(Admission *admission, Loop *loop, const Config *config) {
    *admission = (Admission){ .loop = loop, .config = config, .mean_run_us = RUN_GUESS_US, .jitter = clock_now_ns() };
    TAILQ_INIT(&admission->waiting);
    TAILQ_INIT(&admission->submitted);
}

PlaceKind admission_kind(const Request *request) {
    return request->job.generate.priority == PRIORITY_INTERACTIVE ? PLACE_INTERACTIVE : PLACE_OTHER;
}

/* Returns the priority that a request has reached by aging. */
static Priority rank_of(const Request *request, uint64_t now_ns) {
    const uint64_t since_ns = request_is_resting(request) ? request->times.rested_ns : request->times.received_ns,
                   waited_ns = now_ns > since_ns ? now_ns - since_ns : 0;

    return request_is_generation(request)
               ? priority_aged(request->job.generate.priority, waited_ns, request->job.generate.ageing_ns)
               : PRIORITY_NORMAL;
}

static AdmissionPlaces *places_of(Admission *admission, const Request *request) {
    return &admission->places[admission_kind(request)];
}

static UserPlaces *user_places_of(const Request *request) {
    return &request->user->places[admission_kind(request)];
}

static uint32_t max_active_of(const Admission *admission, const Request *request) {
    const Config *config = admission->config;

    return request->job.generate.priority == PRIORITY_INTERACTIVE ? config->turns.max_active_interactive
                                                                  : config->turns.max_active;
}

/* Tells whether both requests need a place of the same kind or, as small requests, belong to the same connection. */
static bool is_alike(const Request *request, const Request *other) {
    if (request_is_generation(request) != request_is_generation(other))
        return false;
    if (!request_is_generation(request))
        return request->peer == other->peer;
    return (request->job.generate.priority == PRIORITY_INTERACTIVE) ==
           (other->job.generate.priority == PRIORITY_INTERACTIVE);
}

static bool is_of_apps_of(const Request *request, const User *user) {
    return request->user == user && !request->is_admin;
}

/* Tells whether a place of the request's kind is free. Interactive and other requests have separate places. */
bool admission_has_turn(Admission *admission, const Request *request) {
    const AdmissionPlaces *places = places_of(admission, request);

    return places->n_running < max_active_of(admission, request);
}

/* Tells whether all generations of this kind, paused ones too, hold as much memory as is allowed. */
static bool all_hold_enough(Admission *admission, const Request *request) {
    return places_of(admission, request)->n_active >= HELD_PER_ACTIVE * max_active_of(admission, request);
}

static bool user_holds_enough(Admission *admission, const Request *request) {
    return !request->is_admin &&
           user_places_of(request)->n_apps_active >= USER_HELD_PER_ACTIVE * max_active_of(admission, request);
}

static bool has_place(Admission *admission, const Request *request) {
    return admission_has_turn(admission, request) && !all_hold_enough(admission, request) &&
           !user_holds_enough(admission, request);
}

/* Tells whether the request can start now. The engine thread has one small request of a connection at a time, so that
 * at most that request's answer is unsent beyond output-buffer. */
bool admission_can_start(Admission *admission, const Request *request) {
    if (!request_can_run(request) || request->peer->connection->output.is_choked)
        return false;
    return request_is_generation(request) ? has_place(admission, request) : !request->peer->small_runs;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* Moves a returning user's served time up to the clock: time without requests gives no claim. */
static void take_clock(Admission *admission, const Request *request) {
    const uint64_t clock_ns = places_of(admission, request)->clock_ns;
    UserPlaces *user = user_places_of(request);

    if (!user->n_active && !user->n_waiting && user->served_ns < clock_ns)
        user->served_ns = clock_ns;
}

/* Returns how many answers of the request have not ended. The engine thread tells of them with the prompt's news. */
static uint32_t n_answers(const Request *request) {
    const JobChoices *choices = request->answer.usage.n_prompt_tokens ? request->job.run.choices : NULL;

    return choices ? atomic_load(&choices->n_left) : MAX(request->job.generate.n, 1);
}

/* Counts the time since the last count, once for each answer that may have run. */
static void count_service(Request *request, uint64_t now_ns) {
    const uint32_t width = atomic_load(&request->job.width), n = MAX(1, MIN(width, n_answers(request)));

    if (now_ns <= request->times.served_ns)
        return;
    user_places_of(request)->served_ns += (now_ns - request->times.served_ns) * n;
    request->times.served_ns = now_ns;
}

/* Tells whether the request takes a place of its kind. */
static bool takes_place(const Request *request) {
    return request_is_generation(request) && (request->state == REQUEST_RUNNING || request->state == REQUEST_STALLED);
}

/* Moves a request to another state: the only place that counts who has a place, who rests and who is stalled. */
static void move(Admission *admission, Request *request, RequestState state) {
    const bool had_place = takes_place(request), was_resting = request_is_resting(request),
               was_paused = request_is_paused(request), was_stalled = request->state == REQUEST_STALLED;
    AdmissionPlaces *places = places_of(admission, request);
    UserPlaces *user = user_places_of(request);
    const uint64_t now_ns = clock_now_ns();
    bool has_place;

    request_set_state(request, state);
    has_place = takes_place(request);
    admission->n_stalled += (unsigned int)(state == REQUEST_STALLED) - (unsigned int)was_stalled;
    if (was_paused != request_is_paused(request))
        request->times.paused_ns = now_ns;
    if (was_resting != request_is_resting(request)) {
        request->times.rested_ns = now_ns;
        places->n_resting += was_resting ? -1u : 1;
        user->n_resting += was_resting ? -1u : 1;
    }
    if (had_place == has_place)
        return;
    places->n_running += has_place ? 1 : -1u;
    user->n_running += has_place ? 1 : -1u;
    if (!has_place) {
        count_service(request, now_ns);
        return;
    }
    request->times.placed_ns = request->times.served_ns = now_ns;
    if (places->clock_ns < user->served_ns)
        places->clock_ns = user->served_ns;
}

void admission_rest(Admission *admission, Request *request, bool resting) {
    if (request_is_resting(request) != resting)
        move(admission, request, resting ? REQUEST_RESTING : REQUEST_RUNNING);
}

void admission_pause(Admission *admission, Request *request, bool paused) {
    if (request_is_paused(request) == paused)
        return;
    if (request_is_resting(request))
        move(admission, request, paused ? REQUEST_RESTING_PAUSED : REQUEST_RESTING);
    else
        move(admission, request, paused ? REQUEST_PAUSED : REQUEST_RUNNING);
}

void admission_let_go(Admission *admission, Request *request) {
    admission_pause(admission, request, false);
    admission_rest(admission, request, false);
}

/* ---- in and out -------------------------------------------------------------------------------------------------- */

static void begin(Admission *admission, Request *request) {
    if (request_is_generation(request)) {
        admission->n_active++;
        take_clock(admission, request);
        places_of(admission, request)->n_active++;
        user_places_of(request)->n_active++;
        user_places_of(request)->n_apps_active += !request->is_admin;
    } else {
        admission->n_small++;
        request->user->n_held_back += !request->is_admin;
        request->peer->small_runs = true;
    }
    TAILQ_INSERT_TAIL(&admission->submitted, request, queue_link);
    move(admission, request, REQUEST_RUNNING);
}

static unsigned int n_held_back(const Admission *admission) {
    return admission->n_waiting + admission->n_small;
}

unsigned int admission_user_max(const Admission *admission) {
    const unsigned int half = admission->config->turns.max_queue / 2;

    return half ? half : 1;
}

/* Tells whether an earlier request waits for the same place. */
static bool would_overtake(Admission *admission, const Request *request) {
    const Request *other;

    if (request_is_generation(request) && places_of(admission, request)->n_resting)
        return true;
    TAILQ_FOREACH (other, &admission->waiting, queue_link)
        if (is_alike(request, other))
            return true;
    return false;
}

int admission_enter(Admission *admission, Request *request) {
    const unsigned int max_queue = admission->config->turns.max_queue,
                       user_max = request->is_admin ? UINT_MAX : admission_user_max(admission),
                       n_user = request->user->n_held_back;

    assert_on_loop(admission->loop);
    if (model_can_serve(request->model))
        request->times.model_ready_ns = request->times.received_ns;
    /* Small requests wait in the engine thread's own queue, which counts as part of this queue. */
    if (admission_can_start(admission, request) && !would_overtake(admission, request) &&
        (request_is_generation(request) || (admission->n_small <= max_queue && n_user <= user_max))) {
        begin(admission, request);
        return 0;
    }
    if (n_held_back(admission) >= max_queue)
        return ADMISSION_E_FULL;
    if (n_user >= user_max)
        return ADMISSION_E_QUOTA;
    move(admission, request, REQUEST_WAITING);
    TAILQ_INSERT_TAIL(&admission->waiting, request, queue_link);
    admission->n_waiting++;
    request->user->n_held_back += !request->is_admin;
    if (request_is_generation(request)) {
        take_clock(admission, request);
        user_places_of(request)->n_waiting++;
    }
    loop_pump(admission->loop);
    return 0;
}

static void leave_waiting(Admission *admission, Request *request) {
    TAILQ_REMOVE(&admission->waiting, request, queue_link);
    admission->n_waiting--;
    request->user->n_held_back -= !request->is_admin;
    if (request_is_generation(request))
        user_places_of(request)->n_waiting--;
}

/* Takes a request off the list of submitted requests, after the engine thread has released it. */
static void leave_submitted(Admission *admission, Request *request, RequestState to) {
    TAILQ_REMOVE(&admission->submitted, request, queue_link);
    admission_let_go(admission, request);
    move(admission, request, to);
    if (request_is_generation(request)) {
        admission->n_active--;
        places_of(admission, request)->n_active--;
        user_places_of(request)->n_active--;
        user_places_of(request)->n_apps_active -= !request->is_admin;
        return;
    }
    admission->n_small--;
    request->user->n_held_back -= !request->is_admin;
    if (request->peer)
        request->peer->small_runs = false;
}

void admission_leave(Admission *admission, Request *request) {
    assert_on_loop(admission->loop);
    if (request_is_submitted(request)) {
        leave_submitted(admission, request, REQUEST_ENDED);
    } else {
        if (request_is_waiting(request))
            leave_waiting(admission, request);
        move(admission, request, REQUEST_ENDED);
    }
    loop_pump(admission->loop);
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

static AdmissionClaim claim_of(const Request *request, uint64_t now_ns) {
    const UserPlaces *user = user_places_of(request);

    return (AdmissionClaim){
        .user = request->user,
        .kind = admission_kind(request),
        .priority = request->job.generate.priority,
        .rank = rank_of(request, now_ns),
        .serial = request->serial,
        .n_taken = user->n_active - user->n_resting,
        .n_running = user->n_running,
        .served_ns = user->served_ns,
        .has_place = takes_place(request) && request->peer,
        .has_rested = request->times.rested_ns,
        .placed_ns = request->times.placed_ns,
    };
}

/* Tells whether a queued or resting request lacks nothing but a turn. */
static bool wants_turn(Admission *admission, const Request *request) {
    if (!request_is_generation(request) || !request->peer)
        return false;
    if (request_is_submitted(request))
        return request->state == REQUEST_RESTING;
    if (request->state == REQUEST_WAITING_FOR_MEMORY && (admission->n_stalled || request->model->registry->n_unloading))
        return false;
    return request_can_run(request) && !request->peer->connection->output.is_choked &&
           !all_hold_enough(admission, request) && !user_holds_enough(admission, request);
}

/* Finds the generation that must give its place up for another one; NULL: no generation must. */
static Request *find_yielding(const Admission *admission, const AdmissionClaim *to, uint64_t now_ns) {
    Request *request, *best = NULL;
    AdmissionClaim best_claim;

    TAILQ_FOREACH (request, &admission->submitted, queue_link) {
        const AdmissionClaim claim = claim_of(request, now_ns);

        if (!admission_order_must_yield(&claim, to, now_ns) ||
            (best && !admission_order_yields_first(&claim, &best_claim)))
            continue;
        best = request;
        best_claim = claim;
    }
    return best;
}

Request *admission_next(Admission *admission, uint64_t now_ns, Request **yieldingp) {
    RequestList *const lists[] = { &admission->submitted, &admission->waiting };
    Request *request, *next = NULL, *yielding;
    AdmissionClaim next_claim;

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        TAILQ_FOREACH (request, lists[i], queue_link) {
            const AdmissionClaim claim = claim_of(request, now_ns);

            if (!wants_turn(admission, request) || (next && !admission_order_goes_first(&claim, &next_claim)))
                continue;
            yielding = admission_has_turn(admission, request) ? NULL : find_yielding(admission, &claim, now_ns);
            if (!admission_has_turn(admission, request) && !yielding)
                continue;
            next = request;
            next_claim = claim;
            *yieldingp = yielding;
        }
    return next;
}

void admission_number(Admission *admission, uint64_t now_ns) {
    _cleanup_(freep) AdmissionClaim *claims = calloc(admission->n_waiting + 1, sizeof(*claims));
    Request *request;
    size_t n = 0;

    if (!claims)
        return;
    TAILQ_FOREACH (request, &admission->waiting, queue_link)
        claims[n++] = claim_of(request, now_ns);
    if (admission_order_number(claims, n))
        return;
    n = 0;
    TAILQ_FOREACH (request, &admission->waiting, queue_link)
        request->progress.queue_position = claims[n++].position;
}

void admission_start(Admission *admission, Request *request) {
    leave_waiting(admission, request);
    begin(admission, request);
}

void admission_count_service(Admission *admission, uint64_t now_ns) {
    Request *request;

    TAILQ_FOREACH (request, &admission->submitted, queue_link)
        if (takes_place(request))
            count_service(request, now_ns);
}

/* Finds the longest paused generation whose end would let the request start: among all of its kind, or among its user's
 * if only that user holds too many. NULL: none is paused for long, or a cancelled one still has to end. */
static Request *find_stalled(Admission *admission, const Request *request, uint64_t now_ns) {
    const bool of_all = all_hold_enough(admission, request);
    Request *other, *stalled = NULL;

    TAILQ_FOREACH (other, &admission->submitted, queue_link) {
        if (!is_alike(request, other) || (!of_all && !is_of_apps_of(other, request->user)))
            continue;
        if (!other->peer)
            return NULL;
        if (request_is_paused(other) && (!stalled || other->times.paused_ns < stalled->times.paused_ns))
            stalled = other;
    }
    return stalled && now_ns - stalled->times.paused_ns >= STALLED_NS ? stalled : NULL;
}

/* Finds a paused generation that must end because its memory keeps out a request that could have a turn. Otherwise a
 * client that reads just enough to stay would block everybody. NULL: none. */
Request *admission_find_stalled(Admission *admission, uint64_t now_ns) {
    Request *request, *stalled;

    TAILQ_FOREACH (request, &admission->waiting, queue_link) {
        if (!request_is_generation(request) || !request_can_run(request) ||
            request->peer->connection->output.is_choked || !admission_has_turn(admission, request))
            continue;
        stalled = find_stalled(admission, request, now_ns);
        if (stalled)
            return stalled;
    }
    return NULL;
}

void admission_note_stalled(Admission *admission, Request *request) {
    admission_let_go(admission, request);
    move(admission, request, REQUEST_STALLED);
}

/* Finds another user's generation that has stood still for longest, paused or about to be, because its client does not
 * read. NULL: none. */
Request *admission_find_holder(const Admission *admission, const User *user) {
    const uint64_t now_ns = clock_now_ns();
    Request *request, *found = NULL;
    uint64_t since_ns = UINT64_MAX;

    TAILQ_FOREACH (request, &admission->submitted, queue_link) {
        uint64_t from_ns;

        if (!request_is_generation(request) || !request->peer || request->user == user)
            continue;
        if (request_is_paused(request) && now_ns >= request->times.paused_ns + STALLED_NS)
            from_ns = request->times.paused_ns;
        else if (request->answer.n_deltas && connection_is_stalled(request->peer->connection, UNREAD_NS))
            from_ns = request->peer->connection->output.accepted_ns;
        else
            continue;
        if (from_ns < since_ns) {
            found = request;
            since_ns = from_ns;
        }
    }
    return found;
}

/* Puts a request back to the front of the queue, before all requests that came later. */
void admission_wait_again(Admission *admission, Request *request) {
    leave_submitted(admission, request, REQUEST_WAITING_FOR_MEMORY);
    loop_pump(admission->loop);
    request->times.started_ns = 0;
    atomic_store(&request->job.paused, false);
    TAILQ_INSERT_HEAD(&admission->waiting, request, queue_link);
    admission->n_waiting++;
    request->user->n_held_back += !request->is_admin;
    user_places_of(request)->n_waiting++;
}

/* Tells whether a generation waits for a place, or has given one up. */
static bool someone_wants_a_place(Admission *admission) {
    const Request *request;

    TAILQ_FOREACH (request, &admission->waiting, queue_link)
        if (request_is_generation(request) && model_can_serve(request->model))
            return true;
    return admission_n_resting(admission) > 0;
}

static void set_width(Request *request, uint32_t width) {
    if (atomic_load(&request->job.width) == width)
        return;
    if (takes_place(request))
        count_service(request, clock_now_ns());
    atomic_store(&request->job.width, width);
}

void admission_share_places(Admission *admission) {
    const bool is_wanted = someone_wants_a_place(admission);
    unsigned int idle[_PLACE_N] = { 0 };
    Request *request;

    TAILQ_FOREACH (request, &admission->submitted, queue_link) {
        const unsigned int max = max_active_of(admission, request);
        const PlaceKind kind = admission_kind(request);

        if (request_is_generation(request) && !is_wanted && max > admission->places[kind].n_running)
            idle[kind] = max - admission->places[kind].n_running;
    }
    TAILQ_FOREACH (request, &admission->submitted, queue_link) {
        const PlaceKind kind = admission_kind(request);
        uint32_t further;

        if (!request_is_generation(request) || request->job.generate.n <= 1)
            continue;
        further = n_answers(request) - (n_answers(request) > 0);
        if (is_wanted || admission->n_active > 1)
            further = takes_place(request) ? MIN(further, idle[kind]) : 0;
        idle[kind] -= MIN(further, idle[kind]);
        set_width(request, 1 + further);
    }
}

unsigned int admission_n_resting(const Admission *admission) {
    return admission->places[PLACE_OTHER].n_resting + admission->places[PLACE_INTERACTIVE].n_resting;
}

void admission_note_run(Admission *admission, uint64_t run_us) {
    admission->mean_run_us = (admission->mean_run_us * 7 + run_us) / 8;
}

/* Draws uniformly from 0..1023, so that clients refused at one moment do not all return at one moment. */
static uint64_t draw(Admission *admission) {
    admission->jitter = (admission->jitter + UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    return admission->jitter >> 54;
}

/* Estimates from the recent pace when the present queue will have had its turns, and draws from the second half of that
 * time, so that some clients return before the queue is empty. Return: ms. */
uint32_t admission_retry_ms(Admission *admission) {
    const unsigned int n_running =
        admission->places[PLACE_OTHER].n_running + admission->places[PLACE_INTERACTIVE].n_running;
    const uint64_t all_ms = admission->mean_run_us * (admission->n_waiting + 1) / (n_running ? n_running : 1) / 1000,
                   ms = all_ms < RETRY_MIN_MS ? RETRY_MIN_MS : MIN(RETRY_MAX_MS, all_ms);

    return (uint32_t)(ms / 2 + ms * draw(admission) / 2048);
}
