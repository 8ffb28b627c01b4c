// SPDX-License-Identifier: Apache-2.0
/* type, const, enum, and the keywords of numbers and strings. */
#include "text/grammar/schema/schema_keywords.h"

#include <string.h>

#include "base/cleanup.h"
#include "text/grammar/schema/schema_containers.h"

/* --- type --------------------------------------------------------------------------------------------------------- */

static const SchemaNumber whole_number = { .kind = SCHEMA_NUMBER_WHOLE };
static const SchemaNumber fraction_number = { .kind = SCHEMA_NUMBER_FRACTION };

static bool add_type(SchemaSet *set, const char *name) {
    const SchemaSet any = schema_set_any();
    bool has_all_numbers = set->n_numbers && schema_number_is_any(set->numbers);

    if (!strcmp(name, "null")) {
        set->plain |= SCHEMA_VALUE_NULL;
    } else if (!strcmp(name, "boolean")) {
        set->plain |= SCHEMA_VALUE_TRUE | SCHEMA_VALUE_FALSE;
    } else if (!strcmp(name, "string")) {
        set->text = any.text;
    } else if (!strcmp(name, "number") || (!strcmp(name, "integer") && !has_all_numbers)) {
        set->numbers = *name == 'n' ? any.numbers : &whole_number;
        set->n_numbers = 1;
    } else if (!strcmp(name, "array")) {
        set->arrays = any.arrays;
        set->n_arrays = any.n_arrays;
    } else if (!strcmp(name, "object")) {
        set->objects = any.objects;
        set->n_objects = any.n_objects;
    } else {
        return !strcmp(name, "integer");
    }
    return true;
}

/* The types that a set of whole types lacks. */
static SchemaSet other_types(const SchemaSet *set) {
    SchemaSet other = schema_set_any();

    other.plain &= ~set->plain;
    if (set->n_numbers) {
        other.numbers = &fraction_number;
        other.n_numbers = set->numbers == &whole_number;
    }
    if (schema_text_is_any(&set->text))
        other.text = (SchemaText){ 0 };
    if (set->n_arrays)
        other.n_arrays = 0;
    if (set->n_objects)
        other.n_objects = 0;
    return other;
}

bool schema_expand_type(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set) {
    const json_t *type = json_object_get(schema, "type");
    size_t n = json_is_array(type) ? json_array_size(type) : 1;

    if (!type)
        return false;
    *set = (SchemaSet){ 0 };
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_is_array(type) ? json_array_get(type, i) : type);

        if (!name || !add_type(set, name))
            schema_invalid(c, schema, "type", "'%.40s' is no type", name ? name : "(no string)");
    }
    if (is_negated)
        *set = other_types(set);
    return true;
}

/* --- const and enum ----------------------------------------------------------------------------------------------- */

/* Returns {"properties": {KEY: {"const": ...}}, "required": [...], ...} of an object, or the like of an array. */
static json_t *describe(const json_t *value) {
    json_t *parts = json_is_object(value) ? json_object() : json_array(), *required = json_array(), *item;
    const char *key;
    size_t i;
    int r = 0;

    if (json_is_object(value)) {
        json_object_foreach((json_t *)value, key, item) {
            r |= json_object_set_new(parts, key, json_pack("{s:O}", "const", item));
            r |= json_array_append_new(required, json_string(key));
        }
        return r ? NULL
                 : json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties", parts, "required", required,
                             "additionalProperties", 0);
    }
    json_decref(required);
    json_array_foreach((json_t *)value, i, item) r |= json_array_append_new(parts, json_pack("{s:O}", "const", item));
    return r ? NULL
             : json_pack("{s:s, s:o, s:b, s:I}", "type", "array", "prefixItems", parts, "items", 0, "minItems",
                         (json_int_t)json_array_size(value));
}

static const json_t *schema_of(SchemaCompiler *c, const json_t *value) {
    SchemaConst **bucket = &c->consts[(uintptr_t)value / 16 % SCHEMA_CONST_BUCKETS], *known = *bucket;

    while (known && known->value != value)
        known = known->next;
    if (known || !schema_step(c, 1))
        return known ? known->schema : NULL;
    known = schema_alloc(c, 1, sizeof(*known));
    if (!known)
        return NULL;
    *known = (SchemaConst){ value, describe(value), *bucket };
    *bucket = known;
    if (!known->schema && !c->r)
        c->r = err_no_memory(c->err);
    return known->schema;
}

typedef struct ValueLists {
    SchemaSet set; /* what is no string, number, array or object */
    SchemaName *names;
    size_t n_names;
    SchemaNumber *numbers;
    const json_t **schemas; /* of arrays and objects */
    size_t n_numbers, n_schemas;
} ValueLists;

