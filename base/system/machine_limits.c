// SPDX-License-Identifier: Apache-2.0
/*
 * A process is in one cgroup of each hierarchy: the unified one (v2), and one for each mounted controller (v1). Limits
 * of all ancestors hold too, so every folder from the cgroup up to the mount point is read.
 * SPEC: cgroups(7), Documentation/admin-guide/cgroup-v2.rst of the kernel; proc_pid_mountinfo(5).
 */
#define _GNU_SOURCE
#include "base/system/machine_limits.h"

#include <sched.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strings/decimal.h"

#define NO_LIMIT_BYTES (UINT64_C(1) << 62) /* v1 shows "no limit" as the largest number of whole pages */

typedef struct CgroupMount {
    char root[PATH_MAX];  /* the cgroup that the mount shows as its top */
    char point[PATH_MAX]; /* the mount point */
} CgroupMount;

typedef void NarrowFn(MachineLimits *limits, const char *folder);

void machine_limits_of_machine(MachineLimits *limits) {
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    cpu_set_t set;

    limits->memory_bytes = pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : UINT64_MAX;
    limits->n_processors =
        sched_getaffinity(0, sizeof(set), &set) || CPU_COUNT(&set) < 1 ? 1 : (unsigned int)CPU_COUNT(&set);
    *limits->memory_file = *limits->processors_file = 0;
}

/* --- files of limits ---------------------------------------------------------------------------------------------- */

/* Reads the only line of a file, without its newline. False: there is no file, or the line is too long. */
static bool read_line_of(const char *folder, const char *name, char *path, char *line, int room_bytes) {
    _cleanup_(fclosep) FILE *file = NULL;
    const int n = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    char *end;

    if (n < 0 || n >= PATH_MAX)
        return false;
    file = fopen(path, "re");
    if (!file || !fgets(line, room_bytes, file))
        return false;
    end = strchr(line, '\n');
    if (end)
        *end = 0;
    return end || feof(file);
}

/* Applies the limit of a file; "max", v1's -1 and anything else that is no number mean no limit. */
static void narrow_memory(MachineLimits *limits, const char *folder, const char *name) {
    char path[PATH_MAX], line[64];
    uint64_t bytes;

    if (!read_line_of(folder, name, path, line, sizeof(line)) || !decimal_parse_u64(line, &bytes) ||
        bytes >= NO_LIMIT_BYTES || bytes >= limits->memory_bytes)
        return;
    limits->memory_bytes = bytes;
    memcpy(limits->memory_file, path, sizeof(path));
}

/* Applies a quota of processors, rounded up: with a thread fewer, a part of a processor would be idle. */
static void narrow_processors(MachineLimits *limits, const char *path, uint64_t quota_us, uint64_t period_us) {
    uint64_t n;

    if (!period_us)
        return;
    n = quota_us / period_us + !!(quota_us % period_us);
    n += !n;
    if (n >= limits->n_processors)
        return;
    limits->n_processors = (unsigned int)n;
    snprintf(limits->processors_file, sizeof(limits->processors_file), "%s", path);
}

static void narrow_unified(MachineLimits *limits, const char *folder) {
    char path[PATH_MAX], line[64];
    uint64_t quota_us, period_us;
    const char *end;

    narrow_memory(limits, folder, "memory.max");
    narrow_memory(limits, folder, "memory.high"); /* past it, the kernel throttles the process to a standstill */
    if (!read_line_of(folder, "cpu.max", path, line, sizeof(line)))
        return;
    end = decimal_read_u64(line, &quota_us);
    if (end && *end == ' ' && decimal_parse_u64(end + 1, &period_us))
        narrow_processors(limits, path, quota_us, period_us);
}

static void narrow_v1_memory(MachineLimits *limits, const char *folder) {
    narrow_memory(limits, folder, "memory.limit_in_bytes");
}

static void narrow_v1_processors(MachineLimits *limits, const char *folder) {
    char path[PATH_MAX], line[64];
    uint64_t quota_us, period_us;

    if (read_line_of(folder, "cpu.cfs_period_us", path, line, sizeof(line)) && decimal_parse_u64(line, &period_us) &&
        read_line_of(folder, "cpu.cfs_quota_us", path, line, sizeof(line)) && decimal_parse_u64(line, &quota_us))
        narrow_processors(limits, path, quota_us, period_us);
}

/* --- mounts of cgroups -------------------------------------------------------------------------------------------- */

static bool has_word(const char *list, const char *word) {
    const size_t len_bytes = strlen(word);

    for (; list; list = strchr(list, ',')) {
        list += *list == ',';
        if (!strncmp(list, word, len_bytes) && (!list[len_bytes] || list[len_bytes] == ','))
            return true;
    }
    return false;
}

