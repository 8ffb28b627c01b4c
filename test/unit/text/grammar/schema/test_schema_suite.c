// SPDX-License-Identifier: Apache-2.0
/* The JSON-Schema-Test-Suite, where its Debian package (json-schema-test-suite) is installed: no value that a schema
 * forbids is accepted, and schemas are refused only for
 * what docs/json-schema.md names. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "test/unit/text/grammar/schema/schema_case.h"

#define SUITE "/usr/share/json-schema-test-suite/tests"

typedef struct Counts {
    size_t n_tests, n_right, n_accepted, n_refused_values, n_refused_schemas;
} Counts;

static bool prints; /* COORDGEN_VERBOSE=1: each test that is not right */

static void check_group(const json_t *group, const char *draft, const SchemaOptions *options, Counts *counts) {
    json_t *schema = json_object_get(group, "schema"), *test;
    char name[96], *text;
    SchemaCase one;
    size_t i;

    snprintf(name, sizeof(name), "http://json-schema.org/draft-0%s/schema#", draft + strlen("draft"));
    if (json_is_object(schema) && !json_object_get(schema, "$schema"))
        json_object_set_new(schema, "$schema", json_string(name));
    text = json_dumps(schema, JSON_ENCODE_ANY | JSON_COMPACT);
    assert_non_null(text);
    schema_case_init(&one, text, strlen(text), options);
    counts->n_refused_schemas += one.r && one.r != GRAMMAR_E_NOTHING;
    if (one.r && one.r != GRAMMAR_E_NOTHING && prints)
        print_message("%s: %s\n", json_string_value(json_object_get(group, "description")), one.err.text);
    json_array_foreach(json_object_get(group, "tests"), i, test) {
        bool is_valid = json_is_true(json_object_get(test, "valid")), fits = false;
        StrBuf value = STR_BUF_NULL;

        counts->n_tests++;
        schema_case_write(&value, json_object_get(test, "data"));
        if (!one.r)
            fits = schema_case_fits(&one, value.data, value.len_bytes);
        if (!one.r || one.r == GRAMMAR_E_NOTHING) {
            counts->n_right += fits == is_valid;
            counts->n_accepted += fits && !is_valid;
            counts->n_refused_values += !fits && is_valid;
        }
        if ((fits && !is_valid) || (!fits && is_valid && !one.r && prints))
            print_message("%s %s: %s %s\n", text, json_string_value(json_object_get(test, "description")),
                          fits ? "accepts" : "refuses", value.data);
        str_buf_deinit(&value);
    }
    schema_case_deinit(&one);
    free(text);
}

static void check_folder(const char *draft, const char *folder, const SchemaOptions *options, Counts *counts) {
    char path[512];
    struct dirent *entry;
    DIR *dir;

    snprintf(path, sizeof(path), SUITE "/%s/%s", draft, folder);
    dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        const char *ending = strrchr(entry->d_name, '.');
        json_t *groups, *group;
        size_t i;

        if (!ending || strcmp(ending, ".json") != 0)
            continue;
        snprintf(path, sizeof(path), SUITE "/%s/%s/%s", draft, folder, entry->d_name);
        groups = json_load_file(path, JSON_ALLOW_NUL, NULL);
        if (prints)
            print_message("== %s\n", path);
        json_array_foreach(groups, i, group) check_group(group, draft, options, counts);
        json_decref(groups);
    }
    if (dir)
        closedir(dir);
}

static void check_draft(const char *draft, bool is_any_order, size_t n_right_min) {
    const SchemaOptions options = { .is_any_order = is_any_order };
    Counts counts = { 0 };

    check_folder(draft, "", &options, &counts);
    check_folder(draft, "optional/format", &options, &counts);
    if (!counts.n_tests) {
        print_message("skipped: " SUITE "/%s is not there (Debian package json-schema-test-suite)\n", draft);
        skip();
    }
    print_message("%s%s: %zu tests, %zu right, %zu wrongly accepted, %zu wrongly refused, %zu schemas refused\n", draft,
                  is_any_order ? ", any order" : "", counts.n_tests, counts.n_right, counts.n_accepted,
                  counts.n_refused_values, counts.n_refused_schemas);
    assert_int_equal(counts.n_accepted, 0);
    assert_in_range(counts.n_right, n_right_min, counts.n_tests);
}

static void test_schema_suite_draft4(void **state) {
    check_draft("draft4", false, 281);
    check_draft("draft4", true, 285);
}

static void test_schema_suite_draft6(void **state) {
    check_draft("draft6", false, 365);
    check_draft("draft6", true, 370);
}

static void test_schema_suite_draft7(void **state) {
    check_draft("draft7", false, 476);
    check_draft("draft7", true, 481);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schema_suite_draft4),
        cmocka_unit_test(test_schema_suite_draft6),
        cmocka_unit_test(test_schema_suite_draft7),
    };

    prints = getenv("COORDGEN_VERBOSE");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
