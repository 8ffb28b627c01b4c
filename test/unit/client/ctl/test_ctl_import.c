// SPDX-License-Identifier: Apache-2.0
/* Tests of `coordgenctl model import`: the effect of its options on the package, and the --json output of failed
 * imports. */
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
#include "importer/calibration_text.h"
#include "model/package/package.h"
#include "test/unit/client/ctl/diverted.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/importer/import_fixture.h"

/* Runs the verb with its output in memory, and restores the streams. */
static int run_captured(Ctl *ctl, char **textp) {
    Diverted out, errors;
    int r;

    divert(&out, stdout);
    divert(&errors, stderr);
    r = ctl_verb_model_import.run(ctl);
    free(divert_end(&errors));
    *textp = divert_end(&out);
    return r;
}

enum {
    WORDS_MAX = 16
};

/* Runs the verb with these words; the caller frees its output. */
static int run(const char *const *words, size_t n, char **textp) {
    static const CtlVerb *const verbs[] = { &ctl_verb_model_import };
    char *copies[WORDS_MAX + 1] = { NULL };
    bool help, version;
    Ctl ctl = { .signal_fd = -1 };
    int status;

    assert_true(n <= WORDS_MAX);
    for (size_t i = 0; i < n; i++)
        assert_non_null(copies[i] = strdup(words[i]));
    assert_int_equal(ctl_parse(&ctl, (int)n, copies, verbs, 1, &help, &version), 0);
    status = run_captured(&ctl, textp);
    if (ctl.signal_fd >= 0)
        close(ctl.signal_fd);
    free(ctl.values);
    free(ctl.args);
    for (size_t i = 0; i < n; i++)
        free(copies[i]);
    return status;
}

/* Imports with one more option, and expects an error; --calibration comes with a recipe that uses it. The last of two
 * recipes counts. */
static void expect(const char *source, const char *out, const char *option, int exit_status, const char *code,
                   const char *field) {
    const bool is_calibrated = option && !strncmp(option, "--calibration", strlen("--calibration"));
    const char *words[] = { "coordgenctl", "model", "import", "--json=short",
                            source,        "-o",    out,      is_calibrated ? "--recipe=edgeflow" : "--recipe=int8",
                            option };
    json_t *object, *error;
    char *text = NULL;

    assert_int_equal(run(words, ARRAY_LEN(words) - !option, &text), exit_status);
    object = json_loads(text, 0, NULL);
    error = json_object_get(object, "error");
    assert_non_null(error);
    assert_string_equal(json_string_value(json_object_get(error, "code")), code);
    assert_string_equal(json_string_value(json_object_get(error, "field")), field);
    json_decref(object);
    free(text);
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
    expect(source, out, "--budget-bytes=1000", CTL_EXIT_USAGE, "invalid-argument", "budget-bytes");
    expect(source, out, "--recipe=int8:budget-bytes=1000", CTL_EXIT_USAGE, "invalid-argument", "recipe");
    expect(source, source, NULL, CTL_EXIT_USAGE, "invalid-argument", "output");
    test_write_file(fixture->folder, "notes.txt", "precious", 8);
    snprintf(other, sizeof(other), "%s/notes.txt", fixture->folder);
    expect(source, other, NULL, CTL_EXIT_USAGE, "invalid-argument", "output");
    expect(other, out, NULL, CTL_EXIT_FAILED, "model-corrupt", "");
    snprintf(other, sizeof(other), "%s/none.gguf", fixture->folder);
    expect(other, out, NULL, CTL_EXIT_FAILED, "model-not-found", "");
    snprintf(other, sizeof(other), "%s/none/out.cgm", fixture->folder);
    expect(source, other, NULL, CTL_EXIT_USAGE, "invalid-argument", "");
    /* A text that is too short, and a missing file. */
    snprintf(calibration, sizeof(calibration), "--calibration=%s/notes.txt", fixture->folder);
    expect(source, out, calibration, CTL_EXIT_USAGE, "invalid-argument", "calibration");
    snprintf(calibration, sizeof(calibration), "--calibration=%s", fixture->folder);
    expect(source, out, calibration, CTL_EXIT_USAGE, "invalid-argument", "calibration");
}

/* The signal is pending when the import first checks for it. */
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

/* Invalid and out-of-range decimal numbers are refused without making a package. */
static void test_ctl_import_refuses_numbers(void **state) {
    static const char *const options[] = {
        "--bits=nan",
        "--bits=inf",
        "--bits=-4",
        "--bits=0x4",
        "--bits=0",
        "--bits=8.5",
        "--bits=",
        "--recipe=int8:embedding-bits=0x4",
        "--recipe=int8:embedding-bits=9",
        "--budget-bytes=0x100000",
    };
    ImportFixture *fixture = *state;

    make_source(fixture);
    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        const char *const words[] = {
            "coordgenctl", "model", "import", fixture->source, "-o", fixture->out, options[i]
        };
        char *text = NULL;

        if (run(words, ARRAY_LEN(words), &text) != CTL_EXIT_USAGE)
            fail_msg("%s", options[i]);
        assert_int_equal(test_folder_count(fixture->folder), 1);
        free(text);
    }
}

