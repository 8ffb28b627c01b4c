// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <wchar.h>

#include "base/min_max.h"
#include "base/strings/byte_text.h"
#include "base/strings/decimal.h"
#include "base/strings/utf8.h"
#include "client/ctl/ctl.h"

/* Returns the length of an unsafe sequence at the start of the text: C0 except newline and tab, DEL, C1 (U+0080 to
 * U+009F, two bytes in UTF-8), and bytes that are no UTF-8, because a terminal may read a lone 0x9b as the start of a
 * command. 0: the first *safe_bytesp bytes are safe. */
static size_t unsafe_len(const unsigned char *text, size_t left_bytes, size_t *safe_bytesp) {
    size_t n = utf8_sequence(text, left_bytes);
    bool is_unsafe = n == 1 ? (text[0] < 0x20 && text[0] != '\n' && text[0] != '\t') || text[0] == 0x7f
                            : n == 2 && text[0] == 0xc2 && text[1] < 0xa0;

    *safe_bytesp = n;
    return !n ? 1 : is_unsafe ? n : 0;
}

void ctl_put(FILE *out, const char *text, size_t len_bytes, bool tty) {
    const unsigned char *at = (const unsigned char *)text;

    if (!tty) {
        fwrite(text, 1, len_bytes, out);
        return;
    }
    for (size_t i = 0; i < len_bytes;) {
        size_t n_safe, n = unsafe_len(at + i, len_bytes - i, &n_safe);

        if (!n)
            fwrite(at + i, 1, n_safe, out);
        i += n ? n : n_safe;
    }
}

void ctl_put_text(FILE *out, const char *text, bool tty) {
    ctl_put(out, text, strlen(text), tty);
}

void ctl_put_escaped(FILE *out, const char *bytes, size_t len_bytes) {
    const unsigned char *at = (const unsigned char *)bytes;

    for (size_t i = 0; i < len_bytes;) {
        size_t n_safe, n = unsafe_len(at + i, len_bytes - i, &n_safe);

        if (at[i] == '\n' || at[i] == '\t' || at[i] == '\\') {
            fputs(at[i] == '\n' ? "\\n" : at[i] == '\t' ? "\\t" : "\\\\", out);
            i++;
        } else if (n) {
            for (; n; n--)
                fprintf(out, "\\x%02x", at[i++]);
        } else {
            fwrite(at + i, 1, n_safe, out);
            i += n_safe;
        }
    }
}

char *ctl_bytes_text(char *room, size_t room_bytes, uint64_t len_bytes) {
    ByteText text;

    snprintf(room, room_bytes, "%s", byte_text(&text, len_bytes));
    return room;
}

char *ctl_count_text(char *room, size_t room_bytes, uint64_t count) {
    if (count >= 1000000000)
        snprintf(room, room_bytes, "%.2f G", (double)count / 1e9);
    else if (count >= 1000000)
        snprintf(room, room_bytes, "%.1f M", (double)count / 1e6);
    else
        snprintf(room, room_bytes, "%" PRIu64, count);
    return room;
}

char *ctl_duration_text(char *room, size_t room_bytes, uint64_t us) {
    uint64_t seconds = us / 1000000;

    if (us < 1000)
        snprintf(room, room_bytes, "%" PRIu64 " us", us);
    else if (us < 1000000)
        snprintf(room, room_bytes, "%.1f ms", (double)us / 1e3);
    else if (seconds < 60)
        snprintf(room, room_bytes, "%.2f s", (double)us / 1e6);
    else if (seconds < 3600)
        snprintf(room, room_bytes, "%" PRIu64 " min %" PRIu64 " s", seconds / 60, seconds % 60);
    else if (seconds < 86400)
        snprintf(room, room_bytes, "%" PRIu64 " h %" PRIu64 " min", seconds / 3600, seconds / 60 % 60);
    else
        snprintf(room, room_bytes, "%" PRIu64 " days %" PRIu64 " h", seconds / 86400, seconds / 3600 % 24);
    return room;
}

unsigned ctl_columns(int fd) {
    const char *given = getenv("COLUMNS");
    struct winsize size = { 0 };
    uint64_t columns;

    if (given && decimal_parse_u64(given, &columns) && columns && columns <= UINT16_MAX)
        return (unsigned)columns;
    return !ioctl(fd, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : 80;
}

/* Returns the bytes of a line that fit into `columns`, by the widths of its characters. */
static size_t fitting_bytes(const char *line, size_t len_bytes, unsigned columns) {
    mbstate_t shift = { 0 };
    size_t at = 0;

    while (at < len_bytes) {
        wchar_t c;
        const size_t n = mbrtowc(&c, line + at, len_bytes - at, &shift);
        const int width = n && n <= len_bytes - at ? wcwidth(c) : 1;

        if (width > 0 && (unsigned)width > columns)
            break;
        columns -= width > 0 ? (unsigned)width : 0;
        if (!n || n > len_bytes - at)
            shift = (mbstate_t){ 0 };
        at += n && n <= len_bytes - at ? n : 1;
    }
    return at;
}

void ctl_put_lines(FILE *out, const char *text, unsigned columns) {
    while (*text) {
        const size_t len_bytes = strcspn(text, "\n");

        fwrite(text, 1, fitting_bytes(text, len_bytes, columns), out);
        fputc('\n', out);
        text += len_bytes + (text[len_bytes] == '\n');
    }
}

static bool progress_wanted(const Ctl *ctl) {
    return ctl->err_tty && !ctl->quiet;
}

/* Prints "\r" and "erase to the end of the line" of ECMA-48, which every terminal since the VT100 knows. */
void ctl_progress_clear(Ctl *ctl) {
    if (ctl->progress_drawn)
        fputs("\r\033[K", stderr);
    ctl->progress_drawn = false;
}

void ctl_progress_line(Ctl *ctl, const char *format, ...) {
    char line[256];
    va_list args;

    if (!progress_wanted(ctl))
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    fprintf(stderr, "\r\033[K%.*s", UTF8_PREFIX(line, (size_t)ctl_columns(STDERR_FILENO) - 1));
    fflush(stderr);
    ctl->progress_drawn = true;
}

void ctl_progress_queued(Ctl *ctl, uint32_t position) {
    if (position == 1)
        ctl_progress_line(ctl, "waiting: this is the next");
    else
        ctl_progress_line(ctl, "waiting: %u before this one", position - 1);
}

void ctl_progress(Ctl *ctl, const char *what, double share, double eta_seconds) {
    char bar[41], eta[48] = "", time_text[32];
    unsigned n_full;

    if (!progress_wanted(ctl))
        return;
    share = share < 0 ? 0 : MIN(1, share);
    n_full = (unsigned)(share * (sizeof(bar) - 1));
    for (unsigned i = 0; i < sizeof(bar) - 1; i++)
        bar[i] = i < n_full ? '#' : '.';
    bar[sizeof(bar) - 1] = 0;
    if (eta_seconds >= 0 && eta_seconds < 1e7)
        snprintf(eta, sizeof(eta), " %s left",
                 ctl_duration_text(time_text, sizeof(time_text), (uint64_t)(eta_seconds + 0.5) * 1000000));
    ctl_progress_line(ctl, "%-12s [%s] %3.0f %%%s", what, bar, share * 100, eta);
}
