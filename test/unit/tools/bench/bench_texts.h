// SPDX-License-Identifier: Apache-2.0
/* Text of a bench report, for test programs; include it behind cmocka.h. */
#ifndef COORDGEN_TEST_UNIT_BENCH_TEXTS_H
#define COORDGEN_TEST_UNIT_BENCH_TEXTS_H

#include <stdio.h>
#include <string.h>

#include "tools/bench/report.h"

/* Returns what fn() writes; the caller frees it. */
static inline char *bench_written(const BenchReport *report, void (*fn)(const BenchReport *report, FILE *file)) {
    char *text = NULL;
    size_t len_bytes;
    FILE *file = open_memstream(&text, &len_bytes);

    assert_non_null(file);
    fn(report, file);
    assert_int_equal(fclose(file), 0);
    return text;
}

/* Returns the findings as a table, or as CSV of the machine 'this "one"'; the caller frees it. */
static inline char *findings_written(const BenchFindings *kind, const void *findings, bool csv) {
    const BenchReport report = { .kind = kind,
                                 .findings = (void *)findings,
                                 .machine = json_pack("{s:s}", "name", "this \"one\"") };
    char *text = bench_written(&report, csv ? bench_report_csv : bench_report_table);

    json_decref(report.machine);
    return text;
}

static inline void text_has(const char *text, const char *part) {
    if (!strstr(text, part))
        fail_msg("'%s' is not in:\n%s", part, text);
}

#endif