/* --- effects of the options
 * ----------------------------------------------------------------------------------------- */

#define INT8 "--recipe=int8"
#define TEXT " --calibration=text.txt" /* in the folder */
#define MOBILE "--profile=mobile" TEXT
#define EDGEFLOW "--recipe=edgeflow" TEXT
#define COMPENSATED "--recipe=compensated" TEXT

/* Options, further options, and their effect on the package's description of itself (describe()). */
static const struct {
    const char *usual, *more, *change;
} rows[] = {
    { INT8, EDGEFLOW,
      "-recipe=int8 -bits=8 -rotated -rotation -scale-search "
      "+recipe=edgeflow +bits=5 +calibrated +smoothing +tensor-allocation" },
    { INT8, COMPENSATED,
      "-recipe=int8 -bits=8 +recipe=compensated +bits=5 "
      "+calibrated +model-allocation +normal-grid +compensation +descent" },
    { COMPENSATED, "--recipe=compact", "-recipe=compensated -bits=5 +recipe=compact +bits=6" },
    { INT8, "--bits=4", "-bits=8 +bits=4" },
    { INT8, "--bits=4.5", "-bits=8 +bits=4.5 +tensor-allocation" },
    { INT8, "--recipe=int8:4.5", "-bits=8 +bits=4.5 +tensor-allocation" },
    { INT8, "--recipe=int8:embedding-bits=6", "-embedding-bits=8 +embedding-bits=6" },
    { INT8, "--budget-bytes=1G", "+budget-bytes=1073741824 +tensor-allocation" },
    { INT8, "--recipe=int8:budget-bytes=1073741824", "+budget-bytes=1073741824 +tensor-allocation" },
    { COMPENSATED, "--budget-bytes=1G", "-bits=5 +bits=8 +budget-bytes=1073741824 +gain-correction" },
    { COMPENSATED, "--recipe=compensated:-gain-correction --budget-bytes=1G",
      "-bits=5 +bits=8 +budget-bytes=1073741824" },
    { INT8, "--bits=4 --budget-bytes=1G", "-bits=8 +bits=4 +budget-bytes=1073741824" },
    { INT8, "--recipe=int8:allocation=tensor", "+tensor-allocation" },
    { INT8, "--recipe=int8:grid=normal", "+normal-grid" },
    { INT8, "--recipe=int8:-rotation", "-rotated -rotation" },
    { INT8, "--recipe=int8:-scale-search", "-scale-search" },
    { INT8, MOBILE, "+calibrated +hot-channels=3 +prune-outliers=85 +static-activations +shadow-outliers" },
    { INT8, "--recipe=int8:+static-activations" TEXT,
      "+calibrated +hot-channels=3 +prune-outliers=85 +static-activations +shadow-outliers" },
    { MOBILE, "--recipe=int8:prune-outliers=100", "-prune-outliers=85 -shadow-outliers +prune-outliers=100" },
    { MOBILE, "--recipe=int8:prune-outliers=0", "-prune-outliers=85 +prune-outliers=0" },
    { MOBILE, "--recipe=int8:hot-channels=0", "-hot-channels=3 +hot-channels=0" },
    /* Other options that need a text stay, because they are refused without one. */
    { EDGEFLOW " --profile=mobile", "--recipe=edgeflow:-static-activations",
      "-hot-channels=3 -prune-outliers=85 -static-activations -shadow-outliers" },
    { EDGEFLOW, "--recipe=edgeflow:-smoothing:allocation=model", "-smoothing -tensor-allocation +model-allocation" },
    { EDGEFLOW, "--recipe=edgeflow:allocation=uniform", "-tensor-allocation" },
    { EDGEFLOW, "--recipe=edgeflow:allocation=model", "-tensor-allocation +model-allocation" },
    { COMPENSATED, "--recipe=compensated:grid=uniform", "-normal-grid" },
    { COMPENSATED, "--recipe=compensated:-rotation", "-rotated -rotation" },
    { COMPENSATED, "--recipe=compensated:-scale-search", "-scale-search" },
    { COMPENSATED, "--recipe=compensated:-compensation", "-compensation" },
    { COMPENSATED, "--recipe=compensated:-descent", "-descent" },
    { COMPENSATED, "--bits=4.9", "-bits=5 +bits=4.9 +gain-correction" },
    { COMPENSATED " --bits=4", "--recipe=compensated:-gain-correction", "-gain-correction" },
    { COMPENSATED " --bits=4", "--recipe=compensated:-compensation:-descent",
      "-compensation -descent -gain-correction" },
};

/* Appends words separated by blanks to the n existing ones; --calibration gets the folder. */
static size_t add_words(const char **words, size_t n, char *text, const char *calibration) {
    for (char *word; (word = strsep(&text, " ")); n++) {
        assert_true(n < WORDS_MAX);
        words[n] = strcmp(word, &TEXT[1]) ? word : calibration;
    }
    return n;
}

