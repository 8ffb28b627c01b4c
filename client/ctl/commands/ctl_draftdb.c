// SPDX-License-Identifier: Apache-2.0
/* draftdb: manages the stored answers, from which the service drafts later answers. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/files/file_io.h"
#include "base/strings/decimal.h"
#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"

enum {
    PART_BYTES = 64 << 10, /* of an import, per message */
    PASSWD_BYTES = 16 << 10,
};

/* ---- options ----------------------------------------------------------------------------------------------------- */

/* Takes a uid or a user's name. 0, or an exit status after a message. */
static int take_user(Ctl *ctl, CoordgenDraftDbOptions *options) {
    const char *text = ctl_text(ctl, "user", NULL);
    struct passwd entry, *found = NULL;
    char room[PASSWD_BYTES];
    uint64_t number;

    if (!text)
        return 0;
    options->has_uid = true;
    if (decimal_parse_u64(text, &number)) {
        options->uid = (uint32_t)number;
        return number <= UINT32_MAX ? 0 : ctl_usage_error(ctl, "--user=%.32s: no user has this number", text);
    }
    if (getpwnam_r(text, &entry, room, sizeof(room), &found) || !found)
        return ctl_usage_error(ctl, "--user=%.64s: there is no user of this name", text);
    options->uid = entry.pw_uid;
    return 0;
}

/* Takes an age, and computes the moment so long ago. 0, or an exit status after a message. */
static int take_before(Ctl *ctl, CoordgenDraftDbOptions *options) {
    static const struct {
        const char *suffix;
        uint64_t seconds;
    } units[] = { { "s", 1 }, { "", 1 }, { "min", 60 }, { "h", 3600 }, { "d", 86400 } };
    const char *text = ctl_text(ctl, "before", NULL), *end;
    const uint64_t now_s = (uint64_t)time(NULL);
    uint64_t number;

    if (!text)
        return 0;
    end = decimal_read_u64(text, &number);
    for (size_t i = 0; end && i < ARRAY_LEN(units); i++) {
        if (strcmp(end, units[i].suffix))
            continue;
        options->has_before = true;
        options->before_s = number > now_s / units[i].seconds ? 0 : now_s - number * units[i].seconds;
        return 0;
    }
    return ctl_usage_error(ctl, "--before=%.32s: an age is needed, such as 12h or 30d", text);
}

static int take_options(Ctl *ctl, CoordgenDraftDbOptions *options) {
    coordgen_draft_db_options_init(options);
    options->all_users = ctl_has(ctl, "all-users");
    options->model = ctl_text(ctl, "model", NULL);
    if (options->all_users && ctl_has(ctl, "user"))
        return ctl_usage_error(ctl, "--user and --all-users: one of them");
    return take_user(ctl, options);
}

/* ---- stats ------------------------------------------------------------------------------------------------------- */

static json_t *user_json(const CoordgenDraftDbUser *user) {
    json_t *object = json_object();

    ctl_json_set(object, "uid", json_integer(user->uid));
    ctl_json_set(object, "frozen", json_boolean(user->frozen));
    ctl_json_set(object, "documents", json_integer((json_int_t)user->documents));
    ctl_json_set(object, "tokens", json_integer((json_int_t)user->tokens));
    ctl_json_set(object, "bytes", json_integer((json_int_t)user->bytes));
    ctl_json_set(object, "oldest_s", json_integer((json_int_t)user->oldest_s));
    ctl_json_set(object, "newest_s", json_integer((json_int_t)user->newest_s));
    return object;
}

static int stats_json(Ctl *ctl, const CoordgenReply *reply) {
    const CoordgenDraftDb *draft_db = coordgen_reply_draft_db(reply);
    json_t *object = json_object(), *users = json_array();

    for (size_t i = 0; i < coordgen_reply_n_draft_db_users(reply); i++)
        json_array_append_new(users, user_json(coordgen_reply_draft_db_user(reply, i)));
    ctl_json_set(object, "users", users);
    ctl_json_set(object, "bytes_max", json_integer((json_int_t)draft_db->bytes_max));
    ctl_json_set(object, "documents_max", json_integer((json_int_t)draft_db->documents_max));
    ctl_json_set(object, "age_max_s", json_integer((json_int_t)draft_db->age_max_s));
    ctl_json_set(object, "stored", json_integer((json_int_t)draft_db->stored));
    ctl_json_set(object, "dropped", json_integer((json_int_t)draft_db->dropped));
    return ctl_json_print(ctl, object);
}

