// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#undef NDEBUG
#include "test/unit/spec/db/draft_db_fixture.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/file_io.h"
#include "spec/db/draft_db_blob.h"
#include "spec/db/draft_db_private.h"
#include "spec/db/draft_db_rows.h"

const uint8_t draft_db_fixture_tokenizer[DRAFT_DB_TOKENIZER_BYTES] = "one table of tokens, its sha256";

void draft_db_fixture_init(DraftDbFixture *fixture) {
    *fixture = (DraftDbFixture){ .top = "/tmp/coordgen-draftdb-XXXXXX", .now_s = DRAFT_DB_FIXTURE_NOW };
    assert(mkdtemp(fixture->top));
    snprintf(fixture->folder, sizeof(fixture->folder), "%s/draftdb", fixture->top);
    snprintf(fixture->path, sizeof(fixture->path), "%s/drafts.db", fixture->folder);
}

static void each_file(const DraftDbFixture *fixture, void (*visit)(void *arg, const char *path), void *arg) {
    DIR *folder = opendir(fixture->folder);
    const struct dirent *entry;

    while (folder && (entry = readdir(folder))) {
        char path[PATH_MAX];

        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        snprintf(path, sizeof(path), "%s/%s", fixture->folder, entry->d_name);
        visit(arg, path);
    }
    if (folder)
        closedir(folder);
}

static void remove_file(void *arg, const char *path) {
    (void)unlink(path);
}

void draft_db_fixture_deinit(DraftDbFixture *fixture) {
    draft_db_fixture_close(fixture);
    each_file(fixture, remove_file, NULL);
    (void)umount(fixture->folder); /* left by a test that has failed */
    (void)rmdir(fixture->folder);
    assert(!rmdir(fixture->top));
}

int draft_db_fixture_setup(void **state) {
    static DraftDbFixture fixture;

    draft_db_fixture_init(&fixture);
    *state = &fixture;
    return 0;
}

int draft_db_fixture_teardown(void **state) {
    draft_db_fixture_deinit(*state);
    return 0;
}

void draft_db_fixture_close(DraftDbFixture *fixture) {
    fixture->db = draft_db_free(fixture->db);
}

DraftClockReading draft_db_fixture_now(const DraftDbFixture *fixture) {
    return (DraftClockReading){ .wall_s = (uint64_t)((int64_t)fixture->now_s + fixture->jump_s),
                                .boot_s = fixture->now_s,
                                .awake_s = fixture->now_s,
                                .boot = { 1, fixture->boot } };
}

int draft_db_fixture_open(DraftDbFixture *fixture) {
    const DraftClockReading now = draft_db_fixture_now(fixture);

    draft_db_fixture_close(fixture);
    fixture->err.text[0] = 0;
    return draft_db_open(&fixture->db, fixture->path, &fixture->limits, &now, &fixture->err);
}

uint32_t *draft_db_fixture_tokens(uint32_t seed, size_t n) {
    uint32_t *tokens = malloc((n + 1) * sizeof(*tokens));
    uint64_t random = seed;

    assert(tokens);
    for (size_t i = 0; i < n; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        tokens[i] = i ? (uint32_t)(random >> 32) : seed;
    }
    return tokens;
}

int draft_db_fixture_add(DraftDbFixture *fixture, uint32_t uid, uint32_t seed, size_t n) {
    _cleanup_(freep) uint32_t *tokens = draft_db_fixture_tokens(seed, n);
    const DraftDbDocument document = {
        .uid = uid, .tokenizer = draft_db_fixture_tokenizer, .tokens = tokens, .n_tokens = n, .n_prompt = n / 2
    };
    const DraftClockReading now = draft_db_fixture_now(fixture);

    fixture->err.text[0] = 0;
    return draft_db_add(fixture->db, &document, &now, &fixture->err);
}

