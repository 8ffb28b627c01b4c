// SPDX-License-Identifier: Apache-2.0
/* Images of weights that are compared with the digests of their parts: a changed byte is found before anything is
 * computed with it, mapped or layer by layer. Comparisons are noted, and the next load succeeds. */
#undef NDEBUG
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files/file_io.h"
#include "engine/core/engine_state.h"
#include "test/unit/fixtures/loaded_engine.h"
#include "weights/image/image_compare.h"

typedef float Logits[LOADED_N_TOKENS * LOADED_N_VOCAB];

/* --- the object --------------------------------------------------------------------------------------------------- */

enum {
    N_PARTS = 4,
};

static const char *const texts[N_PARTS] = { "the first", "", "a third one", "and the last" };

static void digest(const char *text, uint8_t sha256[IMAGE_DIGEST_BYTES]) {
    struct sha256_ctx context;

    sha256_init(&context);
    sha256_update(&context, strlen(text), (const uint8_t *)text);
    sha256_digest(&context, IMAGE_DIGEST_BYTES, sha256);
}

static ImageCompare *compare_of(int fd, const ImagePlace *places, size_t first, size_t end, const char *notes) {
    ImageCompare *compare = NULL;

    assert_int_equal(image_compare_new(&compare, fd, places, first, end, notes), 0);
    return compare;
}

static bool all_match(ImageCompare *compare, size_t first, size_t end) {
    for (size_t i = first; i < end; i++)
        if (!image_compare_part(compare, i, texts[i]))
            return false;
    return true;
}

static void test_image_compare_parts(void **state) {
    ImportFixture *fixture = *state;
    ImagePlace places[N_PARTS] = { 0 };
    ImageCompare *compare;
    char path[PATH_MAX];
    int fd;

    for (size_t i = 0; i < N_PARTS; i++) {
        places[i].len_bytes = strlen(texts[i]);
        digest(texts[i], places[i].sha256);
    }
    snprintf(path, sizeof(path), "%s/file", fixture->folder);
    fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    compare = compare_of(fd, places, 0, N_PARTS, NULL);
    assert_true(all_match(compare, 0, N_PARTS));
    assert_true(image_compare_part(compare, 0, texts[3])); /* a part that was compared is not compared again */
    assert_null(image_compare_free(compare));
    compare = compare_of(fd, places, 2, 3, NULL);
    assert_true(image_compare_part(compare, 3, texts[0])); /* parts outside the range are not compared */
    assert_false(image_compare_part(compare, 2, "a thirD one"));
    assert_false(image_compare_part(compare, 2, "a thirD one"));
    assert_true(image_compare_part(compare, 2, texts[2]));
    image_compare_free(compare);
    assert_true(image_compare_part(NULL, 0, "whatever"));
    assert_null(image_compare_free(NULL));
    close(fd);
}

/* A note counts for the parts that were compared, and for this state of the file. */
static void test_image_compare_notes(void **state) {
    ImportFixture *fixture = *state;
    ImagePlace places[N_PARTS] = { 0 };
    char path[PATH_MAX], notes[PATH_MAX];
    ImageCompare *compare;
    int n_tries = 0, fd;

    for (size_t i = 0; i < N_PARTS; i++) {
        places[i].len_bytes = strlen(texts[i]);
        digest(texts[i], places[i].sha256);
    }
    snprintf(path, sizeof(path), "%s/file", fixture->folder);
    snprintf(notes, sizeof(notes), "%s/notes", fixture->folder);
    fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    while ((compare = compare_of(fd, places, 1, 3, notes))) {
        assert_true(++n_tries < 40);
        assert_true(image_compare_part(compare, 1, texts[1]));
        image_compare_free(compare);
        compare = compare_of(fd, places, 1, 3, notes);
        assert_non_null(compare); /* half of the parts are not all */
        assert_true(all_match(compare, 1, 3));
        image_compare_free(compare);
        usleep(300000); /* no note is taken of a file that has just changed */
    }
    assert_true(n_tries > 0);
    compare = compare_of(fd, places, 2, 3, notes);
    assert_null(compare);
    compare = compare_of(fd, places, 1, 4, notes);
    assert_non_null(compare);
    image_compare_free(compare);
    compare = compare_of(fd, places, 0, 3, notes);
    assert_non_null(compare);
    image_compare_free(compare);
    assert_int_equal(write(fd, "x", 1), 1);
    compare = compare_of(fd, places, 2, 3, notes);
    assert_non_null(compare);
    image_compare_free(compare);
    close(fd);
}

/* --- loads -------------------------------------------------------------------------------------------------------- */

/* Flips the lowest bit of the middle byte in the part that lies at a share of all parts. */
static void flip_bit(const char *path, double share) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ImagePlace place;
    ImageHead head;
    off_t at;
    uint8_t byte;

    assert_true(fd >= 0);
    assert_int_equal(file_read_exact(fd, &head, sizeof(head), 0), 0);
    at = (off_t)(sizeof(head) + (size_t)(share * head.n_parts) * sizeof(place));
    assert_int_equal(file_read_exact(fd, &place, sizeof(place), (uint64_t)at), 0);
    at = (off_t)(place.offset_bytes + place.len_bytes / 2);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* Loads and computes. Returns the result, and whether an image was mapped. */