static const char *date_text(char *room, size_t room_bytes, uint64_t time_s) {
    const time_t at = (time_t)time_s;
    struct tm parts;

    if (!time_s || !localtime_r(&at, &parts) || !strftime(room, room_bytes, "%Y-%m-%d %H:%M", &parts))
        snprintf(room, room_bytes, "-");
    return room;
}

static void limits_print(const CoordgenDraftDb *draft_db) {
    char bytes[32], age[32];

    printf("\nAll users together: ");
    if (draft_db->documents_max)
        printf("%" PRIu64 " answers, ", draft_db->documents_max);
    printf("%s%s, %s%s\n", draft_db->bytes_max ? ctl_bytes_text(bytes, sizeof(bytes), draft_db->bytes_max) : "any size",
           draft_db->bytes_max ? " at most" : "", draft_db->age_max_s ? "for " : "for ever",
           draft_db->age_max_s ? ctl_duration_text(age, sizeof(age), draft_db->age_max_s * 1000000) : "");
}

static int stats_print(Ctl *ctl, const CoordgenReply *reply) {
    char bytes[32], oldest[32], newest[32];

    if (ctl->json)
        return stats_json(ctl, reply);
    printf("%10s %10s %12s %10s  %-16s  %-16s\n", "USER", "ANSWERS", "TOKENS", "SIZE", "OLDEST", "NEWEST");
    for (size_t i = 0; i < coordgen_reply_n_draft_db_users(reply); i++) {
        const CoordgenDraftDbUser *user = coordgen_reply_draft_db_user(reply, i);

        printf("%10" PRIu32 " %10" PRIu64 " %12" PRIu64 " %10s  %-16s  %-16s%s\n", user->uid, user->documents,
               user->tokens, ctl_bytes_text(bytes, sizeof(bytes), user->bytes),
               date_text(oldest, sizeof(oldest), user->oldest_s), date_text(newest, sizeof(newest), user->newest_s),
               user->frozen ? "  frozen" : "");
    }
    if (!ctl->quiet)
        limits_print(coordgen_reply_draft_db(reply));
    return CTL_EXIT_OK;
}

static int stats_run(Ctl *ctl) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    CoordgenDraftDbOptions options;
    int r = take_options(ctl, &options);

    if (!r)
        r = ctl_connect(ctl);
    if (!r)
        r = ctl_wait(ctl, &wait, coordgen_draft_db_stats_start(ctl->client, &options, ctl_wait_event, &wait, NULL));
    if (r)
        return r;
    return coordgen_reply_error(wait.reply) ? ctl_failed_reply(ctl, &wait) : stats_print(ctl, wait.reply);
}

/* ---- forget ------------------------------------------------------------------------------------------------------ */

/* Asks the user for a yes, before the connection, so that Ctrl-C ends the program. 0: yes. */
static int ask(Ctl *ctl) {
    char line[16] = "";

    if (ctl_has(ctl, "yes"))
        return 0;
    if (!isatty(STDIN_FILENO))
        return ctl_usage_error(ctl, "nobody can be asked: --yes says that this is meant");
    fputs("Answers that are forgotten cannot be brought back. Forget them? [y/N] ", stderr);
    if (fgets(line, sizeof(line), stdin) && (*line == 'y' || *line == 'Y'))
        return 0;
    fputs("Nothing is forgotten.\n", stderr);
    return CTL_EXIT_FAILED;
}

