// SPDX-License-Identifier: Apache-2.0
/* Tests of the limits that cgroups put on a machine, on artificial trees of /proc and /sys: each hierarchy, ancestors,
 * namespaces, invalid content. */
#undef NDEBUG
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <ftw.h>
#include <sched.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/system/machine_limits.h"
#include "base/system/thread.h"

#define MACHINE_BYTES (UINT64_C(1) << 40)
#define MACHINE_PROCESSORS 64
#define MIB (UINT64_C(1) << 20)

#define V2_MOUNT "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MEMORY_MOUNT "40 31 0:35 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
#define V1_CPU_MOUNT "41 31 0:36 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
#define OTHER_MOUNTS                                                                                                   \
    "24 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n31 24 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"         \
    "33 31 0:39 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"

typedef struct Tree {
    char root[64];
    MachineLimits limits;
} Tree;

static int tree_new(void **state) {
    Tree *tree = calloc(1, sizeof(*tree));

    assert_non_null(tree);
    snprintf(tree->root, sizeof(tree->root), "/tmp/test-machine-limits-XXXXXX");
    assert_non_null(mkdtemp(tree->root));
    *state = tree;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    return remove(path);
}

static int tree_free(void **state) {
    Tree *tree = *state;
    int r = nftw(tree->root, remove_one, 8, FTW_DEPTH | FTW_PHYS);

    free(tree);
    return r;
}

static void put(const Tree *tree, const char *name, const char *text) {
    _cleanup_(fclosep) FILE *file = NULL;
    char path[512];

    snprintf(path, sizeof(path), "%s%s", tree->root, name);
    for (char *at = path + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        assert_true(!mkdir(path, 0777) || errno == EEXIST);
        *at = '/';
    }
    file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
}

static void put_proc(const Tree *tree, const char *cgroup, const char *mounts) {
    char text[2048];

    put(tree, "/proc/self/cgroup", cgroup);
    snprintf(text, sizeof(text), "%s%s", OTHER_MOUNTS, mounts);
    put(tree, "/proc/self/mountinfo", text);
}

/* Expects limits from files, named below the tree's root; NULL: no limit. */
static void assert_limits(Tree *tree, uint64_t bytes, const char *memory_file, unsigned int n_processors,
                          const char *processors_file) {
    const size_t n_root = strlen(tree->root);

    tree->limits = (MachineLimits){ .memory_bytes = MACHINE_BYTES, .n_processors = MACHINE_PROCESSORS };
    machine_limits_narrow(&tree->limits, tree->root);
    assert_int_equal(tree->limits.memory_bytes, memory_file ? bytes : MACHINE_BYTES);
    assert_int_equal(tree->limits.n_processors, processors_file ? n_processors : MACHINE_PROCESSORS);
    assert_string_equal(*tree->limits.memory_file ? tree->limits.memory_file + n_root : "",
                        memory_file ? memory_file : "");
    assert_string_equal(*tree->limits.processors_file ? tree->limits.processors_file + n_root : "",
                        processors_file ? processors_file : "");
}

static void test_machine_limits_unified(void **state) {
    Tree *tree = *state;

    put_proc(tree, "0::/system.slice/coordgend.service\n", V2_MOUNT);
    put(tree, "/sys/fs/cgroup/system.slice/coordgend.service/memory.max", "314572800\n");
    put(tree, "/sys/fs/cgroup/system.slice/coordgend.service/memory.high", "max\n");
    put(tree, "/sys/fs/cgroup/system.slice/coordgend.service/cpu.max", "150000 100000\n");
    assert_limits(tree, 300 * MIB, "/sys/fs/cgroup/system.slice/coordgend.service/memory.max", 2,
                  "/sys/fs/cgroup/system.slice/coordgend.service/cpu.max");

    put(tree, "/sys/fs/cgroup/system.slice/coordgend.service/memory.high", "209715200\n");
    assert_limits(tree, 200 * MIB, "/sys/fs/cgroup/system.slice/coordgend.service/memory.high", 2,
                  "/sys/fs/cgroup/system.slice/coordgend.service/cpu.max");
}

