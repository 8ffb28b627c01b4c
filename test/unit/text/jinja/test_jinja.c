// SPDX-License-Identifier: Apache-2.0
/* Jinja: small templates compared with the reference's output, limits, and errors that name line and construct. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/strings/str_buf.h"
#include "test/unit/text/jinja/jinja_case.h"

/* --- golden ------------------------------------------------------------------------------------------------------- */

static void check_case(const json_t *variables, const json_t *golden) {
    const json_t *source = json_object_get(golden, "template"), *out = json_object_get(golden, "out"),
                 *raised = json_object_get(golden, "raised");
    const JinjaOptions options = { .now_s = JINJA_GOLDEN_NOW_S };
    JinjaCase one;

    jinja_case_init(&one, json_string_value(source), json_string_length(source), variables, &options);
    if (out) {
        if (one.r)
            fail_msg("%s: %s", json_string_value(source), one.err.text);
        if (one.output.len_bytes != json_string_length(out) ||
            memcmp(one.output.data, json_string_value(out), one.output.len_bytes) != 0)
            fail_msg("%s: \"%.*s\" instead of \"%s\"", json_string_value(source), (int)one.output.len_bytes,
                     one.output.data, json_string_value(out));
    } else if (raised) {
        assert_int_equal(one.r, JINJA_E_RAISED);
        assert_string_equal(one.err.text, json_string_value(raised));
    } else {
        if (one.r != JINJA_E_SYNTAX && one.r != JINJA_E_RUN)
            fail_msg("%s: %d instead of an error", json_string_value(source), one.r);
        if (strncmp(one.err.text, "chat template line ", 19) != 0)
            fail_msg("%s: the error names no line: %s", json_string_value(source), one.err.text);
    }
    jinja_case_deinit(&one);
}