static int forget_run(Ctl *ctl) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    CoordgenDraftDbOptions options;
    uint64_t n_documents;
    json_t *object;
    int r = take_options(ctl, &options);

    if (!r)
        r = take_before(ctl, &options);
    if (!r && ctl_has(ctl, "all") == (options.has_before || options.model))
        r = ctl_usage_error(ctl, "what is to be forgotten: --all, or --before, --model or both");
    if (!r)
        r = ask(ctl);
    if (!r)
        r = ctl_connect(ctl);
    if (!r)
        r = ctl_wait(ctl, &wait, coordgen_draft_db_forget_start(ctl->client, &options, ctl_wait_event, &wait, NULL));
    if (r)
        return r;
    if (coordgen_reply_error(wait.reply))
        return ctl_failed_reply(ctl, &wait);
    n_documents = coordgen_reply_draft_db(wait.reply)->documents;
    if (!ctl->json) {
        if (!ctl->quiet)
            printf("%" PRIu64 " answers are forgotten\n", n_documents);
        return CTL_EXIT_OK;
    }
    object = json_object();
    ctl_json_set(object, "forgotten", json_integer((json_int_t)n_documents));
    return ctl_json_print(ctl, object);
}

/* ---- freeze, thaw ------------------------------------------------------------------------------------------------ */

static int set_frozen(Ctl *ctl, bool frozen) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    CoordgenDraftDbOptions options;
    json_t *object;
    int r = take_options(ctl, &options);

    if (!r)
        r = ctl_connect(ctl);
    if (!r)
        r = ctl_wait(ctl, &wait,
                     coordgen_draft_db_freeze_start(ctl->client, &options, frozen, ctl_wait_event, &wait, NULL));
    if (r)
        return r;
    if (coordgen_reply_error(wait.reply))
        return ctl_failed_reply(ctl, &wait);
    if (!ctl->json)
        return CTL_EXIT_OK;
    object = json_object();
    ctl_json_set(object, "frozen", json_boolean(frozen));
    return ctl_json_print(ctl, object);
}

static int freeze_run(Ctl *ctl) {
    return set_frozen(ctl, true);
}

static int thaw_run(Ctl *ctl) {
    return set_frozen(ctl, false);
}

/* ---- export ------------------------------------------------------------------------------------------------------ */

static int failed_file(Ctl *ctl, const ErrText *err) {
    return ctl_failed(ctl, COORDGEN_E_INTERNAL, err->text, "", 0);
}

/* Writes all parts into the open file. */
static int read_export(Ctl *ctl, const CoordgenDraftDbOptions *options, int fd, const char *name,
                       CoordgenDraftDb *got) {
    uint64_t offset = 0;
    ErrText err;
    int r;

    do {
        _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
        size_t n = 0;
        const void *data;

        r = ctl_wait(ctl, &wait,
                     coordgen_draft_db_export_start(ctl->client, options, offset, ctl_wait_event, &wait, NULL));
        if (r)
            return r;
        if (coordgen_reply_error(wait.reply))
            return ctl_failed_reply(ctl, &wait);
        data = coordgen_reply_data(wait.reply, &n);
        *got = *coordgen_reply_draft_db(wait.reply);
        if (!n || n > got->total_bytes - offset) {
            err_set(&err, 0, "the service sent a part of the export that does not fit");
            return failed_file(ctl, &err);
        }
        r = file_write_all(fd, data, n);
        if (r) {
            err_set(&err, r, "%s: %s", name, strerror(-r));
            return failed_file(ctl, &err);
        }
        offset += n;
        ctl_progress(ctl, "exporting", (double)offset / (double)got->total_bytes, -1);
    } while (offset < got->total_bytes);
    ctl_progress_clear(ctl);
    return 0;
}

static int export_report(Ctl *ctl, const char *path, const CoordgenDraftDb *got) {
    char bytes[32];
    json_t *object;

    if (!ctl->json) {
        if (!ctl->quiet)
            fprintf(stderr, "%" PRIu64 " answers in %s: as private as what they say\n", got->documents,
                    ctl_bytes_text(bytes, sizeof(bytes), got->total_bytes));
        return CTL_EXIT_OK;
    }
    object = json_object();
    ctl_json_set(object, "exported", json_integer((json_int_t)got->documents));
    ctl_json_set(object, "bytes", json_integer((json_int_t)got->total_bytes));
    ctl_json_set(object, "path", ctl_json_text(path, strlen(path)));
    return ctl_json_print(ctl, object);
}

