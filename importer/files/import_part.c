// SPDX-License-Identifier: Apache-2.0
/* PATH.part, the package that is being written, and its journal. The holder of the lock on PATH.part works on both
 * files. A finished part is renamed to PATH; a killed import leaves both files for the next import with the same
 * settings. */
#define _GNU_SOURCE
#include "importer/files/import_part.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "importer/files/import_journal.h"

#define PART_SUFFIX ".part"
#define JOURNAL_SUFFIX ".part.journal"
#define LOCK_TRIES 100
#define WAIT_NS (100 * 1000 * 1000)
#define OWNER_TRIES 50
#define OWNER_WAIT_NS (20 * 1000 * 1000)
#define KEEP_SECONDS (7 * 24 * 3600)

enum { /* of try_lock() */
    PART_BUSY = 100,
    PART_AGAIN = 101,
};

int import_write_error(int error, const char *out_path, uint64_t package_bytes, ErrText *err) {
    if (error == -ENOSPC || error == -EDQUOT || error == -EFBIG)
        return err_set(err, IMPORT_E_NO_SPACE, "%s: the package needs %" PRIu64 " bytes (%.1f MB): %s; free some space",
                       out_path, package_bytes, (double)package_bytes / 1e6, strerror(-error));
    return err_set(err, error, "%s: cannot write: %s", out_path, strerror(-error));
}

/* A disk without a single block or inode has no room even for the part or its journal. The message then says how much
 * the package needs. */
int import_full_error(int r, const char *out_path, uint64_t package_bytes, ErrText *err) {
    return r == -ENOSPC || r == -EDQUOT ? import_write_error(r, out_path, package_bytes, err) : r;
}

/* --- the lock ----------------------------------------------------------------------------------------------------- */

void import_part_deinit(ImportPart *part) {
    if (part->fd >= 0)
        close(part->fd);
    part->fd = -1;
}

static int part_paths(ImportPart *part, const char *out_path, ErrText *err) {
    *part = (ImportPart){ .out_path = out_path, .fd = -1 };
    if (snprintf(part->journal_path, sizeof(part->journal_path), "%s" JOURNAL_SUFFIX, out_path) >=
        (int)sizeof(part->journal_path))
        return err_set(err, -ENAMETOOLONG, "%.100s...: the path is too long", out_path);
    snprintf(part->path, sizeof(part->path), "%s" PART_SUFFIX, out_path);
    return 0;
}

/* Opens and locks the file. 0; PART_BUSY: another process has it; PART_AGAIN: it was renamed or removed meanwhile;
 * -ENOENT without O_CREAT. */
static int try_lock(ImportPart *part, int flags, ErrText *err) {
    _cleanup_(closep) int fd = open(part->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK | flags, 0666);
    struct stat st, named;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(err, -errno, "%s: cannot create a file there: %s", part->path, strerror(errno));
    /* A folder that others may write to could hold a file of theirs, which they could change while it is used. */
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink > 1)
        return err_set(err, IMPORT_E_EXISTS, "%s: is not a file of ours: remove it or name another output", part->path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? PART_BUSY
                                    : err_set(err, -errno, "%s: cannot be locked (%s): name an output elsewhere",
                                              part->path, strerror(errno));
    if (stat(part->path, &named) < 0 || named.st_ino != st.st_ino || named.st_dev != st.st_dev)
        return PART_AGAIN;
    part->fd = steal_fd(&fd);
    return 0;
}

/* Finds the process that has the lock; 0: not known. The owner's id comes into the journal a moment after the lock was
 * taken, and until then an earlier owner's id may stand there: the loop waits that out. */
static pid_t lock_owner(const ImportPart *part) {
    unsigned int tries;

    for (tries = 0; tries < OWNER_TRIES; tries++) {
        pid_t pid = import_journal_owner(part->journal_path);

        if (pid > 0 && (!kill(pid, 0) || errno == EPERM))
            return pid;
        (void)nanosleep(&(struct timespec){ .tv_nsec = OWNER_WAIT_NS }, NULL);
    }
    return 0;
}