/* The tightest limit counts, of the cgroup or of an ancestor. */
static void test_machine_limits_ancestors(void **state) {
    Tree *tree = *state;

    put_proc(tree, "0::/a/b/c\n", V2_MOUNT);
    put(tree, "/sys/fs/cgroup/a/memory.max", "104857600\n");
    put(tree, "/sys/fs/cgroup/a/b/memory.max", "max\n");
    put(tree, "/sys/fs/cgroup/a/b/c/memory.max", "314572800\n");
    put(tree, "/sys/fs/cgroup/a/b/cpu.max", "300000 100000\n");
    put(tree, "/sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
    put(tree, "/sys/fs/cgroup/other/memory.max", "1048576\n");
    assert_limits(tree, 100 * MIB, "/sys/fs/cgroup/a/memory.max", 3, "/sys/fs/cgroup/a/b/cpu.max");

    put(tree, "/sys/fs/cgroup/memory.max", "52428800\n"); /* the top of a container's view */
    assert_limits(tree, 50 * MIB, "/sys/fs/cgroup/memory.max", 3, "/sys/fs/cgroup/a/b/cpu.max");
}

static void test_machine_limits_v1(void **state) {
    Tree *tree = *state;

    put_proc(tree, "9:name=systemd:/s\n4:memory:/box/inner\n3:cpu,cpuacct:/box\n2:cpuset:/tight\n",
             V1_MEMORY_MOUNT V1_CPU_MOUNT);
    put(tree, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put(tree, "/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "314572800\n");
    put(tree, "/sys/fs/cgroup/memory/box/inner/memory.limit_in_bytes", "9223372036854771712\n");
    put(tree, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put(tree, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    put(tree, "/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "20000\n");
    put(tree, "/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "50000\n");
    put(tree, "/sys/fs/cgroup/cpuset/tight/cpu.cfs_quota_us", "1\n");
    assert_limits(tree, 300 * MIB, "/sys/fs/cgroup/memory/box/memory.limit_in_bytes", 1,
                  "/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us");

    put(tree, "/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
    assert_limits(tree, 300 * MIB, "/sys/fs/cgroup/memory/box/memory.limit_in_bytes", 0, NULL);
}

/* Memory is limited in v1, processors in the unified hierarchy. */
static void test_machine_limits_hybrid(void **state) {
    Tree *tree = *state;

    put_proc(tree, "4:memory:/box\n0::/unit\n",
             V1_MEMORY_MOUNT "42 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put(tree, "/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "314572800\n");
    put(tree, "/sys/fs/cgroup/unified/unit/cpu.max", "400000 100000\n");
    put(tree, "/sys/fs/cgroup/box/memory.max", "1048576\n");
    assert_limits(tree, 300 * MIB, "/sys/fs/cgroup/memory/box/memory.limit_in_bytes", 4,
                  "/sys/fs/cgroup/unified/unit/cpu.max");
}

/* The mount's top is the container's cgroup, by its name, by another name, or as a namespace shows it. */
static void test_machine_limits_container(void **state) {
    static const char *const cases[][2] = {
        { "0::/docker/0123\n", "50 24 0:30 /docker/0123 /sys/fs/cgroup ro - cgroup2 cgroup ro\n" },
        { "0::/docker/0123\n", "50 24 0:30 / /sys/fs/cgroup ro - cgroup2 cgroup ro\n" },
        { "0::/elsewhere\n", "50 24 0:30 /docker/0123 /sys/fs/cgroup ro - cgroup2 cgroup ro\n" },
        { "0::/docker/01234\n", "50 24 0:30 /docker/0123 /sys/fs/cgroup ro - cgroup2 cgroup ro\n" },
        { "0::/\n", "50 24 0:30 / /sys/fs/cgroup ro - cgroup2 cgroup ro\n" },
        { "0::/../other\n", "50 24 0:30 / /sys/fs/cgroup ro - cgroup2 cgroup ro\n" },
        { "0::/..\n", "50 24 0:30 / /sys/fs/cgroup ro - cgroup2 cgroup ro\n" },
        { "0::/gone (deleted)\n", "50 24 0:30 / /sys/fs/cgroup ro - cgroup2 cgroup ro\n" },
    };
    Tree *tree = *state;

    put(tree, "/sys/fs/cgroup/memory.max", "314572800\n");
    put(tree, "/sys/fs/cgroup/cpu.max", "100001 100000\n");
    put(tree, "/sys/fs/other/memory.max", "1048576\n"); /* target that ".." would lead to */
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        put_proc(tree, cases[i][0], cases[i][1]);
        assert_limits(tree, 300 * MIB, "/sys/fs/cgroup/memory.max", 2, "/sys/fs/cgroup/cpu.max");
    }
}

/* Several mounts, one of which shows the cgroup; a mount point with a blank. */
static void test_machine_limits_mounts(void **state) {
    Tree *tree = *state;

    put_proc(tree, "0::/mine/x:y\n",
             "50 24 0:30 /theirs /theirs rw - cgroup2 none rw\n51 24 0:30 /mine /my\\040own rw - cgroup2 none rw\n");
    put(tree, "/theirs/memory.max", "1048576\n");
    put(tree, "/my own/x:y/memory.max", "314572800\n");
    assert_limits(tree, 300 * MIB, "/my own/x:y/memory.max", 0, NULL);
}

static void test_machine_limits_garbage(void **state) {
    static const char *const memory[] = { "",
                                          "\n",
                                          "none\n",
                                          "-5\n",
                                          "12 13\n",
                                          "0x10\n",
                                          "99999999999999999999999\n",
                                          "1G\n",
                                          " 4096\n",
                                          "18446744073709551615\n",
                                          "2199023255552\n" /* 2 TiB */ };
    static const char *const processors[] = {
        "",
        "max\n",
        "max 100000\n",
        "100000\n",
        "100000 0\n",
        "100000 max\n",
        "-1 100000\n",
        "100000  100000\n",
        "9000000 100000\n" /* more than there are */,
    };
    char line[4096];
    Tree *tree = *state;

    put_proc(tree, "0::/a\n", V2_MOUNT);
    for (size_t i = 0; i < ARRAY_LEN(memory); i++) {
        put(tree, "/sys/fs/cgroup/a/memory.max", memory[i]);
        assert_limits(tree, 0, NULL, 0, NULL);
    }
    for (size_t i = 0; i < ARRAY_LEN(processors); i++) {
        put(tree, "/sys/fs/cgroup/a/cpu.max", processors[i]);
        assert_limits(tree, 0, NULL, 0, NULL);
    }
    memset(line, '1', sizeof(line));
    line[sizeof(line) - 1] = 0;
    put(tree, "/sys/fs/cgroup/a/memory.max", line);
    assert_limits(tree, 0, NULL, 0, NULL);
    put(tree, "/sys/fs/cgroup/a/memory.high", "4096"); /* no end of line: still a number */
    assert_limits(tree, 4096, "/sys/fs/cgroup/a/memory.high", 0, NULL);
}

/* A quota of nothing is one processor; no memory at all is still a limit. */
static void test_machine_limits_least(void **state) {
    Tree *tree = *state;

    put_proc(tree, "0::/a\n", V2_MOUNT);
    put(tree, "/sys/fs/cgroup/a/memory.max", "0\n");
    put(tree, "/sys/fs/cgroup/a/cpu.max", "0 100000\n");
    assert_limits(tree, 0, "/sys/fs/cgroup/a/memory.max", 1, "/sys/fs/cgroup/a/cpu.max");
}

static void test_machine_limits_nothing_there(void **state) {
    static const char *const cgroups[] = { "", "\n", "0\n", "0:\n", "0::\n", "0::relative\n", "garbage", "::::\n" };
    static const char *const mounts[] = { "",
                                          "\n",
                                          "35\n",
                                          "a b c d e f\n",
                                          "35 24 0:30 / /sys/fs/cgroup rw - \n",
                                          "35 24 0:30 / /sys/fs/cgroup rw - cgroup2\n",
                                          "35 24 0:30 / - cgroup2 c rw" };
    Tree *tree = *state;

    assert_limits(tree, 0, NULL, 0, NULL);
    put(tree, "/proc/self/cgroup", "0::/a\n");
    assert_limits(tree, 0, NULL, 0, NULL);
    put(tree, "/sys/fs/cgroup/a/memory.max", "1048576\n");
    for (size_t i = 0; i < ARRAY_LEN(cgroups); i++) {
        put_proc(tree, cgroups[i], V2_MOUNT);
        assert_limits(tree, 0, NULL, 0, NULL);
    }
    for (size_t i = 0; i < ARRAY_LEN(mounts); i++) {
        put_proc(tree, "0::/a\n", mounts[i]);
        assert_limits(tree, 0, NULL, 0, NULL);
    }
}

/* This machine: with any cgroups, not more than it has; affinity counts. */
static void test_machine_limits_here(void **state) {
    MachineLimits machine, ours;
    cpu_set_t all, one;

    machine_limits_of_machine(&machine);
    machine_limits_read(&ours);
    assert_true(machine.memory_bytes > MIB && machine.memory_bytes < UINT64_MAX);
    assert_true(ours.memory_bytes <= machine.memory_bytes);
    assert_int_equal(!*ours.memory_file, ours.memory_bytes == machine.memory_bytes);
    assert_in_range(ours.n_processors, 1, machine.n_processors);
    assert_int_equal(thread_n_processors(), ours.n_processors);

    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    assert_int_equal(machine.n_processors, CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (int i = 0; !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(thread_n_processors(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_machine_limits_unified, tree_new, tree_free),
        cmocka_unit_test_setup_teardown(test_machine_limits_ancestors, tree_new, tree_free),
        cmocka_unit_test_setup_teardown(test_machine_limits_v1, tree_new, tree_free),
        cmocka_unit_test_setup_teardown(test_machine_limits_hybrid, tree_new, tree_free),
        cmocka_unit_test_setup_teardown(test_machine_limits_container, tree_new, tree_free),
        cmocka_unit_test_setup_teardown(test_machine_limits_mounts, tree_new, tree_free),
        cmocka_unit_test_setup_teardown(test_machine_limits_garbage, tree_new, tree_free),
        cmocka_unit_test_setup_teardown(test_machine_limits_least, tree_new, tree_free),
        cmocka_unit_test_setup_teardown(test_machine_limits_nothing_there, tree_new, tree_free),
        cmocka_unit_test(test_machine_limits_here),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
