// SPDX-License-Identifier: Apache-2.0
/* Origin of bytes, operation by operation: a byte is the template's own if the template itself has it, and otherwise
 * not. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "test/unit/text/jinja/jinja_case.h"

/* own: for each byte of out 't' if the byte is the template's, '.' if it is from outside or computed. */
typedef struct OriginRow {
    const char *expression, *out, *own;
} OriginRow;

static const char variables_text[] = "{\"x\": \"XY\", \"e\": \"\", \"l\": [\"P\", \"Q\"], \"d\": {\"K\": \"V\"}, "
                                     "\"n\": 7, \"sp\": \" X \", \"u\": \"\\u00c9\", \"m\": \"<|a|>\"}";

static void check_rows(const OriginRow *rows, size_t n) {
    json_t *variables = json_loads(variables_text, 0, NULL);

    assert_non_null(variables);
    for (size_t i = 0; i < n; i++) {
        const JinjaOptions options = { .now_s = JINJA_GOLDEN_NOW_S };
        char source[512], own[256] = "";
        JinjaCase one;

        snprintf(source, sizeof(source), strstr(rows[i].expression, "{%") ? "%s" : "{{ %s }}", rows[i].expression);
        jinja_case_init(&one, source, strlen(source), variables, &options);
        if (one.r)
            fail_msg("%s: %s", source, one.err.text);
        assert_in_range(one.output.len_bytes, 0, sizeof(own) - 1);
        for (size_t k = 0; k < one.output.len_bytes; k++)
            own[k] = one.output.own[k] ? 't' : '.';
        if (one.output.len_bytes != strlen(rows[i].out) || memcmp(one.output.data, rows[i].out, one.output.len_bytes) ||
            strcmp(own, rows[i].own) != 0)
            fail_msg("%s: \"%.*s\" %s instead of \"%s\" %s", source, (int)one.output.len_bytes, one.output.data, own,
                     rows[i].out, rows[i].own);
        jinja_case_deinit(&one);
    }
    json_decref(variables);
}

static void test_jinja_origin_operators(void **state) {
    static const OriginRow rows[] = {
        { "x", "XY", ".." },
        { "'ab'", "ab", "tt" },
        { "'a' 'b'", "ab", "tt" },
        { "'a' + x + 'b'", "aXYb", "t..t" },
        { "x + 'a' + x", "XYaXY", "..t.." },
        { "'a' ~ x ~ 1 ~ none ~ true ~ 'b'", "aXY1NoneTrueb", "t...........t" },
        { "x ~ 'a'", "XYa", "..t" },
        { "e + 'a'", "a", "t" },
        { "'' + x", "XY", ".." },
        { "('a' + x) * 2", "aXYaXY", "t..t.." },
        { "x[0] + 'ab'[1]", "Xb", ".t" },
        { "('a' + x + 'b')[1:3]", "XY", ".." },
        { "('a' + x + 'b')[0:2]", "aX", "t." },
        { "('a' + x + 'b')[::-1]", "bYXa", "t..t" },
        { "('ab' + x)[2:0:-1]", "Xb", ".t" },
        { "('a' + x)[-1]", "Y", "." },
        { "(x + 'a')[-1]", "a", "t" },
        { "1", "1", "." },
        { "1.5", "1.5", "..." },
        { "true", "True", "...." },
        { "none", "None", "...." },
        { "n", "7", "." },
        { "['a', x]", "['a', 'XY']", "..t........" },
        { "('a', x)", "('a', 'XY')", "..t........" },
        { "{'a': x}", "{'a': 'XY'}", "..t........" },
        { "{x: 'a'}", "{'XY': 'a'}", "........t.." },
        { "['a\\n']", "['a\\n']", "..t...." },
        { "'a' if x else x", "a", "t" },
        { "x or 'a'", "XY", ".." },
        { "e or 'a'", "a", "t" },
        { "x and 'a'", "a", "t" },
        { "{'a': 'b'}[x] or 'c'", "c", "t" },
        { "d.K ~ 'a'", "Va", ".t" },
        { "d['K'] ~ 'a'", "Va", ".t" },
    };

    check_rows(rows, ARRAY_LEN(rows));
}

