// SPDX-License-Identifier: Apache-2.0
/* A JSON Schema document: its tree, its draft, and where its references point. */
#ifndef COORDGEN_SCHEMA_SOURCE_H
#define COORDGEN_SCHEMA_SOURCE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define SCHEMA_BYTES_MAX (256u << 10)
#define SCHEMA_DEPTH_MAX 128

/* An embedded resource: a schema with an $id of its own, to which references inside of it are relative. */
typedef struct SchemaResource {
    const json_t *root;
    const char *id; /* without the fragment; "": the document has none */
    size_t id_bytes;
} SchemaResource;

typedef struct SchemaPlace {
    const json_t *object;
    size_t resource;
} SchemaPlace;

typedef struct SchemaSource {
    json_t *root;
    bool ref_stands_alone; /* up to draft-07 keywords beside $ref mean nothing */
    bool id_is_plain;      /* draft-04 writes "id" */
    SchemaResource *resources;
    size_t n_resources;
    SchemaPlace *places; /* every object, sorted by address */
    size_t n_places;
} SchemaSource;

/* Parses a document of at most SCHEMA_BYTES_MAX. 0; GRAMMAR_E_SYNTAX: no JSON, or no schema; GRAMMAR_E_TOO_COMPLEX: too
 * large or too deep; GRAMMAR_E_UNSUPPORTED: a draft before 4; -ENOMEM. */
int schema_source_init(SchemaSource *source, const char *text, size_t len_bytes, ErrText *err);
void schema_source_deinit(SchemaSource *source);
/* Returns the schema that a $ref in the schema `from` names; NULL: the document has no such schema. */
const json_t *schema_source_find(const SchemaSource *source, const json_t *from, const char *ref);
/* Writes the JSON pointer ("#/properties/a") of an object of the document into text; "#": the object is none of it. */
void schema_source_pointer(const SchemaSource *source, const json_t *object, char *text, size_t room_bytes);

#endif
