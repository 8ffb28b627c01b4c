// SPDX-License-Identifier: Apache-2.0
/* model rm and prune: remove a model with the files made of it, or files that nothing needs any more. */
#include <poll.h>
#include <string.h>

#include "client/ctl/ctl_files.h"

enum {
    RM_TIMEOUT_MS = 60000 /* a disk needs time to remove large files */
};

/* Asks the user for a yes; Ctrl-C means no. 0 or an exit status. */
static int ask(Ctl *ctl) {
    struct pollfd fds[] = { { .fd = STDIN_FILENO, .events = POLLIN }, { .fd = ctl->signal_fd, .events = POLLIN } };
    char line[16] = "";

    if (ctl_has(ctl, "yes"))
        return 0;
    if (!isatty(STDIN_FILENO))
        return ctl_usage_error(ctl, "nobody can be asked: --yes says that this is meant");
    fputs("Remove them? [y/N] ", stderr);
    if (poll(fds, ARRAY_LEN(fds), -1) > 0 && !fds[1].revents && fgets(line, sizeof(line), stdin) &&
        (*line == 'y' || *line == 'Y'))
        return 0;
    fputs("Nothing is removed.\n", stderr);
    return fds[1].revents ? CTL_EXIT_INTERRUPTED : CTL_EXIT_FAILED;
}

static int print_removed(Ctl *ctl, const CoordgenReply *reply, bool is_done) {
    uint64_t bytes;
    const size_t n = ctl_files_count(reply, &bytes);
    json_t *object;
    char size[32];

    if (ctl->json) {
        object = json_object();
        ctl_json_set(object, "files", ctl_json_files(reply));
        ctl_json_set(object, "total_bytes", json_integer((json_int_t)bytes));
        ctl_json_set(object, "removed", json_boolean(is_done));
        return ctl_json_print(ctl, object);
    }
    if (ctl->quiet)
        return CTL_EXIT_OK;
    ctl_put_files(ctl, stdout, reply);
    printf("%s: %zu file%s, %s\n", is_done ? "Removed" : "Would be removed", n, n == 1 ? "" : "s",
           ctl_bytes_text(size, sizeof(size), bytes));
    return CTL_EXIT_OK;
}

/* ---- model rm ---------------------------------------------------------------------------------------------------- */

static int remove_model(Ctl *ctl, bool dry_run, CtlWait *wait) {
    const int r = ctl_wait(
        ctl, wait,
        coordgen_model_remove_start(ctl->client, ctl->args[0], dry_run, RM_TIMEOUT_MS, ctl_wait_event, wait, NULL));

    return !r && coordgen_reply_error(wait->reply) ? ctl_failed_reply(ctl, wait) : r;
}

/* Unloads the model if it is loaded. 0 or an exit status. */
static int unload(Ctl *ctl) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    const int r =
        ctl_wait(ctl, &wait, coordgen_model_unload_start(ctl->client, ctl->args[0], -1, ctl_wait_event, &wait, NULL));
    const int error = r ? 0 : coordgen_reply_error(wait.reply);

    return error && error != COORDGEN_E_MODEL_NOT_READY ? ctl_failed_reply(ctl, &wait) : r;
}

/* Checks that the model is not in use, or may be unloaded. 0 or an exit status. */
static int check_idle(Ctl *ctl) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    const CoordgenModel *model;
    char text[160];
    int r;

    if (ctl_has(ctl, "force"))
        return 0;
    r = ctl_wait(ctl, &wait,
                 coordgen_model_show_start(ctl->client, ctl->args[0], RM_TIMEOUT_MS, ctl_wait_event, &wait, NULL));
    if (r)
        return r;
    if (coordgen_reply_error(wait.reply))
        return ctl_failed_reply(ctl, &wait);
    model = coordgen_reply_model(wait.reply, 0);
    if (!model || model->state == COORDGEN_MODEL_AVAILABLE || model->state == COORDGEN_MODEL_FAILED)
        return 0;
    snprintf(text, sizeof(text), "model %.64s is loaded, or on its way: with --force it is unloaded first",
             ctl->args[0]);
    return ctl_failed(ctl, COORDGEN_E_MODEL_IN_USE, text, "", 0);
}

