// SPDX-License-Identifier: Apache-2.0
/* Tests of the text of /metrics, of replies that a service's side sends. */
#undef NDEBUG
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/endpoints/metrics_text.h"
#include "test/unit/client/client_peer.h"

static char kv[] = "kv", weights[] = "weights", version[] = "9.9.9", isa[] = "avx2", odd[] = "a \"b\"\\c\nd";

static void send_status(Peer *peer, uint64_t id, bool is_administrator) {
    Coordgen__V1__StatusReply status = COORDGEN__V1__STATUS_REPLY__INIT;
    Coordgen__V1__MemoryAccount memory[2] = { COORDGEN__V1__MEMORY_ACCOUNT__INIT, COORDGEN__V1__MEMORY_ACCOUNT__INIT };
    Coordgen__V1__MemoryAccount *list[] = { &memory[0], &memory[1] };
    Coordgen__V1__Model model = COORDGEN__V1__MODEL__INIT;
    Coordgen__V1__Model *models[] = { &model };

    memory[0].name = kv;
    memory[0].has_used_bytes = true;
    memory[0].used_bytes = 4096;
    memory[1].name = weights;
    status.memory = list;
    status.n_memory = is_administrator ? 2 : 0;
    model.name = odd;
    model.has_state = true;
    model.state = COORDGEN__V1__MODEL_STATE__MODEL_STATE_READY;
    status.models = models;
    status.n_models = 1;
    status.service_version = version;
    status.isa = isa;
    status.has_uptime_us = status.has_requests_done = status.has_output_tokens = status.has_preemptions = true;
    status.uptime_us = 1500007;
    status.requests_done = 3;
    status.output_tokens = UINT64_MAX;
    status.preemptions = 5;
    RESPONSE(response, STATUS, status, &status);
    peer_send(peer, &response, id);
}

static void script(Peer *peer) {
    for (int i = 0; i < 2; i++) {
        _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;

        if ((!i && !peer_hello(peer)) || !(request = peer_next(peer)))
            return;
        send_status(peer, request->request_id, i == 0);
    }
    frame_request_free(peer_next(peer));
}

static void expect(const StrBuf *text, const char *line) {
    if (!strstr(text->data, line))
        fail_msg("no line %s in\n%s", line, text->data);
}

/* Checks the format line by line: HELP, TYPE, then samples of that name alone. */
static void check_format(const StrBuf *text) {
    _cleanup_(freep) char *copy = strdup(text->data);
    char *rest = copy, *line, name[64] = "";

    assert_int_equal(text->data[text->len_bytes - 1], '\n');
    while ((line = strsep(&rest, "\n")) && rest) {
        if (!strncmp(line, "# HELP ", 7)) {
            snprintf(name, sizeof(name), "%.*s", (int)strcspn(line + 7, " "), line + 7);
            line = strsep(&rest, "\n");
            assert_memory_equal(line, "# TYPE ", 7);
            assert_memory_equal(line + 7, name, strlen(name));
            line += 7 + strlen(name);
            assert_true(!strcmp(line, " counter") || !strcmp(line, " gauge"));
            assert_int_equal(!strcmp(line, " counter"), !strcmp(name + strlen(name) - 6, "_total"));
            continue;
        }
        assert_memory_equal(line, name, strlen(name));
        line += strlen(name);
        if (*line == '{')
            line = strrchr(line, '}') + 1;
        assert_int_equal(*line++, ' ');
        strtod(line, &line);
        assert_int_equal(*line, 0);
    }
}

static void test_metrics_text(void **state) {
    Peer peer = { 0 };
    CoordgenClient *client = peer_connect(&peer, script);

    for (int i = 0; i < 2; i++) {
        _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
        CoordgenReply *reply = NULL;

        assert_int_equal(coordgen_status(client, -1, &reply), 0);
        metrics_text(&text, reply);
        coordgen_reply_unref(reply);
        check_format(&text);
        expect(&text, "\ncoordgen_build_info{version=\"9.9.9\",isa=\"avx2\"} 1\n");
        expect(&text, "\ncoordgen_uptime_seconds 1.500007\n");
        expect(&text, "\ncoordgen_requests_total{outcome=\"done\"} 3\n");
        expect(&text, "\ncoordgen_output_tokens_total 18446744073709551615\n");
        expect(&text, "\ncoordgen_model_ready{model=\"a \\\"b\\\"\\\\c\\nd\"} 1\n");
        /* Others' figures are left out, not told as 0. */
        assert_int_equal(strstr(text.data, "coordgen_preemptions_total 5\n") != NULL, i == 0);
        assert_int_equal(strstr(text.data, "coordgen_account_used_bytes{account=\"kv\"} 4096\n") != NULL, i == 0);
        assert_int_equal(strstr(text.data, "preemptions") != NULL, i == 0);
    }
    peer_end(&peer, client);
}

static void test_metrics_text_of_nothing(void **state) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;

    metrics_text(&text, NULL);
    assert_int_equal(text.len_bytes, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_metrics_text),
                                        cmocka_unit_test(test_metrics_text_of_nothing) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