static int export_to_file(Ctl *ctl, const CoordgenDraftDbOptions *options, const char *path) {
    _cleanup_(atomic_file_freep) AtomicFile *file = NULL;
    CoordgenDraftDb got;
    ErrText err;
    int r;

    if (atomic_file_new(&file, path, &err))
        return failed_file(ctl, &err);
    if (fchmod(atomic_file_fd(file), 0600) < 0) {
        err_set(&err, -errno, "%s: %s", path, strerror(errno));
        return failed_file(ctl, &err);
    }
    r = read_export(ctl, options, atomic_file_fd(file), path, &got);
    if (r)
        return r;
    if (atomic_file_commit(file, &err))
        return failed_file(ctl, &err);
    return export_report(ctl, path, &got);
}

static int export_run(Ctl *ctl) {
    const char *path = ctl->args[0];
    CoordgenDraftDbOptions options;
    CoordgenDraftDb got;
    int r = take_options(ctl, &options);

    if (!r && !strcmp(path, "-") && (ctl->out_tty || ctl->json))
        r = ctl_usage_error(ctl, ctl->json ? "standard output has the JSON already: name a file"
                                           : "an export is no text for a terminal: name a file");
    if (!r)
        r = ctl_connect(ctl);
    if (r)
        return r;
    return strcmp(path, "-") ? export_to_file(ctl, &options, path)
                             : read_export(ctl, &options, STDOUT_FILENO, "standard output", &got);
}

/* ---- import ------------------------------------------------------------------------------------------------------ */

static int import_report(Ctl *ctl, const CoordgenDraftDb *got) {
    json_t *object;

    if (!ctl->json) {
        if (!ctl->quiet)
            printf("%" PRIu64 " answers are added, %" PRIu64 " were too old\n", got->documents, got->expired);
        return CTL_EXIT_OK;
    }
    object = json_object();
    ctl_json_set(object, "imported", json_integer((json_int_t)got->documents));
    ctl_json_set(object, "expired", json_integer((json_int_t)got->expired));
    return ctl_json_print(ctl, object);
}

/* Reads PART_BYTES, or fewer at the end of the file. */
static ssize_t read_part(int fd, char *part) {
    size_t n = 0;

    while (n < PART_BYTES) {
        const ssize_t got = read(fd, part + n, PART_BYTES - n);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (!got)
            break;
        n += (size_t)got;
    }
    return (ssize_t)n;
}

static int send_import(Ctl *ctl, const CoordgenDraftDbOptions *options, int fd, const char *name) {
    _cleanup_(freep) char *part = malloc(PART_BYTES);
    bool first = true, last = false;
    ErrText err = { .text = "out of memory" };
    int r;

    if (!part)
        return failed_file(ctl, &err);
    for (;; first = false) {
        _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
        const ssize_t n = read_part(fd, part);

        if (n < 0) {
            err_set(&err, (int)n, "%s: %s", name, strerror((int)-n));
            return failed_file(ctl, &err);
        }
        last = n < PART_BYTES;
        r = ctl_wait(ctl, &wait,
                     coordgen_draft_db_import_start(ctl->client, options, part, (size_t)n, first, last, ctl_wait_event,
                                                    &wait, NULL));
        if (r)
            return r;
        if (coordgen_reply_error(wait.reply))
            return ctl_failed_reply(ctl, &wait);
        if (last)
            return import_report(ctl, coordgen_reply_draft_db(wait.reply));
    }
}

static int import_run(Ctl *ctl) {
    const char *path = ctl->args[0];
    const bool input = !strcmp(path, "-");
    _cleanup_(closep) int owned_fd = input ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    CoordgenDraftDbOptions options;
    ErrText err;
    int r = take_options(ctl, &options);

    if (!r && !input && owned_fd < 0) {
        err_set(&err, -errno, "%s: %s", path, strerror(errno));
        r = failed_file(ctl, &err);
    }
    if (!r)
        r = ctl_connect(ctl);
    return r ? r : send_import(ctl, &options, input ? STDIN_FILENO : owned_fd, input ? "standard input" : path);
}

