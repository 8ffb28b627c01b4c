// SPDX-License-Identifier: Apache-2.0
/* Tests the file of an early-exit predictor. A written file is read. A file of another package or version, too long,
 * too short, or changed in any byte is refused by name, and nothing stays charged. */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/f16.h"
#include "tools/exit/exit_map.h"

enum {
    N_EMBD = 12,
    FILE_BYTES = EXIT_MAP_HEAD_BYTES + N_EMBD * 4 + N_EMBD * N_EMBD * 2 + 64
};

static const char package[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static const ExitMapModel model = { package, N_EMBD, 30 };
static AccountTable accounts;
static char path[4096];
static float bias[N_EMBD];
static uint16_t values[N_EMBD * N_EMBD];

static int setup(void **state) {
    static char folder[] = "/tmp/coordgen-exit-XXXXXX";

    assert_non_null(mkdtemp(folder));
    account_table_init(&accounts);
    snprintf(path, sizeof(path), "%s/model.cgm.exit", folder);
    *state = folder;
    return 0;
}

static int teardown(void **state) {
    unlink(path);
    return rmdir(*state);
}

static ExitMap example(void) {
    ExitMap map = {
        .n_embd = N_EMBD, .n_layers = 30, .layer = 14, .by_q = 1.5F, .by_share = 0.5F, .offset = -0.25F, .tau = 2
    };

    for (uint32_t i = 0; i < N_EMBD; i++)
        bias[i] = (float)i / 8;
    for (uint32_t i = 0; i < N_EMBD * N_EMBD; i++)
        values[i] = f32_to_f16((float)i / 64 - 1);
    for (uint32_t i = 0; i < _EXIT_QUALITY_N; i++)
        map.quality[i] = (float)i / 10;
    memcpy(map.package_sha256, package, sizeof(package));
    map.bias = bias;
    map.map = values;
    return map;
}

static void write_example(void) {
    const ExitMap map = example();

    assert_int_equal(exit_map_write(&map, path, NULL), 0);
}

static int read_back(ExitMap *map, const ExitMapModel *of, ErrText *err) {
    const int r = exit_map_read(map, &accounts, path, of, err);

    if (r) {
        assert_non_null(strstr(err->text, "model.cgm.exit"));
        assert_int_equal(accounts.used_bytes[ACCOUNT_WEIGHTS], 0);
    }
    return r;
}

/* Bytes of the file, with the right checksum. */
static void write_bytes(const uint8_t *data, size_t len_bytes, bool seal) {
    FILE *file = fopen(path, "we");
    char sha256[SHA256_HEX_BYTES];

    assert_non_null(file);
    sha256_hex(data, len_bytes - 64, sha256);
    assert_int_equal(fwrite(data, 1, len_bytes - 64, file), len_bytes - 64);
    assert_int_equal(fwrite(seal ? (const void *)sha256 : data + len_bytes - 64, 1, 64, file), 64);
    assert_int_equal(fclose(file), 0);
}

static void load_bytes(uint8_t data[FILE_BYTES]) {
    FILE *file;

    write_example();
    file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fread(data, 1, FILE_BYTES, file), FILE_BYTES);
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
}

static void test_exit_map_round(void **state) {
    const ExitMap wrote = example();
    ExitMap map;
    ErrText err;

    write_example();
    assert_int_equal(read_back(&map, &model, &err), 0);
    assert_int_equal(map.layer, 14);
    assert_true(map.by_q == 1.5F && map.by_share == 0.5F && map.offset == -0.25F && map.tau == 2);
    assert_memory_equal(map.quality, wrote.quality, sizeof(map.quality));
    assert_memory_equal(map.bias, bias, sizeof(bias));
    assert_memory_equal(map.map, values, sizeof(values));
    assert_string_equal(map.package_sha256, package);
    assert_int_equal(accounts.used_bytes[ACCOUNT_WEIGHTS], map.block.bill.bytes);
    assert_true(map.block.len_bytes >= FILE_BYTES);
    exit_map_deinit(&map);
    assert_int_equal(accounts.used_bytes[ACCOUNT_WEIGHTS], 0);
}