static void test_jinja_origin_statements(void **state) {
    static const OriginRow rows[] = {
        { "a{% if 1 %}b{% endif %}{{ x }}c", "abXYc", "tt..t" },
        { "{% for c in x %}{{ c }}-{% endfor %}", "X-Y-", ".t.t" },
        { "{% for c in 'ab' ~ x %}{{ c }}{% endfor %}", "abXY", "tt.." },
        { "{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}", "K=V", ".t." },
        { "{% set a = 'a' ~ x %}{{ a }}", "aXY", "t.." },
        { "{% set a %}a{{ x }}{% endset %}{{ a }}", "aXY", "t.." },
        { "{% set a | upper %}a{{ x }}{% endset %}{{ a }}", "AXY", "t.." },
        { "{% set ns = namespace(s='a') %}{% for c in l %}{% set ns.s = ns.s ~ c ~ 'b' %}{% endfor %}{{ ns.s }}",
          "aPbQb", "t.t.t" },
        { "{% macro m(v, w='b') %}a{{ v }}{{ w }}{% endmacro %}{{ m(x) }}", "aXYb", "t..t" },
        { "{% filter lower %}A{{ x }}{% endfilter %}", "axy", "t.." },
        { "{% generation %}a{{ x }}{% endgeneration %}", "aXY", "t.." },
        { "{% for c in ['a', x] %}{{ loop.index }}{{ loop.previtem }}{% endfor %}", "12a", "..t" },
        { "{% macro m(v) %}a{{ v }}{% endmacro %}{{ m(*l[:1]) }}", "aP", "t." },
        { "{% set a %}a{% filter upper %}b{{ x|lower }}{% endfilter %}{% endset %}{{ a }}", "aBXY", "tt.." },
    };

    check_rows(rows, ARRAY_LEN(rows));
}

static void test_jinja_origin_filters(void **state) {
    static const OriginRow rows[] = {
        { "('a' ~ sp)|trim", "a X", "t.." },
        { "(sp ~ 'a')|trim", "X a", "..t" },
        { "sp|trim ~ 'a'", "Xa", ".t" },
        { "('a' ~ x)|upper", "AXY", "t.." },
        { "('A' ~ x)|lower", "axy", "t.." },
        { "('a' ~ u ~ 'b')|lower", "a\u00e9b", "t..t" },
        { "('ß' ~ x)|upper", "SSXY", "tt.." },
        { "('a' ~ x)|capitalize", "Axy", "t.." },
        { "('a' ~ x ~ ' b')|title", "Axy B", "t..tt" },
        { "('a' ~ x)|replace('a', x)", "XYXY", "...." },
        { "('a' ~ x)|replace('X', 'b')", "abY", "tt." },
        { "x|replace('X', 'b')", "bY", "t." },
        { "x|replace('', 'b')", "bXbYb", "t.t.t" },
        { "l|join('a')", "PaQ", ".t." },
        { "['a', 'b']|join(x)", "aXYb", "t..t" },
        { "x|list|join('a')", "XaY", ".t." },
        { "x|reverse ~ 'a'", "YXa", "..t" },
        { "('a' ~ x)|first ~ ('a' ~ x)|last", "aY", "t." },
        { "x|default('a')", "XY", ".." },
        { "missing|default('a')", "a", "t" },
        { "missing|default(x)", "XY", ".." },
        { "('a' ~ x)|string", "aXY", "t.." },
        { "('a' ~ x)|safe + 'b'", "aXYb", "t..t" },
        { "('a<' ~ x)|e", "a&lt;XY", "t......" },
        { "x|length ~ 'a'", "2a", ".t" },
        { "x|tojson", "\"XY\"", "...." },
        { "('a\\n' ~ x)|tojson", "\"a\\nXY\"", ".t....." },
        { "{'a': x, x: 'b'}|tojson", "{\"a\": \"XY\", \"XY\": \"b\"}", "..t................t.." },
        { "['a']|tojson(separators=('b', 'c'), indent='d')", "[\nd\"a\"\n]", "..t.t..." },
        { "('a\\n' ~ x)|indent(1)", "a\n XY", "t...." },
        { "('a\\n' ~ x)|indent('b')", "a\nbXY", "t.t.." },
        { "l|map('lower')|join('a')", "paq", ".t." },
        { "l|map('replace', 'P', 'a')|list|join", "aQ", "t." },
        { "l|select('eq', 'P')|join ~ 'a'", "Pa", ".t" },
        { "(l + ['a'])|sort|join", "aPQ", "t.." },
        { "(l + ['a'])|unique|join", "PQa", "..t" },
        { "d|items|first|join('a')", "KaV", ".t." },
        { "d|dictsort|first|join('a')", "KaV", ".t." },
        { "(l + ['Z'])|max", "Z", "t" },
        { "x|int ~ 'a'", "0a", ".t" },
        { "2.5|round ~ 'a'", "2.0a", "...t" },
        { "strftime_now('%Y')", "2025", "...." },
        { "strftime_now('a%Y')", "a2025", "....." },
    };

    check_rows(rows, ARRAY_LEN(rows));
}

