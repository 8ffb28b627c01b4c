// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/paths.h"
#include "base/memory/map_guard.h"
#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"
#include "importer/importer.h"
#include "importer/methods/import_method.h"
#include "model/model_dir.h"
#include "quant/format/recipe_spec.h"

typedef struct ImportWatch {
    Ctl *ctl;
    _Atomic bool cancelled;
    ImportStage stage;
    uint64_t stage_start_ns;
    uint64_t stage_start_bytes; /* of a stage; a resumed import begins in the middle */
    uint64_t drawn_ns;
    bool told_to_wait;
} ImportWatch;

enum {
    REDRAW_NS = 100 * 1000 * 1000
};

static void show_progress(ImportWatch *watch, const ImportProgress *progress, uint64_t now_ns) {
    double seconds = (double)(now_ns - watch->stage_start_ns) / 1e9, eta = -1;
    uint64_t moved_bytes = progress->done_bytes - watch->stage_start_bytes;
    char what[64];

    if (moved_bytes && progress->total_bytes >= progress->done_bytes && seconds > 0.5)
        eta = seconds * (double)(progress->total_bytes - progress->done_bytes) / (double)moved_bytes;
    snprintf(what, sizeof(what), "%s", import_stage_name(progress->stage));
    if (progress->stage == IMPORT_STAGE_CONVERT)
        snprintf(what, sizeof(what), "layer %zu of %zu",
                 progress->done_layers < progress->n_layers ? progress->done_layers + 1 : progress->n_layers,
                 progress->n_layers);
    ctl_progress(watch->ctl, what,
                 progress->total_bytes ? (double)progress->done_bytes / (double)progress->total_bytes : 0, eta);
}

/* Tells that another import must end first, on a terminal and in a log. */
static void tell_to_wait(ImportWatch *watch, int pid) {
    if (watch->told_to_wait || watch->ctl->quiet)
        return;
    watch->told_to_wait = true;
    ctl_progress_clear(watch->ctl);
    if (pid)
        fprintf(stderr, "coordgenctl: process %d is making this package: waiting for it\n", pid);
    else
        fputs("coordgenctl: another import is making this package: waiting for it\n", stderr);
}

static void import_progress(void *arg, const ImportProgress *progress) {
    ImportWatch *watch = arg;
    uint64_t now_ns = clock_now_ns();

    if (ctl_interrupted(watch->ctl))
        atomic_store(&watch->cancelled, true);
    if (progress->stage == IMPORT_STAGE_WAIT) {
        tell_to_wait(watch, progress->other_pid);
        return;
    }
    if (progress->stage != watch->stage || !watch->stage_start_ns) {
        watch->stage = progress->stage;
        watch->stage_start_ns = now_ns;
        watch->stage_start_bytes = progress->done_bytes;
        watch->drawn_ns = 0;
    }
    if (now_ns - watch->drawn_ns < REDRAW_NS)
        return;
    watch->drawn_ns = now_ns;
    show_progress(watch, progress, now_ns);
}

static int print_json(Ctl *ctl, const ImportReport *report) {
    json_t *object = json_object();

    ctl_json_set(object, "path", ctl_json_text(report->path, strlen(report->path)));
    ctl_json_set(object, "already_imported", json_boolean(report->already_imported));
    ctl_json_set(object, "source_sha256", json_string(report->source_sha256));
    ctl_json_set(object, "source_bytes", json_integer((json_int_t)report->source_bytes));
    ctl_json_set(object, "package_bytes", json_integer((json_int_t)report->package_bytes));
    ctl_json_set(object, "recipe", json_string(report->recipe));
    ctl_json_set(object, "bits", json_real(report->bits));
    ctl_json_set(object, "bits_asked", json_real(report->bits_asked));
    ctl_json_set(object, "embedding_bits", json_integer(report->embedding_bits));
    if (report->n_operators) {
        ctl_json_set(object, "operators", json_integer((json_int_t)report->n_operators));
        ctl_json_set(object, "operators_with_shadow", json_integer((json_int_t)report->n_shadows));
        ctl_json_set(object, "hot_channels", json_integer((json_int_t)report->n_hot));
        ctl_json_set(object, "shadow_channels", json_integer((json_int_t)report->n_shadow_inputs));
    }
    ctl_json_set(object, "layers", json_integer((json_int_t)report->n_layers));
    ctl_json_set(object, "resumed_layers", json_integer((json_int_t)report->resumed_layers));
    ctl_json_set(object, "peak_memory_bytes", json_integer((json_int_t)report->peak_bytes));
    ctl_json_set(object, "seconds", json_real(report->seconds));
    return ctl_json_print(ctl, object);
}

/* Makes a package that root imports readable for the service's user, whatever root's umask is. The owner of a folder
 * may have made links in it: no link is followed, and only files of root are changed. */
