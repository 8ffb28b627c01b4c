// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/text_table.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/min_max.h"
#include "base/strings/decimal.h"
#include "base/strings/utf8.h"

enum {
    GAP = 2,               /* spaces between columns */
    FALLBACK_COLUMNS = 80, /* width if the terminal does not say */
    COLUMNS_MAX = 64,      /* columns of a table; further ones are not shown */
    HEADER_LINES = 2,      /* titles, and the rule below them */
};

typedef struct Cell {
    const char *text;
    size_t n_bytes;
} Cell;

typedef struct TextTable {
    Cell *cells; /* [n_rows][n_columns]; the report owns the texts */
    size_t n_rows, n_columns;
    size_t widths[COLUMNS_MAX];
    bool is_number[COLUMNS_MAX];
    bool is_empty[COLUMNS_MAX]; /* no row has a text in the column, which is then left out */
} TextTable;

static size_t count_characters(const Cell *cell) {
    size_t n = 0;

    for (size_t at = 0; at < cell->n_bytes; n++) {
        const size_t step = utf8_sequence(cell->text + at, cell->n_bytes - at);

        at += step ? step : 1;
    }
    return n;
}

static Cell trimmed(const char *text, const char *end) {
    while (text < end && isspace((unsigned char)*text))
        text++;
    while (end > text && isspace((unsigned char)end[-1]))
        end--;
    return (Cell){ text, (size_t)(end - text) };
}

/* Splits a line "| a | b |" into at most @n cells; the rest of @cells stays empty. Return: how many the line has. */
static size_t split(const char *line, Cell *cells, size_t n) {
    const char *end = line + strcspn(line, "\n"), *at = line + 1;
    size_t count = 0;

    while (at < end) {
        const char *bar = memchr(at, '|', (size_t)(end - at));

        if (!bar)
            break;
        if (count < n)
            cells[count] = trimmed(at, bar);
        count++;
        at = bar + 1;
    }
    return count;
}

static const char *next_line(const char *line) {
    const char *end = strchr(line, '\n');

    return end ? end + 1 : line + strlen(line);
}

static bool starts_number(const Cell *cell) {
    const char *text = cell->text;

    return cell->n_bytes && (isdigit((unsigned char)*text) ||
                             (cell->n_bytes > 1 && (*text == '-' || *text == '+') && isdigit((unsigned char)text[1])));
}

static void measure(TextTable *table) {
    for (size_t column = 0; column < table->n_columns; column++) {
        size_t n_filled = 0, n_numbers = 0;

        for (size_t row = 0; row < table->n_rows; row++) {
            const Cell *cell = &table->cells[row * table->n_columns + column];
            const size_t width = count_characters(cell);

            table->widths[column] = MAX(width, table->widths[column]);
            if (row) {
                n_filled += cell->n_bytes > 0;
                n_numbers += starts_number(cell);
            }
        }
        table->is_number[column] = n_filled == n_numbers;
        table->is_empty[column] = !n_filled && table->n_rows > 1;
    }
}

/* Reads the lines of a table, which begin with a bar. Return: the first line behind it, NULL without memory. */
static const char *table_read(TextTable *table, const char *line) {
    const char *end = line;
    size_t n_lines = 0;

    for (; *end == '|'; end = next_line(end))
        n_lines++;
    table->n_columns = split(line, NULL, 0);
    table->n_columns = MIN(table->n_columns, COLUMNS_MAX);
    table->n_rows = n_lines > HEADER_LINES ? n_lines - 1 : 1; /* without the rule */
    table->cells = calloc(table->n_rows * table->n_columns + 1, sizeof(*table->cells));
    if (!table->cells)
        return NULL;
    for (size_t i = 0, row = 0; i < n_lines && row < table->n_rows; i++, line = next_line(line))
        if (i != 1)
            (void)split(line, table->cells + row++ * table->n_columns, table->n_columns);
    measure(table);
    return end;
}

static void put_spaces(size_t n, FILE *file) {
    while (n--)
        putc(' ', file);
}

/* Prints a cell behind @n_owed spaces that are due. Return: the spaces that are due behind it. */
static size_t put_cell(const TextTable *table, size_t row, size_t column, size_t n_owed, FILE *file) {
    const Cell *cell = &table->cells[row * table->n_columns + column];
    const size_t n_free = table->widths[column] - count_characters(cell);

    if (table->is_empty[column])
        return n_owed;
    if (!cell->n_bytes)
        return n_owed + table->widths[column] + GAP;
    put_spaces(n_owed + (table->is_number[column] ? n_free : 0), file);
    fwrite(cell->text, 1, cell->n_bytes, file);
    return GAP + (table->is_number[column] ? 0 : n_free);
}

/* Prints the first @n_keys columns and those from @begin to before @end. */
static void put_block(const TextTable *table, size_t n_keys, size_t begin, size_t end, FILE *file) {
    for (size_t row = 0; row < table->n_rows; row++) {
        size_t n_owed = 0;

        for (size_t column = 0; column < end; column++)
            if (column < n_keys || column >= begin)
                n_owed = put_cell(table, row, column, n_owed, file);
        putc('\n', file);
    }
}

/* Prints a table in blocks that the width has room for. Each repeats the texts that the rows begin with. */
static void table_print(const TextTable *table, size_t width, FILE *file) {
    size_t n_keys = 0, keys_width = 0;

    while (n_keys < table->n_columns && !table->is_number[n_keys])
        keys_width += table->widths[n_keys++] + GAP;
    for (size_t begin = n_keys, end; begin < table->n_columns || begin == n_keys; begin = end) {
        size_t used = keys_width;

        for (end = begin; end < table->n_columns; end++) {
            if (width && end > begin && !table->is_empty[end] && used + table->widths[end] > width)
                break;
            used += table->is_empty[end] ? 0 : table->widths[end] + GAP;
        }
        if (begin > n_keys)
            putc('\n', file);
        put_block(table, n_keys, begin, end, file);
        if (end == begin)
            break;
    }
}

int text_table_print(const char *markdown, size_t width, FILE *file) {
    for (const char *line = markdown, *next; *line; line = next) {
        if (*line == '|') {
            TextTable table = { 0 };

            next = table_read(&table, line);
            if (!next)
                return -ENOMEM;
            table_print(&table, width, file);
            free(table.cells);
        } else {
            next = next_line(line);
            fwrite(line, 1, (size_t)(next - line), file);
        }
    }
    return 0;
}

size_t text_table_width(FILE *file) {
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    uint64_t n;

    if (!isatty(fileno(file)))
        return 0;
    if (columns && decimal_parse_u64(columns, &n) && n)
        return n;
    return ioctl(fileno(file), TIOCGWINSZ, &size) || !size.ws_col ? FALLBACK_COLUMNS : size.ws_col;
}
