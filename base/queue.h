// SPDX-License-Identifier: Apache-2.0
/* Intrusive lists of queue(3). If the C library has no <sys/queue.h> (musl), this header defines the part that coordgen
 * uses. */
#ifndef COORDGEN_BASE_QUEUE_H
#define COORDGEN_BASE_QUEUE_H

#if __has_include(<sys/queue.h>) && !defined(COORDGEN_OWN_QUEUE) /* a test sets COORDGEN_OWN_QUEUE */
#include <sys/queue.h>
#else

#include <stddef.h>

/* --- LIST: from the front, any element can be removed ------------------------------------------------------------- */

#define LIST_HEAD(name, type)                                                                                          \
    struct name {                                                                                                      \
        struct type *lh_first;                                                                                         \
    }
#define LIST_ENTRY(type)                                                                                               \
    struct {                                                                                                           \
        struct type *le_next, **le_prev; /* what points to this element */                                             \
    }
#define LIST_FIRST(head) ((head)->lh_first)
#define LIST_EMPTY(head) (!LIST_FIRST(head))
#define LIST_NEXT(element, field) ((element)->field.le_next)
#define LIST_FOREACH(var, head, field) for ((var) = LIST_FIRST(head); (var); (var) = LIST_NEXT(var, field))
#define LIST_INIT(head) ((void)(LIST_FIRST(head) = NULL))
#define LIST_INSERT_HEAD(head, element, field)                                                                         \
    do {                                                                                                               \
        LIST_NEXT(element, field) = LIST_FIRST(head);                                                                  \
        if (LIST_FIRST(head))                                                                                          \
            LIST_FIRST(head)->field.le_prev = &LIST_NEXT(element, field);                                              \
        LIST_FIRST(head) = (element);                                                                                  \
        (element)->field.le_prev = &LIST_FIRST(head);                                                                  \
    } while (0)
#define LIST_REMOVE(element, field)                                                                                    \
    do {                                                                                                               \
        if (LIST_NEXT(element, field))                                                                                 \
            LIST_NEXT(element, field)->field.le_prev = (element)->field.le_prev;                                       \
        *(element)->field.le_prev = LIST_NEXT(element, field);                                                         \
    } while (0)

/* --- STAILQ: in at the end, out at the front ---------------------------------------------------------------------- */

#define STAILQ_HEAD(name, type)                                                                                        \
    struct name {                                                                                                      \
        struct type *stqh_first, **stqh_last; /* where the next element's address goes */                              \
    }
#define STAILQ_ENTRY(type)                                                                                             \
    struct {                                                                                                           \
        struct type *stqe_next;                                                                                        \
    }
#define STAILQ_FIRST(head) ((head)->stqh_first)
#define STAILQ_EMPTY(head) (!STAILQ_FIRST(head))
#define STAILQ_NEXT(element, field) ((element)->field.stqe_next)
#define STAILQ_FOREACH(var, head, field) for ((var) = STAILQ_FIRST(head); (var); (var) = STAILQ_NEXT(var, field))
#define STAILQ_INIT(head)                                                                                              \
    do {                                                                                                               \
        STAILQ_FIRST(head) = NULL;                                                                                     \
        (head)->stqh_last = &STAILQ_FIRST(head);                                                                       \
    } while (0)
#define STAILQ_INSERT_TAIL(head, element, field)                                                                       \
    do {                                                                                                               \
        STAILQ_NEXT(element, field) = NULL;                                                                            \
        *(head)->stqh_last = (element);                                                                                \
        (head)->stqh_last = &STAILQ_NEXT(element, field);                                                              \
    } while (0)
#define STAILQ_REMOVE_HEAD(head, field)                                                                                \
    do {                                                                                                               \
        STAILQ_FIRST(head) = STAILQ_NEXT(STAILQ_FIRST(head), field);                                                   \
        if (!STAILQ_FIRST(head))                                                                                       \
            (head)->stqh_last = &STAILQ_FIRST(head);                                                                   \
    } while (0)
#define STAILQ_REMOVE(head, element, type, field)                                                                      \
    do {                                                                                                               \
        struct type **linkp_ = &STAILQ_FIRST(head);                                                                    \
        while (*linkp_ != (element))                                                                                   \
            linkp_ = &STAILQ_NEXT(*linkp_, field);                                                                     \
        *linkp_ = STAILQ_NEXT(element, field);                                                                         \
        if (!*linkp_)                                                                                                  \
            (head)->stqh_last = linkp_;                                                                                \
    } while (0)

/* --- TAILQ: both ends, any element can be removed ----------------------------------------------------------------- */

#define TAILQ_HEAD(name, type)                                                                                         \
    struct name {                                                                                                      \
        struct type *tqh_first, **tqh_last; /* where the next element's address goes */                                \
    }
#define TAILQ_ENTRY(type)                                                                                              \
    struct {                                                                                                           \
        struct type *tqe_next, **tqe_prev; /* what points to this element */                                           \
    }
#define TAILQ_FIRST(head) ((head)->tqh_first)
#define TAILQ_EMPTY(head) (!TAILQ_FIRST(head))
#define TAILQ_NEXT(element, field) ((element)->field.tqe_next)
/* A head and an entry begin alike: `tqh_last` of what points to the last element leads to the one before. */
#define TAILQ_LAST(head, name) (*((struct name *)(void *)(head)->tqh_last)->tqh_last)
#define TAILQ_PREV(element, name, field) (*((struct name *)(void *)(element)->field.tqe_prev)->tqh_last)
#define TAILQ_FOREACH(var, head, field) for ((var) = TAILQ_FIRST(head); (var); (var) = TAILQ_NEXT(var, field))
#define TAILQ_FOREACH_REVERSE(var, head, name, field)                                                                  \
    for ((var) = TAILQ_LAST(head, name); (var); (var) = TAILQ_PREV(var, name, field))
#define TAILQ_INIT(head)                                                                                               \
    do {                                                                                                               \
        TAILQ_FIRST(head) = NULL;                                                                                      \
        (head)->tqh_last = &TAILQ_FIRST(head);                                                                         \
    } while (0)
#define TAILQ_INSERT_HEAD(head, element, field)                                                                        \
    do {                                                                                                               \
        TAILQ_NEXT(element, field) = TAILQ_FIRST(head);                                                                \
        if (TAILQ_FIRST(head))                                                                                         \
            TAILQ_FIRST(head)->field.tqe_prev = &TAILQ_NEXT(element, field);                                           \
        else                                                                                                           \
            (head)->tqh_last = &TAILQ_NEXT(element, field);                                                            \
        TAILQ_FIRST(head) = (element);                                                                                 \
        (element)->field.tqe_prev = &TAILQ_FIRST(head);                                                                \
    } while (0)
#define TAILQ_INSERT_TAIL(head, element, field)                                                                        \
    do {                                                                                                               \
        TAILQ_NEXT(element, field) = NULL;                                                                             \
        (element)->field.tqe_prev = (head)->tqh_last;                                                                  \
        *(head)->tqh_last = (element);                                                                                 \
        (head)->tqh_last = &TAILQ_NEXT(element, field);                                                                \
    } while (0)
#define TAILQ_REMOVE(head, element, field)                                                                             \
    do {                                                                                                               \
        if (TAILQ_NEXT(element, field))                                                                                \
            TAILQ_NEXT(element, field)->field.tqe_prev = (element)->field.tqe_prev;                                    \
        else                                                                                                           \
            (head)->tqh_last = (element)->field.tqe_prev;                                                              \
        *(element)->field.tqe_prev = TAILQ_NEXT(element, field);                                                       \
    } while (0)

#endif
#endif