static void share_with_service(const char *path, const char *model_dir) {
    char parent[PATH_MAX];
    const char *const paths[] = { path, model_dir, parent };

    if (geteuid() || strcmp(model_dir, PATH_MODEL_DIR))
        return;
    snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(model_dir, '/') - model_dir), model_dir);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        _cleanup_(closep) int fd = open(paths[i], O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid || !(S_ISDIR(st.st_mode) || st.st_nlink == 1))
            continue;
        if (fchmod(fd, (st.st_mode & 07777) | (S_ISDIR(st.st_mode) ? 0555 : 0444)) < 0)
            fprintf(stderr, "coordgenctl: %s: %s: the service may not be able to read it\n", paths[i], strerror(errno));
    }
}

static int print_report(Ctl *ctl, const ImportReport *report, const char *model_dir) {
    char source[32], package[32], peak[32], time_text[32];

    if (ctl->json)
        return print_json(ctl, report);
    ctl_put_text(stdout, report->path, ctl->out_tty);
    putchar('\n');
    if (ctl->quiet)
        return CTL_EXIT_OK;
    if (report->already_imported)
        fputs("Already imported: nothing was written.\n", stderr);
    else
        fprintf(stderr, "Imported %s as %s in %s: recipe %s, %.4g bits a weight, embeddings %u, peak memory %s.\n",
                ctl_bytes_text(source, sizeof(source), report->source_bytes),
                ctl_bytes_text(package, sizeof(package), report->package_bytes),
                ctl_duration_text(time_text, sizeof(time_text), (uint64_t)(report->seconds * 1e6)), report->recipe,
                report->bits, report->embedding_bits, ctl_bytes_text(peak, sizeof(peak), report->peak_bytes));
    if (report->n_operators)
        fprintf(stderr, "Static activations: outliers of %zu of %zu operators are kept, of %zu inputs %zu are hot.\n",
                report->n_shadows, report->n_operators, report->n_shadow_inputs, report->n_hot);
    if (report->resumed_layers)
        fprintf(stderr, "%zu of %zu layers were finished before.\n", report->resumed_layers, report->n_layers);
    ctl_hint_imported(ctl, report->path, model_dir);
    return CTL_EXIT_OK;
}

/* Takes the recipe of the command line. Returns false after a message. */
static bool take_recipe(const Ctl *ctl, QuantRecipe *recipe) {
    RecipeSpec spec = { .text = ctl_text(ctl, "recipe", NULL), .profile = ctl_text(ctl, "profile", NULL) };
    double bits = 0;
    ErrText err;

    if (!ctl_real(ctl, "bits", &bits) || !ctl_byte_count(ctl, "budget-bytes", &spec.budget_bytes))
        return false;
    if (ctl_has(ctl, "bits"))
        spec.bits = &bits;
    if (recipe_spec_take(recipe, &spec, &err)) {
        ctl_usage_error(ctl, "%s", err.text);
        return false;
    }
    if (ctl_has(ctl, "calibration") && !quant_recipe_needs_calibration(recipe)) {
        ctl_usage_error(ctl, "--calibration: recipe %s as it is set looks at no text: leave it out", recipe->name);
        return false;
    }
    return true;
}

/* Returns the code that a reply of the service would have, and the option at fault. */
static int error_code(const Ctl *ctl, int r, const char **fieldp) {
    switch (r) {
    case IMPORT_E_UNSUPPORTED:
    case IMPORT_E_CORRUPT:
        return COORDGEN_E_MODEL_CORRUPT;
    case IMPORT_E_CANCELLED:
        return COORDGEN_E_CANCELLED;
    case IMPORT_E_NO_SPACE:
    case IMPORT_E_CHANGED:
        return COORDGEN_E_MODEL_NOT_READY;
    case IMPORT_E_EXISTS:
        *fieldp = "output";
        return COORDGEN_E_INVALID_ARGUMENT;
    case IMPORT_E_BUDGET:
        *fieldp = ctl_has(ctl, "budget-bytes") ? "budget-bytes" : "recipe";
        return COORDGEN_E_INVALID_ARGUMENT;
    case IMPORT_E_CALIBRATION:
        *fieldp = "calibration";
        return COORDGEN_E_INVALID_ARGUMENT;
    case -EINVAL:
        return COORDGEN_E_INVALID_ARGUMENT;
    case -ENOENT: /* the source, or a folder or text that an option names */
        return access(ctl->args[0], F_OK) ? COORDGEN_E_MODEL_NOT_FOUND : COORDGEN_E_INVALID_ARGUMENT;
    case -EACCES:
    case -EPERM:
        return COORDGEN_E_DENIED;
    case -EBUSY:
        return COORDGEN_E_MODEL_IN_USE;
    case -ENOMEM:
        return COORDGEN_E_NO_MEMORY;
    default:
        return COORDGEN_E_INTERNAL;
    }
}

static int import_failed(Ctl *ctl, int r, const ErrText *err) {
    const char *hint = r == IMPORT_E_NO_SPACE ? " or name another place with -o" : "", *field = "";
    int code = error_code(ctl, r, &field);
    char text[sizeof(err->text) + 64];

    snprintf(text, sizeof(text), "%s%s", err->text, hint);
    code = ctl_failed(ctl, code, text, field, 0);
    return r == IMPORT_E_CANCELLED ? CTL_EXIT_INTERRUPTED : code;
}

