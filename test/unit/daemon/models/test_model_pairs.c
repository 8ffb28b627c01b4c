// SPDX-License-Identifier: Apache-2.0
/* The stored pairs of models: what survives a restart, which files are set aside, and the order of precedence. */
#define _GNU_SOURCE
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files/file_io.h"
#include "base/log.h"
#include "daemon/models/model_pairs.h"

typedef struct Place {
    char dir[64]; /* a folder that does not exist at first */
    char path[128];
    ModelPairs pairs;
} Place;

static int setup(void **state) {
    Place *place = calloc(1, sizeof(*place));
    char folder[] = "/tmp/coordgen-pairs-XXXXXX";

    assert_non_null(place);
    assert_non_null(mkdtemp(folder));
    snprintf(place->dir, sizeof(place->dir), "%s/state", folder);
    snprintf(place->path, sizeof(place->path), "%s/" MODEL_PAIRS_FILE, place->dir);
    assert_int_equal(model_pairs_init(&place->pairs, place->dir), 0);
    *state = place;
    return 0;
}

static int teardown(void **state) {
    Place *place = *state;
    char command[128];

    model_pairs_deinit(&place->pairs);
    *strrchr(place->dir, '/') = 0;
    snprintf(command, sizeof(command), "rm -rf %s", place->dir);
    assert_int_equal(system(command), 0);
    free(place);
    return 0;
}

/* Reads the file again, as after a restart. */
static void reopen(Place *place) {
    model_pairs_deinit(&place->pairs);
    assert_int_equal(model_pairs_init(&place->pairs, place->dir), 0);
}

static void set(Place *place, const char *target, const char *draft) {
    ErrText err = { 0 };

    if (model_pairs_set(&place->pairs, target, draft, &err))
        fail_msg("%s: %s", target, err.text);
}

static void expect(const Place *place, const char *target, const char *draft) {
    const char *found = model_pairs_draft_of(&place->pairs, target);

    if (draft)
        assert_non_null(found);
    else
        assert_null(found);
    if (draft)
        assert_string_equal(found, draft);
}

static void test_model_pairs_are_kept(void **state) {
    Place *place = *state;
    const char *targets[4];

    expect(place, "big", NULL);
    set(place, "big", "small");
    set(place, "mid", "small");
    set(place, "mid", "tiny"); /* replaces the pair before */
    set(place, "größe =,1", "klein");
    set(place, "gone", "small");
    set(place, "gone", "");
    set(place, "never", "");
    reopen(place);
    expect(place, "big", "small");
    expect(place, "mid", "tiny");
    expect(place, "größe =,1", "klein");
    expect(place, "gone", NULL);
    assert_int_equal(place->pairs.stored.n, 3);
    assert_int_equal(model_pairs_targets_of(&place->pairs, "small", targets, ARRAY_LEN(targets)), 1);
    assert_string_equal(targets[0], "big");
    set(place, "big", "");
    reopen(place);
    expect(place, "big", NULL);
    expect(place, "mid", "tiny");
}

/* An administrator's pair overrides the setting, also a pair without a draft model. Lists tell both kinds apart. */
static void test_model_pairs_setting(void **state) {
    ModelPairEntry entries[2 * PAIRS_MAX], entry;
    Place *place = *state;
    const char *targets[1];

    assert_int_equal(model_pairs_take_setting(&place->pairs, "big=small, mid=small"), 0);
    expect(place, "big", "small");
    assert_int_equal(model_pairs_targets_of(&place->pairs, "small", targets, 1), 1);
    set(place, "big", "tiny");
    set(place, "mid", "");
    reopen(place);
    assert_int_equal(model_pairs_take_setting(&place->pairs, "big=small, mid=small, other=small"), 0);
    expect(place, "big", "tiny");
    expect(place, "mid", NULL);
    expect(place, "other", "small");
    assert_true(model_pairs_find(&place->pairs, "mid", &entry));
    assert_true(entry.is_stored);
    assert_string_equal(entry.draft, "");
    assert_false(model_pairs_find(&place->pairs, "small", &entry));
    assert_int_equal(model_pairs_list(&place->pairs, entries), 3);
    assert_string_equal(entries[2].target, "other");
    assert_false(entries[2].is_stored);
    assert_true(entries[0].is_stored);
    assert_int_equal(model_pairs_targets_of(&place->pairs, "small", targets, 1), 1);
    assert_string_equal(targets[0], "other");
    assert_int_equal(model_pairs_take_setting(&place->pairs, ""), 0);
    expect(place, "other", NULL);
    set(place, "mid", ""); /* without a setting for the target nothing is stored */
    assert_int_equal(place->pairs.stored.n, 1);
}

