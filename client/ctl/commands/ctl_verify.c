// SPDX-License-Identifier: Apache-2.0
/* model verify: checks that a package is as it was written, and measures whether quantization harmed the model. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>

#include "base/files/paths.h"
#include "base/memory/map_guard.h"
#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"
#include "importer/importer.h"
#include "model/package/package.h"
#include "model/package/package_checksum.h"
#include "importer/check/quantization_check.h"

static void show_compared(void *arg, uint64_t done_bytes, uint64_t total_bytes) {
    ctl_progress(arg, "verifying", total_bytes ? (double)done_bytes / (double)total_bytes : 1, -1);
}

static void show_import(void *arg, const ImportProgress *progress) {
    ctl_progress(arg, import_stage_name(progress->stage),
                 progress->total_bytes ? (double)progress->done_bytes / (double)progress->total_bytes : 0, -1);
}

static void show_window(void *arg, size_t window, size_t n_windows, double nats_so_far) {
    (void)nats_so_far;
    ctl_progress(arg, "beside the source", (double)(window + 1) / (double)n_windows, -1);
}

static int error_code(int r) {
    switch (r) {
    case -EACCES:
    case -EPERM:
        return COORDGEN_E_DENIED;
    case -ENOENT:
        return COORDGEN_E_MODEL_NOT_FOUND;
    case -ENOMEM:
        return COORDGEN_E_NO_MEMORY;
    default:
        return COORDGEN_E_MODEL_CORRUPT;
    }
}

/* A package, its source, and the results. */
typedef struct Verified {
    Ctl *ctl;
    char package[PATH_MAX];
    const char *source; /* the .gguf to compare with; NULL: none */
    Divergence divergence;
    ErrText err;
} Verified;

static int verify_failed(Verified *verified, int code, const char *field) {
    ctl_progress_clear(verified->ctl);
    return ctl_failed(verified->ctl, code, verified->err.text, field, 0);
}

static int compare_checksums(Verified *verified) {
    const char *path = verified->package;
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    int r;

    if (fd < 0) {
        r = -errno;
        err_set(&verified->err, r, "%s: %s", path, strerror(errno));
    } else {
        r = package_checksum_verify(fd, path, show_compared, verified->ctl, &verified->err);
    }
    return r ? verify_failed(verified, error_code(r), "model") : 0;
}

/* Finds the package that coordgend makes of the source without a named recipe. */
static int take_source(Verified *verified, const char *path) {
    ImportOptions options = import_options_default();
    _cleanup_(freep) ImportReport *report = calloc(1, sizeof(*report));
    int r;

    options.progress = show_import;
    options.progress_arg = verified->ctl;
    r = report ? import_run(path, NULL, &options, report, &verified->err)
               : err_set(&verified->err, -ENOMEM, "out of memory");
    if (r)
        return verify_failed(verified, error_code(r), "model");
    snprintf(verified->package, sizeof(verified->package), "%s", report->path);
    verified->source = path;
    return 0;
}

/* Refuses the source of another model, which would make the package look harmed. */
static int check_source(Verified *verified) {
    _cleanup_(package_freep) Package *package = NULL;
    ImportOptions options = import_options_default();
    char sha256[SHA256_HEX_BYTES];
    int r = package_open(&package, verified->package, &verified->err);

    if (r)
        return verify_failed(verified, error_code(r), "model");
    options.progress = show_import;
    options.progress_arg = verified->ctl;
    r = import_source_sha256(verified->source, &options, sha256, &verified->err);
    if (!r && strcmp(sha256, package_source_sha256(package)))
        r = err_set(&verified->err, -EINVAL, "%s: the package was made of another file, whose SHA-256 is %s",
                    verified->source, package_source_sha256(package));
    return r ? verify_failed(verified, r == -EINVAL ? COORDGEN_E_INVALID_ARGUMENT : error_code(r), "source") : 0;
}

static int compare_with_source(Verified *verified, uint64_t n_windows) {
    const QuantizationCheckOptions options = {
        .package = verified->package,
        .source = verified->source,
        .text = ctl_text(verified->ctl, "text", NULL),
        .n_windows = (size_t)n_windows,
        .progress = show_window,
        .progress_arg = verified->ctl,
    };
    const int r = quantization_check(&verified->divergence, &options, &verified->err);

    if (!r)
        return 0;
    return verify_failed(verified, r == -EINVAL ? COORDGEN_E_INVALID_ARGUMENT : error_code(r),
                         r == -EINVAL || r == -ENOENT ? "text" : "model");
}