static void test_jinja_golden_expressions(void **state) {
    json_t *root = jinja_golden_load("expressions.json"), *cases = json_object_get(root, "cases"), *golden;
    size_t i;

    assert_in_range(json_array_size(cases), 1000, 100000);
    json_array_foreach(cases, i, golden) check_case(json_object_get(root, "variables"), golden);
    json_decref(root);
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

static void check_error(const char *source, int code, const char *text) {
    JinjaCase one;

    jinja_case_init(&one, source, strlen(source), NULL, &(JinjaOptions){ 0 });
    assert_int_equal(one.r, code);
    if (!strstr(one.err.text, text))
        fail_msg("%s: \"%s\" without \"%s\"", source, one.err.text, text);
    jinja_case_deinit(&one);
}

static void test_jinja_errors_name_line_and_construct(void **state) {
    check_error("a\n\n{{ 'x'|nofilter }}", JINJA_E_RUN, "chat template line 3: filter 'nofilter' is not known");
    check_error("{{ 1\n is\n odder }}", JINJA_E_RUN, "chat template line 2: test 'odder' is not known");
    check_error("\n{% include 'x' %}", JINJA_E_SYNTAX, "chat template line 2: tag 'include' is not supported");
    check_error("{% foo %}", JINJA_E_SYNTAX, "chat template line 1: tag 'foo' is not known");
    check_error("{% if x %}\n{% for y in z %}\n", JINJA_E_SYNTAX, "inside of 'for' of line 2");
    check_error("{{ messages[0].role }}", JINJA_E_RUN, "'messages' is undefined");
    check_error("{{ ''.zap() }}", JINJA_E_RUN, "'str object' has no attribute 'zap'");
    check_error("{{ 9223372036854775807 + 1 }}", JINJA_E_RUN, "past 64 bits");
    check_error("{{ 9223372036854775808 }}", JINJA_E_SYNTAX, "past 64 bits");
    check_error("{{ [].append(1) }}", JINJA_E_RUN, "access to attribute 'append' of 'list' object is unsafe");
    check_error("{{ raise_exception('no\ttabs') }}", JINJA_E_RAISED, "no\\x09tabs");
}

/* Parts of Jinja and Python that chat templates do not get are refused by name. */
static void test_jinja_refuses_by_name(void **state) {
    check_error("{{ 'x'|xmlattr }}", JINJA_E_RUN, "filter 'xmlattr' is not supported in chat templates");
    check_error("{{ 'x'|truncate(8, true) }}", JINJA_E_RUN, "filter 'truncate' is not supported in chat templates");
    check_error("{{ 'x y'|wordcount }}", JINJA_E_RUN, "filter 'wordcount' is not supported in chat templates");
    check_error("{{ 'x y'|urlencode }}", JINJA_E_RUN, "filter 'urlencode' is not supported in chat templates");
    check_error("{{ 1|filesizeformat }}", JINJA_E_RUN, "filter 'filesizeformat' is not supported in chat templates");
    check_error("{{ ['x y']|map('urlencode')|list }}", JINJA_E_RUN, "filter 'urlencode' is not supported");
    check_error("{{ cycler('a').next() }}", JINJA_E_RUN, "function 'cycler' is not supported in chat templates");
    check_error("{% set j = joiner() %}{{ j() }}", JINJA_E_RUN, "function 'joiner' is not supported in chat templates");
    check_error("{{ 'x'.swapcase() }}", JINJA_E_RUN, "method 'swapcase' of strings is not supported in chat templates");
    check_error("{{ 'x'.expandtabs() }}", JINJA_E_RUN, "method 'expandtabs' of strings is not supported");
    check_error("{{ 'x'.istitle() }}", JINJA_E_RUN, "method 'istitle' of strings is not supported");
    check_error("{{ 'x'.encode() }}", JINJA_E_RUN, "method 'encode' of strings is not supported");
    check_error("{{ dict.fromkeys(['x']) }}", JINJA_E_RUN, "has no attribute 'fromkeys'");
    check_error("{% print 1 %}", JINJA_E_SYNTAX, "tag 'print' is not known");
    check_error("{% call m() %}x{% endcall %}", JINJA_E_SYNTAX, "tag 'call' is not supported in chat templates");
    check_error("{% with a = 1 %}{% endwith %}", JINJA_E_SYNTAX, "tag 'with' is not supported in chat templates");
    check_error("{% raw %}{{{% endraw %}", JINJA_E_SYNTAX, "tag 'raw' is not supported in chat templates");
    check_error("{% block b %}{% endblock %}", JINJA_E_SYNTAX, "tag 'block' is not supported in chat templates");
    check_error("{% for x in y recursive %}{% endfor %}", JINJA_E_SYNTAX, "'recursive' is not supported");
    check_error("{% for x in y %}{% set a %}{% break %}{% endset %}{% endfor %}", JINJA_E_SYNTAX, "'break' outside");
    check_error("{{ 2 ** 2 }}", JINJA_E_SYNTAX, "not supported in chat templates: '**'");
    check_error("{{ f(**{}) }}", JINJA_E_SYNTAX, "not supported in chat templates: '**'");
    check_error("{{ +1 }}", JINJA_E_SYNTAX, "expected an expression, there is +");
    check_error("{{ 0x1f }}", JINJA_E_SYNTAX, "there is x1f");
    check_error("{{ 1_000 }}", JINJA_E_SYNTAX, "there is _000");
    check_error("{{ 1 < 2 < 3 }}", JINJA_E_SYNTAX, "comparisons in a row are not supported in chat templates");
    check_error("{{ '\\101' }}", JINJA_E_SYNTAX, "octal digits are not supported in chat templates");
    check_error("{{ 7.5 // 2 }}", JINJA_E_RUN, "'//' needs integers in chat templates");
    check_error("{{ '%s' % 'x' }}", JINJA_E_RUN, "'%' is not supported between 'str' and 'str'");
    check_error("{{ [1] * 2 }}", JINJA_E_RUN, "'*' is not supported between 'list' and 'int'");
    check_error("{{ 'abcd'[::2] }}", JINJA_E_RUN, "a step other than 1 and -1 is not supported in chat templates");
    check_error("{{ {(1, 2): 3} }}", JINJA_E_RUN, "unhashable type: 'tuple' cannot be a key");
    check_error("{{ range(3) }}", JINJA_E_RUN, "a value of type 'range' cannot be printed");
    check_error("{{ {}.keys() }}", JINJA_E_RUN, "a value of type 'dict view' cannot be printed");
    check_error("{{ namespace() }}", JINJA_E_RUN, "a value of type 'Namespace' cannot be printed");
    check_error("{{ '{:>5}'.format(1) }}", JINJA_E_RUN, "format(): a ':' in a field is not supported");
    check_error("{{ '{!r}'.format(1) }}", JINJA_E_RUN, "format(): a '!' in a field is not supported");
    check_error("{{ '%s'|format('x') }}", JINJA_E_RUN, "filter 'format' is not supported in chat templates");
    check_error("{{ [1]|batch(2)|list }}", JINJA_E_RUN, "filter 'batch' is not supported in chat templates");
    check_error("{{ [1]|groupby('a') }}", JINJA_E_RUN, "filter 'groupby' is not supported in chat templates");
    check_error("{{ [1]|sort(attribute='a,b') }}", JINJA_E_RUN, "several attributes are not supported");
    check_error("{{ '1'|int(base=2) }}", JINJA_E_RUN, "filter 'int' takes no argument 'base'");
    check_error("{{ 1250|round(-2) }}", JINJA_E_RUN, "a precision below 0 or above 320 is not supported");
    check_error("{{ 2.5|round(method='floor') }}", JINJA_E_RUN, "filter 'round' takes no argument 'method'");
    check_error("{{ 1 is callable }}", JINJA_E_RUN, "test 'callable' is not supported in chat templates");
    check_error("{{ 'x'.center(9) }}", JINJA_E_RUN, "method 'center' of strings is not supported in chat templates");
    check_error("{{ 'x'.index('x') }}", JINJA_E_RUN, "method 'index' of strings is not supported in chat templates");
    check_error("{{ 'x'.rsplit() }}", JINJA_E_RUN, "rsplit() without a separator is not supported");
    check_error("{{ 'x'.find('x', 1) }}", JINJA_E_RUN, "method 'find' takes 1 arguments at most, not 2");
    check_error("{{ [1].index(1) }}", JINJA_E_RUN, "'list object' has no attribute 'index'");
    check_error("{% for x in [1] %}{{ loop.cycle(1) }}{% endfor %}", JINJA_E_RUN, "has no attribute 'cycle'");
    check_error("{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", JINJA_E_RUN, "'caller' is not supported");
    check_error("{{ dict([('a', 1)]) }}", JINJA_E_RUN, "take one dict, and arguments with names");
}

/* --- limits ------------------------------------------------------------------------------------------------------- */

static void check_limit(const char *source, const JinjaOptions *options, const char *text) {
    JinjaCase one;

    jinja_case_init(&one, source, strlen(source), NULL, options);
    assert_int_equal(one.r, JINJA_E_LIMIT);
    if (!strstr(one.err.text, text))
        fail_msg("%s: \"%s\" without \"%s\"", source, one.err.text, text);
    jinja_case_deinit(&one);
}

static void check_nested(const char *before, const char *open, const char *close, const char *after, size_t n,
                         const char *text) {
    _cleanup_(str_buf_deinit) StrBuf source = STR_BUF_NULL;

    str_buf_add(&source, before);
    for (size_t i = 0; i < n; i++)
        str_buf_add(&source, open);
    for (size_t i = 0; i < n; i++)
        str_buf_add(&source, close);
    str_buf_add(&source, after);
    check_limit(source.data, &(JinjaOptions){ 0 }, text);
}

static void test_jinja_nesting_is_bounded(void **state) {
    check_nested("{{ ", "(", ")", " }}", 100000, "nested more than");
    check_nested("{{ ", "[", "]", " }}", 100000, "nested more than");
    check_nested("{{ ", "{1:", "}", " }}", 100000, "nested more than");
    check_nested("", "{% if 1 %}", "{% endif %}", "", 20000, "nested more than");
    check_nested("{{ ", "not ", "", "1 }}", 100000, "nested more than");
    check_nested("{{ ", "-", "", "1 }}", 100000, "nested more than");
    check_nested("{{ 1", "+1", "", " }}", 100000, "an expression of more than");
    check_nested("{{ 1", "|abs", "", " }}", 100000, "an expression of more than");
    check_nested("{{ 1", ".a", "", " }}", 100000, "an expression of more than");
    check_nested("{{ 1", " if 1 else 1", "", " }}", 50000, "nested more than");
    check_nested("{{ f", "()", "", " }}", 100000, "an expression of more than");
}

static void test_jinja_recursion_is_bounded(void **state) {
    check_limit("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", &(JinjaOptions){ 0 }, "nested more than");
    check_limit("{% macro m(x) %}{% for i in [1] %}{% if 1 %}{{ [m(x + 1)] }}{% endif %}{% endfor %}{% endmacro %}"
                "{{ m(0) }}",
                &(JinjaOptions){ 0 }, "nested more than");
    check_limit("{% set ns = namespace(l=[]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
                &(JinjaOptions){ 0 }, "nested more than");
    check_limit("{% set ns = namespace(l=[]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor %}"
                "{{ ns.l|tojson }}",
                &(JinjaOptions){ 0 }, "nested more than");
    check_limit("{% set a = namespace(l=[]) %}{% set b = namespace(l=[]) %}{% for i in range(5000) %}"
                "{% set a.l = [a.l] %}{% set b.l = [b.l] %}{% endfor %}{{ a.l == b.l }}",
                &(JinjaOptions){ 0 }, "nested more than");
}

static void test_jinja_steps_memory_output_are_bounded(void **state) {
    static const char endless[] = "{% set l = range(999)|list %}{% for a in l %}{% for b in l %}{% for c in l %}"
                                  "{% endfor %}{% endfor %}{% endfor %}";

    check_limit(endless, &(JinjaOptions){ 0 }, "too many steps");
    check_limit("{{ 'x' * 100000000000 }}", &(JinjaOptions){ 0 }, "memory");
    check_limit("{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
                &(JinjaOptions){ .steps_max = UINT64_MAX }, "MiB of memory");
    check_limit(
        "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        &(JinjaOptions){ 0 }, "MiB of memory");
    check_limit("{% for i in range(1000) %}0123456789{% endfor %}", &(JinjaOptions){ .output_bytes_max = 5000 },
                "the prompt passes 5000 bytes");
    check_limit("{{ range(100000) }}", &(JinjaOptions){ .memory_bytes_max = 20000 }, "memory");
    check_limit("{{ 'a\\nb'|indent(10000000000) }}", &(JinjaOptions){ 0 }, "memory");
    check_limit("{{ {}|tojson(indent=10000000000) }}", &(JinjaOptions){ 0 }, "memory");
}

/* Variables of a body are looked for one by one, which costs steps where there are many. */
static void test_jinja_many_variables_cost_steps(void **state) {
    _cleanup_(str_buf_deinit) StrBuf source = STR_BUF_NULL;

    str_buf_add(&source, "{% for i in range(100) %}");
    for (int k = 0; k < 200; k++)
        str_buf_addf(&source, "{%% set v%d = 1 %%}", k);
    str_buf_add(&source, "{% endfor %}");
    check_limit(source.data, &(JinjaOptions){ .steps_max = 100000 }, "too many steps");
}

/* A text that grows by bits is not copied each time: a megabyte in ten thousand steps takes a few megabytes. */
static void test_jinja_texts_grow_in_place(void **state) {
    static const char *const sources[] = {
        "{% set ns = namespace(s='') %}{% for i in range(10000) %}{% set ns.s = ns.s ~ '",
        "{% set ns = namespace(s='') %}{% for i in range(10000) %}{% set ns.s = ns.s + '",
    };

    for (size_t i = 0; i < 2; i++) {
        _cleanup_(str_buf_deinit) StrBuf source = STR_BUF_NULL;
        JinjaCase one;

        str_buf_add(&source, sources[i]);
        for (int k = 0; k < 100; k++)
            str_buf_add(&source, "x");
        str_buf_add(&source, "' %}{% endfor %}{{ ns.s|length }}");
        jinja_case_init(&one, source.data, source.len_bytes, NULL,
                        &(JinjaOptions){ .memory_bytes_max = 16u << 20, .steps_max = 200000 });
        assert_int_equal(one.r, 0);
        assert_memory_equal(one.output.data, "1000000", 7);
        jinja_case_deinit(&one);
    }
}

/* A text that is continued in place does not change. */
static void test_jinja_texts_never_change(void **state) {
    static const char source[] = "{% set a = 'x' ~ 'y' %}{% set b = a ~ '1' %}{% set c = a ~ '2' %}"
                                 "{% set d = b[:2] ~ '3' %}{{ a }},{{ b }},{{ c }},{{ d }}";
    JinjaCase one;

    jinja_case_init(&one, source, strlen(source), NULL, &(JinjaOptions){ 0 });
    assert_int_equal(one.r, 0);
    assert_int_equal(one.output.len_bytes, 14);
    assert_memory_equal(one.output.data, "xy,xy1,xy2,xy3", 14);
    jinja_case_deinit(&one);
}

static void test_jinja_memory_is_on_an_account(void **state) {
    const JinjaOptions options = { .account = ACCOUNT_ACTIVATIONS };
    JinjaOptions charged = options;
    AccountTable accounts = { 0 };
    JinjaCase one;

    account_table_init(&accounts);
    accounts.limit_bytes[ACCOUNT_ACTIVATIONS] = 100000;
    charged.accounts = &accounts;
    jinja_case_init(&one, "{{ 'x' * 1000 }}", 16, NULL, &charged);
    assert_int_equal(one.r, 0);
    assert_in_range(accounts.used_bytes[ACCOUNT_ACTIVATIONS], 2000, 100000);
    jinja_case_deinit(&one);
    assert_int_equal(accounts.used_bytes[ACCOUNT_ACTIVATIONS], 0);
    jinja_case_init(&one, "{{ 'x' * 1000000 }}", 19, NULL, &charged);
    assert_int_equal(one.r, JINJA_E_ACCOUNT);
    jinja_case_deinit(&one);
    assert_int_equal(accounts.used_bytes[ACCOUNT_ACTIVATIONS], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jinja_golden_expressions),
        cmocka_unit_test(test_jinja_errors_name_line_and_construct),
        cmocka_unit_test(test_jinja_refuses_by_name),
        cmocka_unit_test(test_jinja_nesting_is_bounded),
        cmocka_unit_test(test_jinja_recursion_is_bounded),
        cmocka_unit_test(test_jinja_steps_memory_output_are_bounded),
        cmocka_unit_test(test_jinja_many_variables_cost_steps),
        cmocka_unit_test(test_jinja_texts_grow_in_place),
        cmocka_unit_test(test_jinja_texts_never_change),
        cmocka_unit_test(test_jinja_memory_is_on_an_account),
    };

    setenv("TZ", "UTC", 1);
    tzset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