static int discard(Ctl *ctl, const ImportOptions *options) {
    ErrText err = { 0 };
    char path[PATH_MAX];
    bool found = false;
    json_t *object;
    int r;

    r = import_discard(ctl->args[0], ctl_text(ctl, "output", NULL), options, path, &found, &err);
    ctl_progress_clear(ctl);
    if (r)
        return import_failed(ctl, r, &err);
    if (ctl->json) {
        object = json_object();
        ctl_json_set(object, "path", ctl_json_text(path, strlen(path)));
        ctl_json_set(object, "discarded", json_boolean(found));
        return ctl_json_print(ctl, object);
    }
    if (!ctl->quiet)
        fputs(found ? "The finished layers are removed.\n" : "There were no finished layers.\n", stderr);
    return CTL_EXIT_OK;
}

int ctl_import_file(Ctl *ctl) {
    ImportWatch watch = { .ctl = ctl };
    ImportOptions options = import_options_default();
    ImportReport report = { 0 };
    char model_dir[PATH_MAX];
    uint64_t n_threads = 0;
    ErrText err = { 0 };
    int r;

    if (!ctl_number(ctl, "threads", 1024, &n_threads) || !take_recipe(ctl, &options.recipe))
        return CTL_EXIT_USAGE;
    r = ctl_interrupts_open(ctl);
    if (r)
        return r;
    if (quant_recipe_needs_calibration(&options.recipe))
        options.method = &import_method_calibrated;
    options.calibration_path = ctl_text(ctl, "calibration", NULL);
    options.n_threads = (unsigned int)n_threads;
    options.progress = import_progress;
    options.progress_arg = &watch;
    options.cancelled = &watch.cancelled;
    if (!ctl_has(ctl, "output") && !model_dir_default(false, model_dir, sizeof(model_dir)))
        options.model_dir = model_dir;
    if (ctl_has(ctl, "discard"))
        return discard(ctl, &options);
    map_guard_install(); /* import_run() checks the marks of maps */
    r = import_run(ctl->args[0], ctl_text(ctl, "output", NULL), &options, &report, &err);
    ctl_progress_clear(ctl);
    if (r)
        return import_failed(ctl, r, &err);
    if (options.model_dir)
        share_with_service(report.path, options.model_dir);
    return print_report(ctl, &report, options.model_dir);
}

static const Option import_options[] = {
    { "output", 'o', "PATH", "of the package (default: named after the source, in the folder of models)" },
    { "bits", 'b', "B", "average bits of a weight in the layers, 1 to 8, e.g. 4.5 (default: the recipe's)" },
    { "budget-bytes", 0, "N", "at most so large a package (K, M, G): as many bits as fit, --bits at most" },
    { "recipe", 0, "SPEC", "NAME[:BITS][:SWITCH...], see below: int8 (default), compact, ..." },
    { "profile", 0, "NAME", "native (default), or mobile: static activations, as NPUs need them" },
    { "calibration", 0, "FILE", "a text like those that the model will see (default: coordgen's own)" },
    { "threads", 0, "N", "0: one for every processor (default)" },
    { "discard", 0, NULL, "remove what a cancelled import with these settings has kept, and import nothing" },
};

const CtlVerb ctl_verb_model_import = {
    .group = "model",
    .name = "import",
    .arguments = "FILE.gguf",
    .summary = "make a model package of a GGUF file",
    .more = "Works without the service; prints the path of the package. Without --output it goes to\n"
            "where the service looks for models: root's to " PATH_MODEL_DIR ", a user's to\n"
            "coordgen/models in XDG_DATA_HOME or ~/.local/share. A file that was imported before is\n"
            "recognised. Ctrl-C cancels and keeps the layers that are finished: the same\n"
            "command goes on after them, also when the import was killed.\n"
            "\nA recipe is int8 (rounded, at 8 bits), edgeflow, compensated (slow and best, at 5) or compact\n"
            "(the same at 6), then its bits, then what is to differ: + or - rotation, scale-search, smoothing,\n"
            "compensation, descent, gain-correction or static-activations, or allocation=HOW, grid=KIND,\n"
            "embedding-bits=N, budget-bytes=N, hot-channels=PERCENT, prune-outliers=PERCENT; see\n"
            "coordgenctl(1).\n"
            "\nExamples\n"
            "  coordgenctl model import model.gguf\n"
            "  coordgenctl model import model.gguf --bits 4.5\n"
            "  coordgenctl model import model.gguf --recipe compensated:4:embedding-bits=6\n"
            "  sudo coordgenctl model import model.gguf\n",
    .options = import_options,
    .n_options = ARRAY_LEN(import_options),
    .n_args_min = 1,
    .n_args_max = 1,
    .run = ctl_import_file,
};