/* Shows the files to be removed, and asks the user. 0: go on. */
static int confirm(Ctl *ctl) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    uint64_t bytes;
    char size[32];
    int r = check_idle(ctl);

    if (!r)
        r = remove_model(ctl, true, &wait);
    if (r || ctl_has(ctl, "yes"))
        return r;
    ctl_put_files(ctl, stderr, wait.reply);
    (void)ctl_files_count(wait.reply, &bytes);
    fprintf(stderr, "%s together. ", ctl_bytes_text(size, sizeof(size), bytes));
    return ask(ctl);
}

static int rm_run(Ctl *ctl) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    int r = ctl_connect(ctl);

    if (!r && ctl_has(ctl, "dry-run")) {
        r = remove_model(ctl, true, &wait);
        return r ? r : print_removed(ctl, wait.reply, false);
    }
    if (!r)
        r = confirm(ctl);
    if (!r && ctl_has(ctl, "force"))
        r = unload(ctl);
    if (!r)
        r = remove_model(ctl, false, &wait);
    return r ? r : print_removed(ctl, wait.reply, true);
}

static const Option rm_options[] = {
    { "force", 0, NULL, "unload it first, where no request is using it" },
    { "yes", 'y', NULL, "do not ask" },
    { "dry-run", 0, NULL, "say what would be removed, and remove nothing" },
};

const CtlVerb ctl_verb_model_rm = {
    .group = "model",
    .name = "rm",
    .arguments = "NAME",
    .summary = "remove a model from the service's folder",
    .more = "The command also removes the package that the service has made of the model, the image of\n"
            "its weights, its pairs, and what a broken import has left. The command asks first, unless\n"
            "--yes is given. The service removes the files, so it must run; administrators only. A link\n"
            "is removed alone: the file that it names stays.\n"
            "\nExamples\n"
            "  coordgenctl model rm smollm2-135m\n"
            "  coordgenctl model rm smollm2-135m --dry-run --json\n",
    .options = rm_options,
    .n_options = ARRAY_LEN(rm_options),
    .n_args_min = 1,
    .n_args_max = 1,
    .run = rm_run,
};

/* ---- prune ------------------------------------------------------------------------------------------------------- */

static int prune_run(Ctl *ctl) {
    const bool dry_run = ctl_has(ctl, "dry-run");
    const unsigned int flags = (ctl_has(ctl, "imports") ? COORDGEN_PRUNE_IMPORTS : 0) |
                               (ctl_has(ctl, "corrupt") ? COORDGEN_PRUNE_CORRUPT : 0) |
                               (dry_run ? COORDGEN_PRUNE_DRY_RUN : 0);
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    int r = ctl_connect(ctl);

    if (!r)
        r = ctl_wait(ctl, &wait, coordgen_prune_start(ctl->client, flags, RM_TIMEOUT_MS, ctl_wait_event, &wait, NULL));
    if (r)
        return r;
    return coordgen_reply_error(wait.reply) ? ctl_failed_reply(ctl, &wait) : print_removed(ctl, wait.reply, !dry_run);
}

static const Option prune_options[] = {
    { "imports", 0, NULL, "also what imports that were broken off could go on with" },
    { "corrupt", 0, NULL, "also damaged draft databases that were set aside" },
    { "dry-run", 0, NULL, "say what would be removed, and remove nothing" },
};

const CtlVerb ctl_verb_prune = {
    .name = "prune",
    .arguments = "",
    .summary = "remove what nothing needs any more",
    .more = "These are images of weights whose package is gone or has changed, and what imports and\n"
            "writers of images that were killed have left. What is in use stays, and so does what could\n"
            "be gone on with, unless it is asked for. Administrators only.\n"
            "\nExamples\n"
            "  coordgenctl prune --dry-run\n"
            "  coordgenctl prune --imports --corrupt\n",
    .options = prune_options,
    .n_options = ARRAY_LEN(prune_options),
    .run = prune_run,
};
