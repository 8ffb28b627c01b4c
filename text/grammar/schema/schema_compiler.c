// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/schema_compiler.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"

enum {
    BLOCK_BYTES = 64 << 10,
    MEMORY_BYTES_MAX = 16 << 20,
    STEPS_MAX = 400000,
};

struct SchemaBlock {
    SchemaBlock *next;
    size_t used_bytes, room_bytes;
    _Alignas(16) char data[];
};

void *schema_alloc(SchemaCompiler *c, size_t n, size_t item_bytes) {
    size_t len_bytes = (n * item_bytes + 15) & ~(size_t)15;
    SchemaBlock *block = c->blocks;
    void *memory;

    if (c->r || n > MEMORY_BYTES_MAX || c->memory_bytes + len_bytes > MEMORY_BYTES_MAX) {
        if (!c->r)
            c->r = err_set(c->err, GRAMMAR_E_TOO_COMPLEX, "the schema needs more than %d MiB to be translated",
                           MEMORY_BYTES_MAX >> 20);
        return NULL;
    }
    if (!block || block->room_bytes - block->used_bytes < len_bytes) {
        size_t room_bytes = MAX(len_bytes, (size_t)BLOCK_BYTES);

        block = malloc(sizeof(*block) + room_bytes);
        if (!block) {
            c->r = err_no_memory(c->err);
            return NULL;
        }
        *block = (SchemaBlock){ .next = c->blocks, .room_bytes = room_bytes };
        c->blocks = block;
    }
    memory = block->data + block->used_bytes;
    block->used_bytes += len_bytes;
    c->memory_bytes += len_bytes;
    return memset(memory, 0, len_bytes);
}

void *schema_join(SchemaCompiler *c, const void *a, size_t na, const void *b, size_t nb, size_t item_bytes) {
    char *all = na + nb ? schema_alloc(c, na + nb, item_bytes) : NULL;

    if (!all)
        return NULL;
    if (na)
        memcpy(all, a, na * item_bytes);
    if (nb)
        memcpy(all + na * item_bytes, b, nb * item_bytes);
    return all;
}

void schema_compiler_deinit(SchemaCompiler *c) {
    for (size_t i = 0; i < SCHEMA_CONST_BUCKETS; i++)
        for (SchemaConst *one = c->consts[i]; one; one = one->next)
            json_decref(one->schema);
    for (SchemaBlock *block = c->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    c->blocks = NULL;
    memset(c->consts, 0, sizeof(c->consts));
}

bool schema_step(SchemaCompiler *c, uint64_t n) {
    c->fuel += n;
    if (!c->r && c->fuel > STEPS_MAX)
        c->r = err_set(c->err, GRAMMAR_E_TOO_COMPLEX, "the schema has too many combinations of alternatives");
    if (!c->r && grammar_builder_failed(c->builder))
        c->r = err_set(c->err, GRAMMAR_E_TOO_COMPLEX, "the schema becomes too large a grammar");
    return !c->r;
}

void schema_refuse(SchemaCompiler *c, int code, const json_t *schema, const char *keyword, const char *format, ...) {
    char pointer[256], detail[256];
    va_list args;

    if (c->r)
        return;
    va_start(args, format);
    vsnprintf(detail, sizeof(detail), format, args);
    va_end(args);
    schema_source_pointer(c->source, schema, pointer, sizeof(pointer));
    c->r = err_set(c->err, code, "%s: %s: %s", pointer, keyword, detail);
}

bool schema_read_count(SchemaCompiler *c, const json_t *schema, const char *keyword, uint32_t *np) {
    const json_t *value = json_object_get(schema, keyword);
    double number = json_number_value(value);

    if (!value)
        return false;
    if (!json_is_number(value) || !(number >= 0) || number != floor(number)) {
        schema_invalid(c, schema, keyword, "is no whole number from 0 on");
        return false;
    }
    *np = number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
    return true;
}