/**
 * import_part_open() - open PATH.part, locked; make it if it is not there
 * @least_bytes: smallest size that the package can have, for the message of a full disk
 * @waitedp:     out: whether another process had the part, which may have finished the package meanwhile
 *
 * Two imports to one path make the same package, so the second one waits for the first. Meanwhile the monitor is told
 * of the first one's process, and may cancel.
 *
 * Return: 0, IMPORT_E_CANCELLED, IMPORT_E_EXISTS, IMPORT_E_NO_SPACE, or -errno.
 */
int import_part_open(ImportPart *part, const char *out_path, uint64_t least_bytes, ImportMonitor *monitor,
                     bool *waitedp, ErrText *err) {
    unsigned int tries = 0;
    int r;

    *waitedp = false;
    r = part_paths(part, out_path, err);
    if (r)
        return r;
    for (;;) {
        r = try_lock(part, O_CREAT, err);
        if (r != PART_BUSY && r != PART_AGAIN)
            return import_full_error(r, out_path, least_bytes, err);
        if (r == PART_AGAIN) {
            if (++tries == LOCK_TRIES)
                return err_set(err, -EBUSY, "%s: is taken away again and again by other programs", part->path);
            continue;
        }
        monitor->progress.other_pid = *waitedp ? import_journal_owner(part->journal_path) : lock_owner(part);
        *waitedp = true;
        import_monitor_stage(monitor, IMPORT_STAGE_WAIT, 0, 0, 0);
        r = import_monitor_check(monitor, err);
        if (r)
            return r;
        (void)nanosleep(&(struct timespec){ .tv_nsec = WAIT_NS }, NULL);
    }
}

/* Removes both files. The lock, on a file without a name, stays until deinit. */
void import_part_remove(const ImportPart *part) {
    (void)unlink(part->journal_path);
    (void)unlink(part->path);
}

/**
 * import_part_clear() - remove what an import has left that was killed just after its package got its name
 *
 * Such an import leaves a journal without a part, or with an empty part if this function was killed too. A part with
 * content belongs to other settings, for an import that would replace the package: it stays. All files stay while a
 * process has the lock. If nothing is left, no file is made either, because the folder may be read-only.
 */
void import_part_clear(const char *out_path) {
    _cleanup_(import_part_deinit) ImportPart part = { .fd = -1 };
    struct stat st;

    if (part_paths(&part, out_path, NULL) || (access(part.journal_path, F_OK) && access(part.path, F_OK)) ||
        try_lock(&part, O_CREAT, NULL))
        return;
    if (!fstat(part.fd, &st) && !st.st_size)
        import_part_remove(&part);
}

/**
 * import_left_discard() - remove what a killed or cancelled import has left
 * @foundp: out: whether there was something
 *
 * Return: 0, -EBUSY when a process works on it, or another -errno.
 */
int import_left_discard(const char *package_path, bool *foundp, ErrText *err) {
    _cleanup_(import_part_deinit) ImportPart part = { .fd = -1 };
    pid_t pid;
    int r;

    *foundp = false;
    r = part_paths(&part, package_path, err);
    if (!r)
        r = try_lock(&part, 0, err);
    if (r == -ENOENT || r == PART_AGAIN) {
        (void)unlink(part.journal_path);
        return 0;
    }
    if (r == PART_BUSY) {
        pid = lock_owner(&part);
        return pid ? err_set(err, -EBUSY, "%s: process %d is working on it: stop that import first", part.path,
                             (int)pid)
                   : err_set(err, -EBUSY, "%s: another process is working on it: stop that import first", part.path);
    }
    if (r)
        return r;
    import_part_remove(&part);
    *foundp = true;
    return 0;
}

ImportLeft import_left(const char *package_path) {
    _cleanup_(import_part_deinit) ImportPart part = { .fd = -1 };
    struct stat st, journal;
    int r;

    if (part_paths(&part, package_path, NULL))
        return IMPORT_LEFT_BUSY;
    r = try_lock(&part, 0, NULL);
    if (r == -ENOENT)
        return IMPORT_LEFT_USELESS;
    if (r || fstat(part.fd, &st) < 0)
        return IMPORT_LEFT_BUSY;
    return st.st_size && !stat(part.journal_path, &journal) && journal.st_size ? IMPORT_LEFT_RESUMABLE
                                                                               : IMPORT_LEFT_USELESS;
}