static void add_value(SchemaCompiler *c, const json_t *schema, const json_t *value, ValueLists *lists) {
    SchemaDecimal decimal;

    switch (json_typeof(value)) {
    case JSON_NULL:
        lists->set.plain |= SCHEMA_VALUE_NULL;
        break;
    case JSON_TRUE:
        lists->set.plain |= SCHEMA_VALUE_TRUE;
        break;
    case JSON_FALSE:
        lists->set.plain |= SCHEMA_VALUE_FALSE;
        break;
    case JSON_STRING:
        lists->names[lists->n_names++] = (SchemaName){ json_string_value(value), json_string_length(value) };
        break;
    case JSON_INTEGER:
    case JSON_REAL:
        if (!schema_decimal_read(&decimal, value))
            schema_unsupported(c, schema, "enum", "a number with more than %d digits", SCHEMA_DIGITS_MAX);
        lists->numbers[lists->n_numbers++] =
            (SchemaNumber){ .low = { true, false, decimal }, .high = { true, false, decimal } };
        break;
    default:
        lists->schemas[lists->n_schemas++] = schema_of(c, value);
    }
}

/* The numbers that are none of the list. */
static void exclude_numbers(SchemaCompiler *c, const ValueLists *lists, SchemaSet *set) {
    for (size_t i = 0; i < lists->n_numbers && !c->r; i++) {
        SchemaNumber *others = schema_alloc(c, SCHEMA_NUMBER_OTHERS_MAX, sizeof(*others));
        SchemaSet one = schema_set_any();

        one.n_numbers = others ? schema_number_not(&lists->numbers[i], others) : 0;
        one.numbers = others;
        *set = schema_set_and(c, set, &one);
    }
}

static bool combine_values(SchemaCompiler *c, ValueLists *lists, bool is_negated, SchemaExpand *expand,
                           SchemaSet *set) {
    SchemaText text = { .kind = SCHEMA_TEXT_LIST, .names = lists->names, .n = lists->n_names };

    if (is_negated) {
        *set = schema_set_any();
        set->plain &= ~lists->set.plain;
        set->text = schema_text_not(c, text);
        exclude_numbers(c, lists, set);
    } else {
        *set = lists->set;
        set->text = text;
        set->numbers = lists->numbers;
        set->n_numbers = lists->n_numbers;
    }
    for (size_t i = 0; i < lists->n_schemas && !c->r; i++) {
        SchemaSet one = expand(c, (SchemaLiteral){ lists->schemas[i], is_negated });

        *set = is_negated ? schema_set_and(c, set, &one) : schema_set_or(c, set, &one);
    }
    return true;
}

/* The schema that describes an array or object has no other keywords than these. */
static SchemaSet expand_description(SchemaCompiler *c, SchemaLiteral literal) {
    SchemaSet type = schema_set_any(), rest = schema_set_any();

    if (c->r)
        return type;
    (void)schema_expand_type(c, literal.schema, literal.is_negated, &type);
    if (!schema_expand_arrays(c, literal.schema, literal.is_negated, &rest))
        (void)schema_expand_objects(c, literal.schema, literal.is_negated, &rest);
    return literal.is_negated ? schema_set_or(c, &type, &rest) : schema_set_and(c, &type, &rest);
}

