// SPDX-License-Identifier: Apache-2.0
#include "gateway/access/token_set.h"

#include <fcntl.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file_io.h"

enum {
    TOKENS_MAX = 64,
    TOKEN_BYTES_MIN = 16, /* less could be guessed */
    TOKEN_BYTES_MAX = 512,
    FILE_BYTES_MAX = TOKENS_MAX * (TOKEN_BYTES_MAX + 2),
};

struct TokenSet {
    uint8_t digests[TOKENS_MAX][SHA256_DIGEST_SIZE];
    size_t n;
};

static void digest_of(const char *token, size_t len_bytes, uint8_t digest[SHA256_DIGEST_SIZE]) {
    struct sha256_ctx context;

    sha256_init(&context);
    sha256_update(&context, len_bytes, (const uint8_t *)token);
    sha256_digest(&context, SHA256_DIGEST_SIZE, digest);
}

/* Whether only the owner can use a file. systemd's credentials (LoadCredential=) are root's, and an entry of an access
 * control list for the service's user shows as the right of root's group to read. */
static bool is_private(const struct stat *info) {
    const mode_t others = info->st_mode & 077;

    return !others || (!info->st_uid && !info->st_gid && others == 040);
}

static int check_file(int fd, const char *path, ErrText *err) {
    struct stat info;

    if (fstat(fd, &info) < 0)
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return err_set(err, TOKEN_E_FILE, "%s: is not a file: write the tokens into one", path);
    if (info.st_uid != geteuid() && info.st_uid)
        return err_set(err, TOKEN_E_FILE, "%s: belongs to the user %u: its owner must be you or root", path,
                       (unsigned int)info.st_uid);
    if (!is_private(&info))
        return err_set(err, TOKEN_E_FILE, "%s: has the mode %04o, so others can use it: chmod 600 %s", path,
                       (unsigned int)(info.st_mode & 07777), path);
    return 0;
}

/* Adds a token. The text of an error names the line, never the token. */
static int add(TokenSet *set, const char *token, size_t len_bytes, const char *path, unsigned int line, ErrText *err) {
    if (len_bytes < TOKEN_BYTES_MIN || len_bytes > TOKEN_BYTES_MAX)
        return err_set(err, TOKEN_E_FILE, "%s:%u: a token has %d to %d characters: make one by 'openssl rand -hex 32'",
                       path, line, TOKEN_BYTES_MIN, TOKEN_BYTES_MAX);
    for (size_t i = 0; i < len_bytes; i++)
        if (token[i] <= ' ' || token[i] > '~')
            return err_set(err, TOKEN_E_FILE, "%s:%u: a token has ASCII characters only, and no space", path, line);
    if (set->n == TOKENS_MAX)
        return err_set(err, TOKEN_E_FILE, "%s:%u: more than %d tokens: remove some", path, line, TOKENS_MAX);
    digest_of(token, len_bytes, set->digests[set->n++]);
    return 0;
}

static int add_all(TokenSet *set, const char *text, const char *path, ErrText *err) {
    int r = 0;

    for (unsigned int line = 1; !r && *text; line++) {
        const size_t len_bytes = strcspn(text, "\n");
        const size_t end_bytes = len_bytes && text[len_bytes - 1] == '\r' ? len_bytes - 1 : len_bytes;

        if (end_bytes)
            r = add(set, text, end_bytes, path, line, err);
        text += len_bytes + (text[len_bytes] == '\n');
    }
    return r ? r : set->n ? 0 : err_set(err, TOKEN_E_FILE, "%s: has no token: write one, or one a line", path);
}

int token_set_read(TokenSet **setp, const char *path, ErrText *err) {
    _cleanup_(token_set_freep) TokenSet *set = calloc(1, sizeof(*set));
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *text = NULL;
    size_t len_bytes;
    int r;

    if (!set)
        return err_no_memory(err);
    if (fd < 0)
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    r = check_file(fd, path, err);
    if (!r)
        r = file_slurp_fd(fd, path, FILE_BYTES_MAX, &text, &len_bytes, err);
    if (r)
        return r;
    r = strlen(text) == len_bytes
            ? add_all(set, text, path, err)
            : err_set(err, TOKEN_E_FILE, "%s: has a NUL: a token has ASCII characters only", path);
    explicit_bzero(text, len_bytes);
    free(text);
    if (!r)
        *setp = steal(&set);
    return r;
}

TokenSet *token_set_free(TokenSet *set) {
    free(set);
    return NULL;
}

bool token_set_has(const TokenSet *set, const char *token) {
    uint8_t digest[SHA256_DIGEST_SIZE];
    int found = 0;

    digest_of(token, strlen(token), digest);
    for (size_t i = 0; i < set->n; i++)
        found |= memeql_sec(digest, set->digests[i], SHA256_DIGEST_SIZE);
    return found;
}