/* No pair of commands or settings makes a model draft for itself, also over several pairs. */
static void test_model_pairs_circles(void **state) {
    Place *place = *state;
    ErrText err;

    set(place, "a", "b");
    assert_int_equal(model_pairs_set(&place->pairs, "a", "a", &err), MODEL_PAIRS_E_CIRCLE);
    assert_int_equal(model_pairs_set(&place->pairs, "b", "a", &err), MODEL_PAIRS_E_CIRCLE);
    assert_non_null(strstr(err.text, "b would draft for itself"));
    assert_int_equal(model_pairs_take_setting(&place->pairs, "b=c, c=a, d=a"), 0);
    expect(place, "b", "c");
    expect(place, "c", NULL); /* a, b, c, a */
    expect(place, "d", "a");
    assert_int_equal(model_pairs_set(&place->pairs, "c", "d", &err), MODEL_PAIRS_E_CIRCLE);
    set(place, "b", "");
    set(place, "c", "d");
    reopen(place);
    expect(place, "c", "d");
}

static void write_text(const Place *place, const char *text, size_t len_bytes) {
    FILE *file;

    assert_int_equal(file_make_dirs(place->dir, NULL), 0);
    file = fopen(place->path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len_bytes, file), len_bytes);
    assert_int_equal(fclose(file), 0);
}

static bool is_there(const Place *place, const char *end) {
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s%s", place->path, end);
    return !access(path, F_OK);
}

static unsigned int n_told;

static void count_told(LogLevel level, const char *topic, const char *line) {
    n_told += strstr(line, "damaged, and set aside as ") != NULL;
}

/* Damage at any byte of the file is noticed. Each damaged file is set aside under a name of its own, and new pairs can
 * be stored. */
static void test_model_pairs_damage(void **state) {
    Place *place = *state;
    _cleanup_(freep) char *good = NULL;
    size_t len_bytes;
    ErrText err;

    set(place, "big", "small");
    set(place, "mid", "tiny");
    assert_int_equal(file_slurp(place->path, 1 << 20, &good, &len_bytes, &err), 0);
    n_told = 0;
    log_set_sink(count_told);
    for (size_t i = 0; i < len_bytes; i++) {
        _cleanup_(freep) char *bad = malloc(len_bytes);

        assert_non_null(bad);
        memcpy(bad, good, len_bytes);
        bad[i] ^= i % 2 ? 0x20 : 0x01;
        write_text(place, bad, len_bytes);
        reopen(place);
        if (place->pairs.stored.n || is_there(place, ""))
            fail_msg("byte %zu may be anything", i);
    }
    for (size_t cut_bytes = 0; cut_bytes < len_bytes; cut_bytes++) {
        write_text(place, good, cut_bytes);
        reopen(place);
        assert_int_equal(place->pairs.stored.n, 0);
        assert_false(is_there(place, ""));
    }
    log_set_sink(NULL);
    assert_int_equal(n_told, 2 * len_bytes);
    assert_true(is_there(place, ".corrupt-1"));
    assert_true(is_there(place, ".corrupt-99"));
    assert_false(is_there(place, ".corrupt-100"));
    expect(place, "big", NULL);
    set(place, "big", "other");
    reopen(place);
    expect(place, "big", "other");
    write_text(place, good, len_bytes);
    reopen(place);
    expect(place, "big", "small");
    expect(place, "mid", "tiny");
}

/* A file with a correct hash, but content that the service would not write, is set aside. */
static void test_model_pairs_forged(void **state) {
    static const char *const bodies[] = {
        "big\n",        "\tsmall\n", "big\tsmall\tmore\n", "big\tsm\x01ll\n", "big\t\xc3\n", "a\tb\na\tc\n",
        "a\tb\nb\ta\n", "a\ta\n",    "\nbig\tsmall\n",
    };
    Place *place = *state;
    char text[512], hex[SHA256_HEX_BYTES];

    for (size_t i = 0; i <= ARRAY_LEN(bodies); i++) {
        int n = snprintf(text, sizeof(text), "coordgen-model-pairs 1\n%s",
                         i < ARRAY_LEN(bodies) ? bodies[i] : "big\tsmall\nmid\t\n");

        sha256_hex(text, (size_t)n, hex);
        n += snprintf(text + n, sizeof(text) - (size_t)n, "sha256 %s\n", hex);
        write_text(place, text, (size_t)n);
        reopen(place);
        if (i < ARRAY_LEN(bodies) && (place->pairs.stored.n || is_there(place, "")))
            fail_msg("taken: %s", bodies[i]);
    }
    expect(place, "big", "small"); /* the last of the files is valid */
    expect(place, "mid", NULL);
    assert_int_equal(place->pairs.stored.n, 2);
}

