// SPDX-License-Identifier: Apache-2.0
/* Checks that the suite for devices can fail. Devices with one planted fault each are caught by the check for it, with
 * a message that names the error. Every check catches at least one fault. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/system/cpu.h"
#include "engine/engine.h"
#include "test/device/allocation_wrap.h"
#include "test/device/planted_faults.h"
#include "test/device/toy_device.h"

enum {
    SAID_MAX = 65536,
};

static const DeviceUnderTest cpu_device = {
    .name = "cpu",
    .takes = DEVICE_TAKES_PACKAGES,
    .is_int8 = true,
    .row_error = 1e-6,
    .attention_error = 0.03,
    .is_balanced = true,
};

/* Runs one check in this process; returns its number of failures. */
static int run_check(const PlantedFault *fault) {
    DeviceUnderTest sound = fault->on_cpu ? cpu_device : toy_device, device;
    DeviceSuite suite = { .dut = &device };

    if (fault->on_cpu) {
        sound.device = *engine_device(ENGINE_DEVICE_CPU);
        sound.cpu = cpu_features();
    }
    device = planted_device(&sound, fault);
    return device_suite_run_one(&suite, fault->check);
}

/* Runs a check in a process of its own, which may crash; stores its output in `said`. Returns its status. */
static int run_apart(const PlantedFault *fault, char *said) {
    size_t n = 0;
    int pipe_fds[2], status;
    ssize_t n_read;
    pid_t pid;

    assert_int_equal(pipe(pipe_fds), 0);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        dup2(pipe_fds[1], STDOUT_FILENO);
        dup2(pipe_fds[1], STDERR_FILENO);
        close(pipe_fds[0]);
        status = run_check(fault);
        fflush(NULL);
        _exit(status);
    }
    close(pipe_fds[1]);
    do {
        n_read = read(pipe_fds[0], said + n, SAID_MAX - 1 - n);
        n += n_read > 0 ? (size_t)n_read : 0;
    } while (n_read > 0 && n < SAID_MAX - 1);
    said[n] = 0;
    close(pipe_fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void test_device_faults_are_caught(void **state) {
    static char said[SAID_MAX];
    size_t n_missed = 0;

    for (size_t i = 0; i < planted_faults_n; i++) {
        const PlantedFault *fault = &planted_faults[i];
        const int status = run_apart(fault, said);

        if (WIFEXITED(status) && WEXITSTATUS(status) == 1 && strstr(said, fault->says))
            continue;
        print_message("%s: %s ends with %d and says:\n%s\n", fault->name, fault->check, status, said);
        n_missed++;
    }
    assert_int_equal(n_missed, 0);
}

static void test_device_faults_of_every_check(void **state) {
    for (size_t c = 0; c < device_checks_n; c++) {
        size_t n = 0;

        for (size_t i = 0; i < planted_faults_n; i++)
            n += !strcmp(planted_faults[i].check, device_checks[c].name);
        if (!n)
            fail_msg("no fault shows that the check '%s' can fail", device_checks[c].name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device_faults_are_caught),
        cmocka_unit_test(test_device_faults_of_every_check),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
