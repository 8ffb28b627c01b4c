// SPDX-License-Identifier: Apache-2.0
/* The rule by which an image of weights may be written, by three numbers; what is found of a folder; what people are
 * told. */
#undef NDEBUG
#include <linux/magic.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "weights/image/image_report.h"
#include "weights/image/weights_image_private.h"

#define GB UINT64_C(1000000000)

static void test_image_room_rule(void **state) {
    static const struct {
        ImageRoom room; /* new one, others, free */
        bool optional, asked_for;
    } cases[] = {
        { { 1 * GB, 0, 2 * GB, true, false }, true, true },
        { { 1 * GB + 1, 0, 2 * GB, true, false }, false, false },
        /* Half of 16 GB that would be free without images is 8 GB: 7 GB are there, and one more fits. */
        { { 1 * GB, 7 * GB, 9 * GB, true, false }, true, true },
        { { 1 * GB + 1, 7 * GB, 9 * GB, true, false }, false, true },
        { { 8 * GB, 7 * GB, 9 * GB, true, false }, false, true },
        { { 8 * GB + 1, 7 * GB, 9 * GB, true, false }, false, false },
        /* Images that somebody has asked for take more than half already. */
        { { 1, 9 * GB, 7 * GB, true, false }, false, true },
        { { 8 * GB, 9 * GB, 7 * GB, true, false }, false, false }, /* the image must also fit into what is free */
        { { 0, 0, 0, true, false }, true, true },
        { { UINT64_MAX, UINT64_MAX, UINT64_MAX, true, false }, false, false },
        { { 1, UINT64_MAX, UINT64_MAX - 1, true, false }, false, true },
        { { 1 * GB, 0, 0, false, false }, true, true }, /* a file system that tells nothing */
        { { 1 * GB, 0, 9 * GB, true, true }, false, true },
        { { 1 * GB, 0, 0, false, true }, false, true },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        print_message("case %zu\n", i);
        assert_int_equal(image_room_suffices(&cases[i].room, true), cases[i].optional);
        assert_int_equal(image_room_suffices(&cases[i].room, false), cases[i].asked_for);
    }
}

static void write_file(const char *folder, const char *name, size_t len_bytes) {
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < len_bytes; i++)
        assert_int_equal(fputc('x', file), 'x');
    assert_int_equal(fclose(file), 0);
}

static void check_folder(const char *parent, bool is_memory) {
    char folder[64], command[96];
    ImageRoom room;

    snprintf(folder, sizeof(folder), "%s/coordgen-room-XXXXXX", parent);
    assert_non_null(mkdtemp(folder));
    write_file(folder, "a.cgm-123" IMAGE_SUFFIX, 100000);
    write_file(folder, "b.cgm-456" IMAGE_SUFFIX ".tmp-12345678", 50000);
    write_file(folder, "notes", 400000); /* not an image */
    image_room_find(&room, folder, 12345);
    assert_int_equal(room.len_bytes, 12345);
    assert_true(room.others_bytes >= 150000 && room.others_bytes < 400000);
    assert_true(room.is_known && room.free_bytes > 0);
    assert_int_equal(room.is_memory, is_memory);
    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
    image_room_find(&room, folder, 1); /* the folder is gone: its room is unknown, and writing will show */
    assert_true(!room.is_known && !room.others_bytes && !room.is_memory);
}

static void test_image_room_folder(void **state) {
    struct statfs fs;

    assert_int_equal(statfs("/tmp", &fs), 0);
    check_folder("/tmp", fs.f_type == TMPFS_MAGIC);
    if (statfs("/dev/shm", &fs) || fs.f_type != TMPFS_MAGIC || access("/dev/shm", W_OK)) {
        print_message("left out: no file system in memory at /dev/shm\n");
        skip();
    }
    check_folder("/dev/shm", true);
}

static void test_image_report_text(void **state) {
    static const struct {
        ImageReport report;
        bool with_disk;
        const char *text;
    } cases[] = {
        { { .state = IMAGE_NONE, .len_bytes = GB }, true, "" },
        { { .state = IMAGE_MAPPED, .len_bytes = 1704600000 }, true, "mapped, 1705 MB" },
        { { .state = IMAGE_STREAMED }, true, "layers are read from it" },
        { { .state = IMAGE_WRITING, .len_bytes = GB, .written_bytes = 40000000 },
          false,
          "being written, 40 of 1000 MB" },
        { { .state = IMAGE_WRITTEN, .len_bytes = GB }, false, "written, 1000 MB: the next load maps it" },
        { { .state = IMAGE_NO_ROOM, .len_bytes = GB, .room = { GB, 2 * GB, 3 * GB, true, false } },
          true,
          "none: it needs 1000 MB, and the disk has 3000 MB free beside 2000 MB of images, which take half at most" },
        { { .state = IMAGE_NO_ROOM, .len_bytes = GB, .room = { GB, 2 * GB, 3 * GB, true, false } },
          false,
          "none: the disk has no room for it" },
        { { .state = IMAGE_NO_ROOM, .room = { .is_memory = true } },
          true,
          "none: the cache folder is in memory, no disk" },
        { { .state = IMAGE_FAILED, .result = -28 }, false, "none: it could not be written: No space left on device" },
    };
    char text[256], narrow[8];

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        image_report_text(&cases[i].report, cases[i].with_disk, text, sizeof(text));
        assert_string_equal(text, cases[i].text);
    }
    image_report_text(&cases[1].report, true, narrow, sizeof(narrow));
    assert_string_equal(narrow, "mapped,");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_image_room_rule),
        cmocka_unit_test(test_image_room_folder),
        cmocka_unit_test(test_image_report_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