/* A file that could not be read is not overwritten, and a write that fails changes no pair. */
static void test_model_pairs_no_place(void **state) {
    Place *place = *state;
    ErrText err;

    set(place, "big", "small");
    assert_int_equal(unlink(place->path), 0);
    assert_int_equal(rmdir(place->dir), 0);
    assert_int_equal(symlink("/nowhere/at/all", place->dir), 0);
    assert_int_equal(model_pairs_set(&place->pairs, "big", "tiny", &err), MODEL_PAIRS_E_STORE);
    expect(place, "big", "small");
    assert_int_equal(unlink(place->dir), 0);
    assert_int_equal(file_make_dirs(place->path, NULL), 0); /* a folder of the file's name */
    reopen(place);
    assert_int_equal(model_pairs_set(&place->pairs, "big", "tiny", &err), MODEL_PAIRS_E_STORE);
    assert_non_null(strstr(err.text, "could not be read"));
    assert_int_equal(rmdir(place->path), 0);
    model_pairs_deinit(&place->pairs);
    assert_int_equal(model_pairs_init(&place->pairs, ""), 0);
    assert_int_equal(model_pairs_set(&place->pairs, "big", "tiny", &err), MODEL_PAIRS_E_STORE);
    assert_non_null(strstr(err.text, "state-dir"));
    assert_int_equal(model_pairs_take_setting(&place->pairs, "big=small"), 0);
    expect(place, "big", "small");
}

static void test_model_pairs_full(void **state) {
    Place *place = *state;
    char name[16];
    ErrText err;

    for (int i = 0; i < PAIRS_MAX; i++) { /* filled in as from a file: 256 calls of fsync() would take long */
        snprintf(name, sizeof(name), "t%d", i);
        assert_int_equal(pair_list_set(&place->pairs.stored, name, "d"), 0);
    }
    assert_int_equal(model_pairs_set(&place->pairs, "more", "d", &err), MODEL_PAIRS_E_FULL);
    assert_non_null(strstr(err.text, "256"));
    set(place, "t5", "other");
    reopen(place);
    assert_int_equal(place->pairs.stored.n, PAIRS_MAX);
    expect(place, "t5", "other");
    expect(place, "t255", "d");
}

/* A killed writer leaves either the old pairs or the new ones; its temporary file is removed at the next start. */
static void test_model_pairs_kill(void **state) {
    Place *place = *state;
    char command[256];
    unsigned int seen = 0;

    set(place, "big", "0");
    for (unsigned int i = 0; i < 20; i++) {
        const char *draft;
        int status, written[2];
        char byte;
        pid_t child;

        assert_int_equal(pipe(written), 0);
        child = fork();
        assert_true(child >= 0);
        if (!child) {
            char name[16];

            for (unsigned int n = 0;; n++) {
                snprintf(name, sizeof(name), "%u", n % 1000);
                (void)model_pairs_set(&place->pairs, "big", name, NULL);
                if (n == 1)
                    (void)!write(written[1], "w", 1);
            }
        }
        /* Every second writer is killed after its first pair, however late a busy machine lets the writer begin. */
        if (i % 2)
            assert_int_equal(read(written[0], &byte, 1), 1);
        usleep(1000 + i * 700);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        close(written[0]);
        close(written[1]);
        reopen(place);
        draft = model_pairs_draft_of(&place->pairs, "big");
        assert_non_null(draft);
        seen += strcmp(draft, "0") != 0;
        assert_false(is_there(place, ".corrupt-1"));
    }
    assert_true(seen > 0);
    snprintf(command, sizeof(command), "test \"$(ls -A %s)\" = " MODEL_PAIRS_FILE, place->dir);
    assert_int_equal(system(command), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_model_pairs_are_kept), TEST(test_model_pairs_setting), TEST(test_model_pairs_circles),
        TEST(test_model_pairs_damage),   TEST(test_model_pairs_forged),  TEST(test_model_pairs_no_place),
        TEST(test_model_pairs_full),     TEST(test_model_pairs_kill),
    };

    return cmocka_run_group_tests_name("model_pairs", tests, NULL, NULL);
}