/* ---- verbs ------------------------------------------------------------------------------------------------------- */

#define OPTION_USER                                                                                                    \
    { "user", 0, "USER", "another user's part: a name or number (administrators)" }
#define OPTION_ALL_USERS                                                                                               \
    { "all-users", 0, NULL, "everybody's (administrators)" }

static const Option user_options[] = { OPTION_USER };
static const Option stats_options[] = { OPTION_USER, OPTION_ALL_USERS };
static const Option forget_options[] = {
    { "all", 0, NULL, "all answers" },
    { "before", 0, "AGE", "answers that are older, such as 12h or 30d" },
    { "model", 'm', "NAME", "answers of this model, which must be loaded, and of those with the same tokens" },
    { "yes", 'y', NULL, "do not ask" },
    OPTION_USER,
    OPTION_ALL_USERS,
};

const CtlVerb ctl_verb_draftdb_stats = {
    .group = "draftdb",
    .name = "stats",
    .arguments = "",
    .summary = "show what the service keeps of your apps' answers",
    .more = "Answers of finished requests, from which later ones are drafted. What was answered before\n"
            "is on the disk when it is counted.\n"
            "\nExamples\n"
            "  coordgenctl draftdb stats\n"
            "  sudo coordgenctl draftdb stats --all-users --json=short | jq '.users[].documents'\n",
    .options = stats_options,
    .n_options = ARRAY_LEN(stats_options),
    .run = stats_run,
};

const CtlVerb ctl_verb_draftdb_forget = {
    .group = "draftdb",
    .name = "forget",
    .arguments = "",
    .summary = "delete answers that the service keeps",
    .more = "Nothing of them is left in the database's files, and nothing is drafted from them any more.\n"
            "Asks first, unless --yes is given.\n"
            "\nExamples\n"
            "  coordgenctl draftdb forget --all\n"
            "  coordgenctl draftdb forget --before 30d --yes\n",
    .options = forget_options,
    .n_options = ARRAY_LEN(forget_options),
    .run = forget_run,
};

const CtlVerb ctl_verb_draftdb_export = {
    .group = "draftdb",
    .name = "export",
    .arguments = "FILE",
    .summary = "write your apps' answers to a file",
    .more = "The file is as private as what they say, and is not encrypted. -: standard output.\n"
            "\nExamples\n"
            "  coordgenctl draftdb export answers.draftdb\n"
            "  coordgenctl draftdb export - | age -r KEY >answers.age\n",
    .options = user_options,
    .n_options = ARRAY_LEN(user_options),
    .n_args_min = 1,
    .n_args_max = 1,
    .run = export_run,
};

const CtlVerb ctl_verb_draftdb_import = {
    .group = "draftdb",
    .name = "import",
    .arguments = "FILE",
    .summary = "add the answers of an export",
    .more = "All of them, or none where the file is damaged. -: standard input.\n"
            "\nExamples\n"
            "  coordgenctl draftdb import answers.draftdb\n",
    .options = user_options,
    .n_options = ARRAY_LEN(user_options),
    .n_args_min = 1,
    .n_args_max = 1,
    .run = import_run,
};

const CtlVerb ctl_verb_draftdb_freeze = {
    .group = "draftdb",
    .name = "freeze",
    .arguments = "",
    .summary = "keep the answers as they are: none is added, none evicted",
    .more = "Forgetting goes on. 'coordgenctl draftdb thaw' ends it.\n",
    .options = user_options,
    .n_options = ARRAY_LEN(user_options),
    .run = freeze_run,
};

const CtlVerb ctl_verb_draftdb_thaw = {
    .group = "draftdb",
    .name = "thaw",
    .arguments = "",
    .summary = "end what freeze began",
    .more = "",
    .options = user_options,
    .n_options = ARRAY_LEN(user_options),
    .run = thaw_run,
};
