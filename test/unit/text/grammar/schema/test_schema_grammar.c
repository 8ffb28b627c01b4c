// SPDX-License-Identifier: Apache-2.0
/* JSON Schema: what fits and what does not, keyword by keyword; errors that name keyword and pointer; limits. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "test/unit/text/grammar/schema/schema_case.h"

#define TEXTS_MAX 24

typedef struct Example {
    const char *schema;
    const char *fits[TEXTS_MAX];
    const char *others[TEXTS_MAX];
} Example;

/* Examples have ' where JSON has a quote. */
static char *quoted(const char *text) {
    char *copy = strdup(text);

    assert_non_null(copy);
    for (char *c = copy; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    return copy;
}

static void init(SchemaCase *one, const char *schema, const SchemaOptions *options) {
    char *text = quoted(schema);

    schema_case_init(one, text, strlen(text), options);
    free(text);
}

static bool fits(SchemaCase *one, const char *text) {
    char *value = quoted(text);
    bool it_does = schema_case_fits(one, value, strlen(value));

    free(value);
    return it_does;
}

static void check(const Example *examples, size_t n, const SchemaOptions *options) {
    for (size_t i = 0; i < n; i++) {
        const Example *example = &examples[i];
        SchemaCase one;

        init(&one, example->schema, options);
        if (one.r)
            fail_msg("%s: %d %s", example->schema, one.r, one.err.text);
        for (size_t k = 0; example->fits[k]; k++)
            if (!fits(&one, example->fits[k]))
                fail_msg("%s refuses %s", example->schema, example->fits[k]);
        for (size_t k = 0; example->others[k]; k++)
            if (fits(&one, example->others[k]))
                fail_msg("%s accepts %s", example->schema, example->others[k]);
        schema_case_deinit(&one);
    }
}

#define CHECK(examples) check((examples), ARRAY_LEN(examples), &(SchemaOptions){ 0 })

static void test_schema_any(void **state) {
    static const Example examples[] = {
        { "true",
          { "null", "true", "-0.5e+3", "'a\\u00e9\\/'", "[]", "[1,{'a':[]}]", "{'a':1, 'b': []}",
            "{'a':1,\n    'b':[]}", "[ 1 ]" },
          { "", "nul", "01", "1.", "'\\x'", "'\n'", "[1,]", "{,}", "{'a'}", "[  1]", "'\\ud800'", "[1]]" } },
        { "{'title':'t','description':'d','default':7,'examples':[1],'$comment':'c','deprecated':true,"
          "'readOnly':true,'x-own':{'type':'null'}}",
          { "1", "{}", "''" },
          { "x" } },
    };

    CHECK(examples);
}

static void test_schema_types(void **state) {
    static const Example examples[] = {
        { "{'type':'integer'}", { "0", "-7", "120" }, { "1.5", "1e3", "'1'", "null", "-" } },
        { "{'type':['null','boolean']}", { "null", "true", "false" }, { "0", "''", "[]" } },
        { "{'not':{'type':['number','object']}}", { "null", "[]", "''" }, { "1", "{}" } },
        { "{'type':'number','not':{'type':'integer'}}", { "1.5", "-0.25" }, { "1", "1.0", "''" } },
    };

    CHECK(examples);
}

static void test_schema_values(void **state) {
    static const Example examples[] = {
        { "{'enum':['a',1,2.5,null,{'k':[1,'x']}]}",
          { "'a'", "1", "2.5", "null", "{'k':[1,'x']}", "{'k': [1, 'x']}" },
          { "'b'", "2", "{}", "{'k':[1]}", "{'k':[1,'x',1]}", "{'k':[1,'x'],'l':1}", "false" } },
        { "{'const':'a\\'\\n'}", { "'a\\'\\n'" }, { "'a'" } },
        { "{'type':'string','not':{'enum':['a','b']}}", { "'c'", "''", "'ab'" }, { "'a'", "'b'", "1" } },
        { "{'enum':['a','b','c'],'not':{'const':'b'}}", { "'a'", "'c'" }, { "'b'" } },
        { "{'type':'integer','not':{'enum':[1,2]}}", { "0", "3", "-1", "12" }, { "1", "2", "''" } },
    };

    CHECK(examples);
}

static void test_schema_numbers(void **state) {
    static const Example examples[] = {
        { "{'type':'integer','minimum':0}", { "0", "7", "100" }, { "-1", "0.5" } },
        { "{'type':'number','minimum':0}", { "0", "0.5", "1e9" }, { "-0.5", "-1" } },
        { "{'type':'integer','minimum':-12,'maximum':105}",
          { "-12", "-9", "-1", "0", "9", "99", "100", "105" },
          { "-13", "-20", "-100", "106", "110", "200", "1000" } },
        { "{'type':'number','exclusiveMinimum':1.25,'maximum':10}",
          { "1.26", "1.251", "1.3", "2", "9.99", "10", "10.0" },
          { "1.25", "1.250", "1.2", "1", "0", "10.01", "11", "100", "-2" } },
        { "{'type':'number','minimum':0,'maximum':1}", { "0", "0.75", "1", "1.00", "0.0" }, { "1.01", "2", "-0.1" } },
        { "{'type':'number','exclusiveMaximum':-3}", { "-3.5", "-4", "-10" }, { "-3", "-2.9", "0", "3", "4" } },
        { "{'minimum':2,'exclusiveMinimum':true,'type':'integer'}", { "3" }, { "2", "1" } },
        { "{'type':'integer','multipleOf':8}", { "0", "8", "-16", "104", "1000" }, { "4", "12", "100", "1001" } },
        { "{'type':'integer','multipleOf':15}", { "0", "15", "-30", "105" }, { "5", "10", "25", "100" } },
        { "{'type':'number','multipleOf':0.01}", { "0", "1.25", "3.5", "7.000" }, { "0.001", "1.255" } },
        { "{'type':'number','multipleOf':0.25}", { "0.25", "1.5", "2", "2.75" }, { "0.2", "1.1", "0.255" } },
        { "{'type':'integer','not':{'multipleOf':4}}", { "1", "-6", "10" }, { "0", "4", "-8", "100" } },
        { "{'type':'number','not':{'minimum':3}}", { "2.9", "-5" }, { "3", "4" } },
        { "{'type':'integer','format':'int32'}", { "2147483647", "-2147483648" }, { "2147483648", "-2147483649" } },
    };

    CHECK(examples);
}

static void test_schema_strings(void **state) {
    static const Example examples[] = {
        { "{'type':'string','minLength':2,'maxLength':3}",
          { "'ab'", "'abc'", "'\xc3\xa9\\n'" },
          { "'a'", "'abcd'", "''" } },
        { "{'type':'string','pattern':'^a[0-9]+$'}", { "'a1'", "'a12'" }, { "'a'", "'xa1'", "'a1x'", "1" } },
        { "{'type':'string','pattern':'b','maxLength':2}", { "'b'", "'ab'", "'bb'" }, { "'aa'", "'aab'" } },
        { "{'pattern':'^\\'$'}", { "'\\''", "1", "null" }, { "'a'" } },
        { "{'type':'string','not':{'pattern':'b'}}", { "'a'", "''" }, { "'b'", "'abc'", "1" } },
        { "{'type':'string','allOf':[{'pattern':'a'},{'pattern':'b'}]}", { "'ab'", "'b-a'" }, { "'a'" } },
    };

    CHECK(examples);
}

static void test_schema_formats(void **state) {
    static const Example examples[] = {
        { "{'type':'string','format':'date'}",
          { "'2024-02-29'", "'1999-12-31'" },
          { "'2023-02-29'", "'1900-02-29'", "'2024-04-31'", "'24-01-01'", "'2024-13-01'" } },
        { "{'type':'string','format':'date-time'}",
          { "'2024-01-01T00:00:00Z'", "'2024-01-01T23:59:59.5+01:00'", "'1998-12-31T23:59:60Z'" },
          { "'2024-01-01'", "'2024-01-01T24:00:00Z'", "'2024-01-01T00:00:00'" } },
        { "{'type':'string','format':'time'}", { "'08:30:06Z'" }, { "'8:30:06Z'", "'08:30:60Z'" } },
        { "{'type':'string','format':'duration'}", { "'P4DT12H30M5S'", "'P2W'" }, { "'P'", "'PT'", "'P1D2H'" } },
        { "{'type':'string','format':'uuid'}",
          { "'2eb8aa08-AA98-11ea-b4aa-73b441d16380'" },
          { "'2eb8aa08aa9811eab4aa73b441d16380'" } },
        { "{'type':'string','format':'email'}", { "'joe.b@example.com'" }, { "'joe'", "'.a@b.c'", "'a..b@c.d'" } },
        { "{'type':'string','format':'ipv4'}", { "'192.168.0.1'" }, { "'256.1.1.1'", "'1.2.3'", "'01.2.3.4'" } },
        { "{'type':'string','format':'ipv6'}",
          { "'::1'", "'::'", "'1:2:3:4:5:6:7:8'", "'::ffff:1.2.3.4'", "'1::8'" },
          { "'12345::'", "'1:2'", "':::'", "'1::2::3'" } },
        { "{'type':'string','format':'hostname'}",
          { "'www.example.com'", "'a'", "'a-b'" },
          { "'-a.b'", "'a-'", "'a_b'", "'a..b'", "'xn--x'" } },
        { "{'type':'string','format':'uri'}",
          { "'http://a.b/c?d=e#f'", "'urn:x:y'", "'http://[::1]:80/'" },
          { "'a/b'", "'//a.b'", "'http:// a'", "'http://a%zz'" } },
    };

    CHECK(examples);
}

static void test_schema_arrays(void **state) {
    static const Example examples[] = {
        { "{'type':'array','items':{'type':'integer'}}", { "[]", "[1]", "[1, 2,3]" }, { "['a']", "[1,null]", "{}" } },
        { "{'type':'array','items':{'type':'integer'},'minItems':2,'maxItems':3}",
          { "[1,2]", "[1,2,3]" },
          { "[]", "[1]", "[1,2,3,4]" } },
        { "{'type':'array','prefixItems':[{'const':1},{'const':2}],'items':false}",
          { "[]", "[1]", "[1,2]" },
          { "[2]", "[1,2,3]" } },
        { "{'type':'array','items':[{'const':1}],'additionalItems':{'const':3},'minItems':1}",
          { "[1]", "[1,3,3]" },
          { "[]", "[3]", "[1,1]" } },
        { "{'type':'array','contains':{'const':5}}", { "[5]", "[1,5,'x']" }, { "[]", "[1,2]" } },
        { "{'type':'array','items':{'type':'integer'},'contains':{'const':5},'minContains':2,'maxContains':3}",
          { "[5,5]", "[1,5,2,5,5]" },
          { "[5]", "[5,5,5,5]", "[5,5,'x']" } },
        { "{'type':'array','contains':{'const':5},'maxItems':2}", { "[1,5]" }, { "[1,1]", "[1,1,5]" } },
        { "{'type':'array','not':{'items':{'type':'integer'}}}", { "[1,'a']" }, { "[]", "[1,2]" } },
        { "{'type':'array','not':{'minItems':2}}", { "[]", "[1]" }, { "[1,2]" } },
        { "{'type':'array','uniqueItems':true,'maxItems':1}", { "[]", "[1]" }, { "[1,1]" } },
        { "{'type':'array','uniqueItems':false}", { "[1,1]" }, { "1" } },
    };

    CHECK(examples);
}

static void test_schema_objects(void **state) {
    static const Example examples[] = {
        { "{'type':'object','properties':{'a':{'type':'integer'},'b':{'type':'null'}},'required':['b'],"
          "'additionalProperties':false}",
          { "{'b':null}", "{'a':1,'b':null}", "{\n  'a': 1,\n  'b': null\n}" },
          { "{}", "{'a':1}", "{'b':null,'a':1}", "{'b':null,'c':1}", "{'a':'','b':null}", "{,'b':null}" } },
        { "{'type':'object','properties':{'a':{'type':'integer'}}}",
          { "{}", "{'a':1}", "{'a':1,'x':[]}", "{'x':2,'aa':1}" },
          { "{'a':''}", "{'x':1,'a':''}", "{'a':1,'a':2}" } },
        { "{'type':'object','patternProperties':{'^i':{'type':'integer'},'s$':{'maximum':9}},"
          "'additionalProperties':{'type':'string'}}",
          { "{'i':10,'s':9,'is':8,'x':''}" },
          { "{'i':''}", "{'is':10}", "{'x':1}", "{'is':''}" } },
        { "{'type':'object','propertyNames':{'pattern':'^[a-c]+$'},'minProperties':1,'maxProperties':2}",
          { "{'a':1}", "{'a':1,'bc':2}" },
          { "{}", "{'d':1}", "{'a':1,'b':1,'c':1}" } },
        { "{'type':'object','required':['z'],'additionalProperties':{'type':'integer'}}",
          { "{'z':1}", "{'z':1,'y':2}" },
          { "{}", "{'y':1}", "{'z':''}" } },
        { "{'type':'object','properties':{'a':{},'b':{},'c':{}},'minProperties':2,'additionalProperties':false}",
          { "{'a':1,'c':1}", "{'a':1,'b':1,'c':1}" },
          { "{}", "{'b':1}" } },
        { "{'type':'object','properties':{'a':{},'b':{}},'dependentRequired':{'a':['b']}}",
          { "{}", "{'b':1}", "{'a':1,'b':1}" },
          { "{'a':1}", "{'a':1,'c':1}" } },
        { "{'type':'object','properties':{'a':{},'b':{}},'dependentSchemas':{'a':{'properties':{'b':{'type':"
          "'null'}}}}}",
          { "{'b':1}", "{'a':1,'b':null}", "{'a':1}" },
          { "{'a':1,'b':1}" } },
        { "{'type':'object','not':{'required':['a']}}", { "{}", "{'b':1}" }, { "{'a':1}", "{'b':1,'a':1}" } },
        { "{'type':'object','not':{'patternProperties':{'c':false}}}",
          { "{'c':1}", "{'a':1,'xc':2}" },
          { "{}", "{'a':1}" } },
    };

    CHECK(examples);
}

static void test_schema_any_order(void **state) {
    static const Example examples[] = {
        { "{'properties':{'a':{'type':'integer'},'b':{'type':'string'},'c':{}},'required':['a','b'],"
          "'additionalProperties':false}",
          { "{'a':1,'b':'x'}", "{'b':'x','a':1}", "{'c':[],'b':'x','a':1}", "{'b':'x', 'c':{'a':'y'},\n  'a': 1}" },
          { "{}", "{'b':'x'}", "{'a':1,'b':'x','a':1}", "{'b':'x','b':'x','a':1}", "{'b':1,'a':'x'}",
            "{'a':1,'b':'x','d':1}", "{,'a':1,'b':'x'}", "{'a':1,'b':'x',}", "{'a':1 'b':'x'}" } },
        { "{'properties':{'a':{'type':'integer'},'b':{'$ref':'#'}},'type':'object',"
          "'additionalProperties':{'type':'null'}}",
          { "{}", "{'x':null,'a':1,'y':null,'b':{'z':null,'b':{},'a':2}}", "{'x':null}", "{'b':{},'a':1}" },
          { "{'x':1}", "{'x':null,'a':null}", "{'a':1,'x':null,'a':1}", "{'b':{'b':{},'b':{}}}" } },
        { "{'type':'object','allOf':[{'properties':{'a':{'minimum':2}}},{'properties':{'b':{},'a':{'type':'integer'}},"
          "'required':['a'],'minProperties':1}]}",
          { "{'b':1,'a':2}", "{'c':1,'a':2}", "{'a':3}" },
          { "{'b':1,'a':1}", "{'b':1}", "{}" } },
        /* Properties that count come in the schema's order. */
        { "{'type':'object','properties':{'a':{},'b':{}},'maxProperties':2}",
          { "{}", "{'a':1,'b':1}", "{'b':1}" },
          { "{'a':1,'b':1,'c':1}", "{'b':1,'a':1}" } },
        { "{'type':'object','properties':{'a':{},'b':{}},'minProperties':2}",
          { "{'a':1,'b':1}", "{'a':1,'c':1}" },
          { "{}", "{'a':1}", "{'b':1}" } },
        { "{'type':'object','properties':{'a':{},'b':{}},'required':['a'],"
          "'not':{'additionalProperties':{'type':'null'}}}",
          { "{'a':1}", "{'a':null,'b':1}", "{'a':null,'c':1}" },
          { "{}", "{'a':null}", "{'a':null,'b':null}" } },
        { "{'type':'object','properties':{'a':{},'b':false},'required':['a'],'additionalProperties':{}}",
          { "{'a':1}", "{'c':1,'a':1}" },
          { "{'a':1,'b':1}", "{'b':1}" } },
    };

    check(examples, ARRAY_LEN(examples), &(SchemaOptions){ .is_any_order = true });
}

/* Properties up to the number whose order is free, and more. */
static void test_schema_any_order_limit(void **state) {
    for (int n = 61; n <= 62; n++) {
        _cleanup_(str_buf_deinit) StrBuf schema = STR_BUF_NULL, text = STR_BUF_NULL;
        const bool is_free = n == 61;
        SchemaCase one;

        str_buf_add(&schema, "{\"properties\":{");
        for (int i = 0; i < n; i++)
            str_buf_addf(&schema, "%s\"p%d\":{\"type\":\"integer\"}", i ? "," : "", i);
        str_buf_add(&schema, "},\"required\":[\"p0\"],\"type\":\"object\"}");
        for (int i = n; i--;)
            str_buf_addf(&text, "%s\"p%d\":%d", text.len_bytes ? "," : "{", i, i);
        str_buf_add(&text, "}");
        schema_case_init(&one, schema.data, schema.len_bytes, &(SchemaOptions){ .is_any_order = true });
        assert_int_equal(one.r, 0);
        assert_int_equal(schema_case_fits(&one, text.data, text.len_bytes), is_free);
        assert_true(schema_case_fits(&one, "{\"p0\":1,\"p2\":2}", 15));
        assert_false(schema_case_fits(&one, "{\"p2\":1}", 8));
        schema_case_deinit(&one);
    }
}

static void test_schema_combinations(void **state) {
    static const Example examples[] = {
        { "{'allOf':[{'type':'object','properties':{'a':{'type':'integer'}},'required':['a']},"
          "{'properties':{'a':{'minimum':5},'b':{}},'additionalProperties':false}]}",
          { "{'a':5}", "{'a':6,'b':1}" },
          { "{'a':4}", "{'b':1}", "{'a':5,'c':1}", "5" } },
        { "{'anyOf':[{'type':'string'},{'type':'integer','minimum':3}]}", { "''", "3" }, { "2", "null" } },
        { "{'oneOf':[{'type':'integer'},{'minimum':2,'type':'number'}]}", { "1", "2.5" }, { "3", "1.5" } },
        { "{'type':'object','oneOf':[{'required':['a']},{'required':['b']}]}",
          { "{'a':1}", "{'b':1}", "{'b':1,'c':1}" },
          { "{}", "{'a':1,'b':1}", "{'c':1}" } },
        { "{'oneOf':[{'properties':{'k':{'const':'x'}},'required':['k']},{'properties':{'k':{'const':'y'}"
          ",'v':{'type':'null'}},'required':['k','v']}],'type':'object'}",
          { "{'k':'x'}", "{'k':'y','v':null}" },
          { "{'k':'y'}", "{}", "{'k':'z'}" } },
        { "{'type':'object','properties':{'k':{'enum':['x','y']},'v':{}},'required':['k'],'if':{'properties':"
          "{'k':{'const':'x'}}},'then':{'required':['v']},'else':{'properties':{'v':false}}}",
          { "{'k':'x','v':1}", "{'k':'y'}" },
          { "{'k':'x'}", "{'k':'y','v':1}" } },
        { "{'not':{'anyOf':[{'type':'string'},{'minimum':3}]}}", { "2", "-1.5" }, { "''", "3", "null", "[]" } },
        { "{'not':{'oneOf':[{'type':'integer'},{'type':'number','minimum':2}]}}",
          { "3", "1.5", "''" },
          { "1", "2.5" } },
    };

    CHECK(examples);
}

/* The property by which the branches differ is required beside the oneOf. */
static void test_schema_one_of_context(void **state) {
    static const Example examples[] = {
        { "{'type':'object','properties':{'k':{'type':'string'},'v':{}},'required':['k'],'oneOf':[{'properties':{'k':"
          "{'const':'x'},'v':{'type':'null'}}},{'properties':{'k':{'const':'y'}}}]}",
          { "{'k':'x'}", "{'k':'x','v':null}", "{'k':'y','v':1}" },
          { "{}", "{'k':'x','v':1}", "{'k':'z'}" } },
    };

    CHECK(examples);
}

static void test_schema_references(void **state) {
    static const Example examples[] = {
        { "{'type':'object','properties':{'v':{'type':'integer'},'next':{'$ref':'#'}},'required':['v'],"
          "'additionalProperties':false}",
          { "{'v':1}", "{'v':1,'next':{'v':2,'next':{'v':3}}}" },
          { "{'v':1,'next':{}}", "{'next':{'v':1}}" } },
        { "{'$ref':'#/$defs/a~1b%25','$defs':{'a/b%':{'type':'null'}}}", { "null" }, { "1" } },
        { "{'$ref':'#x','$defs':{'a':{'$anchor':'x','type':'null'}}}", { "null" }, { "1" } },
        { "{'$ref':'other','$id':'http://h/root','$defs':{'a':{'$id':'http://h/other','type':'null'}}}",
          { "null" },
          { "1" } },
        { "{'$ref':'#/$defs/a','maximum':3,'$defs':{'a':{'type':'integer'}}}", { "3" }, { "4", "''" } },
        { "{'$schema':'http://json-schema.org/draft-07/schema#','$ref':'#/definitions/a','maximum':3,'definitions':"
          "{'a':{'type':'integer'}}}",
          { "3", "4" },
          { "''" } },
        { "{'$defs':{'t':{'anyOf':[{'type':'null'},{'type':'array','items':{'$ref':'#/$defs/t'}}]}},'$ref':"
          "'#/$defs/t'}",
          { "null", "[[null],[]]" },
          { "1", "[1]" } },
        /* Alternatives without a finite value are left out. */
        { "{'anyOf':[{'type':'null'},{'type':'object','properties':{'a':{'$ref':'#/$defs/e'}},'required':['a']}],"
          "'$defs':{'e':{'type':'array','items':{'$ref':'#/$defs/e'},'minItems':1}}}",
          { "null" },
          { "{'a':[[]]}", "{" } },
    };

    CHECK(examples);
}

static void test_schema_compact(void **state) {
    static const char schema[] = "{'type':'object','properties':{'a':{},'b':{}}}";
    SchemaCase one;

    init(&one, schema, &(SchemaOptions){ .is_compact = true });
    assert_int_equal(one.r, 0);
    assert_true(fits(&one, "{'a':1,'b':[]}"));
    assert_false(fits(&one, "{'a': 1}"));
    assert_false(fits(&one, "{ }"));
    schema_case_deinit(&one);
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

static void check_error(const char *schema, int code, const char *text) {
    SchemaCase one;

    init(&one, schema, &(SchemaOptions){ 0 });
    if (one.r != code || strncmp(one.err.text, text, strlen(text)) != 0)
        fail_msg("%.200s: %d '%s' instead of %d '%s'", schema, one.r, one.err.text, code, text);
    schema_case_deinit(&one);
}

static void test_schema_errors(void **state) {
    check_error("{", GRAMMAR_E_SYNTAX, "the schema is no JSON");
    check_error("[]", GRAMMAR_E_SYNTAX, "#: ");
    check_error("{'type':'strin'}", GRAMMAR_E_SYNTAX, "#: type: 'strin'");
    check_error("{'type':'object','properties':{'a/b':{'minLength':-1}}}", GRAMMAR_E_SYNTAX,
                "#/properties/a~1b: minLength: ");
    check_error("{'type':'array','uniqueItems':true}", GRAMMAR_E_UNSUPPORTED, "#: uniqueItems: ");
    check_error("{'items':{'format':'colour'}}", GRAMMAR_E_UNSUPPORTED, "#/items: format: ");
    check_error("{'unevaluatedProperties':false}", GRAMMAR_E_UNSUPPORTED, "#: unevaluatedProperties: ");
    check_error("{'multipleOf':17}", GRAMMAR_E_UNSUPPORTED, "#: multipleOf: ");
    check_error("{'$ref':'http://other/'}", GRAMMAR_E_UNSUPPORTED, "#: $ref: ");
    check_error("{'anyOf':[{'$ref':'#'}]}", GRAMMAR_E_SYNTAX, "#");
    check_error("{'pattern':'('}", GRAMMAR_E_SYNTAX, "#: pattern: ");
    check_error("{'pattern':'(a)\\\\1'}", GRAMMAR_E_UNSUPPORTED, "#: pattern: ");
    check_error("false", GRAMMAR_E_NOTHING, "#: ");
    check_error("{'type':'object','properties':{'a':{'$ref':'#'}},'required':['a']}", GRAMMAR_E_NOTHING, "#: ");
    check_error("{'type':'string','enum':[1]}", GRAMMAR_E_NOTHING, "#: ");
    check_error("{'$schema':'http://json-schema.org/draft-03/schema#'}", GRAMMAR_E_UNSUPPORTED, "#: $schema");
}

/* --- limits ------------------------------------------------------------------------------------------------------- */

static void check_hostile(const StrBuf *schema) {
    SchemaCase one;

    assert_false(str_buf_failed(schema));
    schema_case_init(&one, schema->data, schema->len_bytes, &(SchemaOptions){ 0 });
    assert_in_range(one.r, 0, GRAMMAR_E_NOTHING);
    schema_case_deinit(&one);
}

/* Schemas that are made to take time and memory end in an answer. */
static void test_schema_hostile(void **state) {
    StrBuf text = STR_BUF_NULL;

    for (int i = 0; i < 2000; i++)
        str_buf_add(&text, "{\"not\":");
    check_hostile(&text);
    str_buf_truncate(&text, 0);
    str_buf_add(&text, "{\"allOf\":[");
    for (int i = 0; i < 60; i++)
        str_buf_addf(&text, "%s{\"anyOf\":[{\"required\":[\"a%d\"]},{\"required\":[\"b%d\"]}]}", i ? "," : "", i, i);
    str_buf_add(&text, "]}");
    check_hostile(&text);
    str_buf_truncate(&text, 0);
    str_buf_add(&text, "{\"oneOf\":[");
    for (int i = 0; i < 200; i++)
        str_buf_addf(&text, "%s{\"properties\":{\"a%d\":{\"type\":\"string\"},\"b%d\":{}}}", i ? "," : "", i, i);
    str_buf_add(&text, "]}");
    check_hostile(&text);
    str_buf_truncate(&text, 0);
    str_buf_add(&text, "{\"patternProperties\":{");
    for (int i = 0; i < 200; i++)
        str_buf_addf(&text, "%s\"(a|b)*a(a|b){%d}\":{}", i ? "," : "", i);
    str_buf_add(&text, "}}");
    check_hostile(&text);
    str_buf_truncate(&text, 0);
    str_buf_add(
        &text, "{\"type\":\"array\",\"minItems\":4000000000,\"items\":{\"type\":\"string\",\"minLength\":4000000000}}");
    check_hostile(&text);
    str_buf_truncate(&text, 0);
    str_buf_add(&text, "{\"$ref\":\"#/$defs/a0\",\"$defs\":{");
    for (int i = 0; i < 4000; i++)
        str_buf_addf(&text, "\"a%d\":{\"$ref\":\"#/$defs/a%d\"},", i, i + 1);
    str_buf_add(&text, "\"a4000\":{}}}");
    check_hostile(&text);
    str_buf_deinit(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schema_any),          cmocka_unit_test(test_schema_types),
        cmocka_unit_test(test_schema_values),       cmocka_unit_test(test_schema_numbers),
        cmocka_unit_test(test_schema_strings),      cmocka_unit_test(test_schema_formats),
        cmocka_unit_test(test_schema_arrays),       cmocka_unit_test(test_schema_objects),
        cmocka_unit_test(test_schema_combinations), cmocka_unit_test(test_schema_one_of_context),
        cmocka_unit_test(test_schema_references),   cmocka_unit_test(test_schema_compact),
        cmocka_unit_test(test_schema_errors),       cmocka_unit_test(test_schema_hostile),
        cmocka_unit_test(test_schema_any_order),    cmocka_unit_test(test_schema_any_order_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
