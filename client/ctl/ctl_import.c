#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"
#include "importer/importer.h"

typedef struct ImportWatch {
    Ctl *ctl;
    _Atomic bool cancelled;
    ImportStage stage;
    uint64_t stage_start_ns;
    uint64_t drawn_ns;
} ImportWatch;

enum {
    REDRAW_NS = 100 * 1000 * 1000
};

static void import_progress(void *arg, ImportStage stage, uint64_t done_bytes, uint64_t total_bytes) {
    ImportWatch *watch = arg;
    uint64_t now_ns = clock_now_ns();
    double seconds, eta = -1;

    if (ctl_interrupted(watch->ctl))
        atomic_store(&watch->cancelled, true);
    if (stage != watch->stage || !watch->stage_start_ns) {
        watch->stage = stage;
        watch->stage_start_ns = now_ns;
        watch->drawn_ns = 0;
    }
    if (now_ns - watch->drawn_ns < REDRAW_NS)
        return;
    watch->drawn_ns = now_ns;
    seconds = (double)(now_ns - watch->stage_start_ns) / 1e9;
    if (done_bytes && total_bytes >= done_bytes && seconds > 0.5)
        eta = seconds * (double)(total_bytes - done_bytes) / (double)done_bytes;
    ctl_progress(watch->ctl, import_stage_name(stage), total_bytes ? (double)done_bytes / (double)total_bytes : 0, eta);
}

static int print_report(Ctl *ctl, const ImportReport *report) {
    char source[32], package[32], time_text[32];
    json_t *object;

    if (ctl->json) {
        object = json_object();
        ctl_json_set(object, "path", ctl_json_text(report->path, strlen(report->path)));
        ctl_json_set(object, "already_imported", json_boolean(report->already_imported));
        ctl_json_set(object, "source_sha256", json_string(report->source_sha256));
        ctl_json_set(object, "source_bytes", json_integer((json_int_t)report->source_bytes));
        ctl_json_set(object, "package_bytes", json_integer((json_int_t)report->package_bytes));
        ctl_json_set(object, "seconds", json_real(report->seconds));
        return ctl_json_print(ctl, object);
    }
    ctl_put_text(stdout, report->path, ctl->out_tty);
    putchar('\n');
    if (ctl->quiet)
        return CTL_EXIT_OK;
    if (report->already_imported)
        fputs("Already imported: nothing was written.\n", stderr);
    else
        fprintf(stderr, "Imported %s as %s in %s.\n", ctl_bytes_text(source, sizeof(source), report->source_bytes),
                ctl_bytes_text(package, sizeof(package), report->package_bytes),
                ctl_duration_text(time_text, sizeof(time_text), (uint64_t)(report->seconds * 1e6)));
    return CTL_EXIT_OK;
}

static int import_verb_run(Ctl *ctl) {
    ImportWatch watch = { .ctl = ctl };
    ImportOptions options = IMPORT_OPTIONS_DEFAULT;
    ImportReport report = { 0 };
    uint64_t n_threads = 0;
    ErrText err = { "" };
    int r;

    if (!ctl_number(ctl, "threads", 1024, &n_threads))
        return CTL_EXIT_USAGE;
    r = ctl_interrupts_open(ctl);
    if (r)
        return r;
    options.rotate = !ctl_has(ctl, "no-rotation");
    options.n_threads = (unsigned int)n_threads;
    options.progress = import_progress;
    options.progress_arg = &watch;
    options.cancelled = &watch.cancelled;
    r = import_run(ctl->args[0], ctl_text(ctl, "output", NULL), &options, &report, &err);
    ctl_progress_clear(ctl);
    if (r == IMPORT_E_CANCELLED) {
        fputs("coordgenctl: cancelled: nothing is left behind\n", stderr);
        return CTL_EXIT_INTERRUPTED;
    }
    if (r) {
        int code = r == IMPORT_E_CORRUPT ? COORDGEN_E_MODEL_CORRUPT : COORDGEN_E_INTERNAL;

        (void)ctl_failed(ctl, code, err.text, "", 0);
        return CTL_EXIT_FAILED;
    }
    return print_report(ctl, &report);
}

static const CtlOption import_options[] = {
    { "output", 'o', "PATH", "of the package (default: named after the source, in the user's cache)" },
    { "no-rotation", 0, NULL, "do not rotate weights before quantizing (for comparison)" },
    { "threads", 0, "N", "0: one for every processor (default)" },
};

const CtlVerb ctl_verb_model_import = {
    .group = "model",
    .name = "import",
    .arguments = "FILE.gguf",
    .summary = "make a model package of a GGUF file",
    .more = "Works without the service; prints the path of the package. A file that was imported\n"
            "before is recognised. Ctrl-C cancels and leaves nothing behind.\n"
            "\nExamples\n"
            "  coordgenctl model import model.gguf\n"
            "  coordgenctl model import model.gguf -o /var/lib/coordgen/models/model.cgm\n",
    .options = import_options,
    .n_options = ARRAY_LEN(import_options),
    .n_args_min = 1,
    .n_args_max = 1,
    .run = import_verb_run,
};