static void test_exit_map_foreign(void **state) {
    char other[sizeof(package)];
    ExitMapModel of = model;
    ExitMap map;
    ErrText err;

    write_example();
    memcpy(other, package, sizeof(package));
    other[63] = '0';
    of.package_sha256 = other;
    assert_int_equal(read_back(&map, &of, &err), EXIT_MAP_E_FOREIGN);
    of.package_sha256 = "";
    assert_int_equal(read_back(&map, &of, &err), EXIT_MAP_E_FOREIGN);
    of = (ExitMapModel){ package, N_EMBD + 1, 30 };
    assert_int_equal(read_back(&map, &of, &err), EXIT_MAP_E_FOREIGN);
    of = (ExitMapModel){ package, N_EMBD, 31 };
    assert_int_equal(read_back(&map, &of, &err), EXIT_MAP_E_FOREIGN);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(read_back(&map, &model, &err), EXIT_MAP_E_NONE);
    assert_int_equal(mkfifo(path, 0600), 0); /* must not be waited for */
    assert_int_equal(read_back(&map, &model, &err), EXIT_MAP_E_DAMAGED);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(read_back(&map, &model, &err), EXIT_MAP_E_DAMAGED);
    assert_int_equal(rmdir(path), 0);
}

static void test_exit_map_damaged(void **state) {
    uint8_t data[FILE_BYTES + 1] = { 0 };
    ExitMap map;
    ErrText err;

    load_bytes(data);
    for (size_t at = 0; at < FILE_BYTES; at++) { /* every byte matters */
        data[at] ^= 1;
        write_bytes(data, FILE_BYTES, false);
        assert_true(read_back(&map, &model, &err) > 0);
        data[at] ^= 1;
    }
    for (size_t len_bytes = 64; len_bytes < FILE_BYTES; len_bytes += 37) {
        write_bytes(data, len_bytes, false);
        assert_int_equal(read_back(&map, &model, &err), EXIT_MAP_E_DAMAGED);
        write_bytes(data, len_bytes, true);
        assert_int_equal(read_back(&map, &model, &err), EXIT_MAP_E_DAMAGED);
    }
    write_bytes(data, FILE_BYTES + 1, true);
    assert_int_equal(read_back(&map, &model, &err), EXIT_MAP_E_DAMAGED);
}

/* Values that no training writes, with the right checksum. */
static void test_exit_map_hostile(void **state) {
    static const struct {
        size_t at;
        uint32_t value;
        int r;
    } cases[] = {
        { 8, 1, EXIT_MAP_E_FOREIGN },  /* version */
        { 12, 0, EXIT_MAP_E_DAMAGED }, /* n_embd */
        { 12, 0x80000000, EXIT_MAP_E_DAMAGED },
        { 16, 14, EXIT_MAP_E_DAMAGED }, /* n_layers: the exit is behind the last layer */
        { 20, 0, EXIT_MAP_E_DAMAGED },  /* layer */
        { 20, 30, EXIT_MAP_E_DAMAGED },
        { 24, 0x7fc00000, EXIT_MAP_E_DAMAGED }, /* by_q: NaN */
        { 24, 0xbf800000, EXIT_MAP_E_DAMAGED }, /* -1 */
        { 28, 0xbf800000, EXIT_MAP_E_DAMAGED }, /* by_share */
        { 32, 0x7fc00000, EXIT_MAP_E_DAMAGED }, /* offset */
        { 32, 0xff800000, EXIT_MAP_E_DAMAGED },
        { 36, 0, EXIT_MAP_E_DAMAGED }, /* tau */
        { 36, 0x7f800000, EXIT_MAP_E_DAMAGED },
        { EXIT_MAP_HEAD_BYTES, 0x7f800000, EXIT_MAP_E_DAMAGED },
        { EXIT_MAP_HEAD_BYTES + 4 * N_EMBD + 8, 0x7c00, EXIT_MAP_E_DAMAGED },
        { EXIT_MAP_HEAD_BYTES + 4 * N_EMBD + 8, 0xffff0000, EXIT_MAP_E_DAMAGED },
    };
    ExitMap map;
    ErrText err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint8_t data[FILE_BYTES];

        load_bytes(data);
        memcpy(data + cases[i].at, &cases[i].value, 4);
        write_bytes(data, FILE_BYTES, true);
        assert_int_equal(read_back(&map, &model, &err), cases[i].r);
    }
}

static void test_exit_map_memory(void **state) {
    ExitMap map;
    ErrText err;

    write_example();
    accounts.limit_bytes[ACCOUNT_WEIGHTS] = FILE_BYTES - 1;
    assert_int_equal(read_back(&map, &model, &err), EXIT_MAP_E_MEMORY);
    accounts.limit_bytes[ACCOUNT_WEIGHTS] = UINT64_MAX;
    assert_int_equal(read_back(&map, &model, &err), 0);
    exit_map_deinit(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_map_round),   cmocka_unit_test(test_exit_map_foreign),
        cmocka_unit_test(test_exit_map_damaged), cmocka_unit_test(test_exit_map_hostile),
        cmocka_unit_test(test_exit_map_memory),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
