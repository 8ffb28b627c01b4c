// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/text/jinja/jinja_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void jinja_case_init(JinjaCase *one, const char *source, size_t len_bytes, const json_t *variables,
                     const JinjaOptions *options) {
    const char *name;
    json_t *value;

    *one = (JinjaCase){ 0 };
    one->r = jinja_template_new(&one->template, source, len_bytes, &one->err);
    if (!one->r)
        one->r = jinja_rendering_new(&one->rendering, one->template, options, &one->err);
    if (one->r)
        return;
    json_object_foreach((json_t *)variables, name, value) {
        char *text = json_dumps(value, JSON_ENCODE_ANY);

        assert_non_null(text);
        assert_in_range(one->n_texts, 0, sizeof(one->texts) / sizeof(one->texts[0]) - 1);
        one->texts[one->n_texts++] = text;
        one->r =
            jinja_put_json(one->rendering, jinja_variable(one->rendering, name), name, text, strlen(text), &one->err);
        if (one->r)
            return;
    }
    one->r = jinja_render(one->rendering, &one->output, &one->err);
}

void jinja_case_deinit(JinjaCase *one) {
    jinja_rendering_free(one->rendering);
    jinja_template_free(one->template);
    while (one->n_texts)
        free(one->texts[--one->n_texts]);
}

json_t *jinja_golden_load(const char *name) {
    json_error_t error;
    json_t *root;
    char path[256];

    snprintf(path, sizeof(path), "test/golden/templates/%s", name);
    root = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (!root)
        fail_msg("%s:%d: %s", path, error.line, error.text);
    return root;
}