static int run(Loaded *loaded, const char *package, LoadedFlags flags, Logits logits, bool *is_mappedp, ErrText *err) {
    int r = loaded_try(loaded, package, flags, err);

    if (r) {
        loaded_accounts_are_empty(&loaded->accounts);
        return r;
    }
    memset(logits, 0, sizeof(Logits));
    r = loaded_forward(loaded, logits, err);
    *is_mappedp = weights_are_mapped(loaded->engine->weights);
    if (!r)
        assert_int_equal(weights_wait_image(engine_weights(loaded->engine), err), 0);
    loaded_deinit(loaded);
    return r;
}

typedef struct DamageCase {
    bool is_streamed;
    uint32_t percent; /* of the layers in memory */
    double at;        /* of the parts of the image */
} DamageCase;

/* Every reader of the image finds the byte, says where it is, and removes the image; the next load succeeds. */
static void test_image_compare_damage(void **state) {
    static const DamageCase cases[] = { { false, 0, 0.1 }, { false, 0, 0.5 }, { false, 0, 0.999 },
                                        { true, 0, 0.3 },  { true, 0, 0.9 },  { true, 50, 0.9 } };
    static const char *const says[] = { "matrix ", "layer " };
    ImportFixture *fixture = *state;
    char package[PATH_MAX], image[PATH_MAX];
    Logits expected, logits;
    Loaded loaded = { 0 };
    bool is_mapped;
    ErrText err = { 0 };

    loaded_make_package(fixture, 8, false, false, package);
    assert_int_equal(weights_image_path(image, sizeof(image), fixture->cache, package), 0);
    assert_int_equal(run(&loaded, package, 0, expected, &is_mapped, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        loaded = (Loaded){ .image_path = image, .checking = WEIGHTS_CHECKING_NEW, .cache_dir = fixture->cache };
        loaded.weights_memory = (WeightsMemory){ cases[i].is_streamed, true, .percent = cases[i].percent };
        for (int j = 0; j < 2; j++) { /* the image is made, and is as it was made */
            if (run(&loaded, package, j ? LOADED_ARRIVING : 0, logits, &is_mapped, &err))
                fail_msg("%s", err.text);
            assert_memory_equal(logits, expected, sizeof(logits));
            assert_int_equal(is_mapped, j && !cases[i].is_streamed);
        }
        flip_bit(image, cases[i].at);
        assert_int_not_equal(run(&loaded, package, LOADED_ARRIVING, logits, &is_mapped, &err), 0);
        assert_non_null(strstr(err.text, image));
        assert_non_null(strstr(err.text, says[cases[i].is_streamed]));
        assert_non_null(strstr(err.text, "is not as it was written"));
        assert_int_equal(access(image, F_OK), -1);
        assert_int_equal(run(&loaded, package, 0, logits, &is_mapped, &err), 0);
        assert_memory_equal(logits, expected, sizeof(logits));
        assert_int_equal(access(image, F_OK), 0);
        assert_int_equal(unlink(image), 0);
    }
}

/* Layers that stay in memory come from the package: a ring does not compare their parts of the image. */
static void test_image_compare_parts_of_the_ring(void **state) {
    ImportFixture *fixture = *state;
    char package[PATH_MAX], image[PATH_MAX];
    Loaded loaded = { .image_path = image, .checking = WEIGHTS_CHECKING_NEW }; /* no notes are taken */
    Logits expected, logits;
    bool is_mapped;
    ErrText err = { 0 };

    loaded_make_package(fixture, 8, false, false, package);
    assert_int_equal(weights_image_path(image, sizeof(image), fixture->cache, package), 0);
    loaded.weights_memory = (WeightsMemory){ true, true, .percent = 50 };
    assert_int_equal(run(&loaded, package, 0, expected, &is_mapped, &err), 0);
    flip_bit(image, 0.2);
    assert_int_equal(run(&loaded, package, 0, logits, &is_mapped, &err), 0);
    assert_memory_equal(logits, expected, sizeof(logits));
    flip_bit(image, 0.8);
    assert_int_not_equal(run(&loaded, package, 0, logits, &is_mapped, &err), 0);
    /* Without checking nothing is compared. */
    loaded.checking = WEIGHTS_CHECKING_NOTHING;
    assert_int_equal(run(&loaded, package, 0, logits, &is_mapped, &err), 0);
    flip_bit(image, 0.8);
    assert_int_equal(run(&loaded, package, 0, logits, &is_mapped, &err), 0);
    assert_memory_not_equal(logits, expected, sizeof(logits));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_image_compare_parts),
        WITH_FOLDER(test_image_compare_notes),
        WITH_FOLDER(test_image_compare_damage),
        WITH_FOLDER(test_image_compare_parts_of_the_ring),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
