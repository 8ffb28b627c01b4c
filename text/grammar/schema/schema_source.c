// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/schema_source.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strings/str_buf.h"
#include "text/grammar/grammar.h"

/* --- the tree ----------------------------------------------------------------------------------------------------- */

static int measure(const json_t *value, size_t depth, size_t *n_objectsp, ErrText *err) {
    const char *key;
    json_t *child;
    size_t i;
    int r = 0;

    if (depth > SCHEMA_DEPTH_MAX)
        return err_set(err, GRAMMAR_E_TOO_COMPLEX, "the schema is nested more than %d deep", SCHEMA_DEPTH_MAX);
    *n_objectsp += json_is_object(value);
    if (json_is_object(value)) {
        json_object_foreach((json_t *)value, key, child) if (!r) r = measure(child, depth + 1, n_objectsp, err);
    } else if (json_is_array(value)) {
        json_array_foreach((json_t *)value, i, child) if (!r) r = measure(child, depth + 1, n_objectsp, err);
    }
    return r;
}

static const char *id_of(const SchemaSource *source, const json_t *object) {
    return json_string_value(json_object_get(object, source->id_is_plain ? "id" : "$id"));
}

/* Values of these keywords are data, in which no schema is looked for. */
static bool is_data(const char *key) {
    return !strcmp(key, "enum") || !strcmp(key, "const") || !strcmp(key, "default") || !strcmp(key, "examples");
}

static void note_places(SchemaSource *source, const json_t *value, size_t resource) {
    const char *key;
    json_t *child;
    size_t i;

    if (json_is_object(value)) {
        const char *id = id_of(source, value);

        if (id && *id != '#' && value != source->root) {
            resource = source->n_resources++;
            source->resources[resource] = (SchemaResource){ value, id, strcspn(id, "#") };
        }
        source->places[source->n_places++] = (SchemaPlace){ value, resource };
        json_object_foreach((json_t *)value, key, child) if (!is_data(key)) note_places(source, child, resource);
    } else if (json_is_array(value)) {
        json_array_foreach((json_t *)value, i, child) note_places(source, child, resource);
    }
}

static int compare_places(const void *a, const void *b) {
    const json_t *first = ((const SchemaPlace *)a)->object, *second = ((const SchemaPlace *)b)->object;

    return first < second ? -1 : first > second;
}

static int read_draft(SchemaSource *source, ErrText *err) {
    const json_t *name = json_object_get(source->root, "$schema");
    const char *text = json_string_value(name);

    if (name && !text)
        return err_set(err, GRAMMAR_E_SYNTAX, "#: $schema is no string");
    if (!text)
        return 0;
    if (strstr(text, "json-schema.org/draft-01") || strstr(text, "json-schema.org/draft-02") ||
        strstr(text, "json-schema.org/draft-03"))
        return err_set(err, GRAMMAR_E_UNSUPPORTED, "#: $schema: drafts before 4 are not supported");
    source->id_is_plain = strstr(text, "json-schema.org/draft-04");
    source->ref_stands_alone =
        source->id_is_plain || strstr(text, "json-schema.org/draft-06") || strstr(text, "json-schema.org/draft-07");
    return 0;
}

int schema_source_init(SchemaSource *source, const char *text, size_t len_bytes, ErrText *err) {
    json_error_t error;
    size_t n_objects = 1;
    const char *id;
    int r;

    *source = (SchemaSource){ 0 };
    if (len_bytes > SCHEMA_BYTES_MAX)
        return err_set(err, GRAMMAR_E_TOO_COMPLEX, "the schema has %zu bytes, more than %u", len_bytes,
                       SCHEMA_BYTES_MAX);
    source->root = json_loadb(text, len_bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!source->root)
        return json_error_code(&error) == json_error_out_of_memory
                   ? err_no_memory(err)
                   : err_set(err, GRAMMAR_E_SYNTAX, "the schema is no JSON that can be used: %s (byte %d)", error.text,
                             error.position);
    if (!json_is_object(source->root) && !json_is_boolean(source->root))
        return err_set(err, GRAMMAR_E_SYNTAX, "#: a schema is an object, true or false");
    r = measure(source->root, 1, &n_objects, err);
    if (!r)
        r = read_draft(source, err);
    if (r)
        return r;
    source->places = calloc(n_objects, sizeof(*source->places));
    source->resources = calloc(n_objects + 1, sizeof(*source->resources));
    if (!source->places || !source->resources)
        return err_no_memory(err);
    id = id_of(source, source->root);
    source->resources[source->n_resources++] =
        (SchemaResource){ source->root, id ? id : "", id ? strcspn(id, "#") : 0 };
    note_places(source, source->root, 0);
    qsort(source->places, source->n_places, sizeof(*source->places), compare_places);
    return 0;
}

void schema_source_deinit(SchemaSource *source) {
    json_decref(source->root);
    free(source->resources);
    free(source->places);
    *source = (SchemaSource){ 0 };
}

/* --- references --------------------------------------------------------------------------------------------------- */

