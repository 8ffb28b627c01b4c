/* What `coordgenctl model import --json` says of imports that fail. */
#define _GNU_SOURCE
#undef NDEBUG
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"
#include "test/unit/import_fixture.h"

/* Runs the verb with its output in memory, and puts the streams back. */
static int run_captured(Ctl *ctl, char **textp) {
    FILE *out = stdout, *errors = stderr;
    size_t len_bytes;
    int r;

    stdout = open_memstream(textp, &len_bytes);
    stderr = fopen("/dev/null", "we");
    assert_true(stdout && stderr);
    r = ctl_verb_model_import.run(ctl);
    fclose(stdout);
    fclose(stderr);
    stdout = out;
    stderr = errors;
    return r;
}

/* Imports with one more option, and expects an error; --calibration comes with a recipe that looks at it. */
static void expect(const char *source, const char *out, const char *option, int exit_status, const char *code,
                   const char *field) {
    static const CtlVerb *const verbs[] = { &ctl_verb_model_import };
    const bool is_calibrated = option && !strncmp(option, "--calibration", strlen("--calibration"));
    const char *words[] = { "coordgenctl", "model", "import", "--json=short",
                            source,        "-o",    out,      is_calibrated ? "--recipe=edgeflow" : "--recipe=int8",
                            option };
    const size_t n = ARRAY_LEN(words) - !option;
    char *copies[ARRAY_LEN(words) + 1] = { NULL }, *text = NULL;
    json_t *object, *error;
    bool help, version;
    Ctl ctl = { .signal_fd = -1 };

    for (size_t i = 0; i < n; i++)
        assert_non_null(copies[i] = strdup(words[i]));
    assert_int_equal(ctl_parse(&ctl, (int)n, copies, verbs, 1, &help, &version), 0);
    assert_int_equal(run_captured(&ctl, &text), exit_status);
    object = json_loads(text, 0, NULL);
    error = json_object_get(object, "error");
    assert_non_null(error);
    assert_string_equal(json_string_value(json_object_get(error, "code")), code);
    assert_string_equal(json_string_value(json_object_get(error, "field")), field);
    json_decref(object);
    close(ctl.signal_fd);
    free(ctl.values);
    free(ctl.args);
    free(text);
    for (size_t i = 0; i < n; i++)
        free(copies[i]);
}

static void make_source(ImportFixture *fixture) {
    ModelMaker maker = MODEL_MAKER_DEFAULT;

    import_fixture_source(fixture, &maker);
    assert_int_equal(setenv("XDG_CACHE_HOME", fixture->cache, 1), 0);
}

static void test_ctl_import_errors_have_codes(void **state) {
    ImportFixture *fixture = *state;
    const char *source = fixture->source, *out = fixture->out;
    char other[400], calibration[400];

    make_source(fixture);
    expect(source, out, "--budget-bytes=1000", CTL_EXIT_FAILED, "invalid-argument", "budget-bytes");
    expect(source, source, NULL, CTL_EXIT_FAILED, "invalid-argument", "output");
    test_write_file(fixture->folder, "notes.txt", "precious", 8);
    snprintf(other, sizeof(other), "%s/notes.txt", fixture->folder);
    expect(source, other, NULL, CTL_EXIT_FAILED, "invalid-argument", "output");
    expect(other, out, NULL, CTL_EXIT_FAILED, "model-corrupt", "");
    snprintf(other, sizeof(other), "%s/none.gguf", fixture->folder);
    expect(other, out, NULL, CTL_EXIT_FAILED, "model-not-found", "");
    snprintf(other, sizeof(other), "%s/none/out.cgm", fixture->folder);
    expect(source, other, NULL, CTL_EXIT_FAILED, "invalid-argument", "");
    /* Too short, and no file. */
    snprintf(calibration, sizeof(calibration), "--calibration=%s/notes.txt", fixture->folder);
    expect(source, out, calibration, CTL_EXIT_FAILED, "invalid-argument", "calibration");
    snprintf(calibration, sizeof(calibration), "--calibration=%s", fixture->folder);
    expect(source, out, calibration, CTL_EXIT_FAILED, "invalid-argument", "calibration");
}

/* The signal is pending when the import begins to look for it. */
static void test_ctl_import_cancelled_has_a_code(void **state) {
    ImportFixture *fixture = *state;
    sigset_t set;

    make_source(fixture);
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    assert_int_equal(sigprocmask(SIG_BLOCK, &set, NULL), 0);
    assert_int_equal(kill(getpid(), SIGINT), 0);
    expect(fixture->source, fixture->out, NULL, CTL_EXIT_INTERRUPTED, "cancelled", "");
}

static void test_ctl_import_full_disk_has_a_code(void **state) {
    ImportFixture *fixture = *state;
    struct rlimit old, small = { 65536, 65536 };

    make_source(fixture);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    expect(fixture->source, fixture->out, NULL, CTL_EXIT_FAILED, "model-not-ready", "");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_ctl_import_errors_have_codes),
        WITH_FOLDER(test_ctl_import_cancelled_has_a_code),
        WITH_FOLDER(test_ctl_import_full_disk_has_a_code),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
