// SPDX-License-Identifier: Apache-2.0
#include "base/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/file_io.h"
#include "base/min_max.h"

#define REDRAW_NS 100000000u     /* ten times a second */
#define PLAIN_NS 10000000000u    /* not on a terminal */
#define RATE_AFTER_NS 300000000u /* earlier rates are noise */
#define BAR_MAX 30
#define LINE_BYTES 320
#define COLUMNS_DEFAULT 80

void progress_init(Progress *progress, int fd) {
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");

    *progress = (Progress){ .fd = fd };
    progress->terminal = isatty(fd) && term && *term && strcmp(term, "dumb");
    progress->colour = progress->terminal && !(no_color && *no_color);
}

/* Returns the unit of both numbers of a pair: the unit of the total. */
static const char *unit_of(uint64_t bytes, double *factorp) {
    *factorp = bytes >= 1000000000 ? 1e-9 : bytes >= 1000000 ? 1e-6 : bytes >= 1000 ? 1e-3 : 1;
    return bytes >= 1000000000 ? "GB" : bytes >= 1000000 ? "MB" : bytes >= 1000 ? "kB" : "B";
}

static void format_left(char *text, size_t room_bytes, double seconds) {
    if (seconds >= 3600 * 99)
        snprintf(text, room_bytes, "--");
    else if (seconds >= 3600)
        snprintf(text, room_bytes, "%d:%02d:%02d", (int)seconds / 3600, (int)seconds / 60 % 60, (int)seconds % 60);
    else
        snprintf(text, room_bytes, "%d:%02d", (int)seconds / 60, (int)seconds % 60);
}

void progress_line(char *line, size_t room_bytes, unsigned int columns, bool colour, const char *stage,
                   uint64_t done_bytes, uint64_t total_bytes, uint64_t moved_bytes, uint64_t elapsed_ns) {
    double share = !total_bytes || done_bytes >= total_bytes ? 1 : (double)done_bytes / (double)total_bytes, factor,
           rate_factor;
    const char *unit = unit_of(total_bytes, &factor), *rate_unit;
    char numbers[128], left[32] = "", bar[BAR_MAX + 1];
    int width, filled;

    snprintf(numbers, sizeof(numbers), "%3d%%  %.1f/%.1f %s", (int)(share * 100), (double)done_bytes * factor,
             (double)total_bytes * factor, unit);
    if (elapsed_ns >= RATE_AFTER_NS && moved_bytes) {
        double rate = (double)moved_bytes * 1e9 / (double)elapsed_ns;
        size_t at = strlen(numbers);

        rate_unit = unit_of((uint64_t)rate, &rate_factor);
        format_left(left, sizeof(left), (double)(total_bytes - MIN(done_bytes, total_bytes)) / rate + 0.5);
        snprintf(numbers + at, sizeof(numbers) - at, "  %.1f %s/s  %s left", rate * rate_factor, rate_unit, left);
    }
    /* The bar gets the rest of the line but its last column, where some terminals wrap. */
    width = (int)columns - 1 - (int)strlen(stage) - (int)strlen(numbers) - 5;
    if (width > BAR_MAX)
        width = BAR_MAX;
    if (width < 5) {
        snprintf(line, room_bytes, "%s %s", stage, numbers);
        if (strlen(line) + 1 > columns && columns && columns <= room_bytes)
            line[columns - 1] = 0;
        return;
    }
    filled = (int)(share * width);
    memset(bar, '#', (size_t)filled);
    memset(bar + filled, '.', (size_t)(width - filled));
    bar[width] = 0;
    if (colour)
        snprintf(line, room_bytes, "%s [\033[32m%.*s\033[0m%s] %s", stage, filled, bar, bar + filled, numbers);
    else
        snprintf(line, room_bytes, "%s [%s] %s", stage, bar, numbers);
}

static unsigned int terminal_columns(int fd) {
    struct winsize size;

    return ioctl(fd, TIOCGWINSZ, &size) || !size.ws_col ? COLUMNS_DEFAULT : size.ws_col;
}

void progress_update(Progress *progress, const char *stage, uint64_t done_bytes, uint64_t total_bytes) {
    uint64_t now = clock_now_ns();
    bool new_stage = !progress->stage || strcmp(progress->stage, stage);
    char line[LINE_BYTES], out[LINE_BYTES + 16];

    if (new_stage) {
        progress->stage = stage;
        progress->stage_begin_ns = now;
        progress->stage_begin_bytes = done_bytes;
    } else if (now - progress->shown_ns < (progress->terminal ? REDRAW_NS : PLAIN_NS)) {
        return;
    }
    progress->shown_ns = now;
    /* Without a terminal there is no width to fill, so no bar. */
    progress_line(line, sizeof(line), progress->terminal ? terminal_columns(progress->fd) : 0, progress->colour, stage,
                  done_bytes, total_bytes, done_bytes - progress->stage_begin_bytes, now - progress->stage_begin_ns);
    if (progress->terminal) {
        snprintf(out, sizeof(out), "\r%s\033[K", line);
        progress->drawn = true;
    } else if (new_stage) {
        snprintf(out, sizeof(out), "%s\n", stage);
    } else {
        snprintf(out, sizeof(out), "%s\n", line);
    }
    (void)file_write_all(progress->fd, out, strlen(out)); /* a line that cannot be shown harms nobody */
}

void progress_end(Progress *progress) {
    static const char clear[] = "\r\033[K";

    if (progress->drawn)
        (void)file_write_all(progress->fd, clear, sizeof(clear) - 1);
    progress->drawn = false;
    progress->stage = NULL;
}