/* Appends the n bytes of a URI fragment, %XX decoded. */
static void decode_percent(StrBuf *out, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        unsigned int byte = 0;

        if (text[i] == '%' && i + 2 < n && strspn(text + i + 1, "0123456789abcdefABCDEF") >= 2) {
            for (size_t k = 1; k <= 2; k++) {
                char digit = text[i + k];

                byte = byte * 16 + (unsigned int)(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
            }
            str_buf_append(out, &(char){ (char)byte }, 1);
            i += 2;
        } else {
            str_buf_append(out, text + i, 1);
        }
    }
}

/* Follows one step of a JSON pointer, which is changed: ~1 and ~0 become / and ~. */
static const json_t *step(const json_t *at, char *name) {
    char *to = name, *end;
    unsigned long index;

    for (const char *from = name; *from; from++) {
        bool is_escape = *from == '~' && (from[1] == '0' || from[1] == '1');

        *to++ = is_escape ? (from[1] == '1' ? '/' : '~') : *from;
        from += is_escape;
    }
    *to = '\0';
    if (json_is_object(at))
        return json_object_get(at, name);
    index = strtoul(name, &end, 10);
    return json_is_array(at) && *name >= '0' && *name <= '9' && !*end ? json_array_get(at, index) : NULL;
}

static const json_t *follow_pointer(const json_t *at, char *pointer) {
    for (char *name = pointer, *next; name && at; name = next) {
        next = strchr(name, '/');
        if (next)
            *next++ = '\0';
        at = step(at, name);
    }
    return at;
}

static size_t resource_of(const SchemaSource *source, const json_t *object) {
    const SchemaPlace key = { object, 0 };
    const SchemaPlace *place = bsearch(&key, source->places, source->n_places, sizeof(*source->places), compare_places);

    return place ? place->resource : 0;
}

static const json_t *find_anchor(const SchemaSource *source, size_t resource, const char *name) {
    for (size_t i = 0; i < source->n_places; i++) {
        const json_t *object = source->places[i].object;
        const char *anchor = json_string_value(json_object_get(object, "$anchor")), *id = id_of(source, object);

        if (source->places[i].resource == resource &&
            ((anchor && !strcmp(anchor, name)) || (id && *id == '#' && !strcmp(id + 1, name))))
            return object;
    }
    return NULL;
}

/* Whether a reference (n bytes, without the fragment) means the resource: its whole id, or its end behind a '/'. */
static bool means(const SchemaResource *resource, const char *ref, size_t n) {
    const char *id = resource->id;
    size_t at = resource->id_bytes - n;

    if (!n || n > resource->id_bytes || memcmp(id + at, ref, n) != 0)
        return false;
    return !at || (ref[0] != '/' && id[at - 1] == '/' && !memchr(ref, '/', n));
}

const json_t *schema_source_find(const SchemaSource *source, const json_t *from, const char *ref) {
    _cleanup_(str_buf_deinit) StrBuf fragment = STR_BUF_NULL;
    size_t n = strcspn(ref, "#"), resource = resource_of(source, from);

    if (n) {
        resource = 0;
        while (resource < source->n_resources && !means(&source->resources[resource], ref, n))
            resource++;
        if (resource == source->n_resources)
            return NULL;
    }
    if (!ref[n] || !ref[n + 1])
        return source->resources[resource].root;
    decode_percent(&fragment, ref + n + 1, strlen(ref + n + 1));
    if (str_buf_failed(&fragment) || !fragment.data)
        return NULL;
    if (fragment.data[0] == '/')
        return follow_pointer(source->resources[resource].root, fragment.data + 1);
    return find_anchor(source, resource, fragment.data);
}

/* --- pointers ----------------------------------------------------------------------------------------------------- */

static bool find_path(const json_t *at, const json_t *wanted, StrBuf *path) {
    size_t len_bytes = path->len_bytes, i;
    const char *key;
    json_t *child;

    if (at == wanted)
        return true;
    if (json_is_object(at)) {
        json_object_foreach((json_t *)at, key, child) {
            str_buf_add(path, "/");
            for (const char *c = key; *c; c++)
                str_buf_addf(path, *c == '~' ? "~0" : *c == '/' ? "~1" : "%c", *c);
            if (find_path(child, wanted, path))
                return true;
            str_buf_truncate(path, len_bytes);
        }
    } else if (json_is_array(at)) {
        json_array_foreach((json_t *)at, i, child) {
            str_buf_addf(path, "/%zu", i);
            if (find_path(child, wanted, path))
                return true;
            str_buf_truncate(path, len_bytes);
        }
    }
    return false;
}

void schema_source_pointer(const SchemaSource *source, const json_t *object, char *text, size_t room_bytes) {
    _cleanup_(str_buf_deinit) StrBuf path = STR_BUF_NULL;
    bool is_found;

    str_buf_add(&path, "#");
    is_found = find_path(source->root, object, &path);
    snprintf(text, room_bytes, "%s", is_found && !str_buf_failed(&path) ? path.data : "#");
}
