// SPDX-License-Identifier: Apache-2.0
/* Stable sort of values by keys. */
#ifndef COORDGEN_TEXT_JINJA_SORT_H
#define COORDGEN_TEXT_JINJA_SORT_H

#include "text/jinja/values/jinja_value.h"

typedef struct JinjaSortItem {
    JinjaValue key, item;
} JinjaSortItem;

/* Sorts by merging, so that the time goes with n log n whatever the keys are. Uses up items[n]. Keys without an order
 * fail. */
JinjaSortItem *jinja_sort(JinjaRun *run, JinjaSortItem *items, uint32_t n, bool reverse);

#endif