static void test_jinja_origin_methods(void **state) {
    static const OriginRow rows[] = {
        { "('a' ~ x).upper()", "AXY", "t.." },
        { "('A' ~ x).lower()", "axy", "t.." },
        { "('a' ~ x).title()", "Axy", "t.." },
        { "('a' ~ x).capitalize()", "Axy", "t.." },
        { "('ab' ~ x).strip('a')", "bXY", "t.." },
        { "(x ~ 'a ').rstrip()", "XYa", "..t" },
        { "(' ' ~ x).lstrip() ~ 'a'", "XYa", "..t" },
        { "('a,' ~ x).split(',')|join('b')", "abXY", "tt.." },
        { "(x ~ ',a').split(',')[1]", "a", "t" },
        { "('a ' ~ x).split()|last", "XY", ".." },
        { "('a,' ~ x).rsplit(',', 1)|first", "a", "t" },
        { "('a\\n' ~ x).splitlines()|join('b')", "abXY", "tt.." },
        { "('a-' ~ x).partition('-')|join", "a-XY", "tt.." },
        { "('a' ~ x).replace('X', 'b')", "abY", "tt." },
        { "x.replace('X', x)", "XYY", "..." },
        { "x.join(['a', 'b'])", "aXYb", "t..t" },
        { "'a'.join(l)", "PaQ", ".t." },
        { "'{}-{}'.format(x, 'a')", "XY-a", "..tt" },
        { "'{a}!'.format(a=x)", "XY!", "..t" },
        { "'{0}{1}{0}'.format('a', n)", "a7a", "t.t" },
        { "(x ~ '{}').format('a')", "XYa", "..t" },
        { "('a' ~ x).removeprefix('a')", "XY", ".." },
        { "('a' ~ x).removesuffix('Y')", "aX", "t." },
        { "d.get('K') ~ d.get('Z', 'a')", "Va", ".t" },
        { "d.keys()|join ~ d.values()|join ~ 'a'", "KVa", "..t" },
        { "x.rfind('Y') ~ 'a'", "1a", ".t" },
        { "x.find('a') ~ 'a'", "-1a", "..t" },
    };

    check_rows(rows, ARRAY_LEN(rows));
}