/* Writes the package's description of how it was made: words, each with a blank after it. The text is the given one. */
static void describe(const ImportFixture *fixture, StrBuf *text) {
    _cleanup_(package_freep) Package *package = NULL;
    char path[300], sha256[SHA256_HEX_BYTES];
    const PackageQuant *quant;
    ErrText err = { 0 };

    if (package_open(&package, fixture->out, &err))
        fail_msg("%s", err.text);
    quant = package_quant(package);
    str_buf_addf(text, "recipe=%s bits=%g embedding-bits=%u ", quant->recipe, (double)quant->bits_asked,
                 quant->embedding_bits);
    if (quant->budget_bytes)
        str_buf_addf(text, "budget-bytes=%llu ", (unsigned long long)quant->budget_bytes);
    if (quant->rotated)
        str_buf_add(text, "rotated ");
    if (*quant->calibration_sha256) {
        snprintf(path, sizeof(path), "%s/text.txt", fixture->folder);
        import_fixture_hash(path, sha256);
        assert_string_equal(quant->calibration_sha256, sha256);
        str_buf_add(text, "calibrated ");
    }
    if (quant->static_activations)
        str_buf_addf(text, "hot-channels=%g prune-outliers=%g ", (double)quant->hot_percent,
                     (double)quant->prune_percent);
    for (size_t i = 0; i < quant->n_steps; i++)
        str_buf_addf(text, "%.*s ", (int)quant->steps[i].len_bytes, quant->steps[i].data);
    assert_false(str_buf_failed(text));
}

static bool has_word(const char *text, const char *word, size_t len_bytes) {
    for (; *text; text += strcspn(text, " ") + 1)
        if (strcspn(text, " ") == len_bytes && !memcmp(text, word, len_bytes))
            return true;
    return false;
}

/* Adds the words of one description that the other lacks, each with the sign. */
static void add_missing(StrBuf *change, char sign, const char *of, const char *in) {
    for (size_t n; *of; of += n + 1) {
        n = strcspn(of, " ");
        if (!has_word(in, of, n))
            str_buf_addf(change, "%s%c%.*s", change->len_bytes ? " " : "", sign, (int)n, of);
    }
}

static void import_described(const ImportFixture *fixture, const char *usual, const char *more, StrBuf *text) {
    const char *words[WORDS_MAX] = { "coordgenctl",   "model", "import",    "--json=short",
                                     fixture->source, "-o",    fixture->out };
    char calibration[300], options[200], *printed = NULL;
    size_t n = 7;

    snprintf(calibration, sizeof(calibration), "--calibration=%s/text.txt", fixture->folder);
    snprintf(options, sizeof(options), "%s%s%s", usual, *more ? " " : "", more);
    n = add_words(words, n, options, calibration);
    if (run(words, n, &printed) != CTL_EXIT_OK)
        fail_msg("%s %s: %s", usual, more, printed);
    free(printed);
    describe(fixture, text);
}

/* Each option changes exactly what it should in the package. */
static void test_ctl_import_options_do_what_they_say(void **state) {
    _cleanup_(str_buf_deinit) StrBuf before = STR_BUF_NULL;
    ImportFixture *fixture = *state;
    size_t len_bytes;

    if (patience_is_short()) /* two dozen whole imports, which test_importer and test_import_settings have apart */
        skip();
    make_source(fixture);
    test_write_file(fixture->folder, "text.txt", calibration_text(&len_bytes), 2500);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_(str_buf_deinit) StrBuf after = STR_BUF_NULL, change = STR_BUF_NULL;

        if (!i || strcmp(rows[i].usual, rows[i - 1].usual)) {
            str_buf_deinit(&before);
            import_described(fixture, rows[i].usual, "", &before);
        }
        import_described(fixture, rows[i].usual, rows[i].more, &after);
        add_missing(&change, '-', before.data, after.data);
        add_missing(&change, '+', after.data, before.data);
        if (strcmp(change.data ? change.data : "", rows[i].change))
            fail_msg("%s %s: '%s', expected '%s'", rows[i].usual, rows[i].more, change.data ? change.data : "",
                     rows[i].change);
    }
}

static bool is_option_of(const char *words, const char *name) {
    char option[64];
    const char *at;

    snprintf(option, sizeof(option), "--%s", name);
    at = strstr(words, option);
    return at && !strcspn(at + strlen(option), "= ");
}

/* Every option must have a row above. */
static void test_ctl_import_options_are_all_in_the_table(void **state) {
    static const char others[] = "--output --threads --discard"; /* these don't change the package */

    for (size_t i = 0; i < ctl_verb_model_import.n_options; i++) {
        const char *name = ctl_verb_model_import.options[i].name;
        bool found = is_option_of(others, name);

        for (size_t j = 0; !found && j < ARRAY_LEN(rows); j++)
            found = is_option_of(rows[j].more, name);
        if (!found)
            fail_msg("--%s", name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_ctl_import_errors_have_codes),
        WITH_FOLDER(test_ctl_import_cancelled_has_a_code),
        WITH_FOLDER(test_ctl_import_full_disk_has_a_code),
        WITH_FOLDER(test_ctl_import_refuses_numbers),
        WITH_FOLDER(test_ctl_import_options_do_what_they_say),
        cmocka_unit_test(test_ctl_import_options_are_all_in_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