/* --- space -------------------------------------------------------------------------------------------------------- */

/* Checks that so many bytes would fit, including the bytes that the file has already. */
int import_part_check_space(const ImportPart *part, uint64_t package_bytes, ErrText *err) {
    struct statvfs vfs;
    struct rlimit limit;
    struct stat st;
    uint64_t free_bytes;

    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < package_bytes)
        return import_write_error(-EFBIG, part->out_path, package_bytes, err);
    if (fstatvfs(part->fd, &vfs) < 0 || !vfs.f_blocks || fstat(part->fd, &st) < 0)
        return 0; /* the file system reports no free space: a write will show it */
    free_bytes = (uint64_t)(geteuid() ? vfs.f_bavail : vfs.f_bfree) * vfs.f_frsize + (uint64_t)st.st_blocks * 512;
    if (free_bytes < package_bytes)
        return err_set(
            err, IMPORT_E_NO_SPACE,
            "%s: the package needs %" PRIu64 " bytes (%.1f MB), %" PRIu64 " (%.1f MB) are free there; free some space",
            part->out_path, package_bytes, (double)package_bytes / 1e6, free_bytes, (double)free_bytes / 1e6);
    return 0;
}

/* Reserves all blocks now, so that a full disk shows before the work and not in its middle. The file has this length
 * afterwards and keeps its content. */
int import_part_reserve(const ImportPart *part, uint64_t package_bytes, ErrText *err) {
    int r;

    r = import_part_check_space(part, package_bytes, err);
    if (r)
        return r;
    do
        r = fallocate(part->fd, 0, 0, (off_t)package_bytes) < 0 ? -errno : 0;
    while (r == -EINTR);
    if (r == -EOPNOTSUPP || r == -ENOSYS)
        r = 0;
    if (!r && ftruncate(part->fd, (off_t)package_bytes) < 0)
        r = -errno;
    return r ? import_write_error(r, part->out_path, package_bytes, err) : 0;
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

int import_part_commit(const ImportPart *part, uint64_t package_bytes, ErrText *err) {
    _cleanup_(closep) int folder_fd = -1;
    char folder[PATH_MAX];
    char *slash;

    if (fsync(part->fd) < 0)
        return import_write_error(-errno, part->out_path, package_bytes, err);
    if (rename(part->path, part->out_path) < 0)
        return err_set(err, -errno, "%s: cannot rename into place: %s", part->out_path, strerror(errno));
    (void)unlink(part->journal_path);
    snprintf(folder, sizeof(folder), "%s", part->out_path);
    slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    folder_fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd >= 0)
        (void)fsync(folder_fd); /* only hardens the new name against a loss of power */
    return 0;
}

/* --- what others have left ---------------------------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), end_bytes = strlen(end);

    return n > end_bytes && !strcmp(name + n - end_bytes, end);
}

/* Tells NAME.cgm.tmp-XXXXXX, which versions that could not resume have left. */
static bool is_temporary(const char *name) {
    size_t n = strlen(name), suffix_bytes = strlen(".cgm.tmp-XXXXXX");

    return n > suffix_bytes && !strncmp(name + n - suffix_bytes, ".cgm.tmp-", strlen(".cgm.tmp-"));
}

/* Removes a stale file. A temporary file is stale when nobody has it locked. Parts and journals must also be old,
 * because an import may still resume them. */
static void remove_if_stale(const char *folder, const char *name) {
    bool temporary = is_temporary(name);
    _cleanup_(closep) int fd = -1;
    char path[PATH_MAX];
    struct stat st;

    if ((!temporary && !ends_with(name, ".cgm" PART_SUFFIX) && !ends_with(name, ".cgm" JOURNAL_SUFFIX)) ||
        snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
        return;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
    if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && (temporary || st.st_mtime < time(NULL) - KEEP_SECONDS) &&
        !flock(fd, LOCK_EX | LOCK_NB))
        (void)unlink(path);
}

void import_parts_clean(const char *cache_folder) {
    const struct dirent *entry;
    DIR *dir = opendir(cache_folder);

    while (dir && (entry = readdir(dir)))
        remove_if_stale(cache_folder, entry->d_name);
    if (dir)
        closedir(dir);
}