static int print_json(const Verified *verified) {
    const Divergence *divergence = &verified->divergence;
    json_t *object = json_object();

    ctl_json_set(object, "verified", ctl_json_text(verified->package, strlen(verified->package)));
    if (verified->source) {
        ctl_json_set(object, "source", ctl_json_text(verified->source, strlen(verified->source)));
        ctl_json_set(object, "harm", json_string(quantization_harm_name(quantization_harm_of(divergence->nats))));
        ctl_json_set(object, "tokens", json_integer((json_int_t)divergence->n_rows));
        ctl_json_set(object, "nats", json_real(divergence->nats));
        ctl_json_set(object, "same_top", json_real(divergence->same_top));
        ctl_json_set(object, "perplexity", json_real(exp(divergence->loss)));
        ctl_json_set(object, "source_perplexity", json_real(exp(divergence->other_loss)));
    }
    return ctl_json_print(verified->ctl, object);
}

static void print_text(const Verified *verified) {
    static const char *const says[] = {
        [QUANTIZATION_HARM_NONE] = "Quantization did no harm.",
        [QUANTIZATION_HARM_LITTLE] = "Quantization did little harm.",
        [QUANTIZATION_HARM_SOME] = "Quantization did harm: answers can be worse; import it with more bits.",
        [QUANTIZATION_HARM_MUCH] = "Quantization did much harm: import it with more bits or another recipe.",
    };
    const Divergence *divergence = &verified->divergence;
    const Ctl *ctl = verified->ctl;

    ctl_put_text(stdout, verified->package, ctl->out_tty);
    puts(": as it was written");
    if (!verified->source)
        return;
    printf("Beside the source in float32, over %zu tokens: perplexity %.4g, there %.4g; %.4f nats apart; the same most "
           "probable token for %.1f %%.\n",
           divergence->n_rows, exp(divergence->loss), exp(divergence->other_loss), divergence->nats,
           100 * divergence->same_top);
    puts(says[quantization_harm_of(divergence->nats)]);
}

static bool is_package(const char *path) {
    const size_t n = strlen(path);

    return n > 4 && !strcmp(path + n - 4, ".cgm");
}

static int verify_run(Ctl *ctl) {
    Verified verified = { .ctl = ctl, .source = ctl_text(ctl, "source", NULL) };
    const bool takes_source = !is_package(ctl->args[0]);
    uint64_t n_windows = QUANTIZATION_CHECK_N_WINDOWS;
    int r = 0;

    map_guard_install(); /* imports and engines check the marks of maps */
    if (!ctl_number(ctl, "windows", UINT32_MAX, &n_windows))
        return CTL_EXIT_USAGE;
    if (takes_source && verified.source)
        return ctl_usage_error(ctl, "--source: goes with a package; %s is a source itself", ctl->args[0]);
    if (!takes_source && !verified.source && (ctl_has(ctl, "text") || ctl_has(ctl, "windows")))
        return ctl_usage_error(ctl, "--text and --windows: need --source, what the package is compared with");
    if (takes_source)
        r = take_source(&verified, ctl->args[0]);
    else
        snprintf(verified.package, sizeof(verified.package), "%s", ctl->args[0]);
    if (!r)
        r = compare_checksums(&verified);
    if (!r && verified.source && !takes_source)
        r = check_source(&verified);
    if (!r && verified.source)
        r = compare_with_source(&verified, n_windows);
    if (r)
        return r;
    ctl_progress_clear(ctl);
    if (ctl->json)
        r = print_json(&verified);
    else
        print_text(&verified);
    if (!r && verified.source && quantization_harm_of(verified.divergence.nats) >= QUANTIZATION_HARM_SOME)
        r = CTL_EXIT_FAILED;
    return r;
}

static const Option verify_options[] = {
    { "source", 0, "FILE", "the .gguf that a package was made of: compare with it" },
    { "text", 0, "FILE", "on this text (default: one of coordgen's own)" },
    { "windows", 0, "N", "on the first N windows of 256 tokens of it (default: 2; 0: all)" },
};

const CtlVerb ctl_verb_model_verify = {
    .group = "model",
    .name = "verify",
    .arguments = "FILE",
    .summary = "compare a package with its checksums, and with its source",
    .more = "Works without the service. A package (.cgm) is read whole; one that is damaged is named with\n"
            "the layer that is, and has to be imported again. With --source, or for a .gguf, which is\n"
            "imported first, a short text is computed by the package and by the source in float32, and\n"
            "it is said whether quantization did harm; the exit status is 1 if it did.\n"
            "\nExamples\n"
            "  coordgenctl model verify " PATH_MODEL_DIR "/smollm2-135m.cgm\n"
            "  coordgenctl model verify ./smollm2-135m.gguf\n",
    .options = verify_options,
    .n_options = ARRAY_LEN(verify_options),
    .n_args_min = 1,
    .n_args_max = 1,
    .run = verify_run,
};