/* Decodes blanks and backslashes, which mountinfo writes as \ and three octal digits. */
static void unescape(char *text) {
    char *to = text;

    for (const char *at = text; *at; to++) {
        if (at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' && at[2] <= '7' && at[3] >= '0' &&
            at[3] <= '7') {
            *to = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0'));
            at += 4;
        } else {
            *to = *at++;
        }
    }
    *to = 0;
}

/* Returns the part of a cgroup's path below top: "" or "/..."; NULL if path is not below top. */
static const char *path_below(const char *path, const char *top) {
    const size_t len_bytes = strcmp(top, "/") ? strlen(top) : 0;

    if (strncmp(path, top, len_bytes))
        return NULL;
    path += len_bytes;
    return !strcmp(path, "/") ? "" : !*path || *path == '/' ? path : NULL;
}

/* Parses a line of mountinfo in place. Returns whether the line mounts the controller (NULL: the unified hierarchy). */
static bool take_mount(char *line, const char *controller, CgroupMount *mount) {
    char *fields[5] = { NULL }, *type;

    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        fields[i] = strsep(&line, " ");
    line = line ? strstr(line, " - ") : NULL;
    if (!line)
        return false;
    line += 3;
    type = strsep(&line, " ");
    (void)strsep(&line, " "); /* skips the source of the mount */
    if (!line || strcmp(type, controller ? "cgroup" : "cgroup2") || (controller && !has_word(line, controller)))
        return false;
    unescape(fields[3]);
    unescape(fields[4]);
    return snprintf(mount->root, sizeof(mount->root), "%s", fields[3]) < (int)sizeof(mount->root) &&
           snprintf(mount->point, sizeof(mount->point), "%s", fields[4]) < (int)sizeof(mount->point);
}

/* Finds the mount that shows the cgroup; if none does, the first mount is the top of what the process can see. */
static bool find_mount(const char *root, const char *controller, const char *path, CgroupMount *mount) {
    _cleanup_(fclosep) FILE *file = NULL;
    _cleanup_(freep) char *line = NULL;
    char name[PATH_MAX];
    CgroupMount other;
    size_t room_bytes = 0;
    bool found = false;

    if (snprintf(name, sizeof(name), "%s/proc/self/mountinfo", root) >= (int)sizeof(name))
        return false;
    file = fopen(name, "re");
    while (file && getline(&line, &room_bytes, file) > 0) {
        line[strcspn(line, "\n")] = 0;
        if (!take_mount(line, controller, &other))
            continue;
        if (path_below(path, other.root)) {
            *mount = other;
            return true;
        }
        if (!found)
            *mount = other;
        found = true;
    }
    return found;
}

/* Applies the limits of each folder from the cgroup up to the mount point. A folder that does not exist has no limits.
 * If a namespace hides the path, the mount point is the process's own cgroup. */
static void narrow_upwards(MachineLimits *limits, const char *root, const char *controller, const char *path,
                           NarrowFn *narrow) {
    char folder[PATH_MAX];
    CgroupMount mount;
    const char *below;
    char *end;
    int n_top, n;

    if (!find_mount(root, controller, path, &mount))
        return;
    below = path_below(path, mount.root);
    if (!below)
        below = path;
    if (!strcmp(below, "/..") || !strncmp(below, "/../", 4)) /* a cgroup outside of the namespace */
        below = "";
    n_top = snprintf(folder, sizeof(folder), "%s%s", root, mount.point);
    n = snprintf(folder, sizeof(folder), "%s%s%s", root, mount.point, below);
    if (n_top < 0 || n < 0 || n >= (int)sizeof(folder))
        return;
    narrow(limits, folder);
    while ((end = strrchr(folder + n_top, '/'))) {
        *end = 0;
        narrow(limits, folder);
    }
}

void machine_limits_narrow(MachineLimits *limits, const char *root) {
    _cleanup_(fclosep) FILE *file = NULL;
    _cleanup_(freep) char *line = NULL;
    char name[PATH_MAX];
    size_t room_bytes = 0;

    if (snprintf(name, sizeof(name), "%s/proc/self/cgroup", root) >= (int)sizeof(name))
        return;
    file = fopen(name, "re");
    while (file && getline(&line, &room_bytes, file) > 0) {
        char *path = line, *controllers;

        line[strcspn(line, "\n")] = 0;
        (void)strsep(&path, ":");
        controllers = strsep(&path, ":");
        if (!path || *path != '/')
            continue;
        if (!*controllers)
            narrow_upwards(limits, root, NULL, path, narrow_unified);
        if (has_word(controllers, "memory"))
            narrow_upwards(limits, root, "memory", path, narrow_v1_memory);
        if (has_word(controllers, "cpu"))
            narrow_upwards(limits, root, "cpu", path, narrow_v1_processors);
    }
}

void machine_limits_read(MachineLimits *limits) {
    machine_limits_of_machine(limits);
    machine_limits_narrow(limits, "");
}