bool schema_expand_values(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set) {
    const json_t *list = json_object_get(schema, "enum"), *constant = json_object_get(schema, "const");
    size_t n = json_array_size(list) + 1;
    ValueLists lists = { .names = schema_alloc(c, n, sizeof(*lists.names)),
                         .numbers = schema_alloc(c, n, sizeof(*lists.numbers)),
                         .schemas = schema_alloc(c, n, sizeof(*lists.schemas)) };
    SchemaSet first;
    json_t *value;
    size_t i;

    if ((!list && !constant) || c->r)
        return false;
    if (list && !json_is_array(list)) {
        schema_invalid(c, schema, "enum", "is no list of values");
        return false;
    }
    json_array_foreach((json_t *)list, i, value) add_value(c, schema, value, &lists);
    if (list)
        (void)combine_values(c, &lists, is_negated, expand_description, set);
    if (!constant || c->r)
        return true;
    first = *set;
    lists = (ValueLists){ .names = schema_alloc(c, 1, sizeof(*lists.names)),
                          .numbers = schema_alloc(c, 1, sizeof(*lists.numbers)),
                          .schemas = schema_alloc(c, 1, sizeof(*lists.schemas)) };
    if (c->r)
        return false;
    add_value(c, schema, constant, &lists);
    (void)combine_values(c, &lists, is_negated, expand_description, set);
    if (list)
        *set = is_negated ? schema_set_or(c, &first, set) : schema_set_and(c, &first, set);
    return true;
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

static bool read_limit(SchemaCompiler *c, const json_t *schema, const char *keyword, const char *exclusive, int sign,
                       SchemaLimit *limit) {
    const json_t *value = json_object_get(schema, keyword), *other = json_object_get(schema, exclusive);
    bool has_both = json_is_number(value) && json_is_number(other);

    if (!value && !other)
        return false;
    if ((value && !json_is_number(value)) || (other && !json_is_number(other) && !json_is_boolean(other))) {
        schema_invalid(c, schema, value ? keyword : exclusive, "is no number");
        return false;
    }
    if (!value && json_is_boolean(other))
        return false;
    /* Draft 4 has exclusiveMinimum as true or false, later ones as the limit itself. */
    limit->is_exclusive = json_is_true(other) || json_is_number(other);
    if (has_both && sign * (json_number_value(other) - json_number_value(value)) < 0)
        limit->is_exclusive = false;
    if (!schema_decimal_read(&limit->at, json_is_number(other) && limit->is_exclusive ? other : value))
        schema_unsupported(c, schema, keyword, "a number with more than %d digits", SCHEMA_DIGITS_MAX);
    return limit->is_set = true;
}

/* The numbers of a format of OpenAPI; none: any number. */
static bool read_number_format(const json_t *schema, SchemaNumber *number) {
    static const struct {
        const char *name, *digits;
    } formats[] = { { "int32", "2147483648" }, { "int64", "9223372036854775808" } };
    const char *name = json_string_value(json_object_get(schema, "format"));

    for (size_t i = 0; name && i < ARRAY_LEN(formats); i++) {
        if (strcmp(name, formats[i].name) != 0)
            continue;
        *number = (SchemaNumber){ .low = { .is_set = true, .at.is_negative = true },
                                  .high = { .is_set = true, .is_exclusive = true } };
        memcpy(number->low.at.whole, formats[i].digits, strlen(formats[i].digits));
        memcpy(number->high.at.whole, formats[i].digits, strlen(formats[i].digits));
        return true;
    }
    return false;
}

bool schema_expand_numbers(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set) {
    const json_t *multiple = json_object_get(schema, "multipleOf");
    SchemaNumber *number = schema_alloc(c, 1, sizeof(*number)), *others = NULL, format;
    bool has_any;

    if (!number)
        return false;
    has_any = read_limit(c, schema, "minimum", "exclusiveMinimum", 1, &number->low);
    has_any |= read_limit(c, schema, "maximum", "exclusiveMaximum", -1, &number->high);
    if (multiple) {
        has_any = true;
        if (!json_is_number(multiple) || json_number_value(multiple) <= 0)
            schema_invalid(c, schema, "multipleOf", "is no number above 0");
        else if (!schema_decimal_read(&number->multiples[0].divisor, multiple) ||
                 !schema_number_can_divide(&number->multiples[0].divisor))
            schema_unsupported(c, schema, "multipleOf", "multiples of this number are not supported");
        number->n_multiples = 1;
    }
    *set = schema_set_any();
    set->numbers = number;
    if (read_number_format(schema, &format)) {
        SchemaNumber limits = *number;

        has_any = true;
        set->n_numbers = schema_number_and(c, &limits, &format, number);
    }
    if (is_negated && has_any) {
        if (set->n_numbers)
            others = schema_alloc(c, SCHEMA_NUMBER_OTHERS_MAX, sizeof(*others));
        *set = (SchemaSet){ .numbers = others ? others : &schema_number_any,
                            .n_numbers = others ? schema_number_not(number, others) : 1 };
    }
    return has_any;
}

/* --- strings ------------------------------------------------------------------------------------------------------ */

bool schema_expand_strings(SchemaCompiler *c, const json_t *schema, bool is_negated, SchemaSet *set) {
    const json_t *pattern = json_object_get(schema, "pattern"), *format = json_object_get(schema, "format");
    uint32_t min = 0, max = SCHEMA_NO_MAX;
    SchemaText text;
    bool has_any;

    if ((pattern && !json_is_string(pattern)) || (format && !json_is_string(format))) {
        schema_invalid(c, schema, pattern ? "pattern" : "format", "is no string");
        return false;
    }
    has_any = schema_read_count(c, schema, "minLength", &min);
    has_any |= schema_read_count(c, schema, "maxLength", &max);
    if ((!has_any && !pattern && !format) || c->r)
        return false;
    text = schema_text_length(c, min, max);
    if (pattern)
        text = schema_text_and(c, text, schema_text_pattern(c, schema, "pattern", json_string_value(pattern)));
    if (format)
        text = schema_text_and(c, text, schema_text_format(c, schema, json_string_value(format)));
    *set = is_negated ? (SchemaSet){ 0 } : schema_set_any();
    set->text = is_negated ? schema_text_not(c, text) : text;
    return true;
}