void draft_db_fixture_mark(const DraftDbFixture *fixture, uint32_t uid, uint32_t seed, size_t n,
                           uint8_t mark[DRAFT_DB_FIXTURE_MARK_BYTES]) {
    _cleanup_(freep) uint32_t *tokens = draft_db_fixture_tokens(seed, n);
    const DraftDbDocument document = {
        .uid = uid, .tokenizer = draft_db_fixture_tokenizer, .n_prompt = n / 2, .time_s = fixture->now_s
    };
    _cleanup_(freep) uint8_t *blob = NULL;
    uint8_t owner[DRAFT_DB_OWNER_BYTES];
    size_t blob_bytes;
    int r;

    draft_db_rows_owner(&document, owner);
    r = draft_db_blob_encode(tokens, n, owner, sizeof(owner), &blob, &blob_bytes);
    assert(!r);
    memcpy(mark, blob + 10, DRAFT_DB_FIXTURE_MARK_BYTES);
}

typedef struct Seeds {
    uint32_t *seeds;
    size_t n, max;
    uint32_t uid;
} Seeds;

int draft_db_fixture_whole(void *uidp, const DraftDbDocument *document) {
    _cleanup_(freep) uint32_t *expected = NULL;

    assert(document->uid == *(uint32_t *)uidp && document->n_tokens);
    assert(document->n_prompt == document->n_tokens / 2);
    expected = draft_db_fixture_tokens(document->tokens[0], document->n_tokens);
    assert(!memcmp(document->tokens, expected, document->n_tokens * sizeof(*expected)));
    return 0;
}

static int take_seed(void *arg, const DraftDbDocument *document) {
    Seeds *seeds = arg;

    draft_db_fixture_whole(&seeds->uid, document);
    if (seeds->n < seeds->max)
        seeds->seeds[seeds->n] = document->tokens[0];
    seeds->n++;
    return 0;
}

size_t draft_db_fixture_seeds(DraftDbFixture *fixture, uint32_t uid, uint32_t *list, size_t max) {
    Seeds seeds = { .seeds = list, .max = max, .uid = uid };
    DraftDbRead read;
    int r = draft_db_each(fixture->db, uid, draft_db_fixture_tokenizer, UINT64_MAX, take_seed, &seeds, &read,
                          &fixture->err);

    assert(!r && read.n_documents == seeds.n);
    return seeds.n;
}

typedef struct Search {
    const void *bytes;
    size_t len_bytes;
    bool found;
} Search;

static void search_file(void *arg, const char *path) {
    Search *search = arg;
    _cleanup_(freep) char *data = NULL;
    size_t len_bytes;

    /* Opening and closing a file of this process's SQLite connection drops the connection's locks: the tests that
     * search have no second connection. */
    if (!file_slurp(path, 1u << 30, &data, &len_bytes, NULL) &&
        memmem(data, len_bytes, search->bytes, search->len_bytes))
        search->found = true;
}

bool draft_db_fixture_holds(const DraftDbFixture *fixture, const void *bytes, size_t len_bytes) {
    Search search = { .bytes = bytes, .len_bytes = len_bytes };

    each_file(fixture, search_file, &search);
    return search.found;
}

bool draft_db_fixture_mount(const DraftDbFixture *fixture, unsigned int kib, const char *options) {
    char text[128];

    snprintf(text, sizeof(text), "mode=0700,size=%uk%s", kib, options);
    return (!mkdir(fixture->folder, 0700) || errno == EEXIST) && !mount("none", fixture->folder, "tmpfs", 0, text);
}

void draft_db_fixture_unmount(const DraftDbFixture *fixture) {
    int r = umount(fixture->folder);

    assert(!r);
}

void draft_db_fixture_fill_disk(const DraftDbFixture *fixture) {
    static const char zeros[4096];
    char path[160];
    int fd;

    snprintf(path, sizeof(path), "%s/filler", fixture->folder);
    (void)mkdir(path, 0700); /* where draft_db_fixture_holds() does not look */
    snprintf(path, sizeof(path), "%s/filler/zeros", fixture->folder);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    while (fd >= 0 && write(fd, zeros, sizeof(zeros)) > 0)
        ;
    if (fd >= 0)
        close(fd);
}