/* No byte changes its origin if a mark is put together of pieces from both sides. */
static void test_jinja_origin_pieces(void **state) {
    static const OriginRow rows[] = {
        { "'<|' ~ m[2:3] ~ '|>'", "<|a|>", "tt.tt" },
        { "m[:2] ~ 'a|>'", "<|a|>", "..ttt" },
        { "m|replace('a', 'a')", "<|a|>", "..t.." },
        { "m.split('a')|join('a')", "<|a|>", "..t.." },
        { "m|list|join", "<|a|>", "....." },
        { "m.upper().lower()", "<|a|>", "....." },
        { "[m]|first", "<|a|>", "....." },
        { "m|tojson", "\"<|a|>\"", "......." },
        { "'{}|>'.format(m[:3])", "<|a|>", "...tt" },
        { "'<|{}|>'.format('a')", "<|a|>", "ttttt" },
        { "'<|a|>'[0:] ~ ''", "<|a|>", "ttttt" },
        { "{% for c in m %}{{ c }}{% endfor %}", "<|a|>", "....." },
        { "{{ '<|' }}{{ 'a' }}|>{% if 0 %}{% endif %}", "<|a|>", "ttttt" },
    };

    check_rows(rows, ARRAY_LEN(rows));
}

/* --- all golden expressions --------------------------------------------------------------------------------------- */

/* Finds Armenian letters, which have two cases and stand in no template. */
static bool is_from_outside(const char *text, size_t left) {
    const unsigned char *byte = (const unsigned char *)text;

    return left > 1 && ((byte[0] == 0xd4 && byte[1] >= 0xb1) || byte[0] == 0xd5 || (byte[0] == 0xd6 && byte[1] < 0x90));
}

static json_t *armenian(const json_t *value) {
    static const char *const letters[] = { "\xd4\xb1", "\xd5\xa2", "\xd4\xb3", "\xd5\xa4" };
    json_t *made;

    if (json_is_string(value)) {
        char text[512] = "";
        const char *from = json_string_value(value);

        for (size_t i = 0, n = 0; from[i] && n + 3 < sizeof(text); i++) /* white space stays, so that there are words */
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s",
                                  (unsigned char)from[i] <= ' ' ? (char[]){ from[i], 0 } : letters[i % 4]);
        return json_string(text);
    }
    if (json_is_array(value)) {
        json_t *item;
        size_t i;

        made = json_array();
        json_array_foreach((json_t *)value, i, item) json_array_append_new(made, armenian(item));
        return made;
    }
    if (json_is_object(value)) {
        const char *name;
        json_t *member;

        made = json_object();
        json_object_foreach((json_t *)value, name, member) json_object_set_new(made, name, armenian(member));
        return made;
    }
    return json_deep_copy(value);
}

/* No operation turns a byte from outside into one of the template's. */
static void test_jinja_origin_of_all_golden_expressions(void **state) {
    json_t *root = jinja_golden_load("expressions.json"), *variables = armenian(json_object_get(root, "variables")),
           *golden;
    size_t n_seen = 0, i;

    json_array_foreach(json_object_get(root, "cases"), i, golden) {
        const json_t *source = json_object_get(golden, "template");
        JinjaCase one;

        jinja_case_init(&one, json_string_value(source), json_string_length(source), variables,
                        &(JinjaOptions){ .now_s = JINJA_GOLDEN_NOW_S });
        for (size_t k = 0; !one.r && k < one.output.len_bytes; k++)
            if (is_from_outside(one.output.data + k, one.output.len_bytes - k)) {
                if (one.output.own[k] || one.output.own[k + 1])
                    fail_msg("%s: byte %zu of \"%.*s\" is not the template's", json_string_value(source), k,
                             (int)one.output.len_bytes, one.output.data);
                n_seen++;
            }
        jinja_case_deinit(&one);
    }
    assert_in_range(n_seen, 1250, 1000000);
    json_decref(variables);
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jinja_origin_operators), cmocka_unit_test(test_jinja_origin_statements),
        cmocka_unit_test(test_jinja_origin_filters),   cmocka_unit_test(test_jinja_origin_methods),
        cmocka_unit_test(test_jinja_origin_pieces),    cmocka_unit_test(test_jinja_origin_of_all_golden_expressions),
    };

    setenv("TZ", "UTC", 1);
    tzset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
