// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/eval/tables/table_store.h"

static char folder[] = "/tmp/coordgen-store-XXXXXX", path[64], source[64], other[64];

static void write_file(const char *name, const char *text) {
    FILE *file = fopen(name, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state) {
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/table.json", folder);
    snprintf(source, sizeof(source), "%s/a.gguf", folder);
    snprintf(other, sizeof(other), "%s/b.gguf", folder);
    write_file(source, "one model");
    write_file(other, "another");
    return 0;
}

static int teardown(void **state) {
    unlink(path);
    unlink(source);
    unlink(other);
    return rmdir(folder);
}

static TableStore open_store(void) {
    TableStore store;
    ErrText err = { 0 };

    if (table_store_open(&store, path, source, &err))
        fail_msg("%s", err.text);
    return store;
}

static json_t *settings(int limit) {
    return json_pack("{s:s, s:i}", "kind", "mcq", "limit", limit);
}

static json_t *package(const char *sha256) {
    return json_pack("{s:s}", "sha256", sha256);
}

static void test_table_store_goes_on(void **state) {
    json_t *wanted = settings(7), *absent = settings(8), *row;
    TableStore store = open_store();
    ErrText err = { 0 };

    row = table_store_row(&store, "int8:6", NULL, 4);
    assert_non_null(row);
    table_row_set_package(row, package("first"));
    assert_null(table_row_measure(row, wanted));
    assert_int_equal(table_row_add(row, settings(7), json_pack("{s:f}", "accuracy", 0.25)), 0);
    assert_int_equal(table_store_save(&store, &err), 0);
    table_store_deinit(&store);

    store = open_store();
    row = table_store_row(&store, "int8:6", NULL, 4);
    assert_true(json_real_value(json_object_get(table_row_measure(row, wanted), "accuracy")) == 0.25);
    assert_null(table_row_measure(row, absent));
    /* A row keeps its results with the same package and loses them with another. */
    table_row_set_package(row, package("first"));
    assert_non_null(table_row_measure(row, wanted));
    table_row_set_package(row, package("second"));
    assert_null(table_row_measure(row, wanted));
    table_store_deinit(&store);
    json_decref(wanted);
    json_decref(absent);
}

static void test_table_store_rows(void **state) {
    json_t *plain, *calibrated, *floats;
    TableStore store;
    ErrText err = { 0 };

    unlink(path);
    store = open_store();
    plain = table_store_row(&store, "compensated:4", NULL, 4);
    calibrated = table_store_row(&store, "compensated:4", "abc", 4);
    floats = table_store_row(&store, "float", NULL, 0);
    assert_ptr_not_equal(plain, calibrated);
    assert_int_equal(table_store_save(&store, &err), 0);
    for (int turn = 0; turn < 2; turn++) {
        assert_ptr_equal(table_store_row(&store, "compensated:4", NULL, 4), plain);
        assert_ptr_equal(table_store_row(&store, "compensated:4", "abc", 4), calibrated);
        assert_ptr_equal(table_store_row(&store, "float", NULL, 0), floats);
        assert_int_equal(json_array_size(json_object_get(store.root, "rows")), 3);
        table_store_deinit(&store);
        store = open_store();
        plain = json_array_get(json_object_get(store.root, "rows"), 0);
        calibrated = json_array_get(json_object_get(store.root, "rows"), 1);
        floats = json_array_get(json_object_get(store.root, "rows"), 2);
    }
    /* Another text or another importer makes another row. */
    assert_ptr_not_equal(table_store_row(&store, "compensated:4", "abd", 4), calibrated);
    assert_ptr_not_equal(table_store_row(&store, "compensated:4", "abc", 5), calibrated);
    table_store_deinit(&store);
    unlink(path);
}

static void check_refused(const char *text, const char *model, int code, const char *expected) {
    TableStore store = { 0 };
    ErrText err = { 0 };

    if (text)
        write_file(path, text);
    assert_int_equal(table_store_open(&store, path, model, &err), code);
    if (!strstr(err.text, expected))
        fail_msg("'%s' is not in: %s", expected, err.text);
    assert_null(store.root);
}

static void test_table_store_refuses(void **state) {
    TableStore store = open_store();
    ErrText err = { 0 };

    assert_int_equal(table_store_save(&store, &err), 0);
    table_store_deinit(&store);
    check_refused(NULL, other, -EEXIST, "another model (a.gguf)");
    check_refused("{", source, -EEXIST, "not the results of a quant-table");
    check_refused("[]", source, -EEXIST, "not the results");
    check_refused("{\"format\": 2, \"source\": {\"file\": \"a\", \"sha256\": \"b\"}, \"rows\": []}", source, -EEXIST,
                  "not the results");
    check_refused("{\"format\": 1, \"source\": {\"file\": \"a\", \"sha256\": \"b\"}, \"rows\": [{}]}", source, -EEXIST,
                  "not the results");
    check_refused("{\"format\": 1, \"source\": {\"file\": \"a\", \"sha256\": \"b\"}, \"rows\": []}", source, -EEXIST,
                  "another model (a)");
    check_refused(NULL, "/nonexistent.gguf", -ENOENT, "/nonexistent.gguf");
    unlink(path);
}

static void test_table_store_cannot_write(void **state) {
    TableStore store = { 0 };
    ErrText err = { 0 };
    char bad[96];

    snprintf(bad, sizeof(bad), "%s/none/table.json", folder);
    assert_int_equal(table_store_open(&store, bad, source, &err), 0);
    assert_int_equal(table_store_save(&store, &err), -ENOENT);
    assert_non_null(strstr(err.text, bad));
    table_store_deinit(&store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_store_goes_on),
        cmocka_unit_test(test_table_store_rows),
        cmocka_unit_test(test_table_store_refuses),
        cmocka_unit_test(test_table_store_cannot_write),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
